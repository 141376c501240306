//! Puts of every kind and size: the bytes are at the target, and nothing around them changed.

mod driver;

use cxi_sys::*;
use driver::alone::alone;
use driver::commands::{c_state, idc_put};
use driver::memory::{Buffer, PAGE};
use driver::rig::Rig;

/// Surrounds what a put may write.
const UNTOUCHED: u8 = 0xee;

/// Bytes that differ from each other and from `UNTOUCHED`.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| ((at * 7 + at / 251 + seed) % 0xed) as u8)
        .collect()
}

/// The sink holds `expected` at `offset`, and nothing else was written. Makes it ready for the next put.
fn check(sink: &Buffer, offset: usize, expected: &[u8], what: &str) {
    let all = sink.pages.read(0, sink.pages.len);
    let end = offset + expected.len();
    assert!(all[offset..end] == *expected, "{what}: bytes");
    assert!(
        all[..offset].iter().all(|byte| *byte == UNTOUCHED),
        "{what}: before"
    );
    assert!(
        all[end..].iter().all(|byte| *byte == UNTOUCHED),
        "{what}: behind"
    );
    sink.pages.write(offset, &vec![UNTOUCHED; expected.len()]);
}

#[test]
fn immediate_puts_of_every_size() {
    alone(|| {
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        sink.pages.fill(UNTOUCHED);
        rig.target(0, &sink);
        for (restricted, limit) in [(true, 224), (false, 192)] {
            rig.tx.emit(&c_state(rig.eq.number, restricted, |_| {}));
            for len in 0..=limit {
                let payload = pattern(len, 3 * len);
                let offset = 64 + len % 17;
                let put = idc_put(rig.dfa(0), offset as u64, &payload);
                assert_eq!(rig.code(&put), C_RC_OK);
                check(
                    &sink,
                    offset,
                    &payload,
                    &format!("{len} restricted {restricted}"),
                );
            }
        }
    });
}

#[test]
fn dma_puts_of_all_kinds_around_the_packet_size() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(6 * 2048 + PAGE);
        source.pages.write(0, &pattern(source.pages.len, 1));
        let sink = rig.buffer(6 * 2048 + PAGE);
        sink.pages.fill(UNTOUCHED);
        rig.target(0, &sink);
        let mtu = 2048;
        for len in [
            0,
            1,
            7,
            8,
            15,
            16,
            17,
            mtu - 1,
            mtu,
            mtu + 1,
            2 * mtu,
            5 * mtu + 3,
        ] {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 11), (8, 8)] {
                let what = format!("{len} bytes from {from} to {to}");
                let bytes = source.pages.read(from, len);
                let (len, remote) = (len as u32, to as u64);
                let restricted = rig.nomatch_put(&source, from, len, |put| {
                    put.set_remote_offset(remote);
                });
                let unrestricted = rig.nomatch_put(&source, from, len, |put| {
                    put.set_remote_offset(remote).set_restricted(false);
                });
                let full = rig.dma_put(&source, from, len, |put| {
                    put.set_remote_offset(remote);
                });
                for put in [restricted, unrestricted, full] {
                    assert_eq!(rig.code(&put), C_RC_OK, "{what}");
                    check(&sink, to, &bytes, &what);
                }
            }
        }
    });
}

#[test]
fn a_mebibyte_in_one_put() {
    alone(|| {
        let mut rig = Rig::new();
        let len = 1 << 20;
        let source = rig.buffer(len);
        source.pages.write(0, &pattern(len, 9));
        let sink = rig.buffer(len + PAGE);
        sink.pages.fill(UNTOUCHED);
        rig.target(0, &sink);
        let put = rig.dma_put(&source, 0, len as u32, |put| {
            put.set_remote_offset(100);
        });
        let ack = rig.run(&put);
        assert_eq!((ack.kind(), ack.code()), (C_EVENT_ACK, C_RC_OK));
        assert_eq!(ack.0[8..12], (len as u32).to_le_bytes(), "mlength");
        check(&sink, 100, &pattern(len, 9), "1 MiB");
        assert!(rig.eq.poll().is_none(), "one ACK a put");
    });
}

#[test]
fn puts_of_one_queue_arrive_in_order() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        for round in 0..200_usize {
            // The later one of two puts to the same place wins, however they were sent.
            source.pages.write(0, &[round as u8; 3000]);
            rig.tx.emit(&c_state(rig.eq.number, false, |_| {}));
            let long = rig.dma_put(&source, 0, 3000, |_| {});
            rig.tx.emit(&long);
            rig.tx
                .emit(&idc_put(rig.dfa(0), 2000, &[!(round as u8); 100]));
            rig.tx.ring();
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
            assert_eq!(sink.pages.read(2000, 100), [!(round as u8); 100]);
            assert_eq!(sink.pages.read(0, 2000), [round as u8; 2000]);
        }
    });
}
