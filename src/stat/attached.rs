//! `stat --start` and `--stop`: the two readings by two processes, as in the prolog and epilog of a
//! job (monitoring.md 1.3).

use std::path::Path;

use super::counter_set::CounterSet;
use super::job::JobStat;
use super::nics::{RecordedNics, new_record};
use super::note::note;
use super::options::StatRequest;
use super::output;
use super::parallel_program::ParallelProgram;
use super::record::{EndRecord, NicRecord, NodeRecord};
use super::step_directory::{read, replace};
use cli::output::or_early_failure;
use facts::device::DeviceName;
use facts::error::{Failure, cause};
use facts::time_of_day::Clocks;
use node::machine::Machine;

/// Reads the counters into a file.
///
/// # Errors
///
/// No NIC that can be read, and a file that cannot be written.
pub fn start(request: &StatRequest, path: &Path) -> Result<(), Failure> {
    let program = ParallelProgram::from_environment();
    let machine = Machine::this();
    let started = Clocks::now();
    let mut nics = RecordedNics::begin(&request.devices, &request.set, &machine);
    let record = new_record(request, &[], &program, &machine, &nics, started);
    for line in nics.notes.drain(..) {
        note(&line);
    }
    if nics.is_empty() {
        return Err(Failure::environment("no NIC can be read"));
    }
    replace(path, &record.bytes()).map_err(|error| {
        Failure::environment(format!("cannot write {}: {}", path.display(), cause(&error)))
    })
}

/// Reads the counters again, and reports since the first reading.
///
/// # Errors
///
/// A file that `--start` did not write, or wrote in another boot or for other NICs; a NIC that can
/// no longer be read; a finding of `--fail-on`.
pub fn stop(request: &StatRequest, path: &Path) -> Result<(), Failure> {
    let outputs = or_early_failure(request.json.as_ref(), output::open(request, None))?;
    let (job, gone) = outputs.or_failure(since_first_reading(path))?;
    output::print(request, &job, &outputs)?;
    output::check(request, &job)?;
    if !gone.is_empty() {
        let why = format!("no second reading of {}", gone.join(", "));
        return Err(Failure::environment(why));
    }
    Ok(())
}

/// Returns what the counters did since `--start` wrote `path`, and the NICs that can no longer be
/// read.
fn since_first_reading(path: &Path) -> Result<(JobStat, Vec<String>), Failure> {
    let refused = |why: &str| Failure::usage(format!("--stop={}: {why}", path.display()));
    let bytes = read(path).map_err(|error| refused(&cause(&error)))?;
    let mut record = NodeRecord::read(&bytes).map_err(|why| refused(&why))?;
    let machine = Machine::this();
    if record.boot_id.is_none() {
        return Err(refused("it does not say since which boot it counts"));
    }
    if record.boot_id != machine.boot_id() {
        return Err(refused("it was written before this machine started"));
    }
    let devices = record.nics.iter().map(|nic| nic.device.parse());
    let devices: Vec<DeviceName> = devices.collect::<Result<_, _>>().map_err(refused)?;
    let set = CounterSet { name: record.set.clone(), counters: record.counters.clone() };
    let now = Clocks::now();
    // The last reading is a first one here: this process has made no other.
    let mut nics = RecordedNics::begin(&devices, &set, &machine);
    for line in nics.notes.drain(..) {
        note(&line);
    }
    if nics.is_empty() {
        return Err(Failure::environment("no NIC can be read"));
    }
    add_end(&mut record.nics, &nics.records()).map_err(|why| refused(&why))?;
    record.end = Some(EndRecord::new(now, None, false, 0));
    let gone: Vec<String> = record
        .nics
        .iter()
        .filter(|nic| nic.after.is_none())
        .map(|nic| nic.device.clone())
        .collect();
    Ok((JobStat::of(vec![record], Vec::new()), gone))
}

/// Adds the second reading of each NIC.
fn add_end(nics: &mut [NicRecord], end: &[NicRecord]) -> Result<(), String> {
    for nic in nics {
        let Some(now) = end.iter().find(|now| now.device == nic.device) else {
            continue;
        };
        if nic.serial != now.serial {
            let name = |serial: &Option<String>| serial.clone().unwrap_or("none".into());
            return Err(format!(
                "{} was the NIC with serial number {}, now it is {}",
                nic.device,
                name(&nic.serial),
                name(&now.serial)
            ));
        }
        nic.after = Some(now.before.clone());
    }
    Ok(())
}
