//! The definition of one option of tools.

use std::ffi::OsStr;

use crate::cli::definition::OptionDef;
use crate::cli::usage::{Entry, Value};
use crate::tool::{Opt, Tool};
use crate::typed::Typed;

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

/// The options of which each given value counts, and not only the last one.
const REPEATED: [Opt; 2] = [Opt::Expect, Opt::Label];

/// One option of the tools, whose explanation depends on the tool.
#[derive(Debug)]
pub struct ToolOption {
    pub id: Opt,
    /// Letter of the short form.
    pub short: Option<char>,
    /// Long form, without the dashes.
    pub long: &'static str,
    /// Its value; a switch has none.
    pub value: Option<Value>,
    pub governs: Governs,
    /// Whether the legacy tools have it. An abbreviation of a legacy option never stands for an
    /// option that the legacy tools lack.
    pub legacy: bool,
    /// Its explanation ([`Entry::text`]).
    pub text: fn(&Tool) -> String,
    /// Takes a value, or returns what is allowed. The value of a switch is empty, an omitted value
    /// is [`crate::cli::values::LEFT_OUT`].
    pub set: fn(&mut Typed, &OsStr) -> Result<(), String>,
}

impl ToolOption {
    /// Returns the definition of the option for `tool`.
    pub fn of(&self, tool: &Tool) -> OptionDef<Typed> {
        // `-i` is --iters under the legacy name of `loopback-bw`.
        let is_taken = self.id == Opt::Interval && tool.takes(Opt::LoopIters);
        OptionDef {
            entry: Entry {
                short: self.short.filter(|_| !is_taken),
                long: self.long,
                value: self.value,
                text: (self.text)(tool),
            },
            repeats: REPEATED.contains(&self.id),
            set: Box::new(self.set),
        }
    }
}
