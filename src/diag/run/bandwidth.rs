//! One size of a bandwidth run: lists of operations, in one direction or both.

use std::slice;
use std::time::Duration;

use super::context::{Barriers, CLEANUP, LoopContext, POST_RUN, PRE_RUN};
use super::pairs::{End, Pair, PairProgress, PairsLoop, settle};
use super::results::BandwidthResults;
use super::size_loop::longest_size;
use super::threads::Measurement;
use super::watchdog::Notices;
use crate::bench::api::{Bandwidth, Lists, RepeatLists};
use facts::advice::{Advise, Situation};
use facts::error::Failure;
use facts::interrupt;
use facts::phase::{Phase, enter};
use facts::rate::{KeptSchedule, Period};
use measure::{Clock, Gauge, MonotonicRaw, SideResult, SideView, ViewTimer, WaitPolicy};
use plan::run_options::{RunOptions, Side};

/// Measures lists of operations of `size` bytes.
///
/// # Errors
///
/// The failure of an operation or of the peer, an impossible result of the peer, and an
/// interruption.
pub fn measure<B: Bandwidth>(
    context: &LoopContext<'_>,
    pairs: &mut [B::Resources],
    size: u64,
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    let run = context.run;
    let list_size = run.lists()?.list_size.into();
    let (barriers, limit) = (context.barriers, longest_size(run, size));
    let (part, period) = (B::part(run, context.side), run.period(size));
    if !part.issues() && !B::ANSWERS {
        wait_for_peer(barriers, limit, run, pairs.len(), results)?;
        return exchange_views::<B>(context, pairs, results);
    }
    let measuring = Measuring {
        barriers,
        limit,
        run,
        side: context.side,
        list_size,
        // Only a server can see that the peer waits: the client sends first. A client answers with
        // --reverse, and its server ends at the same time.
        ends_with_peer: !part.issues() && context.side == Side::Server,
        peer_issues: part.is_target(),
        answers: B::ANSWERS,
        peer_ends_in_step: context.peer_is_cxidiag,
        left_by_peer: if context.peer_is_cxidiag { 0 } else { left_by_legacy_peer(run, size) },
        // All pairs share the link.
        policy: WaitPolicy::new(context.supervisor)
            .for_bytes(run.bytes(size))
            .for_pause(period.map_or(0, Period::nanoseconds)),
        cpus: context.cpus,
        notices: context.notices,
        // A side that only answers follows the peer.
        period: period.filter(|_| part.issues()),
        results: &mut *results,
    };
    B::measure(pairs, run, size, measuring)?;
    exchange_views::<B>(context, pairs, results)
}

/// Exchanges each side's own view of the size, with `--both-ends`.
fn exchange_views<B: Bandwidth>(
    context: &LoopContext<'_>,
    pairs: &mut [B::Resources],
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    if !context.run.extensions.both_ends {
        return Ok(());
    }
    let mut arrived = None;
    for pair in pairs {
        if let Some(pair_count) = B::arrived(pair, context.run)? {
            arrived = Some(arrived.unwrap_or(0) + pair_count);
        }
    }
    let own = SideView {
        issued: results.issued,
        arrived: arrived.map(|arrived| arrived - results.arrived_before),
        ..results.timed
    };
    results.arrived_before = arrived.unwrap_or(0);
    results.views = Some([own, context.barriers.views(own)?]);
    Ok(())
}

/// Waits while the peer measures: this side issues and answers nothing.
fn wait_for_peer(
    barriers: &dyn Barriers,
    limit: Duration,
    run: &RunOptions,
    pairs: usize,
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    enter(Phase::PreRun);
    barriers.barrier(PRE_RUN, limit)?;
    enter(Phase::Measuring);
    let timer = ViewTimer::start();
    barriers.barrier(POST_RUN, limit)?;
    results.timed = timer.view();
    enter(Phase::Results);
    for _ in 0..pairs {
        results.own.push(SideResult::default());
        let peer = barriers.results(SideResult::default())?;
        check_count(peer, true, run)?;
        results.peer.push(peer);
    }
    Ok(())
}

/// The loop for one size.
///
/// The measured time begins at the first barrier and ends with the last list or reply of this side;
/// the final barrier is not counted (defect T18 of tools.md). A duration may end in the middle of
/// an iteration: acknowledged lists count. Then both sides complete, unmeasured, the iterations
/// that either side has begun, so that no operation is left for the next size (defect T23).
///
/// A legacy peer leaves its loop in the middle of an iteration when its time is up, and completes
/// that iteration in the next size. So this side leaves it incomplete as well. Only in timed
/// bidirectional runs with rendezvous does a legacy peer complete its iteration, before an
/// additional barrier (wire.md 6.3).
struct Measuring<'a> {
    barriers: &'a dyn Barriers,
    /// Time limit of the peer for this size.
    limit: Duration,
    run: &'a RunOptions,
    side: Side,
    list_size: u64,
    /// A run by duration ends when the peer waits at the barrier.
    ends_with_peer: bool,
    /// The peer issues lists as well.
    peer_issues: bool,
    /// The software of each side answers the peer's lists, so that no side can complete two
    /// iterations more than the other.
    answers: bool,
    /// The peer completes the iterations that either side has begun when the time is up.
    peer_ends_in_step: bool,
    /// Most iterations that the peer has left incomplete in earlier sizes.
    left_by_peer: u64,
    policy: WaitPolicy<'a>,
    /// A CPU for each thread; empty for one thread.
    cpus: &'a [u32],
    /// Reports long waits.
    notices: Notices<'a>,
    /// Time between the intended starts of two lists of a pair, if there is a rate.
    period: Option<Period>,
    /// The results, also if the loop fails.
    results: &'a mut BandwidthResults,
}

impl RepeatLists for Measuring<'_> {
    type Output = ();

    fn run(mut self, lists: &mut [impl Lists]) -> Result<(), Failure> {
        let (barriers, limit) = (self.barriers, self.limit);
        let (clock, run) = (&MonotonicRaw, self.run);
        let is_stopped_by_signal = run.extensions.until_stopped;
        let results = &mut *self.results;
        let measurement = Measurement {
            clock,
            end: match run.duration() {
                None => End::Iterations(run.iters),
                Some(_) if self.ends_with_peer => End::Peer,
                Some(_) if is_stopped_by_signal => End::Asked,
                Some(time) => End::Duration(time.as_nanos() as u64),
            },
            gauge: &results.gauge,
            list_size: self.list_size,
            cpus: self.cpus,
            notices: self.notices,
            period: self.period,
        };
        let mut timer = ViewTimer::start();
        let begin = || {
            enter(Phase::PreRun);
            barriers.barrier(PRE_RUN, limit)?;
            enter(Phase::Measuring);
            timer = ViewTimer::start();
            Ok(())
        };
        let peer_waits = || barriers.peer_waits();
        // A signal stops the client, and the client its server.
        let is_asked_to_end = || match self.side {
            Side::Client if is_stopped_by_signal => interrupt::is_stopped(),
            _ => peer_waits(),
        };
        let measured = measurement.run(lists, self.policy, begin, &is_asked_to_end);
        results.timed = timer.view();
        let until_failure =
            (measured.result.is_err() && measured.start > 0).then(|| clock.now() - measured.start);
        results.own = measured
            .progress
            .iter()
            .zip(&*lists)
            .map(|(progress, lists)| SideResult {
                elapsed_us: (until_failure.unwrap_or(progress.elapsed) + 500) / 1000,
                count: lists.issued() * self.list_size,
            })
            .collect();
        let kept = measured.progress.iter().filter_map(|progress| progress.kept);
        results.kept = KeptSchedule::from_pairs(&kept.collect::<Vec<_>>());
        if let Some(longest) = measured.progress.iter().map(|progress| progress.elapsed).max() {
            results.gauge.end(measured.start + until_failure.unwrap_or(longest));
        }
        measured.result?;
        enter(Phase::PostRun);
        barriers.barrier(POST_RUN, limit)?;
        self.exchange_results(&measured.progress)?;
        self.settle_pairs(lists, measured.start, &measured.progress)
    }
}

impl Measuring<'_> {
    /// Exchanges the results of each pair with the peer.
    fn exchange_results(&mut self, progress: &[PairProgress]) -> Result<(), Failure> {
        enter(Phase::Results);
        for (own, progress) in self.results.own.iter().zip(progress) {
            let peer = self.barriers.results(*own)?;
            if self.answers {
                let own = progress.completed.saturating_add(self.left_by_peer);
                check_lead(peer, own, self.list_size)?;
            } else {
                check_count(peer, self.peer_issues, self.run)?;
            }
            self.results.peer.push(peer);
        }
        Ok(())
    }

    /// Completes, unmeasured, the lists that either side has begun.
    fn settle_pairs(
        self,
        lists: &mut [impl Lists],
        start: u64,
        progress: &[PairProgress],
    ) -> Result<(), Failure> {
        enter(Phase::Settling);
        let Self { barriers, run, results, .. } = self;
        let clock = &MonotonicRaw;
        let peer_waits = || barriers.peer_waits();
        for (at, lists) in lists.iter_mut().enumerate() {
            let mut pair = Pair::new(lists, progress[at], self.policy);
            if self.answers && self.peer_ends_in_step {
                let begun = results.own[at].count.max(results.peer[at].count) / self.list_size;
                let rest = PairsLoop {
                    clock,
                    start,
                    end: End::Iterations(begun),
                    is_asked_to_end: &peer_waits,
                    check: &interrupt::check,
                    gauge: &Gauge::default(),
                    list_size: 0,
                };
                rest.drive(slice::from_mut(&mut pair))?;
            }
            if cleans_up(run) {
                settle(&mut pair, clock, peer_waits)?;
            }
        }
        if cleans_up(run) {
            barriers.barrier(CLEANUP, self.limit)?;
        }
        let issued = lists.iter().map(|lists| lists.issued()).sum::<u64>();
        results.issued = issued * self.list_size;
        Ok(())
    }
}

/// The most iterations that a legacy peer has left incomplete before `size`: one in each timed
/// size. It begins each size with a new list (tools.md 7.7), so what still arrives of the old
/// iteration puts it one ahead.
fn left_by_legacy_peer(run: &RunOptions, size: u64) -> u64 {
    let earlier = run.sizes().take_while(|earlier| *earlier < size).count();
    run.duration().map_or(0, |_| earlier as u64)
}

/// Checks the number of operations that the peer has reported (defect T27 of tools.md): a rate is
/// computed from it, and this side waits for the operations. Where software answers, the peer has
/// completed at most one iteration more than the `completed` ones of this side, and issued the list
/// of the next one.
fn check_lead(peer: SideResult, completed: u64, list_size: u64) -> Result<(), Failure> {
    refuse_above(peer, completed.saturating_add(2).saturating_mul(list_size))
}

/// Checks the number of operations that the peer has reported where software does not answer. A
/// peer that issues no operations must report none. A run by iterations allows the operations of
/// all iterations; a run by duration allows about one operation per nanosecond.
fn check_count(peer: SideResult, peer_issues: bool, run: &RunOptions) -> Result<(), Failure> {
    let list_size = run.lists()?.list_size.into();
    let most = match run.duration_s {
        _ if !peer_issues => 0,
        None => run.iters.saturating_mul(list_size),
        Some(_) => peer.elapsed_us.saturating_mul(1000).saturating_add(list_size),
    };
    refuse_above(peer, most)
}

fn refuse_above(peer: SideResult, most: u64) -> Result<(), Failure> {
    if peer.count <= most {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "the peer reported {} operations, at most {most} are possible",
        peer.count
    ))
    .advised(Situation::NoDiagnostic))
}

/// Whether a barrier follows the exchange of results (wire.md 6.3).
fn cleans_up(run: &RunOptions) -> bool {
    let both = run.lists.is_some_and(|lists| lists.bidirectional);
    both && run.rdzv && run.duration_s.is_some() && run.min_size < run.max_size
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::bench::api::{Part, Step};
    use crate::bench::testing::Alone;
    use facts::limit::ANSWER_LIMIT;
    use plan::testing::plan;
    use session::PeerCheck;

    /// A peer with a result of `lists` lists of 4 operations.
    struct ScriptedPeer {
        lists: u64,
        /// Waits at the next barrier.
        waits: bool,
        barriers: AtomicU64,
    }

    impl Barriers for ScriptedPeer {
        fn barrier_while(
            &self,
            _: &str,
            _: Duration,
            _: &mut PeerCheck<'_>,
        ) -> Result<(), Failure> {
            self.barriers.fetch_add(1, Relaxed);
            Ok(())
        }

        fn results(&self, _: SideResult) -> Result<SideResult, Failure> {
            assert_eq!(self.barriers.load(Relaxed), 2);
            Ok(SideResult { elapsed_us: 1, count: self.lists * 4 })
        }

        fn views(&self, _: SideView) -> Result<SideView, Failure> {
            Ok(SideView::default())
        }

        fn peer_waits(&self) -> bool {
            self.waits
        }
    }

    fn peer(lists: u64, waits: bool) -> ScriptedPeer {
        ScriptedPeer { lists, waits, barriers: AtomicU64::new(0) }
    }

    /// Of four steps, the first issues a list, the third completes an iteration, the others wait.
    /// After `most` iterations all steps wait.
    struct Scripted {
        most: u64,
        steps: u64,
        issued: u64,
        completed: u64,
    }

    impl Lists for Scripted {
        fn step(&mut self) -> Result<Step, Failure> {
            if self.completed == self.most {
                return Ok(Step::Waiting);
            }
            self.steps += 1;
            Ok(match self.steps % 4 {
                1 => {
                    self.issued += 1;
                    Step::Going
                }
                3 => {
                    self.completed += 1;
                    Step::Complete
                }
                _ => Step::Waiting,
            })
        }

        fn issued(&self) -> u64 {
            self.issued
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            Ok(!matches!(self.steps % 4, 0 | 3))
        }
    }

    fn scripted(most: u64) -> Scripted {
        Scripted { most, steps: 0, issued: 0, completed: 0 }
    }

    /// Waits in the second iteration until both sides have passed the second barrier.
    struct Stuck<'a> {
        scripted: Scripted,
        peer: &'a ScriptedPeer,
    }

    impl Lists for Stuck<'_> {
        fn step(&mut self) -> Result<Step, Failure> {
            if self.scripted.issued == 2 && self.peer.barriers.load(Relaxed) < 2 {
                return Ok(Step::Waiting);
            }
            self.scripted.step()
        }

        fn issued(&self) -> u64 {
            self.scripted.issued
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            self.scripted.are_under_way()
        }
    }

    fn no_results() -> BandwidthResults {
        BandwidthResults::new(Part::Active, Side::Client, false, false)
    }

    /// The loop of an active side against a cxidiag peer.
    fn active<'a>(
        run: &'a RunOptions,
        peer: &'a ScriptedPeer,
        results: &'a mut BandwidthResults,
    ) -> Measuring<'a> {
        Measuring {
            barriers: peer,
            limit: ANSWER_LIMIT,
            run,
            side: Side::Client,
            list_size: 4,
            ends_with_peer: false,
            peer_issues: true,
            answers: true,
            peer_ends_in_step: true,
            left_by_peer: 0,
            policy: WaitPolicy::new(&Alone),
            cpus: &[],
            notices: Notices::default(),
            period: None,
            results,
        }
    }

    #[test]
    fn counts_iterations() {
        let run = plan("send-bw", &["-n", "5"]).run;
        let (peer, mut lists, mut results) = (peer(5, false), scripted(u64::MAX), no_results());
        active(&run, &peer, &mut results).run(slice::from_mut(&mut lists)).unwrap();
        assert_eq!((lists.completed, lists.issued), (5, 5));
        assert_eq!(results.own[0].count, 20);
    }

    /// Otherwise the loop would wait forever for operations that never arrive.
    #[test]
    fn t27_rejects_impossible_result_of_peer() {
        let run = plan("send-bw", &["-n", "5"]).run;
        for (lists, is_possible) in [(5, true), (7, true), (8, false), (u64::MAX / 4, false)] {
            let (other, mut results) = (peer(lists, false), no_results());
            let measuring =
                Measuring { peer_ends_in_step: false, ..active(&run, &other, &mut results) };
            let result = measuring.run(&mut [scripted(u64::MAX)]);
            assert_eq!(result.is_ok(), is_possible, "{lists}");
        }
    }

    #[test]
    fn legacy_peer_may_lead_by_iteration_of_each_earlier_size() {
        let range = ["-D", "1", "-s", "1024:65536"];
        let run = plan("send-bw", &range).run;
        let left = [1024, 2048, 65536].map(|size| left_by_legacy_peer(&run, size));
        assert_eq!(left, [0, 1, 6]);
        let untimed = plan("send-bw", &["-n", "5", "-s", "1024:65536"]).run;
        assert_eq!(left_by_legacy_peer(&untimed, 65536), 0);
        let run = plan("send-bw", &["-n", "5"]).run;
        for (lists, is_possible) in [(13, true), (14, false)] {
            let (other, mut results) = (peer(lists, false), no_results());
            let measuring = Measuring {
                peer_ends_in_step: false,
                left_by_peer: 6,
                ..active(&run, &other, &mut results)
            };
            let result = measuring.run(&mut [scripted(u64::MAX)]);
            assert_eq!(result.is_ok(), is_possible, "{lists}");
        }
    }

    /// The time is up in the middle of the second iteration, which goes on only when the peer's
    /// time is up as well. With a cxidiag peer this size completes it, with a legacy peer the next
    /// size does. Its list counts in both cases.
    #[test]
    fn t23_ends_in_step_with_cxidiag_peer() {
        let run = plan("send-bw", &["-D", "1"]).run;
        for (peer_ends_in_step, completed) in [(true, 2), (false, 1)] {
            let (peer, mut results) = (peer(1, false), no_results());
            let measuring = Measuring { peer_ends_in_step, ..active(&run, &peer, &mut results) };
            let mut stuck = Stuck { scripted: scripted(u64::MAX), peer: &peer };
            measuring.run(slice::from_mut(&mut stuck)).unwrap();
            let counted = (results.own[0].count, stuck.scripted.completed);
            assert_eq!(counted, (8, completed), "{peer_ends_in_step}");
        }
    }

    #[test]
    fn adds_barrier_after_timed_bidirectional_rendezvous_range() {
        let has_barrier = |options: &[&str]| {
            let run = plan("send-bw", options).run;
            cleans_up(&run)
        };
        assert!(has_barrier(&["-D", "1", "-s", "8:16", "-b", "-R"]));
        for others in [
            &["-s", "8:16", "-b", "-R"][..],
            &["-D", "1", "-s", "8", "-b", "-R"],
            &["-D", "1", "-s", "8:16", "-R"],
            &["-D", "1", "-s", "8:16", "-b"],
        ] {
            assert!(!has_barrier(others), "{others:?}");
        }
    }

    #[test]
    fn answering_side_goes_on_until_peer_waits() {
        let run = plan("send-bw", &["-D", "1"]).run;
        let (peer, mut lists, mut results) = (peer(3, true), scripted(3), no_results());
        let measuring = Measuring { ends_with_peer: true, ..active(&run, &peer, &mut results) };
        measuring.run(slice::from_mut(&mut lists)).unwrap();
        assert_eq!(lists.completed, 3);
    }

    /// Without answers the sides are independent: one may be far ahead when the time is up.
    #[test]
    fn t27_bounds_result_of_peer_that_answers_nothing() {
        let result_of = |options: &[&str], lists, peer_issues| {
            let run = plan("write-bw", &[&["-l", "4"], options].concat()).run;
            let (other, mut results) = (peer(lists, false), no_results());
            let measuring =
                Measuring { peer_issues, answers: false, ..active(&run, &other, &mut results) };
            measuring.run(&mut [scripted(u64::MAX)]).is_ok()
        };
        assert!(result_of(&["-n", "5"], 5, true));
        assert!(!result_of(&["-n", "5"], 6, true));
        // The peer's time is 1 us.
        assert!(result_of(&["-D", "1"], 250, true));
        assert!(!result_of(&["-D", "1"], 252, true));
        assert!(result_of(&["-n", "5"], 0, false));
        assert!(!result_of(&["-n", "5"], 1, false));
    }

    /// A pair cannot know the iterations of another one: each exchanges its own result.
    #[test]
    fn t23_each_pair_ends_in_step_with_its_counterpart() {
        let run = plan("send-bw", &["-n", "5"]).run;
        let (peer, mut results) = (peer(6, false), no_results());
        let mut pairs = [scripted(u64::MAX), scripted(u64::MAX)];
        active(&run, &peer, &mut results).run(&mut pairs).unwrap();
        assert_eq!(pairs.map(|pair| pair.completed), [6, 6]);
        let counts: Vec<_> = results.own.iter().map(|own| own.count).collect();
        assert_eq!(counts, [20, 20]);
        assert_eq!(results.peer.len(), 2);
    }

    #[test]
    fn passive_side_waits_and_takes_result_of_peer() {
        let run = plan("write-bw", &["-n", "3", "-l", "4"]).run;
        let (peer, mut results) = (peer(3, false), no_results());
        wait_for_peer(&peer, ANSWER_LIMIT, &run, 1, &mut results).unwrap();
        assert_eq!(peer.barriers.load(Relaxed), 2);
        assert_eq!(results.peer[0].count, 12);
    }
}
