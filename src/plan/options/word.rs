//! The word of the control connection for an option that the legacy tools lack.

use std::fmt::Display;
use std::str::FromStr;

use crate::extensions::Extensions;

/// The word of an option.
#[derive(Debug)]
pub struct Word {
    /// Place among all words, whose order stays. A new word comes last.
    pub place: u8,
    pub name: &'static str,
    value: WordValue,
}

/// The value of a word, in `Extensions`.
#[derive(Debug)]
enum WordValue {
    /// The word alone means that the option is in use.
    Switch(fn(&mut Extensions) -> &mut bool),
    /// The option is in use if the number differs from [`Extensions::NONE`].
    Number(fn(&mut Extensions) -> &mut u16),
    /// Returns the value as text if the option is in use.
    Text(fn(&Extensions) -> Option<String>, SetText),
}

/// Sets the value that a text states. Returns `None` if it is not valid.
type SetText = fn(&mut Extensions, &str) -> Option<()>;

impl Word {
    pub const fn switch(
        place: u8,
        name: &'static str,
        part: fn(&mut Extensions) -> &mut bool,
    ) -> Self {
        Self { place, name, value: WordValue::Switch(part) }
    }

    pub const fn number(
        place: u8,
        name: &'static str,
        part: fn(&mut Extensions) -> &mut u16,
    ) -> Self {
        Self { place, name, value: WordValue::Number(part) }
    }

    pub const fn text(
        place: u8,
        name: &'static str,
        text: fn(&Extensions) -> Option<String>,
        set: SetText,
    ) -> Self {
        Self { place, name, value: WordValue::Text(text, set) }
    }

    /// Returns the value as text if the option is in use; a switch has an empty one.
    pub fn value(&self, mut extensions: Extensions) -> Option<String> {
        match self.value {
            WordValue::Switch(part) => part(&mut extensions).then(String::new),
            WordValue::Number(part) => {
                let mut none = Extensions::NONE;
                let number = *part(&mut extensions);
                text(number != *part(&mut none), number)
            }
            WordValue::Text(text, _) => text(&extensions),
        }
    }

    /// Sets the value that [`Self::value`] returned. Returns `None` if it is not valid.
    pub fn set(&self, extensions: &mut Extensions, text: &str) -> Option<()> {
        match self.value {
            WordValue::Switch(part) => text.is_empty().then(|| *part(extensions) = true),
            WordValue::Number(part) => set(part(extensions), text),
            WordValue::Text(_, set) => set(extensions, text),
        }
    }
}

/// Sets `value` to what `text` states. Returns `None` if the text is not valid.
pub fn set<T: FromStr>(value: &mut T, text: &str) -> Option<()> {
    *value = text.parse().ok()?;
    Some(())
}

/// Returns `value` as text if the option is in use.
pub fn text(is_used: bool, value: impl Display) -> Option<String> {
    is_used.then(|| value.to_string())
}
