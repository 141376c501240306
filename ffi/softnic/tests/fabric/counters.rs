//! The counters of a NIC count for all processes (health.md 1.1).

use std::fs;

use softnic::Snapshot;

use crate::driver::prelude::*;

/// Number of packets that a device sends for a put to its own process, and its response.
const PACKETS: u64 = 2;

/// Sends to itself through the first NIC: for each line, this many puts.
fn sender() {
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    say("ready");
    while let Some(line) = listen() {
        for _ in 0..line.parse().unwrap() {
            assert_eq!(rig.code(&put), C_RC_OK);
        }
        say("done");
    }
}

fn send(partner: &mut Partner, puts: u64) {
    partner.send(&puts.to_string());
    assert_eq!(partner.receive(), "done");
}

/// A counter of the first NIC, from its file.
fn counter(name: &str) -> u64 {
    let files = Snapshot::new(0).unwrap();
    let telemetry = files.root().join("sys/class/cxi/soft0/device/telemetry");
    let line = fs::read_to_string(telemetry.join(name)).unwrap();
    line.split_once('@').unwrap().0.parse().unwrap()
}

fn packets() -> u64 {
    counter("hni_tx_ok_opt")
}

fn start() -> Partner {
    let mut partner = Partner::start("sender");
    assert_eq!(partner.receive(), "ready");
    partner
}

#[test]
fn counters_are_of_all_processes() {
    alone!();
    if role().is_some() {
        return sender();
    }
    let (mut first, mut second) = (start(), start());
    send(&mut first, 3);
    send(&mut second, 4);
    assert_eq!(packets(), 7 * PACKETS);
    // Through the library, with a device of this process, which also counts.
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    let dev = rig.dev;
    let by_library = || {
        let mut value = 0;
        assert_eq!(call!(cxil_read_cntr(dev, 1537, &mut value, null_mut())), 0);
        value
    };
    assert_eq!(by_library(), 8 * PACKETS);
    // Devices that were closed, or whose processes were killed, keep counting.
    first.end();
    send(&mut second, 5);
    assert_eq!(packets(), 13 * PACKETS);
    second.kill();
    assert_eq!(by_library(), 13 * PACKETS);
    assert_eq!(packets(), 13 * PACKETS);
    drop(rig);
    let mut again = start();
    send(&mut again, 1);
    assert_eq!(packets(), PACKETS, "no device was open");
    again.end();
}

/// A process that is stopped does not answer.
#[test]
fn stopped_process_counts_as_it_was_last_seen() {
    alone!();
    if role().is_some() {
        return sender();
    }
    let mut partner = start();
    send(&mut partner, 3);
    assert_eq!(packets(), 3 * PACKETS);
    partner.pause();
    assert_eq!(packets(), 3 * PACKETS);
    partner.resume();
    send(&mut partner, 1);
    assert_eq!(packets(), 4 * PACKETS);
    partner.end();
}

#[test]
fn several_processes_read_at_once() {
    alone!();
    if let Some("reader") = role().as_deref() {
        let mut last = 0;
        for _ in 0..5 {
            let next = packets();
            assert!(next >= last, "{next} after {last}");
            last = next;
        }
        return;
    }
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    let mut readers = [(); 2].map(|()| Partner::start("reader"));
    for puts in 1..=10 {
        assert_eq!(rig.code(&put), C_RC_OK);
        assert_eq!(packets(), puts * PACKETS);
    }
    readers.iter_mut().for_each(Partner::end);
}
