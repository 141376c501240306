//! Commands as bytes (nic.md 3).

use cxi_sys::records::*;
use cxi_sys::*;

/// The size code of a command of `len` bytes.
fn size_code(len: usize) -> u8 {
    match len {
        0..=32 => 0,
        33..=64 => 1,
        65..=128 => 2,
        _ => 3,
    }
}

/// A C_STATE, with its other fields set by `choose`.
pub fn c_state(eq: u16, restricted: bool, choose: impl FnOnce(&mut CStateCmd)) -> Vec<u8> {
    let mut command = CStateCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_opcode(C_CMD_CSTATE as u8)
        .set_length(32)
        .set_event_send_disable(true)
        .set_restricted(restricted)
        .set_eq(eq);
    choose(&mut command);
    command.bytes().to_vec()
}

/// An IDC PUT with its payload, in the smallest command that holds it.
pub fn idc_put(dfa: u32, remote_offset: u64, payload: &[u8]) -> Vec<u8> {
    let len = 16 + payload.len();
    let code = size_code(len);
    let mut header = IdcHdr::new();
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(code)
        .set_opcode(C_CMD_PUT as u8)
        .set_length(len as u8)
        .set_dfa(dfa)
        .set_remote_offset(remote_offset);
    resized([header.bytes(), payload].concat(), 32 << code)
}

/// A small message with its payload, in the smallest command that holds it.
pub fn idc_msg(payload: &[u8], choose: impl FnOnce(&mut IdcMsgHdr)) -> Vec<u8> {
    let len = 32 + payload.len();
    let code = size_code(len).max(1);
    let mut header = IdcMsgHdr::new();
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(code)
        .set_opcode(C_CMD_SMALL_MESSAGE as u8)
        .set_length(len as u8);
    choose(&mut header);
    resized([header.bytes(), payload].concat(), 32 << code)
}

pub fn nomatch_put(choose: impl FnOnce(&mut NomatchDmaCmd)) -> Vec<u8> {
    let mut command = NomatchDmaCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_opcode(C_CMD_NOMATCH_PUT as u8)
        .set_event_send_disable(true)
        .set_restricted(true);
    choose(&mut command);
    command.bytes().to_vec()
}

pub fn dma_put(choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
    let mut command = FullDmaCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(1)
        .set_opcode(C_CMD_PUT as u8)
        .set_event_send_disable(true);
    choose(&mut command);
    command.bytes().to_vec()
}

/// A DMA AMO of 128 bytes: SUM of one UINT64.
pub fn dma_amo(fetching: bool, choose: impl FnOnce(&mut DmaAmoCmd)) -> Vec<u8> {
    let mut command = DmaAmoCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(2)
        .set_opcode(amo_opcode(fetching))
        .set_event_send_disable(true)
        .set_request_len(8)
        .set_atomic_op(C_AMO_OP_SUM as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
    choose(&mut command);
    resized(command.bytes().to_vec(), 128)
}

pub fn amo_opcode(fetching: bool) -> u8 {
    if fetching { C_CMD_FETCHING_ATOMIC as u8 } else { C_CMD_ATOMIC as u8 }
}

/// A command about the queue itself.
pub fn cq(opcode: u32, lcid: u8) -> Vec<u8> {
    let mut command = CqCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(opcode as u8)
        .set_lcid(lcid);
    command.bytes().to_vec()
}

/// A counter command of 64 bytes.
pub fn counter_command(opcode: u32, choose: impl FnOnce(&mut CtCmd)) -> Vec<u8> {
    let mut command = CtCmd::new();
    command.set_cmd_type(C_CMD_TYPE_CT as u8).set_cmd_size(1).set_opcode(opcode as u8);
    choose(&mut command);
    resized(command.bytes().to_vec(), 64)
}

/// Raises an event on queue `eq` when counter `ct` reaches a threshold.
pub fn trig_event(ct: u16, eq: u16, threshold: u64) -> Vec<u8> {
    counter_command(C_CMD_CT_TRIG_EVENT, |command| {
        _ = command.set_trig_ct(ct).set_eq(eq).set_threshold(threshold)
    })
}

pub fn set_state(pte: u16, state: u32) -> Vec<u8> {
    let mut command = SetStateCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(C_CMD_TGT_SETSTATE as u8)
        .set_ptlte_index(pte)
        .set_ptlte_state(state as u8);
    command.bytes().to_vec()
}

/// APPEND to the priority list.
pub fn append(pte: u16, choose: impl FnOnce(&mut TargetCmd)) -> Vec<u8> {
    target(C_CMD_TGT_APPEND, pte, choose)
}

/// APPEND, UNLINK or a search, on the priority list.
pub fn target(opcode: u32, pte: u16, choose: impl FnOnce(&mut TargetCmd)) -> Vec<u8> {
    let mut command = TargetCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(opcode as u8)
        .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
        .set_ptlte_index(pte);
    choose(&mut command);
    command.bytes().to_vec()
}

fn resized(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len, 0);
    bytes
}
