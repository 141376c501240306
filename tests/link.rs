//! The link model and the faults of the software NIC, as the tools meet them.

mod harness;

use cxidiag::advice::{EXPLANATIONS, What};
use harness::{Fabric, Server, assert_success, stderr, stdout, tools};

/// A run of `tool` in one command, with an environment variable.
fn run(tool: &str, (variable, value): (&str, &str), options: &[&str]) -> std::process::Output {
    let fabric = Fabric::new();
    let args = [&[tool, "--loopback", "-d", "soft0"], options].concat();
    let output = fabric
        .command(&args)
        .env(variable, value)
        .output()
        .expect("cxidiag starts");
    fabric.assert_nothing_left();
    output
}

/// The columns of the only row.
fn row(output: &std::process::Output) -> Vec<f64> {
    let text = stdout(output);
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let row = text
        .lines()
        .find(is_row)
        .unwrap_or_else(|| panic!("no row in {text}"));
    let columns = row.split_whitespace();
    columns
        .map(|column| column.parse().expect("a number"))
        .collect()
}

/// What the model asks for is the least that is measured; how much is on top is the cost of NIC and tool.
#[test]
fn latencies_contain_that_of_the_link() {
    let link = ("CXIDIAG_LINK", "latency=2000ns");
    for (tool, trips) in [
        ("write-lat", 2.0),
        ("read-lat", 2.0),
        ("atomic-lat", 2.0),
        ("send-lat", 1.0),
    ] {
        let output = run(tool, link, &["-n", "50", "--latency-gap", "0"]);
        assert_success(&output);
        let columns = row(&output);
        let [.., min, max, mean, _] = columns[..] else {
            panic!("{columns:?}")
        };
        // A tenth of a microsecond is what is not printed, and not rounded away.
        assert!(min >= 2.0 * trips - 0.01, "{tool}: {columns:?}");
        assert!(min <= mean && mean <= max, "{tool}: {columns:?}");
    }
}

#[test]
fn bandwidth_is_that_of_the_link_at_most() {
    let link = ("CXIDIAG_LINK", "bandwidth=200MB/s");
    let output = run("send-bw", link, &["-n", "3", "-l", "64", "-s", "32768"]);
    assert_success(&output);
    let columns = row(&output);
    // A packet of 2048 bytes takes 2112 on the link; both directions have a link of their own.
    assert!(columns[2] <= 200.0 * 2048.0 / 2112.0 + 0.01, "{columns:?}");
}

/// Each return code on an operation in the middle of a run reaches the user by name, with the explanation of the table.
#[test]
fn every_return_code_is_told_and_explained() {
    for row in EXPLANATIONS {
        let What::Code(names) = row.what else {
            continue;
        };
        for name in names {
            let fault = format!("error={name}@5");
            let output = run(
                "write-lat",
                ("CXIDIAG_FAULTS", &fault),
                &["-n", "20", "--latency-gap", "0"],
            );
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(
                said.contains(&format!(" reported {name} (return code ")),
                "{said}"
            );
            assert!(
                said.contains(&format!("\nhint: {}\n", row.hint())),
                "{said}"
            );
        }
    }
}

/// A code that the specification does not know is told by its number, and explained by nobody.
#[test]
fn a_return_code_without_a_name_is_told_by_its_number() {
    let output = run("write-lat", ("CXIDIAG_FAULTS", "error=63@5"), &["-n", "20"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the NIC reported 63 "), "{said}");
    assert!(!said.contains("hint:"), "{said}");
}

#[test]
fn the_same_seed_fails_the_same_runs() {
    let fails = |seed| {
        let faults = format!("seed={seed},error=NO_SPACE:0.03");
        let options = ["-n", "10", "--latency-gap", "0"];
        let output = run("write-lat", ("CXIDIAG_FAULTS", &faults), &options);
        output.status.code() == Some(1)
    };
    let all = || (1..9).map(fails).collect::<Vec<_>>();
    let first = all();
    assert_eq!(all(), first);
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
}

/// The NIC of the server makes gets, and one of them fails. Both sides come to an end.
#[test]
fn a_rendezvous_whose_get_fails_ends_both_sides() {
    for tool in ["send-lat", "send-bw"] {
        let fabric = Fabric::new();
        let mut server = fabric.command(&[tool, "-p", "0", "-d", "soft0"]);
        server.env("CXIDIAG_FAULTS", "error=PT_DISABLED@1");
        let server = harness::Server::start(server);
        let client = fabric.client(tool, &server, &["-d", "soft1", "--rdzv", "-n", "20"]);
        assert_eq!(client.status.code(), Some(1), "{}", stderr(&client));
        let server = server.finish();
        let said = stderr(&server);
        assert_eq!(server.status.code(), Some(1), "{said}");
        assert!(said.contains("PT_DISABLED"), "{tool}: {said}");
        fabric.assert_nothing_left();
    }
}

#[test]
fn every_tool_ends_with_the_failure_of_an_operation() {
    for tool in tools() {
        let output = run(
            tool,
            ("CXIDIAG_FAULTS", "error=PT_DISABLED@3"),
            &["-n", "20"],
        );
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{tool}: {said}");
        assert!(said.contains("PT_DISABLED"), "{tool}: {said}");
    }
}

#[test]
fn a_link_that_goes_down_ends_every_tool() {
    for tool in tools() {
        let output = run(tool, ("CXIDIAG_FAULTS", "down=0.2s"), &["-D", "20"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{tool}: {said}");
        assert!(said.contains("UNDELIVERABLE"), "{tool}: {said}");
    }
}

/// An answer that is lost for good is reported to who sent it, who waits for the next round trip by then.
#[test]
fn an_answer_that_is_lost_ends_both_sides() {
    let fabric = Fabric::new();
    let mut server = fabric.command(&["send-lat", "-d", "soft0", "-p", "0"]);
    server.env("CXIDIAG_FAULTS", "error=UNDELIVERABLE@3");
    let server = Server::start(server);
    let client = fabric.client("send-lat", &server, &["-d", "soft1", "-n", "20"]);
    assert_eq!(client.status.code(), Some(1), "{client:?}");
    let said = stderr(&client);
    assert!(said.contains("closed the connection"), "{said}");
    let server = server.finish();
    assert_eq!(server.status.code(), Some(1), "{server:?}");
    assert!(stderr(&server).contains("UNDELIVERABLE"), "{server:?}");
}

#[test]
fn a_link_that_is_down_is_said_before_the_run() {
    let output = run("write-lat", ("CXIDIAG_FAULTS", "down=0s"), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the link of soft0 is down\nhint: "), "{said}");
}

/// Late packets and repeated ones are slow, and no failure.
#[test]
fn late_and_lost_packets_arrive() {
    for fault in ["delay=0.5:20us", "loss=0.01,retry=20us,seed=5"] {
        for tool in tools() {
            let options = ["-n", "20", "--latency-gap", "0"];
            let options = if tool == "send-bw" {
                &options[..2]
            } else {
                &options[..]
            };
            assert_success(&run(tool, ("CXIDIAG_FAULTS", fault), options));
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    for (variable, value, line) in [
        (
            "CXIDIAG_LINK",
            "latency=fast",
            "CXIDIAG_LINK: 'latency=fast': expected ",
        ),
        (
            "CXIDIAG_FAULTS",
            "loss=2",
            "CXIDIAG_FAULTS: 'loss=2': expected ",
        ),
        (
            "CXIDIAG_LINK",
            "latency=1us,latency=2us",
            "CXIDIAG_LINK: 'latency=2us': latency is given twice",
        ),
        ("CXIDIAG_NICS", "many", "CXIDIAG_NICS=many: expected "),
        ("CXIDIAG_NIDS", "0", "CXIDIAG_NIDS=0: expected "),
    ] {
        let output = run("write-lat", (variable, value), &[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with(&format!("cxidiag write-lat: error: {line}")),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(stdout(&output), "");
    }
}
