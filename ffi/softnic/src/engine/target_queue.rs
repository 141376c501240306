//! Target queues: command queues for list entries and the states of portals (nic.md 3.13).

use super::events::{self, FailedCommand};
use super::ring::{CommandRing, RingCommand};
use super::target_commands::{self, TargetParts};
use super::wire::Wire;

/// The most commands executed before other queues get their turn.
const BURST: usize = 32;

/// A target queue.
pub struct TargetQueue {
    pub ring: CommandRing,
    pub lni: usize,
    /// Event queue for COMMAND_FAILURE; 0 is none.
    pub error_eq: u16,
}

impl TargetQueue {
    /// Executes the commands of the queue, up to a bound. True if there was anything to do.
    pub fn run<W: Wire>(&mut self, number: usize, nic: &mut TargetParts<'_, W>) -> bool {
        let mut worked = self.ring.read_launch_page();
        if !self.ring.has_next() || self.ring.is_held() {
            return worked;
        }
        let mut command = RingCommand::new();
        for _ in 0..BURST {
            let Some(fetched) = self.ring.peek(&mut command) else {
                break;
            };
            worked = true;
            let header = command.header;
            match fetched.and_then(|()| target_commands::execute(&command, self.lni, nic)) {
                Ok(is_accepted) => {
                    self.ring.is_refused |= !is_accepted;
                    self.ring.advance(header);
                }
                Err(code) => {
                    let failed = FailedCommand {
                        queue: number,
                        is_target: true,
                        slot: self.ring.fail(header, code),
                        header,
                        code,
                    };
                    events::command_failure(nic.eqs, self.error_eq, &failed);
                }
            }
        }
        worked
    }
}
