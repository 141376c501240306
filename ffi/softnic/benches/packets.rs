//! `cargo bench -p softnic`: what a packet costs the CPU by the length of its path over a fabric of
//! switches, compared with no link model and with the model of one link.
//!
//! One process sends long puts from one of its devices to another over links that take no time, so
//! that the CPU alone limits them. The shapes alternate, and the fastest put of each counts:
//! machines are shared and noisy, so compare the figures of one run.

#[path = "../tests/driver/mod.rs"]
mod driver;

use std::time::{Duration, Instant};

use driver::prelude::*;

/// Bytes of a put, and of the payload of a packet.
const PUT: usize = 1 << 20;
const PAYLOAD: usize = 2048;

/// Puts for each time that a shape is made, and how often each is made.
const PUTS: u32 = 30;
const ROUNDS: u32 = 10;

/// What is measured, with `CXIDIAG_LINK`, `CXIDIAG_TOPOLOGY` and the number of the target.
type Shape = (&'static str, &'static str, &'static str, u32);

/// Detours, of which one is considered for each packet.
const ADAPTIVE: &str = "dragonfly:groups=4,switches=2,nics=1,nic=1000GB/s,latency=0ns";

const MINIMAL: &str = "dragonfly:groups=4,switches=2,nics=1,nic=1000GB/s,latency=0ns;route minimal";

const SHAPES: [Shape; 7] = [
    ("no link model", "", "", 1),
    ("one link", "latency=1ns", "", 1),
    (
        "2 links, same switch",
        "",
        "dragonfly:groups=1,switches=1,nics=2,nic=1000GB/s,latency=0ns",
        1,
    ),
    ("3 links, same group", "", MINIMAL, 1),
    ("4 links, next group", "", MINIMAL, 3),
    ("5 links, next group", "", MINIMAL, 5),
    ("the same with detours", "", ADAPTIVE, 5),
];

/// The time of the fastest put.
fn fastest((_, link, topology, to): Shape) -> Duration {
    set("CXIDIAG_LINK", link);
    set("CXIDIAG_TOPOLOGY", topology);
    let mut target = Rig::on(to);
    let sink = target.buffer(PUT);
    target.target(0, &sink);
    let mut rig = Rig::on(0);
    let source = rig.buffer(PUT);
    let dfa = address(target.nid, target.pid, 0).0;
    let put = rig.nomatch_put(&source, 0, PUT as u32, |put| _ = put.set_dfa(dfa));
    let times = (0..PUTS).map(|_| {
        let begin = Instant::now();
        rig.tx.issue(&put);
        let event = wait_for("the response", || {
            progress(target.dev);
            rig.eq.poll()
        });
        rig.eq.acknowledge();
        assert_eq!((event.kind(), event.code()), (C_EVENT_ACK, C_RC_OK));
        begin.elapsed()
    });
    times.min().expect("at least one put")
}

fn main() {
    let directory = format!("/dev/shm/softnic-bench-{}", std::process::id());
    set("CXIDIAG_FABRIC_DIR", &directory);
    let mut best = [Duration::MAX; SHAPES.len()];
    for _ in 0..ROUNDS {
        for (best, shape) in best.iter_mut().zip(SHAPES) {
            *best = fastest(shape).min(*best);
        }
    }
    println!("ns for each packet of {PAYLOAD} bytes, copied twice:");
    for ((name, ..), best) in SHAPES.iter().zip(best) {
        let packets = (PUT / PAYLOAD) as f64;
        println!("{name:24} {:6.0}", best.as_nanos() as f64 / packets);
    }
}
