//! `trig-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, both sides fail unless the bytes of the peer arrived.

use std::process::Output;
use std::time::Instant;

use serde_json::Value;

use crate::harness::{
    Command, Fabric, Server, assert_every_latency_is_reported, assert_killed_side_ends_the_other,
    assert_legacy_name_works, assert_status, assert_success, finish, stdout,
};

#[test]
fn measures_against_server() {
    let fabric = Fabric::new();
    let [client, server] = fabric.pair("trig-lat", "-n 3");
    for line in [
        "\nRestricted       : Disabled\n",
        "\nChain Start      : put\n",
        "\nHops             : 64\n",
        "\nHop              : one put from NIC to NIC; latency = chain time / 64\n",
    ] {
        assert!(client.contains(line) && server.contains(line), "{client}{server}");
    }
    assert!(client.contains("RDMA Size[B]      Chains     Min[us]"), "{client}");
    fabric.assert_nothing_left();
}

#[test]
fn moves_all_sizes_with_each_start() {
    let fabric = Fabric::new();
    for (options, sizes) in [
        ("", &["1:4096", "65537"][..]),
        ("--no-ll", &["8"]),
        ("--start=counter", &["1:1024"]),
        ("--start=doorbell", &["1:1024"]),
        ("--restricted", &["1:2048"]),
        ("--restricted --no-ll", &["8"]),
        ("--restricted --start=doorbell", &["8"]),
        ("--hops=2 --verify", &["8:16"]),
        ("--fan=2 --verify", &["8:16", "65537"]),
        ("--fan=100 --start=counter", &["8"]),
        ("--fan=100 --start=doorbell --restricted", &["8"]),
    ] {
        for size in sizes {
            let options = format!("{options} -n 3 --latency-gap 0 -s {size}");
            fabric.loopback("trig-lat", &options);
        }
    }
    fabric.assert_nothing_left();
}

/// The JSON document of a loopback run.
fn document(fabric: &Fabric, options: &str, link: &str) -> Value {
    let mut command = fabric.command(&format!("trig-lat --loopback -d soft0 --json {options}"));
    command.env("CXIDIAG_LINK", link);
    let output = finish(command);
    assert_status(&output, 0);
    serde_json::from_str(&stdout(&output)).expect("a document")
}

/// A hop takes no less than the link, and all chains of a run no more than the run.
#[test]
fn hop_takes_the_latency_of_the_link() {
    const LATENCY_NS: f64 = 2e6;
    for start in ["put", "counter", "doorbell"] {
        let options = format!("--hops=32 --start={start} -n 3 --warmup=0 --latency-gap=0");
        let begin = Instant::now();
        let document = document(&Fabric::new(), &options, "latency=2ms");
        let elapsed_ns = begin.elapsed().as_secs_f64() * 1e9;
        let figure = |name| document["results"][0]["latency"][name].as_f64().expect("a time");
        assert!(figure("min_ns") >= LATENCY_NS, "{start}: {document}");
        let chains_ns = figure("mean_ns") * 32.0 * 3.0;
        assert!(chains_ns <= elapsed_ns, "{start}: {document}");
        let options = &document["options"];
        assert_eq!((&options["hops"], &options["start"]), (&32.into(), &start.into()));
        assert_eq!(options["restricted"], false);
    }
}

/// The first put and the puts of the fan cross the link one after the other, and the puts of the
/// fan leave the server one after the other. The rate is the one of all arrivals after the first.
#[test]
fn fan_has_a_first_and_a_last_arrival() {
    let fabric = Fabric::new();
    for start in ["put", "counter", "doorbell"] {
        let options = format!("--fan=9 --start={start} -s 2048 -n 3 --latency-gap=0");
        let document = document(&fabric, &options, "latency=1ms,bandwidth=2MB/s");
        let options = &document["options"];
        assert_eq!((&options["fan"], &options["hops"]), (&9.into(), &Value::Null));
        let result = &document["results"][0];
        let fan = |name| result["fan"][name].as_f64().expect("a figure");
        // A packet of 2048 bytes takes 1.056 ms, and no packet is early.
        assert!(fan("first_ns") >= 2.0 * (1_000_000.0 + 1_056_000.0), "{result}");
        let min_ns = result["latency"]["min_ns"].as_f64().expect("a time");
        assert!(min_ns >= 2_000_000.0 + 10.0 * 1_056_000.0, "{result}");
        let rate = 8.0 * 1e9 / fan("span_ns");
        assert!((fan("operations_per_s") / rate - 1.0).abs() < 1e-9, "{result}");
    }
    assert_eq!(document(&fabric, "-n 1", "")["results"][0]["fan"], Value::Null);
    let [client, server] = fabric.pair("trig-lat", "--fan=16 -n 3 --latency-gap=0");
    let line = "\nFan              : 16 puts that one put fires; latency to the last\n";
    assert!(client.contains(line) && server.contains(line), "{client}{server}");
    assert!(client.contains("\nFan at 8 bytes: first arrival after "), "{client}");
    fabric.assert_nothing_left();
}

/// The message to the client is operation 1 of the server, and put 2 is the first one of the fan.
#[test]
fn failed_put_of_a_fan_ends_both_sides_with_its_number() {
    for (options, wanted) in [
        ("", "put 3 of 9 with a fan of 8 triggered puts failed: the NIC reported NO_SPACE "),
        ("--restricted", "a put of a fan of 8 triggered puts failed: the NIC reported NO_SPACE "),
    ] {
        for errors in failed_run(&format!("--fan=8 {options}"), "error=NO_SPACE@3", false) {
            let left = "; 0 triggered puts of the server left over";
            assert!(errors.contains(wanted) && errors.contains(left), "{options}: {errors}");
        }
    }
}

/// A write and its response cross the link twice, a hop once.
#[test]
fn compares_hops_with_writes() {
    for options in ["", "--restricted --no-ll"] {
        let fabric = Fabric::new();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display();
        let table = tempfile::NamedTempFile::new().expect("a file");
        let csv = table.path().display();
        let options =
            format!("--hops=4 --compare-write -n 9 --latency-gap=0 --csv={csv} {options}");
        let mut command =
            fabric.command(&format!("trig-lat --loopback -d soft0 --json={path} {options}"));
        command.env("CXIDIAG_LINK", "latency=1ms");
        let output = finish(command);
        assert_success(&output);
        let document = std::fs::read_to_string(file.path()).expect("a document");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let result = &document["results"][0];
        let write_ns = result["write"]["median_ns"].as_i64().expect("a median");
        let hop_ns = result["latency"]["percentiles"][0]["value_ns"].as_i64().expect("a median");
        assert!(write_ns >= 2_000_000 && hop_ns >= 1_000_000, "{result}");
        assert_eq!(result["write"]["beyond_hop_ns"], write_ns - hop_ns);
        assert_eq!(document["options"]["compare_write"], true);
        let text = stdout(&output);
        let us = write_ns as f64 / 1e3;
        let line = format!("\nWrite of 8 bytes: median {us:.2} us, ");
        assert!(text.contains(&line), "{text}");
        let table = std::fs::read_to_string(table.path()).expect("a table");
        let fields: Vec<Vec<&str>> = table.lines().map(|row| row.split(',').collect()).collect();
        for (title, value) in [("write_p50_ns", write_ns), ("beyond_hop_ns", write_ns - hop_ns)] {
            let column = fields[0].iter().position(|field| *field == title).expect("a column");
            assert_eq!(fields[1][column], value.to_string(), "{title}");
        }
        fabric.assert_nothing_left();
    }
    let without = document(&Fabric::new(), "-n 1", "");
    assert_eq!(without["results"][0]["write"], Value::Null);
}

/// Runs both sides, of which one has a fault. Returns the errors of client and server.
fn failed_run(options: &str, fault: &str, is_at_client: bool) -> [String; 2] {
    let fabric = Fabric::new();
    let with_fault = |mut command: Command, has_fault: bool| {
        if has_fault {
            command.env("CXIDIAG_FAULTS", fault);
        }
        command
    };
    let server = fabric.command("trig-lat -p 0 -d soft0");
    let server = Server::start(with_fault(server, !is_at_client));
    let chain = if options.contains("--fan") { "" } else { "--hops=8" };
    let options = format!("-d soft1 {chain} -n 1 --warmup=0 {options}");
    let client = fabric.client_command("trig-lat", &server, &options);
    let client = finish(with_fault(client, is_at_client));
    let errors = [assert_status(&client, 1), assert_status(&server.finish(), 1)];
    fabric.assert_nothing_left();
    errors
}

/// The message to the peer and the put of the first hop are operations 1 and 2 of the client, the
/// message is operation 1 of the server.
#[test]
fn failed_hop_ends_both_sides_with_its_number_and_reason() {
    for options in ["", "--restricted"] {
        for (fault, is_at_client, hop, left) in [
            ("error=PT_DISABLED@2", true, 1, "no hop arrived at the client; 3 triggered puts of"),
            ("error=PT_DISABLED@4", true, 5, "the client is 4; 1 triggered put of the client left"),
            ("error=NO_SPACE@3", false, 4, "the server is 3; 2 triggered puts of the server left"),
        ] {
            let code = &fault["error=".len()..fault.len() - 2];
            let wanted = format!(
                "hop {hop} of 8 in a chain of triggered puts failed: the NIC reported {code} "
            );
            for errors in failed_run(options, fault, is_at_client) {
                let is_named = errors.contains(&wanted) && errors.contains(left);
                assert!(is_named, "{options} {fault}: {errors}");
            }
        }
    }
}

/// Without the first put, hop 3 waits for hop 2 as it does after a start by the software.
#[test]
fn failed_hop_of_a_chain_started_by_the_doorbell_has_its_number() {
    let [client, _] = failed_run("--start=doorbell", "error=PT_DISABLED@3", true);
    assert!(client.contains("hop 3 of 8 in a chain"), "{client}");
    assert!(client.contains("2 triggered puts of the client left over"), "{client}");
}

/// The answer of the server, which arms the chain, takes longer than the client waits.
#[test]
fn chain_without_an_answer_ends_with_the_puts_that_are_left_over() {
    let fabric = Fabric::new();
    let mut server = fabric.command("trig-lat -p 0 -d soft0");
    server.env("CXIDIAG_FAULTS", "delay=1:60s");
    let server = Server::start(server);
    let mut client = fabric.client_command("trig-lat", &server, "-d soft1 --hops=8");
    client.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "1000");
    let errors = assert_status(&finish(client), 1);
    let wanted = "; no hop arrived at the client; 3 triggered puts of the client left over and \
                  cancelled; at 8 bytes, warm-up, ";
    assert!(errors.contains("no answer to a chain of triggered puts within"), "{errors}");
    assert!(errors.contains(wanted), "{errors}");
    let errors = assert_status(&server.finish(), 1);
    assert!(errors.contains("ended the run: no answer to a chain"), "{errors}");
    fabric.assert_nothing_left();
}

/// Both sides of a loopback run share the 512 triggered operations of the default service.
#[test]
fn refuses_more_hops_than_the_service_has_triggered_operations_for() {
    let fabric = Fabric::new();
    fabric.loopback("trig-lat", "--hops=508 -n 1 --warmup=0");
    let errors = assert_status(&fabric.run("trig-lat --loopback -d soft0 --hops=510"), 1);
    let wanted = "--hops=510: both sides on one NIC need 514 triggered operations, and service 1 \
                  of soft0 has 512 available: at most --hops=508\n";
    assert!(errors.contains(wanted), "{errors}");
    let errors = assert_status(&fabric.run("trig-lat --loopback -d soft0 --fan=507"), 1);
    let wanted = "--fan=507: both sides on one NIC need 513 triggered operations, and service 1 of \
                  soft0 has 512 available: at most --fan=506\n";
    assert!(errors.contains(wanted), "{errors}");
    fabric.loopback("trig-lat", "--fan=506 -n 1 --warmup=0");
    let server = fabric.server("trig-lat", "-d soft0");
    let errors = assert_status(&fabric.client("trig-lat", &server, "-d soft1 --hops=1022"), 1);
    assert!(errors.contains("each side needs 513 triggered operations"), "{errors}");
    assert_status(&server.finish(), 1);
    fabric.assert_nothing_left();
}

/// A service without limits, which has eight triggered operations (libcxi.md 3.3).
const WITHOUT_LIMITS: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 0 \
                              0 0 0 0 0 0 0 0 0 0 0 0 8 8 0 0 0 0 0 1 0\n";

#[test]
fn service_without_limits_has_as_many_hops_as_fit() {
    let fabric = Fabric::new();
    fabric.write_services(0x12, WITHOUT_LIMITS);
    let text = fabric.loopback("trig-lat", "-n 3 --latency-gap 0");
    assert!(text.contains("\nHops             : 4\n"), "{text}");
    fabric.write_services(0x13, WITHOUT_LIMITS);
    let run = |options: &str| {
        let server = fabric.server("trig-lat", "-d soft0");
        let client = fabric.client("trig-lat", &server, &format!("-d soft1 -n 1 {options}"));
        (client, server.finish())
    };
    let fits = |output: &Output| {
        assert_success(output);
        assert!(stdout(output).contains("\nHops             : 12\n"));
    };
    let (client, _) = run("--hops=12");
    fits(&client);
    let (client, server) = run("--hops=14");
    for output in [client, server] {
        let errors = assert_status(&output, 1);
        let wanted = "--hops=14: each side needs 9 triggered operations, and service 1 of soft";
        assert!(errors.contains(wanted) && errors.contains(" has 8 available"), "{errors}");
        assert!(errors.contains(" available: at most --hops=12\n"), "{errors}");
    }
    let server = fabric.server("write-bw", "-d soft0");
    let errors = assert_status(&fabric.client("write-bw", &server, "-d soft1 --pairs=9"), 1);
    assert!(errors.contains("--pairs=9: each side needs 9 triggered operations"), "{errors}");
    assert!(errors.contains("has 8 available: at most --pairs=8"), "{errors}");
    server.finish();
}

/// The limits of service 2 name no triggered operations: it shares the pool of service 1.
#[test]
fn service_without_triggered_operations_shares_those_of_the_default_service() {
    let fabric = Fabric::new();
    let text = fabric.loopback("trig-lat", "--svc-id=2 -n 3 --latency-gap 0");
    assert!(text.contains("\nHops             : 64\n"), "{text}");
    fabric.assert_nothing_left();
}

/// The limit of the server alone is too low for what the client takes by default.
#[test]
fn server_refuses_more_hops_than_its_service_has_triggered_operations_for() {
    let fabric = Fabric::new();
    fabric.write_services(0x12, WITHOUT_LIMITS);
    let server = fabric.server("trig-lat", "-d soft0");
    let client = fabric.client("trig-lat", &server, "-d soft1 -n 1");
    let errors = assert_status(&client, 1);
    assert!(errors.contains("--hops=64: each side needs 34 triggered operations"), "{errors}");
    assert!(errors.contains(" available: at most --hops=12\n"), "{errors}");
    assert_status(&server.finish(), 1);
}

#[test]
fn refuses_wrong_options_before_the_device_is_opened() {
    for (options, wanted) in [
        ("--hops=3", "invalid value '3' for --hops: expected an even number, 2 to 4092"),
        ("--hops=0", "invalid value '0' for --hops"),
        ("--hops=4094", "invalid value '4094' for --hops"),
        ("--fan=1", "invalid value '1' for --fan: expected a decimal number from 2 to 2043"),
        ("--fan=4 --hops=4", "--fan and --hops exclude each other"),
        ("--fan=4 --compare-write", "invalid value '4' for --fan: not with --compare-write"),
        ("--start=gpu", "invalid value 'gpu' for --start: expected put, counter or doorbell;"),
        ("--rate=1MB/s", "for --rate: expected chains per second, such as 1000 op/s"),
        ("--restricted -s 2049", "invalid value '2049' for --size: at most 2048 bytes with"),
    ] {
        let errors = assert_status(&Fabric::new().run(&format!("trig-lat h -d cxi9 {options}")), 2);
        assert!(errors.contains(wanted), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn reports_every_chain() {
    assert_every_latency_is_reported("trig-lat");
}

#[test]
fn legacy_form_of_the_name_works() {
    assert_legacy_name_works("trig-lat", "-n 2");
}

#[test]
fn killed_side_ends_the_other() {
    assert_killed_side_ends_the_other("trig-lat", &[""], "Remote (client)");
}
