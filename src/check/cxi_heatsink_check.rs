//! HPE's cxi_heatsink_check: its options and its text (node-tools.md 5), without its defects.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgAction, Args, Command};

use super::examine::{files_with, require};
use super::note::note_step;
use super::stress_watch::{Times, watch};
use crate::cxi_heatsink_check_text as text;
use crate::cxi_heatsink_check_text::HeatsinkSummary;
use crate::stress_document::StressedNic;
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived};
use cxi::gpu::GpuType;
use cxi::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, placement};
use diag::run::stress::{LoadOptions, LoadedNic, under_load};
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::time_of_day::Clocks;
use health::sensors::{Board, Sensors, board, part_number};
use node::explain::Explain;
use node::gpu::OnGpus;
use node::machine::{self, Machine};
use node::service::ServiceOptions;
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

/// Returns what the program takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Load a NIC and watch its temperatures",
        synopsis: vec![("cxi_heatsink_check [OPTIONS]".into(), "")],
        options: derived::entries(&COMMAND),
        replaced_version: Some(VERSION),
        remarks: vec![
            "Exit status: 0 all criteria are met, 2 one is not, 1 error or invalid\n\
             arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<HeatsinkRequest>);

/// What the arguments ask for.
#[derive(Args)]
struct HeatsinkRequest {
    /// NIC to load
    #[arg(short, long, value_name = "DEV", default_value_t = DEFAULT_DEVICE)]
    #[arg(add = Completion::Devices)]
    device: DeviceName,

    /// CXI service (default: as for the tools)
    #[arg(short = 'v', long, value_name = "SVC_ID")]
    #[arg(value_parser = derived::number(1..=i32::MAX as u32))]
    svc_id: Option<u32>,

    /// GPU that holds the source of the writes (default: system memory)
    #[arg(short, long, value_name = "GPU", value_parser = derived::number(0..=u8::MAX))]
    tx_gpu: Option<u8>,

    /// GPU that holds the target of the writes (default: system memory)
    #[arg(short, long, value_name = "GPU", value_parser = derived::number(0..=u8::MAX))]
    rx_gpu: Option<u8>,

    /// AMD, NVIDIA or INTEL (default: first type found)
    #[arg(short, long, value_name = "TYPE")]
    #[arg(value_parser = |typed: &str| gpu::named(typed).ok_or(gpu::GPU_TYPES))]
    #[arg(add = Completion::Words(|| GpuType::ALL.iter().map(GpuType::to_string).collect()))]
    gpu_type: Option<GpuType>,

    /// Number of writers (default: a quarter of the CPUs, at least 1)
    #[arg(short = 'P', long = "procs", value_name = "N")]
    #[arg(value_parser = derived::number(1..=u16::MAX))]
    processes: Option<u16>,

    /// CPUs of the writers, one each (default: near the NIC)
    #[arg(short, long, value_name = "LIST", value_parser = typed_cpus, add = Completion::Cpus)]
    cpu_list: Option<TypedCpus>,

    /// Seconds of load
    #[arg(short = 'D', long, value_name = "S", default_value = "600")]
    #[arg(value_parser = derived::number(1..=86400_u64))]
    duration: u64,

    /// Seconds between two rows
    #[arg(short, long, value_name = "S", default_value = "10")]
    #[arg(value_parser = derived::number(1..=86400_u64))]
    interval: u64,

    /// Bytes of a write
    #[arg(short, long, value_name = "B", default_value_t = LoadOptions::new(DEFAULT_DEVICE).size)]
    #[arg(value_parser = derived::number(1..=262_144_u64))]
    size: u64,

    /// Writes that are issued at once
    #[arg(short, long, value_name = "N", default_value_t = LoadOptions::new(DEFAULT_DEVICE).list_size)]
    #[arg(value_parser = derived::number(1..=MAX_LIST_SIZE))]
    list_size: u16,

    /// Do not use High Rate Puts
    #[arg(long = "no-hrp", action = ArgAction::SetFalse)]
    use_hrp: bool,

    /// Do not use Immediate Data Commands
    #[arg(long = "no-idc", action = ArgAction::SetFalse)]
    use_idc: bool,

    /// Append a list entry for each write
    #[arg(long = "no-ple", action = ArgAction::SetFalse)]
    persistent_entries: bool,
}

impl HeatsinkRequest {
    /// Returns the load with writers on these CPUs.
    fn load(&self, cpus: Vec<u32>) -> LoadOptions {
        LoadOptions {
            device: self.device,
            service: ServiceOptions { svc_id: self.svc_id, ..ServiceOptions::default() },
            libcxi: arguments::library_of_environment(),
            cpus,
            size: self.size,
            list_size: self.list_size,
            use_hrp: self.use_hrp,
            use_idc: self.use_idc,
            persistent_entries: self.persistent_entries,
            gpus: OnGpus { kind: self.gpu_type, tx: self.tx_gpu, rx: self.rx_gpu, map: None },
        }
    }
}

/// The CPUs of a list in its order, and the list as typed.
type TypedCpus = (Vec<u32>, String);

fn typed_cpus(typed: &str) -> Result<TypedCpus, &'static str> {
    let cpus = cpu_list(typed).ok_or("expected CPU numbers such as 0-3,8")?;
    Ok((cpus, typed.to_owned()))
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
    let typed = TypedArguments::<HeatsinkRequest>::read(&usage(), &COMMAND, &arguments);
    let typed = typed.map_err(|failure| failure.with_status(ERROR))?;
    let Some(TypedArguments { mut request, .. }) = typed else { return Ok(()) };
    request.interval = request.interval.min(request.duration);
    backend::check(request.device)
        .and_then(|()| {
            interrupt::watch()?;
            reading::limit_waits();
            load(&request)
        })
        .map_err(
            |failure| {
                if failure.kind == Kind::Usage { failure.with_status(ERROR) } else { failure }
            },
        )
}

fn load(request: &HeatsinkRequest) -> Result<(), Failure> {
    let (machine, device) = (Machine::this(), request.device);
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
    let loads = [request.load(cpus(request, &machine)?)];
    let name = device.to_string();
    let threads = loads[0].cpus.len();
    let mut nics = vec![StressedNic::new(name, false, number.clone(), threads, sensors.list())];
    let output = Documents::default();
    let began = Clocks::now();
    under_load(NAME, &loads, |load| {
        let shown = summary(request, &loads[0], load.nic(0)?, board);
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
    let usual = (count / CPUS_PER_PROCESS).max(1);
    let processes = request.processes.map_or(usual, usize::from);
    let cpus = machine.load_cpus(&request.device.to_string(), processes, &allowed);
    if cpus.is_empty() {
        let failure = Failure::environment("Unable to pick cores to use.");
        return Err(failure.with_hint("Use '-c' to pick them manually"));
    }
    Ok(cpus)
}

fn summary(
    request: &HeatsinkRequest,
    load: &LoadOptions,
    nic: &LoadedNic,
    board: &Board,
) -> HeatsinkSummary {
    let LoadOptions { size, list_size, gpus, cpus, persistent_entries, .. } = load;
    let memory = |gpu: Option<u8>| gpu.map_or("System".into(), |gpu| format!("GPU {gpu}"));
    let largest = if nic.hrp.is_on() { IDC_MAX_RESTRICTED } else { IDC_MAX_UNRESTRICTED };
    let idc = if !request.use_idc {
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
