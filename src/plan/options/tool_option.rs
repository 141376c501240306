//! The declaration of one option of tools.

use super::fact::Fact;
use super::word::Word;
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
    pub words: &'static [Word],
    /// Its keys in the documents, if `report::outcome::Options` does not have them.
    pub facts: &'static [Fact],
    /// Its lines in the summary.
    pub lines: &'static [SummaryLine],
    /// Returns the definition for a tool that takes the option.
    pub definition: fn(&Tool) -> Def,
}

impl ToolOption {
    /// Returns the option that the legacy tools have as well.
    pub const fn legacy(self) -> Self {
        Self { legacy: true, ..self }
    }

    /// Returns the option that the short help shows.
    pub const fn frequent(self) -> Self {
        Self { frequent: true, ..self }
    }

    /// Returns the option that has these words on the control connection.
    pub const fn words(self, words: &'static [Word]) -> Self {
        Self { words, ..self }
    }

    /// Returns the option that has these keys in the documents.
    pub const fn facts(self, facts: &'static [Fact]) -> Self {
        Self { facts, ..self }
    }

    /// Returns the option that has these lines in the summary.
    pub const fn lines(self, lines: &'static [SummaryLine]) -> Self {
        Self { lines, ..self }
    }
}

/// Returns an option that governs the process that it is given to.
pub const fn process(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption {
        governs: Governs::ThisProcess,
        legacy: false,
        frequent: false,
        takers,
        words: &[],
        facts: &[],
        lines: &[],
        definition,
    }
}

/// Returns an option that governs the run.
pub const fn run(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Run, ..process(takers, definition) }
}

/// Returns an option that governs the output of the results.
pub const fn results(takers: Takers, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Results, ..process(takers, definition) }
}
