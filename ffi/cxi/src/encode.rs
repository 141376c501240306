//! The fields that emitting a command sets (nic.md 3.2): type and size, and the opcode or length
//! where they follow from the kind of command. The caller sets all other fields.
//!
//! Unlike the helper of libcxi, this code leaves `restricted` of a non-matching command to the
//! caller: forcing it overrides the user's choice (defect T4 of the legacy tools).

use cxi_sys::records::*;
use cxi_sys::*;

/// Largest payload in bytes of a restricted immediate data command (nic.md 3.2).
pub const IDC_MAX_RESTRICTED: usize = C_MAX_IDC_PAYLOAD_RES as usize;

/// Largest payload in bytes of an unrestricted immediate data command (nic.md 3.2).
pub const IDC_MAX_UNRESTRICTED: usize = C_MAX_IDC_PAYLOAD_UNR as usize;

/// The half-slots of a command of size code `code`.
const fn halves(code: c_cmd_size) -> u32 {
    1 << code
}

/// The size code of a command of `length` bytes, at most 256 (nic.md 2.5).
#[inline]
const fn size_code(length: usize) -> c_cmd_size {
    match length {
        0..=32 => C_CMD_SIZE_32B,
        33..=64 => C_CMD_SIZE_64B,
        65..=128 => C_CMD_SIZE_128B,
        _ => C_CMD_SIZE_256B,
    }
}

#[inline]
pub(crate) fn c_state(template: &CStateCmd) -> CStateCmd {
    let mut command = *template;
    command
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(C_CMD_SIZE_32B as u8)
        .set_opcode(C_CMD_CSTATE as u8)
        .set_length(CStateCmd::SIZE as u8);
    command
}

/// The header of an immediate data put of `payload` bytes (at most 224), and the half-slots of the
/// whole command.
#[inline]
pub(crate) fn idc_put(template: &IdcHdr, payload: usize) -> (IdcHdr, u32) {
    let length = IdcHdr::SIZE + payload;
    let size = size_code(length);
    let mut header = *template;
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(size as u8)
        .set_opcode(C_CMD_PUT as u8)
        .set_length(length as u8);
    (header, halves(size))
}

/// The header of a small message of `payload` bytes (at most 192), and the half-slots of the whole
/// command, at least two.
#[inline]
pub(crate) fn idc_msg(template: &IdcMsgHdr, payload: usize) -> (IdcMsgHdr, u32) {
    let length = IdcMsgHdr::SIZE + payload;
    let size = size_code(length).max(C_CMD_SIZE_64B);
    let mut header = *template;
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(size as u8)
        .set_opcode(C_CMD_SMALL_MESSAGE as u8)
        .set_length(length as u8);
    (header, halves(size))
}

#[inline]
pub(crate) fn nomatch_dma(template: &NomatchDmaCmd) -> NomatchDmaCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_DMA as u8).set_cmd_size(C_CMD_SIZE_32B as u8);
    command
}

#[inline]
pub(crate) fn dma(template: &FullDmaCmd) -> FullDmaCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_DMA as u8).set_cmd_size(C_CMD_SIZE_64B as u8);
    command
}

/// An immediate atomic operation and its half-slots. The form is small if the operation fits it, as
/// in the helper of libcxi (nic.md 3.7).
#[inline]
pub(crate) fn idc_amo(template: &IdcAmoCmd, fetching: bool) -> (IdcAmoCmd, u32) {
    let is_large = fetching
        || u32::from(template.atomic_type()) == C_AMO_TYPE_DOUBLE_COMPLEX_T
        || matches!(u32::from(template.atomic_op()), C_AMO_OP_CSWAP | C_AMO_OP_AXOR);
    let size = if is_large { C_CMD_SIZE_64B } else { C_CMD_SIZE_32B };
    let mut command = *template;
    command
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(size as u8)
        .set_opcode(amo_opcode(fetching));
    if is_large {
        command.set_length(64);
        return (command, halves(size));
    }
    command.set_length(32);
    let mut payload = SmallAmoPayload::new();
    payload.set_amo_op(template.atomic_op());
    payload.set_amo_type(template.atomic_type());
    payload.set_op1_word1(template.op1_word1());
    let mut bytes = [0; IdcAmoCmd::SIZE];
    let (head, rest) = bytes.split_at_mut(IdcHdr::SIZE);
    head.copy_from_slice(&command.bytes()[..IdcHdr::SIZE]);
    rest[..SmallAmoPayload::SIZE].copy_from_slice(payload.bytes());
    (IdcAmoCmd::from_bytes(bytes), halves(size))
}

/// A DMA atomic operation. Its length is the size of its type; for an unknown type the caller's
/// length is kept.
#[inline]
pub(crate) fn dma_amo(template: &DmaAmoCmd, fetching: bool) -> DmaAmoCmd {
    let mut command = *template;
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(C_CMD_SIZE_128B as u8)
        .set_opcode(amo_opcode(fetching));
    let length = match u32::from(template.atomic_type()) {
        C_AMO_TYPE_INT8_T | C_AMO_TYPE_UINT8_T => 1,
        C_AMO_TYPE_INT16_T | C_AMO_TYPE_UINT16_T => 2,
        C_AMO_TYPE_INT32_T | C_AMO_TYPE_UINT32_T | C_AMO_TYPE_FLOAT_T => 4,
        C_AMO_TYPE_INT64_T
        | C_AMO_TYPE_UINT64_T
        | C_AMO_TYPE_FLOAT_COMPLEX_T
        | C_AMO_TYPE_DOUBLE_T => 8,
        C_AMO_TYPE_DOUBLE_COMPLEX_T | C_AMO_TYPE_UINT128_T => 16,
        _ => template.request_len(),
    };
    command.set_request_len(length);
    command
}

/// A counter command and its half-slots: four with an embedded command, else two.
#[inline]
pub(crate) fn counter(template: &CtCmd, opcode: c_ct_op) -> (CtCmd, u32) {
    let size = if opcode == C_CMD_CT_TRIG_DMA { C_CMD_SIZE_128B } else { C_CMD_SIZE_64B };
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_CT as u8).set_cmd_size(size as u8).set_opcode(opcode as u8);
    (command, halves(size))
}

/// The header of the NOOP that pads trigger queues; it takes one slot (nic.md 2.6).
pub(crate) fn counter_noop() -> CmdHeader {
    let mut header = CmdHeader::new();
    header
        .set_cmd_type(C_CMD_TYPE_CT as u8)
        .set_cmd_size(C_CMD_SIZE_64B as u8)
        .set_opcode(C_CMD_CT_NOOP as u8);
    header
}

/// A command to the queue itself.
pub(crate) fn cq(opcode: c_cq_op, lcid: u32) -> CqCmd {
    let mut command = CqCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(C_CMD_SIZE_64B as u8)
        .set_opcode(opcode as u8);
    command.set_lcid(lcid as u8);
    command
}

fn amo_opcode(fetching: bool) -> u8 {
    if fetching { C_CMD_FETCHING_ATOMIC as u8 } else { C_CMD_ATOMIC as u8 }
}

#[inline]
pub(crate) fn target(template: &TargetCmd) -> TargetCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_CQ as u8).set_cmd_size(C_CMD_SIZE_64B as u8);
    command
}

#[inline]
pub(crate) fn set_state(template: &SetStateCmd) -> SetStateCmd {
    let mut command = *template;
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(C_CMD_SIZE_64B as u8)
        .set_opcode(C_CMD_TGT_SETSTATE as u8);
    command
}

/// The examples of nic.md Appendix B, with pid_bits 9, nid 0x00123, pid 4 and index 0.
#[cfg(test)]
mod tests {
    use super::*;

    const DFA: u32 = 0x0012_3004;

    fn padded<const N: usize>(leading: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes[..leading.len()].copy_from_slice(leading);
        bytes
    }

    #[test]
    fn encodes_c_state() {
        let mut template = CStateCmd::new();
        template.set_restricted(true);
        template.set_event_send_disable(true);
        template.set_event_success_disable(true);
        template.set_event_ct_ack(true);
        template.set_ct(5);
        template.set_eq(3);
        let mut bytes = padded::<32>(&[0xa0, 0x20, 0x98, 0x04]);
        bytes[28..].copy_from_slice(&[5, 0, 3, 0]);
        assert_eq!(*c_state(&template).bytes(), bytes);
    }

    #[test]
    fn encodes_idc_put() {
        let mut template = IdcHdr::new();
        template.set_dfa(DFA);
        template.set_remote_offset(0x10);
        // Encoding replaces the caller's opcode.
        template.set_opcode(C_CMD_NOMATCH_PUT as u8);
        let (header, halves) = idc_put(&template, 8);
        let bytes = padded(&[0x10, 0x18, 0, 0, 0x04, 0x30, 0x12, 0x00, 0x10]);
        assert_eq!(*header.bytes(), bytes);
        assert_eq!(halves, 1);
    }

    #[test]
    fn sizes_idc_put_by_payload() {
        for (payload, halves) in
            [(0, 1), (16, 1), (17, 2), (48, 2), (49, 4), (112, 4), (113, 8), (224, 8)]
        {
            let (header, got) = idc_put(&IdcHdr::new(), payload);
            assert_eq!(got, halves, "{payload} bytes");
            assert_eq!(1 << header.cmd_size(), halves);
            assert_eq!(usize::from(header.length()), 16 + payload);
        }
    }

    #[test]
    fn sizes_idc_msg_by_payload() {
        for (payload, halves) in [(0, 2), (32, 2), (33, 4), (96, 4), (97, 8), (192, 8)] {
            let (header, got) = idc_msg(&IdcMsgHdr::new(), payload);
            assert_eq!(got, halves, "{payload} bytes");
            assert_eq!(1 << header.cmd_size(), halves);
            assert_eq!(usize::from(header.length()), 32 + payload);
        }
    }

    #[test]
    fn encodes_idc_msg() {
        let mut template = IdcMsgHdr::new();
        template.set_dfa(DFA);
        template.set_match_bits(0x0807_0605_0403_0201);
        template.set_header_data(9);
        template.set_user_ptr(10);
        let mut bytes = padded::<32>(&[0x74, 0x24, 0, 0, 0x04, 0x30, 0x12, 0x00]);
        bytes[8..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        bytes[16] = 9;
        bytes[24] = 10;
        assert_eq!(*idc_msg(&template, 4).0.bytes(), bytes);
    }

    #[test]
    fn encodes_nomatch_put() {
        let mut template = NomatchDmaCmd::new();
        template.set_opcode(C_CMD_NOMATCH_PUT as u8);
        template.set_event_send_disable(true);
        template.set_restricted(true);
        template.set_lac(1);
        template.set_dfa(DFA);
        let bytes = padded(&[0x81, 0x00, 0x09, 0x04, 0x04, 0x30, 0x12, 0x00]);
        assert_eq!(*nomatch_dma(&template).bytes(), bytes);
    }

    #[test]
    fn t4_keeps_restricted_of_nomatch_put() {
        let mut template = NomatchDmaCmd::new();
        for restricted in [false, true] {
            template.set_restricted(restricted);
            assert_eq!(nomatch_dma(&template).restricted(), restricted);
        }
    }

    #[test]
    fn encodes_full_dma() {
        let mut template = FullDmaCmd::new();
        template.set_opcode(C_CMD_PUT as u8);
        template.set_event_send_disable(true);
        template.set_dfa(DFA);
        let bytes = padded(&[0x15, 0x00, 0x08, 0x00, 0x04, 0x30, 0x12, 0x00]);
        assert_eq!(*dma(&template).bytes(), bytes);
    }

    #[test]
    fn encodes_dma_amo() {
        let mut template = DmaAmoCmd::new();
        template.set_atomic_type(C_AMO_TYPE_FLOAT_COMPLEX_T as u8);
        let mut bytes = padded::<96>(&[0x59]);
        bytes[24] = 8;
        bytes[73] = 9;
        assert_eq!(*dma_amo(&template, true).bytes(), bytes);
        bytes[0] = 0x49;
        assert_eq!(*dma_amo(&template, false).bytes(), bytes);
    }

    #[test]
    fn sets_length_of_dma_amo_by_type() {
        let sizes = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 77, 77, 77];
        for (kind, size) in sizes.into_iter().enumerate() {
            let mut template = DmaAmoCmd::new();
            template.set_atomic_type(kind as u8);
            template.set_request_len(77);
            assert_eq!(dma_amo(&template, false).request_len(), size, "type {kind}");
        }
    }

    #[test]
    fn encodes_idc_amo() {
        let mut template = IdcAmoCmd::new();
        template.set_dfa(DFA);
        template.set_remote_offset(0x10);
        template.set_local_addr(0x1122_3344);
        template.set_atomic_op(C_AMO_OP_SUM as u8);
        template.set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
        template.set_op1_word1(0x8877_6655_4433_2211);
        template.set_op1_word2(3);
        template.set_op2_word1(4);
        template.set_op2_word2(5);
        let header = |opcode, length| [opcode, length, 0, 0, 0x04, 0x30, 0x12, 0x00, 0x10];

        let mut bytes = padded::<64>(&header(0x40, 32));
        bytes[16..18].copy_from_slice(&[2, 7]);
        bytes[24..32].copy_from_slice(&[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        let (command, halves) = idc_amo(&template, false);
        assert_eq!((*command.bytes(), halves), (bytes, 1));

        let mut bytes = padded::<64>(&header(0x54, 64));
        bytes[16..20].copy_from_slice(&[0x44, 0x33, 0x22, 0x11]);
        bytes[24..26].copy_from_slice(&[2, 7]);
        bytes[32..40].copy_from_slice(&[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        for (at, word) in [(40, 3), (48, 4), (56, 5)] {
            bytes[at] = word;
        }
        let (command, halves) = idc_amo(&template, true);
        assert_eq!((*command.bytes(), halves), (bytes, 2));
    }

    #[test]
    fn chooses_form_of_idc_amo() {
        for (op, kind, fetching, halves) in [
            (C_AMO_OP_SUM, C_AMO_TYPE_INT8_T, false, 1),
            (C_AMO_OP_SUM, C_AMO_TYPE_FLOAT_COMPLEX_T, false, 1),
            (C_AMO_OP_SUM, C_AMO_TYPE_INT8_T, true, 2),
            (C_AMO_OP_SUM, C_AMO_TYPE_DOUBLE_COMPLEX_T, false, 2),
            (C_AMO_OP_CSWAP, C_AMO_TYPE_INT8_T, false, 2),
            (C_AMO_OP_AXOR, C_AMO_TYPE_INT8_T, false, 2),
        ] {
            let mut template = IdcAmoCmd::new();
            template.set_atomic_op(op as u8);
            template.set_atomic_type(kind as u8);
            let (command, got) = idc_amo(&template, fetching);
            let (size, length) = (u32::from(command.cmd_size()), u32::from(command.length()));
            assert_eq!((got, 32 << size, length), (halves, 32 * halves, 32 * halves));
        }
    }

    #[test]
    fn encodes_append() {
        let mut template = TargetCmd::new();
        template.set_opcode(C_CMD_TGT_APPEND as u8);
        template.set_ptl_list(C_PTL_LIST_PRIORITY as u8);
        template.set_ptlte_index(9);
        template.set_event_unlink_disable(true);
        template.set_event_success_disable(true);
        template.set_event_comm_disable(true);
        template.set_op_put(true);
        let bytes = padded(&[0x87, 0x00, 0x09, 0x00, 0x38, 0x40, 0x00, 0x00]);
        assert_eq!(*target(&template).bytes(), bytes);
    }

    #[test]
    fn encodes_set_state() {
        let mut template = SetStateCmd::new();
        template.set_ptlte_state(C_PTLTE_ENABLED as u8);
        template.set_ptlte_index(9);
        let bytes = padded(&[0xc7, 0x02, 0x09, 0x00]);
        assert_eq!(*set_state(&template).bytes(), bytes);
    }
}
