//! The options of the tools: one block each, with syntax, help, manual and meaning.
//!
//! A tool says which options it takes (`Tool::takes`). Parser, help text, manual pages and
//! completion are made from these definitions, which stand in one file for each group of the help
//! text. Rules across several options are in `plan`.

mod buffers;
mod client;
mod connection;
mod duration;
mod measured;
mod output;
mod placement;
mod server;
mod tool_option;

use crate::tool::{Opt, Tool};
use crate::tools::{TOOLS, peer_tools};
pub use tool_option::{Def, Governs, ToolOption};

/// A group of the help text.
#[derive(Debug)]
pub struct OptionGroup {
    pub title: &'static str,
    /// Its options, in the order of the help text.
    pub options: &'static [ToolOption],
}

/// All options, in the groups and the order of the help text.
pub static GROUPS: [OptionGroup; 8] = [
    OptionGroup { title: "What is measured", options: measured::OPTIONS },
    OptionGroup { title: "How long and how often", options: duration::OPTIONS },
    OptionGroup { title: "Buffers", options: buffers::OPTIONS },
    OptionGroup { title: "Placement", options: placement::OPTIONS },
    OptionGroup { title: "Output", options: output::OPTIONS },
    OptionGroup { title: "Connection", options: connection::OPTIONS },
    OptionGroup { title: "Server", options: server::OPTIONS },
    OptionGroup { title: "Client", options: client::OPTIONS },
];

/// Returns the options of `tool` with their definitions, in the order of the help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = (&'static ToolOption, Def)> {
    let all = GROUPS.iter().flat_map(|group| group.options);
    let taken = all.filter(|option| tool.takes(option.id));
    taken.map(|option| (option, (option.definition)(tool)))
}

/// Why a tool lacks an option, where its name does not say it.
const REASONS: [(Opt, &str); 2] = {
    const OF_ATOMICS: &str = "the atomic type (--atomic-type) determines the size";
    [(Opt::Size, OF_ATOMICS), (Opt::AllSizes, OF_ATOMICS)]
};

/// Returns the message about an option, `--size` or `-s`, that only tools other than `tool` take.
pub fn other_text(tool: &Tool, typed: &str) -> Option<String> {
    let (option, definition) = TOOLS.iter().flat_map(of).find(|(_, definition)| {
        let short = definition.entry.short.map(|letter| format!("-{letter}"));
        short.as_deref() == Some(typed) || typed.strip_prefix("--") == Some(definition.entry.long)
    })?;
    let (id, long) = (option.id, definition.entry.long);
    let own = if tool.takes(Opt::NumXfers) { tool.legacy_name } else { tool.name };
    let name =
        if typed.starts_with("--") { typed.to_owned() } else { format!("{typed} (--{long})") };
    let is_for = |bandwidth: bool| {
        let has_all = |other: &Tool| other.takes(id) == (other.measures_bandwidth() == bandwidth);
        tool.has_peer() && peer_tools().iter().all(has_all)
    };
    let reason = REASONS.iter().find(|(option, _)| *option == id);
    Some(if let Some((_, reason)) = reason {
        format!("{name} is not an option of {own}: {reason}")
    } else if is_for(false) {
        format!("{name} is for latency tools: {own} measures bandwidth")
    } else if is_for(true) {
        format!("{name} is for bandwidth tools: {own} measures latency")
    } else {
        let takers = TOOLS.iter().filter(|other| other.takes(id));
        let takers: Vec<&str> = takers.map(|other| other.name).collect();
        format!("{name} is not an option of {own}: it is for {}", takers.join(", "))
    })
}
