//! `check`: evaluates the health of NICs, and tries a write and a read (docs/check.md).

mod examine;
mod lock;
mod request;
mod traffic;
mod uses;

use std::env;
use std::ffi::OsString;
use std::io;
use std::mem;
use std::time::{Duration, Instant, SystemTime};

use self::examine::Examination;
use self::request::CheckRequest;
use self::traffic::Runs;
use super::{arguments, output};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::number::{time, time_text};
use node::backend;
use node::machine::{self, Machine};
use node::nic::health::host;
use node::slingshot::{Grant, Launcher};
use plan::cli::definition::OptionDef;
use plan::cli::usage::{Completion, Usage};
use report::check::{Check, Examined};
use report::documents::{Documents, Places};
use report::{check_metrics, check_text};

/// Default of `--window`.
const WINDOW: Duration = Duration::from_secs(2);

/// Bounds of `--window`.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag check".into(),
        about: "Check the health of NICs, with a write and a read",
        synopsis: vec![("cxidiag check [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, the\n\
                          NICs of the job (SLINGSHOT_DEVICES) are checked, else all of this machine.",
        options: arguments::entries(options()),
        remarks: vec![
            "The first line is 'OK DEVICE...' or 'FAIL CODE DEVICE: what'. Exit status:\n\
             0 passed, 3 an item is bad, 1 a NIC could not be tested, 2 invalid arguments,\n\
             130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, a NIC that is bad or cannot be tested.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(mut request) = parse(&arguments)? else {
        return Ok(());
    };
    let metrics = mem::take(&mut request.metrics).place()?;
    for device in &request.devices {
        backend::check(*device)?;
    }
    let documents = Documents::open(&Places {
        json: request.json.clone(),
        metrics,
        ..Places::default()
    })?;
    interrupt::watch()?;
    let machine = Machine::this();
    let launcher = Launcher::find(|name| env::var(name).ok()).map_err(Failure::usage)?;
    let grant = match &launcher {
        Launcher::Granted(grant) => Some(grant),
        Launcher::Absent | Launcher::Incomplete(_) => None,
    };
    let devices = request.devices(grant, &machine)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let examined = examine(&devices, &request, grant, &machine)?;
    let host = host::findings(&machine, machine::loaded_library());
    let check = Check::new(started, clock.elapsed(), host, examined);
    documents.write_metrics(|| check_metrics::families(&check))?;
    output::write(
        &documents,
        &check,
        |text: &mut Vec<u8>, check| -> io::Result<()> {
            if request.is_quiet {
                check_text::first_line(text, check)
            } else {
                check_text::write(text, check)
            }
        },
    )?;
    check.result().map_err(|failure| {
        if documents.has_stdout() {
            failure
        } else {
            failure.printed()
        }
    })
}

/// Examines the devices: their files, then traffic on one NIC after the other, then the files again
/// when the window is over.
fn examine(
    devices: &[DeviceName],
    request: &CheckRequest,
    grant: Option<&Grant>,
    machine: &Machine,
) -> Result<Vec<Examined>, Failure> {
    let began = Instant::now();
    let mut examinations: Vec<Examination> = devices
        .iter()
        .map(|device| Examination::begin(*device, request, grant, machine))
        .collect();
    if request.has_traffic() && examinations.iter().any(Examination::has_files) {
        let has_hardware = (devices.iter()).any(|device| device.platform().is_listed);
        let lock = if has_hardware {
            lock::take(machine)
        } else {
            Ok(None)
        };
        interrupt::check()?;
        let mut runs = Runs::new(request.libcxi.as_ref());
        for examination in &mut examinations {
            examination.traffic(&lock, &mut runs, request)?;
        }
    }
    if request.has_window() && examinations.iter().any(Examination::has_files) {
        let left = request
            .window
            .unwrap_or(WINDOW)
            .saturating_sub(began.elapsed());
        interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
    }
    Ok(examinations
        .into_iter()
        .map(|examination| examination.end(request, machine))
        .collect())
}

fn options() -> Vec<OptionDef<CheckRequest>> {
    type Def = OptionDef<CheckRequest>;
    let mut options = vec![
        Def::switch("no-traffic", |request| request.no_traffic = true).explained(
            "Do not write and read through the NICs",
            "Do not write and read through the NICs.",
        ),
        Def::switch("quick", |request| request.is_quick = true).explained(
            "Read files once: no error rates, no traffic",
            "Read the files of the driver once: no error rates of the link, and no traffic.",
        ),
        Def::switch("busy-ok", |request| request.busy_ok = true).explained(
            "Write and read also if others use a NIC",
            "Write and read also through NICs that other processes use. Without this option, \
             these NICs are checked without traffic.",
        ),
        Def::text("window", "TIME", |request, typed| {
            request.window = Some(time(typed, WINDOWS)?);
            Ok(())
        })
        .explained(
            format!(
                "Time in which errors of the link are counted\n(default: {}); in a longer one, lower rates show",
                time_text(WINDOW)
            ),
            "The time in which errors of the link are counted: a longer one shows lower rates.",
        ),
        Def::text("link-speed", "GBPS", |request, typed| {
            if !matches!(typed, "50" | "100" | "200" | "400") {
                return Err("expected 50, 100, 200 or 400 (Gb/s)".into());
            }
            request.link_gigabits = typed.parse().ok();
            Ok(())
        })
        .explained(
            "Speed that links must have, in Gb/s (default: that\nof the hardware, 200 or 400)",
            "The speed that links must have, in Gb/s, where it is not that of the hardware.",
        ),
        Def::switch("quiet", |request| request.is_quiet = true).explained(
            "Print the first line only",
            "Print the first line only, OK or FAIL.",
        ),
        output::json().within(|request| &mut request.json),
    ];
    let metrics = output::metrics();
    options.extend(
        metrics.map(|option| option.within(|request: &mut CheckRequest| &mut request.metrics)),
    );
    options.push(arguments::libcxi().within(|request| &mut request.libcxi));
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<CheckRequest>, Failure> {
    let mut request = CheckRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    request.devices = once_each(arguments::devices_named(words, arguments)?);
    request.libcxi = request.libcxi.or_else(arguments::library_of_environment);
    if request.is_quick && request.window.is_some() {
        return Err(Failure::usage(
            "--window has no effect with --quick, which counts no errors",
        ));
    }
    Ok(Some(request))
}

/// Returns the devices without repetitions.
fn once_each(devices: Vec<DeviceName>) -> Vec<DeviceName> {
    let mut once = Vec::new();
    for device in devices {
        if !once.contains(&device) {
            once.push(device);
        }
    }
    once
}
