//! `cxi_stat`: HPE's text for machines described by files (node-tools.md 2), and none of its
//! defects N1 to N7.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;

use health::link_rates;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::machine::MadeUp;
use crate::harness::{
    CXIDIAG, Command, Fabric, assert_status, assert_success, finish, stderr, stdout,
};

const CASSINI_1: &str = include_str!("../fixtures/nics/cassini1");
const CASSINI_2: &str = include_str!("../fixtures/nics/cassini2");

/// Directory of the device in these machines.
const DEVICE: &str = "sys/class/cxi/cxi0/device";

const TEXT_1: &str = "\
Device: cxi0
    Description: 200Gb 1P SA220Q
    Part Number: P41345-001
    Serial Number: HA00000000
    FW Version: 1.5.53
    Network device: hsn0
    MAC: 02:00:00:00:07:ea
    NID: 2026 (0x007ea)
    PID granule: 256
    PCIE speed/width: 16.0 GT/s PCIe x16
    PCIE slot: 0000:21:00.0
        Link layer retry: on
        Link loopback: off
        Link media: electrical
        Link MTU: 2112
        Link speed: BS_200G
        Link state: up
";

const TEXT_2: &str = "\
Device: cxi0
    Description: HPE Slingshot 400Gb 1P QSFP112
    Part Number: P52930-001
    Serial Number: HB00000000
    FW Version: 2.1.0
    Network device: hsn0
    MAC: 02:00:00:00:00:12
    NID: 18 (0x00012)
    PID granule: 256
    PCIE speed/width: 32.0 GT/s PCIe x16
    PCIE slot: 0000:c1:00.0
        Link layer retry: running
        Link loopback: disabled
        Link media: electrical
        Link MTU: 2112
        Link speed: ck400G
        Link state: up
";

/// Adds a NIC with this number, described by a text about cxi0.
fn add(machine: &MadeUp, text: &str, number: u32) {
    machine.describe(&text.replace("cxi0", &format!("cxi{number}")));
}

/// `cxi_stat`, as the first argument.
fn command_on(machine: &MadeUp, fabric: &Fabric, arguments: &str) -> Command {
    let command = fabric.command(&format!("cxi_stat {arguments}"));
    let mut command = machine.seen_by(command);
    for variable in ["CXIDIAG_NICS", "CXIDIAG_NIDS", "CXIDIAG_TOPOLOGY"] {
        command.env_remove(variable);
    }
    command
}

fn run(machine: &MadeUp, arguments: &str) -> Output {
    let fabric = Fabric::new();
    finish(command_on(machine, &fabric, arguments))
}

#[track_caller]
fn printed(machine: &MadeUp, arguments: &str) -> String {
    let output = run(machine, arguments);
    assert_success(&output);
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

#[test]
fn prints_hpe_text_for_each_generation() {
    for (files, text) in [(CASSINI_1, TEXT_1), (CASSINI_2, TEXT_2)] {
        let machine = MadeUp::described_by(files);
        for arguments in ["", "-d cxi0", "--device=cxi0", "--dev cxi0"] {
            assert_eq!(printed(&machine, arguments), text, "{arguments}");
        }
    }
}

#[test]
fn prints_what_the_files_of_another_state_say() {
    let machine = MadeUp::described_by(CASSINI_1);
    for (name, content, line) in [
        ("port/link", "down", "        Link state: down\n"),
        ("port/speed", "NA", "        Link speed: NA\n"),
        ("port/loopback", "internal", "        Link loopback: internal\n"),
        ("properties/nid", "0xfffff\n", "    NID: 1048575 (0xfffff)\n"),
        ("fru/part_number", "\n", "    Part Number: \n"),
        (
            "properties/current_esm_link_speed",
            "25.0 GT/s\n",
            "    PCIE speed/width: 25.0 GT/s x16\n",
        ),
        (
            "properties/current_esm_link_speed",
            "Absent\n",
            "    PCIE speed/width: 16.0 GT/s PCIe x16\n",
        ),
        ("current_link_width", "8\nmore\n", "    PCIE speed/width: 16.0 GT/s PCIe x8\n"),
    ] {
        machine.write(&format!("{DEVICE}/{name}"), content);
        let text = printed(&machine, "");
        assert!(text.contains(line), "{name}: {text}");
        assert_eq!(text.lines().count(), TEXT_1.lines().count());
    }
}

/// node-tools.md 2.4: of several interfaces the alphabetically last one, below either directory.
#[test]
fn last_network_interface_counts() {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.write(&format!("{DEVICE}/net/hsn00/address"), "02:00:00:00:00:ff\n");
    let text = printed(&machine, "");
    assert!(text.contains("    Network device: hsn00\n    MAC: 02:00:00:00:00:ff\n"), "{text}");
    fs::remove_dir_all(machine.path().join(DEVICE).join("net")).expect("a directory");
    let without = "    Network device: \n    MAC: \n";
    assert!(printed(&machine, "").contains(without));
    assert_eq!(printed(&machine, "-m"), "\n");
    machine.write("sys/class/net/hsn3/address", "02:00:00:00:00:03\n");
    let nic = machine.path().join("sys/class/net/hsn3/device/cxi/cxi0");
    fs::create_dir_all(nic).expect("a directory");
    assert_eq!(printed(&machine, "-m"), "02:00:00:00:00:03\n");
}

/// N7: the order is by the letters of the names.
#[test]
fn n7_lists_several_nics_in_glob_order() {
    let machine = MadeUp::new(&[]);
    for number in [10, 2, 1] {
        add(&machine, CASSINI_1, number);
    }
    add(&machine, CASSINI_2, 0);
    assert_eq!(printed(&machine, "-l"), "cxi0\ncxi1\ncxi10\ncxi2\n");
    let mac = "02:00:00:00:07:ea\n";
    assert_eq!(printed(&machine, "--mac-list"), format!("02:00:00:00:00:12\n{mac}{mac}{mac}"));
    assert_eq!(printed(&machine, "-l -m -d cxi2"), mac);
    let block = |number| TEXT_1.replace("cxi0", &format!("cxi{number}"));
    let text = [TEXT_2.to_owned(), block(1), block(10), block(2)].concat();
    assert_eq!(printed(&machine, ""), text);
}

/// N1: a NIC that does not exist, and values that cannot be read, end with status 1.
#[test]
fn n1_fails_for_unknown_nic_and_for_unreadable_values() {
    let machine = MadeUp::described_by(CASSINI_1);
    for (arguments, devices) in [("-d cxi7", "cxi0"), ("-l -d cxi7", "cxi0")] {
        let output = run(&machine, arguments);
        let error = assert_status(&output, 1);
        let expected = format!("there is no cxi7: devices of this machine: {devices}\n");
        assert_eq!(error, format!("cxi_stat: error: {expected}"));
        assert_eq!(stdout(&output), "");
    }
    let output = run(&MadeUp::new(&[]), "");
    let error = assert_status(&output, 1);
    assert!(error.starts_with("cxi_stat: error: this machine has no Cassini NIC, "), "{error}");
    assert_eq!(stdout(&output), "");

    let remove = |name: &str| {
        fs::remove_file(machine.path().join(DEVICE).join(name)).expect("a file");
    };
    // Through libcxi, the description has a word for this.
    remove("fru/description");
    let text = TEXT_1.replace("200Gb 1P SA220Q", "Not Available");
    assert_eq!(printed(&machine, ""), text);
    for empty in ["", "\n"] {
        machine.write(&format!("{DEVICE}/fru/description"), empty);
        assert_eq!(printed(&machine, ""), text);
    }
    remove("port/media");
    machine.write(&format!("{DEVICE}/port/speed"), "");
    let output = run(&machine, "");
    let errors = assert_status(&output, 1);
    let expected =
        format!("Error opening /{DEVICE}/port/media\nError reading from /{DEVICE}/port/speed\n");
    assert_eq!(errors, expected);
    let text = text.replace("electrical", "").replace("BS_200G", "");
    assert_eq!(stdout(&output), text);
    // Lists do not need these files.
    assert_eq!(printed(&machine, "-l"), "cxi0\n");
}

/// N1: a file that can be opened has an error of its own, and so has one without its value.
#[test]
fn n1_fails_for_files_without_their_value() {
    let [description, mac] = ["fru/description", "net/hsn0/address"];
    for (name, content, lines) in [
        (description, None, ["200Gb 1P SA220Q", ""]),
        ("port/speed", None, ["BS_200G", ""]),
        (mac, None, ["02:00:00:00:07:ea", ""]),
        (mac, Some(""), ["02:00:00:00:07:ea", ""]),
        ("properties/nid", Some("zz\n"), ["2026 (0x007ea)", "0 (0x00000)"]),
        ("uevent", Some("DRIVER=cxi_ss1\n"), ["0000:21:00.0", ""]),
        ("properties/current_esm_link_speed", None, ["16.0 GT/s PCIe x", " x"]),
    ] {
        let machine = MadeUp::described_by(CASSINI_1);
        let path = machine.path().join(DEVICE).join(name);
        match content {
            Some(content) => fs::write(path, content).expect("a file"),
            // It can be opened, but not be read.
            None => {
                let _ = fs::remove_file(&path);
                fs::create_dir(path).expect("a directory");
            }
        }
        let lists: &[&str] = if name == mac { &["-m -r", ""] } else { &[""] };
        for arguments in lists {
            let output = run(&machine, arguments);
            let errors = assert_status(&output, 1);
            assert_eq!(errors, format!("Error reading from /{DEVICE}/{name}\n"));
            let [from, to] = lines;
            let text =
                if arguments.is_empty() { TEXT_1.replacen(from, to, 1) } else { "\n".into() };
            assert_eq!(stdout(&output), text);
        }
    }
    let machine = MadeUp::described_by(CASSINI_1);
    fs::remove_file(machine.path().join(DEVICE).join(mac)).expect("a file");
    let output = run(&machine, "--mac-list");
    assert_eq!(assert_status(&output, 1), format!("Error opening /{DEVICE}/{mac}\n"));
    fs::create_dir_all(machine.path().join("sys/class/net/hsn0")).expect("a directory");
    let output = run(&machine, "--mac-list");
    assert_eq!(assert_status(&output, 1), "Error opening /sys/class/net/hsn0/address\n");
}

/// N2: a time that cannot be counted is refused.
#[test]
fn n2_checks_the_pause() {
    let machine = MadeUp::described_by(CASSINI_1);
    for wrong in ["0", "x", "-1", "0x4", "4.5", "86401", ""] {
        let mut command = command_on(&machine, &Fabric::new(), "-r");
        command.arg(format!("--pause={wrong}"));
        let output = finish(command);
        let error = assert_status(&output, 2);
        let expected = format!(
            "cxi_stat: error: invalid value '{wrong}' for --pause: expected a decimal number from 1 \
             to 86400\n"
        );
        assert_eq!((error, stdout(&output)), (expected, String::new()));
    }
    for wrong in ["-d cxi-1", "-d eth0", "cxi0", "-x", "--rates=4"] {
        let error = assert_status(&run(&machine, wrong), 2);
        assert!(error.starts_with("cxi_stat: error: "), "{wrong}: {error}");
    }
}

/// Puts FIFOs in the place of the counters of a NIC: reading one waits for a value.
pub fn put_fifos(machine: &MadeUp, device: &str) -> Vec<PathBuf> {
    let directory = machine.path().join(format!("sys/class/cxi/{device}/device/telemetry"));
    fs::remove_dir_all(&directory).expect("a directory");
    fs::create_dir(&directory).expect("a directory");
    let put = |name: String| {
        let path = directory.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        path
    };
    link_rates::names().map(put).collect()
}

/// Writes what the counters of these NICs show, twice: of all NICs before any of them again.
/// Between, they count what `by` returns for a name, and the clock of the driver is set back.
pub fn serve(nics: Vec<Vec<PathBuf>>, by: fn(&str) -> u64) {
    thread::spawn(move || {
        for has_counted in [false, true] {
            for path in nics.iter().flatten() {
                let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
                let (value, at) = if has_counted { (100 + by(name), 0) } else { (100, 2) };
                fs::write(path, format!("{value}@170000000{at}.000000000\n")).expect("a reader");
            }
        }
    });
}

/// A text with N for each rate that is not 0: it depends on the time between the reads.
fn without_rates(text: &str) -> String {
    let line = |line: &str| {
        let (label, value) = line.rsplit_once(": ").unwrap_or((line, ""));
        let end = value.find(['/', '%']).unwrap_or(value.len());
        let is_rate = ["CW", "BER", "Pause"].iter().any(|name| label.contains(name));
        match value[..end].parse::<f64>() {
            Ok(rate) if is_rate && rate > 0.0 => format!("{label}: N{}\n", &value[end..]),
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// The lines of rates.
fn rates(
    code_words: &str,
    corrected_ber: &str,
    smallest_ber: &str,
    mode: &str,
    pauses: &str,
) -> String {
    format!(
        "    Rates:
        Good CW: {code_words}/s
        Corrected CW: {code_words}/s
        Uncorrected CW: 0.00/s
        Corrected BER: {corrected_ber}
        Uncorrected BER: <{smallest_ber}
        TX Pause state: {mode}
        RX Pause state: {mode}
{pauses}"
    )
}

fn pfc(rx: [&str; 8], tx: [&str; 8]) -> String {
    let lines = |priority: usize| {
        format!(
            "            RX Pause PCP {priority}: {}%\n            TX Pause PCP {priority}: {}%\n",
            rx[priority], tx[priority]
        )
    };
    (0..8).map(lines).collect()
}

/// A tool that read one NIC after the other would wait for the second reading of the first one.
#[test]
fn counts_rates_of_all_nics_at_the_same_time() {
    let machine = MadeUp::described_by(CASSINI_1);
    add(&machine, CASSINI_2, 1);
    machine.write("sys/class/cxi/cxi1/device/port/0/pause", "pfc/802.1qbb");
    let nics = vec![put_fifos(&machine, "cxi0"), put_fifos(&machine, "cxi1")];
    serve(nics, |name| match name {
        "hni_pcs_good_cw" => 156_250_001,
        "hni_pcs_corrected_cw" => 8,
        "hni_rx_paused_3" => 40_000_000_000,
        "hni_tx_paused_0" => 4_000_000_000,
        _ => 0,
    });
    let zero = ["0.0"; 8];
    let with = |priority: usize, text| {
        let mut percent = zero;
        percent[priority] = text;
        percent
    };
    let pauses = pfc(with(3, "N"), with(0, "N"));
    let [first, second] = ["4.706e-12", "2.353e-12"]
        .map(|smallest| rates("N", "N", smallest, "pfc/802.1qbb", &pauses));
    let expected = [TEXT_1, &first, &TEXT_2.replace("cxi0", "cxi1"), &second].concat();
    assert_eq!(without_rates(&printed(&machine, "-r -p 1")), expected);
}

/// N4: `pause_map` is no pause mode, but drivers of Cassini 2 without `port/0/pause` show no other
/// one.
#[test]
fn n4_pause_mode_of_cassini_2_is_from_the_newer_file() {
    let machine = MadeUp::described_by(CASSINI_2);
    for (mode, pauses) in [("none", String::new()), ("pfc/802.1qbb", pfc(["0.0"; 8], ["0.0"; 8]))] {
        if mode != "none" {
            machine.write(&format!("{DEVICE}/port/0/pause"), mode);
        }
        serve(vec![put_fifos(&machine, "cxi0")], |_| 0);
        let text = rates("0.00", "<2.353e-12", "2.353e-12", mode, &pauses);
        assert_eq!(printed(&machine, "-r -p 1"), format!("{TEXT_2}{text}"));
    }
}

/// N3: with IEEE 802.3x pause, its counter is shown.
#[test]
fn n3_shows_pause_of_all_priorities() {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.write(&format!("{DEVICE}/port/pause"), "global/802.3x");
    serve(vec![put_fifos(&machine, "cxi0")], |name| match name {
        "hni_rx_paused_std" => 20_000_000_000,
        _ => 0,
    });
    let pauses = "            RX Pause: N%\n            TX Pause: Not Available\n";
    let ber = "4.706e-12";
    let text = rates("0.00", &format!("<{ber}"), ber, "global/802.3x", pauses);
    assert_eq!(without_rates(&printed(&machine, "-r -p 1")), format!("{TEXT_1}{text}"));
}

/// A rate that is not known is not 0, and a BER of it not below the smallest one.
#[test]
fn counters_without_rate_are_named() {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.write(&format!("{DEVICE}/port/speed"), "XY_300G");
    let counters = put_fifos(&machine, "cxi0");
    let [missing, others @ ..] = &counters[..] else { panic!("no counters") };
    fs::remove_file(missing).expect("a FIFO");
    serve(vec![others.to_vec()], |name| if name == "hni_pcs_uncorrected_cw" { 2_000 } else { 0 });
    let output = run(&machine, "-r -p 1");
    let errors = assert_status(&output, 1);
    let warning = "Warning: encountered unexpected Link Mode XY_300G for non-zero error rate ";
    let error = "\nFailed to read counter hni_pcs_good_cw: cannot be read\n";
    assert!(errors.starts_with(warning) && errors.ends_with(error), "{errors}");
    let text = without_rates(&stdout(&output));
    for line in [
        "        Good CW: Not Available\n",
        "        Corrected BER: <4.706e-12\n",
        "        Uncorrected CW: N/s\n        Corrected BER: <4.706e-12\n",
        "        Uncorrected BER: N\n",
    ] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
}

/// N5: the text of AER ends where the file ends.
#[test]
fn n5_prints_the_files_of_aer_and_no_more() {
    let machine = MadeUp::described_by(CASSINI_1);
    let aer = "    AER CORRECTABLE:
        RxErr 0
        BadTLP 1
        TOTAL_ERR_COR 1
    AER FATAL:
        Undefined 0
        TOTAL_ERR_FATAL 0
    AER NONFATAL:
        Undefined 0
        TOTAL_ERR_NONFATAL 0
";
    assert_eq!(printed(&machine, "-a"), format!("{TEXT_1}{aer}"));
    let path = format!("{DEVICE}/aer_dev_fatal");
    fs::remove_file(machine.path().join(&path)).expect("a file");
    let output = run(&machine, "--aer");
    assert_eq!(assert_status(&output, 1), format!("Error opening /{path}\n"));
    fs::create_dir(machine.path().join(&path)).expect("a directory");
    let output = run(&machine, "--aer");
    assert_eq!(assert_status(&output, 1), format!("Error reading /{path}\n"));
    let aer = aer.replace("    AER FATAL:\n        Undefined 0\n        TOTAL_ERR_FATAL 0\n", "");
    let aer = aer.replace("    AER NON", "    AER FATAL:\n        No data\n    AER NON");
    assert_eq!(stdout(&output), format!("{TEXT_1}{aer}"));
}

/// N6: names need no counters. The harness ends a program that waits for a day.
#[test]
fn n6_lists_do_not_wait_for_rates() {
    let machine = MadeUp::described_by(CASSINI_1);
    assert_eq!(printed(&machine, "-l -r -p 86400"), "cxi0\n");
    assert_eq!(printed(&machine, "-m -r -a -p 86400"), "02:00:00:00:07:ea\n");
}

#[test]
fn shows_its_version_whatever_else_is_asked() {
    let machine = MadeUp::new(&[]);
    let own = stdout(&finish(Fabric::new().command("--version")));
    for arguments in ["-V", "--version", "-V -d bad"] {
        let version = run(&machine, arguments);
        assert_eq!(
            (assert_status(&version, 0), stdout(&version)),
            (own.clone(), "cxi_stat version: 1.5.5\n".into())
        );
    }
    assert!(printed(&machine, "-h").contains("-m, --mac-list"));
}

/// What prologs and health checks do with the tool of HPE, with the links first in `PATH`.
#[test]
fn scripts_for_the_tool_of_hpe_go_on() {
    let links = tempfile::tempdir().expect("a temporary directory");
    symlink(CXIDIAG, links.path().join("cxi_stat")).expect("a link");
    let fabric = Fabric::new();
    let script = |machine: Option<&MadeUp>, script: &str| {
        let path = std::env::var("PATH").expect("a path");
        let mut command = fabric.command_of(Path::new("bash"), &["-c", script]);
        command.env("PATH", format!("{}:{path}", links.path().display()));
        command.env_remove("CXIDIAG_NICS");
        match machine {
            Some(machine) => finish(machine.seen_by(command)),
            None => {
                let nothing = MadeUp::new(&[]);
                command.env("CXIDIAG_NICS", "2");
                finish(nothing.seen_by(command))
            }
        }
    };
    let is_up = "set -o pipefail; cxi_stat | grep -q 'Link state: up'";
    let all_up = "for nic in $(cxi_stat -l); do \
                  cxi_stat -d $nic | grep -q 'Link state: up' || { echo $nic; exit 1; }; done";
    let machine = MadeUp::described_by(CASSINI_1);
    add(&machine, CASSINI_1, 1);
    assert_success(&script(Some(&machine), is_up));
    assert_success(&script(Some(&machine), all_up));
    machine.write("sys/class/cxi/cxi1/device/port/link", "down");
    let output = script(Some(&machine), all_up);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), "cxi1\n".into()));
    let version = "cxi_stat | awk '/FW Version/ {print $3}' | sort -u";
    assert_eq!(stdout(&script(Some(&machine), version)), "1.5.53\n");
    // A node that has lost its NICs shows no software NICs.
    assert_eq!(script(Some(&MadeUp::new(&[])), is_up).status.code(), Some(1));
    // Software NICs that a variable has chosen.
    assert_success(&script(None, is_up));
    assert_success(&script(None, all_up));
    assert_eq!(stdout(&script(None, "cxi_stat -l")), "soft0\nsoft1\n");
}

/// The files of a software NIC have what the text needs.
#[test]
fn shows_a_software_nic() {
    let text = printed(&MadeUp::new(&[]), "-d soft1 -a");
    for line in [
        "Device: soft1",
        "    Description: software NIC",
        "    FW Version: -",
        "    Network device: hsn-soft1",
        "    NID: 19 (0x00013)",
        "        Link layer retry: running",
        "        Link state: up",
        "    AER CORRECTABLE:",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
