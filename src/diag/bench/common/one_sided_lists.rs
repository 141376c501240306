//! Lists in which the peer's software takes no part.

use super::list_commands::ListCommand;
use super::lists::ListInitiator;
use super::side_resources::SideResources;
use super::walk::Walk;
use crate::bench::api::{Lists, RepeatLists, Step};
use facts::error::Failure;

/// Passes lists of `command` to `repeat`, one for each of `pairs`.
///
/// # Errors
///
/// A side that issues no lists, and the failure of `repeat`.
pub fn measure_lists<C: ListCommand, R: RepeatLists>(
    pairs: &mut [SideResources<ListInitiator>],
    walk: Walk,
    command: impl Fn(&ListInitiator) -> C,
    repeat: R,
) -> Result<R::Output, Failure> {
    let lists = pairs.iter_mut().map(|resources| {
        let initiator = resources.initiator()?;
        Ok(OneSidedLists {
            command: command(initiator),
            initiator,
            walk,
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
    walk: Walk,
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
        let (walk, command) = (&mut self.walk, &mut self.command);
        walk.restart();
        let count = walk.list_size();
        self.initiator.issue(count, |batch| command.emit(batch, walk.next_offset()))?;
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
