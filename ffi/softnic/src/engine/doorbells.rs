//! Doorbells that the engine is called for, where programs cannot store to them without notice.

use super::counter;
use super::ring::CommandRing;
use super::state::Engine;
use super::wire::Wire;

/// The most polls for the commands that were rung before a store to a counter. Commands that wait
/// for something else do not hold the program up for longer.
const POLLS: usize = 1024;

impl<W: Wire> Engine<W> {
    /// Handles a store of `value` at byte `offset` of the doorbells of a counter, after the
    /// commands that were rung before it. False if the stored value is needed and not known.
    pub fn store_to_counter(&mut self, number: usize, offset: usize, value: Option<u64>) -> bool {
        let Some(value) = value else {
            return false;
        };
        for _ in 0..POLLS {
            let worked = self.poll();
            if !worked || !self.tx.values_mut().any(|queue| queue.ring.has_next()) {
                break;
            }
        }
        if let Some(change) = counter::change(offset, value) {
            self.counters.doorbells += 1;
            self.counters.change(number, change, &mut self.eqs);
            self.poll();
        }
        true
    }

    /// Whether there is work that waits for room: commands, packets or replies.
    pub fn is_blocked(&self) -> bool {
        let tx = self.tx.iter().map(|(_, queue)| &queue.ring);
        let tgt = self.tgt.iter().map(|(_, queue)| &queue.ring);
        !self.waiting.is_empty()
            || !self.replies.is_empty()
            || self.tx.iter().any(|(_, queue)| queue.transfer.is_some())
            || tx.chain(tgt).any(CommandRing::has_next)
    }

    /// Handles a store to the launch page of a transmit queue. False if the stored value is needed
    /// and not known.
    pub fn store_to_transmit_queue(
        &mut self,
        number: usize,
        offset: usize,
        value: Option<u64>,
    ) -> bool {
        let queue = self.tx.get_mut(number);
        queue.is_none_or(|queue| queue.ring.store(offset, value))
    }

    /// Handles a store to the launch page of a target queue. False if the stored value is needed
    /// and not known.
    pub fn store_to_target_queue(
        &mut self,
        number: usize,
        offset: usize,
        value: Option<u64>,
    ) -> bool {
        let queue = self.tgt.get_mut(number);
        queue.is_none_or(|queue| queue.ring.store(offset, value))
    }
}
