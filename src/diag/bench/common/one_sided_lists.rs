//! Lists in which the peer's software takes no part.

use super::list_commands::ListCommand;
use super::lists::ListInitiator;
use super::side_resources::SideResources;
use crate::bench::api::{Lists, RepeatLists, Step};
use crate::bench::common::list_offsets::ListOffsets;
use facts::error::Failure;

/// Passes lists of `command` to `repeat`, one for each of `pairs`.
///
/// # Errors
///
/// A side that issues no lists, and the failure of `repeat`.
pub fn measure_lists<C: ListCommand, R: RepeatLists>(
    pairs: &mut [SideResources<ListInitiator>],
    offsets: ListOffsets,
    command: impl Fn(&ListInitiator) -> C,
    repeat: R,
) -> Result<R::Output, Failure> {
    let lists = pairs.iter_mut().map(|resources| {
        let initiator = resources.initiator()?;
        Ok(OneSidedLists {
            command: command(initiator),
            initiator,
            offsets,
            is_issued: false,
            completed: 0,
        })
    });
    repeat.run(&mut lists.collect::<Result<Vec<_>, Failure>>()?)
}

/// The lists of one pair: each is issued when the NIC has completed the one before.
struct OneSidedLists<'a, C> {
    initiator: &'a mut ListInitiator,
    command: C,
    offsets: ListOffsets,
    is_issued: bool,
    completed: u64,
}

impl<C: ListCommand> Lists for OneSidedLists<'_, C> {
    #[inline]
    fn step(&mut self) -> Result<Step, Failure> {
        if self.is_issued {
            if !self.initiator.poll(|| ())? {
                return Ok(Step::InFlight);
            }
            self.is_issued = false;
            self.completed += 1;
            self.command.advance(&self.initiator.initiator.buffer)?;
            return Ok(Step::Complete);
        }
        let (offsets, command) = (&mut self.offsets, &mut self.command);
        offsets.restart();
        let count = offsets.list_size();
        self.initiator.issue(count, |batch| command.emit(batch, offsets.next_offset()))?;
        self.is_issued = true;
        Ok(Step::InFlight)
    }

    fn issued(&self) -> u64 {
        self.completed
    }

    fn are_under_way(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }
}
