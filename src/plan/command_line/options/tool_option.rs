//! The definition of one option of tools.

use crate::tool::{Opt, Tool};
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

/// One option of the tools.
#[derive(Debug)]
pub struct ToolOption {
    pub id: Opt,
    pub governs: Governs,
    /// Whether the legacy tools have it. An abbreviation of a legacy option never stands for an
    /// option that the legacy tools lack.
    pub legacy: bool,
    /// Returns the definition for a tool that takes the option.
    pub definition: fn(&Tool) -> Def,
}

impl ToolOption {
    /// Returns the option that the legacy tools have as well.
    pub const fn legacy(self) -> Self {
        Self { legacy: true, ..self }
    }
}

/// Returns an option that governs the process that it is given to.
pub const fn process(id: Opt, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { id, governs: Governs::ThisProcess, legacy: false, definition }
}

/// Returns an option that governs the run.
pub const fn run(id: Opt, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Run, ..process(id, definition) }
}

/// Returns an option that governs the output of the results.
pub const fn results(id: Opt, definition: fn(&Tool) -> Def) -> ToolOption {
    ToolOption { governs: Governs::Results, ..process(id, definition) }
}
