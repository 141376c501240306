//! The link model and the faults, as a program meets them.

mod driver;

use std::time::{Duration, Instant};

use cxi_sys::*;
use driver::alone::{Partner, alone, listen, role, say};
use driver::commands::{append, set_state};
use driver::memory::PAGE;
use driver::rig::{Rig, address, whole};
use driver::{progress, wait_for};

const LEN: usize = 1 << 20;

/// Has devices that this process and its partners open from now on read a variable.
fn set(variable: &str, value: &str) {
    // SAFETY: this process has no other thread that reads or writes the environment.
    unsafe { std::env::set_var(variable, value) };
}

/// The return codes of puts to this device itself, and whether the bytes of each arrived.
fn outcome(faults: &str) -> Vec<(u32, bool)> {
    set("CXIDIAG_FAULTS", faults);
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let source = rig.buffer(PAGE);
    let put = |rig: &mut Rig, number: usize| {
        source.pages.fill(number as u8 + 1);
        let put = rig.dma_put(&source, 0, 2048, |_| {});
        let code = rig.code(&put);
        (code, sink.pages.is(0, 2048, number as u8 + 1))
    };
    (0..200).map(|number| put(&mut rig, number)).collect()
}

#[test]
fn the_same_seed_has_the_same_outcome() {
    alone(|| {
        let faults = |seed| {
            format!(
                "seed={seed},loss=0.5,retry=1ns,error=NO_SPACE:0.1,error=PT_DISABLED@100,delay=0.1:1us"
            )
        };
        let first = outcome(&faults(7));
        assert_eq!(outcome(&faults(7)), first);
        assert_ne!(outcome(&faults(8)), first);
        let count = |wanted| first.iter().filter(|(code, _)| *code == wanted).count();
        for code in [C_RC_OK, C_RC_NO_SPACE, C_RC_UNDELIVERABLE] {
            assert_ne!(count(code), 0, "{code}: {first:?}");
        }
        // An answer that is lost leaves the bytes where they are.
        let wrong = |(code, arrived): &&(u32, bool)| match *code {
            C_RC_OK => !arrived,
            C_RC_UNDELIVERABLE => false,
            _ => *arrived,
        };
        assert_eq!(first.iter().find(wrong), None);
    });
}

/// Each code that there can be, known or not, on one operation and on no other.
#[test]
fn every_return_code_on_the_operation_with_its_number() {
    alone(|| {
        let faults: Vec<String> = (2..64)
            .map(|code| format!("error={code}@{}", 2 * code))
            .collect();
        let outcome = outcome(&faults.join(","));
        for (index, (code, arrived)) in outcome.into_iter().enumerate() {
            let number = index as u32 + 1;
            let expected = match number {
                4..128 if number.is_multiple_of(2) => number / 2,
                _ => C_RC_OK,
            };
            assert_eq!(code, expected, "operation {number}");
            assert_eq!(arrived, code == C_RC_OK, "operation {number}");
        }
    });
}

/// What is on its way takes no cells: the queue is emptied long before the first packet arrives.
#[test]
fn a_long_latency_does_not_hold_the_sender_up() {
    alone(|| {
        set("CXIDIAG_LINK", "latency=3600s");
        let mut rig = Rig::new();
        let source = rig.buffer(LEN);
        let dfa = rig.dfa(0);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        // 2048 packets.
        for _ in 0..4 {
            let put = rig.dma_put(&source, 0, LEN as u32, |put| {
                put.set_dfa(dfa);
            });
            rig.tx.emit(&put);
        }
        rig.tx.ring();
        rig.tx.drain();
        assert_eq!(rig.eq.poll(), None);
        // But there is an end: some 4160 packets.
        let begun = rig.tx.wp / 2;
        for _ in 0..12 {
            let put = rig.dma_put(&source, 0, LEN as u32, |put| {
                put.set_dfa(dfa);
            });
            rig.tx.emit(&put);
        }
        rig.tx.ring();
        let taken = |rig: &Rig| usize::from(rig.tx.status().rd_ptr()) - begun;
        wait_for("packets to fill all there is", || {
            progress(rig.dev);
            (taken(&rig) == 5).then_some(())
        });
        for _ in 0..10_000 {
            progress(rig.dev);
            assert_eq!(taken(&rig), 5, "four, and one begun");
        }
        assert_eq!(rig.eq.poll(), None);
    });
}

#[test]
fn packets_that_waited_outside_their_ring_arrive_in_order() {
    alone(|| {
        set("CXIDIAG_LINK", "latency=20ms,bandwidth=20MB/s");
        set("CXIDIAG_FAULTS", "delay=0.1:1ms");
        let begin = Instant::now();
        let mut rig = Rig::new();
        let sink = rig.buffer(LEN);
        rig.target_with(0, &sink, |_| {});
        let source = rig.buffer(LEN);
        for at in 0..LEN {
            source.pages.byte(at).store(
                (at / 2048 % 251) as u8,
                std::sync::atomic::Ordering::Relaxed,
            );
        }
        const PUTS: usize = 16;
        let len = LEN / PUTS;
        for number in 0..PUTS {
            let put = rig.dma_put(&source, number * len, len as u32, |put| {
                put.set_remote_offset((number * len) as u64)
                    .set_user_ptr(number as u64);
            });
            rig.tx.emit(&put);
        }
        rig.tx.ring();
        for number in 0..PUTS as u64 {
            let ack = rig.eq.wait();
            assert_eq!((ack.0[0].into(), ack.code()), (number, C_RC_OK));
            let event = rig.teq.wait();
            assert_eq!((event.kind(), event.code()), (C_EVENT_PUT, C_RC_OK));
        }
        assert!(source.pages.read(0, LEN) == sink.pages.read(0, LEN));
        // 512 packets of 2112 bytes, and there and back.
        assert!(begin.elapsed() >= Duration::from_millis(54 + 40));
    });
}

/// Offers a target, and ends when it is told, answers under way or not.
fn target() {
    let mut rig = Rig::on(1);
    let sink = rig.buffer(PAGE);
    rig.target_with(0, &sink, |_| {});
    say(&format!("{} {}", rig.nid, rig.pid));
    let event = rig.teq.wait();
    say(&event.code().to_string());
    listen();
}

/// An answer takes its time on the link, while its sender is gone already and is known to be.
#[test]
fn the_last_packets_of_a_nic_that_left_arrive() {
    alone(|| {
        set("CXIDIAG_LINK", "latency=400ms");
        if role().is_some() {
            return target();
        }
        let mut partner = Partner::start("the_last_packets_of_a_nic_that_left_arrive", "target");
        let line = partner.hear();
        let (nid, pid) = line.split_once(' ').unwrap();
        let (dfa, _) = address(nid.parse().unwrap(), pid.parse().unwrap(), 0);
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        let put = rig.dma_put(&source, 0, 8, |put| {
            put.set_dfa(dfa);
        });
        rig.tx.emit(&put);
        rig.tx.ring();
        rig.tx.drain();
        assert_eq!(partner.hear(), C_RC_OK.to_string());
        partner.end();
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
        // Then it is gone.
        assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    });
}

/// The NIC's own thread sleeps while packets are far off, and is there in time.
#[test]
fn programs_that_only_look_at_their_memory() {
    alone(|| {
        set("CXIDIAG_LINK", "latency=30ms");
        let begin = Instant::now();
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        let portal = rig.portal(0, |_| {});
        rig.tgt.write(&set_state(portal.number, C_PTLTE_ENABLED));
        rig.tgt.ring();
        assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_STATE_CHANGE);
        rig.tgt
            .write(&append(portal.number, |entry| whole(entry, &sink)));
        rig.tgt.ring();
        assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_LINK);
        let source = rig.buffer(PAGE);
        let put = rig.dma_put(&source, 0, 4000, |_| {});
        rig.tx.write(&put);
        rig.tx.ring();
        assert_eq!(rig.teq.wait_inline().code(), C_RC_OK);
        assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
        assert!(begin.elapsed() >= Duration::from_millis(60));
    });
}

#[test]
fn a_link_that_is_down_is_told_and_comes_up_again() {
    alone(|| {
        let rig = |down| {
            set("CXIDIAG_FAULTS", down);
            let mut rig = Rig::new();
            // SAFETY: the device is open.
            let state = unsafe { (*rig.dev).info.link_state };
            let sink = rig.buffer(PAGE);
            rig.target(0, &sink);
            let source = rig.buffer(PAGE);
            let put = rig.dma_put(&source, 0, 8, |_| {});
            ((rig, put, sink, source), state)
        };
        let ((mut dead, put, ..), state) = rig("down=0s");
        assert_eq!((state, dead.code(&put)), (0, C_RC_UNDELIVERABLE));
        let ((mut up, put, ..), state) = rig("down=3600s");
        assert_eq!((state, up.code(&put)), (1, C_RC_OK));
        let ((mut rig, put, ..), _) = rig("down=0s:50ms");
        let code = wait_for("the link to come up", || {
            let code = rig.code(&put);
            (code != C_RC_UNDELIVERABLE).then_some(code)
        });
        assert_eq!(code, C_RC_OK);
    });
}

/// Nothing comes in either, of what others send whose links are up.
#[test]
fn a_target_whose_link_is_down_keeps_its_bytes() {
    alone(|| {
        let mut rig = Rig::new();
        set("CXIDIAG_FAULTS", "down=0s");
        let mut target = Rig::on(1);
        let sink = target.buffer(PAGE);
        target.target(0, &sink);
        let source = rig.buffer(PAGE);
        source.pages.fill(1);
        let dfa = target.dfa(0);
        let put = rig.dma_put(&source, 0, 8, |put| {
            put.set_dfa(dfa);
        });
        assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
        assert!(sink.pages.is(0, 8, 0));
    });
}

#[test]
fn what_cannot_be_is_refused_when_a_device_is_opened() {
    alone(|| {
        let refused = |variable, value| {
            set(variable, value);
            let mut dev = std::ptr::null_mut();
            let code = driver::call!(cxil_open_device(0, &mut dev));
            set(variable, "");
            code
        };
        for item in ["latency=1", "latency=1ns,latency=1ns", "bandwidth=1"] {
            assert_eq!(refused("CXIDIAG_LINK", item), -libc::EINVAL);
        }
        for item in ["loss=2", "error=NONSENSE@1", "down"] {
            assert_eq!(refused("CXIDIAG_FAULTS", item), -libc::EINVAL);
        }
        drop(Rig::new());
    });
}
