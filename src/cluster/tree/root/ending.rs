//! The end of all processes of a survey, and how much they have sent.

use std::time::{Duration, Instant};

use super::Root;
use crate::tree::message::Message;
use crate::tree::traffic::LevelTraffic;

/// Interval at which the coordinator checks whether all processes know that the survey has failed.
const TURN: Duration = Duration::from_millis(100);

impl Root {
    /// Ends all processes, and waits for them, for `limit` at most. Returns those that have not
    /// ended, and why. Signals do not end this wait.
    pub fn end(&mut self, limit: Duration) -> Vec<(u32, String)> {
        self.is_ending = true;
        self.send_to_all(&Message::End);
        self.place_waiting();
        let ends = Instant::now() + limit;
        let mut missing: Vec<u32> = (0..self.members.len() as u32).collect();
        loop {
            missing.retain(|&rank| {
                self.members[rank as usize].is_missing() && !self.links.is_lost(rank)
            });
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
        let missing = missing.into_iter().map(|rank| (rank, reason.clone()));
        missing.collect()
    }

    /// Tells `count` processes that the survey has failed, for this reason: those that come within
    /// `limit`. An interruption ends this.
    pub fn abort(mut self, reason: &str, count: u32, limit: Duration) {
        self.failure = Some(reason.to_owned());
        let until = Instant::now() + limit;
        while self.told.len() < count as usize && Instant::now() < until {
            let next = until.min(Instant::now() + TURN);
            if self.poll(next).is_err() {
                break;
            }
        }
    }

    /// Returns how much the processes at each level of the tree have sent and received, by what
    /// they have sent at their end.
    pub fn traffic(&mut self) -> Vec<LevelTraffic> {
        for child in self.children.values_mut() {
            self.traffic += child.link.take_traffic();
        }
        let mut levels = vec![LevelTraffic::default()];
        levels[0].add(self.traffic);
        for member in &self.members {
            let level = member.level as usize;
            if let Some(traffic) = member.ended {
                while levels.len() <= level {
                    let level = levels.len() as u32;
                    levels.push(LevelTraffic { level, ..LevelTraffic::default() });
                }
                levels[level].add(traffic);
            }
        }
        levels
    }
}
