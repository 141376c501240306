//! `calibrate`: compares the latency tools with a software NIC of known latency
//! (docs/calibration.md).

use std::ffi::OsString;

use clap::{Arg, ArgAction};

use super::output::{Destinations, json_entry, json_place};
use super::probe::Probe;
use facts::device::{DeviceKind, DeviceName};
use facts::error::{Failure, invalid};
use facts::number::within;
use plan::cli::parser::with_optional_value;
use plan::cli::usage::{Completion, Entry, Usage, Value};
use plan::outputs::Place;
use report::calibration::{self, Calibration, CalibrationRun, Crossings, Link, ToolCalibration};
use report::outcome::Outcome;

/// The device without `--device`.
const DEFAULT_DEVICE: &str = "soft0";

/// Describes the link of the software NICs (docs/software-nic.md).
const LINK: &str = "CXIDIAG_LINK";

/// Injects faults into the software NICs (docs/software-nic.md).
const FAULTS: &str = "CXIDIAG_FAULTS";

/// The latency tools, and what their latency is in terms of the link.
const TOOLS: [(&str, Crossings); 4] = [
    ("write-lat", Crossings::ThereAndBack),
    ("read-lat", Crossings::ThereAndBack),
    ("atomic-lat", Crossings::ThereAndBack),
    ("send-lat", Crossings::OneWay),
];

/// The links, in nanoseconds.
const LINKS: [Link; 5] = [
    Link {
        latency_ns: 0,
        jitter_ns: 0,
    },
    Link {
        latency_ns: 1_000,
        jitter_ns: 0,
    },
    Link {
        latency_ns: 2_000,
        jitter_ns: 0,
    },
    Link {
        latency_ns: 5_000,
        jitter_ns: 0,
    },
    Link {
        latency_ns: 2_000,
        jitter_ns: 500,
    },
];

/// Default of `--rounds`.
const ROUNDS: u64 = 5;

/// Default of `--iters`.
const ITERS: u64 = 2_000;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag calibrate".into(),
        about: "Compare the latency tools with known latencies",
        synopsis: vec![("cxidiag calibrate [OPTIONS]".into(), "")],
        arguments: Completion::Nothing,
        options: vec![
            Entry {
                short: Some('d'),
                long: "device",
                value: Some(Value::new("DEV", Completion::Devices)),
                help: format!("Software NIC, softN (default: {DEFAULT_DEVICE})"),
                manual: "The software NIC to use: softN. Only a software NIC has a known latency.",
            },
            Entry {
                short: Some('n'),
                long: "iters",
                value: Some(Value::new("ITERS", Completion::Nothing)),
                help: format!("Measured operations of each run (default: {ITERS})"),
                manual: "The number of measured operations of each run.",
            },
            Entry {
                short: None,
                long: "rounds",
                value: Some(Value::new("COUNT", Completion::Nothing)),
                help: format!(
                    "Runs of each tool on each link; the one with the\n\
                     lowest mean counts (default: {ROUNDS})"
                ),
                manual: "The number of runs of each tool on each link. The run with the lowest mean \
                         counts, because other programs only make latencies longer.",
            },
            json_entry(),
            Entry::help(),
            Entry::version(),
        ],
        remarks: vec![
            "Offset: what a tool reports in addition to the latency of the link. It is the\n\
             work of the tool itself and of the software NIC.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a device that is not a software NIC, a run that fails, or a file that cannot
/// be written.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    let destinations = Destinations::open(asked.json.as_ref())?;
    let calibration = measure(&asked)?;
    destinations.write(&calibration, calibration::write)
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    device: DeviceName,
    iters: u64,
    rounds: u64,
    json: Option<Place>,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let device = Arg::new("device")
        .short('d')
        .long("device")
        .action(ArgAction::Set)
        .default_value(DEFAULT_DEVICE);
    let number = |name| Arg::new(name).long(name).allow_hyphen_values(true);
    let iters = number("iters").short('n');
    let json = with_optional_value("json");
    let declared = [device, iters, number("rounds"), json];
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let count = |name: &'static str, default| match matches.get_one::<String>(name) {
        None => Ok(default),
        Some(typed) => within(typed, 1..=u32::MAX.into())
            .map_err(|allowed| Failure::usage(invalid(name, typed, allowed))),
    };
    let (iters, rounds) = (count("iters", ITERS)?, count("rounds", ROUNDS)?);
    let typed = matches
        .get_one::<String>("device")
        .map_or("", String::as_str);
    let refused = |why: &str| Failure::usage(invalid("device", typed, why));
    let device: DeviceName = typed.parse().map_err(refused)?;
    if device.kind == DeviceKind::Hardware {
        return Err(refused(
            "only a software NIC, soft0 to soft99, has a known latency",
        ));
    }
    let json = json_place(matches.get_one("json"))?;
    Ok(Some(Asked {
        device,
        iters,
        rounds,
        json,
    }))
}

/// Runs each tool on each link. The rounds are outermost, so that a disturbance of a few seconds
/// does not affect all runs of one tool.
fn measure(asked: &Asked) -> Result<Calibration, Failure> {
    let mut best: Vec<Option<CalibrationRun>> = Vec::new();
    best.resize_with(TOOLS.len() * LINKS.len(), || None);
    let mut own = vec![Vec::new(); TOOLS.len()];
    let mut clock = String::new();
    for _ in 0..asked.rounds {
        let mut places = best.iter_mut();
        for ((tool, crossings), own) in TOOLS.into_iter().zip(&mut own) {
            for (link, place) in LINKS.into_iter().zip(&mut places) {
                let measured = run_once(tool, asked, link)?;
                let latency = measured.results.first().and_then(|of| of.latency.as_ref());
                let found = latency.and_then(|of| CalibrationRun::new(link, crossings, of));
                let found = found.ok_or_else(|| unreadable(tool))?;
                own.extend(measured.measurement_error.map(|error| error.path.p50_ns));
                clock = measured.clock.name;
                if place
                    .as_ref()
                    .is_none_or(|best| found.mean_offset_ns < best.mean_offset_ns)
                {
                    *place = Some(found);
                }
            }
        }
    }
    let mut runs = best.into_iter().flatten();
    let tools = TOOLS.into_iter().zip(own).map(|((tool, _), own)| {
        let runs = runs.by_ref().take(LINKS.len()).collect();
        ToolCalibration::new(tool, runs, own)
    });
    let tools = tools.collect();
    Ok(Calibration::new(asked.device.to_string(), clock, tools))
}

/// Runs both sides of a tool on `link`.
fn run_once(tool: &'static str, asked: &Asked, link: Link) -> Result<Outcome, Failure> {
    let Link {
        latency_ns,
        jitter_ns,
    } = link;
    let model = (latency_ns + jitter_ns > 0)
        .then(|| format!("latency={latency_ns}ns,jitter={jitter_ns}ns"));
    let outcome = Probe {
        tool,
        arguments: vec![
            "--loopback".into(),
            "--latency-gap=0".into(),
            "--warmup=200".into(),
            format!("--iters={}", asked.iters).into(),
            format!("--device={}", asked.device).into(),
        ],
        variables: vec![(LINK, model), (FAULTS, None)],
        limit: None,
    }
    .run()?;
    match &outcome.error {
        None => Ok(outcome),
        Some(problem) => {
            let failure = Failure::environment(format!("{tool} failed: {}", problem.message));
            Err(failure.with_hint_if(problem.hint.clone()))
        }
    }
}

fn unreadable(tool: &str) -> Failure {
    Failure::environment(format!("{tool} wrote no result"))
}
