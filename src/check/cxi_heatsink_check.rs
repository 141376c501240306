//! HPE's cxi_heatsink_check: its options, its course and its text (node-tools.md 5), without its
//! defects. Scripts search the text (node-tools.md 5.6): each character counts.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgAction, Args, Command};
use cli::arguments::{self, TypedArguments};
use cli::derived;
use cli::usage::{Completion, Usage};
use cxi::gpu::GpuType;
use cxi::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, placement};
use diag::run::stress::{LoadOptions, LoadedNic, under_load};
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::severity::Severity;
use facts::time_of_day::Clocks;
use health::sensors::{Board, Sensor, Sensors, board, part_number};
use node::explain::Explain;
use node::gpu::{self, OnGpus};
use node::local_address::LocalAddress;
use node::machine::{self, Machine};
use node::service::ServiceOptions;
use node::{backend, reading};
use page::documents::Documents;
use plan::run_options::{MAX_LIST_SIZE, Setting};

use crate::examine::{files_with, require};
use crate::note::note_step;
use crate::stress::{Times, watch};
use crate::stress_document::{LEAST_RATE, SensorResult, StressedNic};

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
    /// The load with writers on these CPUs.
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

/// The CPUs of a list in its order.
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
        output.print(|out| summary_text(out, &nics[0], &shown))?;
        // Rows are due at whole intervals: no load follows the last one.
        let time = Duration::from_secs(request.duration / request.interval * request.interval);
        let times = Times { time, interval: Duration::from_secs(request.interval) };
        let sensors = [sensors];
        watch(load, &mut nics, &sensors, times, |nics, due| {
            output.print(|out| row(out, &nics[0], due.as_secs()))
        })
    })?;
    note_step(NAME, began);
    let nic = &nics[0];
    if let Some(error) = nic.error() {
        return Err(Failure::nic(error));
    }
    if let Some(sensor) = nic.critical() {
        output.print(|out| too_hot(out, sensor))?;
    }
    output.print(|out| criteria(out, nic))?;
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

/// The CPUs of the writers.
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

/// Columns of the names of criteria on boards with a short and with a long one.
const SHORT: usize = 43;

const LONG: usize = 49;

/// Columns of values of criteria.
const VALUE: usize = 12;

/// What the summary shows.
#[derive(Debug)]
struct HeatsinkSummary {
    /// Buffers of the writes, and on the side of the target.
    pub memory: [String; 2],
    /// Type of the GPUs, if buffers are on some.
    pub gpu_type: Option<String>,
    pub duration: u64,
    pub interval: u64,
    pub processes: usize,
    pub processors: String,
    pub size: u64,
    pub list_size: u16,
    pub hrp: Setting,
    pub idc: Setting,
    has_persistent_entries: bool,
    pub own: LocalAddress,
    pub is_dual: bool,
    /// Number of GPUs of this type, if buffers are on some.
    pub gpu_count: Option<u32>,
}

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Enabled => "Enabled",
        Setting::Disabled => "Disabled",
        Setting::NotApplicable => "Disabled - Not Applicable",
    }
}

fn title(sensor: &Sensor) -> String {
    format!("{}[{}]", sensor.column, sensor.unit())
}

/// The titles of the columns.
fn titles(nic: &StressedNic) -> String {
    let sensors = nic.sensors.iter().map(|result| title(result.sensor));
    let titles = ["Time[s]".to_owned(), "Rate[GB/s]".to_owned()].into_iter().chain(sensors);
    titles.collect::<Vec<_>>().join("  ")
}

/// The line between parts: as long as the titles.
fn rule(nic: &StressedNic) -> String {
    "-".repeat(titles(nic).chars().count())
}

/// Writes the summary and the titles.
fn summary_text(
    out: &mut impl Write,
    nic: &StressedNic,
    summary: &HeatsinkSummary,
) -> io::Result<()> {
    let rule = rule(nic);
    let [tx, rx] = &summary.memory;
    let address = format!("NIC {:#x} VNI {}", summary.own.address.nic, summary.own.vni);
    let entries = if summary.has_persistent_entries { "Enabled" } else { "Disabled" };
    let board = if summary.is_dual { "Dual-NIC" } else { "Single-NIC" };
    let lines = [
        ("Device", Some(nic.name.clone())),
        ("Service ID", Some(summary.own.svc_id.to_string())),
        ("TX Mem", Some(tx.clone())),
        ("RX Mem", Some(rx.clone())),
        ("GPU Type", summary.gpu_type.clone()),
        ("Duration", Some(format!("{} seconds", summary.duration))),
        ("Sensor Interval", Some(format!("{} seconds", summary.interval))),
        ("TX/RX Processes", Some(summary.processes.to_string())),
        ("Processor List", Some(summary.processors.clone())),
        ("RDMA Write Size", Some(summary.size.to_string())),
        ("List Size", Some(summary.list_size.to_string())),
        ("HRP", Some(setting(summary.hrp).into())),
        ("IDC", Some(setting(summary.idc).into())),
        ("Persistent LEs", Some(entries.into())),
        ("Local Address", Some(address)),
        ("Board Type", Some(board.into())),
    ];
    writeln!(out, "{rule}\n    CXI Heatsink Test")?;
    for (label, value) in lines {
        if let Some(value) = value {
            writeln!(out, "{label:<16}: {value}")?;
        }
    }
    if let Some(count) = summary.gpu_count {
        writeln!(out, "Found {count} GPU(s)")?;
    }
    writeln!(out, "{rule}\n{}", titles(nic))
}

/// A value as the program prints it: whole degrees or watts.
fn whole(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{:.0}", value.trunc() + 0.0))
}

/// Writes the row of the last sample, which was due `seconds` after the count began.
fn row(out: &mut impl Write, nic: &StressedNic, seconds: u64) -> io::Result<()> {
    let Some(sample) = nic.samples.last() else { return Ok(()) };
    write!(out, "{seconds:>7}  {:>10.2}", sample.bytes_per_s / 1e9)?;
    for (result, value) in nic.sensors.iter().zip(&sample.values) {
        let width = title(result.sensor).chars().count();
        write!(out, "  {:>width$}", whole(*value))?;
    }
    writeln!(out)
}

/// Writes why the load ends early.
fn too_hot(out: &mut impl Write, sensor: &Sensor) -> io::Result<()> {
    writeln!(out, "\nError! {} has exceeded safe range. Exiting early.", sensor.label)
}

/// Writes the criteria and whether they are met.
fn criteria(out: &mut impl Write, nic: &StressedNic) -> io::Result<()> {
    writeln!(out, "{}", rule(nic))?;
    let has_cable = nic.sensors.iter().any(|result| result.sensor.may_lack_value);
    let width = if has_cable { LONG } else { SHORT };
    let mut line = |name: &str, value: String, verdict: &str| {
        writeln!(out, "{name:<width$}  {value:<VALUE$}{verdict}")
    };
    let temperatures = nic.sensors.iter().filter_map(|result| Some((result, result.limit()?)));
    for (result, limit) in temperatures {
        let SensorResult { sensor, .. } = result;
        let name = format!("{} ({}) under {limit} °C:", sensor.label, sensor.column);
        match result.max {
            Some(_) => line(&name, format!("{} °C", whole(result.max)), verdict(result.verdict))?,
            None => line(&name, "-".into(), verdict(Severity::NotAvailable))?,
        }
    }
    let shown = nic.sensors.iter().filter(|result| matches!(result.sensor.column, "VDD" | "AVDD"));
    for SensorResult { sensor, max, .. } in shown {
        let name = format!("{} ({}):", sensor.label, sensor.column);
        match max {
            Some(_) => line(&name, format!("{} W", whole(*max)), "----")?,
            None => line(&name, "-".into(), verdict(Severity::NotAvailable))?,
        }
    }
    let rate = nic.mean_rate();
    let is_met = if rate >= LEAST_RATE { "PASS" } else { "FAIL" };
    let name = format!("Average BW over {} GB/s:", LEAST_RATE / 1e9);
    line(&name, format!("{:.2} GB/s", rate / 1e9), is_met)
}

fn verdict(verdict: Severity) -> &'static str {
    match verdict {
        Severity::Good => "PASS",
        Severity::Bad => "FAIL",
        _ => "  NA",
    }
}

#[cfg(test)]
mod tests {
    use facts::device::FabricAddress;
    use node::gpu::OnGpus;
    use node::traffic_class::TrafficClass;

    use super::*;
    use crate::stress_document::testing::{add, nic};

    #[test]
    fn cpu_list_keeps_its_order() {
        assert_eq!(cpu_list("8,0-2,8"), Some(vec![8, 0, 1, 2, 8]));
        for typed in ["", "1,", "a", "2-1"] {
            assert_eq!(cpu_list(typed), None, "{typed}");
        }
    }

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut text = Vec::new();
        write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The example of node-tools.md 5.6.
    #[test]
    fn prints_text_of_dual_board() {
        let mut nic = nic("P43012-001");
        let own = LocalAddress {
            address: FabricAddress { nic: 0x13, pid: 1 },
            svc_id: 1,
            vni: 1,
            has_vni_of_range: false,
            class: TrafficClass::BestEffort,
            simulated: false,
            gpus: OnGpus::NONE,
        };
        let shown = HeatsinkSummary {
            memory: ["System".into(), "System".into()],
            gpu_type: None,
            duration: 600,
            interval: 10,
            processes: 16,
            processors: "0-15".into(),
            size: 512,
            list_size: 256,
            hrp: Setting::Enabled,
            idc: Setting::NotApplicable,
            has_persistent_entries: true,
            own,
            is_dual: true,
            gpu_count: None,
        };
        let mut printed = text(|out| summary_text(out, &nic, &shown));
        add(&mut nic, 21.68, &[Some(16.9), Some(6.2), Some(59.9), Some(58.0)]);
        printed += &text(|out| row(out, &nic, 10));
        assert_eq!(
            printed,
            "\
------------------------------------------------------------
    CXI Heatsink Test
Device          : cxi0
Service ID      : 1
TX Mem          : System
RX Mem          : System
Duration        : 600 seconds
Sensor Interval : 10 seconds
TX/RX Processes : 16
Processor List  : 0-15
RDMA Write Size : 512
List Size       : 256
HRP             : Enabled
IDC             : Disabled - Not Applicable
Persistent LEs  : Enabled
Local Address   : NIC 0x13 VNI 1
Board Type      : Dual-NIC
------------------------------------------------------------
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  ASIC_0[°C]  ASIC_1[°C]
     10       21.68      16        6          59          58
"
        );
        add(&mut nic, 22.24, &[Some(18.0), Some(6.0), Some(69.0), Some(69.0)]);
        assert_eq!(
            text(|out| criteria(out, &nic)),
            "\
------------------------------------------------------------
Cassini 0 Temperature (ASIC_0) under 85 °C:  69 °C       PASS
Cassini 1 Temperature (ASIC_1) under 85 °C:  69 °C       PASS
0.85V S0 Power (VDD):                        18 W        ----
0.9V S0 Power (AVDD):                        6 W         ----
Average BW over 19 GB/s:                     21.96 GB/s  PASS
"
        );
    }

    /// N32: each temperature stands below its title.
    #[test]
    fn n32_columns_of_board_b_are_in_order() {
        let mut nic = nic("P41345-001");
        let values = [Some(10.0), Some(3.0), Some(5.0), Some(64.0), Some(54.0), None];
        add(&mut nic, 20.43, &values);
        assert_eq!(
            text(|out| { writeln!(out, "{}", titles(&nic)).and_then(|()| row(out, &nic, 10)) }),
            "\
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  QSFP[W]  ASIC_0[°C]  QSFP_VR[°C]  QSFP_INT[°C]
     10       20.43      10        3        5          64           54             -
"
        );
        assert_eq!(
            text(|out| criteria(out, &nic)),
            "\
------------------------------------------------------------------------------------
Cassini 0 Temperature (ASIC_0) under 85 °C:        64 °C       PASS
3.3V QSFP VR Temperature (QSFP_VR) under 125 °C:   54 °C       PASS
QSFP Internal Temperature (QSFP_INT) under 70 °C:  -             NA
0.85V S0 Power (VDD):                              10 W        ----
0.9V S0 Power (AVDD):                              3 W         ----
Average BW over 19 GB/s:                           20.43 GB/s  PASS
"
        );
    }

    /// N32: the header of board O has no code in it, and its row is one line.
    #[test]
    fn n32_board_o_has_a_column_for_its_cable() {
        let mut nic = nic("P68492-001");
        let values = [Some(10.0), Some(3.0), Some(2.0), Some(64.0), Some(85.4), Some(70.0)];
        add(&mut nic, 18.5, &values);
        assert_eq!(
            text(|out| { writeln!(out, "{}", titles(&nic)).and_then(|()| row(out, &nic, 10)) }),
            "\
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[°C]  ASIC_1[°C]  OSFP_INT[°C]
     10       18.50      10        3         2          64          85            70
"
        );
        let printed = text(|out| criteria(out, &nic));
        let lines = printed.lines().skip(1);
        let verdicts: Vec<String> = lines.map(|line| line.chars().skip(63).collect()).collect();
        assert_eq!(verdicts, ["PASS", "FAIL", "FAIL", "----", "----", "FAIL"]);
    }

    /// node-tools.md 5.5
    #[test]
    fn rates_agree_with_vectors() {
        for (seconds, bytes, shown) in
            [(10.0, 429_687_500 * 512, "     22.00"), (1.0, 10_000_000 / 2 * 4096, "     20.48")]
        {
            let mut nic = nic("P43012-001");
            nic.add(seconds, bytes, vec![None; 4]);
            assert!(text(|out| row(out, &nic, 10)).contains(&format!("  {shown}  ")));
        }
        let mut nic = nic("P43012-001");
        nic.add(10.0, 0, vec![Some(-3.9), Some(-0.4), None, Some(85.0)]);
        let printed = text(|out| row(out, &nic, 10));
        assert!(printed.ends_with("      -3        0           -          85\n"), "{printed}");
        let hot = text(|out| too_hot(out, nic.sensors[3].sensor));
        let line = "\nError! Cassini 1 Temperature has exceeded safe range. Exiting early.\n";
        assert_eq!(hot, line);
    }
}
