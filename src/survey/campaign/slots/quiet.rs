//! The campaign of a survey without load: it measures pairs until the conductor has no more of
//! them, or the time is up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::pace::{self, AnswerTimes, Pace, Suspects, estimate, probes, windows, with_window};
use super::{Crew, LostMembers, MemberWork, Members, pairs};
use crate::quiet::answer::{Answer, PairResult, Stage, Untested};
use crate::quiet::busy::{BusyCpus, BusyNode, BusySlots};
use crate::quiet::conductor::{Conductor, Settings, SurveyPhase, SurveyProgress};
use crate::quiet::findings::{Findings, Test};
use crate::quiet::roster::{Pair, Roster, TestId};
use crate::quiet::rounds::Round;
use crate::timetable::TestSetup;
use crew::host_list::compress;
use crew::location::Class;
use facts::error::{Failure, invalid};
use facts::interrupt;

/// Part of the time that is kept for suspects.
const FOR_SUSPECTS: u32 = 5;

/// Largest ratio of the time that is left to the time that has passed in the line of progress.
const LONGEST_LEFT: f64 = 1e4;

/// Most results that are kept for late processes: about 200 bytes each.
const MOST_RESULTS: usize = 1 << 20;

/// The argument of a tool with lists that makes each a single operation.
const SINGLE_OPERATIONS: &str = "--list-size=1";

/// Where results go while a survey measures, and what its user sees of it.
pub trait ResultRecorder {
    /// Begins with these nodes and NICs; begins again if processes have joined late.
    ///
    /// # Errors
    ///
    /// An output that cannot be written.
    fn begin(&mut self, roster: &Roster) -> Result<(), Failure>;

    /// Adds results.
    ///
    /// # Errors
    ///
    /// An output that cannot be written.
    fn add(&mut self, results: &[PairResult], roster: &Roster) -> Result<(), Failure>;

    /// The line of progress, which fits into `width` columns; `left` is the time that is left, if
    /// it is known.
    fn line(
        &self,
        progress: &SurveyProgress,
        left: Option<Duration>,
        roster: &Roster,
        width: usize,
    ) -> String;
}

/// The settings of a survey without load.
#[derive(Clone, Debug)]
pub struct QuietPlan {
    /// The tests, and the time of a pair.
    pub setup: TestSetup,
    pub settings: Settings,
    /// The pairs as typed, for messages.
    pub pairs: String,
    /// When the survey ends at the latest.
    pub ends: Option<Instant>,
    /// Whether processes are missing that may join late.
    pub waits_for_others: bool,
}

/// A survey without load.
#[derive(Debug)]
pub struct QuietSurvey {
    plan: QuietPlan,
    /// The test setup of the members: the plan's, and the tests with single operations.
    setup: TestSetup,
    conductor: Conductor,
    pace: Pace,
    answer_times: AnswerTimes,
    busy: BusyCpus,
    busy_slots: BusySlots,
    /// When the first block began.
    measuring: Instant,
    /// Since when the conductor counts the pairs that it measures.
    counted_since: Instant,
    /// Whether the user knows how long it takes.
    has_estimate: bool,
    /// Largest difference between the clocks of the processes, in nanoseconds.
    pub uncertainty_ns: Option<u64>,
    /// Number of the next round.
    round: u32,
    /// All results so far, for processes that join late: then the survey begins again with all
    /// NICs, and takes over its results. None if no process is missing, or there were too many.
    results: Option<Vec<PairResult>>,
}

impl QuietSurvey {
    /// Creates the survey of these members.
    ///
    /// # Errors
    ///
    /// Pairs that the members do not have.
    pub fn new(members: &Members, plan: QuietPlan) -> Result<Self, Failure> {
        Ok(Self {
            conductor: conductor(members, &plan)?,
            setup: plan.setup.clone(),
            pace: Pace::new(Duration::from_nanos(plan.setup.pair_ns)),
            answer_times: AnswerTimes::default(),
            busy: BusyCpus::default(),
            busy_slots: BusySlots::default(),
            measuring: Instant::now(),
            counted_since: Instant::now(),
            has_estimate: false,
            uncertainty_ns: None,
            round: 0,
            results: plan.waits_for_others.then(Vec::new),
            plan,
        })
    }

    pub fn roster(&self) -> &Roster {
        self.conductor.roster()
    }

    /// The number of pairs of the sweep that the survey has measured itself, and the number that it
    /// has still to measure.
    #[cfg(test)]
    pub fn measured_and_left(&self) -> (u64, u64) {
        self.conductor.measured_and_left()
    }

    pub fn tests(&self) -> &[Test] {
        &self.plan.setup.tests
    }

    /// Returns what the results so far say.
    pub fn findings(&self) -> Findings {
        self.conductor.findings()
    }

    /// The nodes whose CPUs were busy.
    pub fn busy_nodes(&self) -> Vec<BusyNode> {
        self.busy_slots.nodes(self.roster())
    }

    /// Adds results of an earlier survey, before the first round.
    pub fn add_earlier(&mut self, results: &[PairResult]) {
        for result in results {
            self.conductor.add_earlier(result);
            self.round = self.round.max(result.round + 1);
        }
        self.keep(results);
    }

    /// Measures until the survey is over.
    ///
    /// # Errors
    ///
    /// An interruption, an output that cannot be written, and members that are all lost.
    pub fn run(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &mut dyn ResultRecorder,
    ) -> Result<(), Failure> {
        let ranks = crew.members().first_nics.keys().copied().collect();
        self.prepare(crew, recorder, &ranks)?;
        (self.measuring, self.counted_since) = (Instant::now(), Instant::now());
        let mut rounds = Vec::new();
        loop {
            interrupt::check()?;
            if self.admit_late(crew, recorder)? {
                // The rounds so far have no meaning any longer.
                rounds.clear();
            }
            // The time that is left is for the suspects.
            let left = self.left();
            if left.is_some_and(|left| left < self.retest_time()) {
                self.conductor.end_sweep();
            }
            if rounds.is_empty() {
                rounds = self.conductor.next_rounds(self.pace.most(left));
            }
            if rounds.is_empty() {
                return Ok(());
            }
            let (count, slot) = self.next_block(&rounds, left);
            if left.is_some_and(|left| left < slot) {
                crew.note("the time is up");
                self.conductor.end_sweep();
                self.conductor.give_up("the time was up");
                return Ok(());
            }
            let later = rounds.split_off(count);
            self.measure(crew, recorder, &rounds, slot)?;
            rounds = later;
        }
    }

    /// Returns how many of the first rounds are a block, and the length of its slots. A round with
    /// a pair that is slower than its class is a block by itself.
    fn next_block(&mut self, rounds: &[Round], left: Option<Duration>) -> (usize, Duration) {
        let pair = self.pair_time();
        let slow_slot = |round: &Round| self.answer_times.slot_of_slow_pairs(round, pair);
        let alike = rounds.iter().take_while(|round| slow_slot(round).is_none()).count();
        let first_slow = slow_slot(&rounds[0]);
        let rounds = &rounds[..alike.max(1)];
        let is_short = first_slow.is_none() && self.conductor.has_short_slots(rounds);
        let (count, slot) = self.pace.block(rounds, is_short, left);
        (count, slot.max(first_slow.unwrap_or_default()))
    }

    /// Returns how much of the time is left, if there is a limit.
    fn left(&self) -> Option<Duration> {
        let end = self.plan.ends?;
        Some(end.saturating_duration_since(Instant::now()))
    }

    /// The time at the end of the survey in which only suspects are measured.
    fn retest_time(&self) -> Duration {
        let whole = self.plan.ends.map(|end| end.saturating_duration_since(self.measuring));
        whole.unwrap_or_default() / FOR_SUSPECTS
    }

    /// Takes the processes in that have joined since the last block began. Returns whether there
    /// are any.
    fn admit_late(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &mut dyn ResultRecorder,
    ) -> Result<bool, Failure> {
        let Some(results) = &self.results else {
            return Ok(false);
        };
        let arrived = crew.admit();
        if arrived.is_empty() {
            return Ok(false);
        }
        let members = crew.members();
        self.conductor = conductor(members, &self.plan)?;
        self.counted_since = Instant::now();
        results.iter().for_each(|result| self.conductor.add_earlier(result));
        recorder.begin(self.conductor.roster())?;
        let late = members.roster.nodes.iter().rev().take(arrived.len());
        let note = format!("joined late: {}", compress(late.map(|node| node.host.as_str())));
        crew.note(&note);
        let ranks = arrived.iter().map(|introduction| introduction.rank).collect();
        self.prepare(crew, recorder, &ranks)?;
        Ok(true)
    }

    /// Sends the processes with these ranks their test setup, and waits until they are prepared for
    /// it.
    fn prepare(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
        ranks: &BTreeSet<u32>,
    ) -> Result<(), Failure> {
        let lost =
            crew.prepare(ranks, &self.setup, &|roster, width| self.line(recorder, roster, width))?;
        self.lose(crew.members(), &lost);
        Ok(())
    }

    /// Leaves the nodes of processes out of all further rounds.
    fn lose(&mut self, members: &Members, lost: &LostMembers) {
        for (rank, reason) in lost {
            if let Some(node) = members.node(*rank) {
                self.conductor.lose(node, reason);
            }
        }
    }

    /// Keeps results for processes that join late.
    fn keep(&mut self, results: &[PairResult]) {
        if let Some(known) = &mut self.results {
            known.extend_from_slice(results);
        }
        self.results.take_if(|results| results.len() > MOST_RESULTS);
    }

    /// Measures a block of rounds of the same test, in slots of this length.
    fn measure(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &mut dyn ResultRecorder,
        rounds: &[Round],
        length: Duration,
    ) -> Result<(), Failure> {
        let roster = self.conductor.roster();
        let variant = |test, pair| {
            let is_slow = self.answer_times.is_slow(test, roster.class(pair))
                || self.answer_times.is_slow_pair(test, pair);
            if is_slow { self.single(test) } else { test }
        };
        let line = |roster: &Roster, width| self.line(recorder, roster, width);
        let mut block = pairs::measure(crew, rounds, self.round, length, &variant, &line)?;
        self.round += rounds.len() as u32;
        for (nic, reason) in &block.failed {
            self.conductor.fail_nic(*nic, reason);
        }
        for MemberWork { rank, tasks, busy_tasks, load } in &block.work {
            self.busy_slots.add(*rank, *tasks, *busy_tasks, load.as_ref());
        }
        self.uncertainty_ns = self.uncertainty_ns.max(block.clock_uncertainty_ns);
        let is_bandwidth = self.tests()[block.test.index()].of_bandwidth;
        self.pace.add(&block, is_bandwidth);
        self.adapt(crew, recorder, &mut block)?;
        if let Some(note) = self.busy.add(&block.pairs, is_bandwidth) {
            crew.note(&note);
        }
        recorder.add(&block.pairs, self.conductor.roster())?;
        self.keep(&block.pairs);
        for result in &block.pairs {
            self.conductor.add(result);
        }
        self.lose(crew.members(), &block.lost);
        let state = self.conductor.progress();
        if state.phase == SurveyPhase::Sweep && !self.has_estimate {
            let (measured, left) = self.conductor.measured_and_left();
            let note = estimate(measured, measured + left, self.counted_since.elapsed());
            self.has_estimate = note.is_some();
            note.iter().for_each(|note| crew.note(note));
        }
        Ok(())
    }

    /// Adapts slots and lists to the results of a block. Failures that say nothing because slots
    /// were too short become untested, so that their pairs are measured again.
    fn adapt(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
        block: &mut pairs::MeasuredRounds,
    ) -> Result<(), Failure> {
        let test = block.test;
        let suspects = self.answer_times.add(block, self.conductor.roster());
        if suspects.is_empty() {
            return self.measure_lone_pairs(crew, recorder, block);
        }
        let slow = self.probe(crew, recorder, test, &suspects)?;
        let mut pairs = BTreeSet::new();
        for (class, unanswered) in suspects {
            let time = slow.get(&class).copied();
            self.answer_times.decide(test, class, time, &unanswered);
            pairs.extend(unanswered.into_iter().filter(|_| time.is_some()));
        }
        self.pace.set_shortest(test, self.answer_times.slot(test, self.pair_time()));
        for result in block.pairs.iter_mut().filter(|result| pairs.contains(&result.pair)) {
            result.answer = Answer::Untested(Untested::ShortSlot);
        }
        self.conductor.withdraw_unanswered(test, &pairs);
        for class in slow.keys() {
            let (tool, class) = (&self.tests()[test.index()].tool, class.name());
            crew.note(&format!(
                "{tool}, {class}: most pairs had no answer in time; slots are longer, and lists shorter"
            ));
        }
        self.measure_lone_pairs(crew, recorder, block)
    }

    /// Measures pairs of a block again that had no answer although their class has, in lists of one
    /// operation and long slots: they may be slow, not dead.
    fn measure_lone_pairs(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
        block: &mut pairs::MeasuredRounds,
    ) -> Result<(), Failure> {
        let test = block.test;
        let size_bytes = self.tests()[test.index()].size_bytes;
        loop {
            let lone = self.answer_times.lone_pairs(&self.tests()[test.index()], block);
            let slot = with_window(pace::PROBE_WINDOWS[0]);
            if lone.is_empty() {
                break;
            }
            if self.left().is_some_and(|left| left < slot) {
                // Nothing tells dead pairs from slow ones: they stay untested.
                for own in block.pairs.iter_mut().filter(|own| lone.contains(&own.pair)) {
                    own.answer = Answer::Untested(Untested::ShortSlot);
                }
                break;
            }
            let some = pace::some_disjoint(lone.iter(), &mut BTreeSet::new());
            for result in self.measure_singles(crew, recorder, test, some, slot)? {
                match result.answer {
                    Answer::Measured(figures) => {
                        let time = pace::answer_time(figures, size_bytes);
                        self.answer_times.add_slow_pair(test, result.pair, time);
                    }
                    Answer::Failed(_) => self.answer_times.add_dead([result.pair]),
                    Answer::Untested(_) => {}
                }
                let mut own = block.pairs.iter_mut();
                if let Some(own) = own.find(|own| own.pair == result.pair) {
                    *own = PairResult { stage: own.stage, round: own.round, ..result };
                }
            }
        }
        self.answer_times.add_dead(block.pairs.iter().filter_map(|result| {
            let is_dead = matches!(result.answer, Answer::Failed(_));
            (is_dead && block.unanswered.contains(&result.pair)).then_some(result.pair)
        }));
        Ok(())
    }

    /// Measures these pairs in lists of one operation, in a slot of this length.
    fn measure_singles(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
        test: TestId,
        pairs: Vec<Pair>,
        slot: Duration,
    ) -> Result<Vec<PairResult>, Failure> {
        self.shorten_lists(crew, recorder)?;
        let rounds = [Round { test, stage: Stage::Sweep, pairs }];
        let block = pairs::measure(
            crew,
            &rounds,
            self.round,
            slot,
            &|test, _| self.single(test),
            &|roster, width| self.line(recorder, roster, width),
        )?;
        self.round += 1;
        self.lose(crew.members(), &block.lost);
        Ok(block.pairs)
    }

    /// Returns how long a single operation takes in each suspect class that is slow, not dead.
    fn probe(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
        test: TestId,
        suspects: &Suspects,
    ) -> Result<BTreeMap<Class, Duration>, Failure> {
        let longer = suspects
            .keys()
            .filter_map(|class| Some((*class, self.answer_times.longer(test, *class)?)));
        let mut slow: BTreeMap<Class, Duration> = longer.collect();
        let mut open = suspects.clone();
        open.retain(|class, _| !self.answer_times.is_slow(test, *class));
        for window in windows(&self.tests()[test.index()]) {
            let slot = with_window(*window);
            if open.is_empty() {
                break;
            }
            if self.left().is_some_and(|left| left < slot) {
                // Nothing tells dead pairs from slow ones: they stay untested.
                slow.extend(open.keys().map(|class| (*class, *window)));
                break;
            }
            let size_bytes = self.tests()[test.index()].size_bytes;
            for result in self.measure_singles(crew, recorder, test, probes(&open), slot)? {
                let class = self.conductor.roster().class(result.pair);
                let time = match result.answer {
                    Answer::Measured(figures) => pace::answer_time(figures, size_bytes),
                    Answer::Failed(_) => continue,
                    // A process was busy: nothing tells whether the pair is dead.
                    Answer::Untested(_) => Duration::ZERO,
                };
                let longest = slow.entry(class).or_default();
                *longest = (*longest).max(time);
            }
            open.retain(|class, _| !slow.contains_key(class));
        }
        Ok(slow)
    }

    /// The test of the test setup that measures as this one, in lists of one operation.
    fn single(&self, test: TestId) -> TestId {
        let count = self.tests().len();
        let has_singles = self.setup.tests.len() > count;
        if has_singles { TestId(test.0 + count as u16) } else { test }
    }

    /// Adds each test to the test setup once more, with lists of one operation.
    fn shorten_lists(
        &mut self,
        crew: &mut dyn Crew,
        recorder: &dyn ResultRecorder,
    ) -> Result<(), Failure> {
        let tests = &self.plan.setup.tests;
        if self.setup.tests.len() > tests.len() {
            return Ok(());
        }
        for (test, arguments) in tests.iter().zip(&self.plan.setup.arguments) {
            let list = test.of_bandwidth.then(|| SINGLE_OPERATIONS.to_owned());
            self.setup.tests.push(test.clone());
            self.setup.arguments.push(arguments.iter().cloned().chain(list).collect());
        }
        let ranks = crew.members().first_nics.keys().copied().collect();
        self.prepare(crew, recorder, &ranks)
    }

    fn pair_time(&self) -> Duration {
        Duration::from_nanos(self.plan.setup.pair_ns)
    }

    /// The line of progress.
    fn line(&self, recorder: &dyn ResultRecorder, roster: &Roster, width: usize) -> String {
        let state = self.conductor.progress();
        let (measured, left) = self.conductor.measured_and_left();
        let ratio = (left as f64 / measured as f64).min(LONGEST_LEFT);
        let is_known = measured > 0 && left > 0;
        let left = is_known.then(|| self.counted_since.elapsed().mul_f64(ratio));
        recorder.line(&state, left, roster, width)
    }
}

/// The conductor of a survey of these members.
fn conductor(members: &Members, plan: &QuietPlan) -> Result<Conductor, Failure> {
    let tests = plan.setup.tests.clone();
    Conductor::new(members.roster.clone(), tests, plan.settings.clone())
        .map_err(|why| Failure::usage(invalid("pairs", &plan.pairs, why)))
}
