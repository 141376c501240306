//! The coordinator loop: waits for the members, sends them blocks of slots, receives their results,
//! and ends the survey. The coordinator measures nothing itself.

mod fabric_parts;
mod group_links;
mod investigation;
mod load;
mod member_control;
pub mod suspect;
mod untested;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufReader;
use std::mem;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::busy::BusyCpus;
use super::files::Files;
use super::joined::JoinedMembers;
use super::late::LateMembers;
use super::launch::Launch;
use super::locations::Locations;
use super::members::Members;
use super::pace::{Pace, estimate};
use super::request::SurveyRequest;
use super::written::{Notes, Outputs};
use crate::command::output::or_early_failure;
use cluster::host_list::compress;
use cluster::survey::busy::BusySlots;
use cluster::survey::conductor::{Conductor, Phase, Settings};
use cluster::survey::findings::{Findings, Test};
use cluster::survey::rounds::NicOrder;
use cluster::survey::timetable::{Course, Round};
use facts::error::{Failure, invalid};
use facts::job::Job;
use facts::{interrupt, limit};
use member_control::{Line, MemberControl, by_size};
use report::survey::lines::Earlier;
use report::survey::{Setup, Survey, SurveyJob, progress};

/// How long the coordinator waits for all members to join (jobs.md 3.6), and longer for each
/// thousand.
const JOIN_LIMIT: Duration = Duration::from_secs(30);
const JOIN_LIMIT_OF_THOUSAND: Duration = Duration::from_secs(1);

/// Part of the time that is kept for suspects.
const FOR_SUSPECTS: u32 = 5;

/// Largest ratio of the time that is left to the time that has passed in the line of progress.
const LONGEST_LEFT: f64 = 1e4;

/// How long before the end of the job the survey ends.
const BEFORE_END_OF_JOB: Duration = Duration::from_secs(60);

/// How long the members may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Runs a survey from the start of its processes to its last output.
///
/// # Errors
///
/// Files that cannot be read or written, processes that cannot be started, and a verdict other than
/// good.
pub fn run(request: &SurveyRequest, launch: Launch) -> Result<(), Failure> {
    match Files::open(request) {
        Ok(files) => survey(request, &launch, files),
        Err(failure) => {
            let failed = or_early_failure(request.places.json.as_ref(), Err(failure));
            failed.map_err(|failure| launch.fail(request, failure, join_limit(request, &launch)))
        }
    }
}

/// Runs a survey with these open files.
fn survey(request: &SurveyRequest, launch: &Launch, files: Files) -> Result<(), Failure> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let Files { selections, mut locations, earlier, outputs } = files;
    let mut notes = Notes::new("survey", request.is_quiet);
    if let Some(note) = &request.without_effect {
        notes.add(note);
    }
    let setup = setup(request, launch);
    let ends = ends(request, launch);
    let Gathered { mut control, joining, joined } =
        outputs.or_failure(gather(request, launch, notes))?;
    let late = &control.late.joined;
    locations.add_topology(late);
    (control.members).locate(late, |host, nic| locations.of(host, nic));
    if let Some(note) = locations.note(&control.members.roster) {
        control.notes.add(&note);
    }
    let settings = Settings {
        selections,
        nics: if request.at_once { NicOrder::AtOnce } else { NicOrder::InTurn },
        most_active: launch.most_active(request),
        seed: request.seed,
        expectations: request.tests.iter().map(|test| test.expectations.clone()).collect(),
        sensitivity: request.sensitivity,
        keep_figures: request.keeps_matrix.then_some(true),
    };
    let conductor = conductor(request, &control.members, &setup.tests, &settings);
    let conductor = outputs.or_failure(conductor)?;
    let mut survey = CoordinatorLoop {
        request,
        has_launcher: launch.has_launcher(),
        control,
        locations,
        settings,
        conductor,
        outputs,
        ends,
        pace: Pace::new(request.pair_time),
        busy: BusyCpus::default(),
        busy_slots: BusySlots::default(),
        measuring: Instant::now(),
        has_estimate: false,
        uncertainty_ns: None,
    };
    if let (Some(load), Ok(())) = (&request.load, &joined) {
        // What is not possible is known before the quiet part.
        let planned = if load.wanted.is_plan {
            survey.print_plan(load)
        } else {
            survey.load_conductor(load, &Findings::default()).map(drop)
        };
        if load.wanted.is_plan || planned.is_err() {
            end(survey.control, joining);
            return survey.outputs.or_failure(planned);
        }
    }
    let mut ended = joined.and_then(|()| survey.measure_rounds(started, &setup, earlier));
    let verdict = survey.conductor.findings();
    let elapsed = clock.elapsed();
    let (mut why, mut shared) = (Vec::new(), Vec::new());
    if request.explains && ended.is_ok() {
        // The verdict stands, however the diagnosis ends.
        if let Err(failure) = survey.explain(&verdict, &mut why, &mut shared) {
            survey.control.notes.add(&format!("diagnosis: {failure}"));
        }
    }
    let mut load = None;
    if let (Some(wanted), Ok(())) = (&request.load, &ended) {
        match survey.load(wanted, &verdict) {
            Ok((found, interrupted)) => (load, ended) = (Some(found), interrupted),
            Err(failure) => ended = Err(failure),
        }
    }
    let CoordinatorLoop { mut control, conductor, outputs, uncertainty_ns, busy_slots, .. } =
        survey;
    let mut document = Survey::new(
        setup,
        started,
        elapsed,
        conductor.roster().clone(),
        verdict,
        load,
        ended.as_ref().copied(),
    );
    document.clock_uncertainty_ns = uncertainty_ns;
    (document.why, document.why_shared) = (why, shared);
    document.busy_nodes = busy_slots.nodes(&document.roster);
    control.notes.progress.hide();
    // The results come first: a member that hangs must not delay them.
    let found = outputs.end(&document);
    end(control, joining);
    found
}

/// The members that have joined, or why none has.
struct Gathered {
    control: MemberControl,
    joining: JoinedMembers,
    joined: Result<(), Failure>,
}

/// Starts the members, and waits for them.
fn gather(request: &SurveyRequest, launch: &Launch, mut notes: Notes) -> Result<Gathered, Failure> {
    let limit = join_limit(request, launch);
    let (mut root, mut joining) = launch.start(request, limit)?;
    let joined = joining.join(&mut root, launch.size, limit, &mut notes);
    let late = LateMembers::new(launch.size, mem::take(&mut joining.joined));
    let hosts = launch.host_names(&late.joined);
    let members = Members::new(hosts, &late.joined, |rank| joining.absent(rank));
    Ok(Gathered { control: MemberControl::new(root, members, late, notes), joining, joined })
}

fn end(control: MemberControl, mut joining: JoinedMembers) {
    let MemberControl { mut root, members, mut notes, .. } = control;
    for (rank, reason) in root.end(END_LIMIT) {
        if let Some(node) = members.node(rank) {
            let host = &members.roster.node(node).host;
            notes.warn(&format!("{host}: {reason}"));
        }
    }
    // Members that have not ended yet find no coordinator, and end.
    drop(root);
    joining.finish();
}

/// Returns the conductor of a survey of these members.
fn conductor(
    request: &SurveyRequest,
    members: &Members,
    tests: &[Test],
    settings: &Settings,
) -> Result<Conductor, Failure> {
    Conductor::new(members.roster.clone(), tests.to_vec(), settings.clone())
        .map_err(|why| Failure::usage(invalid("pairs", &request.pairs, why)))
}

/// Returns the facts about the survey that are known before it measures.
fn setup(request: &SurveyRequest, launch: &Launch) -> Setup {
    let expectations = request.tests.iter().flat_map(|test| &test.expectations);
    let mut expectations: Vec<String> =
        expectations.map(|expectation| expectation.text.clone()).collect();
    expectations.dedup();
    Setup {
        arguments: launch.typed(),
        tests: request.tests.iter().map(|test| test.test.clone()).collect(),
        pairs: request.pairs.clone(),
        seed: request.seed,
        nics_at_once: request.at_once,
        max_active: launch.most_active(request),
        pair_s: request.pair_time.as_secs_f64(),
        time_limit_s: request.time_limit.map(|limit| limit.as_secs_f64()),
        expectations,
        launcher: launch.launcher.clone(),
        job: Job::from_environment().map(|job| SurveyJob {
            manager: job.manager.into(),
            id: job.id,
            step: launch.step(),
        }),
        processes: launch.size,
    }
}

/// Returns when the survey ends at the latest, if ever.
fn ends(request: &SurveyRequest, launch: &Launch) -> Option<Instant> {
    let now = Instant::now();
    let job_time = launch.end_of_job().and_then(|end| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let left = Duration::from_secs(end).saturating_sub(since_epoch);
        Some(left.saturating_sub(BEFORE_END_OF_JOB))
    });
    let limits = [request.time_limit, job_time];
    limits.into_iter().flatten().min().map(|left| now + left)
}

/// Returns how long the coordinator waits for processes that are missing.
fn join_limit(request: &SurveyRequest, launch: &Launch) -> Duration {
    let usual = || limit::in_effect(by_size(JOIN_LIMIT, JOIN_LIMIT_OF_THOUSAND, launch.size));
    request.join_limit.unwrap_or_else(usual)
}

/// A survey in progress.
struct CoordinatorLoop<'a> {
    request: &'a SurveyRequest,
    /// A launcher has started the members.
    has_launcher: bool,
    control: MemberControl,
    locations: Locations,
    settings: Settings,
    conductor: Conductor,
    outputs: Outputs,
    ends: Option<Instant>,
    pace: Pace,
    busy: BusyCpus,
    busy_slots: BusySlots,
    /// When the first block began.
    measuring: Instant,
    /// Whether the user knows how long it takes.
    has_estimate: bool,
    /// Largest difference between the clocks of the processes, in nanoseconds.
    uncertainty_ns: Option<u64>,
}

impl CoordinatorLoop<'_> {
    /// Measures until the survey is over.
    fn measure_rounds(
        &mut self,
        started: SystemTime,
        setup: &Setup,
        earlier: Option<Earlier<BufReader<fs::File>>>,
    ) -> Result<(), Failure> {
        let (roster, tests) = (self.conductor.roster().clone(), setup.tests.clone());
        self.outputs.begin(started, setup, &roster)?;
        if let Some(earlier) = earlier {
            let mut results = Vec::new();
            let taken = earlier.results(&roster, &tests, |result| results.push(result))?;
            for result in &results {
                self.conductor.add_earlier(result);
                self.control.round = self.control.round.max(result.round + 1);
            }
            self.control.late.note(&results);
            self.control.notes.add(&taken.to_string());
        }
        let ranks = self.control.members.first_nics.keys().copied().collect();
        self.prepare(ranks)?;
        self.measuring = Instant::now();
        let mut rounds = Vec::new();
        loop {
            interrupt::check()?;
            if self.admit_late(started, setup)? {
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
            let is_sweep = self.conductor.progress().phase == Phase::Sweep;
            let (count, slot) = self.pace.block(&rounds, is_sweep, left);
            if left.is_some_and(|left| left < slot) {
                self.control.notes.add("the time is up");
                self.conductor.end_sweep();
                self.conductor.give_up("the time was up");
                return Ok(());
            }
            let later = rounds.split_off(count);
            self.measure(&rounds, slot, &tests)?;
            rounds = later;
        }
    }

    /// Returns how much of the time is left, if there is a limit.
    fn left(&self) -> Option<Duration> {
        let end = self.ends?;
        Some(end.saturating_duration_since(Instant::now()))
    }

    /// Returns the time at the end of the survey in which only suspects are measured.
    fn retest_time(&self) -> Duration {
        let whole = self.ends.map(|end| end.saturating_duration_since(self.measuring));
        whole.unwrap_or_default() / FOR_SUSPECTS
    }

    /// Takes the processes in that have joined since the last block began. Returns whether there
    /// are any: then the rounds so far have no meaning any longer.
    fn admit_late(&mut self, started: SystemTime, setup: &Setup) -> Result<bool, Failure> {
        let arrived = self.control.late.take_arrived();
        if arrived.is_empty() {
            return Ok(false);
        }
        for introduction in &arrived {
            let host = self.has_launcher.then_some(introduction.host.as_str());
            self.control.members.add_late(introduction, host);
        }
        let (joined, locations) = (&self.control.late.joined, &mut self.locations);
        locations.add_topology(joined);
        self.control.members.locate(joined, |host, nic| locations.of(host, nic));
        let members = &self.control.members;
        self.conductor = conductor(self.request, members, &setup.tests, &self.settings)?;
        self.control.late.repeat(&mut self.conductor);
        self.outputs.begin(started, setup, self.conductor.roster())?;
        let nodes = &self.control.members.roster.nodes;
        let late = nodes.iter().rev().take(arrived.len()).map(|node| node.host.as_str());
        self.control.notes.add(&format!("joined late: {}", compress(late)));
        self.prepare(arrived.iter().map(|introduction| introduction.rank).collect())?;
        Ok(true)
    }

    /// Sends the processes with these ranks their course, and waits until they are prepared for it.
    fn prepare(&mut self, ranks: BTreeSet<u32>) -> Result<(), Failure> {
        let tests = self.request.tests.iter();
        let course = |first_nic| Course {
            tests: tests.clone().map(|test| test.test.clone()).collect(),
            arguments: tests.clone().map(|test| test.arguments.clone()).collect(),
            pair_ns: self.request.pair_time.as_nanos() as u64,
            first_nic,
        };
        let line = line(&self.conductor, self.measuring);
        let lost = self.control.prepare(ranks, line, course)?;
        self.lose(lost);
        Ok(())
    }

    /// Leaves the nodes of processes out of all further rounds.
    fn lose(&mut self, lost: BTreeMap<u32, String>) {
        for (rank, reason) in lost {
            if let Some(node) = self.control.members.lose(rank, &reason) {
                self.conductor.lose(node, &reason);
            }
        }
    }

    /// Measures a block of rounds of the same test, in slots of this length.
    fn measure(&mut self, rounds: &[Round], slot: Duration, tests: &[Test]) -> Result<(), Failure> {
        let line = line(&self.conductor, self.measuring);
        let block = self.control.run_block(rounds, slot, line)?;
        for (nic, reason) in &block.failed {
            self.conductor.fail_nic(*nic, reason);
        }
        for report in &block.reports {
            let slots = block.slots_of.get(&report.rank).copied();
            let load = report.load.as_ref();
            let slots = slots.unwrap_or_default() as u32;
            self.busy_slots.add(report.rank, slots, &report.results, load, tests);
        }
        let (block, lost) = block.results(rounds, &self.control.members.roster);
        self.uncertainty_ns = self.uncertainty_ns.max(block.clock_uncertainty_ns);
        self.pace.add(&block);
        let is_bandwidth = tests[block.test.index()].of_bandwidth;
        if let Some(note) = self.busy.add(&block.pairs, is_bandwidth) {
            self.control.notes.add(&note);
        }
        let roster = self.conductor.roster();
        self.outputs.add(&block.pairs, roster, tests)?;
        self.control.late.note(&block.pairs);
        for result in &block.pairs {
            self.conductor.add(result);
        }
        self.lose(lost);
        let state = self.conductor.progress();
        if state.phase == Phase::Sweep && !self.has_estimate {
            let note = estimate(state.answered, state.planned, self.measuring.elapsed());
            self.has_estimate = note.is_some();
            note.iter().for_each(|note| self.control.notes.add(note));
        }
        Ok(())
    }
}

/// Returns the line of progress of a survey that measures since this instant.
fn line(conductor: &Conductor, measuring: Instant) -> impl Line {
    move |roster, width| {
        let state = conductor.progress();
        let part = state.answered as f64 / state.planned as f64;
        let is_known = part > 0.0 && part < 1.0;
        let measured = measuring.elapsed();
        let left = is_known.then(|| measured.mul_f64((1.0 / part - 1.0).min(LONGEST_LEFT)));
        progress::measuring(&state, left, roster, conductor.tests(), width)
    }
}
