//! Options of a run that the legacy tools do not have, and in which both sides take part.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::depths::{DEPTHS, DepthKind, Depths};
use facts::error::{Invalid, invalid};
use facts::number::{time, time_text};
use facts::rate::Rate;
use node::nic::counter_table::Preset;

/// Largest number of pairs: each one takes a portal index, a portals table entry and several queues
/// of the service.
pub const MAX_PAIRS: u16 = 64;

/// Largest number of hops of a chain: the triggered operations of one NIC (nic.md 9.3) hold the
/// puts of one side, with an event and a message.
pub const MAX_HOPS: u16 = 2 * (2048 - 2);

/// Description of valid numbers of hops, for messages.
pub const HOPS: &str = "expected an even number, 2 to 4092: the last hop ends at the client";

/// Largest number of puts of a fan: the triggered operations of one NIC hold them beside three
/// operations of the other side, and a message of each side.
pub const MAX_FAN: u16 = 2048 - 5;

/// Bounds of `--duration`: the option block has the seconds in 32 bits.
pub const DURATIONS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(u32::MAX as u64);

/// The options that the client sends in addition to the options of the legacy tools. If the server
/// does not know an option that is in use, the client refuses the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// Pairs of queues that work side by side: 1 to [`MAX_PAIRS`]. Each has its own list and
    /// buffers.
    pub pairs: u16,
    /// Threads that drive the pairs of a side which issues lists: 1 to `pairs`.
    pub threads: u16,
    /// The server issues the operations, and the client is their target.
    pub reverse: bool,
    /// Each side sends its own view of a size to the other one.
    pub both_ends: bool,
    /// The side that receives data checks it after each size.
    pub verify: bool,
    /// What each side that issues operations issues per second, with all pairs together; `None` for
    /// as much as it can.
    pub rate: Option<Rate>,
    /// The time for each size, if it is not a whole number of seconds.
    pub duration: Option<Duration>,
    /// The client measures until a signal ends its size; the duration is the longest one.
    pub until_stopped: bool,
    /// The server sends the counters of this preset of its NIC after the last size.
    pub counters: Option<Preset>,
    /// Hops of a chain of triggered puts, an even number up to [`MAX_HOPS`]; 0 in a tool without
    /// chains.
    pub hops: u16,
    /// How the client starts a chain.
    pub start: ChainStart,
    /// Puts that the first put of a chain fires together: 2 to [`MAX_FAN`], or 0 for hops one after
    /// the other.
    pub fan: u16,
    /// List entries that do not match, before the one that receives messages.
    pub posted: Depths,
    /// Messages that are not received, before the one that a receive searches for.
    pub unexpected: Depths,
    /// The client also measures writes of the same sizes.
    pub compare_write: bool,
}

facts::named_enum! {
    /// How the client's software starts a chain of triggered puts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChainStart {
        /// It issues the put of the first hop.
        Put = "put",
        /// It increments the counter of the first put with a command.
        Counter = "counter",
        /// It increments the counter of the first put with one store to the doorbell.
        Doorbell = "doorbell",
    }
    impl Display;
}

impl ChainStart {
    /// Returns the start with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|start| start.name() == name)
    }
}

impl Extensions {
    /// None in use: what the legacy tools do.
    pub const NONE: Self = Self {
        pairs: 1,
        threads: 1,
        reverse: false,
        both_ends: false,
        verify: false,
        rate: None,
        duration: None,
        until_stopped: false,
        counters: None,
        hops: 0,
        start: ChainStart::Put,
        fan: 0,
        posted: Depths::NONE,
        unexpected: Depths::NONE,
        compare_write: false,
    };

    /// Returns what stands before the entry or message that matches, if anything does in any row.
    pub fn depth(&self) -> Option<DepthKind> {
        if self.posted.is_used() {
            return Some(DepthKind::Posted);
        }
        self.unexpected.is_used().then_some(DepthKind::Unexpected)
    }

    /// Returns these options if they are valid together.
    ///
    /// # Errors
    ///
    /// The first option that is invalid.
    pub fn checked(self) -> Result<Self, Invalid> {
        if !(1..=MAX_PAIRS).contains(&self.pairs) {
            return Err(invalid("pairs", self.pairs, format!("expected 1 to {MAX_PAIRS}")));
        }
        if !(1..=self.pairs).contains(&self.threads) {
            let allowed = format!("expected 1 to the number of pairs, {}", self.pairs);
            return Err(invalid("threads", self.threads, allowed));
        }
        if self.hops > MAX_HOPS || !self.hops.is_multiple_of(2) {
            return Err(invalid("hops", self.hops, HOPS));
        }
        if self.fan > MAX_FAN || self.fan == 1 {
            return Err(invalid("fan", self.fan, format!("expected 2 to {MAX_FAN}")));
        }
        if self.fan > 0 && self.compare_write {
            return Err(invalid("fan", self.fan, "not with --compare-write, which needs hops"));
        }
        for (option, depths) in [("posted", self.posted), ("unexpected", self.unexpected)] {
            if !depths.is_valid() {
                return Err(invalid(option, depths, DEPTHS));
            }
        }
        if self.posted.is_used() && self.unexpected.is_used() {
            return Err(invalid(
                "unexpected",
                self.unexpected,
                "not with --posted: one list grows",
            ));
        }
        Ok(self)
    }
}

/// One option: its name on the command line and on the control connection.
pub struct Extension {
    /// Long name of the option.
    pub name: &'static str,
    /// Returns its value as text if it is in use; a switch has an empty one.
    pub value: fn(&Extensions) -> Option<String>,
    /// Sets the value that `value` returned. Returns `None` if it is not valid.
    pub set: fn(&mut Extensions, &str) -> Option<()>,
}

/// All of them.
pub static EXTENSIONS: &[Extension] = &[
    Extension {
        name: "threads",
        value: |extensions| number(extensions.threads),
        set: |extensions, value| value.parse().map(|threads| extensions.threads = threads).ok(),
    },
    Extension {
        name: "pairs",
        value: |extensions| number(extensions.pairs),
        set: |extensions, value| value.parse().map(|pairs| extensions.pairs = pairs).ok(),
    },
    Extension {
        name: "reverse",
        value: |extensions| switch(extensions.reverse),
        set: |extensions, value| value.is_empty().then(|| extensions.reverse = true),
    },
    Extension {
        name: "both-ends",
        value: |extensions| switch(extensions.both_ends),
        set: |extensions, value| value.is_empty().then(|| extensions.both_ends = true),
    },
    Extension {
        name: "verify",
        value: |extensions| switch(extensions.verify),
        set: |extensions, value| value.is_empty().then(|| extensions.verify = true),
    },
    Extension {
        name: "rate",
        value: |extensions| extensions.rate.map(Rate::word),
        set: |extensions, value| value.parse().map(|rate| extensions.rate = Some(rate)).ok(),
    },
    Extension {
        name: "duration",
        value: |extensions| extensions.duration.map(time_text),
        set: |extensions, value| {
            time(value, DURATIONS).map(|time| extensions.duration = Some(time)).ok()
        },
    },
    Extension {
        name: "until-stopped",
        value: |extensions| switch(extensions.until_stopped),
        set: |extensions, value| value.is_empty().then(|| extensions.until_stopped = true),
    },
    Extension {
        name: "counters",
        value: |extensions| extensions.counters.map(|preset| preset.to_string()),
        set: |extensions, value| {
            let preset = value.parse().map(Some);
            preset.map(|preset| extensions.counters = preset).ok()
        },
    },
    Extension {
        name: "hops",
        value: |extensions| (extensions.hops > 0).then(|| extensions.hops.to_string()),
        set: |extensions, value| value.parse().map(|hops| extensions.hops = hops).ok(),
    },
    Extension {
        name: "start",
        value: |extensions| {
            (extensions.start != ChainStart::Put).then(|| extensions.start.to_string())
        },
        set: |extensions, value| ChainStart::named(value).map(|start| extensions.start = start),
    },
    Extension {
        name: "fan",
        value: |extensions| (extensions.fan > 0).then(|| extensions.fan.to_string()),
        set: |extensions, value| value.parse().map(|fan| extensions.fan = fan).ok(),
    },
    Extension {
        name: "posted",
        value: |extensions| depths(extensions.posted, false),
        set: |extensions, value| value.parse().map(|posted| extensions.posted = posted).ok(),
    },
    // A cxidiag that knows one number of posted entries does not know this name.
    Extension {
        name: "posted=RANGE",
        value: |extensions| depths(extensions.posted, true),
        set: |extensions, value| value.parse().map(|posted| extensions.posted = posted).ok(),
    },
    Extension {
        name: "unexpected",
        value: |extensions| {
            extensions.unexpected.is_used().then(|| extensions.unexpected.to_string())
        },
        set: |extensions, value| value.parse().map(|depths| extensions.unexpected = depths).ok(),
    },
    Extension {
        name: "compare-write",
        value: |extensions| switch(extensions.compare_write),
        set: |extensions, value| value.is_empty().then(|| extensions.compare_write = true),
    },
];

fn number(value: u16) -> Option<String> {
    (value > 1).then(|| value.to_string())
}

/// Returns depths in use as text, if they are a range or not.
fn depths(depths: Depths, is_range: bool) -> Option<String> {
    (depths.is_used() && depths.is_range() == is_range).then(|| depths.to_string())
}

fn switch(value: bool) -> Option<String> {
    value.then(String::new)
}

/// Returns the options in use with their values, as one word: `pairs:4,reverse`; empty if there are
/// none.
pub fn to_word(extensions: &Extensions) -> String {
    let in_use = EXTENSIONS.iter().filter_map(|extension| {
        let value = (extension.value)(extensions)?;
        Some(if value.is_empty() {
            extension.name.to_owned()
        } else {
            format!("{}:{value}", extension.name)
        })
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
        if set(&mut extensions, item).is_none() {
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
        set(extensions, item);
    }
}

/// Sets one option of a word. Returns `None` if it is unknown or its value is invalid.
fn set(extensions: &mut Extensions, item: &str) -> Option<()> {
    let (name, value) = item.split_once(':').unwrap_or((item, ""));
    let known = EXTENSIONS.iter().find(|extension| extension.name == name)?;
    (known.set)(extensions, value)
}

/// Returns the names of all options, as one word.
pub fn all_names() -> String {
    let names: Vec<_> = EXTENSIONS.iter().map(|extension| extension.name).collect();
    names.join(",")
}

/// Returns the first option in use that is not in `known`, a word of names.
pub fn first_unknown(extensions: &Extensions, known: &str) -> Option<&'static str> {
    EXTENSIONS
        .iter()
        .filter(|extension| (extension.value)(extensions).is_some())
        .map(|extension| extension.name)
        .find(|name| !known.split(',').any(|other| other == *name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        start: ChainStart::Doorbell,
        fan: 16,
        posted: Depths { least: 100, most: 100 },
        unexpected: Depths { least: 0, most: 64 },
        compare_write: true,
    };

    #[test]
    fn round_trips_through_word() {
        assert_eq!(to_word(&Extensions::NONE), "");
        let word = "threads:2,pairs:4,reverse,both-ends,verify,rate:500000000B/s,duration:1500ms,\
                    until-stopped,counters:quick,hops:64,start:doorbell,fan:16,posted:100,\
                    unexpected:0:64,compare-write";
        assert_eq!(to_word(&SOME), word);
        assert_eq!(from_word(&to_word(&SOME)), Ok(SOME));
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

    #[test]
    fn limits_pairs_and_threads() {
        let with = |pairs, threads| Extensions { pairs, threads, ..Extensions::NONE };
        for (pairs, threads, valid) in [
            (1, 1, true),
            (MAX_PAIRS, MAX_PAIRS, true),
            (0, 0, false),
            (2, 0, false),
            (2, 3, false),
            (MAX_PAIRS + 1, 1, false),
        ] {
            let checked = with(pairs, threads).checked();
            assert_eq!(checked.is_ok(), valid, "{pairs} {threads}");
        }
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

    #[test]
    fn posted_entries_and_unexpected_messages_exclude_each_other() {
        let with = |posted, unexpected| Extensions { posted, unexpected, ..Extensions::NONE };
        let some = Depths { least: 0, most: 4 };
        assert!(with(some, Depths::NONE).checked().is_ok());
        assert!(with(Depths::NONE, some).checked().is_ok());
        assert!(with(some, some).checked().is_err());
        assert!(with(Depths { least: 2, most: 1 }, Depths::NONE).checked().is_err());
    }

    #[test]
    fn a_fan_has_several_puts_and_no_writes_beside_it() {
        for (fan, compare_write, valid) in
            [(0, true, true), (1, false, false), (2, false, true), (2, true, false)]
        {
            let extensions = Extensions { fan, compare_write, ..Extensions::NONE };
            assert_eq!(extensions.checked().is_ok(), valid, "{fan}");
        }
        let beyond = Extensions { fan: MAX_FAN + 1, ..Extensions::NONE };
        assert!(beyond.checked().is_err());
    }

    #[test]
    fn chains_have_an_even_number_of_hops() {
        for (hops, valid) in [(0, true), (2, true), (3, false), (MAX_HOPS, true), (4094, false)] {
            let extensions = Extensions { hops, ..Extensions::NONE };
            assert_eq!(extensions.checked().is_ok(), valid, "{hops}");
        }
    }

    proptest! {
        #[test]
        fn accepts_any_word_without_panic(word in "\\PC{0,40}") {
            let _ = from_word(&word).map(Extensions::checked);
        }
    }
}
