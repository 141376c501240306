//! `check --stress` and `cxi_heatsink_check`: load on software NICs that the library shows as
//! hardware, with the sensors of machines described by files; none of the defects N30 to N37.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::gpu_machine::{ALL, Intel, Machine, Nvidia};
use crate::harness::machine::MadeUp;
use crate::harness::metrics;
use crate::harness::paused::Side;
use crate::harness::schema::document;
use crate::harness::{
    CXIDIAG, Command, Fabric, LIBCXI, assert_status, assert_success, finish, named, stderr, stdout,
};

const CASSINI_2: &str = include_str!("../fixtures/nics/cassini2");

/// Directory of the sensors in these machines.
const SENSORS: &str = "sys/class/cxi/cxi0/device/hwmon/hwmon3";

/// A card with one NIC, whose powers the driver does not show.
fn single_board() -> MadeUp {
    MadeUp::described_by(CASSINI_2)
}

/// A card with two NICs, whose second chip has this temperature.
fn dual_board(second: &str) -> MadeUp {
    let machine = single_board();
    machine.write("sys/class/cxi/cxi0/device/fru/part_number", "P48765-001\n");
    for (sensor, label, input) in [
        ("temp2", "Cassini 1 Temperature", second),
        ("power1", "0.765V Power", "16900000"),
        ("power2", "VDDA 0.75V Power", "6200000"),
        ("power3", "TRVDD 0.9V Power", "2000000"),
    ] {
        machine.write(&format!("{SENSORS}/{sensor}_label"), &format!("{label}\n"));
        machine.write(&format!("{SENSORS}/{sensor}_input"), &format!("{input}\n"));
    }
    machine
}

/// Replaces the input of a sensor in one step.
fn set(machine: &MadeUp, sensor: &str, input: &str) {
    machine.write(&format!("{SENSORS}/new"), &format!("{input}\n"));
    let directory = machine.path().join(SENSORS);
    fs::rename(directory.join("new"), directory.join(sensor)).expect("a file");
}

fn seen_by(machine: &MadeUp, mut command: Command) -> Command {
    command.env("CXIDIAG_LIBCXI", &*LIBCXI);
    machine.seen_by(command)
}

fn command_on(machine: &MadeUp, fabric: &Fabric, arguments: &str) -> Command {
    seen_by(machine, fabric.command(arguments))
}

fn run(machine: &MadeUp, arguments: &str) -> Output {
    let fabric = Fabric::new();
    let output = finish(command_on(machine, &fabric, arguments));
    fabric.assert_nothing_left();
    output
}

/// Starts a load without end, and waits for its first row.
fn loaded(machine: &MadeUp, fabric: &Fabric) -> Side {
    let arguments = "check cxi0 --stress=60m --interval=200ms";
    let mut side = Side::start(command_on(machine, fabric, arguments), None);
    let titles = side.next_line();
    let expected = "Time[s]  NIC   Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[C]  QSFP_INT[C]\n";
    assert_eq!(titles, expected);
    let row = side.next_line();
    assert!(row.ends_with("       -        -         -         62           44\n"), "{row}");
    side
}

/// The processes that a process has started.
fn children(process: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let lists = threads.map(|thread| {
        let list = thread.expect("a thread").path().join("children");
        fs::read_to_string(list).unwrap_or_default()
    });
    lists.collect()
}

/// The row that shows the temperature is the last one. N31, N37: the load has one process, and
/// nothing is left of it.
#[test]
fn n31_n37_ends_at_once_if_a_temperature_becomes_critical() {
    let (machine, fabric) = (single_board(), Fabric::new());
    let side = loaded(&machine, &fabric);
    assert_eq!(children(side.id()), "", "one process");
    set(&machine, "temp1_input", "91400");
    let output = side.finish();
    assert_eq!(assert_status(&output, 3), "");
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    let verdict = "FAIL asic-temperature cxi0: Cassini 0 Temperature 91 C, expected <85 C";
    assert_eq!(lines.pop(), Some(verdict));
    let is_hot = |line: &&str| line.ends_with("         91           44");
    assert!(lines.last().is_some_and(is_hot), "{text}");
    assert_eq!(lines.iter().filter(|line| is_hot(line)).count(), 1, "{text}");
    fabric.assert_nothing_left();
}

/// A critical temperature does not wait for its sample. The limits of the cable are its own.
#[test]
fn ends_long_before_the_sample_if_a_temperature_becomes_critical() {
    let (machine, fabric) = (single_board(), Fabric::new());
    let media = "sys/class/cxi/cxi0/device/port/0/media";
    machine.write(&format!("{media}/temperature_warn_limit_celsius"), "80\n");
    machine.write(&format!("{media}/temperature_down_limit_celsius"), "90\n");
    let arguments = "check cxi0 --stress=60m --interval=60m";
    let mut side = Side::start(command_on(&machine, &fabric, arguments), None);
    assert!(side.next_line().starts_with("Time[s] "));
    set(&machine, "temp4_input", "90000");
    let output = side.finish();
    assert_eq!(assert_status(&output, 3), "");
    let text = stdout(&output);
    let [row, verdict] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(row.ends_with("         62           90"), "{text}");
    let expected = "FAIL media-temperature cxi0: QSFP Internal Temperature 90 C, expected <80 C";
    assert_eq!(verdict, expected);
    fabric.assert_nothing_left();
}

#[test]
fn ends_with_each_signal() {
    for signal in ["INT", "TERM", "HUP"] {
        let (machine, fabric) = (single_board(), Fabric::new());
        let side = loaded(&machine, &fabric);
        side.signal(signal);
        let output = side.finish();
        let error = assert_status(&output, 130);
        assert_eq!(error, format!("cxidiag check: interrupted by SIG{signal}\n"));
        assert!(!stdout(&output).contains("OK "), "no verdict");
        fabric.assert_nothing_left();
    }
}

#[test]
fn judges_each_nic_and_writes_a_document() {
    let machine = single_board();
    machine.describe(&CASSINI_2.replace("cxi0", "cxi1"));
    let output = run(&machine, "check cxi0 cxi1 --stress=1s --interval=500ms");
    assert_success(&output);
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 6, "{text}");
    let verdict = "\nOK cxi0 cxi1 (hottest: cxi0 ASIC_0 62 C, limit 85 C)\n";
    assert!(text.ends_with(verdict), "{text}");

    set(&machine, "temp4_input", "70000");
    let cpu = usable_cpu();
    let options = format!("--stress=1s --interval=1s --cpu={cpu} --json");
    let output = run(&machine, &format!("check cxi0 {options}"));
    let verdict = "FAIL media-temperature cxi0: QSFP Internal Temperature 70 C, expected <70 C";
    assert_eq!(assert_status(&output, 3), format!("cxidiag check: {verdict}\n"));
    let schema = include_str!("../../docs/stress.schema.json");
    let document = document(schema, &stdout(&output));
    assert_eq!(document["summary"], verdict);
    let nic = &document["devices"][0];
    assert_eq!((&nic["is_software"], &nic["threads"]), (&json!(true), &json!(1)));
    assert!(nic["bytes"].as_u64().is_some_and(|bytes| bytes > 0 && bytes.is_multiple_of(512)));
    assert_eq!(nic["samples"][0]["values"], json!([null, null, null, 61.5, 70.0]));
    let verdicts: Vec<_> =
        nic["sensors"].as_array().expect("sensors").iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, ["shown", "shown", "shown", "good", "bad"]);
}

#[test]
fn writes_metrics() {
    let machine = dual_board("85000");
    let directory = tempfile::tempdir().expect("a directory");
    let [prom, open] = ["stress.prom", "stress.txt"].map(|name| directory.path().join(name));
    for file in [&prom, &open] {
        let options = format!("--stress=200ms --quiet --openmetrics={}", file.display());
        assert_status(&run(&machine, &format!("check cxi0 {options}")), 3);
    }
    metrics::assert_accepted(&prom, &open, 8);
    let text = fs::read_to_string(prom).expect("metrics");
    for start in [
        "cxidiag_build_info{command=\"stress\",",
        "cxidiag_stress_exit_status 3\n",
        "cxidiag_stress_ok{device=\"cxi0\",check=\"asic-temperature\"} 0\n",
        "cxidiag_stress_temperature_celsius{device=\"cxi0\",sensor=\"ASIC_1\"} 85\n",
        "cxidiag_stress_power_watts{device=\"cxi0\",sensor=\"VDD\"} 16.9\n",
        "cxidiag_stress_bandwidth_bytes_per_second{device=\"cxi0\"} ",
    ] {
        assert!(text.contains(start), "{start}: {text}");
    }
}

#[test]
fn is_undecided_without_temperatures() {
    for device in ["soft0", "cxi0"] {
        let machine = single_board();
        fs::remove_file(machine.path().join(SENSORS).join("temp1_input")).expect("a file");
        let output = run(&machine, &format!("check {device} --stress=1s --quiet"));
        assert_eq!(assert_status(&output, 4), "");
        let why = match named(device).as_str() {
            "cxi0" => "cxi0: Cassini 0 Temperature has no value",
            _ => "soft0: the driver shows no temperature",
        };
        assert_eq!(stdout(&output), format!("UNDECIDED untested {why}\n"));
    }
    let output = finish(MadeUp::new(&[]).seen_by(Fabric::new().command("check --stress=1s")));
    let error = assert_status(&output, 4);
    assert!(error.starts_with("cxidiag check: no Cassini NIC on this machine\n"), "{error}");
}

#[test]
fn refuses_options_without_effect() {
    for (options, message) in [
        ("--stress --quick", "--quick has no effect with --stress, "),
        ("--stress --hosts=nid1", "--hosts has no effect with --stress, "),
        ("--interval=1s", "--interval needs --stress"),
        ("--cpu=0", "--cpu needs --stress"),
        ("--stress=1", "there is no cxi7"),
        ("--stress=0", "invalid value '0' for --stress: expected a time from 100ms to 1440m"),
    ] {
        let output = run(&single_board(), &format!("check cxi7 {options}"));
        let expected = if options == "--stress=1" { 1 } else { 2 };
        let error = assert_status(&output, expected);
        assert!(error.starts_with(&format!("cxidiag check: error: {message}")), "{error}");
    }
}

/// A CPU that this process may use.
fn usable_cpu() -> u32 {
    cxi::placement::cpus().expect("CPUs")[0]
}

/// The program of HPE under its name, on a fabric of its own.
struct Heatsink {
    fabric: Fabric,
    links: TempDir,
}

impl Heatsink {
    fn new() -> Self {
        let links = tempfile::tempdir().expect("a directory");
        symlink(Path::new(CXIDIAG), links.path().join("cxi_heatsink_check")).expect("a symlink");
        Self { fabric: Fabric::new(), links }
    }

    fn name(&self) -> PathBuf {
        self.links.path().join("cxi_heatsink_check")
    }

    fn command(&self, machine: &MadeUp, arguments: &str) -> Command {
        seen_by(machine, self.fabric.command_of(&self.name(), arguments))
    }

    fn finish(&self, command: Command) -> Output {
        let output = finish(command);
        self.fabric.assert_nothing_left();
        output
    }
}

/// Runs the program of HPE under its name.
fn heatsink(machine: &MadeUp, arguments: &str) -> Output {
    let program = Heatsink::new();
    program.finish(program.command(machine, arguments))
}

/// The rate of the only row, and of the end.
fn rates(text: &str) -> [String; 2] {
    let token = |line: Option<&str>, place| {
        let token = line.and_then(|line| line.split_whitespace().nth(place));
        token.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let row = text.lines().find(|line| line.starts_with("      1  "));
    let mean = text.lines().find(|line| line.starts_with("Average BW "));
    [token(row, 1), token(mean, 5)]
}

/// node-tools.md 5.6; a software NIC does not carry 19 GB/s. N38: the text of the current version,
/// whose last row is at the duration.
#[test]
fn n38_prints_hpe_text() {
    let version = stdout(&heatsink(&single_board(), "-V -d bad"));
    assert_eq!(version, "cxi_heatsink_check version: 2.2.2\n");
    let cpu = usable_cpu();
    let output = heatsink(&dual_board("58900"), &format!("-D 1 -i 10 -c {cpu}"));
    assert_eq!(assert_status(&output, 2), "");
    let text = stdout(&output);
    let [rate, mean] = rates(&text);
    let mean = format!("{mean} GB/s");
    let expected = format!(
        "\
----------------------------------------------------------------------
    CXI Heatsink Test
Device          : cxi0
Service ID      : 1
TX Mem          : System
RX Mem          : System
Duration        : 1 seconds
Sensor Interval : 1 seconds
TX/RX Processes : 1
Processor List  : {cpu}
RDMA Write Size : 512
List Size       : 256
HRP             : Enabled
IDC             : Disabled - Not Applicable
Persistent LEs  : Enabled
Local Address   : NIC 0x12 VNI 1
Board Type      : Dual-NIC
----------------------------------------------------------------------
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[°C]  ASIC_1[°C]
      1  {rate:>10}      16        6         2          61          58
----------------------------------------------------------------------
Cassini 0 Temperature (ASIC_0) under 85 °C:  61 °C       PASS
Cassini 1 Temperature (ASIC_1) under 85 °C:  58 °C       PASS
0.765V Power (VDD):                          16 W        ----
VDDA 0.75V Power (AVDD):                     6 W         ----
Average BW over 19 GB/s:                     {mean:<12}FAIL
"
    );
    assert_eq!(text, expected);
}

/// N35: without the privilege that only root has, the load and its exit status are the same.
#[test]
fn n35_needs_no_root() {
    let (program, machine) = (Heatsink::new(), dual_board("50000"));
    let name = program.name();
    let is_root = rustix::process::geteuid().is_root();
    let without = "--bounding-set=-sys_admin --inh-caps=-all";
    let line = format!("{without} {} -D 1 -i 1 -P 1", name.display());
    let command = if is_root {
        seen_by(&machine, program.fabric.command_of(Path::new("setpriv"), &line))
    } else {
        program.command(&machine, "-D 1 -i 1 -P 1")
    };
    let output = program.finish(command);
    assert_eq!(assert_status(&output, 2), "");
    let text = stdout(&output);
    assert!(text.contains("\nCassini 1 Temperature (ASIC_1) under 85 °C:  50 °C       PASS\n"));
}

/// A line of the status of a thread.
fn status_of(thread: u32, label: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{thread}/task/{thread}/status"));
    let status = status.expect("a thread");
    let line = status.lines().find_map(|line| line.strip_prefix(label)).expect("a line");
    line.trim().to_owned()
}

/// N36: the thread that watches gives up its CPU again and again, and is bound to none. N31, N37:
/// Ctrl-C ends all writers of the one process.
#[test]
fn n36_n37_watches_without_a_cpu_of_its_own() {
    let (program, machine) = (Heatsink::new(), dual_board("50000"));
    let mut side = Side::start(program.command(&machine, "-D 3600 -i 3600 -P 1"), None);
    while !side.next_line().starts_with("Time[s] ") {}
    let waits = || -> u64 {
        let count = status_of(side.id(), "voluntary_ctxt_switches:");
        count.parse().expect("a number")
    };
    let before = waits();
    while waits() < before + 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let own = status_of(std::process::id(), "Cpus_allowed_list:");
    assert_eq!(status_of(side.id(), "Cpus_allowed_list:"), own);
    assert_eq!(children(side.id()), "", "one process");
    side.signal("INT");
    let error = assert_status(&side.finish(), 130);
    assert_eq!(error, "cxi_heatsink_check: interrupted by SIGINT\n");
    program.fabric.assert_nothing_left();
}

/// Buffers on the GPUs of stand-ins (ffi/cxi-sys/tests/gpu).
#[test]
fn writes_from_gpu_to_gpu() {
    for runtime in ALL {
        let (program, machine) = (Heatsink::new(), dual_board("50000"));
        let gpus = Machine::with(&[runtime]);
        let arguments = format!("-D 1 -i 1 -P 1 -t 0 -r 1 -g {}", runtime.name());
        let mut command = program.command(&machine, &arguments);
        command.env("LD_LIBRARY_PATH", gpus.directory.path()).env("STANDIN_LOG", gpus.log());
        let output = program.finish(command);
        assert_eq!(assert_status(&output, 2), "", "{runtime:?}");
        let text = stdout(&output);
        let kind = format!("GPU Type        : {}\n", runtime.name());
        for line in
            ["TX Mem          : GPU 0\n", "RX Mem          : GPU 1\n", &kind, "Found 2 GPU(s)\n"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        gpus.assert_buffers(&[(0, 1), (1, 1)]);
    }
}

#[test]
fn refuses_gpus_that_are_not_there() {
    for (installed, options, message) in [
        (&[][..], "-t 0", "no GPU found: none of "),
        (&[Nvidia], "-r 0 -g INTEL", "cannot use INTEL GPUs: "),
        (&[Intel], "-t 7", "no GPU 7: there are 2 INTEL GPUs"),
        (&[], "-t 256", "invalid value '256' for --tx-gpu: "),
        (&[], "-t 0 -g FOO", "invalid value 'FOO' for --gpu-type: "),
    ] {
        let (program, machine) = (Heatsink::new(), dual_board("50000"));
        let gpus = Machine::with(installed);
        let mut command = program.command(&machine, options);
        command.env("LD_LIBRARY_PATH", gpus.directory.path()).env("STANDIN_LOG", gpus.log());
        let output = program.finish(command);
        let error = assert_status(&output, 1);
        assert!(error.contains(message), "{options}: {error}");
        assert_eq!(stdout(&output), "", "{options}");
    }
}

/// N30: the first row ends the load, and counts.
#[test]
fn n30_overheated_card_does_not_pass() {
    let output = heatsink(&dual_board("90000"), "-D 20 -i 1 -P 1");
    assert_status(&output, 2);
    let text = stdout(&output);
    let end = "\n\nError! Cassini 1 Temperature has exceeded safe range. Exiting early.\n-----";
    assert!(text.contains(end), "{text}");
    assert!(text.contains("\nCassini 1 Temperature (ASIC_1) under 85 °C:  90 °C       FAIL\n"));
    assert_eq!(text.matches("\n      2  ").count(), 0, "{text}");
}

/// N34: the run goes on, and has its summary.
#[test]
fn n34_missing_value_is_shown() {
    let machine = dual_board("50000");
    fs::remove_file(machine.path().join(SENSORS).join("temp2_input")).expect("a file");
    let text = stdout(&heatsink(&machine, "-D 1 -i 1 -P 1"));
    assert!(text.contains("          61           -\n"), "{text}");
    let line = "\nCassini 1 Temperature (ASIC_1) under 85 °C:  -             NA\n";
    assert!(text.contains(line), "{text}");
}

/// node-tools.md 5.4
#[test]
fn loads_with_each_kind_of_write() {
    for (options, lines) in [
        ("--no-hrp --no-ple", ["HRP             : Disabled\n", "Persistent LEs  : Disabled\n"]),
        (
            "-s 4096 -l 3",
            ["HRP             : Disabled - Not Applicable\n", "List Size       : 3\n"],
        ),
        ("-s 64", ["IDC             : Enabled\n", "RDMA Write Size : 64\n"]),
        ("-s 64 --no-idc", ["IDC             : Disabled\n", "Local Address   : NIC 0x12 VNI 1\n"]),
    ] {
        let cpu = usable_cpu();
        let arguments = format!("-D 1 -i 1 -c {cpu},{cpu} {options}");
        let output = heatsink(&dual_board("50000"), &arguments);
        assert_eq!(assert_status(&output, 2), "", "{options}");
        let text = stdout(&output);
        assert!(lines.iter().all(|line| text.contains(line)), "{options}: {text}");
        assert!(rates(&text).iter().all(|rate| rate.parse::<f64>().is_ok()), "{text}");
    }
}

#[test]
fn errors_have_the_status_of_the_legacy_program() {
    let machine = single_board();
    machine.write("sys/class/cxi/cxi0/device/fru/part_number", "P99999-001\n");
    for (machine, options, message) in [
        (&machine, "-D 1", "Unable to determine board type: part number P99999-001\n"),
        (&single_board(), "-d cxi7", "there is no cxi7: devices of this machine: cxi0\n"),
        (&single_board(), "-s 0", "invalid value '0' for --size: "),
        (&single_board(), "-i 0", "invalid value '0' for --interval: "),
        (&single_board(), "-l 16383", "invalid value '16383' for --list-size: "),
        (&single_board(), "-c 1-0", "invalid value '1-0' for --cpu-list: "),
    ] {
        let output = heatsink(machine, options);
        let error = assert_status(&output, 1);
        let expected = format!("cxi_heatsink_check: error: {message}");
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), error));
    }
}
