//! Commands as bytes (nic.md 3).

use cxi_sys::records::*;
use cxi_sys::*;

/// The size code of a command of so many bytes.
fn size_code(len: usize) -> u8 {
    match len {
        0..=32 => 0,
        33..=64 => 1,
        65..=128 => 2,
        _ => 3,
    }
}

/// A C_STATE: what its fields are besides those given here is up to `choose`.
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
    let mut bytes = header.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(32 << code, 0);
    bytes
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
    let mut bytes = header.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(32 << code, 0);
    bytes
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

/// APPEND, UNLINK and the like.
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
