//! `cxidiag link`: the links of NICs, on machines described by files and on software NICs.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::Output;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cxi_stat::{put_fifos, serve};
use crate::harness::machine::MadeUp;
use crate::harness::terminal::on_terminal;
use crate::harness::{
    CXIDIAG, Command, Fabric, assert_status, assert_success, finish, metrics, schema, stderr,
    stdout,
};

const CASSINI_1: &str = include_str!("../fixtures/nics/cassini1");
const CASSINI_2: &str = include_str!("../fixtures/nics/cassini2");

/// A document that matches its schema, which allows no other fields.
#[track_caller]
fn document(text: &str) -> Value {
    schema::document(include_str!("../../docs/link.schema.json"), text)
}

fn command_on(machine: &MadeUp, fabric: &Fabric, arguments: &str) -> Command {
    let command = fabric.command(&format!("link {arguments}"));
    let mut command = machine.seen_by(command);
    for variable in ["CXIDIAG_NICS", "CXIDIAG_NIDS", "CXIDIAG_TOPOLOGY"] {
        command.env_remove(variable);
    }
    command
}

fn link(machine: &MadeUp, arguments: &str) -> Output {
    link_with(machine, arguments, "CXIDIAG_NICS", "")
}

/// `link` with a variable.
fn link_with(machine: &MadeUp, arguments: &str, variable: &str, value: &str) -> Output {
    let fabric = Fabric::new();
    let mut command = command_on(machine, &fabric, arguments);
    command.env(variable, value);
    finish(command)
}

/// `link` of software NICs with planted faults.
fn software(arguments: &str, faults: &str) -> Output {
    link_with(&MadeUp::new(&[]), arguments, "CXIDIAG_FAULTS", faults)
}

/// A Cassini 1 and a Cassini 2.
fn two_nics() -> MadeUp {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.describe(&CASSINI_2.replace("cxi0", "cxi1"));
    machine
}

/// The words of a text, of which a narrow table may break the lines.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn shows_a_row_for_each_nic() {
    let machine = two_nics();
    let output = link(&machine, "--quick");
    assert_success(&output);
    let expected = "\
NIC   State     Speed  BER corr.  BER uncorr.  Health
cxi0  up     200 Gb/s          -            -  good (errors not counted)
cxi1  up     400 Gb/s          -            -  good (errors not counted)
";
    assert_eq!(stdout(&output), expected);

    let file = |device, name| format!("sys/class/cxi/{device}/device/{name}");
    machine.write(&file("cxi0", "port/link"), "down");
    machine.write(&file("cxi0", "current_link_width"), "8\n");
    machine.write(&file("cxi1", "hwmon/hwmon3/temp1_input"), "88000\n");
    let output = link(&machine, "-d cxi1 cxi0 --quick");
    assert_eq!(assert_status(&output, 3), "");
    let text = stdout(&output);
    let table = words_of(text.split("\n\n").next().expect("a table"));
    for row in [
        "cxi1 up 400 Gb/s - - SUSPECT asic-temperature: ASIC temperature 88 C, expected <85 C \
         (bad: 90 C) cxi0 down ",
        " BAD link-down: link state down, expected up BAD pcie-width: PCIe width x8, expected x16",
    ] {
        assert!(table.contains(row), "{row}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let what = "\nlink-down cxi0: check the cable and the switch port";
    assert!(text.contains(what), "{text}");
}

/// `link` and `check` have the same limits: the same verdict on each item.
#[test]
fn agrees_with_check() {
    let machine = two_nics();
    for (name, content) in [
        ("port/media", "unknown"),
        ("port/loopback", "internal"),
        ("aer_dev_correctable", "TOTAL_ERR_COR 12\n"),
        ("hwmon/hwmon3/temp2_input", "75000\n"),
        ("hwmon/hwmon3/power1_label", "0.85V S0 Power\n"),
        ("hwmon/hwmon3/power1_input", "12500000\n"),
    ] {
        machine.write(&format!("sys/class/cxi/cxi0/device/{name}"), content);
    }
    let read = |command: &str| -> Value {
        let command = Fabric::new().command(&format!("{command} cxi0 cxi1 --quick --json"));
        serde_json::from_str(&stdout(&finish(machine.seen_by(command)))).expect("a document")
    };
    let (check, link) = (read("check"), read("link"));
    assert_eq!((&link["exit_status"], &check["exit_status"]), (&json!(3), &json!(3)));
    for (device, checked) in [0, 1].map(|nic| (&link["devices"][nic], &check["devices"][nic])) {
        let items = device["items"].as_array().expect("items");
        assert!(items.len() > 20, "{device:#}");
        let power = items.iter().find(|item| item["code"] == "vdd-power").expect("a power");
        let number = if device["name"] == "cxi0" { json!(12.5) } else { json!(null) };
        assert_eq!(power["number"], number);
        let checked = checked["items"].as_array().expect("items");
        for item in items {
            assert!(checked.contains(item), "{item:#}");
        }
    }
}

#[test]
fn finds_expected_speed_in_option_and_site() {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.write("sys/class/cxi/cxi0/device/port/speed", "BJ_100G");
    assert_status(&link(&machine, "--quick"), 3);
    assert_success(&link(&machine, "--quick --link-speed=100"));
    machine.write("etc/cxidiag/check.conf", "link-speed=100\n");
    assert_success(&link(&machine, "--quick"));
}

#[test]
fn block_has_all_that_is_known() {
    let machine = MadeUp::described_by(CASSINI_2);
    let output = link(&machine, "--quick --verbose");
    assert_success(&output);
    let text = stdout(&output);
    for line in [
        "Device           : cxi0",
        "Description      : HPE Slingshot 400Gb 1P QSFP112",
        "Network Device   : hsn0",
        "NIC Address      : 0x12",
        "link lanes         all                  all                good",
        "Not available (this driver does not show it): link pause",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("Code words, and the priority"), "{text}");
}

/// Eight NICs are counted in one time, not one after the other.
#[test]
fn counts_rates_of_eight_software_nics() {
    let (machine, fabric) = (MadeUp::new(&[]), Fabric::new());
    let mut command = command_on(&machine, &fabric, "--rates=300ms --json --verbose");
    command.env("CXIDIAG_NICS", "8");
    command.env("CXIDIAG_FAULTS", "nic=3,corrected=1000,tx-paused=0.25,rx-paused=0.5");
    let output = finish(command);
    assert_success(&output);
    let document = document(&stdout(&output));
    let links = document["links"].as_array().expect("links");
    assert_eq!(links.len(), 8);
    let number = |link: &Value, name: &str| link["rates"][name].as_f64().expect("a number");
    for (index, link) in links.iter().enumerate() {
        assert_eq!(link["name"], format!("soft{index}"));
        let good = number(link, "good_code_words_per_s");
        assert!((3.9e7..3.92e7).contains(&good), "{link:#}");
        let corrected = number(link, "corrected_code_words_per_s");
        let paused = ["rx_paused_ratio", "tx_paused_ratio"].map(|name| &link["rates"][name]);
        let most = paused.map(|ratios| {
            let ratios = ratios.as_array().expect("ratios").iter();
            ratios.filter_map(Value::as_f64).fold(0.0, f64::max)
        });
        if index == 3 {
            assert!((900.0..1100.0).contains(&corrected), "{link:#}");
            assert!(most[0] > 0.4 && most[1] > 0.2, "{link:#}");
        } else {
            assert_eq!((corrected, most), (0.0, [0.0, 0.0]), "{link:#}");
        }
    }
    // Together they take less than each for itself would.
    let elapsed = document["elapsed_ms"].as_u64().expect("a time");
    let sum: f64 = links.iter().map(|link| 1000.0 * number(link, "seconds")).sum();
    assert!((elapsed as f64) < sum, "{elapsed} {sum}");
}

#[test]
fn rehearses_verdicts_on_faults_of_a_software_nic() {
    for (faults, status, words) in [
        ("down=0ns", 3, "BAD link-down: link state down, expected up; software NIC"),
        ("uncorrected=100", 3, "BAD fec-uncorrected: uncorrected errors BER "),
        ("corrected=1000", 0, " good; software NIC "),
        ("pcie-width=8", 3, "BAD pcie-width: PCIe width x8"),
    ] {
        let output = software("soft0 --rates=200ms", faults);
        assert_status(&output, status);
        let text = stdout(&output);
        assert!(words_of(&text).contains(words), "{faults}: {text}");
        // A link that is down has no bit error rate.
        let has_none = text.contains("  down   200 Gb/s          -            -  ");
        assert_eq!(has_none, faults == "down=0ns", "{text}");
        assert!(text.contains("\nCode words, and the priority that was paused most:\n"), "{text}");
    }
}

/// A machine without hardware shows software NICs, but is not good, unless the user wants them.
#[test]
fn machine_without_hardware_is_undecided() {
    let machine = MadeUp::new(&[]);
    let output = link(&machine, "--quick");
    let error = assert_status(&output, 4);
    let expected = "UNDECIDED untested host: no Cassini NIC on this machine";
    assert_eq!(error, format!("cxidiag link: {expected}\n"));
    let text = stdout(&output);
    let heading = "No Cassini hardware on this machine; software NICs:\n\nNIC ";
    assert!(text.starts_with(heading), "{text}");
    assert!(text.contains("\nsoft3  up "), "{text}");
    let output = link(&machine, "--quick --json");
    assert_status(&output, 4);
    let document = document(&stdout(&output));
    assert_eq!((&document["exit_status"], &document["summary"]), (&json!(4), &json!(expected)));
    for (arguments, count) in [("--quick", "2"), ("soft0 --quick", "")] {
        let output = link_with(&machine, arguments, "CXIDIAG_NICS", count);
        assert_success(&output);
        assert!(stdout(&output).starts_with("NIC "));
    }
}

#[test]
fn quiet_prints_the_verdict_only() {
    let machine = two_nics();
    let output = link(&machine, "-q --quick");
    assert_success(&output);
    assert_eq!(stdout(&output), "OK cxi0 cxi1\n");
    let output = link(&machine, "-q cxi3 --quick");
    assert_eq!(assert_status(&output, 3), "");
    let text = stdout(&output);
    assert!(text.starts_with("FAIL nic-absent cxi3") && text.lines().count() == 1, "{text}");
}

/// Nothing is known of a link whose state no file shows: it is not good.
#[test]
fn unknown_state_of_a_link_is_undecided() {
    let machine = MadeUp::described_by(CASSINI_1);
    let remove = |name: &str| {
        let path = machine.path().join("sys/class/cxi/cxi0/device").join(name);
        fs::remove_file(path).expect("a file");
    };
    remove("port/link");
    remove("properties/link");
    let output = link(&machine, "--quick");
    assert_eq!(assert_status(&output, 4), "");
    let words = "unknown: the driver does not show the link";
    assert!(words_of(&stdout(&output)).ends_with(words), "{}", stdout(&output));
    machine.write("sys/class/cxi/cxi0/device/port/media", "unknown");
    let output = link(&machine, "--quick");
    assert_status(&output, 4);
    assert!(stdout(&output).contains("SUSPECT media-unknown: "), "{}", stdout(&output));
    assert!(words_of(&stdout(&output)).contains(words), "{}", stdout(&output));
    let output = link(&machine, "--quick --json");
    let summary = "UNDECIDED untested cxi0: the driver does not show the link";
    assert_eq!(assert_status(&output, 4), format!("cxidiag link: {summary}\n"));
    let document = document(&stdout(&output));
    assert_eq!((&document["exit_status"], &document["summary"]), (&json!(4), &json!(summary)));
}

#[test]
fn missing_nic_and_file_without_answer_decide() {
    let machine = MadeUp::described_by(CASSINI_1);
    let output = link(&machine, "cxi0 cxi3 --quick");
    assert_status(&output, 3);
    let words = "BAD nic-absent: NIC absent, expected present; devices of this machine: cxi0";
    assert!(words_of(&stdout(&output)).contains(words), "{}", stdout(&output));
    let path = machine.path().join("sys/class/cxi/cxi0/device/port/link");
    fs::remove_file(&path).expect("a file");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let output = link_with(&machine, "--quick", "CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5");
    assert_status(&output, 4);
    let words = "not tested: /sys/class/cxi/cxi0/device/port/link: unreadable: no answer";
    assert!(words_of(&stdout(&output)).contains(words), "{}", stdout(&output));
}

#[test]
fn writes_metrics_and_documents_that_compare_reads() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name);
    let [prom, open] = ["link.prom", "link.txt"].map(file);
    for (path, faults, status) in [(&prom, "", 0), (&open, "down=0ns", 3)] {
        let json = path.with_extension("json");
        let arguments = format!(
            "soft0 --rates=200ms --json={} --openmetrics={}",
            json.display(),
            path.display()
        );
        assert_status(&software(&arguments, faults), status);
        document(&fs::read_to_string(json).expect("a document"));
        fs::rename(path.with_extension("json"), file(if faults.is_empty() { "a" } else { "b" }))
            .expect("a file");
    }
    metrics::assert_accepted(&prom, &open, 13);
    let text = fs::read_to_string(&prom).expect("metrics");
    for start in [
        "cxidiag_build_info{command=\"link\",",
        "cxidiag_check_exit_status 0\n",
        "cxidiag_check_ok{device=\"soft0\",check=\"link-down\"} 1\n",
        "cxidiag_link_code_words_per_second{device=\"soft0\",kind=\"good\"} 39",
        "cxidiag_link_paused_ratio{device=\"soft0\",direction=\"sent\",pcp=\"7\"} 0\n",
    ] {
        assert!(text.contains(start), "{start}: {text}");
    }
    let [a, b] = ["a", "b"].map(|name| file(name).display().to_string());
    let compared = Fabric::new().run(&["compare", &a, &b]);
    assert_status(&compared, 3);
    assert!(stdout(&compared).contains("link-down"), "{}", stdout(&compared) + &stderr(&compared));
}

#[test]
fn watch_shows_links_until_it_is_stopped() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let metrics = directory.path().join("link.prom");
    let arguments = format!("soft0 --watch=100ms --openmetrics={}", metrics.display());
    let machine = MadeUp::new(&[]);
    let mut process = command_on(&machine, &fabric, &arguments).spawn().expect("a start");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut rows = 0;
    while rows < 3 {
        let line = lines.next().expect("a line").expect("text");
        assert!(!line.contains('\u{1b}'), "no terminal: {line:?}");
        rows += u32::from(line.starts_with("soft0  up "));
    }
    kill_process(Pid::from_raw(process.id() as i32).expect("a process"), Signal::INT)
        .expect("a signal");
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let output = process.finish();
    assert_success(&output);
    assert_eq!(stderr(&output), "", "{rest:?}");
    let text = fs::read_to_string(metrics).expect("metrics");
    assert!(text.contains("cxidiag_check_exit_status 0\n"), "{text}");
}

#[test]
fn watch_clears_a_terminal() {
    let link = format!("exec env TERM=xterm {CXIDIAG} link soft0 --watch=60m");
    let fabric = Fabric::new();
    let Some(command) = on_terminal(&fabric, "interrupt", "soft0", &link) else {
        return;
    };
    let output = finish(command);
    assert_success(&output);
    assert!(stdout(&output).starts_with("\u{1b}[H\u{1b}[2JNIC "), "{:?}", stdout(&output));
}

/// The window that Ctrl-C cuts short is too short for a verdict: what the last report says counts.
#[test]
fn watch_ends_with_the_status_of_the_last_whole_report() {
    let machine = MadeUp::described_by(CASSINI_1);
    let fabric = Fabric::new();
    let mut process =
        command_on(&machine, &fabric, "--rates=100ms --watch=60m").spawn().expect("a start");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    while !line().starts_with("cxi0  up ") {}
    machine.write("sys/class/cxi/cxi0/device/port/link", "down");
    // The blank line ends the report.
    while !line().is_empty() {}
    while !line().is_empty() {}
    kill_process(Pid::from_raw(process.id() as i32).expect("a process"), Signal::INT)
        .expect("a signal");
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert_eq!(rest, [""; 0]);
    assert_success(&process.finish());
}

/// A file that answers again is not unreadable any more.
#[test]
fn watch_forgets_what_could_not_be_read_before() {
    let machine = MadeUp::described_by(CASSINI_1);
    let path = machine.path().join("sys/class/cxi/cxi0/device/port/link");
    fs::remove_file(&path).expect("a file");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let fabric = Fabric::new();
    let mut command = command_on(&machine, &fabric, "--rates=100ms --watch=100ms");
    command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5");
    let mut process = command.spawn().expect("a start");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut wait_for =
        |words: &str| while !lines.next().expect("a line").expect("text").contains(words) {};
    let unreadable = "  not tested:";
    for _ in 0..4 {
        wait_for(unreadable);
    }
    // One thread waits for the file. Another one may read a file at this moment, and further ones
    // may be about to end.
    let count = || {
        let names = fs::read_dir(format!("/proc/{}/task", process.id())).expect("a process");
        let names =
            names.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim() == "reading").count()
    };
    while !(1..=2).contains(&count()) {
        std::thread::yield_now();
    }
    // The reading that waits ends, and others find the file.
    let waiting = OpenOptions::new().write(true).open(&path).expect("a reader");
    let file = path.with_extension("new");
    fs::write(&file, "up\n").expect("a file");
    fs::rename(&file, &path).expect("a file");
    drop(waiting);
    wait_for("cxi0  up ");
    wait_for("cxi0  up ");
    kill_process(Pid::from_raw(process.id() as i32).expect("a process"), Signal::INT)
        .expect("a signal");
    lines.for_each(drop);
    assert_success(&process.finish());
}

/// A reading of a counter serves a row and its verdict: a second one would wait for ever here. What
/// is not known of bit errors has no limit.
#[test]
fn counts_errors_once_for_row_and_verdict() {
    let machine = MadeUp::described_by(CASSINI_1);
    for (mode, uncorrected, smallest) in [("BS_200G", "  <", true), ("XY_300G", "  -  ", false)] {
        machine.write("sys/class/cxi/cxi0/device/port/speed", mode);
        let counters = put_fifos(&machine, "cxi0");
        serve(vec![counters], |name| if name == "hni_pcs_corrected_cw" { 8 } else { 0 });
        let json = machine.path().join("link.json");
        let output = link(&machine, &format!("--rates=100ms --json={}", json.display()));
        let text = stdout(&output);
        let document = document(&fs::read_to_string(json).expect("a document"));
        let rates = &document["links"][0]["rates"];
        let per_s = rates["corrected_code_words_per_s"].as_f64().expect("a rate");
        let ratio = per_s / 212.5e9;
        assert!(text.contains(&format!("  {ratio:.1e}  ")), "{ratio}: {text}");
        let items = document["devices"][0]["items"].as_array().expect("items");
        let item = items.iter().find(|item| item["code"] == "fec-corrected").expect("an item");
        assert_eq!(item["value"], format!("BER {ratio:.3e} ({per_s:.1}/s)"));
        assert_eq!(rates["smallest_bit_error_ratio"].is_null(), !smallest, "{rates:#}");
        assert!(text.contains(uncorrected), "{text}");
    }
    fs::remove_dir_all(machine.path().join("sys/class/cxi/cxi0/device/telemetry"))
        .expect("a directory");
    let document = document(&stdout(&link(&machine, "--rates=100ms --json")));
    let rates = &document["links"][0]["rates"];
    assert!(rates["smallest_bit_error_ratio"].is_null(), "{rates:#}");
}

#[test]
fn refuses_what_makes_no_sense() {
    for (arguments, words) in [
        ("eth0", "invalid device 'eth0': expected cxiN"),
        ("-d soft100", "invalid value 'soft100' for --device: expected cxiN"),
        ("--rates=1ms", "invalid value '1ms' for --rates: expected a time from 100ms to 60m"),
        ("--watch=x", "invalid value 'x' for --watch: expected a time from 100ms to 60m"),
        ("--quick --rates", "--quick: not allowed with --rates, which counts"),
        ("--quick --watch", "--quick: not allowed with --watch, which counts"),
        ("--watch --json=/tmp/x", "--json: not allowed with --watch, which has many reports"),
        ("--link-speed=300", "invalid value '300' for --link-speed: expected 50, 100, 200 or 400"),
        ("--openmetrics-format=openmetrics", "--openmetrics-format needs --openmetrics=FILE"),
    ] {
        let error = assert_status(&link(&MadeUp::described_by(CASSINI_1), arguments), 2);
        assert!(error.contains(words), "{arguments}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
