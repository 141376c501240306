//! The load that a survey puts on the fabric after its quiet part: its tests, where it is refused
//! (load.md 3), and what is measured for what its user wants and what its members are.

use std::env;
use std::time::{Duration, Instant};

use super::program::SurveyProgram;
use super::request::{
    LoadRequest, ProcessSource, RequestedTest, SurveyRequest, test_plan, tests, tools,
};
use super::result::load_words::plan_text;
use campaign::coordinator::SurveyCoordinator;
use campaign::quiet::findings::{Findings, State, states};
use campaign::quiet::roster::NicId;
use campaign::slots::Crew;
use campaign::timetable::{SlotTimes, TestSetup};
use cli::arguments::TypedArguments;
use facts::error::{Failure, invalid};
use facts::interrupt;
use facts::number::time_text;
use load::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use load::results::ResultFacts;
use load::spec::LoadSpec;
use node::traffic_class::TrafficClass;
use page::destination::write_text;

/// The variable by which Slurm tells the scripts that run before and after a job what they are.
const CONTEXT: &str = "SLURM_SCRIPT_CONTEXT";

/// The tool that victims use.
const VICTIM_TOOL: &str = "write-lat";

/// The class in which others measure.
const OTHER_CLASS: TrafficClass = TrafficClass::LowLatency;

/// Checks the options about load, and adds the tests of the load if it is asked for.
///
/// # Errors
///
/// Options that need `--load`, a place where load is refused, and a traffic class in which nothing
/// may load the fabric.
pub fn complete(typed: &mut TypedArguments<SurveyRequest>) -> Result<(), Failure> {
    let SurveyRequest { load, tests, service, processes, .. } = &typed.request;
    let Some(wanted) = &load.wanted else {
        let options = ["victims", "load-cap", "load-size", "load-window"];
        return match options.into_iter().find(|long| typed.is_given(long)) {
            Some(option) => Err(Failure::usage(format!("--{option} needs --load"))),
            None => Ok(()),
        };
    };
    check_place(processes, load.cap, wanted.is_plan, env::var(CONTEXT).ok().as_deref())?;
    let class = tests.first().and_then(|test| test.plan.class);
    let class = class.unwrap_or(TrafficClass::BestEffort);
    if !matches!(class, TrafficClass::BestEffort | TrafficClass::BulkData) {
        let allowed = "load is possible in BEST_EFFORT and BULK_DATA";
        return Err(Failure::usage(invalid("traffic-class", class, allowed)));
    }
    if let Some(window) = load.window_bytes.filter(|window| *window < load.size_bytes) {
        let allowed = format!("expected at least --load-size, {}", load.size_bytes);
        return Err(Failure::usage(invalid("load-window", window, allowed)));
    }
    typed.request.load.tests = load_tests(load.size_bytes, tests, &service.arguments())?;
    Ok(())
}

/// Refuses load where it would disturb the jobs of others.
fn check_place(
    processes: &ProcessSource,
    cap: Option<Cap>,
    is_plan: bool,
    context: Option<&str>,
) -> Result<(), Failure> {
    if let Some(context) =
        context.filter(|context| context.contains("prolog") || context.contains("epilog"))
    {
        return Err(Failure::usage(format!(
            "--load is not possible in a prolog or epilog ({CONTEXT}={context}): other jobs may run"
        )));
    }
    if matches!(processes, ProcessSource::Hosts(_)) && cap.is_none() && !is_plan {
        return Err(Failure::usage(
            "--load outside a batch job needs --load-cap=COUNT: other jobs may use the fabric",
        ));
    }
    Ok(())
}

/// The tests of a load: of the aggressors, of the victims, and of victims in another traffic class.
/// Victims measure with the first latency tool of the survey, or with write-lat.
fn load_tests(
    size_bytes: u64,
    survey_tests: &[RequestedTest],
    service: &[String],
) -> Result<Vec<RequestedTest>, Failure> {
    let one = |name: &str, size: u64, further: &[String]| {
        let found = tests(&tools(&[name.to_owned()])?, &[size.to_string()], further, &[])?;
        found.into_iter().next().ok_or_else(|| Failure::usage("expected a size"))
    };
    let sink = one("write-bw", size_bytes, &[service, &["--list-size=1".to_owned()]].concat())?;
    let mut latencies = survey_tests.iter().filter(|test| !test.test.of_bandwidth);
    let victim = match latencies.next() {
        Some(first) => first.clone(),
        None => one(VICTIM_TOOL, 8, service)?,
    };
    let is_other_option = |option: &&String| !option.starts_with("--traffic-class");
    let mut arguments: Vec<String> =
        victim.arguments.iter().filter(is_other_option).cloned().collect();
    arguments.push(format!("--traffic-class={OTHER_CLASS}"));
    let other = RequestedTest {
        plan: test_plan(victim.plan.tool, &arguments)?,
        arguments,
        ..victim.clone()
    };
    Ok(vec![sink, victim, other])
}

/// How long the load goes on at most, unless the user gives a limit for the survey.
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Bytes that an aggressor has under way: ten times rate times round trip at 25 GB/s and 4 us.
const WINDOW: u64 = 1 << 20;
const WINDOW_OF_SOFTWARE: u64 = 256 << 10;

/// The rate of a hardware NIC before it is measured, in bytes per second.
const LINE_RATE: f64 = 25e9;

/// A usual slot, whose counted part is how long victims measure.
const SLOT: Duration = Duration::from_millis(250);

/// The course of these tests, which measure a pair for this time.
pub fn course(tests: &[RequestedTest], pair_ns: u64) -> TestSetup {
    let tests = tests.iter();
    TestSetup {
        tests: tests.clone().map(|test| test.test.clone()).collect(),
        arguments: tests.map(|test| test.arguments.clone()).collect(),
        pair_ns,
        first_nic: NicId(0),
    }
}

pub fn load_course(load: &LoadRequest) -> TestSetup {
    course(&load.tests, SlotTimes::from_slot(SLOT.as_nanos() as u64).counted())
}

/// Returns when the load ends at the latest, and a sentence about that. The survey `ends` at the
/// latest, by its own limit or by the limit of the job.
pub fn load_limit(limit: Option<Duration>, ends: Option<Instant>) -> (Instant, String) {
    let own = Instant::now() + TIME_LIMIT;
    match (limit, ends) {
        (Some(limit), ends) => {
            let why = format!("the time was up after {}", time_text(limit));
            (ends.unwrap_or(own), why)
        }
        (None, Some(end_of_job)) if end_of_job < own => {
            (end_of_job, "the time of the job was up".into())
        }
        (None, _) => {
            let limit = time_text(TIME_LIMIT);
            (own, format!("the time was up after {limit} (--time-limit)"))
        }
    }
}

/// The conductor of a load of the NICs that `verdict` does not call bad.
///
/// # Errors
///
/// A load that is not possible with these NICs.
pub fn load_conductor(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    request: &SurveyRequest,
    wanted: &LoadSpec,
    verdict: &Findings,
) -> Result<LoadConductor, Failure> {
    let load = &request.load;
    let known = crew.program.locations.shape;
    let shape = known.filter(|shape| shape.is_of(&crew.members().roster));
    if known.is_some() && shape.is_none() {
        crew.note("no share of theory: the NICs of the survey are not all those of --topology");
    }
    let members = crew.members();
    let states = states(&members.roster, verdict);
    let is_usable = |nic: &NicId| members.has_address(*nic) && states[nic.index()] != State::Bad;
    let usable: Vec<NicId> = members.roster.nic_ids().filter(is_usable).collect();
    let is_hardware = members.roster.has_hardware();
    let window = if is_hardware { WINDOW } else { WINDOW_OF_SOFTWARE };
    let setup = LoadSetup {
        wanted: wanted.clone(),
        sizes: LoadSizes {
            size_bytes: load.size_bytes,
            window_bytes: load.window_bytes.unwrap_or(window).max(load.size_bytes),
        },
        victims_percent: load.victims_percent,
        cap: load.cap.unwrap_or_default(),
        nic_rate: shape.map(|shape| shape.nic_rate).or(is_hardware.then_some(LINE_RATE)),
        facts: ResultFacts {
            theory: shape,
            is_partial: false,
            is_software: !is_hardware,
            victim_test: load.victim_test().test.clone(),
            other_class: Some(OTHER_CLASS.to_string()),
            seed: request.seed,
        },
    };
    LoadConductor::new(&members.roster, usable, setup).map_err(Failure::usage)
}

/// Checks before the quiet part of a survey that the load is possible, and prints its plan if that
/// is all that is asked for.
pub fn plan_load(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    request: &SurveyRequest,
    wanted: &LoadSpec,
) -> Result<(), Failure> {
    let conductor = load_conductor(crew, request, wanted, &Findings::default())?;
    if wanted.is_plan { print_plan(crew, &conductor) } else { Ok(()) }
}

/// Prints what the load would be. Nothing is sent.
///
/// # Errors
///
/// An output that cannot be written.
fn print_plan(
    crew: &mut SurveyCoordinator<SurveyProgram>,
    conductor: &LoadConductor,
) -> Result<(), Failure> {
    let lines = plan_text(&conductor.preview()).into_iter();
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    crew.program.notes.progress.hide();
    write_text(text.as_bytes()).map_err(interrupt::output_failed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::request::COMMAND;
    use super::*;
    use cli::derived;
    use cli::usage::Usage;

    fn hosts() -> ProcessSource {
        ProcessSource::Hosts(vec!["n1".into(), "n2".into()])
    }

    #[test]
    fn load_is_refused_where_it_disturbs_others() {
        let refused = |processes: &ProcessSource, cap, is_plan, context| {
            let checked = check_place(processes, cap, is_plan, context);
            checked.err().map(|failure| failure.message())
        };
        let launched = ProcessSource::Launcher;
        assert_eq!(refused(&launched, None, false, None), None);
        assert_eq!(refused(&launched, None, false, Some("srun")), None);
        for context in ["prolog_slurmd", "epilog_slurmctld"] {
            let why = refused(&launched, Some(Cap::All), false, Some(context)).unwrap();
            assert!(why.contains(context), "{why}");
        }
        assert!(refused(&hosts(), None, false, None).unwrap().contains("--load-cap"));
        assert_eq!(refused(&hosts(), Some(Cap::Most(2)), false, None), None);
        assert_eq!(refused(&hosts(), None, true, None), None);
        assert_eq!(refused(&ProcessSource::Loopback(4), None, false, None), None);
    }

    #[test]
    fn options_of_load_need_load() {
        let options = derived::entries(&COMMAND);
        let usage = Usage { options, ..Usage::default() };
        let completed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut typed = TypedArguments::read(&usage, &COMMAND, &words).unwrap().unwrap();
            complete(&mut typed).map(|()| typed.request.load.tests.len())
        };
        let refused = completed(&["--load-cap=all"]).unwrap_err();
        assert_eq!(refused.message(), "--load-cap needs --load");
        assert_eq!(completed(&["--hosts=n1"]).unwrap(), 0);
    }

    #[test]
    fn victims_measure_with_the_first_latency_tool() {
        let tests_for = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let survey_tests = tests(&tools(&names).unwrap(), &[], &[], &[]).unwrap();
            load_tests(64 << 10, &survey_tests, &[]).unwrap()
        };
        let found = tests_for(&["write-bw", "send-lat"]);
        let names: Vec<&str> = found.iter().map(|test| test.test.tool.as_str()).collect();
        assert_eq!(names, ["write-bw", "send-lat", "send-lat"]);
        assert_eq!(found[0].test.size_bytes, 64 << 10);
        let classes: Vec<_> = found.iter().map(|test| test.plan.class).collect();
        assert_eq!(classes, [None, None, Some(OTHER_CLASS)]);
        let found = tests_for(&["write-bw"]);
        assert_eq!((found[1].test.tool.as_str(), found[1].test.size_bytes), ("write-lat", 8));
    }
}
