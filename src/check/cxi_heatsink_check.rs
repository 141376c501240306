//! HPE's cxi_heatsink_check: its options and its text (node-tools.md 5), without its defects.

use std::ffi::OsString;
use std::time::Duration;

use super::examine::{files_with, require};
use super::note::note_step;
use super::stress_watch::{Times, watch};
use crate::cxi_heatsink_check_text as text;
use crate::cxi_heatsink_check_text::HeatsinkSummary;
use crate::stress_document::StressedNic;
use cli::arguments;
use cli::definition::OptionDef;
use cli::usage::{Completion, Usage};
use cxi::gpu::GpuType;
use cxi::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, placement};
use diag::run::stress::{LoadOptions, LoadedNic, under_load};
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::number::within;
use facts::time_of_day::Clocks;
use health::sensors::{Board, Sensors, board, part_number};
use node::explain::Explain;
use node::machine::{self, Machine};
use node::{backend, gpu, reading};
use page::documents::Documents;
use plan::run_options::{MAX_LIST_SIZE, Setting};

/// Its name.
pub const NAME: &str = "cxi_heatsink_check";

/// The version that is replaced.
const VERSION: &str = "2.2.2";

/// Exit status if a criterion is not met.
const NOT_MET: u8 = 2;

/// Exit status of an error.
const ERROR: u8 = 1;

/// Default of `--procs`: this part of the CPUs.
const CPUS_PER_PROCESS: usize = 4;

/// Default of `--duration`, in seconds.
const DURATION: u64 = 600;

/// Default of `--interval`, in seconds.
const INTERVAL: u64 = 10;

/// Largest value of `--size`.
const MAX_SIZE: u64 = 262_144;

/// What the arguments ask for.
struct HeatsinkRequest {
    load: LoadOptions,
    processes: Option<usize>,
    /// The CPUs of `--cpu-list`, and the list as typed.
    cpu_list: Option<(Vec<u32>, String)>,
    duration: u64,
    interval: u64,
}

impl Default for HeatsinkRequest {
    fn default() -> Self {
        Self {
            load: LoadOptions::new(DEFAULT_DEVICE),
            processes: None,
            cpu_list: None,
            duration: DURATION,
            interval: INTERVAL,
        }
    }
}

/// Returns what the program takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Load a NIC and watch its temperatures",
        synopsis: vec![("cxi_heatsink_check [OPTIONS]".into(), "")],
        options: arguments::entries(options()),
        replaced_version: Some(VERSION),
        remarks: vec![
            "Exit status: 0 all criteria are met, 2 one is not, 1 error or invalid\n\
             arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

fn options() -> Vec<OptionDef<HeatsinkRequest>> {
    type HeatsinkOption = OptionDef<HeatsinkRequest>;
    let gpu_index = |typed: &str| within(typed, 0..=u8::MAX.into()).map(|index| index as u8);
    let defaults = LoadOptions::new(DEFAULT_DEVICE);
    vec![
        HeatsinkOption::value("device", "DEV", str::parse::<DeviceName>, |request| {
            &mut request.load.device
        })
        .letter('d')
        .completed_by(Completion::Devices)
        .explained(format!("NIC to load (default: {DEFAULT_DEVICE})")),
        HeatsinkOption::number("svc-id", "SVC_ID", 1..=i32::MAX as u32, |request| {
            &mut request.load.service.svc_id
        })
        .letter('v')
        .explained("CXI service (default: as for the tools)"),
        HeatsinkOption::text("tx-gpu", "GPU", move |request, typed| {
            request.load.gpus.tx = Some(gpu_index(typed)?);
            Ok(())
        })
        .letter('t')
        .explained("GPU that holds the source of the writes (default: system memory)"),
        HeatsinkOption::text("rx-gpu", "GPU", move |request, typed| {
            request.load.gpus.rx = Some(gpu_index(typed)?);
            Ok(())
        })
        .letter('r')
        .explained("GPU that holds the target of the writes (default: system memory)"),
        HeatsinkOption::text("gpu-type", "TYPE", |request, typed| {
            request.load.gpus.kind = Some(gpu::named(typed).ok_or(gpu::GPU_TYPES)?);
            Ok(())
        })
        .letter('g')
        .completed_by(Completion::Words(|| GpuType::ALL.iter().map(GpuType::to_string).collect()))
        .explained("AMD, NVIDIA or INTEL (default: first type found)"),
        HeatsinkOption::text("procs", "N", |request, typed| {
            request.processes = Some(within(typed, 1..=u16::MAX.into())? as usize);
            Ok(())
        })
        .letter('P')
        .explained("Number of writers (default: a quarter of the CPUs, at least 1)"),
        HeatsinkOption::text("cpu-list", "LIST", |request, typed| {
            let cpus = cpu_list(typed).ok_or("expected CPU numbers such as 0-3,8")?;
            request.cpu_list = Some((cpus, typed.to_owned()));
            Ok(())
        })
        .letter('c')
        .completed_by(Completion::Cpus)
        .explained("CPUs of the writers, one each (default: near the NIC)"),
        HeatsinkOption::number("duration", "S", 1..=86400_u64, |request| &mut request.duration)
            .letter('D')
            .explained(format!("Seconds of load (default: {DURATION})")),
        HeatsinkOption::number("interval", "S", 1..=86400_u64, |request| &mut request.interval)
            .letter('i')
            .explained(format!("Seconds between two rows (default: {INTERVAL})")),
        HeatsinkOption::number("size", "B", 1..=MAX_SIZE, |request| &mut request.load.size)
            .letter('s')
            .explained(format!("Bytes of a write (default: {})", defaults.size)),
        HeatsinkOption::number("list-size", "N", 1..=MAX_LIST_SIZE, |request| {
            &mut request.load.list_size
        })
        .letter('l')
        .explained(format!("Writes that are issued at once (default: {})", defaults.list_size)),
        HeatsinkOption::switch("no-hrp", |request| request.load.use_hrp = false)
            .explained("Do not use High Rate Puts"),
        HeatsinkOption::switch("no-idc", |request| request.load.use_idc = false)
            .explained("Do not use Immediate Data Commands"),
        HeatsinkOption::switch("no-ple", |request| request.load.persistent_entries = false)
            .explained("Append a list entry for each write"),
    ]
}

/// Returns the CPUs of a list in its order.
fn cpu_list(typed: &str) -> Option<Vec<u32>> {
    let parts = typed.split(',').map(machine::list);
    Some(parts.collect::<Option<Vec<_>>>()?.concat())
}

/// Runs the program with its arguments.
///
/// # Errors
///
/// Invalid arguments, a NIC that cannot be loaded, a sensor without a value, a criterion that is
/// not met.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let mut request = HeatsinkRequest::default();
    let read = arguments::read(&usage(), &options(), &arguments, &mut request);
    if read.map_err(|failure| failure.with_status(ERROR))?.is_none() {
        return Ok(());
    }
    request.load.libcxi = arguments::library_of_environment();
    request.interval = request.interval.min(request.duration);
    backend::check(request.load.device)
        .and_then(|()| {
            interrupt::watch()?;
            reading::limit_waits();
            load(request)
        })
        .map_err(
            |failure| {
                if failure.kind == Kind::Usage { failure.with_status(ERROR) } else { failure }
            },
        )
}

fn load(mut request: HeatsinkRequest) -> Result<(), Failure> {
    let (machine, device) = (Machine::this(), request.load.device);
    require(device, &machine)?;
    let files = files_with(device, &machine, |_| false)?;
    let files = files.ok_or_else(|| Failure::environment(format!("there is no {device}")))?;
    let number = part_number(&files);
    let undetermined = || {
        let hint = "'cxidiag check --stress' reads all sensors that the driver shows";
        Failure::environment(undetermined(number.as_deref())).with_hint(hint)
    };
    let board = board(number.as_deref().unwrap_or_default()).ok_or_else(undetermined)?;
    let sensors = Sensors::find(&files, Some(board));
    if let Some(sensor) = sensors.absent() {
        let message = format!("{device} has no sensor '{}'", sensor.label);
        return Err(Failure::environment(message));
    }
    request.load.cpus = cpus(&request, &machine)?;
    let name = device.to_string();
    let threads = request.load.cpus.len();
    let mut nics = vec![StressedNic::new(name, false, number.clone(), threads, sensors.list())];
    let output = Documents::default();
    let loads = [request.load.clone()];
    let began = Clocks::now();
    under_load(NAME, &loads, |load| {
        let shown = summary(&request, load.nic(0)?, board);
        output.print(|out| text::summary(out, &nics[0], &shown))?;
        // Rows are due at whole intervals: no load follows the last one.
        let time = Duration::from_secs(request.duration / request.interval * request.interval);
        let times = Times { time, interval: Duration::from_secs(request.interval) };
        let sensors = [sensors];
        watch(load, &mut nics, &sensors, times, |nics, due| {
            output.print(|out| text::row(out, &nics[0], due.as_secs()))
        })
    })?;
    note_step(NAME, began);
    let nic = &nics[0];
    if let Some(error) = nic.error() {
        return Err(Failure::nic(error));
    }
    if let Some(sensor) = nic.critical() {
        output.print(|out| text::too_hot(out, sensor))?;
    }
    output.print(|out| text::criteria(out, nic))?;
    if nic.is_bad() {
        return Err(Failure::unmet("a criterion is not met").with_status(NOT_MET).printed());
    }
    nic.unjudged().map_or(Ok(()), |why| Err(Failure::environment(why)))
}

fn undetermined(part_number: Option<&str>) -> String {
    match part_number {
        Some(number) => format!("Unable to determine board type: part number {number}"),
        None => "Unable to determine board type: fru/part_number cannot be read".into(),
    }
}

/// Returns the CPUs of the writers.
fn cpus(request: &HeatsinkRequest, machine: &Machine) -> Result<Vec<u32>, Failure> {
    if let Some((cpus, typed)) = &request.cpu_list {
        let online = machine.online_cpus();
        let is_missing = |cpu: &&u32| !online.is_empty() && !online.contains(cpu);
        return match cpus.iter().find(is_missing) {
            Some(cpu) => {
                let online = machine::shown(&online);
                Err(Failure::usage(format!(
                    "Invalid CPU list: {typed}: CPU {cpu} is not online (online: {online})"
                )))
            }
            None => Ok(cpus.clone()),
        };
    }
    let allowed = placement::cpus().explain("cannot read the CPUs that this process may use")?;
    let count = match machine.online_cpus().len() {
        0 => allowed.len(),
        online => online,
    };
    let processes = request.processes.unwrap_or((count / CPUS_PER_PROCESS).max(1));
    let cpus = machine.load_cpus(&request.load.device.to_string(), processes, &allowed);
    if cpus.is_empty() {
        let failure = Failure::environment("Unable to pick cores to use.");
        return Err(failure.with_hint("Use '-c' to pick them manually"));
    }
    Ok(cpus)
}

fn summary(request: &HeatsinkRequest, nic: &LoadedNic, board: &Board) -> HeatsinkSummary {
    let LoadOptions { size, list_size, gpus, cpus, persistent_entries, .. } = &request.load;
    let memory = |gpu: Option<u8>| gpu.map_or("System".into(), |gpu| format!("GPU {gpu}"));
    let largest = if nic.hrp.is_on() { IDC_MAX_RESTRICTED } else { IDC_MAX_UNRESTRICTED };
    let idc = if !request.load.use_idc {
        Setting::Disabled
    } else if gpus.tx.is_some() || *size > largest as u64 {
        Setting::NotApplicable
    } else {
        Setting::Enabled
    };
    let typed = request.cpu_list.as_ref().map(|(_, typed)| typed.clone());
    HeatsinkSummary {
        memory: [memory(gpus.tx), memory(gpus.rx)],
        gpu_type: nic.own.gpus.kind.filter(|_| gpus.any()).map(|kind| kind.to_string()),
        duration: request.duration,
        interval: request.interval,
        processes: cpus.len(),
        processors: typed.unwrap_or_else(|| machine::shown(cpus)),
        size: *size,
        list_size: *list_size,
        hrp: nic.hrp,
        idc,
        has_persistent_entries: *persistent_entries,
        own: nic.own,
        is_dual: board.is_dual,
        gpu_count: gpus.any().then_some(nic.gpu_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_keeps_its_order() {
        assert_eq!(cpu_list("8,0-2,8"), Some(vec![8, 0, 1, 2, 8]));
        for typed in ["", "1,", "a", "2-1"] {
            assert_eq!(cpu_list(typed), None, "{typed}");
        }
    }
}
