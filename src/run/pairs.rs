//! The loop of a bandwidth run: drives the lists of all pairs side by side.

use super::size_loop::GAP_SLICE;
use crate::bench::api::{Lists, Step};
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Clock, Gauge, PollTimer, WaitPolicy};
use crate::rate::{Kept, Pacer};

/// What the loop waits for, in messages.
const AWAITED: &str = "list of operations";

/// One pair of queues in the loop.
pub struct Pair<'a, L> {
    lists: &'a mut L,
    progress: Progress,
    /// When its lists are to start, if there is a rate.
    pacer: Option<Pacer>,
    /// Its next step begins a list.
    at_start: bool,
    policy: WaitPolicy<'a>,
    /// When the peer was last checked before a list.
    looked: u64,
    timer: PollTimer<'a>,
}

/// How far a pair is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Complete iterations.
    pub completed: u64,
    /// Time from the start of the loop to the last list or reply, in nanoseconds. In a run by
    /// iterations it is set at the last one.
    pub elapsed: u64,
    /// How the intended start times were kept, if there are any.
    pub kept: Option<Kept>,
}

impl<'a, L: Lists> Pair<'a, L> {
    /// Creates the pair with its progress so far.
    pub fn new(lists: &'a mut L, progress: Progress, policy: WaitPolicy<'a>) -> Self {
        Self {
            lists,
            progress,
            pacer: None,
            at_start: true,
            policy,
            looked: 0,
            timer: policy.timer(AWAITED),
        }
    }

    /// Starts its lists at the times of `pacer` only.
    pub fn pace(&mut self, pacer: Pacer) {
        self.pacer = Some(pacer);
    }

    /// Returns how far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            kept: self.pacer.as_ref().map(Pacer::kept),
            ..self.progress
        }
    }

    fn complete<C: Clock>(&mut self, clock: &C) {
        self.progress.completed += 1;
        self.at_start = true;
        if let Some(pacer) = &mut self.pacer {
            pacer.ready(clock.now());
        }
    }

    /// Returns when the next list is due, if the pair has to wait for it. Meanwhile it takes events,
    /// so that the peer's lists do not wait.
    #[inline]
    fn early<C: Clock>(&mut self, clock: &C) -> Result<Option<u64>, Failure> {
        let Some(pacer) = self.pacer.as_mut().filter(|_| self.at_start) else {
            return Ok(None);
        };
        let now = clock.now();
        if now >= pacer.due() {
            pacer.start(now);
            self.at_start = false;
            return Ok(None);
        }
        interrupt::check()?;
        if now.saturating_sub(self.looked) >= GAP_SLICE {
            self.policy.look_after_peer()?;
            self.looked = now;
        }
        self.lists.are_under_way()?;
        Ok(Some(pacer.due()))
    }
}

/// When the loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// When each pair has completed this many iterations.
    Iterations(u64),
    /// After this many nanoseconds. It may end in the middle of an iteration.
    Duration(u64),
    /// When the peer waits at the next barrier: this side only answers.
    Peer,
}

/// Drives `pairs` from the time `start` until the `end`. Each completed iteration adds
/// `list_size` operations to `gauge`. `peer_waits` returns whether the peer waits at the next barrier.
///
/// # Errors
///
/// The failure of an operation, a peer that has gone, and an interruption.
pub fn drive<C: Clock, L: Lists>(
    pairs: &mut [Pair<'_, L>],
    clock: &C,
    start: u64,
    end: End,
    peer_waits: &dyn Fn() -> bool,
    (gauge, list_size): (&Gauge, u64),
) -> Result<(), Failure> {
    let mut left = pairs.len();
    let mut over = vec![false; left];
    for (pair, over) in pairs.iter().zip(&mut over) {
        if matches!(end, End::Iterations(wanted) if pair.progress.completed >= wanted) {
            *over = true;
            left -= 1;
        }
    }
    while left > 0 {
        for (pair, over) in pairs.iter_mut().zip(&mut over).filter(|(_, over)| !**over) {
            if let Some(due) = pair.early(clock)? {
                *over = matches!(end, End::Duration(duration) if due - start >= duration);
                left -= usize::from(*over);
                continue;
            }
            match pair.lists.step()? {
                Step::InFlight => {
                    pair.timer.miss(clock)?;
                }
                Step::Waiting => {
                    let look = pair.timer.miss(clock)?;
                    *over = match end {
                        End::Iterations(_) => false,
                        End::Duration(duration) => clock.now() - start >= duration,
                        End::Peer => look && peer_waits(),
                    };
                }
                step @ (Step::Going | Step::Complete) => {
                    pair.timer.hit();
                    if step == Step::Complete {
                        pair.complete(clock);
                        gauge.add(list_size);
                        interrupt::check()?;
                    }
                    match end {
                        End::Iterations(wanted) if pair.progress.completed < wanted => {}
                        End::Iterations(_) => {
                            pair.progress.elapsed = clock.now() - start;
                            *over = true;
                        }
                        End::Duration(duration) => {
                            pair.progress.elapsed = clock.now() - start;
                            *over = pair.progress.elapsed >= duration;
                        }
                        End::Peer => pair.progress.elapsed = clock.now() - start,
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
    use crate::measure::wait_policy::double::Watching;
    use crate::rate::Rate;

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
        looked: usize,
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
            self.looked += 1;
            Ok(!self.taken.is_multiple_of(self.script.len()))
        }
    }

    fn scripted(script: &'static [Step]) -> Scripted {
        Scripted {
            script,
            taken: 0,
            looked: 0,
        }
    }

    fn pair(lists: &mut Scripted) -> Pair<'_, Scripted> {
        Pair::new(lists, Progress::default(), WaitPolicy::new(&Alone))
    }

    /// Drives the pairs to the end. Returns the operations on the gauge.
    fn run(pairs: &mut [Pair<'_, Scripted>], end: End) -> u64 {
        run_beside(pairs, end, &|| false)
    }

    fn run_beside(
        pairs: &mut [Pair<'_, Scripted>],
        end: End,
        peer_waits: &dyn Fn() -> bool,
    ) -> u64 {
        let (gauge, clock) = (Gauge::default(), Ticking::default());
        drive(pairs, &clock, 0, end, peer_waits, (&gauge, 4)).unwrap();
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
        assert_eq!(
            [pairs[0].progress.completed, pairs[1].progress.completed],
            [3, 3]
        );
        assert!(pairs[0].progress.elapsed < pairs[1].progress.elapsed);
        assert_eq!((quick.taken, slow.taken), (6, 12));
    }

    /// Returns a pair whose list takes a tick, at this rate from the beginning on.
    fn paced(lists: &mut Scripted, lists_per_s: u64) -> Pair<'_, Scripted> {
        let mut pair = pair(lists);
        let period = Rate::Operations(lists_per_s).period(8, 1);
        pair.pace(Pacer::new(period, 0));
        pair
    }

    #[test]
    fn starts_lists_at_intended_times() {
        let (mut lists, mut beside) = (scripted(LIST), scripted(LIST));
        // A list in 50 ticks, beside a pair that waits for nothing.
        let mut pairs = [paced(&mut lists, 20), pair(&mut beside)];
        run(&mut pairs, End::Iterations(10));
        let kept = pairs[0].progress().kept.unwrap();
        assert_eq!((kept.starts, kept.late), (10, 0));
        assert!(
            (445 * TICK..455 * TICK).contains(&kept.elapsed_ns),
            "{kept:?}"
        );
        assert_eq!(pairs[1].progress().kept, None);
        assert_eq!((lists.taken, beside.taken), (20, 20));
        assert!(lists.looked > 100, "{}", lists.looked);
    }

    #[test]
    fn counts_lists_that_start_late() {
        let mut lists = scripted(LIST);
        let mut pair = paced(&mut lists, 1_000_000_000);
        run(slice::from_mut(&mut pair), End::Iterations(10));
        let kept = pair.progress().kept.unwrap();
        assert_eq!((kept.starts, kept.late), (10, 9));
    }

    #[test]
    fn duration_ends_before_a_list_that_is_due_after_it() {
        let mut lists = scripted(LIST);
        let mut pair = paced(&mut lists, 20);
        run(slice::from_mut(&mut pair), End::Duration(100 * TICK));
        assert_eq!((pair.progress.completed, lists.taken), (2, 4));
    }

    #[test]
    fn notices_lost_peer_while_it_waits_for_a_list() {
        let supervisor = Watching::peer(false);
        let mut lists = scripted(LIST);
        let policy = WaitPolicy::new(&supervisor);
        let mut pair = Pair::new(&mut lists, Progress::default(), policy);
        let period = Rate::Operations(1).period(8, 1);
        pair.pace(Pacer::new(period, 0));
        let (gauge, clock) = (Gauge::default(), Ticking::default());
        let end = End::Iterations(2);
        let pair = slice::from_mut(&mut pair);
        assert!(drive(pair, &clock, 0, end, &|| false, (&gauge, 4)).is_err());
    }

    #[test]
    fn drives_no_pair_that_has_its_iterations() {
        let mut lists = scripted(LIST);
        let mut pair = pair(&mut lists);
        pair.progress.completed = 3;
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
        assert_eq!((pair.progress.completed, pair.progress.elapsed), (1, TICK));
        assert_eq!(lists.taken, 4);
    }

    #[test]
    fn duration_ends_in_the_middle_of_an_iteration() {
        for script in [&[Step::Going, Step::Complete][..], &[Step::Waiting]] {
            let mut lists = scripted(script);
            let mut pair = pair(&mut lists);
            run(slice::from_mut(&mut pair), End::Duration(0));
            assert_eq!((pair.progress.completed, lists.taken), (0, 1));
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
        run_beside(slice::from_mut(&mut pair(&mut lists)), End::Peer, &waits);
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
