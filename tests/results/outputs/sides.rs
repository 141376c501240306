//! Documents of both sides: who was measured, labels, and what a server writes.

use std::path::Path;

use serde_json::{Value, json};

use super::{document, read, schema};
use crate::harness::machine::MadeUp;
use crate::harness::{Command, Fabric, assert_status, assert_success, stderr, stdout};

/// The document in a file.
#[track_caller]
fn written(file: &Path) -> Value {
    let value = serde_json::from_str(&read(file)).unwrap();
    schema::check(&value);
    value
}

/// The fields of the one row of a table, by title.
fn row(csv: &str) -> impl Fn(&str) -> String + use<> {
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let titles = table.headers().unwrap().clone();
    let rows: Vec<_> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1, "{csv}");
    let row = rows[0].clone();
    move |title| row[titles.iter().position(|name| name == title).unwrap()].to_owned()
}

#[test]
fn each_side_names_both() {
    for tool in ["write-lat", "send-bw"] {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let to = |format: &str, name: &str| format!("--{format}={}", file(name).display());
        let (json, csv) = (to("json", "json"), to("csv", "csv"));
        let args = [tool, "-p", "0", "-d", "soft0", &json, &csv, "--label=rack=x1", "--iters=9"];
        let mut command = fabric.command(&args);
        command.env("SLURM_JOB_ID", "4711");
        let server = crate::harness::Server::start(command);
        let port: u16 = server.port.parse().unwrap();
        let args = ["-d", "soft1", "-n", "3", "--json", "--label", "b=2=3", "--label=a=1"];
        let mut command = fabric.client_command(tool, &server, &args);
        command.env("SLURM_JOB_ID", "4711");
        let client = crate::harness::finish(command);
        assert_status(&client, 0);
        let server = server.finish();
        assert_status(&server, 0);
        // The option that the client governs is ignored, and only that.
        let note = "ignored on a server (the client's options apply): --iters\n";
        assert!(stderr(&server).contains(note), "{}", stderr(&server));
        let (client, server) = (document(&client), written(&file("json")));
        for (own, other, side) in [(&client, &server, "client"), (&server, &client, "server")] {
            assert_eq!(own["side"], side);
            assert_eq!(own["status"], "complete");
            assert_eq!(own["peer"]["host_name"], other["host"]["name"]);
            assert_eq!(own["peer"]["is_cxidiag"], true);
            assert_eq!(own["addresses"]["local"], other["addresses"]["remote"]);
            assert_eq!(own["addresses"]["server_port"], port);
            assert_eq!(own["addresses"]["server_ip"], "127.0.0.1");
            assert_eq!(own["job"], json!({"manager": "slurm", "id": "4711"}));
            assert_eq!(own["options"]["iters"], 3);
            assert_eq!(own["results"][0]["extent"], "complete");
            let driver = own["device"]["driver"].as_str().unwrap();
            assert!(!driver.is_empty());
        }
        assert_eq!(client["labels"], json!({"a": "1", "b": "2=3"}));
        assert_eq!(server["labels"], json!({"rack": "x1"}));
        let measures = tool == "send-bw";
        assert_eq!(server["results"][0]["bandwidth"].is_object(), measures);
        let field = row(&read(&file("csv")));
        let local = &server["addresses"]["local"];
        for (title, expected) in [
            ("side", &json!("server")),
            ("host", &server["host"]["name"]),
            ("peer_host", &client["host"]["name"]),
            ("nic_address", &local["nic"]),
            ("pid", &local["pid"]),
            ("peer_nic_address", &client["addresses"]["local"]["nic"]),
            ("vni", &server["addresses"]["vni"]),
            ("server_port", &json!(port)),
            ("job_manager", &json!("slurm")),
            ("job_id", &json!("4711")),
            ("labels", &json!("rack=x1")),
            ("iters", &json!(3)),
            ("duration_s", &json!("")),
            ("warmup", &if measures { json!("") } else { json!(10) }),
            ("pairs", &if measures { json!(1) } else { json!("") }),
        ] {
            let expected = match expected {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(field(title), expected, "{title}");
        }
    }
}

/// The NIC of a server fails while it measures the first of two sizes.
#[test]
fn failed_server_writes_all_sizes() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("json");
    let json = format!("--json={}", file.display());
    let mut command = fabric.command(&["send-lat", "-p", "0", "-d", "soft0", &json]);
    command.env("CXIDIAG_FAULTS", "error=UNDELIVERABLE@3");
    let server = crate::harness::Server::start(command);
    let client = fabric.client("send-lat", &server, "-d soft1 -n 20 -s 8:16");
    assert_status(&client, 1);
    let error = assert_status(&server.finish(), 1);
    let run = written(&file);
    assert_eq!((&run["status"], &run["side"]), (&json!("failed"), &json!("server")));
    assert_eq!(run["error"]["kind"], "nic");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("; at 8 bytes, between NIC 0x12 PID "), "{message}");
    assert!(error.contains(message), "{error}");
    let sizes = run["results"].as_array().unwrap().iter();
    let sizes: Vec<_> = sizes.map(|size| (&size["size_bytes"], &size["extent"])).collect();
    let none = json!("none");
    assert_eq!(sizes, [(&json!(8), &none), (&json!(16), &none)]);
}

#[test]
fn labels_share_a_field() {
    let output =
        super::short("atomic-bw", &["--csv", "--label=b=2 3", "--label=a=1", "--label=a=0"]);
    let field = row(&stdout(&output));
    assert_eq!(field("labels"), "a=0;b=2 3");
    assert_eq!([field("atomic_op"), field("atomic_type")], ["SUM", "UINT64"]);
    for bad in ["rack", "=x", "a b=x", "a=x;y", "a=x\n", "\u{e4}=x"] {
        let output = Fabric::new().run(&["write-lat", "-d", "cxi99", "--label", bad]);
        let error = assert_status(&output, 2);
        assert!(error.contains("for --label: expected KEY=VALUE"), "{error}");
    }
}

/// With --persist, each run replaces the file, and follows the one before on standard output.
#[test]
fn persistent_server_writes_each_run() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("json");
    let json = format!("--json={}", file.display());
    let args = ["read-lat", "-p", "0", "-d", "soft0", "--persist", "--csv", &json];
    let small = MadeUp::new(&[("proc/meminfo", "MemAvailable: 65536 kB\n")]);
    let mut command = small.seen_by(fabric.command(&args));
    // The line with the port goes to standard error, because CSV has standard output.
    let mut child = command.spawn().unwrap();
    let mut text = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut text, &mut line).unwrap();
    let port = line.split(' ').nth(3).unwrap().to_owned();
    let client = |options: &[&str]| {
        let address = ["read-lat", "127.0.0.1", "-p", &port, "-d", "soft1", "--wait=20"];
        fabric.run(&[&address, options].concat())
    };
    assert_success(&client(&["-n", "1", "-s", "8:16"]));
    // The service does not exist: the client fails before it connects, and is no run.
    assert_status(&client(&["-v", "7777"]), 1);
    assert_success(&client(&["-n", "2", "-s", "32"]));
    // The server has no memory for it: the run ends before its first size.
    assert_status(&client(&["-n", "3", "-s", "256M"]), 1);
    let mut table = csv::Reader::from_reader(child.stdout.take().unwrap());
    let titles = table.headers().unwrap().clone();
    let at = |title: &str| titles.iter().position(|name| name == title).unwrap();
    let (mut rows, mut started) = (Vec::new(), Vec::new());
    for row in table.records().take(4).map(Result::unwrap) {
        let field = |title| row[at(title)].to_owned();
        started.push(field("started_unix_ms").parse::<u64>().unwrap());
        rows.push([field("size_bytes"), field("iters"), field("extent"), field("status")]);
    }
    assert_eq!(rows[0], ["8", "1", "complete", "complete"]);
    assert_eq!(rows[1], ["16", "1", "complete", "complete"]);
    assert_eq!(rows[2], ["32", "2", "complete", "complete"]);
    assert_eq!(rows[3], ["268435456", "3", "none", "failed"]);
    assert!(
        started[0] == started[1] && started[1] < started[2] && started[2] < started[3],
        "{started:?}"
    );
    let last = written(&file);
    assert_eq!(last["results"].as_array().unwrap().len(), 1);
    assert_eq!(last["results"][0]["size_bytes"], 268435456);
    assert_eq!(last["peer"]["is_cxidiag"], true);
    assert!(last["measurement_error"].is_null(), "{last:#}");
    // The end of the server is no run.
    let killed = Command::new("kill").arg(child.id().to_string()).status();
    assert!(killed.unwrap().success());
    child.wait();
    assert_eq!(written(&file), last);
}
