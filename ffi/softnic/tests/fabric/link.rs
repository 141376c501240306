//! The link model and injected faults.

use crate::driver::prelude::*;
use std::time::{Duration, Instant};

const LEN: usize = 1 << 20;

/// The return code of each put from a device to itself, and whether its bytes arrived.
fn outcome(faults: &str) -> Vec<(u32, bool)> {
    set("CXIDIAG_FAULTS", faults);
    let (mut rig, source, sink) = Rig::with_target();
    let put = |rig: &mut Rig, number: usize| {
        source.pages.fill(number as u8 + 1);
        let put = rig.dma_put(&source, 0, 2048, |_| {});
        let code = rig.code(&put);
        (code, sink.pages.is(0, 2048, number as u8 + 1))
    };
    (0..200).map(|number| put(&mut rig, number)).collect()
}

#[test]
fn same_seed_repeats_outcome() {
    alone!();
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
    // A lost response does not undo the put.
    let wrong = |(code, arrived): &&(u32, bool)| match *code {
        C_RC_OK => !arrived,
        C_RC_UNDELIVERABLE => false,
        _ => *arrived,
    };
    assert_eq!(first.iter().find(wrong), None);
}

/// Every value of the field, known or not.
#[test]
fn injects_return_code_into_numbered_operation() {
    alone!();
    let faults: Vec<String> = (2..64).map(|code| format!("error={code}@{}", 2 * code)).collect();
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
}

/// The payload of the short put is in the header of its packet.
#[test]
fn inverts_one_byte_of_each_packet_with_data() {
    alone!();
    set("CXIDIAG_FAULTS", "corrupt=1");
    let (mut rig, source, sink) = Rig::with_target();
    source.pages.fill(0x5a);
    for length in [8, 2048, 4096] {
        sink.pages.fill(0);
        let put = rig.dma_put(&source, 0, length as u32, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        let byte = |at| sink.pages.byte(at).load(std::sync::atomic::Ordering::Relaxed);
        let inverted = (0..length).filter(|at| byte(*at) == !0x5a).count();
        let others = (0..length).filter(|at| byte(*at) == 0x5a).count();
        assert_eq!(inverted, length.div_ceil(2048), "{length} bytes");
        assert_eq!(inverted + others, length);
    }
}

/// Packets under way take no cells: the queue is empty long before the first packet arrives.
#[test]
fn long_latency_does_not_block_sender() {
    alone!();
    set("CXIDIAG_LINK", "latency=3600s");
    let mut rig = Rig::new();
    let source = rig.buffer(LEN);
    let dfa = rig.dfa(0);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    // 2048 packets.
    for _ in 0..4 {
        let put = rig.dma_put(&source, 0, LEN as u32, |put| _ = put.set_dfa(dfa));
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    rig.tx.drain();
    assert_eq!(rig.eq.poll(), None);
    // The limit is some 4224 packets.
    let begun = rig.tx.wp / 2;
    for _ in 0..12 {
        let put = rig.dma_put(&source, 0, LEN as u32, |put| _ = put.set_dfa(dfa));
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
}

#[test]
fn delayed_packets_arrive_in_order() {
    alone!();
    set("CXIDIAG_LINK", "latency=20ms,bandwidth=20MB/s");
    set("CXIDIAG_FAULTS", "delay=0.1:1ms");
    let begin = Instant::now();
    let mut rig = Rig::new();
    let sink = rig.buffer(LEN);
    rig.target_with(0, &sink, |_| {});
    let source = rig.buffer(LEN);
    for at in 0..LEN {
        source.pages.byte(at).store((at / 2048 % 251) as u8, std::sync::atomic::Ordering::Relaxed);
    }
    const PUTS: usize = 16;
    let len = LEN / PUTS;
    for number in 0..PUTS {
        let put = rig.dma_put(&source, number * len, len as u32, |put| {
            _ = put.set_remote_offset((number * len) as u64).set_user_ptr(number as u64)
        });
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    for number in 0..PUTS as u64 {
        let ack = rig.eq.wait();
        assert_eq!((ack.0[0].into(), ack.code()), (number, C_RC_OK));
        rig.teq.expect(C_EVENT_PUT, C_RC_OK);
    }
    assert!(source.pages.read(0, LEN) == sink.pages.read(0, LEN));
    // 512 packets of 2112 bytes, and the latency of both directions.
    assert!(begin.elapsed() >= Duration::from_millis(54 + 40));
}

/// Offers a target, and ends with its input, even with responses under way.
fn target() {
    let mut rig = Rig::on(1);
    let sink = rig.buffer(PAGE);
    rig.target_with(0, &sink, |_| {});
    say(&format!("{} {}", rig.nid, rig.pid));
    let event = rig.teq.wait();
    say(&event.code().to_string());
    listen();
}

/// The response is still on the link when its sender has ended.
#[test]
fn delivers_last_packets_of_closed_nic() {
    alone!();
    set("CXIDIAG_LINK", "latency=400ms");
    if role().is_some() {
        return target();
    }
    let mut partner = Partner::start("target");
    let dfa = partner.receive_address();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    let put = rig.put_to(dfa, &source, 8);
    rig.tx.issue(&put);
    rig.tx.drain();
    assert_eq!(partner.receive(), C_RC_OK.to_string());
    partner.end();
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    // The NIC is gone.
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
}

/// The engine thread sleeps until a packet is due.
#[test]
fn engine_thread_delivers_delayed_packets() {
    alone!();
    set("CXIDIAG_LINK", "latency=30ms");
    let begin = Instant::now();
    let (mut rig, _) = crate::foreign::rig(0, |rig| rig.buffer(PAGE));
    let source = rig.buffer(PAGE);
    let put = rig.dma_put(&source, 0, 4000, |_| {});
    rig.tx.write_and_ring(&put);
    assert_eq!(rig.teq.wait_inline().code(), C_RC_OK);
    assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[test]
fn reports_link_that_is_down_until_it_is_up() {
    alone!();
    let rig = |down| {
        set("CXIDIAG_FAULTS", down);
        let mut rig = Rig::new();
        // SAFETY: `rig` keeps the device open.
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
}

/// A link that is down receives nothing, even from links that are up.
#[test]
fn link_that_is_down_protects_target_memory() {
    alone!();
    let mut rig = Rig::new();
    set("CXIDIAG_FAULTS", "down=0s");
    let mut target = Rig::on(1);
    let sink = target.buffer(PAGE);
    target.target(0, &sink);
    let source = rig.buffer(PAGE);
    source.pages.fill(1);
    let dfa = target.dfa(0);
    let put = rig.put_to(dfa, &source, 8);
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    assert!(sink.pages.is(0, 8, 0));
}

#[test]
fn rejects_invalid_conditions_at_open() {
    alone!();
    let refused = |variable, value| {
        set(variable, value);
        let mut dev = std::ptr::null_mut();
        let code = call!(cxil_open_device(0, &mut dev));
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
}
