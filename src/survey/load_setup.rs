//! The load of a survey: from what its user wants, and what its members are, to what is measured.

use std::time::{Duration, Instant};

use super::load_options::OTHER_CLASS;
use super::program::SurveyProgram;
use super::request::{LoadRequest, RequestedTest, SurveyRequest};
use crate::result::load_plan::plan_text;
use campaign::coordinator::SurveyCoordinator;
use campaign::quiet::findings::Findings;
use campaign::quiet::ids::NicId;
use campaign::quiet::states::{State, states};
use campaign::slots::Crew;
use campaign::timetable::{SlotTimes, TestSetup};
use facts::error::Failure;
use facts::interrupt;
use facts::number::time_text;
use load::conductor::{LoadConductor, LoadSetup, LoadSizes};
use load::results::ResultFacts;
use load::spec::LoadSpec;
use page::destination::write_text;

/// How long the load goes on at most, unless the user gives a limit for the survey.
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Bytes that an aggressor has under way: ten times rate times round trip at 25 GB/s and 4 us.
const WINDOW: u64 = 1 << 20;
const WINDOW_OF_SOFTWARE: u64 = 256 << 10;

/// The rate of a hardware NIC before it is measured, in bytes per second.
const LINE_RATE: f64 = 25e9;

/// A usual slot, whose counted part is how long victims measure.
const SLOT: Duration = Duration::from_millis(250);

/// Returns the course of these tests, which measure a pair for this time.
pub fn course(tests: &[RequestedTest], pair_ns: u64) -> TestSetup {
    let tests = tests.iter();
    TestSetup {
        tests: tests.clone().map(|test| test.test.clone()).collect(),
        arguments: tests.map(|test| test.arguments.clone()).collect(),
        pair_ns,
        first_nic: NicId(0),
    }
}

/// Returns the course of the load.
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

/// Returns the conductor of a load of the NICs that `verdict` does not call bad.
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
