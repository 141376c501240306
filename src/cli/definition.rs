//! The definition of one option of the tools (`plan::options`): help, manual, completion,
//! declaration and reading are made from it.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ArgMatches;

use super::derived;
use super::usage::{Completion, Entry, Value};
use super::values::{place, text};
use facts::error::{Failure, invalid};
use facts::number::{time, within};
use page::destination::Place;

/// Takes a value (empty for a switch, [`LEFT_OUT`] for an omitted value), or returns what is
/// allowed.
type Setter<T> = Box<dyn Fn(&mut T, &OsStr) -> Result<(), String>>;

/// One option of a tool; `T` is what all of its options set.
pub struct OptionDef<T> {
    /// What help, manual and completion show.
    pub entry: Entry,
    /// Whether each given value counts, and not only the last one.
    pub repeats: bool,
    /// Takes a value.
    pub set: Setter<T>,
}

impl<T: 'static> OptionDef<T> {
    /// An option that takes plain text; help shows the value as `name`.
    pub fn text(
        long: &'static str,
        name: &'static str,
        set: impl Fn(&mut T, &str) -> Result<(), String> + 'static,
    ) -> Self {
        let value = Value::new(name, Completion::Nothing);
        Self::new(long, Some(value), move |all, value| set(all, text(value)?))
    }

    /// An option whose value `read` makes from plain text; help shows the value as `name`.
    pub fn value<R: 'static, E: 'static, V: From<R> + 'static>(
        long: &'static str,
        name: &'static str,
        read: fn(&str) -> Result<R, E>,
        part: fn(&mut T) -> &mut V,
    ) -> Self
    where
        String: From<E>,
    {
        Self::text(long, name, move |all, value| {
            *part(all) = V::from(read(value)?);
            Ok(())
        })
    }

    /// An option that takes a decimal number; help shows the value as `name`.
    pub fn number<N, V: From<N> + 'static>(
        long: &'static str,
        name: &'static str,
        allowed: RangeInclusive<N>,
        part: fn(&mut T) -> &mut V,
    ) -> Self
    where
        N: Copy + Into<u64> + TryFrom<u64, Error: Display> + 'static,
    {
        Self::text(long, name, move |all, value| {
            let number = within(value, (*allowed.start()).into()..=(*allowed.end()).into())?;
            *part(all) = V::from(N::try_from(number).map_err(|error| error.to_string())?);
            Ok(())
        })
    }

    /// An option that takes a time, in seconds without a unit.
    pub fn time<V: From<Duration> + 'static>(
        long: &'static str,
        allowed: RangeInclusive<Duration>,
        part: fn(&mut T) -> &mut V,
    ) -> Self {
        Self::text(long, "TIME", move |all, value| {
            *part(all) = V::from(time(value, allowed.clone())?);
            Ok(())
        })
    }

    /// An option without a value.
    pub fn switch(long: &'static str, set: fn(&mut T)) -> Self {
        Self::new(long, None, move |all, _| {
            set(all);
            Ok(())
        })
    }

    /// An option that writes a document: to standard output without a value.
    pub fn document(long: &'static str, part: fn(&mut T) -> &mut Option<Place>) -> Self {
        let value = Value::optional("FILE", Completion::Files);
        Self::new(long, Some(value), move |all, value| {
            *part(all) = Some(place(value)?);
            Ok(())
        })
    }

    /// An option without explanations.
    pub fn new(
        long: &'static str,
        value: Option<Value>,
        set: impl Fn(&mut T, &OsStr) -> Result<(), String> + 'static,
    ) -> Self {
        Self {
            entry: Entry { short: None, long, value, text: String::new() },
            repeats: false,
            set: Box::new(set),
        }
    }

    /// Adds the letter of the short form.
    pub fn letter(mut self, letter: char) -> Self {
        self.entry.short = Some(letter);
        self
    }

    /// Replaces what a shell offers for the value.
    pub fn completed_by(mut self, completion: Completion) -> Self {
        if let Some(value) = &mut self.entry.value {
            value.completion = completion;
        }
        self
    }

    /// Lets each given value count, and not only the last one.
    pub fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// Adds the explanation ([`Entry::text`]).
    pub fn explained(mut self, text: impl Into<String>) -> Self {
        self.entry.text = text.into();
        self
    }
}

impl<T> OptionDef<T> {
    /// Whether the option is among the arguments.
    pub fn is_given(&self, matches: &ArgMatches) -> bool {
        derived::is_given(matches, self.entry.long)
    }

    /// Sets what the arguments say. The last value counts, unless each adds to those before it.
    fn read(&self, matches: &ArgMatches, all: &mut T) -> Result<(), Failure> {
        if !self.is_given(matches) {
            return Ok(());
        }
        let long = self.entry.long;
        let mut values: Vec<&OsStr> = match self.entry.value {
            Some(_) => matches
                .get_many::<OsString>(long)
                .unwrap_or_default()
                .map(OsString::as_os_str)
                .collect(),
            None => vec![OsStr::new("")],
        };
        if !self.repeats {
            values.drain(..values.len() - 1);
        }
        let mut result = Ok(());
        for value in values {
            let set = (self.set)(all, value)
                .map_err(|allowed| Failure::usage(invalid(long, value.display(), allowed)));
            result = result.and(set);
        }
        result
    }
}

/// Sets in `all` what the arguments say.
///
/// # Errors
///
/// The first invalid value, which does not keep the options after it from being read.
pub fn read<T>(options: &[OptionDef<T>], matches: &ArgMatches, all: &mut T) -> Result<(), Failure> {
    let results = options.iter().map(|option| option.read(matches, all));
    results.fold(Ok(()), Result::and)
}
