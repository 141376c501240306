//! Gets of all lengths, and the fields of their events.

use cxi::EventType;
use cxi::sys::*;

use crate::rig::*;

#[test]
fn gets_bytes_of_any_length_and_no_others() {
    let mut rig = Rig::new();
    let sent = pattern(LEN);
    rig.remote.copy_in(0, &sent).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    // Around the inline limit and the packet size; unaligned at both ends.
    let lengths = [0, 1, 7, 8, 16, 17, 64, 2047, 2048, 2049, 4096, 10_000, LEN - 8];
    for (round, length) in lengths.into_iter().enumerate() {
        for restricted in [false, true] {
            let (from, to) = (3 * (round % 2), 5 - 5 * (round % 2));
            rig.local.fill(0).unwrap();
            let mut get = rig.dma(C_CMD_GET, PLAIN, length as u32);
            get.set_restricted(restricted);
            get.set_remote_offset(from as u64);
            get.set_local_addr(rig.local.iova(to));
            let expected = Completion {
                kind: EventType::REPLY,
                code: "OK",
                user_ptr: USER_PTR,
                mlength: length as u32,
                tgt_error: false,
            };
            assert_eq!(rig.run(&get), expected, "{length} bytes");
            let mut wanted = vec![0; LEN];
            wanted[to..to + length].copy_from_slice(&sent[from..from + length]);
            assert!(Rig::bytes_of(&rig.local, 0, LEN) == wanted, "{length} bytes");
        }
    }
    assert!(Rig::bytes_of(&rig.remote, 0, LEN) == sent);
    assert!(rig.target_events.poll().is_none());
}

#[test]
fn reports_no_user_ptr_for_nonmatching_get() {
    let mut rig = Rig::new();
    rig.remote.copy_in(0, b"behind the portal").unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    for restricted in [false, true] {
        rig.local.fill(0).unwrap();
        let mut get = nomatch(&rig.dma(C_CMD_NOMATCH_GET, PLAIN, 17));
        get.set_restricted(restricted);
        let mut batch = rig.transmit.batch();
        batch.emit_nomatch_dma(&get).unwrap();
        batch.commit_doorbell();
        let seen = rig.completion();
        assert_eq!((seen.kind, seen.code), (EventType::REPLY, "OK"));
        assert_eq!((seen.user_ptr, seen.mlength), (0, 17));
        assert_eq!(Rig::bytes_of(&rig.local, 0, 18), b"behind the portal\0");
    }
}
