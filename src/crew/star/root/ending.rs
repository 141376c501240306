//! The end of all processes of a survey.

use std::time::{Duration, Instant};

use super::Root;
use crate::star::message::Order;
use crate::star::work::Work;

/// Interval at which the coordinator checks whether all processes know that the survey has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl<W: Work> Root<W> {
    /// Ends all processes, and waits for them, for `limit` at most. Returns those that have not
    /// ended, and why. Signals do not end this wait.
    pub fn end(&mut self, limit: Duration) -> Vec<(u32, String)> {
        if !self.is_ending {
            self.is_ending = true;
            for rank in 0..self.members.len() as u32 {
                self.order(rank, Order::End);
            }
        }
        let ends = Instant::now() + limit;
        let mut missing: Vec<u32> = (0..self.members.len() as u32).collect();
        loop {
            missing.retain(|&rank| self.members[rank as usize].is_missing());
            let now = self.note_stall();
            if missing.is_empty() || now >= ends {
                break;
            }
            let wakes = ends.min(self.due(now));
            self.stalls.sleep(wakes);
            self.turn(wakes.saturating_duration_since(now));
        }
        let limit = facts::number::time_text(limit);
        let reason = format!("it has not ended within {limit}");
        missing.into_iter().map(|rank| (rank, reason.clone())).collect()
    }

    /// Tells `count` processes that the survey has failed, for this reason: those that come within
    /// `limit`. An interruption ends this.
    pub fn abort(mut self, reason: &str, count: u32, limit: Duration) {
        self.failure = Some(reason.to_owned());
        let until = Instant::now() + limit;
        while self.told.len() < count as usize && Instant::now() < until {
            let next = until.min(Instant::now() + CHECK_INTERVAL);
            if self.poll(next).is_err() {
                break;
            }
        }
    }
}
