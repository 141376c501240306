//! The options of the tools, each declared once: the tools that take it, its syntax, help and
//! meaning, its words on the control connection, and its keys in the documents.
//!
//! Parser, help text, manual pages and completion are made from these declarations, which stand in
//! one file for each group of the help text. Rules across several options are in `plan`.

mod buffers;
mod client;
mod connection;
mod duration;
mod measured;
mod output;
mod placement;
mod server;
mod tool_option;
mod values;
pub mod words;

use crate::extensions::Extensions;
use crate::tool::Tool;
use crate::tools::{TOOLS, has_one_status, peer_tools};
pub use tool_option::{Def, Governs, KeyValue, OptionKey, ToolOption};

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

/// Returns the options that have words on the control connection, in the order of these words.
fn shared() -> Vec<&'static ToolOption> {
    let options = GROUPS.iter().flat_map(|group| group.options);
    let mut shared: Vec<&ToolOption> = options.filter(|option| !option.words.is_empty()).collect();
    shared.sort_by_key(|option| option.words[0].place);
    shared
}

/// Returns the keys that options have in the documents, in their order.
pub fn keys() -> impl Iterator<Item = &'static OptionKey> {
    shared().into_iter().flat_map(|option| option.keys)
}

/// Returns the keys of the options of `tool`.
pub fn keys_of(tool: &Tool) -> impl Iterator<Item = &'static OptionKey> {
    shared_of(tool).flat_map(|option| option.keys)
}

fn shared_of(tool: &Tool) -> impl Iterator<Item = &'static ToolOption> {
    shared().into_iter().filter(|option| (option.takers)(tool))
}

/// Returns the lines that options of `tool` have in the summary of a run.
pub fn lines(tool: &Tool, extensions: &Extensions) -> impl Iterator<Item = (&'static str, String)> {
    let lines = shared_of(tool).flat_map(|option| option.lines);
    lines.filter_map(|(label, value)| Some((*label, value(extensions)?)))
}

/// Returns the options of `tool` with their definitions, in the order of the help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = (&'static ToolOption, Def)> {
    let all = GROUPS.iter().flat_map(|group| group.options);
    let taken = all.filter(|option| (option.takers)(tool));
    taken.map(|option| (option, (option.definition)(tool)))
}

/// Returns the message about an option, `--size` or `-s`, that only tools other than `tool` take.
pub fn other_text(tool: &Tool, typed: &str) -> Option<String> {
    let (option, definition) = TOOLS.iter().flat_map(of).find(|(_, definition)| {
        let short = definition.entry.short.map(|letter| format!("-{letter}"));
        short.as_deref() == Some(typed) || typed.strip_prefix("--") == Some(definition.entry.long)
    })?;
    let long = definition.entry.long;
    let own = if has_one_status(tool) { tool.legacy_name } else { tool.name };
    let name =
        if typed.starts_with("--") { typed.to_owned() } else { format!("{typed} (--{long})") };
    let is_for = |bandwidth: bool| {
        let has_all =
            |other: &Tool| (option.takers)(other) == (other.measures_bandwidth() == bandwidth);
        tool.has_peer() && peer_tools().iter().all(has_all)
    };
    Some(if matches!(long, "size" | "all-sizes") {
        format!(
            "{name} is not an option of {own}: the atomic type (--atomic-type) determines the size"
        )
    } else if is_for(false) {
        format!("{name} is for latency tools: {own} measures bandwidth")
    } else if is_for(true) {
        format!("{name} is for bandwidth tools: {own} measures latency")
    } else {
        let takers = TOOLS.iter().filter(|other| (option.takers)(other));
        let takers: Vec<&str> = takers.map(|other| other.name).collect();
        format!("{name} is not an option of {own}: it is for {}", takers.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_place() {
        let words = shared().into_iter().flat_map(|option| option.words);
        let places: Vec<usize> = words.map(|word| word.place.into()).collect();
        assert_eq!(places, (0..places.len()).collect::<Vec<_>>());
    }

    #[test]
    fn only_latency_tools_take_options_about_latencies() {
        for tool in TOOLS {
            let longs: Vec<&str> = of(tool).map(|(_, own)| own.entry.long).collect();
            for long in ["until", "clock", "show-error", "percentiles", "histogram", "hdr-log"] {
                assert_ne!(longs.contains(&long), tool.measures_bandwidth(), "{}", tool.name);
            }
        }
    }
}
