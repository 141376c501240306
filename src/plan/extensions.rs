//! Options of a run that the legacy tools do not have, and in which both sides take part.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::depths::{DEPTHS, DepthKind, Depths};
use facts::error::{Invalid, invalid};
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
    /// The start with this name.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
