//! Runs surveys: opens their files, starts the members, leads the campaigns one after the other,
//! and writes what comes of them. The coordinator measures nothing itself.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, mem};

use super::diagnosis_course::diagnosis_course;
use super::launch::{JoinedMembers, Launch};
use super::load_setup::{course, load_conductor, load_course, load_limit, plan_load};
use super::locations::Locations;
use super::outputs::{Notes, SurveyOutputs, SurveyRecorder};
use super::program::SurveyProgram;
use super::request::SurveyRequest;
use super::result::lines::Earlier;
use super::result::{Conclusion, Setup, Survey, SurveyJob};
use campaign::coordinator::{SurveyCoordinator, by_size};
use campaign::quiet::conductor::Settings;
use campaign::quiet::findings::Findings;
use campaign::quiet::pairs::{self, Selection};
use campaign::quiet::roster::Roster;
use campaign::quiet::rounds::NicOrder;
use campaign::slots::quiet::{QuietPlan, QuietSurvey, ResultRecorder};
use campaign::slots::{Crew, Members};
use cli::output::or_early_failure;
use facts::error::{Failure, cause, invalid};
use facts::job::Job;
use facts::{interrupt, limit, user_file};
use load::conductor;
use load::findings::LoadFindings;
use load::spec::LoadSpec;
use why::suspect::{self, SuspectFindings};
use why::verdict::{Diagnoses, LONGEST_PAIR, explain};

/// How long the coordinator waits for all members to join (jobs.md 3.6), and longer for each
/// thousand.
const ASSEMBLY_LIMIT: Duration = Duration::from_secs(30);
const ASSEMBLY_LIMIT_PER_THOUSAND: Duration = Duration::from_secs(1);

/// How long before the end of the job the survey ends.
const BEFORE_END_OF_JOB: Duration = Duration::from_secs(60);

/// How long the members may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The same after a signal.
const AFTER_SIGNAL: Duration = Duration::from_millis(500);

/// Runs a survey from the start of its processes to its last output.
///
/// # Errors
///
/// Files that cannot be read or written, processes that cannot be started, and a verdict other than
/// good.
pub fn run(request: &SurveyRequest, launch: Launch, began: Instant) -> Result<(), Failure> {
    let ends = ends(request, &launch, began);
    match SurveyFiles::open(request) {
        Ok(files) => survey(request, &launch, files, ends),
        Err(failure) => {
            let failed = or_early_failure(request.json.as_ref(), Err(failure));
            let limit = join_limit(request, &launch, ends);
            failed.map_err(|failure| launch.fail(request, failure, limit))
        }
    }
}

/// Runs a survey with these open files.
fn survey(
    request: &SurveyRequest,
    launch: &Launch,
    files: SurveyFiles,
    ends: Option<Instant>,
) -> Result<(), Failure> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let SurveyFiles { selections, locations, earlier, mut outputs } = files;
    let mut notes = Notes::new("survey", request.is_quiet);
    request.without_effect.iter().for_each(|note| notes.add(note));
    let setup = setup(request, launch);
    let gathered = gather(request, launch, notes, locations, ends);
    let GatheredMembers { mut crew, joining, joined } = outputs.or_failure(gathered)?;
    let plan = quiet_plan(request, launch, selections, &crew);
    let mut quiet = outputs.or_failure(QuietSurvey::new(crew.members(), plan))?;
    if let (Some(wanted), Ok(())) = (&request.load.wanted, &joined) {
        let planned = plan_load(&mut crew, request, wanted);
        if wanted.is_plan || planned.is_err() {
            end(crew, joining);
            return outputs.or_failure(planned);
        }
    }
    let mut recorder = SurveyRecorder { outputs: &mut outputs, started, setup: &setup };
    let mut ended =
        joined.and_then(|()| measure_quiet(&mut crew, &mut quiet, &mut recorder, earlier));
    let verdict = quiet.findings();
    let elapsed = clock.elapsed();
    let explained = match ended {
        Ok(_) if request.explains => find_causes(&mut crew, request, (quiet.roster(), &verdict)),
        _ => Diagnoses::default(),
    };
    let mut load = None;
    if let (Some(wanted), Ok(())) = (&request.load.wanted, &ended) {
        ended = run_load(&mut crew, request, wanted, &verdict, &mut load);
    }
    let mut document = Survey::new(
        setup,
        started,
        elapsed,
        quiet.roster().clone(),
        verdict,
        load,
        ended.as_ref().copied(),
    )
    .beside(quiet.busy_nodes());
    document.clock_uncertainty_ns = quiet.uncertainty_ns;
    (document.why, document.why_shared) = (explained.explanations, explained.shared);
    crew.program.notes.progress.hide();
    // The results come first: a member that hangs must not delay them.
    let found = outputs.end(&document);
    end(crew, joining);
    match ended {
        // Standard error has it with its hint, whatever has standard output.
        Err(failure) if document.conclusion == Conclusion::Failed => {
            Err(failure.with_status(document.exit_status))
        }
        _ => found,
    }
}

/// Measures pairs without load, apart from those that an `earlier` survey has measured.
///
/// # Errors
///
/// Results of another survey, and an interruption.
fn measure_quiet(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    quiet: &mut QuietSurvey,
    recorder: &mut SurveyRecorder,
    earlier: Option<Earlier<impl BufRead>>,
) -> Result<(), Failure> {
    recorder.begin(quiet.roster())?;
    if let Some(earlier) = earlier {
        let mut results = Vec::new();
        let tests = &recorder.setup.tests;
        let taken = earlier.results(quiet.roster(), tests, |result| results.push(result))?;
        quiet.add_earlier(&results);
        crew.note(&taken.to_string());
    }
    quiet.run(crew, recorder)
}

/// Measures why the parts that the quiet part has `surveyed` are slow. The verdict stands, however
/// the diagnosis ends.
fn find_causes(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    request: &SurveyRequest,
    surveyed: (&Roster, &Findings),
) -> Diagnoses {
    let mut explained = Diagnoses::default();
    let tests = diagnosis_course(request, request.pair_time.min(LONGEST_PAIR));
    let ends = crew.ends;
    if let Err(failure) = explain(crew, &tests, surveyed, ends, &mut explained) {
        crew.note(&format!("diagnosis: {failure}"));
    }
    explained
}

/// Returns what the quiet part measures with the processes that have joined.
fn quiet_plan(
    request: &SurveyRequest,
    launch: &Launch,
    selections: Vec<Selection>,
    crew: &SurveyCoordinator<SurveyProgram>,
) -> QuietPlan {
    QuietPlan {
        setup: course(&request.tests, request.pair_time.as_nanos() as u64),
        settings: Settings {
            selections,
            nics: if request.at_once { NicOrder::AtOnce } else { NicOrder::InTurn },
            most_active: launch.most_active(request),
            seed: request.seed,
            expectations: request.tests.iter().map(|test| test.expectations.clone()).collect(),
            sensitivity: request.sensitivity,
            keep_figures: request.keeps_matrix.then_some(true),
        },
        pairs: request.pairs.clone(),
        ends: crew.ends,
        waits_for_others: crew.joined.len() < launch.size as usize,
    }
}

/// Loads the fabric with what the quiet part has not found bad. `found` receives the effect, also
/// after an interruption.
///
/// # Errors
///
/// A load that is not possible with these NICs, and an interruption.
fn run_load(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    request: &SurveyRequest,
    wanted: &LoadSpec,
    verdict: &Findings,
    found: &mut Option<LoadFindings>,
) -> Result<(), Failure> {
    let mut conductor = load_conductor(crew, request, wanted, verdict)?;
    conductor::begin(crew, &mut conductor, &load_course(&request.load))?;
    let (until, why) = load_limit(request.time_limit, crew.ends);
    let ended = conductor::run(crew, &mut conductor, request.load.is_two_sided(), (until, &why));
    *found = Some(conductor.findings());
    ended
}

/// Finds out why the NIC of the process with this `rank` is slow, and gives what was found to
/// `report` before the members end. The NICs of the other processes are good.
///
/// # Errors
///
/// Processes that cannot be started, other processes of which none can measure beside the NIC, an
/// interruption, and the errors of `report`.
pub fn diagnose(
    request: &SurveyRequest,
    launch: &Launch,
    rank: u32,
    report: impl FnOnce(SuspectFindings) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let notes = Notes::new("why", request.is_quiet);
    let gathered = gather(request, launch, notes, Locations::default(), None)?;
    let GatheredMembers { mut crew, joining, joined } = gathered;
    let tests = diagnosis_course(request, request.pair_time);
    let introduced = crew.joined.clone();
    let found = joined.and_then(|()| suspect::diagnose(&mut crew, &introduced, &tests, rank));
    crew.program.notes.progress.hide();
    let reported = found.and_then(report);
    end(crew, joining);
    reported
}

/// The members that have joined, or why none has.
struct GatheredMembers {
    crew: SurveyCoordinator<SurveyProgram>,
    joining: JoinedMembers,
    joined: Result<(), Failure>,
}

/// Starts the members, and waits for them. The survey ends at `ends` at the latest.
fn gather(
    request: &SurveyRequest,
    launch: &Launch,
    mut notes: Notes,
    locations: Locations,
    ends: Option<Instant>,
) -> Result<GatheredMembers, Failure> {
    let limit = join_limit(request, launch, ends);
    let (mut root, mut joining) = launch.start(request, limit)?;
    let joined = joining.join(&mut root, launch.size, limit, &mut notes);
    let introduced = mem::take(&mut joining.joined);
    let hosts = launch.host_names(&introduced);
    let members = Members::new(hosts, &introduced, |rank| joining.absent(rank));
    let program = SurveyProgram::new(notes, locations, &request.tests);
    let knows_hosts = !launch.has_launcher();
    let mut crew = SurveyCoordinator::new(root, members, introduced, knows_hosts, program);
    crew.ends = ends;
    if let Some(note) = crew.program.locations.note(&crew.members().roster) {
        crew.note(&note);
    }
    Ok(GatheredMembers { crew, joining, joined })
}

/// Ends the members. After a signal, members on this machine get SIGTERM. Members on other nodes
/// are not waited for: they end when they find no coordinator.
fn end(crew: SurveyCoordinator<SurveyProgram>, mut joining: JoinedMembers) {
    if interrupt::check().is_err() {
        drop(joining);
        crew.end(AFTER_SIGNAL);
        return;
    }
    let (mut program, late) = crew.end(END_LIMIT);
    late.iter().for_each(|sentence| program.notes.warn(sentence));
    joining.finish();
}

/// The facts about the survey that are known before it measures.
fn setup(request: &SurveyRequest, launch: &Launch) -> Setup {
    let expectations = request.tests.iter().flat_map(|test| &test.expectations);
    let mut expectations: Vec<String> =
        expectations.map(|expectation| expectation.text.clone()).collect();
    expectations.dedup();
    Setup {
        arguments: launch.typed(),
        command_line: launch.command_line(),
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

/// Returns when the survey that `began` then ends at the latest, if ever.
fn ends(request: &SurveyRequest, launch: &Launch, began: Instant) -> Option<Instant> {
    let job_time = launch.end_of_job().and_then(|end| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let left = Duration::from_secs(end).saturating_sub(since_epoch);
        Some(left.saturating_sub(BEFORE_END_OF_JOB))
    });
    let own = request.time_limit.map(|limit| began + limit);
    own.into_iter().chain(job_time.map(|left| Instant::now() + left)).min()
}

/// Returns how long the coordinator waits for processes that are missing: for half of the time that
/// is left at most.
fn join_limit(request: &SurveyRequest, launch: &Launch, ends: Option<Instant>) -> Duration {
    let usual =
        || limit::in_effect(by_size(ASSEMBLY_LIMIT, ASSEMBLY_LIMIT_PER_THOUSAND, launch.size));
    let limit = request.join_limit.unwrap_or_else(usual);
    let left = ends.map(|end| end.saturating_duration_since(Instant::now()) / 2);
    // Messages name it.
    let left = left.map(|left| Duration::from_millis(left.as_millis() as u64 / 100 * 100));
    left.map_or(limit, |left| limit.min(left))
}

/// What a survey reads and writes, all of it open.
pub struct SurveyFiles {
    /// The selected pairs.
    pub selections: Vec<Selection>,
    pub locations: Locations,
    /// The results of the survey that goes on.
    pub earlier: Option<Earlier<BufReader<fs::File>>>,
    pub outputs: SurveyOutputs,
}

impl SurveyFiles {
    /// Opens what the `request` names.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or written.
    pub fn open(request: &SurveyRequest) -> Result<Self, Failure> {
        Ok(Self {
            selections: selections(request)?,
            locations: Locations::read(request.locations.as_deref(), request.topology.as_deref())?,
            earlier: request.resume.as_deref().map(Earlier::open).transpose()?,
            outputs: SurveyOutputs::open(&request.places()?, request.is_quiet)?,
        })
    }
}

/// The selected pairs.
fn selections(request: &SurveyRequest) -> Result<Vec<Selection>, Failure> {
    let read = |path: &str| {
        user_file::text(path.as_ref())
            .map_err(|error| format!("cannot read {path}: {}", cause(&error)))
    };
    pairs::parse(&request.pairs, read)
        .map_err(|why| Failure::usage(invalid("pairs", &request.pairs, why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_processes_get_half_of_the_time_at_most() {
        let (request, launch) = (SurveyRequest::default(), Launch::loopback(2, &[]));
        assert_eq!(join_limit(&request, &launch, None), limit::in_effect(ASSEMBLY_LIMIT));
        let began = Instant::now();
        let limited = SurveyRequest { time_limit: Some(Duration::from_secs(8)), ..request };
        let ends = ends(&limited, &launch, began);
        assert_eq!(ends, Some(began + Duration::from_secs(8)));
        assert!(join_limit(&limited, &launch, ends) <= Duration::from_secs(4));
        // The time of the checks before has passed.
        assert_eq!(join_limit(&limited, &launch, Some(began)), Duration::ZERO);
    }
}
