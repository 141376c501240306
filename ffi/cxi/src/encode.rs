//! What emitting a command sets in it (nic.md 3.2): type, size, and the opcode or length
//! that follow from them. Everything else is the caller's.
//!
//! Unlike the helper of libcxi, `restricted` of a non-matching command is left to the
//! caller: forcing it makes the choice of the user void (defect T4 of the legacy tools).

use cxi_sys::records::*;
use cxi_sys::*;

/// Largest payload in bytes of an immediate data command, restricted (nic.md 3.2).
pub const IDC_MAX_RESTRICTED: usize = C_MAX_IDC_PAYLOAD_RES as usize;

/// Largest payload in bytes of an immediate data command, unrestricted (nic.md 3.2).
pub const IDC_MAX_UNRESTRICTED: usize = C_MAX_IDC_PAYLOAD_UNR as usize;

/// Half-slots of a command of size code `code`.
pub(crate) const fn halves(code: c_cmd_size) -> u32 {
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
    command.set_cmd_type(C_CMD_TYPE_IDC as u8);
    command.set_cmd_size(C_CMD_SIZE_32B as u8);
    command.set_opcode(C_CMD_CSTATE as u8);
    command.set_length(CStateCmd::SIZE as u8);
    command
}

/// The header of an immediate data put with `payload` bytes (at most 224), and the
/// half-slots of the whole command.
#[inline]
pub(crate) fn idc_put(template: &IdcHdr, payload: usize) -> (IdcHdr, u32) {
    let length = IdcHdr::SIZE + payload;
    let size = size_code(length);
    let mut header = *template;
    header.set_cmd_type(C_CMD_TYPE_IDC as u8);
    header.set_cmd_size(size as u8);
    header.set_opcode(C_CMD_PUT as u8);
    header.set_length(length as u8);
    (header, halves(size))
}

#[inline]
pub(crate) fn nomatch_dma(template: &NomatchDmaCmd) -> NomatchDmaCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_DMA as u8);
    command.set_cmd_size(C_CMD_SIZE_32B as u8);
    command
}

#[inline]
pub(crate) fn dma(template: &FullDmaCmd) -> FullDmaCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_DMA as u8);
    command.set_cmd_size(C_CMD_SIZE_64B as u8);
    command
}

#[inline]
pub(crate) fn target(template: &TargetCmd) -> TargetCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_CQ as u8);
    command.set_cmd_size(C_CMD_SIZE_64B as u8);
    command
}

#[inline]
pub(crate) fn set_state(template: &SetStateCmd) -> SetStateCmd {
    let mut command = *template;
    command.set_cmd_type(C_CMD_TYPE_CQ as u8);
    command.set_cmd_size(C_CMD_SIZE_64B as u8);
    command.set_opcode(C_CMD_TGT_SETSTATE as u8);
    command
}

/// The examples of nic.md Appendix B: pid_bits 9, nid 0x00123, pid 4, index 0.
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
    fn c_state_bytes() {
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
    fn idc_put_bytes() {
        let mut template = IdcHdr::new();
        template.set_dfa(DFA);
        template.set_remote_offset(0x10);
        // The caller's opcode does not count.
        template.set_opcode(C_CMD_NOMATCH_PUT as u8);
        let (header, halves) = idc_put(&template, 8);
        let bytes = padded(&[0x10, 0x18, 0, 0, 0x04, 0x30, 0x12, 0x00, 0x10]);
        assert_eq!(*header.bytes(), bytes);
        assert_eq!(halves, 1);
    }

    #[test]
    fn idc_put_sizes() {
        for (payload, halves) in [
            (0, 1),
            (16, 1),
            (17, 2),
            (48, 2),
            (49, 4),
            (112, 4),
            (113, 8),
            (224, 8),
        ] {
            let (header, got) = idc_put(&IdcHdr::new(), payload);
            assert_eq!(got, halves, "{payload} bytes");
            assert_eq!(1 << header.cmd_size(), halves);
            assert_eq!(usize::from(header.length()), 16 + payload);
        }
    }

    #[test]
    fn nomatch_put_bytes() {
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
    fn nomatch_put_leaves_restricted_to_the_caller() {
        let mut template = NomatchDmaCmd::new();
        for restricted in [false, true] {
            template.set_restricted(restricted);
            assert_eq!(nomatch_dma(&template).restricted(), restricted);
        }
    }

    #[test]
    fn full_dma_bytes() {
        let mut template = FullDmaCmd::new();
        template.set_opcode(C_CMD_PUT as u8);
        template.set_event_send_disable(true);
        template.set_dfa(DFA);
        let bytes = padded(&[0x15, 0x00, 0x08, 0x00, 0x04, 0x30, 0x12, 0x00]);
        assert_eq!(*dma(&template).bytes(), bytes);
    }

    #[test]
    fn append_bytes() {
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
    fn set_state_bytes() {
        let mut template = SetStateCmd::new();
        template.set_ptlte_state(C_PTLTE_ENABLED as u8);
        template.set_ptlte_index(9);
        let bytes = padded(&[0xc7, 0x02, 0x09, 0x00]);
        assert_eq!(*set_state(&template).bytes(), bytes);
    }
}
