//! The options of the tools: one block each, with syntax, help, manual and meaning.
//!
//! A tool lists the options that it takes (`Tool::options`). Parser, help text, manual pages and
//! completion are made from these definitions, which stand in one file for each group of the help
//! text. Rules across several options are in `plan`.

mod buffers;
mod client;
mod duration;
mod measured;
mod output;
mod placement;
mod server;

use std::ffi::OsStr;

use super::usage::{Entry, Value};
use crate::plan::typed::Typed;
use crate::tool::{Opt, Tool};

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

/// One option.
#[derive(Debug)]
pub struct OptionDef {
    /// Which option it is.
    pub id: Opt,
    /// Letter of the short form.
    pub short: Option<char>,
    /// Long form, without the dashes.
    pub long: &'static str,
    /// Its value; a switch has none.
    pub value: Option<Value>,
    /// What it governs.
    pub governs: Governs,
    /// Whether the legacy tools have it. An abbreviation of a legacy option never stands for an
    /// option that the legacy tools lack.
    pub legacy: bool,
    /// Whether each given value counts, and not only the last one.
    pub repeats: bool,
    /// Help text, in lines.
    pub help: fn(&Tool) -> String,
    /// Explanation in the manual, in Markdown. Syntax and default stand before and after it.
    pub manual: fn(&Tool) -> &'static str,
    /// Takes a value (empty for a switch, [`LEFT_OUT`] for an omitted value), or returns what is
    /// allowed.
    pub set: fn(&mut Typed, &OsStr) -> Result<(), String>,
}

impl OptionDef {
    /// Returns the option as help, manual and completion of `tool` show it.
    pub fn entry(&self, tool: &Tool) -> Entry {
        Entry {
            short: self.short,
            long: self.long,
            value: self.value,
            help: (self.help)(tool),
            manual: (self.manual)(tool),
        }
    }
}

/// A group of the help text.
#[derive(Debug)]
pub struct Group {
    /// Its title.
    pub title: &'static str,
    /// Its options, in the order of the help text.
    pub options: &'static [OptionDef],
}

/// All options, in the groups and the order of the help text.
pub static GROUPS: [Group; 7] = [
    Group {
        title: "What is measured",
        options: measured::OPTIONS,
    },
    Group {
        title: "How long and how often",
        options: duration::OPTIONS,
    },
    Group {
        title: "Buffers",
        options: buffers::OPTIONS,
    },
    Group {
        title: "Placement",
        options: placement::OPTIONS,
    },
    Group {
        title: "Output",
        options: output::OPTIONS,
    },
    Group {
        title: "Server",
        options: server::OPTIONS,
    },
    Group {
        title: "Client",
        options: client::OPTIONS,
    },
];

/// Returns the definitions of all options.
pub fn all() -> impl Iterator<Item = &'static OptionDef> {
    GROUPS.iter().flat_map(|group| group.options)
}

/// Returns the definition of an option.
pub fn definition(id: Opt) -> &'static OptionDef {
    let defined = all().find(|option| option.id == id);
    defined.expect("each option is defined; a test counts them")
}

/// Returns the options of `tool`, in the order of its help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = &'static OptionDef> {
    tool.options().map(definition)
}
