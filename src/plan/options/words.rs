//! The words of the control connection for options that the legacy tools lack. A client sends the
//! options in use with its version; a server that does not know one of them is refused.

use super::shared;
use super::tool_option::OptionWord;
use crate::extensions::Extensions;

/// Returns all words in their order.
fn all() -> impl Iterator<Item = &'static OptionWord> {
    shared().into_iter().flat_map(|option| option.words)
}

/// Returns the options in use with their values, as one word: `pairs:4,reverse`; empty if there are
/// none.
pub fn to_word(extensions: &Extensions) -> String {
    let in_use = all().filter_map(|word| {
        let value = word.value(*extensions)?;
        let name = word.name;
        Some(if value.is_empty() { name.to_owned() } else { format!("{name}:{value}") })
    });
    in_use.collect::<Vec<_>>().join(",")
}

/// Returns the options of a word.
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
pub fn set_known(extensions: &mut Extensions, word: &str) {
    for item in word.split(',') {
        set_item(extensions, item);
    }
}

/// Sets one option of a word. Returns `None` if it is unknown or its value is invalid.
fn set_item(extensions: &mut Extensions, item: &str) -> Option<()> {
    let (name, value) = item.split_once(':').unwrap_or((item, ""));
    all().find(|word| word.name == name)?.set(extensions, value)
}

/// Returns the names of all options, as one word.
pub fn all_names() -> String {
    all().map(|word| word.name).collect::<Vec<_>>().join(",")
}

/// Returns the first option in use that is not in `known`, a word of names.
pub fn first_unknown(extensions: &Extensions, known: &str) -> Option<&'static str> {
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
        assert!(all_names().starts_with(names));
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
        set_known(&mut extensions, "quick,pairs:x,,duration:1500ms,rate");
        let duration = SOME.duration;
        let expected = Extensions { duration, ..Extensions::NONE };
        assert_eq!(extensions, expected);
    }

    #[test]
    fn finds_first_option_that_peer_lacks() {
        assert_eq!(first_unknown(&SOME, &all_names()), None);
        assert_eq!(first_unknown(&SOME, "pairs,threads,verify"), Some("reverse"));
        assert_eq!(first_unknown(&SOME, ""), Some("threads"));
        assert_eq!(first_unknown(&Extensions::NONE, ""), None);
    }

    /// An older cxidiag takes one number of posted entries, and refuses a range by its name.
    #[test]
    fn a_range_of_posted_entries_has_its_own_name() {
        let posted = |text: &str| Extensions { posted: text.parse().unwrap(), ..Extensions::NONE };
        let range = posted("0:64");
        assert_eq!(to_word(&range), "posted=RANGE:0:64");
        assert_eq!(from_word(&to_word(&range)), Ok(range));
        assert_eq!(first_unknown(&range, "posted,hops"), Some("posted=RANGE"));
        assert_eq!(first_unknown(&posted("64"), "posted,hops"), None);
    }

    proptest! {
        #[test]
        fn accepts_any_word_without_panic(word in "\\PC{0,40}") {
            let _ = from_word(&word).map(Extensions::checked);
        }
    }
}
