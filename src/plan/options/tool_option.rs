//! The declaration of one option of tools, with its words on the control connection and its keys in
//! the documents.

use std::fmt::Display;
use std::str::FromStr;

use crate::extensions::Extensions;
use crate::tool::Tool;
use crate::tools::has_one_status;
use crate::typed::Typed;
use cli::definition::OptionDef;

/// What an option governs when two processes measure together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governs {
    /// The process that it is given to.
    ThisProcess,
    /// The run, on both sides. The client's option applies; a server ignores its own.
    Run,
    /// The output of the results, which the client has; a server ignores it.
    Results,
}

/// The definition of an option of tools.
pub type Def = OptionDef<Typed>;

/// Which tools take an option.
pub type Takers = fn(&Tool) -> bool;

pub const ALL: Takers = |_| true;
pub const ALONE: Takers = |tool| !tool.has_peer();
pub const PEER: Takers = Tool::has_peer;
pub const LATENCY: Takers = |tool| !tool.measures_bandwidth();
pub const BANDWIDTH: Takers = |tool| tool.has_peer() && tool.measures_bandwidth();
pub const ATOMIC: Takers = |tool| !tool.has_data();
pub const DATA: Takers = Tool::has_data;
pub const CHAINS: Takers = Tool::has_chains;
pub const SENDS: Takers = Tool::sends;
pub const SEND_LATENCY: Takers = |tool| tool.sends() && !tool.measures_bandwidth();
pub const ONE_SIDED: Takers = |tool| tool.is_one_sided() && !tool.has_chains();
pub const IDC: Takers = |tool| tool.defaults.use_idc;
pub const HRP: Takers = |tool| tool.defaults.use_hrp;
pub const LISTS: Takers = Tool::measures_bandwidth;
pub const LIST_BUFFERS: Takers =
    |tool| tool.has_peer() && tool.measures_bandwidth() && tool.has_data();
pub const LEGACY_LOOPBACK: Takers = has_one_status;

/// A label, and a function that returns its value, if the run has this line.
pub type SummaryLine = (&'static str, fn(&Extensions) -> Option<String>);

/// One option of the tools.
#[derive(Debug)]
pub struct ToolOption {
    pub governs: Governs,
    /// Whether the legacy tools have it. An abbreviation of a legacy option never stands for an
    /// option that the legacy tools lack.
    pub legacy: bool,
    /// Whether the short help shows it: most people need it.
    pub frequent: bool,
    pub takers: Takers,
    /// Its words on the control connection, if both sides take part and legacy tools lack it. A
    /// server that does not know a word in use is refused.
    pub words: &'static [OptionWord],
    /// Its keys in the documents, if `report::outcome::Options` does not have them.
    pub keys: &'static [OptionKey],
    /// Its lines in the summary.
    pub lines: &'static [SummaryLine],
    /// The definition for a tool that takes the option.
    pub definition: fn(&Tool) -> Def,
}

impl ToolOption {
    /// The option that the legacy tools have as well.
    pub const fn legacy(self) -> Self {
        Self { legacy: true, ..self }
    }

    /// The option that the short help shows.
    pub const fn frequent(self) -> Self {
        Self { frequent: true, ..self }
    }

    /// The option that has these words on the control connection.
    pub const fn words(self, words: &'static [OptionWord]) -> Self {
        Self { words, ..self }
    }

    /// The option that has these keys in the documents.
    pub const fn keys(self, keys: &'static [OptionKey]) -> Self {
        Self { keys, ..self }
    }

    /// The option that has these lines in the summary.
    pub const fn lines(self, lines: &'static [SummaryLine]) -> Self {
        Self { lines, ..self }
    }
}

/// An option that governs the process that it is given to.
pub const fn process(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption {
        governs: Governs::ThisProcess,
        legacy: false,
        frequent: false,
        takers,
        words: &[],
        keys: &[],
        lines: &[],
        definition,
    }
}

/// An option that governs the run.
pub const fn run(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Run, ..process(takers, definition) }
}

/// An option that governs the output of the results.
pub const fn results(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Results, ..process(takers, definition) }
}

/// A key of an option in the documents, where `null` stands for a tool without this option.
#[derive(Debug)]
pub struct OptionKey {
    pub key: &'static str,
    /// Its description in the schema of the documents.
    pub description: &'static str,
    pub value: KeyValue,
    /// Whether CSV has a column of this name.
    pub has_column: bool,
    pub printed: Option<PrintedKey>,
}

/// The label of a line of the summary, and a function that returns the value in the line.
pub type PrintedKey = (&'static str, fn(&str) -> Option<&str>);

/// The value of a run; `None` if it does not apply.
#[derive(Clone, Copy, Debug)]
pub enum KeyValue {
    Number(fn(&Extensions) -> Option<u16>),
    Switch(fn(&Extensions) -> bool),
    Text(fn(&Extensions) -> String),
}

impl OptionKey {
    pub const fn new(key: &'static str, description: &'static str, value: KeyValue) -> Self {
        Self { key, description, value, has_column: false, printed: None }
    }

    /// The key that CSV has as a column.
    pub const fn column(self) -> Self {
        Self { has_column: true, ..self }
    }

    /// The key whose value a line of the summary has.
    pub const fn printed(self, label: &'static str, read: fn(&str) -> Option<&str>) -> Self {
        Self { printed: Some((label, read)), ..self }
    }
}

/// The word of an option.
#[derive(Debug)]
pub struct OptionWord {
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
    /// The value as text if the option is in use.
    Text(fn(&Extensions) -> Option<String>, SetText),
}

/// Sets the value that a text states. Returns `None` if it is not valid.
type SetText = fn(&mut Extensions, &str) -> Option<()>;

impl OptionWord {
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

    /// The value as text if the option is in use; a switch has an empty one.
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
