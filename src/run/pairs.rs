//! The loop of a bandwidth run: drives the lists of all pairs side by side.

use crate::bench::api::{Lists, Step};
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Clock, Gauge, PollTimer, WaitPolicy};

/// What the loop waits for, in messages.
const AWAITED: &str = "list of operations";

/// One pair of queues in the loop.
pub struct Pair<'a, L> {
    /// Its lists.
    pub lists: &'a mut L,
    /// Complete iterations.
    pub completed: u64,
    /// Time from the start of the loop to the last list or reply, in nanoseconds. In a run by
    /// iterations it is set at the last one.
    pub elapsed: u64,
    timer: PollTimer<'a>,
}

impl<'a, L: Lists> Pair<'a, L> {
    /// Creates the pair at the start of a size.
    pub fn new(lists: &'a mut L, policy: WaitPolicy<'a>) -> Self {
        Self {
            lists,
            completed: 0,
            elapsed: 0,
            timer: policy.timer(AWAITED),
        }
    }
}

/// When the loop ends.
#[derive(Clone, Copy)]
pub enum End<'a> {
    /// When each pair has completed this many iterations.
    Iterations(u64),
    /// After this many nanoseconds. It may end in the middle of an iteration.
    Duration(u64),
    /// When the peer waits at the next barrier: this side only answers.
    Peer(&'a dyn Fn() -> bool),
}

/// Drives `pairs` from the time `start` until the `end`. Each completed iteration adds
/// `list_size` operations to `gauge`.
///
/// # Errors
///
/// The failure of an operation, a peer that has gone, and an interruption.
pub fn drive<C: Clock, L: Lists>(
    pairs: &mut [Pair<'_, L>],
    clock: &C,
    start: u64,
    end: End<'_>,
    (gauge, list_size): (&Gauge, u64),
) -> Result<(), Failure> {
    let mut left = pairs.len();
    let mut over = vec![false; left];
    for (pair, over) in pairs.iter().zip(&mut over) {
        if matches!(end, End::Iterations(wanted) if pair.completed >= wanted) {
            *over = true;
            left -= 1;
        }
    }
    while left > 0 {
        for (pair, over) in pairs.iter_mut().zip(&mut over).filter(|(_, over)| !**over) {
            match pair.lists.step()? {
                Step::InFlight => {
                    pair.timer.miss(clock)?;
                }
                Step::Waiting => {
                    let look = pair.timer.miss(clock)?;
                    *over = match end {
                        End::Iterations(_) => false,
                        End::Duration(duration) => clock.now() - start >= duration,
                        End::Peer(waits) => look && waits(),
                    };
                }
                step @ (Step::Going | Step::Complete) => {
                    pair.timer.hit();
                    if step == Step::Complete {
                        pair.completed += 1;
                        gauge.add(list_size);
                        interrupt::check()?;
                    }
                    match end {
                        End::Iterations(wanted) if pair.completed < wanted => {}
                        End::Iterations(_) => {
                            pair.elapsed = clock.now() - start;
                            *over = true;
                        }
                        End::Duration(duration) => {
                            pair.elapsed = clock.now() - start;
                            *over = pair.elapsed >= duration;
                        }
                        End::Peer(_) => pair.elapsed = clock.now() - start,
                    }
                }
            }
            left -= usize::from(*over);
        }
    }
    Ok(())
}

/// Completes the iteration under way, unless the peer waits at the barrier already.
///
/// # Errors
///
/// Those of [`drive`].
pub fn settle<C: Clock, L: Lists>(
    pair: &mut Pair<'_, L>,
    clock: &C,
    peer_waits: impl Fn() -> bool,
) -> Result<(), Failure> {
    while pair.lists.are_under_way()? {
        match pair.lists.step()? {
            Step::InFlight => {
                pair.timer.miss(clock)?;
            }
            Step::Waiting => {
                if pair.timer.miss(clock)? && peer_waits() {
                    break;
                }
            }
            Step::Going | Step::Complete => pair.timer.hit(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::slice;

    use super::*;
    use crate::bench::testing::Alone;

    /// The time between two readings of the clock, in nanoseconds.
    const TICK: u64 = 1_000_000;

    #[derive(Default)]
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + TICK);
            self.0.get()
        }
    }

    /// Takes these steps again and again.
    struct Scripted {
        script: &'static [Step],
        taken: usize,
    }

    impl Lists for Scripted {
        fn step(&mut self) -> Result<Step, Failure> {
            let step = self.script[self.taken % self.script.len()];
            self.taken += 1;
            Ok(step)
        }

        fn issued(&self) -> u64 {
            0
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            Ok(!self.taken.is_multiple_of(self.script.len()))
        }
    }

    fn scripted(script: &'static [Step]) -> Scripted {
        Scripted { script, taken: 0 }
    }

    fn pair(lists: &mut Scripted) -> Pair<'_, Scripted> {
        Pair::new(lists, WaitPolicy::new(&Alone))
    }

    /// Drives the pairs to the end. Returns the operations on the gauge.
    fn run(pairs: &mut [Pair<'_, Scripted>], end: End<'_>) -> u64 {
        let (gauge, clock) = (Gauge::default(), Ticking::default());
        drive(pairs, &clock, 0, end, (&gauge, 4)).unwrap();
        gauge.get().0
    }

    const LIST: &[Step] = &[Step::InFlight, Step::Complete];

    #[test]
    fn drives_pairs_side_by_side_to_their_last_iteration() {
        let [mut quick, mut slow] = [
            scripted(LIST),
            scripted(&[Step::InFlight, Step::Waiting, Step::Going, Step::Complete]),
        ];
        let mut pairs = [pair(&mut quick), pair(&mut slow)];
        assert_eq!(run(&mut pairs, End::Iterations(3)), 24);
        assert_eq!([pairs[0].completed, pairs[1].completed], [3, 3]);
        assert!(pairs[0].elapsed < pairs[1].elapsed);
        assert_eq!((quick.taken, slow.taken), (6, 12));
    }

    #[test]
    fn drives_no_pair_that_has_its_iterations() {
        let mut lists = scripted(LIST);
        let mut pair = pair(&mut lists);
        pair.completed = 3;
        assert_eq!(run(slice::from_mut(&mut pair), End::Iterations(3)), 0);
        assert_eq!(lists.taken, 0);
    }

    /// The next size would find the events of a list that is left behind.
    #[test]
    fn duration_does_not_end_while_commands_are_in_flight() {
        let mut lists = scripted(&[
            Step::InFlight,
            Step::InFlight,
            Step::InFlight,
            Step::Complete,
        ]);
        let mut pair = pair(&mut lists);
        run(slice::from_mut(&mut pair), End::Duration(0));
        assert_eq!((pair.completed, pair.elapsed), (1, TICK));
        assert_eq!(lists.taken, 4);
    }

    #[test]
    fn duration_ends_in_the_middle_of_an_iteration() {
        for script in [&[Step::Going, Step::Complete][..], &[Step::Waiting]] {
            let mut lists = scripted(script);
            let mut pair = pair(&mut lists);
            run(slice::from_mut(&mut pair), End::Duration(0));
            assert_eq!((pair.completed, lists.taken), (0, 1));
        }
    }

    #[test]
    fn answering_side_ends_when_peer_waits() {
        let mut lists = scripted(&[Step::Waiting]);
        let asked = Cell::new(0);
        let waits = || {
            asked.set(asked.get() + 1);
            asked.get() == 2
        };
        run(slice::from_mut(&mut pair(&mut lists)), End::Peer(&waits));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn settles_unless_peer_waits_at_barrier() {
        let clock = Ticking::default();
        let mut lists = scripted(&[Step::Going, Step::InFlight, Step::Waiting, Step::Complete]);
        lists.step().unwrap();
        settle(&mut pair(&mut lists), &clock, || false).unwrap();
        assert_eq!(lists.taken, 4);
        // The second list never arrives.
        let mut lists = scripted(&[Step::Waiting; 1 << 20]);
        lists.step().unwrap();
        settle(&mut pair(&mut lists), &clock, || true).unwrap();
        assert!(lists.are_under_way().unwrap());
    }
}
