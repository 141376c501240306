//! Atomic operations: every combination on every way that leads to a target, against a model that
//! was written apart.

use cxi::EventType;
use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::sys::*;

use crate::model::{Random, TYPES, model};
use crate::rig::*;

/// Random operands per combination and way.
const ROUNDS: u32 = 12;

/// Match bits of the entry that is meant, and of one before it.
const WANTED: u64 = 1;
const UNWANTED: u64 = 2;

/// How an atomic operation travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Immediate { restricted: bool },
    Dma { restricted: bool },
    Matching,
}

const WAYS: [Way; 5] = [
    Way::Immediate { restricted: true },
    Way::Immediate { restricted: false },
    Way::Dma { restricted: true },
    Way::Dma { restricted: false },
    Way::Matching,
];

/// Which operation, as the numbers of a command, valid or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Amo {
    op: u8,
    kind: u8,
    comparison: u8,
    fetching: bool,
}

impl Amo {
    fn completes_with(self) -> EventType {
        match self.fetching {
            true => EventType::REPLY,
            false => EventType::ACK,
        }
    }
}

/// Every combination of four bits, four bits and, where it counts, three.
fn combinations() -> impl Iterator<Item = Amo> {
    let ops = (0..16).flat_map(|op| {
        let comparisons = if u32::from(op) == C_AMO_OP_CSWAP {
            8
        } else {
            1
        };
        (0..comparisons).map(move |comparison| (op, comparison))
    });
    ops.flat_map(|(op, comparison)| {
        (0..16).flat_map(move |kind| {
            [false, true].map(|fetching| Amo {
                op,
                kind,
                comparison,
                fetching,
            })
        })
    })
}

/// Where an operation works, in bytes from the beginnings of the buffers.
#[derive(Clone, Copy)]
struct Places {
    target: usize,
    operand: usize,
    result: usize,
}

/// A rig with a target on each way.
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

/// Makes `way` the one of the immediate commands to come, if it is one of those.
fn prepare(rig: &mut Rig, way: Way) {
    if let Way::Immediate { restricted } = way {
        let c_state = rig.c_state(PLAIN, restricted);
        let mut batch = rig.transmit.batch();
        batch.emit_c_state(&c_state).unwrap();
        batch.commit_doorbell();
    }
}

/// Issues an operation with these operands and waits for its event.
fn run(rig: &mut Rig, way: Way, amo: Amo, places: Places, a: u128, b: u128) -> Completion {
    let words = |value: u128| (value as u64, (value >> 64) as u64);
    let (a1, a2) = words(a);
    let (b1, b2) = words(b);
    if let Way::Immediate { .. } = way {
        let mut command = IdcAmoCmd::new();
        command
            .set_dfa(rig.dfa(PLAIN))
            .set_remote_offset(places.target as u64)
            .set_local_addr(rig.local.iova(places.result))
            .set_atomic_op(amo.op)
            .set_atomic_type(amo.kind)
            .set_cswap_op(amo.comparison)
            .set_op1_word1(a1)
            .set_op1_word2(a2)
            .set_op2_word1(b1)
            .set_op2_word2(b2);
        let mut batch = rig.transmit.batch();
        batch.emit_idc_amo(&command, amo.fetching).unwrap();
        batch.commit_low_latency();
        return rig.completion();
    }
    let (index, restricted) = match way {
        Way::Dma { restricted } => (PLAIN, restricted),
        _ => (MATCHING, false),
    };
    let mut bytes = [0; DmaAmoCmd::SIZE];
    bytes[..64].copy_from_slice(rig.dma(0, index, 8).bytes());
    let mut command = DmaAmoCmd::from_bytes(bytes);
    command
        .set_restricted(restricted)
        .set_remote_offset(places.target as u64)
        .set_local_read_addr(rig.local.iova(places.operand))
        .set_local_write_addr(rig.local.iova(places.result))
        .set_write_lac(rig.local.lac())
        .set_match_bits(WANTED)
        .set_atomic_op(amo.op)
        .set_atomic_type(amo.kind)
        .set_cswap_op(amo.comparison)
        .set_op2_word1(b1)
        .set_op2_word2(b2);
    rig.local.copy_in(places.operand, &a.to_le_bytes()).unwrap();
    let mut batch = rig.transmit.batch();
    batch.emit_dma_amo(&command, amo.fetching).unwrap();
    if places.target.is_multiple_of(32) {
        batch.commit_doorbell();
    } else {
        batch.commit_low_latency();
    }
    rig.completion()
}

#[test]
fn every_combination_on_every_way() {
    let mut rig = rig();
    let mut random = Random(3);
    let mut valid = 0;
    for way in WAYS {
        prepare(&mut rig, way);
        for amo in combinations() {
            if model(amo.op, amo.kind, amo.comparison, 0, 0, 0).is_none() {
                continue;
            }
            valid += 1;
            for _ in 0..ROUNDS {
                check(&mut rig, way, amo, &mut random);
            }
        }
    }
    // 8 integer types, 2 real and 2 complex ones, UINT128 (nic.md 11.3); twice for fetching.
    let combinations = 8 * (11 + 6) + 2 * (4 + 6) + 2 * (2 + 2) + 1;
    assert_eq!(valid, WAYS.len() * 2 * combinations);
}

/// One operation with random operands at random places, and what it leaves untouched.
fn check(rig: &mut Rig, way: Way, amo: Amo, random: &mut Random) {
    const AROUND: usize = 64;
    let size = TYPES[usize::from(amo.kind)].1;
    let mask = u128::MAX >> (128 - 8 * size);
    let places = Places {
        target: AROUND + size * random.below(256) as usize,
        // Operand and result need no alignment.
        operand: AROUND + random.below(64) as usize,
        result: 1024 + random.below(64) as usize,
    };
    let target = random.operand(amo.kind) & mask;
    let a = random.operand(amo.kind);
    let b = match random.below(3) {
        0 => target,
        _ => random.operand(amo.kind),
    };
    rig.remote.fill(0x5a).unwrap();
    rig.local.fill(0xa5).unwrap();
    let bytes = |value: u128| value.to_le_bytes()[..size].to_vec();
    rig.remote.copy_in(places.target, &bytes(target)).unwrap();

    let seen = run(rig, way, amo, places, a, b);

    let about = format!("{way:?} {amo:?} {target:#x} {a:#x} {b:#x}");
    let expected = Completion {
        kind: amo.completes_with(),
        code: "OK",
        user_ptr: USER_PTR,
        mlength: size as u32,
        tgt_error: false,
    };
    assert_eq!(seen, expected, "{about}");
    let after = model(amo.op, amo.kind, amo.comparison, target, a & mask, b & mask);
    let after = after.expect("a valid combination");
    let around = |value: &[u8], filler: u8| {
        let mut bytes = vec![filler; 2 * AROUND + size];
        bytes[AROUND..AROUND + size].copy_from_slice(value);
        bytes
    };
    let length = 2 * AROUND + size;
    assert_eq!(
        Rig::bytes_of(&rig.remote, places.target - AROUND, length),
        around(&bytes(after), 0x5a),
        "target of {about}"
    );
    let fetched = match amo.fetching {
        true => bytes(target),
        false => vec![0xa5; size],
    };
    assert_eq!(
        Rig::bytes_of(&rig.local, places.result - AROUND, length),
        around(&fetched, 0xa5),
        "result of {about}"
    );
}

const PLACES: Places = Places {
    target: 256,
    operand: 0,
    result: 64,
};

/// An operation that fails with `code` at the target, and changes nothing anywhere.
fn check_failure(rig: &mut Rig, way: Way, amo: Amo, places: Places, code: &'static str) {
    rig.remote.fill(0x11).unwrap();
    rig.local.fill(0x22).unwrap();
    let operand = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let seen = run(rig, way, amo, places, operand, operand);
    let expected = Completion {
        kind: amo.completes_with(),
        code,
        user_ptr: USER_PTR,
        mlength: 0,
        tgt_error: true,
    };
    assert_eq!(seen, expected, "{way:?} {amo:?} at {}", places.target);
    assert!(
        Rig::bytes_of(&rig.remote, 0, 1024) == [0x11; 1024],
        "{amo:?}"
    );
    assert!(
        Rig::bytes_of(&rig.local, 16, 1008) == [0x22; 1008],
        "{amo:?}"
    );
}

#[test]
fn combinations_that_do_not_exist_are_refused() {
    let mut rig = rig();
    let mut events = 0;
    for way in WAYS {
        prepare(&mut rig, way);
        for amo in combinations() {
            if model(amo.op, amo.kind, amo.comparison, 0, 0, 0).is_none() {
                check_failure(&mut rig, way, amo, PLACES, "AMO_INVAL_OP_ERROR");
                // Told at the target too.
                let kind = next(&mut rig.target_events, |event| event.event_type());
                let expected = match amo.fetching {
                    true => EventType::FETCH_ATOMIC,
                    false => EventType::ATOMIC,
                };
                assert_eq!(kind, expected);
                events += 1;
            }
        }
    }
    assert!(events > 1000, "{events}");
}

#[test]
fn a_target_that_is_not_aligned_is_refused() {
    let mut rig = rig();
    for way in WAYS {
        prepare(&mut rig, way);
        for (kind, (_, size)) in TYPES.into_iter().enumerate() {
            // CSWAP EQ is the one that all types have.
            let amo = Amo {
                op: C_AMO_OP_CSWAP as u8,
                kind: kind as u8,
                comparison: C_AMO_OP_CSWAP_EQ as u8,
                fetching: kind % 2 == 0,
            };
            for misplaced in 1..size {
                let places = Places {
                    target: 256 + misplaced,
                    ..PLACES
                };
                check_failure(&mut rig, way, amo, places, "AMO_ALIGN_ERROR");
                next(&mut rig.target_events, |_| ());
            }
        }
    }
}

#[test]
fn an_element_lies_inside_the_entry_or_not_at_all() {
    let mut rig = rig();
    for way in WAYS {
        prepare(&mut rig, way);
        for (kind, (_, size)) in TYPES.into_iter().enumerate() {
            let amo = Amo {
                op: C_AMO_OP_CSWAP as u8,
                kind: kind as u8,
                comparison: C_AMO_OP_CSWAP_EQ as u8,
                fetching: kind % 2 == 1,
            };
            let at = |target| Places { target, ..PLACES };
            let seen = run(&mut rig, way, amo, at(LEN - size), 0, 0);
            assert_eq!((seen.code, seen.mlength), ("OK", size as u32));
            for beyond in [LEN, LEN + size, 1 << 40] {
                check_failure(&mut rig, way, amo, at(beyond), "NO_SPACE");
                next(&mut rig.target_events, |_| ());
            }
        }
    }
}

#[test]
fn rights_of_the_entry() {
    let mut rig = Rig::new();
    for way in WAYS {
        prepare(&mut rig, way);
        for (put, get, fetching, allowed) in [
            (false, false, false, false),
            (false, true, false, false),
            (true, false, false, true),
            (false, false, true, false),
            (false, true, true, false),
            (true, false, true, false),
            (true, true, true, true),
        ] {
            let number = match way {
                Way::Matching => rig.matching.number(),
                _ => rig.plain.number(),
            };
            let mut entry = rig.entry(number);
            entry.set_match_bits(WANTED).set_op_put(put).set_op_get(get);
            rig.append(&entry);
            let amo = Amo {
                op: C_AMO_OP_SUM as u8,
                kind: C_AMO_TYPE_UINT32_T as u8,
                comparison: 0,
                fetching,
            };
            if allowed {
                assert_eq!(run(&mut rig, way, amo, PLACES, 0, 0).code, "OK");
            } else {
                check_failure(&mut rig, way, amo, PLACES, "OP_VIOLATION");
                next(&mut rig.target_events, |_| ());
            }
            rig.unlink(&entry);
        }
    }
}
