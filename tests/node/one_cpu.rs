//! Both sides on one CPU: a side that waits leaves the CPU to its peer.

use std::path::Path;

use cxi::placement::{Confined, cpus};

use crate::harness::{CXIDIAG, Fabric, assert_success, finish};

/// If each wait lasted for a time slice, each side would use more than 5 seconds of CPU time, and
/// the kernel would kill it. Waiting for others that share the CPU uses none.
#[test]
fn round_trips_complete_on_one_cpu() {
    let first = cpus().expect("CPUs")[0];
    // Child processes inherit it.
    let _confined = Confined::to(&[first]).expect("a CPU of this thread");
    let fabric = Fabric::new();
    let args = format!("--cpu=5 {CXIDIAG} send-lat -n 5000 --latency-gap 0 --loopback -d soft0");
    assert_success(&finish(fabric.command_of(Path::new("prlimit"), &args)));
    fabric.assert_nothing_left();
}
