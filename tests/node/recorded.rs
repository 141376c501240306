//! The command queues of a tool, recorded by a library between the program and the software NIC.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::harness::{Command, Fabric, SOFTWARE_NIC, assert_status, assert_success, finish};

/// `CXI_CQ_IS_TX`, without and with `CXI_CQ_TX_WITH_TRIG_CMDS`.
const TRANSMIT: &str = "2";
const TRIGGER: &str = "a";

/// The first bytes of commands (nic.md Appendix B).
const LCID: &str = "27";
const CQ_NOOP: &str = "07";
const C_STATE: &str = "a0";

/// The library `tests/libcxi/recorder.c`.
static RECORDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("librecorder.so");
    let nic = SOFTWARE_NIC.display();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libcxi/recorder.c"))
        .args([
            format!("-L{nic}"),
            format!("-Wl,-rpath,{nic}"),
            "-Wl,--no-as-needed".into(),
            "-lcxi".into(),
            "-ldl".into(),
        ]);
    assert_success(&compiler.output().expect("the compiler starts"));
    library
});

/// A command queue of a tool.
#[derive(Debug)]
struct Recorded {
    flags: String,
    lcid: String,
    /// The first byte of each of the first half-slots.
    half_slots: Vec<String>,
}

/// Runs both sides of a tool with one list. Returns its queues.
fn queues(tool: &str, options: &str) -> Vec<Recorded> {
    let command = format!("{tool} --loopback -d cxi0 -n 1 --list-size=1 {options}");
    let fabric = Fabric::new();
    let mut command = fabric.command(&command);
    command.env("CXIDIAG_LIBCXI", &*RECORDER);
    let output = finish(command);
    let text = assert_status(&output, 0);
    let lines = text.lines().filter_map(|line| line.strip_prefix("queue "));
    let recorded = lines.map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Recorded {
            flags: words.next().expect("flags"),
            lcid: words.next().expect("an LCID"),
            half_slots: words.collect(),
        }
    });
    recorded.collect()
}

/// The order of the legacy tools (tools.md 4.3).
#[test]
fn selects_high_rate_profile_before_context_of_immediate_data() {
    for tool in ["write-bw -s 8", "atomic-bw"] {
        let queues = queues(tool, "");
        let transmits = queues.iter().filter(|queue| queue.flags == TRANSMIT);
        let begins: Vec<_> = transmits.map(|queue| &queue.half_slots[..5]).collect();
        // A command of 64 bytes has two half-slots.
        let [begin] = begins[..] else { panic!("{tool}: {queues:?}") };
        let commands = [0, 2, 4].map(|at| begin[at].as_str());
        assert_eq!(commands, [LCID, CQ_NOOP, C_STATE], "{tool}");
    }
}

#[test]
fn trigger_queues_have_lcid_0() {
    for tool in ["write-bw", "read-bw", "send-bw", "atomic-bw"] {
        let queues = queues(tool, "--pairs=2");
        let mut triggers = queues.iter().filter(|queue| queue.flags == TRIGGER);
        assert!(triggers.clone().count() >= 2, "{tool}: {queues:?}");
        assert!(triggers.all(|queue| queue.lcid == "0"), "{tool}");
    }
}
