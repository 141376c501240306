//! The options of the tools, each declared once: the tools that take it, its syntax, help and
//! meaning, its words on the control connection, and its keys in the documents.
//!
//! Parser, help text, manual pages and completion are made from these declarations, which stand in
//! files for the groups of the help text. Rules across several options are in `plan`.
//!
//! The words of the control connection are for options that the legacy tools lack. A client sends
//! the options in use with its version; a server that does not know one of them is refused.

mod buffers;
mod connection;
mod duration;
mod measured;
mod output;
mod placement;
mod tool_option;
mod values;

use crate::extensions::Extensions;
use crate::tool::Tool;
use crate::tools::{TOOLS, has_one_status, peer_tools};
use tool_option::OptionWord;

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
    OptionGroup { title: "Connection", options: connection::BOTH_SIDES },
    OptionGroup { title: "Server", options: connection::SERVER },
    OptionGroup { title: "Client", options: connection::CLIENT },
];

/// The options that have words on the control connection, in the order of these words.
fn shared() -> Vec<&'static ToolOption> {
    let options = GROUPS.iter().flat_map(|group| group.options);
    let mut shared: Vec<&ToolOption> = options.filter(|option| !option.words.is_empty()).collect();
    shared.sort_by_key(|option| option.words[0].place);
    shared
}

/// The keys that options have in the documents, in their order.
pub fn keys() -> impl Iterator<Item = &'static OptionKey> {
    shared().into_iter().flat_map(|option| option.keys)
}

/// The keys of the options of `tool`.
pub fn keys_of(tool: &Tool) -> impl Iterator<Item = &'static OptionKey> {
    shared_of(tool).flat_map(|option| option.keys)
}

fn shared_of(tool: &Tool) -> impl Iterator<Item = &'static ToolOption> {
    shared().into_iter().filter(|option| (option.takers)(tool))
}

/// The lines that options of `tool` have in the summary of a run.
pub fn lines(tool: &Tool, extensions: &Extensions) -> impl Iterator<Item = (&'static str, String)> {
    let lines = shared_of(tool).flat_map(|option| option.lines);
    lines.filter_map(|(label, value)| Some((*label, value(extensions)?)))
}

/// The options of `tool` with their definitions, in the order of the help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = (&'static ToolOption, Def)> {
    let all = GROUPS.iter().flat_map(|group| group.options);
    let taken = all.filter(|option| (option.takers)(tool));
    taken.map(|option| (option, (option.definition)(tool)))
}

/// The message about an option, `--size` or `-s`, that only tools other than `tool` take.
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

/// All words in their order.
fn all() -> impl Iterator<Item = &'static OptionWord> {
    shared().into_iter().flat_map(|option| option.words)
}

/// The options in use with their values, as one word: `pairs:4,reverse`; empty if there are none.
pub fn to_word(extensions: &Extensions) -> String {
    let in_use = all().filter_map(|word| {
        let value = word.value(*extensions)?;
        let name = word.name;
        Some(if value.is_empty() { name.to_owned() } else { format!("{name}:{value}") })
    });
    in_use.collect::<Vec<_>>().join(",")
}

/// The options of a word.
///
/// # Errors
///
/// An unknown option, or an invalid value.
pub fn from_word(word: &str) -> Result<Extensions, String> {
    let mut extensions = Extensions::NONE;
    for item in word.split(',') {
        if set_item(&mut extensions, item).is_none() {
            let shown: String = item.chars().take(40).collect();
            return Err(format!("unknown option '{shown}'"));
        }
    }
    Ok(extensions)
}

/// Sets the options of a word in `extensions`. Those that are unknown, or have an invalid value,
/// are skipped.
pub fn set_known_words(extensions: &mut Extensions, word: &str) {
    for item in word.split(',') {
        set_item(extensions, item);
    }
}

/// Sets one option of a word. Returns `None` if it is unknown or its value is invalid.
fn set_item(extensions: &mut Extensions, item: &str) -> Option<()> {
    let (name, value) = item.split_once(':').unwrap_or((item, ""));
    all().find(|word| word.name == name)?.set(extensions, value)
}

/// The names of all options, as one word.
pub fn word_names() -> String {
    all().map(|word| word.name).collect::<Vec<_>>().join(",")
}

/// The first option in use that is not in `known`, a word of names.
pub fn first_unknown_word(extensions: &Extensions, known: &str) -> Option<&'static str> {
    let in_use = all().filter(|word| word.value(*extensions).is_some());
    in_use.map(|word| word.name).find(|name| !known.split(',').any(|other| other == *name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use facts::rate::Rate;
    use node::nic::counter_table::Preset;
    use proptest::prelude::*;

    use super::*;
    use crate::depths::Depths;
    use crate::extensions::ChainStart;

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

    const SOME: Extensions = Extensions {
        pairs: 4,
        threads: 2,
        reverse: true,
        both_ends: true,
        verify: true,
        rate: Some(Rate::Bytes(500_000_000)),
        duration: Some(Duration::from_millis(1500)),
        until_stopped: true,
        counters: Some(Preset::Quick),
        hops: 64,
        fan: 16,
        posted: Depths { least: 100, most: 100 },
        unexpected: Depths { least: 0, most: 64 },
        compare_write: true,
        ..Extensions::NONE
    };

    #[test]
    fn round_trips_through_word() {
        assert_eq!(to_word(&Extensions::NONE), "");
        let names = "threads,pairs,reverse,both-ends,verify,rate,duration,until-stopped,counters,\
                     hops,start,fan,posted,posted=RANGE,unexpected,compare-write";
        assert!(word_names().starts_with(names));
        let word = "threads:2,pairs:4,reverse,both-ends,verify,rate:500000000B/s,duration:1500ms,\
                    until-stopped,counters:quick,hops:64,fan:16,posted:100,\
                    unexpected:0:64,compare-write";
        assert_eq!(to_word(&SOME), word);
        assert_eq!(from_word(&to_word(&SOME)), Ok(SOME));
        let start = Extensions { start: ChainStart::Doorbell, ..Extensions::NONE };
        assert_eq!(to_word(&start), "start:doorbell");
        assert_eq!(from_word("start:doorbell"), Ok(start));
    }

    #[test]
    fn refuses_unknown_option_and_invalid_value() {
        for word in [
            "",
            "quick",
            "pairs",
            "pairs:x",
            "pairs:65536",
            "verify:1",
            "verify,",
            "rate",
            "rate:0",
            "duration",
            "duration:0ns",
            "counters",
            "hops:x",
            "posted:2:1",
            "unexpected:16384",
            "start:gpu",
        ] {
            assert!(from_word(word).is_err(), "{word}");
        }
    }

    #[test]
    fn skips_unknown_option_and_invalid_value() {
        let mut extensions = Extensions::NONE;
        set_known_words(&mut extensions, "quick,pairs:x,,duration:1500ms,rate");
        let duration = SOME.duration;
        let expected = Extensions { duration, ..Extensions::NONE };
        assert_eq!(extensions, expected);
    }

    #[test]
    fn finds_first_option_that_peer_lacks() {
        assert_eq!(first_unknown_word(&SOME, &word_names()), None);
        assert_eq!(first_unknown_word(&SOME, "pairs,threads,verify"), Some("reverse"));
        assert_eq!(first_unknown_word(&SOME, ""), Some("threads"));
        assert_eq!(first_unknown_word(&Extensions::NONE, ""), None);
    }

    /// An older cxidiag takes one number of posted entries, and refuses a range by its name.
    #[test]
    fn a_range_of_posted_entries_has_its_own_name() {
        let posted = |text: &str| Extensions { posted: text.parse().unwrap(), ..Extensions::NONE };
        let range = posted("0:64");
        assert_eq!(to_word(&range), "posted=RANGE:0:64");
        assert_eq!(from_word(&to_word(&range)), Ok(range));
        assert_eq!(first_unknown_word(&range, "posted,hops"), Some("posted=RANGE"));
        assert_eq!(first_unknown_word(&posted("64"), "posted,hops"), None);
    }

    proptest! {
        #[test]
        fn accepts_any_word_without_panic(word in "\\PC{0,40}") {
            let _ = from_word(&word).map(Extensions::checked);
        }
    }
}
