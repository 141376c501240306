//! Both sides on one CPU: a side that waits leaves the CPU to its peer.

use crate::harness::{Fabric, assert_success, finish_or_kill};
use cxi::placement::{Confined, cpus};

/// If each wait lasted for a time slice, the run would take more than a minute, and be killed.
#[test]
fn round_trips_complete_on_one_cpu() {
    let first = cpus().expect("CPUs")[0];
    // Child processes inherit it.
    let _confined = Confined::to(&[first]).expect("a CPU of this thread");
    let fabric = Fabric::new();
    let mut command = fabric.command("send-lat -n 20000 --latency-gap 0 --loopback -d soft0");
    let output = finish_or_kill(command.spawn().expect("cxidiag starts"));
    assert_success(&output);
    fabric.assert_nothing_left();
}
