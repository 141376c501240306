//! Two processes: data arrives, and the death of one harms nobody else.

mod driver;

use cxi_sys::*;
use driver::alone::{Partner, alone, fabric, listen, ports, role, say};
use driver::commands::cq;
use driver::memory::{Buffer, PAGE};
use driver::rig::{Rig, address};
use driver::{progress, wait_for};

const LEN: usize = 1 << 20;

/// A process that offers a target at index 0 of a device, says its address, and serves the NIC
/// only in the way of a program that waits for something else. For each line that it hears, it
/// says how many bytes of its memory are as the line says.
fn target(device: u32) {
    let mut rig = Rig::on(device);
    let sink = rig.buffer(LEN);
    rig.target(0, &sink);
    say(&format!("{} {}", rig.nid, rig.pid));
    while let Some(line) = listen() {
        let value: u8 = line.parse().unwrap();
        let bytes = sink.pages.read(0, LEN);
        say(&bytes
            .iter()
            .filter(|byte| **byte == value)
            .count()
            .to_string());
    }
}

/// A process that puts to the address that it is told for as long as it lives.
fn initiator() {
    let mut rig = Rig::on(0);
    let source = rig.buffer(PAGE);
    let dfa = listen().unwrap().parse().unwrap();
    let put = rig.dma_put(&source, 0, 3000, |put| {
        put.set_dfa(dfa);
    });
    assert_eq!(rig.code(&put), C_RC_OK);
    say("putting");
    loop {
        rig.tx.emit(&put);
        rig.tx.ring();
        while rig.eq.poll().is_some() {}
        rig.eq.acknowledge();
    }
}

/// Plays the part that this process was started for; false for the main one.
fn played() -> bool {
    match role().as_deref() {
        None => return false,
        Some("target 0") => target(0),
        Some("target 1") => target(1),
        Some("initiator") => initiator(),
        Some(other) => panic!("no part {other}"),
    }
    true
}

/// A target in another process, and its address.
struct Remote {
    partner: Partner,
    dfa: u32,
}

impl Remote {
    fn start(test: &str, role: &str) -> Self {
        let mut partner = Partner::start(test, role);
        let line = partner.hear();
        let (nid, pid) = line.split_once(' ').unwrap();
        let (dfa, _) = address(nid.parse().unwrap(), pid.parse().unwrap(), 0);
        Self { partner, dfa }
    }

    /// How many bytes of the target's memory have this value.
    fn count(&mut self, value: u8) -> usize {
        self.partner.tell(&value.to_string());
        self.partner.hear().parse().unwrap()
    }
}

/// Return code of a put of `len` bytes to an address.
fn put(rig: &mut Rig, source: &Buffer, len: usize, dfa: u32) -> u32 {
    let put = rig.dma_put(source, 0, len as u32, |put| {
        put.set_dfa(dfa);
    });
    rig.code(&put)
}

#[test]
fn bytes_arrive_on_the_same_and_on_another_nic() {
    alone(|| {
        if played() {
            return;
        }
        let test = "bytes_arrive_on_the_same_and_on_another_nic";
        let mut rig = Rig::on(0);
        let source = rig.buffer(LEN);
        for role in ["target 0", "target 1"] {
            let mut remote = Remote::start(test, role);
            for (value, len) in [(1, 1), (2, 16), (3, 2048), (4, 2049), (5, LEN)] {
                source.pages.fill(value);
                assert_eq!(put(&mut rig, &source, len, remote.dfa), C_RC_OK);
                assert_eq!(remote.count(value), len, "{role}");
            }
            remote.partner.end();
        }
    });
}

#[test]
fn a_killed_target_is_undeliverable_and_makes_room_for_the_next() {
    alone(|| {
        if played() {
            return;
        }
        let test = "a_killed_target_is_undeliverable_and_makes_room_for_the_next";
        let mut rig = Rig::on(0);
        let source = rig.buffer(PAGE);
        source.pages.fill(9);
        for _ in 0..3 {
            let mut remote = Remote::start(test, "target 1");
            assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-13.0"]);
            assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_OK);
            assert_eq!(remote.count(9), 100);
            remote.partner.kill();
            // Known to us already, and looked up anew.
            assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_UNDELIVERABLE);
            assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_UNDELIVERABLE);
        }
        // On a NIC that others still use, it is the address that is not there.
        let mut remote = Remote::start(test, "target 0");
        assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_OK);
        remote.partner.kill();
        assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_UNDELIVERABLE);
        assert_eq!(
            put(&mut rig, &source, 100, remote.dfa),
            C_RC_PTLTE_NOT_FOUND
        );
        drop(rig);
        assert!(
            !fabric().exists(),
            "what the dead left is gone with the last one alive"
        );
    });
}

#[test]
fn a_target_killed_under_traffic_ends_every_put() {
    alone(|| {
        if played() {
            return;
        }
        let test = "a_target_killed_under_traffic_ends_every_put";
        let mut rig = Rig::on(0);
        let source = rig.buffer(LEN);
        for round in 0..4 {
            let mut remote = Remote::start(test, "target 1");
            let long = rig.dma_put(&source, 0, (LEN >> round) as u32, |put| {
                put.set_dfa(remote.dfa);
            });
            let (mut issued, mut good, mut bad) = (0, 0, 0);
            while good < 20 || issued < good + 10 {
                if issued < good + 10 {
                    rig.tx.emit(&long);
                    rig.tx.ring();
                    issued += 1;
                } else if let Some(event) = rig.eq.poll() {
                    assert_eq!(event.code(), C_RC_OK);
                    good += 1;
                    rig.eq.acknowledge();
                }
            }
            remote.partner.kill();
            while good + bad < issued {
                match rig.eq.wait().code() {
                    C_RC_OK => good += 1,
                    C_RC_UNDELIVERABLE => bad += 1,
                    other => panic!("return code {other}"),
                }
            }
            assert_eq!(rig.eq.poll(), None);
            rig.tx.drain();
        }
        // The queue is as good as new.
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let dfa = rig.dfa(0);
        assert_eq!(put(&mut rig, &source, 8, dfa), C_RC_OK);
    });
}

#[test]
fn an_initiator_killed_under_traffic_leaves_the_target_usable() {
    alone(|| {
        if played() {
            return;
        }
        let test = "an_initiator_killed_under_traffic_leaves_the_target_usable";
        let mut rig = Rig::on(1);
        let sink = rig.buffer(PAGE);
        rig.target_with(0, &sink, |_| {});
        let dfa = rig.dfa(0).to_string();
        for _ in 0..4 {
            let mut partner = Partner::start(test, "initiator");
            partner.tell(&dfa);
            for _ in 0..500 {
                let event = rig.teq.wait();
                assert_eq!((event.kind(), event.code()), (C_EVENT_PUT, C_RC_OK));
            }
            partner.kill();
            while rig.teq.poll().is_some() {
                rig.teq.acknowledge();
            }
        }
        let source = rig.buffer(PAGE);
        source.pages.fill(3);
        let dfa = rig.dfa(0);
        assert_eq!(put(&mut rig, &source, 3000, dfa), C_RC_OK);
        assert!(sink.pages.is(0, 3000, 3));
    });
}

#[test]
fn an_address_leads_to_whoever_has_it_now() {
    alone(|| {
        let mut rig = Rig::on(0);
        let source = rig.buffer(PAGE);
        for round in 0..3 {
            let mut owner = Rig::on(1);
            let sink = owner.buffer(PAGE);
            owner.target(0, &sink);
            assert_eq!(owner.pid, 0);
            source.pages.fill(round + 1);
            assert_eq!(
                put(&mut rig, &source, 8, owner.dfa(0)),
                C_RC_OK,
                "round {round}"
            );
            assert!(sink.pages.is(0, 8, round + 1));
        }
    });
}

/// More senders than a port has lanes, one after the other, ended in order and killed.
#[test]
fn lanes_of_those_who_left_are_used_again() {
    alone(|| {
        if played() {
            return;
        }
        let test = "lanes_of_those_who_left_are_used_again";
        let mut rig = Rig::on(1);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let dfa = rig.dfa(0);
        for round in 0..70_u8 {
            let mut sender = Rig::on(0);
            let source = sender.buffer(PAGE);
            source.pages.fill(round + 1);
            assert_eq!(put(&mut sender, &source, 8, dfa), C_RC_OK, "round {round}");
            assert!(sink.pages.is(0, 8, round + 1));
        }
        for _ in 0..70 {
            let mut partner = Partner::start(test, "initiator");
            partner.tell(&dfa.to_string());
            assert_eq!(partner.hear(), "putting");
            partner.kill();
        }
    });
}

#[test]
fn a_port_has_room_for_64_senders_at_a_time() {
    alone(|| {
        let mut rig = Rig::on(1);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let dfa = rig.dfa(0);
        let sender = || {
            let mut sender = Rig::on(0);
            let source = sender.buffer(PAGE);
            let code = put(&mut sender, &source, 8, dfa);
            (sender, source, code)
        };
        let mut senders: Vec<_> = (0..64).map(|_| sender()).collect();
        assert!(senders.iter().all(|(_, _, code)| *code == C_RC_OK));
        let (mut late, source, code) = sender();
        assert_eq!(code, C_RC_RESOURCE_BUSY);
        // Nor can the port send to one more, which could not answer.
        let dfa_of_late = late.dfa(0);
        let own = rig.buffer(PAGE);
        assert_eq!(put(&mut rig, &own, 8, dfa_of_late), C_RC_RESOURCE_BUSY);
        senders.swap_remove(30);
        assert_eq!(put(&mut late, &source, 8, dfa), C_RC_OK);
    });
}

/// A target that does not get a CPU holds its senders up, and loses nothing.
#[test]
fn a_stopped_target_fills_the_queue_and_nothing_is_lost() {
    alone(|| {
        if played() {
            return;
        }
        let test = "a_stopped_target_fills_the_queue_and_nothing_is_lost";
        let mut rig = Rig::on(0);
        let mut remote = Remote::start(test, "target 1");
        let source = rig.buffer(LEN);
        source.pages.fill(7);
        assert_eq!(put(&mut rig, &source, 1, remote.dfa), C_RC_OK);
        remote.partner.stop(true);
        // More packets than fit into the fabric, from more commands than fit into the ring.
        let len = 16384;
        let commands = rig.tx.free() / 2;
        let begun = rig.tx.wp / 2;
        for number in 0..commands {
            let put = rig.dma_put(&source, 0, len, |put| {
                let offset = u64::from(len) * number as u64;
                put.set_dfa(remote.dfa).set_remote_offset(offset);
            });
            rig.tx.write(&put);
        }
        rig.tx.ring();
        // The NIC takes what the fabric has room for and no more: 64 packets, and one put begun.
        let taken = |rig: &Rig| usize::from(rig.tx.status().rd_ptr());
        wait_for("the fabric to be full", || {
            progress(rig.dev);
            (taken(&rig) != begun).then_some(())
        });
        for _ in 0..10_000 {
            progress(rig.dev);
            assert!(
                (taken(&rig) + 60 - begun) % 60 < 20,
                "the fabric cannot hold that much"
            );
        }
        assert!(rig.tx.free() < rig.tx.size32 - 10);
        assert_eq!(rig.eq.poll(), None);
        remote.partner.stop(false);
        for _ in 0..commands {
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
        }
        assert_eq!(remote.count(7), commands * len as usize);
        remote.partner.end();
    });
}

#[test]
fn a_fence_waits_for_a_slow_target() {
    alone(|| {
        if played() {
            return;
        }
        let mut rig = Rig::on(0);
        let mut remote = Remote::start("a_fence_waits_for_a_slow_target", "target 1");
        let source = rig.buffer(PAGE);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let put = |user_ptr, dfa| {
            rig.dma_put(&source, 0, 8, |put| {
                put.set_user_ptr(user_ptr).set_dfa(dfa);
            })
        };
        let (slow, fast) = (put(1, remote.dfa), put(2, rig.dfa(0)));
        remote.partner.stop(true);
        // Without a fence, the quick one is not held up.
        rig.tx.emit(&slow);
        assert_eq!(rig.run(&fast).0[0], 2);
        rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
        rig.tx.emit(&fast);
        rig.tx.ring();
        for _ in 0..10_000 {
            assert_eq!(rig.eq.poll(), None);
        }
        remote.partner.stop(false);
        assert_eq!([rig.eq.wait().0[0], rig.eq.wait().0[0]], [1, 2]);
        remote.partner.end();
    });
}

/// A lane may change hands with packets in it that nobody has read.
#[test]
fn a_new_sender_goes_on_behind_what_an_earlier_one_left() {
    alone(|| {
        if played() {
            return;
        }
        let test = "a_new_sender_goes_on_behind_what_an_earlier_one_left";
        let mut remote = Remote::start(test, "target 1");
        let sent = |sender: &mut Rig, source: &Buffer| {
            let put = sender.dma_put(source, 0, 8, |put| {
                put.set_dfa(remote.dfa);
            });
            sender.tx.emit(&put);
            sender.tx.ring();
            sender.tx.drain();
        };
        remote.partner.stop(true);
        let mut first = Rig::on(0);
        let source = first.buffer(PAGE);
        for _ in 0..10 {
            sent(&mut first, &source);
        }
        drop(first);
        let mut second = Rig::on(0);
        let source = second.buffer(PAGE);
        source.pages.fill(5);
        sent(&mut second, &source);
        remote.partner.stop(false);
        assert_eq!(second.eq.wait().code(), C_RC_OK);
        for _ in 0..100 {
            sent(&mut second, &source);
            assert_eq!(second.eq.wait().code(), C_RC_OK);
        }
        assert_eq!(remote.count(5), 8);
        remote.partner.end();
    });
}

/// The lane that an answer will come through is taken before the put is sent.
#[test]
fn a_put_on_its_way_keeps_room_for_its_answer() {
    alone(|| {
        if played() {
            return;
        }
        let test = "a_put_on_its_way_keeps_room_for_its_answer";
        let mut remote = Remote::start(test, "target 1");
        let mut rig = Rig::on(0);
        let source = rig.buffer(PAGE);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        remote.partner.stop(true);
        let to_remote = rig.dma_put(&source, 0, 8, |put| {
            put.set_dfa(remote.dfa);
        });
        rig.tx.emit(&to_remote);
        rig.tx.ring();
        rig.tx.drain();
        let dfa = rig.dfa(0);
        let sender = || {
            let mut sender = Rig::on(2);
            let source = sender.buffer(PAGE);
            (put(&mut sender, &source, 8, dfa), sender)
        };
        let senders: Vec<_> = (0..63).map(|_| sender()).collect();
        assert!(senders.iter().all(|(code, _)| *code == C_RC_OK));
        assert_eq!(sender().0, C_RC_RESOURCE_BUSY);
        remote.partner.stop(false);
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
        remote.partner.end();
    });
}
