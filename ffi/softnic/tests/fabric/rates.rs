//! The rates of flows between processes on a fabric of switches (load.md 5), in slow motion.

use crate::driver::prelude::*;
use crate::flow::{Flow, Flows, Measured, TOPOLOGY, is_flow};

/// Times that packets stay in queues are long for a machine that is busy at times: a tenth of the
/// rates of load.md, and more latency.
const D4: &str = "dragonfly:groups=4,switches=2,nics=2,nic=5MB/s,latency=20us;";

fn star(nics: usize) -> String {
    format!("dragonfly:groups=1,switches=1,nics={nics},nic=25MB/s,latency=20us;")
}

/// The pairs of `bisect:system`.
fn halves() -> Vec<Flow> {
    [0, 1, 2, 3, 4, 5, 6, 7]
        .into_iter()
        .zip([8, 13, 10, 15, 12, 9, 14, 11])
        .map(|(from, to)| short(from, to))
        .collect()
}

/// A flow whose queue is short, for slow links.
fn short(from: u32, to: u32) -> Flow {
    Flow { size: 8 << 10, window: 8, ..Flow::new(from, to) }
}

fn check(is_expected: bool, what: &str, measured: &[Measured]) -> Result<(), String> {
    is_expected.then_some(()).ok_or_else(|| format!("{what}: {measured:?}"))
}

#[test]
fn two_flows_share_a_link() {
    alone!();
    if is_flow() {
        return;
    }
    let flows = [Flow::new(0, 2), Flow::new(1, 2)];
    Flows::start(&star(3), &flows).expect_rates(500, &[12.12; 2], 0.05).end();
    let two = "dragonfly:groups=1,switches=2,nics=2,nic=25MB/s,latency=20us";
    let flows = [Flow::new(0, 2), Flow::new(1, 3)];
    Flows::start(two, &flows).expect_rates(500, &[12.12; 2], 0.05).end();
}

#[test]
fn eight_flows_share_the_port_of_their_target() {
    alone!();
    if is_flow() {
        return;
    }
    let flows: Vec<Flow> = (0..8).map(|from| Flow::new(from, 8)).collect();
    Flows::start(&star(9), &flows).expect_rates(1500, &[3.03; 8], 0.05).end();
}

#[test]
fn halves_of_a_tapered_fabric_share_its_cables() {
    alone!();
    if is_flow() {
        return;
    }
    let fabric = format!("{D4}route minimal");
    Flows::start(&fabric, &halves()).expect_rates(1000, &[2.424; 8], 0.05).end();
}

/// The flows of two groups, half of the flows of load.md.
#[test]
fn worst_shift_is_faster_by_detours() {
    alone!();
    if is_flow() {
        return;
    }
    let flows: Vec<Flow> = (0..8).map(|from| short(from, from + 4)).collect();
    let fabric = |route| format!("{D4}route {route}");
    Flows::start(&fabric("minimal"), &flows).expect_rates(1000, &[1.212; 8], 0.05).end();
    Flows::start(&fabric("adaptive bias=200us"), &flows)
        .expect(1000, |measured| {
            let mean = measured.iter().map(|flow| flow.rate).sum::<f64>() / 8.0;
            check(mean > 1.6, "slower than by detours", measured)
        })
        .end();
}

#[test]
fn slow_cable_slows_its_flows_only() {
    alone!();
    if is_flow() {
        return;
    }
    let mut expected = [2.424; 8];
    (expected[0], expected[2]) = (0.606, 0.606);
    let fabric = format!("{D4}route minimal;fault link 0.1>2.1 rate=25%");
    Flows::start(&fabric, &halves()).expect_rates(1500, &expected, 0.05).end();
}

/// Cables between groups hide that the ports at a switch are slow.
#[test]
fn slow_switch_shows_without_other_flows() {
    alone!();
    if is_flow() {
        return;
    }
    let fabric = format!(
        "{D4}route minimal;fault nic 8 tx rate=50%;fault nic 9 rx rate=50%;fault nic 8 rx rate=50%"
    );
    Flows::start(&fabric, &halves()).expect_rates(1000, &[2.424; 8], 0.05).end();
    Flows::start(&fabric, &[short(8, 9)]).expect_rates(500, &[2.424], 0.05).end();
}

/// All ports of a switch, and its cables.
#[test]
fn slow_switch_slows_flows_through_it() {
    alone!();
    if is_flow() {
        return;
    }
    let fabric = format!("{D4}route minimal;fault switch 2.0 rate=50%");
    Flows::start(&fabric, &[short(8, 9), short(10, 11)])
        .expect_rates(500, &[2.424, 4.848], 0.05)
        .end();
}

/// The pairs whose cable is down take detours, and all of them share what is left.
#[test]
fn flows_take_detours_around_a_cable_that_is_down() {
    alone!();
    if is_flow() {
        return;
    }
    let fabric = format!("{D4}route adaptive bias=200us;fault link 0.1-2.1 down");
    Flows::start(&fabric, &halves())
        .expect(1500, |measured| {
            let sum: f64 = measured.iter().map(|flow| flow.rate).sum();
            let is_expected = (13.0..=14.7).contains(&sum)
                && measured.iter().all(|flow| (1.4..=2.2).contains(&flow.rate));
            check(is_expected, &format!("in sum {sum:.2}"), measured)
        })
        .end();
}

/// A victim on the way to the target of an incast, and one that has the same target.
#[test]
fn congestion_mode_decides_who_waits_beside_an_incast() {
    alone!();
    if is_flow() {
        return;
    }
    let fabric = "dragonfly:groups=1,switches=2,nics=6,nic=12.5MB/s,local=50MB/s,latency=20us;";
    let mut flows: Vec<Flow> = (0..4).map(|from| Flow::new(from, 6)).collect();
    flows.extend([Flow::small(4, 7), Flow::small(5, 6)]);
    // 4 * 256 KiB and headers take 86 ms at the port.
    for (mode, elsewhere, same) in [
        ("none", 0.0..=20.0, 70.0..=100.0),
        ("endpoint", 0.0..=20.0, 0.0..=20.0),
        ("spread buffer=64KiB", 60.0..=100.0, 70.0..=100.0),
    ] {
        Flows::start(&format!("{fabric}congestion {mode}"), &flows)
            .expect(1500, |measured| {
                let is_expected =
                    elsewhere.contains(&measured[4].median) && same.contains(&measured[5].median);
                check(is_expected, mode, measured)
            })
            .end();
    }
}

/// Puts some bytes: 3,000,000 take a second on the whole link.
fn go_on(flow: &mut Partner, bytes: u32) {
    flow.send(&format!("move {bytes}"));
    flow.receive();
}

#[test]
fn others_go_on_beside_stopped_and_killed_processes() {
    alone!();
    if is_flow() {
        return;
    }
    set(TOPOLOGY, "dragonfly:groups=1,switches=2,nics=2,nic=3MB/s,latency=20us");
    let [mut other, mut paused] = [Flow::new(0, 2), Flow::new(1, 3)].map(Flow::start);
    // Connected before that: a process that is stopped may hold the lock of the directory.
    go_on(&mut other, 1);
    go_on(&mut paused, 1);
    paused.send("move 3000000");
    paused.pause();
    go_on(&mut other, 6_000_000);
    paused.resume();
    paused.receive();
    paused.send("move 60000000");
    go_on(&mut other, 6_000_000);
    paused.kill();
    go_on(&mut other, 6_000_000);
    other.end();
}
