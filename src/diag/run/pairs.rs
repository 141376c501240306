//! The loop of a bandwidth run: drives the lists of all pairs side by side.

use super::size_loop::GAP_SLICE;
use crate::bench::api::{Lists, Step};
use facts::error::Failure;
use facts::rate::{KeptSchedule, Pacer};
use measure::{Clock, Gauge, PollTimer, WaitPolicy};

/// The event that the loop waits for, in messages.
const AWAITED: &str = "list of operations";

/// One pair of queues in the loop.
pub struct Pair<'a, L> {
    lists: &'a mut L,
    progress: PairProgress,
    is_over: bool,
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairProgress {
    /// Complete iterations.
    pub completed: u64,
    /// Time of the pair from the start of the loop, in nanoseconds: to the last list or reply; with
    /// a rate to the end of the last period.
    pub elapsed: u64,
    /// How the intended start times were kept, if there are any.
    pub kept: Option<KeptSchedule>,
}

impl<'a, L: Lists> Pair<'a, L> {
    /// Creates the pair with its progress so far.
    pub fn new(lists: &'a mut L, progress: PairProgress, policy: WaitPolicy<'a>) -> Self {
        Self {
            lists,
            progress,
            is_over: false,
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

    /// How far it is.
    pub fn progress(&self) -> PairProgress {
        PairProgress { kept: self.pacer.as_ref().map(Pacer::kept), ..self.progress }
    }

    /// Whether the pair may take its next step: with a rate, a list starts at its intended time, if
    /// that is before the end of a duration.
    #[inline]
    fn may_step<C: Clock>(&mut self, run: &PairsLoop<'_, C>) -> bool {
        let Some(pacer) = self.pacer.as_mut().filter(|_| self.at_start) else {
            return true;
        };
        let is_after_end =
            matches!(run.end, End::Duration(duration) if pacer.due() - run.start >= duration);
        let now = run.clock.now();
        if now < pacer.due() || is_after_end {
            return false;
        }
        pacer.start(now);
        self.at_start = false;
        true
    }

    /// Makes the checks of a pair that waits for the intended time of its next list, and takes the
    /// events of the peer's lists, which do not wait for it.
    fn wait_for_start<C: Clock>(&mut self, run: &PairsLoop<'_, C>) -> Result<(), Failure> {
        (run.check)()?;
        let now = run.clock.now();
        if now.saturating_sub(self.looked) >= GAP_SLICE {
            self.policy.look_after_peer()?;
            self.looked = now;
        }
        self.lists.take_events()?;
        match run.end {
            End::Duration(duration) if now - run.start >= duration => {
                self.progress.elapsed = duration;
                self.is_over = true;
            }
            End::Asked if (run.is_asked_to_end)() => {
                self.progress.elapsed = now - run.start;
                self.is_over = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a step.
    #[inline]
    fn step<C: Clock>(&mut self, run: &PairsLoop<'_, C>) -> Result<(), Failure> {
        let (clock, start) = (run.clock, run.start);
        match self.lists.step()? {
            Step::InFlight => {
                if self.timer.miss(clock)? {
                    (run.check)()?;
                }
            }
            Step::Waiting => {
                let look = self.timer.miss(clock)?;
                if look {
                    (run.check)()?;
                }
                self.is_over = match run.end {
                    End::Iterations(_) => false,
                    End::Duration(duration) => clock.now() - start >= duration,
                    End::Peer | End::Asked => look && (run.is_asked_to_end)(),
                };
            }
            Step::Going => {
                self.timer.hit();
                self.advance(run);
            }
            Step::Complete => {
                self.timer.hit();
                self.progress.completed += 1;
                self.at_start = true;
                if let Some(pacer) = &mut self.pacer {
                    pacer.ready(clock.now());
                }
                run.gauge.add(run.list_size);
                (run.check)()?;
                self.advance(run);
            }
        }
        Ok(())
    }

    /// Sets the time of the pair after a step that went on, and whether it is over.
    #[inline]
    fn advance<C: Clock>(&mut self, run: &PairsLoop<'_, C>) {
        if matches!(run.end, End::Iterations(wanted) if self.progress.completed < wanted) {
            return;
        }
        let now = run.clock.now();
        self.progress.elapsed = now - run.start;
        match run.end {
            End::Iterations(_) => {
                // With a rate, each list has a period.
                let end_of_period = self.pacer.as_ref().map_or(now, |pacer| now.max(pacer.due()));
                self.progress.elapsed = end_of_period - run.start;
                self.is_over = true;
            }
            // With a rate, the last period ends with the duration.
            End::Duration(duration) => self.is_over = now - run.start >= duration,
            End::Asked => self.is_over = (run.is_asked_to_end)(),
            End::Peer => {}
        }
    }
}

/// When the loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// When each pair has completed this many iterations.
    Iterations(u64),
    /// After this many nanoseconds. It may end in the middle of an iteration.
    Duration(u64),
    /// When this side is asked to end: it only answers.
    Peer,
    /// When this side is asked to end. It may end in the middle of an iteration.
    Asked,
}

/// The properties that the pairs of a thread have in common.
pub struct PairsLoop<'a, C> {
    pub clock: &'a C,
    /// When the loop started.
    pub start: u64,
    /// When it ends.
    pub end: End,
    /// Whether this side is asked to end: the peer waits at the next barrier, or a signal stops the
    /// run.
    pub is_asked_to_end: &'a dyn Fn() -> bool,
    /// Called after each iteration and in waits; a failure ends the loop.
    pub check: &'a dyn Fn() -> Result<(), Failure>,
    /// Counts the operations of complete iterations.
    pub gauge: &'a Gauge,
    /// Operations of a list.
    pub list_size: u64,
}

impl<C: Clock> PairsLoop<'_, C> {
    /// Drives `pairs` to the end.
    ///
    /// # Errors
    ///
    /// The failure of an operation or of `check`, and a peer that has gone.
    pub fn drive<L: Lists>(&self, pairs: &mut [Pair<'_, L>]) -> Result<(), Failure> {
        for pair in &mut *pairs {
            pair.is_over = matches!(self.end, End::Iterations(n) if pair.progress.completed >= n);
        }
        let mut left = pairs.iter().filter(|pair| !pair.is_over).count();
        while left > 0 {
            for pair in pairs.iter_mut().filter(|pair| !pair.is_over) {
                if pair.may_step(self) {
                    pair.step(self)?;
                } else {
                    pair.wait_for_start(self)?;
                }
                left -= usize::from(pair.is_over);
            }
        }
        Ok(())
    }
}

/// Completes the iteration under way, unless the peer waits at the barrier already.
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
    use facts::rate::Rate;
    use measure::wait_policy::double::Watching;

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
        Scripted { script, taken: 0, looked: 0 }
    }

    fn pair(lists: &mut Scripted) -> Pair<'_, Scripted> {
        Pair::new(lists, PairProgress::default(), WaitPolicy::new(&Alone))
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
        let (driven, operations) = drive(pairs, end, peer_waits, &|| Ok(()));
        driven.unwrap();
        operations
    }

    fn drive(
        pairs: &mut [Pair<'_, Scripted>],
        end: End,
        peer_waits: &dyn Fn() -> bool,
        check: &dyn Fn() -> Result<(), Failure>,
    ) -> (Result<(), Failure>, u64) {
        let gauge = Gauge::default();
        let run = PairsLoop {
            clock: &Ticking::default(),
            start: 0,
            end,
            is_asked_to_end: peer_waits,
            check,
            gauge: &gauge,
            list_size: 4,
        };
        (run.drive(pairs), gauge.get().0)
    }

    #[test]
    fn failed_check_ends_each_kind_of_wait() {
        for script in [LIST, &[Step::Complete], &[Step::Waiting], &[Step::InFlight]] {
            let mut lists = scripted(script);
            let failed = || Err(Failure::environment("another thread has failed"));
            let mut pair = pair(&mut lists);
            let (driven, _) =
                drive(slice::from_mut(&mut pair), End::Iterations(9), &|| false, &failed);
            assert!(driven.is_err(), "{script:?}");
        }
        let mut lists = scripted(LIST);
        let mut pair = paced(&mut lists, 1);
        pair.pacer.as_mut().unwrap().start(0);
        let failed = || Err(Failure::environment("another thread has failed"));
        let (driven, _) = drive(slice::from_mut(&mut pair), End::Iterations(9), &|| false, &failed);
        assert!(driven.is_err());
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
        assert_eq!([pairs[0].progress.completed, pairs[1].progress.completed], [3, 3]);
        assert!(pairs[0].progress.elapsed < pairs[1].progress.elapsed);
        assert_eq!((quick.taken, slow.taken), (6, 12));
    }

    /// A pair whose list takes a tick, at this rate from the beginning on.
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
        let per_second = kept.per_second.unwrap();
        assert!((19.7..20.3).contains(&per_second), "{kept:?}");
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
        // The second list has the rest of the duration: the rate is 2 lists in 100 ticks.
        assert_eq!((pair.progress.completed, pair.progress.elapsed), (2, 100 * TICK));
        assert_eq!(lists.taken, 4);
    }

    #[test]
    fn side_that_issues_ends_when_it_is_asked() {
        let asked = Cell::new(0);
        let is_asked = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let mut lists = scripted(LIST);
        let mut pair = pair(&mut lists);
        run_beside(slice::from_mut(&mut pair), End::Asked, &is_asked);
        let PairProgress { completed, elapsed, .. } = pair.progress;
        assert_eq!((completed, elapsed > 0), (3, true));
    }

    /// The clock reaches the end at the check of whether the list may start.
    #[test]
    fn duration_ends_before_a_list_that_is_due_at_its_end() {
        let mut lists = scripted(LIST);
        let mut pair = pair(&mut lists);
        let period = Rate::Operations(1).period(8, 1);
        pair.pace(Pacer::new(period, 101 * TICK));
        run(slice::from_mut(&mut pair), End::Duration(101 * TICK));
        assert_eq!(pair.progress.elapsed, 101 * TICK);
        assert_eq!(lists.taken, 0);
    }

    #[test]
    fn each_list_of_a_rate_has_its_period() {
        let mut lists = scripted(LIST);
        let mut pair = paced(&mut lists, 20);
        run(slice::from_mut(&mut pair), End::Iterations(4));
        let periods = pair.progress.elapsed / (50 * TICK);
        assert_eq!((pair.progress.completed, periods), (4, 4));
    }

    #[test]
    fn notices_lost_peer_while_it_waits_for_a_list() {
        let supervisor = Watching::peer(false);
        let mut lists = scripted(LIST);
        let policy = WaitPolicy::new(&supervisor);
        let mut pair = Pair::new(&mut lists, PairProgress::default(), policy);
        let period = Rate::Operations(1).period(8, 1);
        pair.pace(Pacer::new(period, 0));
        let end = End::Iterations(2);
        let driven = drive(slice::from_mut(&mut pair), end, &|| false, &|| Ok(()));
        assert!(driven.0.is_err());
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
        let mut lists = scripted(&[Step::InFlight, Step::InFlight, Step::InFlight, Step::Complete]);
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
