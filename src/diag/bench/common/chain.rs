//! One side of a chain of triggered puts between two NICs (nic.md 3.12, 9.3).
//!
//! Each side counts the puts that arrive, and has puts that wait for its counter: a put that
//! arrives launches the next one, without software. All commands of a side are in one trigger
//! queue, which the NIC executes in order.

use std::fmt;

use cxi::Counts;
use cxi::records::{FullDmaCmd, NomatchDmaCmd};

use super::Initiator;
use super::triggered_counter::CounterQueue;
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use facts::text::plural;
use plan::extensions::ChainStart;
use plan::run_options::{RunOptions, Side};

/// Slots beside the slots of the puts of a chain: an event, a message to the peer, a cancellation
/// and a reading of the counter, padding, and the slots that the NIC leaves unused (nic.md 2.4).
const FURTHER_SLOTS: u32 = 16;

const NOT_ARMED: &str = "cannot arm a chain of triggered puts";

/// The hops of a chain that start at one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hops {
    /// Hops of the whole chain.
    all: u16,
    /// Puts of this side that wait for its counter: the first one for one count, and so on.
    puts: u16,
    /// Number of the hop that the first of these puts makes, counted from 1 in the whole chain.
    first: u16,
    /// Counts of this side in one chain.
    counts: u16,
    /// An event reports the last count, and of a fan the first arrival as well.
    is_reported: bool,
    /// Puts of the server that its first count fires together; 0 for hops one after the other.
    fan: u16,
}

impl Hops {
    /// The hops that start at `side`. The last hop of a chain, which has an even number, ends at
    /// the client, and so do the puts of a fan.
    pub fn of(run: &RunOptions, side: Side) -> Self {
        let all = run.extensions.hops;
        let fan = run.extensions.fan;
        if fan > 0 {
            let (puts, first, counts) = match (side, run.extensions.start) {
                (Side::Server, _) => (fan, 2, 1),
                (Side::Client, ChainStart::Put) => (0, 1, fan),
                (Side::Client, ChainStart::Counter | ChainStart::Doorbell) => (1, 1, fan + 1),
            };
            let is_reported = side == Side::Client;
            return Self { all: fan + 1, puts, first, counts, is_reported, fan };
        }
        let half = all / 2;
        let (puts, first, counts) = match (side, run.extensions.start) {
            (Side::Server, _) => (half, 2, half),
            // The client's software issues the first put itself.
            (Side::Client, ChainStart::Put) => (half.saturating_sub(1), 3, half),
            // The start counts, and launches the first put.
            (Side::Client, ChainStart::Counter | ChainStart::Doorbell) => (half, 1, half + 1),
        };
        Self { all, puts, first, counts, is_reported: side == Side::Client, fan }
    }

    /// The number of the hop that put number `put` of this side makes, from 0.
    fn hop(self, put: u16) -> u16 {
        if self.fan > 0 { self.first + put } else { self.first + 2 * put }
    }

    /// The count of this side that launches put number `put`.
    fn threshold(self, put: u16) -> u64 {
        if self.fan > 0 { 1 } else { u64::from(put) + 1 }
    }

    /// The counts of this side that events report.
    fn reported(self) -> impl Iterator<Item = u64> {
        let last = u64::from(self.counts);
        let is_fan = self.fan > 0;
        let first = (self.is_reported && is_fan).then(|| last + 1 - u64::from(self.fan));
        first.into_iter().chain(self.is_reported.then_some(last))
    }

    /// The rest after `counts` counts of this side.
    fn left_after(self, counts: u64) -> LeftOver {
        let counts = counts.min(self.counts.into()) as u16;
        if self.fan > 0 {
            let before = if self.is_reported { self.counts - self.fan } else { 0 };
            return LeftOver {
                arrived: Some(counts.saturating_sub(before)).filter(|arrived| *arrived > 0),
                launched: self.first,
                cancelled: if counts > 0 { 0 } else { self.puts },
                is_client: self.is_reported,
                fan: self.fan,
            };
        }
        let launched = counts.min(self.puts);
        LeftOver {
            arrived: (self.first + 2 * counts).checked_sub(3).filter(|hop| *hop > 0),
            launched: (self.first + 2 * launched).saturating_sub(2).max(1),
            cancelled: self.puts - launched,
            is_client: self.is_reported,
            fan: self.fan,
        }
    }
}

/// The rest of a chain that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// The last hop that has arrived at this side, or how many puts of a fan have; `None` if there
    /// was none.
    arrived: Option<u16>,
    /// The last hop that this side has started.
    pub launched: u16,
    /// Puts that were still waiting, and were cancelled.
    cancelled: u16,
    is_client: bool,
    /// Puts of the fan; 0 in a chain.
    fan: u16,
}

impl fmt::Display for LeftOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.is_client { "client" } else { "server" };
        match self.arrived {
            Some(puts) if self.fan > 0 && self.is_client => {
                write!(f, "{puts} of {} puts of the fan arrived at the client", self.fan)?;
            }
            Some(_) if self.fan > 0 => write!(f, "the first put arrived at the server")?,
            Some(hop) => write!(f, "the last hop that arrived at the {side} is {hop}")?,
            None => write!(f, "no hop arrived at the {side}")?,
        }
        let puts = self.cancelled;
        let ending = plural(puts.into());
        write!(f, "; {puts} triggered put{ending} of the {side} left over and cancelled")
    }
}

/// The put of each hop.
#[derive(Clone, Copy)]
pub enum HopPut {
    /// A full DMA command. Its events have the number of the hop in `user_ptr`.
    Unrestricted(FullDmaCmd),
    /// A NOMATCH command, which has no `user_ptr` (nic.md 3.8).
    Restricted(NomatchDmaCmd),
}

/// One side of a chain.
pub struct Chain {
    queue: CounterQueue,
    hops: Hops,
    /// Counts before the chain that is armed.
    before: u64,
    is_armed: bool,
}

impl Chain {
    /// Creates the counter at zero, and the trigger queue, which reports to the initiator's event
    /// queue.
    pub fn new(endpoint: &Endpoint, initiator: &Initiator, hops: Hops) -> Result<Self, Failure> {
        // A put takes two slots. The NIC may not have reported yet that it has read the commands of
        // the chain before: two chains fit.
        let slots = 2 * (2 * u32::from(hops.puts) + FURTHER_SLOTS);
        let mut queue = CounterQueue::new(endpoint, slots, &initiator.events)?;
        queue.triggers.keep_mapped(&initiator.buffer);
        Ok(Self { queue, hops, before: 0, is_armed: false })
    }

    /// The number of the counter, for the list entry at which hops arrive.
    pub fn counter(&self) -> u16 {
        self.queue.number()
    }

    /// The number of hops of a whole chain.
    pub fn length(&self) -> u16 {
        self.hops.all
    }

    /// The number of puts of a fan; 0 for a chain.
    pub fn fan(&self) -> u16 {
        self.hops.fan
    }

    /// Checks that nothing but the hops of the chains before has counted. A put of a run that was
    /// given up, which arrives late, launches a hop: two pass through the chain at the same time.
    ///
    /// # Errors
    ///
    /// Other counts, and a NIC that does not answer.
    pub fn check(&mut self) -> Result<(), Failure> {
        let counts = self.queue.read(false, "reading a counter")?;
        let (found, expected) = (counts.success, self.before);
        if counts.failure > 0 {
            let failed = counts.failure;
            return Err(Failure::nic(format!("{failed} operations of hops have failed")));
        }
        if found > expected {
            return Err(Failure::environment(format!(
                "{found} counts, and {expected} hops: puts of another run may have arrived"
            )));
        }
        if found < expected {
            return Err(Failure::nic(format!("{found} counts, and {expected} hops")));
        }
        Ok(())
    }

    /// Arms all puts of this side, and sends `message` to the peer when the NIC has armed them.
    ///
    /// # Errors
    ///
    /// A queue without room for the commands, and a trigger queue that cannot launch puts.
    pub fn arm(&mut self, put: HopPut, message: &FullDmaCmd) -> Result<(), Failure> {
        let mut batch = self.queue.triggers.batch();
        for number in 0..self.hops.puts {
            let threshold = self.before + self.hops.threshold(number);
            match put {
                HopPut::Unrestricted(mut command) => {
                    command.set_user_ptr(self.hops.hop(number).into());
                    batch.emit_trigger_dma(&self.queue.counter, threshold, &command)
                }
                HopPut::Restricted(command) => {
                    batch.emit_trigger_nomatch_dma(&self.queue.counter, threshold, &command)
                }
            }
            .nic(NOT_ARMED)?;
        }
        for count in self.hops.reported() {
            batch.emit_trigger_event(&self.queue.counter, self.before + count).nic(NOT_ARMED)?;
        }
        // Its threshold is reached already: the NIC launches it at once (nic.md 9.3), after the
        // commands before it in this queue.
        batch.emit_trigger_dma(&self.queue.counter, self.before, message).nic(NOT_ARMED)?;
        batch.commit_doorbell();
        self.is_armed = true;
        Ok(())
    }

    /// Sends `message` to the peer.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    pub fn notify(&mut self, message: &FullDmaCmd) -> Result<(), Failure> {
        let mut batch = self.queue.triggers.batch();
        let emitted = batch.emit_trigger_dma(&self.queue.counter, self.before, message);
        emitted.nic("cannot send a message to the peer")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Adds one to the counter with a command in the trigger queue.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    #[inline(always)]
    pub fn increment(&mut self) -> Result<(), Failure> {
        let mut batch = self.queue.triggers.batch();
        let one = Counts { success: 1, failure: 0 };
        batch
            .emit_increment(&self.queue.counter, one)
            .nic("cannot start a chain of triggered puts")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Adds one to the counter with a store to its doorbell.
    #[inline(always)]
    pub fn ring(&self) {
        self.queue.counter.add_success(1);
    }

    /// Notes that all hops of the armed chain have arrived, if one is armed.
    pub fn end(&mut self) {
        if self.is_armed {
            self.before += u64::from(self.hops.counts);
            self.is_armed = false;
        }
    }

    /// Cancels the puts that still wait. Returns what is left of the chain.
    ///
    /// # Errors
    ///
    /// A queue without room for the commands, and a NIC that does not answer.
    pub fn cancel(&mut self) -> Result<LeftOver, Failure> {
        let counts = self.queue.read(true, "cancelling triggered puts")?;
        Ok(self.hops.left_after(counts.success.saturating_sub(self.before)))
    }

    /// Releases queue and counter, after the entries that count on it.
    pub fn close(self) -> Result<(), Failure> {
        self.queue.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;

    /// Each hop of a chain starts at one side, and the sides take turns.
    #[test]
    fn sides_share_the_hops_of_a_chain() {
        for (start, by_software) in [("put", 1), ("counter", 0), ("doorbell", 0)] {
            let start = format!("--start={start}");
            let run = plan("trig-lat", &["--hops=6", &start]).run;
            let [client, server] = [Side::Client, Side::Server].map(|side| Hops::of(&run, side));
            let started = |hops: Hops| (0..hops.puts).map(move |put| hops.hop(put));
            let mut all: Vec<u16> = started(client).chain(started(server)).collect();
            all.sort_unstable();
            assert_eq!(all, (1 + by_software..=6).collect::<Vec<_>>(), "{start}");
            assert!(started(server).all(|hop| hop % 2 == 0), "{start}");
            assert_eq!((client.counts, server.counts), (3 + 1 - by_software, 3), "{start}");
        }
    }

    #[test]
    fn one_count_of_the_server_fires_a_fan() {
        for (start, by_client) in [("put", 0), ("counter", 1), ("doorbell", 1)] {
            let run = plan("trig-lat", &["--fan=4", &format!("--start={start}")]).run;
            let [client, server] = [Side::Client, Side::Server].map(|side| Hops::of(&run, side));
            assert_eq!((client.puts, server.puts, server.counts), (by_client, 4, 1), "{start}");
            let thresholds: Vec<u64> = (0..4).map(|put| server.threshold(put)).collect();
            assert_eq!(thresholds, [1; 4], "{start}");
            let first = u64::from(by_client) + 1;
            assert_eq!(client.reported().collect::<Vec<_>>(), [first, first + 3], "{start}");
            assert_eq!(server.reported().count(), 0, "{start}");
        }
    }

    #[test]
    fn says_how_much_of_a_fan_has_arrived() {
        let run = plan("trig-lat", &["--fan=4", "--start=counter"]).run;
        let left = |side, counts| Hops::of(&run, side).left_after(counts).to_string();
        assert_eq!(
            left(Side::Client, 4),
            "3 of 4 puts of the fan arrived at the client; 0 triggered puts of the client left \
             over and cancelled"
        );
        assert!(left(Side::Client, 1).starts_with("no hop arrived at the client; 0 triggered"));
        assert!(
            left(Side::Client, 0)
                .ends_with("; 1 triggered put of the client left over and cancelled")
        );
        assert!(
            left(Side::Server, 0)
                .ends_with("; 4 triggered puts of the server left over and cancelled")
        );
        assert!(left(Side::Server, 1).starts_with("the first put arrived at the server; 0 "));
    }

    #[test]
    fn counts_puts_that_are_left_over() {
        let run = |start: &str| plan("trig-lat", &["--hops=6", &format!("--start={start}")]).run;
        let left = |start, side, counts| {
            let left = Hops::of(&run(start), side).left_after(counts);
            (left.arrived, left.launched, left.cancelled)
        };
        assert_eq!(left("put", Side::Client, 0), (None, 1, 2));
        assert_eq!(left("put", Side::Client, 1), (Some(2), 3, 1));
        assert_eq!(left("put", Side::Client, 3), (Some(6), 5, 0));
        assert_eq!(left("doorbell", Side::Client, 1), (None, 1, 2));
        assert_eq!(left("doorbell", Side::Client, 2), (Some(2), 3, 1));
        assert_eq!(left("put", Side::Server, 0), (None, 1, 3));
        assert_eq!(left("put", Side::Server, 2), (Some(3), 4, 1));
        assert_eq!(left("put", Side::Server, 9), (Some(5), 6, 0));
    }
}
