//! Programs of all kinds under `stat`: exact counts of what they sent, and how they ended.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::Place;
use crate::harness::c_program::{SOURCES, compile};
use crate::harness::machine::MadeUp;
use crate::harness::{CXIDIAG, SOFTWARE_NIC, assert_status, finish, stderr, stdout};

/// Bytes of a packet.
const PACKET: u64 = 2048;

/// Bytes of the large writes of `writer.c`.
const LARGE: u64 = 65_536;

#[test]
fn counts_exactly_what_a_program_in_c_sends() {
    const WRITES: u64 = 50;
    let writes = WRITES.to_string();
    let place = Place::new();
    let programs = tempfile::tempdir().expect("a directory");
    compile(programs.path(), &Path::new(SOURCES).join("writer"), "writer", &[]);
    let writer = programs.path().join("writer").display().to_string();
    let wrapper = SOFTWARE_NIC.join("cxi-softnic").display().to_string();
    let command = [&wrapper, &writer, &writes].map(String::as_str);
    let options = ["stat", "soft0", "soft1", "--csv=counters.csv", "--"];
    let output = finish(place.cxidiag(&[&options[..], &command].concat()));
    let errors = assert_status(&output, 0);
    assert!(stdout(&output).contains("50 writes of 65536 bytes"));
    assert!(errors.contains("1 node, 2 NICs (software NICs): "), "{errors}");
    let value_for = |counter: &str| {
        let deltas = place.deltas(counter);
        (deltas[0], deltas[1])
    };
    // A packet for each small write, and as many as a large one needs.
    let packets = WRITES * (1 + LARGE / PACKET);
    let (sent, sent_back) = value_for("hni_tx_ok_opt");
    assert_eq!(sent, packets);
    assert_eq!(value_for("hni_rx_ok_opt"), (sent_back, packets));
    assert_eq!(value_for("retry_handler/spt_timeouts"), (0, 0));
}

#[test]
fn counts_what_a_script_has_sent_before_it_dies() {
    let place = Place::new();
    let tool = format!("{CXIDIAG} write-lat --loopback -d soft0 -n 190 --warmup=10 > /dev/null");
    let script = format!("{tool}; kill -9 $$; {tool}");
    let output = finish(place.stat(&["--csv=counters.csv"], &["sh", "-c", &script]));
    assert_eq!(output.status.signal(), Some(9));
    let errors = stderr(&output);
    assert!(errors.contains("ended by signal 9"), "{errors}");
    // A write and its answer each, and what the sides exchange before and after them.
    let sent = place.delta("hni_tx_ok_opt");
    assert_eq!(place.delta("hni_rx_ok_opt"), sent);
    let other = Place::new();
    let output = finish(other.stat(&["--csv=counters.csv"], &["sh", "-c", &tool]));
    assert_status(&output, 0);
    assert_eq!(other.delta("hni_tx_ok_opt"), sent);
}

/// The files of a Cassini 1 as health.md 1.5 names them: of 4 MB, 3 MB are Ethernet.
#[test]
fn finds_storage_traffic_of_hardware() {
    const TELEMETRY: &str = "sys/class/cxi/cxi0/device/telemetry";
    let place = Place::new();
    let machine = MadeUp::described_by(include_str!("../fixtures/nics/cassini1"));
    let counters = [
        ("hni_sts_tx_ok_octets", 4_000_000),
        ("hni_sts_rx_ok_octets", 0),
        ("hni_sts_tx_octets_ieee", 3_000_000),
        ("hni_sts_rx_octets_ieee", 0),
    ];
    let mut script = String::new();
    for (name, count) in counters {
        machine.write(&format!("{TELEMETRY}/{name}"), "7@100.000000000\n");
        let path = machine.path().join(TELEMETRY).join(name);
        script += &format!("echo {}@110.000000000 >{};", count + 7, path.display());
    }
    let stat = place.cxidiag(&["stat", "cxi0", "--", "sh", "-c", &script]);
    let errors = assert_status(&finish(machine.seen_by(stat)), 0);
    let sentence = "storage or TCP traffic shares the NICs: 75 % of the bytes are Ethernet";
    assert!(errors.contains(sentence), "{errors}");
}

#[test]
fn finds_that_the_script_of_a_job_used_no_nic() {
    let place = Place::new();
    let mut stat = place.stat(&["--report=line"], &["sleep", "0.1"]);
    stat.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NUM_NODES", "4");
    let errors = assert_status(&finish(stat), 0);
    let sentence = ": no NIC of this node, one of 4 of the job, sent a packet in HPC format: the \
                    job probably used no RDMA; 'cxidiag check --job' finds settings that leave the \
                    NIC\n";
    assert!(errors.ends_with(sentence), "{errors}");
}

#[test]
fn counts_nothing_for_a_program_that_sleeps() {
    let place = Place::new();
    let output = finish(place.stat(&["--csv=counters.csv"], &["sleep", "0.1"]));
    let errors = assert_status(&output, 0);
    assert!(errors.contains("\nnothing unusual\n"), "{errors}");
    assert!(errors.ends_with("traffic: nothing was sent\n"), "{errors}");
    for counter in ["hni_tx_ok_opt", "hni_rx_ok_opt", "hni_sts_tx_ok_octets"] {
        assert_eq!(place.delta(counter), 0, "{counter}");
    }
}
