//! Atomic operations: every form of command reaches the target with all its operands, and failures
//! are reported. `ffi/softnic` tests the arithmetic of all combinations.

use cxi::EventType;
use cxi::records::IdcAmoCmd;
use cxi::sys::*;

use crate::rig::*;

/// Match bits of the list entry that matches, and of one before it.
const WANTED: u64 = 1;
const UNWANTED: u64 = 2;

/// The kind of command that carries an atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandKind {
    Immediate { restricted: bool },
    Dma { restricted: bool },
    Matching,
}

const COMMAND_KINDS: [CommandKind; 5] = [
    CommandKind::Immediate { restricted: true },
    CommandKind::Immediate { restricted: false },
    CommandKind::Dma { restricted: true },
    CommandKind::Dma { restricted: false },
    CommandKind::Matching,
];

/// An atomic operation, as the numbers of a command.
#[derive(Clone, Copy, Debug)]
struct Amo {
    op: c_atomic_op,
    kind: c_atomic_type,
    fetching: bool,
}

impl Amo {
    fn completes_with(self) -> EventType {
        if self.fetching { EventType::REPLY } else { EventType::ACK }
    }
}

const SUM: Amo = Amo { op: C_AMO_OP_SUM, kind: C_AMO_TYPE_UINT32_T, fetching: false };

/// Byte offsets of target, operand and result in their buffers.
const TARGET: usize = 256;
const OPERAND: usize = 3;
const RESULT: usize = 65;

/// A rig with a list entry for each command kind.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let mut entry = rig.entry(rig.matching.number());
    for match_bits in [UNWANTED, WANTED] {
        entry.set_match_bits(match_bits);
        // An operation on the wrong entry is out of bounds.
        entry.set_length(if match_bits == WANTED { LEN as u64 } else { 0 });
        rig.append(&entry);
    }
    rig
}

/// Issues an operation on byte `target` of the target's buffer and waits for its event.
fn run(rig: &mut Rig, kind: CommandKind, amo: Amo, target: usize, a: u128, b: u128) -> Completion {
    let words = |value: u128| (value as u64, (value >> 64) as u64);
    let (b1, b2) = words(b);
    let (index, restricted) = match kind {
        CommandKind::Immediate { restricted } => {
            let (a1, a2) = words(a);
            let c_state = rig.c_state(PLAIN, restricted);
            let mut command = IdcAmoCmd::new();
            command
                .set_dfa(rig.dfa(PLAIN))
                .set_remote_offset(target as u64)
                .set_local_addr(rig.local.iova(RESULT))
                .set_atomic_op(amo.op as u8)
                .set_atomic_type(amo.kind as u8)
                .set_cswap_op(C_AMO_OP_CSWAP_EQ as u8)
                .set_op1_word1(a1)
                .set_op1_word2(a2)
                .set_op2_word1(b1)
                .set_op2_word2(b2);
            let mut batch = rig.transmit.batch();
            batch.emit_c_state(&c_state).unwrap();
            batch.emit_idc_amo(&command, amo.fetching).unwrap();
            batch.commit_low_latency();
            return rig.completion();
        }
        CommandKind::Dma { restricted } => (PLAIN, restricted),
        CommandKind::Matching => (MATCHING, false),
    };
    let mut command = dma_amo(&rig.dma(0, index, 8));
    command
        .set_restricted(restricted)
        .set_remote_offset(target as u64)
        .set_local_read_addr(rig.local.iova(OPERAND))
        .set_local_write_addr(rig.local.iova(RESULT))
        .set_write_lac(rig.local.lac())
        .set_match_bits(WANTED)
        .set_atomic_op(amo.op as u8)
        .set_atomic_type(amo.kind as u8)
        .set_cswap_op(C_AMO_OP_CSWAP_EQ as u8)
        .set_op2_word1(b1)
        .set_op2_word2(b2);
    rig.local.copy_in(OPERAND, &a.to_le_bytes()).unwrap();
    let mut batch = rig.transmit.batch();
    batch.emit_dma_amo(&command, amo.fetching).unwrap();
    batch.commit_low_latency();
    rig.completion()
}

#[test]
fn carries_all_operands_in_every_command_kind() {
    const WIDE: u128 = 0x1111_2222_3333_4444_5555_6666_7777_8888;
    const NEW: u128 = 0xffee_ddcc_bbaa_9988_7766_5544_3322_1100;
    let swap = C_AMO_OP_CSWAP;
    let cases: [(c_atomic_op, c_atomic_type, usize, u128, u128, u128, u128); 5] = [
        // Operation, type, its size; target, operands 1 and 2, result.
        (C_AMO_OP_SUM, C_AMO_TYPE_UINT8_T, 1, 0xf0, 0x21, 0, 0x11),
        (C_AMO_OP_SUM, C_AMO_TYPE_UINT64_T, 8, 1 << 63, 7, 0, 1 << 63 | 7),
        (C_AMO_OP_AXOR, C_AMO_TYPE_UINT64_T, 8, 0xff0f, 0x3, 0xff, 0xff03),
        (swap, C_AMO_TYPE_UINT128_T, 16, WIDE, NEW, WIDE, NEW),
        (swap, C_AMO_TYPE_UINT128_T, 16, WIDE, NEW, WIDE ^ 1 << 64, WIDE),
    ];
    let mut rig = rig();
    for kind in COMMAND_KINDS {
        for fetching in [false, true] {
            for (op, amo_kind, size, before, a, b, after) in cases {
                let amo = Amo { op, kind: amo_kind, fetching };
                rig.remote.fill(0x5a).unwrap();
                rig.local.fill(0xa5).unwrap();
                let target = &before.to_le_bytes()[..size];
                rig.remote.copy_in(TARGET, target).unwrap();
                let expected = Completion {
                    kind: amo.completes_with(),
                    code: "OK",
                    user_ptr: USER_PTR,
                    mlength: size as u32,
                    tgt_error: false,
                };
                assert_eq!(run(&mut rig, kind, amo, TARGET, a, b), expected);
                let around = |bytes: &[u8], filler| [&[filler; 8], bytes, &[filler; 8]].concat();
                let bytes = |region, at: usize| Rig::bytes_of(region, at - 8, size + 16);
                assert_eq!(
                    bytes(&rig.remote, TARGET),
                    around(&after.to_le_bytes()[..size], 0x5a),
                    "target of {kind:?} {amo:?}"
                );
                let fetched = if fetching { target } else { &[0xa5; 16][..size] };
                assert_eq!(
                    bytes(&rig.local, RESULT),
                    around(fetched, 0xa5),
                    "result of {kind:?} {amo:?}"
                );
            }
        }
    }
}

/// Expects an operation to fail with `code` at the target and to change nothing.
fn check_failure(rig: &mut Rig, kind: CommandKind, amo: Amo, target: usize, code: &'static str) {
    rig.remote.fill(0x11).unwrap();
    rig.local.fill(0x22).unwrap();
    let expected = Completion {
        kind: amo.completes_with(),
        code,
        user_ptr: USER_PTR,
        mlength: 0,
        tgt_error: true,
    };
    assert_eq!(run(rig, kind, amo, target, 1, 1), expected, "{kind:?} {amo:?}");
    assert!(Rig::bytes_of(&rig.remote, 0, 1024) == [0x11; 1024], "{kind:?} {amo:?}");
    assert!(Rig::bytes_of(&rig.local, 32, 992) == [0x22; 992], "{kind:?} {amo:?}");
    let reported = next(&mut rig.target_events, |event| event.event_type());
    let expected = if amo.fetching { EventType::FETCH_ATOMIC } else { EventType::ATOMIC };
    assert_eq!(reported, expected);
}

#[test]
fn reports_invalid_misaligned_and_out_of_bounds_operations() {
    let mut rig = rig();
    for kind in COMMAND_KINDS {
        for fetching in [false, true] {
            let sum = Amo { fetching, ..SUM };
            for (op, kind_of_value) in [(15, SUM.kind), (C_AMO_OP_SUM, 15)] {
                let invalid = Amo { op, kind: kind_of_value, fetching };
                check_failure(&mut rig, kind, invalid, TARGET, "AMO_INVAL_OP_ERROR");
            }
            for misaligned in 1..4 {
                let target = TARGET + misaligned;
                check_failure(&mut rig, kind, sum, target, "AMO_ALIGN_ERROR");
            }
            assert_eq!(run(&mut rig, kind, sum, LEN - 4, 0, 0).code, "OK");
            for beyond in [LEN, LEN + 4, 1 << 40] {
                check_failure(&mut rig, kind, sum, beyond, "NO_SPACE");
            }
        }
    }
}

#[test]
fn requires_rights_of_list_entry() {
    let mut rig = Rig::new();
    for kind in COMMAND_KINDS {
        for (put, get, fetching, allowed) in [
            (false, false, false, false),
            (false, true, false, false),
            (true, false, false, true),
            (false, false, true, false),
            (false, true, true, false),
            (true, false, true, false),
            (true, true, true, true),
        ] {
            let number = if kind == CommandKind::Matching {
                rig.matching.number()
            } else {
                rig.plain.number()
            };
            let mut entry = rig.entry(number);
            entry.set_match_bits(WANTED).set_op_put(put).set_op_get(get);
            rig.append(&entry);
            let amo = Amo { fetching, ..SUM };
            if allowed {
                assert_eq!(run(&mut rig, kind, amo, TARGET, 0, 0).code, "OK");
            } else {
                check_failure(&mut rig, kind, amo, TARGET, "OP_VIOLATION");
            }
            rig.unlink(&entry);
        }
    }
}
