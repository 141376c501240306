//! `--counters`: what the counters of both NICs did during the run.

use serde_json::Value;

use super::{document, read, schema};
use crate::harness::{Fabric, assert_status, assert_success, finish, stderr, stdout};

/// The change of a counter in a document; `None` if it is not available.
#[track_caller]
fn change(nic: &Value, name: &str) -> Option<u64> {
    let counters = nic["counters"].as_array().unwrap();
    let counter = counters.iter().find(|counter| counter["name"] == name);
    counter.expect(name)["change"].as_u64()
}

#[test]
fn each_side_shows_counters() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.json");
    let json = format!("--json={}", file.display());
    let server = fabric.server("write-lat", &["-d", "soft0", "--counters=link", &json]);
    let args = "-d soft1 -n 40 --warmup 0 --latency-gap 0 --counters --json";
    let client = fabric.client("write-lat", &server, args);
    assert_status(&client, 0);
    let server = server.finish();
    assert_success(&server);

    let (shown, server_text) = (stderr(&client), stdout(&server));
    for title in ["  soft1 (client)  soft0 (server)  Unit ", "\nCounter "] {
        assert!(shown.contains(title), "{shown}");
    }
    assert!(shown.ends_with("Counters: nothing unusual\n"), "{shown}");
    // A table of the link has no row for what every link counts all the time.
    assert!(server_text.ends_with("-\nCounters: nothing unusual\n"), "{server_text}");
    assert!(!server_text.contains("soft1"), "{server_text}");

    let client = &document(&client)["counters"];
    assert_eq!((&client["set"], &client["is_one_nic"]), (&"quick".into(), &false.into()));
    for (nic, device) in [("own", "soft1"), ("peer", "soft0")] {
        assert_eq!(client[nic]["device"], device);
        assert_eq!(client[nic]["is_software"], true);
        assert_eq!(client[nic]["link_speed"], "bs200G");
        for name in ["hni_tx_ok_opt", "hni_rx_ok_opt"] {
            assert!(change(&client[nic], name) >= Some(40), "{client}");
        }
        assert_eq!(change(&client[nic], "pct_spt_timeouts"), Some(0));
    }
    let server: Value = serde_json::from_str(&read(&file)).unwrap();
    schema::check(&server);
    let server = &server["counters"];
    assert_eq!((&server["set"], &server["peer"]), (&"link".into(), &Value::Null));
    assert!(change(&server["own"], "hni_pcs_good_cw") > Some(0));
}

#[test]
fn explains_resent_packets() {
    let fabric = Fabric::new();
    let mut command = fabric.command(
        "write-lat --loopback -d soft0 -n 40 --warmup 0 --latency-gap 0 --counters --json",
    );
    command.env("CXIDIAG_FAULTS", "loss=0.2,retry=1ms");
    let output = finish(command);
    assert_status(&output, 0);
    let text = stderr(&output);
    let line = text.lines().next_back().unwrap();
    assert!(line.starts_with("software NIC soft0: "), "{text}");
    assert!(line.ends_with(" sent again (limit: 0; source: Open MPI)"), "{text}");
    assert!(!text.contains("cable"), "{text}");
    let counters = &document(&output)["counters"];
    assert_eq!((&counters["is_one_nic"], &counters["peer"]), (&true.into(), &Value::Null));
    let findings = counters["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{counters}");
    assert_eq!(
        (&findings[0]["code"], &findings[0]["side"]),
        (&"packets_resent".into(), &"client".into())
    );
    assert!(change(&counters["own"], "pct_spt_timeouts") > Some(0));
}

#[test]
fn shows_counters_of_failed_run() {
    let fabric = Fabric::new();
    let mut command = fabric.command("read-lat --loopback -d soft0 --counters --latency-gap 0");
    command.env("CXIDIAG_FAULTS", "error=PT_DISABLED@20");
    let output = finish(command);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("\nFailed: results are partial\nCounter "), "{text}");
    assert!(text.contains("\nhni_tx_ok_opt "), "{text}");
}
