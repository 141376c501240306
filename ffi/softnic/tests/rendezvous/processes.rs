//! Source and target in processes of their own, and the death of one.

use cxi_sys::*;

use crate::bench::*;
use crate::driver::alone::{Partner, alone, listen, role, say};
use crate::driver::memory::{Buffer, PAGE, Pages, RW};
use crate::driver::rig::{Rig, whole};
use crate::driver::target_event::Completion;
use crate::driver::{progress, wait_for};

/// The partner sends what it is told to, and answers gets in its sleep.
fn play_source(len: usize) {
    let mut bench = Bench::new(len);
    say(&format!("{}", bench.rig.pid));
    while let Some(line) = listen() {
        let number = |at| line.split(' ').nth(at).unwrap().parse::<u32>().unwrap();
        let (dfa, length, eager) = (number(0), number(1), number(2));
        let put = bench.put(0, length as usize, |put| {
            put.set_dfa(dfa).set_eager_length(eager);
        });
        bench.rig.tx.emit(&put);
        bench.rig.tx.ring();
        say("sent");
        let ack = bench.rig.eq.wait();
        say(&format!("ack {}", ack.code()));
    }
}

/// A target whose entry takes from a partner.
fn target_of(partner: &mut Partner, len: usize) -> Bench {
    let pid = partner.hear();
    let mut bench = Bench::new(len);
    let matches = match_id(pid.parse().unwrap(), bench.rig.nid);
    bench.offer(3, |entry| _ = entry.set_match_id(matches));
    bench
}

#[test]
fn two_processes() {
    alone(|| {
        const LEN: usize = 1 << 20;
        if role().is_some() {
            return play_source(LEN);
        }
        let mut partner = Partner::start("processes::two_processes", "source");
        let mut bench = target_of(&mut partner, LEN);
        for (length, eager) in [
            (LEN, 0),
            (LEN, 100_000),
            (1000, 2000),
            (8, 0),
            (LEN, 1_048_575),
        ] {
            bench.sink.pages.fill(0);
            partner.tell(&format!("{} {length} {eager}", bench.rig.dfa(0)));
            let (put, _, reply) = bench.three();
            let moved = eager.min(length);
            assert_eq!((put.mlength, put.rlength), (moved as u32, length as u32));
            assert_eq!(
                (reply.code, reply.mlength),
                (C_RC_OK, (length - moved) as u32)
            );
            let sent = bench.source.pages.read(0, length);
            assert!(bench.sink.pages.read(0, length) == sent);
            assert_eq!(partner.hear(), "sent");
            assert_eq!(partner.hear(), "ack 1");
        }
        partner.end();
    });
}

#[test]
fn a_source_that_is_killed_before_the_get() {
    alone(|| {
        if role().is_some() {
            return play_source(PAGE);
        }
        let mut partner = Partner::start(
            "processes::a_source_that_is_killed_before_the_get",
            "source",
        );
        let mut bench = target_of(&mut partner, PAGE);
        // The put is unexpected, and its source is gone when it is expected.
        let unlink =
            crate::driver::commands::target(C_CMD_TGT_UNLINK, bench.portal.number, |entry| {
                entry.set_buffer_id(3);
            });
        bench.rig.tgt.emit(&unlink);
        bench.rig.tgt.ring();
        assert_eq!(bench.target_event().kind, C_EVENT_UNLINK);
        bench.offer(4, |entry| {
            entry
                .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
                .set_match_id(u32::MAX);
        });
        partner.tell(&format!("{} 4000 10", bench.rig.dfa(0)));
        assert_eq!(bench.target_event().kind, C_EVENT_PUT);
        assert_eq!(partner.hear(), "sent");
        assert_eq!(partner.hear(), "ack 1");
        partner.kill();
        let sink = bench.sink;
        let found = bench.rig.append(bench.portal, |entry| {
            whole(entry, &sink);
            entry.set_match_bits(M).set_match_id(u32::MAX);
        });
        assert_eq!(found.kind(), C_EVENT_PUT_OVERFLOW);
        assert_eq!(bench.target_event().kind, C_EVENT_RENDEZVOUS);
        // Others use the NIC: it is there, and the source is not. So the get ends at once.
        let reply = bench.reply();
        assert_eq!((reply.code, reply.rendezvous), (C_RC_PTLTE_NOT_FOUND, true));
        assert_eq!(bench.target_event().kind, C_EVENT_LINK);
    });
}

/// Memory that costs nothing while nobody touches it.
fn untouched(len: usize) -> Pages {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping anywhere concerns nobody else.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.expose_provenance();
    Pages {
        base: base.cast(),
        len,
    }
}

#[test]
fn a_source_that_is_killed_during_the_get() {
    alone(|| {
        // So much that it cannot have ended before the kill.
        const LEN: usize = 1 << 30;
        let buffer = |rig: &Rig| Buffer::over(rig.lni, untouched(LEN), RW);
        if role().is_some() {
            let mut rig = Rig::new();
            let source = buffer(&rig);
            let portal = rig.portal(SOURCES, |options| options.set_is_matching(1));
            rig.set_state(portal, C_PTLTE_ENABLED);
            rig.append(portal, |entry| {
                whole(entry, &source);
                entry
                    .set_op_get(true)
                    .set_ignore_bits(u64::MAX)
                    .set_match_id(u32::MAX);
            });
            say(&format!("{}", rig.pid));
            let dfa = listen().unwrap().parse().unwrap();
            let put = rig.dma_put(&source, 0, LEN as u32, |put| {
                put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                    .set_initiator(match_id(rig.pid, rig.nid))
                    .set_dfa(dfa);
            });
            rig.tx.emit(&put);
            rig.tx.ring();
            listen();
            return;
        }
        let mut partner = Partner::start(
            "processes::a_source_that_is_killed_during_the_get",
            "source",
        );
        partner.hear();
        let mut rig = Rig::new();
        let sink = buffer(&rig);
        rig.target_with(0, &sink, |_| {});
        sink.pages.write(0, &[0xff]);
        partner.tell(&rig.dfa(0).to_string());
        wait_for("the first data", || {
            progress(rig.dev);
            sink.pages.is(0, 1, 0).then_some(())
        });
        partner.kill();
        assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
        assert_eq!(rig.teq.wait().kind(), C_EVENT_RENDEZVOUS);
        let reply = Completion::of(&rig.teq.wait());
        assert_eq!(
            (reply.kind, reply.code),
            (C_EVENT_REPLY, C_RC_UNDELIVERABLE)
        );
    });
}

#[test]
fn a_target_that_is_killed_before_it_answers() {
    alone(|| {
        if role().is_some() {
            let mut rig = Rig::new();
            let sink = rig.buffer(PAGE);
            rig.target(0, &sink);
            say(&rig.dfa(0).to_string());
            listen();
            return;
        }
        let mut partner = Partner::start(
            "processes::a_target_that_is_killed_before_it_answers",
            "target",
        );
        let dfa = partner.hear().parse().unwrap();
        let mut bench = Bench::new(PAGE);
        partner.stop(true);
        let put = bench.put(0, 1000, |put| {
            put.set_dfa(dfa).set_eager_length(10);
        });
        bench.rig.tx.emit(&put);
        bench.rig.tx.ring();
        bench.rig.tx.drain();
        partner.kill();
        let ack = bench.rig.eq.wait();
        assert_eq!((ack.kind(), ack.code()), (C_EVENT_ACK, C_RC_UNDELIVERABLE));
    });
}
