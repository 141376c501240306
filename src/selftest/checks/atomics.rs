//! Atomic operations of every kind and type, compared with a model, and their errors.

use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::sys::*;
use cxi::{EventType, ReturnCode};
use facts::atomic::{Atomic, AtomicOp, AtomicType, CSWAP_OPS, CswapOp, OPS, applied, ones};
use facts::error_flag::ErrorFlag;
use node::backend;
use node::machine::Machine;

use crate::bench::{
    Bench, Checked, CheckedNic, USER_PTR, bytes_of, differs, ensure, equal, matching, silent,
};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "atomics", checks: CHECKS };

/// A check of all operations of a type.
const fn type_check(name: &'static str, run: fn(&mut Bench) -> Checked) -> FactCheck {
    stated(name, "nic.md 11.2, 11.3", run).shows(
        "all operations of the type return the old value and leave the new one, as immediate and \
         DMA commands",
    )
}

const CHECKS: &[FactCheck] = &[
    type_check("int8", |bench| all_of(bench, AtomicType::Int8)),
    type_check("uint8", |bench| all_of(bench, AtomicType::Uint8)),
    type_check("int16", |bench| all_of(bench, AtomicType::Int16)),
    type_check("uint16", |bench| all_of(bench, AtomicType::Uint16)),
    type_check("int32", |bench| all_of(bench, AtomicType::Int32)),
    type_check("uint32", |bench| all_of(bench, AtomicType::Uint32)),
    type_check("int64", |bench| all_of(bench, AtomicType::Int64)),
    type_check("uint64", |bench| all_of(bench, AtomicType::Uint64)),
    type_check("float", |bench| all_of(bench, AtomicType::Float)),
    type_check("float-complex", |bench| all_of(bench, AtomicType::FloatComplex)),
    type_check("double", |bench| all_of(bench, AtomicType::Double)),
    type_check("double-complex", |bench| all_of(bench, AtomicType::DoubleComplex)),
    type_check("uint128", |bench| all_of(bench, AtomicType::Uint128)),
    stated("swap-of-uint32-and-uint64", "nic.md 11.3", |bench| {
        let _portal = bench.plain()?;
        let opcode = fetch_add_opcode(bench.nic);
        for ty in [AtomicType::Uint32, AtomicType::Uint64] {
            let swap = atomic(AtomicOp::Swap, CswapOp::Eq, ty);
            bench.provoke(ErrorFlag::PCIE_UNSUCCESSFUL_COMPLETION)?;
            let is_fetch_add = opcode.map(|opcode| swap.is_fetch_add(opcode));
            let (code, old, new) = issued(bench, swap, IssueForm::DmaFetching, [5, 3, 0])?;
            let is_refused = u32::from(code.0) == C_RC_PCIE_UNSUCCESS_CMPL;
            if is_refused && is_fetch_add != Some(false) {
                continue;
            }
            equal("return code", code, ReturnCode::OK)?;
            equal("old value", old, Some(5))?;
            let (is_expected, expected) = match is_fetch_add {
                Some(false) => (new == 3, "3 (swapped)"),
                Some(true) => (new == 8, "8 (added) or PCIE_UNSUCCESS_CMPL"),
                None => (new == 3 || new == 8, "3 (swapped) or 8 (added)"),
            };
            ensure(is_expected, expected, new)?;
        }
        Ok(())
    })
    .shows(
        "SWAP of UINT32 and UINT64 swaps, or is a PCIe FetchAdd where amo_remap_to_pcie_fadd is \
         10",
    )
    .pcie_atomic(&[(ErrorFlag::PCIE_UNSUCCESSFUL_COMPLETION, 2)]),
    inferred("axor-by-xor", "nic.md 11.2", |bench| {
        let _portal = bench.plain()?;
        let axor = atomic(AtomicOp::Axor, CswapOp::Eq, AtomicType::Uint64);
        let (_, new) = run(bench, axor, IssueForm::DmaFetching, [0b0110, 0b1010, 0])?;
        equal("result for target 6, operands 10 and 0", new, 0b1100)
    })
    .shows("AXOR combines the operand by XOR, not by OR"),
    stated("old-value-untouched", "nic.md 11.4", |bench| {
        let _portal = bench.plain()?;
        bench.local.fill(0xee)?;
        let amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT16_T as u8);
        bench.send(|batch| batch.emit_dma_amo(&amo, false))?;
        let ack = bench.expect(EventType::ACK, C_RC_OK)?;
        equal("user_ptr", ack.user_ptr(), USER_PTR)?;
        equal("result memory", bytes_of(&bench.local, 64, 16)?, vec![0xee; 16])
    })
    .shows("an operation without fetching leaves the result memory alone, and ends with an ACK"),
    stated("old-value-size", "nic.md 11.4", |bench| {
        let _portal = bench.plain()?;
        bench.local.fill(0xee)?;
        bench.remote.fill(0x11)?;
        let amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT16_T as u8);
        bench.send(|batch| batch.emit_dma_amo(&amo, true))?;
        bench.expect(EventType::REPLY, C_RC_OK)?;
        let expected = vec![0x11, 0x11, 0xee, 0xee];
        equal("result memory", bytes_of(&bench.local, 64, 4)?, expected)
    })
    .shows("a fetching operation returns as many bytes as its type has, and ends with a REPLY"),
    stated("at-matching-entry", "nic.md 11.6", |bench| {
        let mut portal = bench.portal(0, matching)?;
        for (bits, offset) in [(1, 0), (2, 4096)] {
            let start = bench.remote.iova(offset);
            bench.append(&mut portal, |entry| {
                silent(entry);
                entry.set_match_bits(bits).set_start(start).set_length(4096);
            })?;
        }
        bench.local.fill(1)?;
        bench.remote.fill(0)?;
        let mut amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT8_T as u8);
        amo.set_match_bits(2);
        bench.send(|batch| batch.emit_dma_amo(&amo, false))?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        let seen = [bytes_of(&bench.remote, 0, 1)?[0], bytes_of(&bench.remote, 4096, 1)?[0]];
        equal("targets of both entries", seen, [0, 1])
    })
    .shows("a DMA atomic operation selects its entry by match bits"),
    stated("target-events", "nic.md 11.6", |bench| {
        let mut portal = bench.portal_with(0, CXI_EQ_EC_DISABLE | CXI_EQ_TGT_LONG, |_| {})?;
        bench.append(&mut portal, |_| {})?;
        let kinds = [EventType::ATOMIC, EventType::FETCH_ATOMIC];
        for (is_fetching, kind) in [false, true].into_iter().zip(kinds) {
            let amo = bench.dma_amo(C_AMO_OP_CSWAP as u8, C_AMO_TYPE_UINT32_T as u8);
            bench.send(|batch| batch.emit_dma_amo(&amo, is_fetching))?;
            bench.event()?;
            let event = bench.expect_at(&mut portal, kind, C_RC_OK)?.long()?;
            equal("atomic_op", u32::from(event.atomic_op()), C_AMO_OP_CSWAP)?;
            equal("atomic_type", u32::from(event.atomic_type()), C_AMO_TYPE_UINT32_T)?;
        }
        Ok(())
    })
    .shows(
        "the target's events are ATOMIC and FETCH_ATOMIC, which have operation and type if long",
    ),
    assumed("target-event-size", "nic.md 15", |bench| {
        let mut portal = bench.open(|_| {}, |_| {})?;
        for is_fetching in [false, true] {
            let amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT16_T as u8);
            bench.send(|batch| batch.emit_dma_amo(&amo, is_fetching))?;
            bench.event()?;
            let event = bench.event_at(&mut portal)?;
            equal("bytes of the event", event.bytes.len(), 64)?;
        }
        Ok(())
    })
    .shows("ATOMIC and FETCH_ATOMIC have 64 bytes on a queue without TGT_LONG too"),
    stated("invalid-operation", "nic.md 11.3", |bench| {
        for (op, cswap, ty) in [
            (C_AMO_OP_BOR, 0, C_AMO_TYPE_FLOAT_T),
            (C_AMO_OP_CSWAP, C_AMO_OP_CSWAP_NE, C_AMO_TYPE_UINT128_T),
            // No operation has number 3.
            (3, 0, C_AMO_TYPE_UINT64_T),
        ] {
            let mut amo = bench.dma_amo(op as u8, ty as u8);
            amo.set_cswap_op(cswap as u8);
            fails(bench, &amo, C_RC_AMO_INVAL_OP_ERROR)?;
        }
        Ok(())
    })
    .shows("an operation that its type does not have ends with AMO_INVAL_OP_ERROR")
    .provokes(&[(ErrorFlag::AMO_OP, 3)]),
    stated("misaligned-target", "nic.md 11.3", |bench| {
        for (ty, offset) in [(C_AMO_TYPE_UINT16_T, 1), (C_AMO_TYPE_DOUBLE_T, 4)] {
            let mut amo = bench.dma_amo(C_AMO_OP_SUM as u8, ty as u8);
            amo.set_remote_offset(offset);
            fails(bench, &amo, C_RC_AMO_ALIGN_ERROR)?;
        }
        Ok(())
    })
    .shows("a target that is not aligned to the element ends with AMO_ALIGN_ERROR")
    .provokes(&[(ErrorFlag::AMO_ALIGN, 2)]),
    inferred("misaligned-16-bytes", "nic.md 11.3", |bench| {
        let mut amo = bench.dma_amo(C_AMO_OP_CSWAP as u8, C_AMO_TYPE_UINT128_T as u8);
        amo.set_remote_offset(8);
        fails(bench, &amo, C_RC_AMO_ALIGN_ERROR)
    })
    .shows("a target of 16 bytes that is aligned to 8 ends with AMO_ALIGN_ERROR")
    .provokes(&[(ErrorFlag::AMO_ALIGN, 1)]),
    stated("length", "nic.md 11.1", |bench| {
        let _portal = bench.plain()?;
        let mut amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT64_T as u8);
        amo.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(C_CMD_SIZE_128B as u8)
            .set_opcode(C_CMD_ATOMIC as u8)
            .set_request_len(4);
        let mut bytes = [0; 128];
        bytes[..DmaAmoCmd::SIZE].copy_from_slice(amo.bytes());
        bench.provoke_code(C_RC_AMO_LENGTH_ERROR)?;
        bench.send(|batch| batch.emit_bytes(&bytes))?;
        bench.expect(EventType::ACK, C_RC_AMO_LENGTH_ERROR).map(drop)
    })
    .shows("a DMA atomic operation of another length than its type ends with AMO_LENGTH_ERROR")
    .provokes(&[(ErrorFlag::AMO_LENGTH, 1)]),
    inferred("permission", "nic.md 8.3", |bench| {
        let _portal = bench.open_silent(|_| {}, |entry| _ = entry.set_op_get(false))?;
        let amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT64_T as u8);
        bench.provoke_code(C_RC_OP_VIOLATION)?;
        bench.send(|batch| batch.emit_dma_amo(&amo, true))?;
        bench.expect(EventType::REPLY, C_RC_OP_VIOLATION).map(drop)
    })
    .shows("a fetching operation needs op_get beside op_put, else it ends with OP_VIOLATION")
    .provokes(&[(ErrorFlag::OP_VIOLATION, 1)]),
    assumed("minimum-with-nan", "nic.md 15", |bench| {
        let _portal = bench.plain()?;
        let nan = u128::from(f64::NAN.to_bits());
        let number = u128::from(1.5_f64.to_bits());
        for (op, target, operand) in [
            (AtomicOp::Min, nan, number),
            (AtomicOp::Min, number, nan),
            (AtomicOp::Max, nan, number),
        ] {
            let operation = atomic(op, CswapOp::Eq, AtomicType::Double);
            bench.provoke(ErrorFlag::AMO_FP_INVALID)?;
            let (_, new) = run(bench, operation, IssueForm::DmaFetching, [target, operand, 0])?;
            equal(op, format!("{new:#x}"), format!("{number:#x}"))?;
        }
        Ok(())
    })
    .shows("MIN and MAX of a NaN and a number give the number")
    .provokes(&[(ErrorFlag::AMO_FP_INVALID, 3)]),
    assumed("compare-of-negative-zero", "nic.md 15", |bench| {
        let _portal = bench.plain()?;
        let bits = |value: f64| u128::from(value.to_bits());
        let operation = atomic(AtomicOp::Cswap, CswapOp::Eq, AtomicType::Double);
        let values = [bits(0.0), bits(2.0), bits(-0.0)];
        let (_, new) = run(bench, operation, IssueForm::DmaFetching, values)?;
        equal("new value", f64::from_bits(new as u64), 2.0)
    })
    .shows("CSWAP EQ compares floating-point numbers by value: -0 equals +0"),
];

/// How an operation is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IssueForm {
    Idc,
    IdcFetching,
    Dma,
    DmaFetching,
}

const FORMS: [IssueForm; 4] =
    [IssueForm::Idc, IssueForm::IdcFetching, IssueForm::Dma, IssueForm::DmaFetching];

impl IssueForm {
    fn is_fetching(self) -> bool {
        matches!(self, Self::IdcFetching | Self::DmaFetching)
    }
}

fn atomic(op: AtomicOp, cswap: CswapOp, ty: AtomicType) -> Atomic {
    Atomic { op, cswap, ty, fetching: true, matching: false }
}

/// The number of the operation that the NIC passes on as a PCIe FetchAdd, if it is known.
pub fn fetch_add_opcode(nic: &CheckedNic) -> Option<i32> {
    let files = backend::files_of_counters(nic.name, &Machine::this(), |_| false);
    files.ok()?.fetch_add_opcode()
}

/// Executes all operations of a type, on values around its ends, in all forms. SWAP and AXOR have
/// checks of their own for what is uncertain of them. An operation that is a PCIe FetchAdd, or may
/// be one, is left out: each one that fails raises an error interrupt (health.md 2.5.1).
fn all_of(bench: &mut Bench, ty: AtomicType) -> Checked {
    let _portal = bench.plain()?;
    let state = bench.c_state(true);
    bench.send(|batch| batch.emit_c_state(&state))?;
    let opcode = fetch_add_opcode(bench.nic).unwrap_or(AtomicOp::Swap as i32);
    for (_, op) in OPS {
        if atomic(op, CswapOp::Eq, ty).is_fetch_add(opcode) {
            continue;
        }
        for (_, cswap) in CSWAP_OPS {
            let operation = atomic(op, cswap, ty);
            let once = op == AtomicOp::Cswap || cswap == CswapOp::Eq;
            if !once || !operation.exists() {
                continue;
            }
            for (at, mut values) in values(ty).into_iter().enumerate() {
                if op == AtomicOp::Axor {
                    // The operand has bits of the mask only: XOR and OR agree.
                    values[1] &= values[2];
                }
                let form = FORMS[(at + op as usize) % FORMS.len()];
                check_one(bench, operation, form, values)?;
            }
        }
    }
    Ok(())
}

fn check_one(bench: &mut Bench, operation: Atomic, form: IssueForm, values: [u128; 3]) -> Checked {
    let [target, first, second] = values;
    let (old, new) = run(bench, operation, form, values)?;
    let ty = operation.ty;
    let what = |which: &str| {
        let name = operation.operation();
        format!(
            "{name} {ty} ({form:?}) of target {target:#x}, operands {first:#x} and {second:#x}: {which}"
        )
    };
    let expected = form.is_fetching().then_some(target);
    if old != expected {
        let shown =
            |value: Option<u128>| value.map_or("none".into(), |value| format!("{value:#x}"));
        let expected = format!("{} {}", what("old value"), shown(expected));
        return Err(differs(expected, shown(old)));
    }
    let expected = applied(operation, target, first, second);
    if new != expected {
        let expected = format!("{} {expected:#x}", what("new value"));
        return Err(differs(expected, format_args!("{new:#x}")));
    }
    Ok(())
}

/// Returns targets with operands: ordinary values, both ends of integers, and equal ones. Sums of
/// floating-point numbers are exact: an inexact one sets an error flag of the NIC.
fn values(ty: AtomicType) -> Vec<[u128; 3]> {
    use AtomicType::{Double, DoubleComplex, Float, FloatComplex};
    let float = |value: f32| u128::from(value.to_bits());
    let double = |value: f64| u128::from(value.to_bits());
    let numbers: Vec<u128> = match ty {
        Float => [1.5, -2.25, 0.0, 1_048_576.0].map(float).to_vec(),
        Double => [1.5, -2.25, 0.0, 1_048_576.0].map(double).to_vec(),
        FloatComplex => [(1.5, -2.0), (0.0, 4.0), (-7.5, 0.0), (65536.0, -65536.0)]
            .map(|(re, im)| float(im) << 32 | float(re))
            .to_vec(),
        DoubleComplex => [(1.5, -2.0), (0.0, 4.0), (-7.5, 0.0), (65536.0, -65536.0)]
            .map(|(re, im)| double(im) << 64 | double(re))
            .to_vec(),
        _ => {
            let all = ones(ty);
            let mixed = 0x5a17_c3e9_0f42_d86b_5a17_c3e9_0f42_d86b & all;
            [0, 1, mixed, all >> 1, (all >> 1) + 1, all].to_vec()
        }
    };
    let mut found = Vec::new();
    for (at, target) in numbers.iter().enumerate() {
        for (step, first) in numbers.iter().enumerate() {
            // Operand 2 is below, equal to and above the target in turn.
            let second = numbers[(at + step) % numbers.len()];
            found.push([*target, *first, second]);
        }
    }
    found
}

/// Executes an operation on a target. Returns the old value, if it fetches it, and the new one.
fn run(
    bench: &mut Bench,
    operation: Atomic,
    form: IssueForm,
    values: [u128; 3],
) -> Checked<(Option<u128>, u128)> {
    let (code, old, new) = issued(bench, operation, form, values)?;
    if code != ReturnCode::OK {
        let (name, ty) = (operation.operation(), operation.ty);
        return Err(differs(format_args!("OK of {name} {ty} ({form:?})"), code));
    }
    Ok((old, new))
}

/// Executes an operation on a target. Returns its return code, and the values as [`run`] does.
fn issued(
    bench: &mut Bench,
    operation: Atomic,
    form: IssueForm,
    [target, first, second]: [u128; 3],
) -> Checked<(ReturnCode, Option<u128>, u128)> {
    let size = operation.ty.size() as usize;
    bench.remote.copy_in(0, &target.to_le_bytes()[..size])?;
    bench.local.copy_in(0, &first.to_le_bytes()[..size])?;
    bench.local.copy_in(64, &[0xee; 16])?;
    let words = |value: u128| (value as u64, (value >> 64) as u64);
    let ((first_low, first_high), (second_low, second_high)) = (words(first), words(second));
    let is_fetching = form.is_fetching();
    match form {
        IssueForm::Idc | IssueForm::IdcFetching => {
            let mut amo = IdcAmoCmd::new();
            amo.set_dfa(bench.dfa(0))
                .set_local_addr(bench.local.iova(64))
                .set_atomic_op(operation.op as u8)
                .set_atomic_type(operation.ty as u8)
                .set_cswap_op(operation.cswap as u8)
                .set_op1_word1(first_low)
                .set_op1_word2(first_high)
                .set_op2_word1(second_low)
                .set_op2_word2(second_high);
            bench.send(|batch| batch.emit_idc_amo(&amo, is_fetching))?;
        }
        IssueForm::Dma | IssueForm::DmaFetching => {
            let mut amo = bench.dma_amo(operation.op as u8, operation.ty as u8);
            amo.set_cswap_op(operation.cswap as u8)
                .set_op2_word1(second_low)
                .set_op2_word2(second_high);
            bench.send(|batch| batch.emit_dma_amo(&amo, is_fetching))?;
        }
    }
    let kind = if is_fetching { EventType::REPLY } else { EventType::ACK };
    let event = bench.event()?;
    if event.kind != kind {
        let (name, ty) = (operation.operation(), operation.ty);
        let expected = format!("{kind} of {name} {ty} ({form:?})");
        return Err(differs(expected, format_args!("{} {}", event.kind, event.code)));
    }
    let value = |memory, offset| {
        let mut bytes = [0; 16];
        bytes[..size].copy_from_slice(&bytes_of(memory, offset, size)?);
        Checked::Ok(u128::from_le_bytes(bytes))
    };
    let old = if is_fetching { Some(value(&bench.local, 64)?) } else { None };
    Ok((event.code, old, value(&bench.remote, 0)?))
}

/// Issues a DMA atomic operation that fails with this return code and changes nothing.
fn fails(bench: &mut Bench, amo: &DmaAmoCmd, code: u32) -> Checked {
    let portal = bench.plain()?;
    bench.remote.fill(0x33)?;
    bench.provoke_code(code)?;
    bench.send(|batch| batch.emit_dma_amo(amo, false))?;
    bench.expect(EventType::ACK, code)?;
    equal("target", bytes_of(&bench.remote, 0, 32)?, vec![0x33; 32])?;
    portal.entry.close()?;
    Ok(())
}
