//! The link model and the faults of the software NIC, as the tools see them.

use std::process::Output;

use crate::harness::legacy::all;
use crate::harness::{
    Fabric, Server, assert_status, assert_success, finish, measures_bandwidth, stdout, tools,
};
use facts::advice::{EXPLANATIONS, What};

const NO_GAP: &str = "-n 20 --latency-gap 0";

/// Runs both sides of `tool` in one command with an environment variable.
fn run(tool: &str, (variable, value): (&str, &str), options: &str) -> Output {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!("{tool} --loopback -d soft0 {options}"));
    command.env(variable, value);
    let output = finish(command);
    fabric.assert_nothing_left();
    output
}

/// Runs both sides with a fault that ends the run, and returns the error.
#[track_caller]
fn error_of(tool: &str, faults: &str, options: &str) -> String {
    assert_status(&run(tool, ("CXIDIAG_FAULTS", faults), options), 1)
}

/// The columns of the only row.
fn row(output: &Output) -> Vec<f64> {
    assert_success(output);
    let text = stdout(output);
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let row = text.lines().find(is_row).expect("a row");
    let columns = row.split_whitespace();
    columns.map(|column| column.parse().expect("a number")).collect()
}

/// The model adds its latency to the cost of NIC and tool.
#[test]
fn measures_at_least_the_latency_of_the_link() {
    let link = ("CXIDIAG_LINK", "latency=2000ns");
    for (tool, trips) in
        [("write-lat", 2.0), ("read-lat", 2.0), ("atomic-lat", 2.0), ("send-lat", 1.0)]
    {
        let columns = row(&run(tool, link, "-n 50 --latency-gap 0"));
        let [.., min, max, mean, _] = columns[..] else { panic!("{columns:?}") };
        // The column has two decimals.
        assert!(min >= 2.0 * trips - 0.01, "{tool}: {columns:?}");
        assert!(min <= mean && mean <= max, "{tool}: {columns:?}");
    }
}

#[test]
fn measures_at_most_the_bandwidth_of_the_link() {
    let link = ("CXIDIAG_LINK", "bandwidth=200MB/s");
    let columns = row(&run("send-bw", link, "-n 3 -l 64 -s 32768"));
    // A packet of 2048 bytes takes 2112 on the link; each direction has a link.
    assert!(columns[2] <= 200.0 * 2048.0 / 2112.0 + 0.01, "{columns:?}");
}

/// An operation in the middle of a run fails with each return code.
#[test]
fn names_and_explains_each_return_code() {
    let hints = EXPLANATIONS.iter().flat_map(|row| match row.what {
        What::Code(names) => names.iter().map(|name| (*name, row.hint())).collect(),
        _ => Vec::new(),
    });
    all(&hints.collect::<Vec<_>>(), |_, (name, hint)| {
        let error = error_of("write-lat", &format!("error={name}@5"), NO_GAP);
        for words in [format!(" reported {name} (return code "), format!("\nhint: {hint}\n")] {
            assert!(error.contains(&words), "{error}");
        }
    });
}

#[test]
fn prints_the_number_of_an_unknown_return_code() {
    let error = error_of("write-lat", "error=63@5", NO_GAP);
    assert!(error.contains("the NIC reported 63 "), "{error}");
    assert!(!error.contains("hint:"), "{error}");
}

#[test]
fn repeats_random_faults_with_the_same_seed() {
    let fails = |seed| {
        let faults = format!("seed={seed},error=NO_SPACE:0.03");
        let output = run("write-lat", ("CXIDIAG_FAULTS", &faults), "-n 10 --latency-gap 0");
        output.status.code() == Some(1)
    };
    let all = || (1..9).map(fails).collect::<Vec<_>>();
    let first = all();
    assert_eq!(all(), first);
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
}

/// The server's NIC fails: it loses a get of a rendezvous message, or its answer for good.
#[test]
fn ends_both_sides_if_the_nic_of_the_server_fails() {
    for (tool, fault, options) in [
        ("send-lat", "PT_DISABLED@1", "--rdzv"),
        ("send-bw", "PT_DISABLED@1", "--rdzv"),
        ("send-lat", "UNDELIVERABLE@3", ""),
    ] {
        let fabric = Fabric::new();
        let mut server = fabric.command(&format!("{tool} -p 0 -d soft0"));
        server.env("CXIDIAG_FAULTS", format!("error={fault}"));
        let server = Server::start(server);
        let client = fabric.client(tool, &server, &format!("-d soft1 -n 20 {options}"));
        let error = assert_status(&client, 1);
        assert!(error.contains("closed the connection"), "{error}");
        let error = assert_status(&server.finish(), 1);
        let (code, _) = fault.split_once('@').expect("a code");
        assert!(error.contains(code), "{tool}: {error}");
        fabric.assert_nothing_left();
    }
}

#[test]
fn ends_each_tool_if_an_operation_or_the_link_fails() {
    all(&tools().collect::<Vec<_>>(), |_, tool| {
        for (fault, options, code) in [
            ("error=PT_DISABLED@3", "-n 20", "PT_DISABLED"),
            ("down=0.2s", "-D 20", "UNDELIVERABLE"),
        ] {
            let error = error_of(tool, fault, options);
            assert!(error.contains(code), "{tool}: {error}");
            let (_, place) = error.split_once(" bytes, ").expect(&error);
            assert_eq!(place.matches("NIC 0x").count(), 2, "{tool}: {error}");
        }
    });
}

#[test]
fn names_size_iteration_and_nics_in_errors_of_the_nic() {
    let options = "-n 20 -s 8:16 --warmup 0 --json";
    let output = run("write-lat", ("CXIDIAG_FAULTS", "error=PT_DISABLED@23"), options);
    let error = assert_status(&output, 1);
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let message = run["error"]["message"].as_str().expect("a message");
    let host = run["host"]["name"].as_str().expect("a name");
    let nic = |side: &str| {
        let entry = &run["addresses"][side];
        let (nic, pid) = (entry["nic"].as_u64().expect("a NIC"), &entry["pid"]);
        format!("NIC {nic:#x} PID {pid} on {host}")
    };
    let place =
        format!("; at 16 bytes, iteration 2, between {} and {}", nic("local"), nic("remote"));
    assert!(message.ends_with(&place), "{message}");
    assert!(error.contains(message), "{error}");
}

#[test]
fn refuses_to_run_on_a_link_that_is_down() {
    let error = error_of("write-lat", "down=0s", "");
    assert!(error.contains("the link of soft0 is down\nhint: "), "{error}");
    let error = error_of("write-lat", "down=0s", "--ignore-link");
    assert!(error.contains("warning: the link of soft0 is down\n"), "{error}");
    assert!(error.contains("UNDELIVERABLE"), "{error}");
}

#[test]
fn measures_with_late_and_repeated_packets() {
    for fault in ["delay=0.5:20us", "loss=0.01,retry=20us,seed=5"] {
        for tool in tools() {
            let options = match tool {
                "atomic-bw" => "-n 2",
                tool if measures_bandwidth(tool) => "-n 4",
                _ => NO_GAP,
            };
            assert_success(&run(tool, ("CXIDIAG_FAULTS", fault), options));
        }
    }
}

#[test]
fn rejects_invalid_variables_before_anything_starts() {
    for (variable, value, line) in [
        ("LINK", "latency=fast", "CXIDIAG_LINK: 'latency=fast': expected "),
        ("LINK", "latency=1us,jitter=half", "CXIDIAG_LINK: 'jitter=half': expected "),
        ("FAULTS", "loss=2", "CXIDIAG_FAULTS: 'loss=2': expected "),
        ("LINK", "latency=1us,latency=2us", "CXIDIAG_LINK: 'latency=2us': latency is given twice"),
        ("NICS", "many", "CXIDIAG_NICS=many: expected "),
        ("NIDS", "0", "CXIDIAG_NIDS=0: expected "),
    ] {
        let output = run("write-lat", (&format!("CXIDIAG_{variable}"), value), "");
        let error = assert_status(&output, 2);
        let start = format!("cxidiag write-lat: error: {line}");
        assert!(error.starts_with(&start), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(stdout(&output), "");
    }
}
