//! The check of this node.

use std::env;
use std::time::{Instant, SystemTime};

use super::examine::Examination;
use super::request::{CheckRequest, WINDOW};
use super::traffic::Runs;
use super::{lock, site};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use node::machine::{self, Machine};
use node::nic::health::{Finding, host, presence};
use node::reading::{self, NO_ANSWER};
use node::slingshot::{Grant, Launcher};
use report::check::{Check, Examined};

/// Checks this node.
///
/// # Errors
///
/// Settings of the site or of the job that are invalid, and an interruption.
pub fn check(request: CheckRequest) -> Result<Check, Failure> {
    let check = check_machine(request);
    // A file without an answer is not the reason then.
    interrupt::check()?;
    check
}

fn check_machine(mut request: CheckRequest) -> Result<Check, Failure> {
    let machine = Machine::this();
    request.fill_from(site::read(&machine)?);
    let launcher = Launcher::find(|name| env::var(name).ok()).map_err(Failure::usage)?;
    let grant = match &launcher {
        Launcher::Granted(grant) => Some(grant),
        Launcher::Absent | Launcher::Incomplete(_) => None,
    };
    let devices = request.devices(grant, &machine)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut examined = examine(&devices, &request, grant, &machine)?;
    let count = presence::count(nics(&examined, &machine), request.expected_nics);
    let mut host = vec![count, presence::driver(&machine)];
    host.extend(host::findings(&machine, machine::loaded_library()));
    name_unanswered(&mut host, &mut examined, &machine);
    Ok(Check::new(started, clock.elapsed(), host, examined))
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

/// Names the files that did not answer: a NIC with such a file is not tested.
fn name_unanswered(host: &mut [Finding], examined: &mut [Examined], machine: &Machine) {
    for file in reading::unanswered() {
        let file = file.strip_prefix(machine.root()).unwrap_or(&file);
        let is_of = |device: &Examined| {
            let name = device.device.to_string();
            file.iter().any(|part| part == name.as_str())
        };
        match examined.iter_mut().find(|device| is_of(device)) {
            Some(device) => {
                let what = format!("/{}: {NO_ANSWER}", file.display());
                device.failure.get_or_insert(Failure::environment(what));
            }
            None => {
                let absent = host.iter_mut().filter(|found| found.value.is_none());
                absent.for_each(|found| {
                    found.note.get_or_insert_with(|| NO_ANSWER.into());
                });
            }
        }
    }
}

/// Returns the number of NICs of the machine: hardware, and the software NICs that were examined.
fn nics(examined: &[Examined], machine: &Machine) -> usize {
    let is_other = |of: &&Examined| {
        let platform = of.device.platform();
        !platform.is_listed
            && of
                .findings
                .iter()
                .any(|found| *found == presence::present())
    };
    machine.cxi_devices().len() + examined.iter().filter(is_other).count()
}
