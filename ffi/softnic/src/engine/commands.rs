//! Decodes the initiator commands into operations (nic.md 3.5 to 3.10).

use cxi_sys::records::{
    CStateCmd, DmaAmoCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, IdcMsgHdr, NomatchDmaCmd, SmallAmoPayload,
};
use cxi_sys::*;

use super::arithmetic::{self, Amo};
use super::counter::Counting;
use super::location::Staging;
use super::memory::{AddressSpace, MemoryAccess};
use super::return_codes::ReturnCode;
use super::ring::RingCommand;
use super::wire::{Origin, PacketKind, Rendezvous};

/// Memory of the initiator.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq))]
pub struct Local {
    pub lac: u8,
    pub iova: u64,
}

/// The payload of an operation.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq))]
pub enum Source {
    /// Part of the command, from this word on.
    Immediate(usize),
    /// The operands of an atomic operation, and where they were.
    Operands([u64; 4], Origin),
    /// In memory of the LNI.
    Memory(Local),
    /// No payload.
    Nothing,
}

/// An operation at another NIC.
///
/// Commands are decoded into an `Operation` in place, field by field: a processor waits when it
/// copies a record whose fields it has just stored one by one.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub struct Operation {
    /// Put, get or atomic.
    pub kind: PacketKind,
    pub dfa: u32,
    pub index_ext: u8,
    pub restricted: bool,
    pub flush: bool,
    /// A small message (nic.md 3.6).
    pub small: bool,
    pub remote_offset: u64,
    /// Bytes put or requested; the size of the element of an atomic operation.
    pub length: u32,
    pub initiator: u32,
    pub match_bits: u64,
    pub header_data: u64,
    pub source: Source,
    /// The destination of the data of a reply.
    pub result: Option<Local>,
    pub amo: Amo,
    /// Only valid for rendezvous puts.
    pub rendezvous: Rendezvous,
    pub eq: u16,
    pub user_ptr: u64,
    pub success_disable: bool,
    pub send_disable: bool,
    pub counting: Counting,
    pub reduction: bool,
}

impl Operation {
    /// Makes a place to decode commands to.
    pub fn new() -> Self {
        Self {
            kind: PacketKind::Put,
            dfa: 0,
            index_ext: 0,
            restricted: false,
            flush: false,
            small: false,
            remote_offset: 0,
            length: 0,
            initiator: 0,
            match_bits: 0,
            header_data: 0,
            source: Source::Nothing,
            result: None,
            amo: Amo::default(),
            rendezvous: Rendezvous::default(),
            eq: 0,
            user_ptr: 0,
            success_disable: false,
            send_disable: false,
            counting: Counting::default(),
            reduction: false,
        }
    }

    /// Decodes a command that starts an operation. `c_state` is the context of immediate data
    /// commands. Sets every field that is valid for the operation.
    ///
    /// # Errors
    /// ILLEGAL_OP for a command that this NIC does not implement, CMD_INVALID_ARG for an
    /// inconsistent one.
    #[inline]
    pub fn decode(&mut self, command: &RingCommand, c_state: &CStateCmd) -> Result<(), ReturnCode> {
        let header = command.header;
        let sized = |size: usize| check(command.size() == size);
        match (u32::from(header.cmd_type()), u32::from(header.opcode())) {
            (C_CMD_TYPE_IDC, C_CMD_PUT) => self.idc_put(command, c_state),
            (C_CMD_TYPE_IDC, C_CMD_SMALL_MESSAGE) => self.idc_msg(command, c_state),
            (C_CMD_TYPE_IDC, C_CMD_ATOMIC) => self.idc_amo(command, c_state, false),
            (C_CMD_TYPE_IDC, C_CMD_FETCHING_ATOMIC) => self.idc_amo(command, c_state, true),
            (C_CMD_TYPE_DMA, C_CMD_NOMATCH_PUT) => {
                sized(NomatchDmaCmd::SIZE)?;
                self.dma(command, PacketKind::Put);
                Ok(())
            }
            (C_CMD_TYPE_DMA, C_CMD_NOMATCH_GET) => {
                sized(NomatchDmaCmd::SIZE)?;
                self.dma(command, PacketKind::Get);
                Ok(())
            }
            (C_CMD_TYPE_DMA, C_CMD_PUT) => {
                sized(FullDmaCmd::SIZE)?;
                self.full_dma(command, PacketKind::Put);
                Ok(())
            }
            (C_CMD_TYPE_DMA, C_CMD_GET) => {
                sized(FullDmaCmd::SIZE)?;
                self.full_dma(command, PacketKind::Get);
                Ok(())
            }
            (C_CMD_TYPE_DMA, C_CMD_RENDEZVOUS_PUT) => {
                sized(FullDmaCmd::SIZE)?;
                self.rendezvous_put(command)
            }
            (C_CMD_TYPE_DMA, opcode @ (C_CMD_ATOMIC | C_CMD_FETCHING_ATOMIC)) => {
                sized(DmaAmoCmd::SIZE.next_power_of_two())?;
                self.dma_amo(command, opcode == C_CMD_FETCHING_ATOMIC)
            }
            _ => Err(C_RC_ILLEGAL_OP),
        }
    }

    /// Sets all fields for an operation without payload that the C_STATE describes.
    #[inline]
    fn immediate(&mut self, kind: PacketKind, dfa: u32, c_state: &CStateCmd, replies: bool) {
        self.kind = kind;
        self.dfa = dfa;
        self.index_ext = c_state.index_ext();
        self.restricted = c_state.restricted();
        self.flush = c_state.flush();
        self.small = false;
        self.remote_offset = 0;
        self.length = 0;
        self.initiator = c_state.initiator();
        self.match_bits = 0;

        self.header_data = 0;
        self.source = Source::Nothing;
        self.result = None;
        self.amo = Amo::default();
        self.eq = c_state.eq();
        self.user_ptr = c_state.user_ptr();
        self.success_disable = c_state.event_success_disable();
        self.send_disable = c_state.event_send_disable();
        let completion = if replies { c_state.event_ct_reply() } else { c_state.event_ct_ack() };
        self.counting = Counting::new(
            c_state.ct(),
            c_state.event_ct_send(),
            completion,
            c_state.event_ct_bytes(),
        );
        self.reduction = c_state.reduction();
    }

    #[inline]
    fn idc_put(&mut self, command: &RingCommand, c_state: &CStateCmd) -> Result<(), ReturnCode> {
        let header = IdcHdr::from_bytes(command.bytes());
        let length = usize::from(header.length());
        let limit =
            if c_state.restricted() { C_MAX_IDC_PAYLOAD_RES } else { C_MAX_IDC_PAYLOAD_UNR };
        if length < IdcHdr::SIZE
            || length > command.size()
            || length - IdcHdr::SIZE > limit as usize
        {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        self.immediate(PacketKind::Put, header.dfa(), c_state, false);
        self.remote_offset = header.remote_offset();
        self.length = (length - IdcHdr::SIZE) as u32;
        self.source = Source::Immediate(IdcHdr::SIZE / 8);
        Ok(())
    }

    /// An immediate put with match bits, header data and a user pointer of its own (nic.md 3.6).
    #[inline]
    fn idc_msg(&mut self, command: &RingCommand, c_state: &CStateCmd) -> Result<(), ReturnCode> {
        let header = IdcMsgHdr::from_bytes(command.bytes());
        let length = usize::from(header.length());
        let payload = length
            .checked_sub(IdcMsgHdr::SIZE)
            .filter(|payload| *payload <= C_MAX_IDC_PAYLOAD_UNR as usize)
            .ok_or(C_RC_CMD_INVALID_ARG)?;
        if length > command.size() || c_state.restricted() {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        self.immediate(PacketKind::Put, header.dfa(), c_state, false);
        self.small = true;
        self.length = payload as u32;
        self.source = Source::Immediate(IdcMsgHdr::SIZE / 8);
        self.match_bits = header.match_bits();
        self.header_data = header.header_data();
        self.user_ptr = header.user_ptr();
        Ok(())
    }

    /// Decodes both forms of the immediate atomic operation, which differ in size (nic.md 3.7).
    fn idc_amo(
        &mut self,
        command: &RingCommand,
        c_state: &CStateCmd,
        fetching: bool,
    ) -> Result<(), ReturnCode> {
        let header = IdcHdr::from_bytes(command.bytes());
        if usize::from(header.length()) != command.size() {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        check(!(fetching && c_state.flush()))?; // nic.md 12
        let large = IdcAmoCmd::from_bytes(command.bytes());
        let (amo, operands) = match command.size() {
            IdcAmoCmd::SIZE => (
                Amo {
                    op: large.atomic_op(),
                    kind: large.atomic_type(),
                    comparison: large.cswap_op(),
                    fetching,
                },
                [large.op1_word1(), large.op1_word2(), large.op2_word1(), large.op2_word2()],
            ),
            32 => {
                let mut payload = [0; SmallAmoPayload::SIZE];
                payload.copy_from_slice(&command.bytes::<32>()[IdcHdr::SIZE..]);
                let small = SmallAmoPayload::from_bytes(payload);
                let amo =
                    Amo { op: small.amo_op(), kind: small.amo_type(), comparison: 0, fetching };
                // This form has no field for a result, a second operand or a second word.
                let too_small = fetching
                    || arithmetic::takes_two_operands(amo.op)
                    || u32::from(amo.kind) == C_AMO_TYPE_DOUBLE_COMPLEX_T;
                if too_small {
                    return Err(C_RC_CMD_INVALID_ARG);
                }
                (amo, [small.op1_word1(), 0, 0, 0])
            }
            _ => return Err(C_RC_CMD_INVALID_ARG),
        };
        let result = Local { lac: c_state.write_lac(), iova: large.local_addr() };
        self.immediate(PacketKind::Atomic, header.dfa(), c_state, fetching);
        self.remote_offset = header.remote_offset();
        self.length = arithmetic::size(amo.kind).unwrap_or(0);
        self.source = Source::Operands(operands, Origin::Nic);
        self.result = fetching.then_some(result);
        self.amo = amo;
        Ok(())
    }

    /// Decodes a command of 32 bytes, or the first 32 bytes of a longer one, which have the same
    /// format.
    #[inline]
    fn dma(&mut self, command: &RingCommand, kind: PacketKind) {
        let command = NomatchDmaCmd::from_bytes(command.bytes());
        let local = Local { lac: command.lac(), iova: command.local_addr() };
        let (source, result, completion) = match kind {
            PacketKind::Get => (Source::Nothing, Some(local), command.event_ct_reply()),
            _ => (Source::Memory(local), None, command.event_ct_ack()),
        };
        self.kind = kind;
        self.dfa = command.dfa();
        self.index_ext = command.index_ext();
        self.restricted = command.restricted();
        self.flush = command.flush();
        self.small = false;
        self.remote_offset = command.remote_offset();
        self.length = command.request_len();
        self.initiator = 0;
        self.match_bits = 0;
        self.header_data = 0;
        self.source = source;
        self.result = result;
        self.amo = Amo::default();
        self.eq = command.eq();
        self.user_ptr = 0; // nic.md 3.8
        self.success_disable = command.event_success_disable();
        self.send_disable = command.event_send_disable();
        self.counting = Counting::new(
            command.ct(),
            command.event_ct_send(),
            completion,
            command.event_ct_bytes(),
        );
        self.reduction = command.reduction();
    }

    #[inline]
    fn full_dma(&mut self, command: &RingCommand, kind: PacketKind) {
        self.dma(command, kind);
        let full = FullDmaCmd::from_bytes(command.bytes());
        self.initiator = full.initiator();
        self.match_bits = full.match_bits();
        self.header_data = full.header_data();
        self.user_ptr = full.user_ptr();
    }

    /// Decodes a rendezvous put, which cannot be restricted because it needs match bits.
    fn rendezvous_put(&mut self, command: &RingCommand) -> Result<(), ReturnCode> {
        let put = FullDmaCmd::from_bytes(command.bytes());
        if put.restricted() {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        self.full_dma(command, PacketKind::Rendezvous);
        self.rendezvous = Rendezvous {
            eager: put.eager_length().min(put.request_len()),
            id: put.rendezvous_id(),
            use_offset_for_get: put.use_offset_for_get(),
        };
        Ok(())
    }

    fn dma_amo(&mut self, command: &RingCommand, fetching: bool) -> Result<(), ReturnCode> {
        let amo = DmaAmoCmd::from_bytes(command.bytes());
        check(!(fetching && amo.flush()))?; // nic.md 12
        let result = Local { lac: amo.write_lac(), iova: amo.local_write_addr() };
        self.dma(command, PacketKind::Atomic);
        self.initiator = amo.initiator();
        self.match_bits = amo.match_bits();
        self.header_data = amo.header_data();
        self.user_ptr = amo.user_ptr();
        self.result = fetching.then_some(result);
        self.amo = Amo {
            op: amo.atomic_op(),
            kind: amo.atomic_type(),
            comparison: amo.cswap_op(),
            fetching,
        };
        let completion = if fetching { amo.event_ct_reply() } else { amo.event_ct_ack() };
        self.counting =
            Counting::new(amo.ct(), amo.event_ct_send(), completion, amo.event_ct_bytes());
        Ok(())
    }

    /// Whether a REPLY with data completes the operation, not an ACK (nic.md 6.4).
    #[inline]
    pub fn is_answered_with_data(&self) -> bool {
        self.kind == PacketKind::Get || self.amo.fetching
    }

    /// Checks the memory of the initiator for the whole length before anything is sent, and reads
    /// the first operand of an atomic operation. An operation on 0 bytes checks no address.
    ///
    /// # Errors
    /// The return code with which the operation completes.
    #[inline]
    pub fn prepare(
        &mut self,
        command: &RingCommand,
        space: &AddressSpace,
    ) -> Result<(), ReturnCode> {
        if self.kind == PacketKind::Atomic
            && let Source::Memory(operand) = self.source
        {
            self.fetch_operand(command, operand, space)?;
        }
        if let Source::Memory(from) = self.source
            && self.payload() > 0
        {
            space.translate(from.lac, from.iova, self.payload().into(), MemoryAccess::Read)?;
        }
        if let Some(to) = self.result
            && self.length > 0
        {
            space.translate(to.lac, to.iova, self.length.into(), MemoryAccess::Write)?;
        }
        Ok(())
    }

    /// Reads the operands of a DMA atomic operation and checks its length. The target, which
    /// executes the operation, checks the combination of type and operation. For an unknown type
    /// nothing is read.
    fn fetch_operand(
        &mut self,
        command: &RingCommand,
        operand: Local,
        space: &AddressSpace,
    ) -> Result<(), ReturnCode> {
        let mut bytes = [0; 16];
        match arithmetic::size(self.amo.kind) {
            Some(size) if size != self.length => return Err(C_RC_AMO_LENGTH_ERROR),
            Some(size) => {
                let from = space.translate(
                    operand.lac,
                    operand.iova,
                    u64::from(size),
                    MemoryAccess::Read,
                )?;
                // SAFETY: `translate` found `size` bytes, at most 16, which `bytes` holds; software
                // keeps the memory mapped while commands use it.
                unsafe { from.read(bytes.as_mut_ptr(), size as usize) }?;
            }
            None => self.length = 0,
        }
        let first = u128::from_le_bytes(bytes);
        let amo = DmaAmoCmd::from_bytes(command.bytes());
        let origin = if space.is_huge(operand.lac) { Origin::HugePages } else { Origin::Memory };
        let operands = [first as u64, (first >> 64) as u64, amo.op2_word1(), amo.op2_word2()];
        self.source = Source::Operands(operands, origin);
        Ok(())
    }

    /// The payload bytes of its packets. An atomic operation carries two words of operand 1, and
    /// two of operand 2 where there is one.
    #[inline]
    pub fn payload(&self) -> u32 {
        match self.kind {
            PacketKind::Atomic if arithmetic::takes_two_operands(self.amo.op) => 32,
            PacketKind::Atomic => 16,
            PacketKind::Rendezvous => self.rendezvous.eager,
            _ => self.length,
        }
    }

    /// The bytes of the whole message, as stated in its packets.
    #[inline]
    pub fn total(&self) -> u32 {
        match self.kind {
            PacketKind::Rendezvous => self.length,
            _ => self.payload(),
        }
    }
}

/// CMD_INVALID_ARG unless the condition holds.
fn check(condition: bool) -> Result<(), ReturnCode> {
    if condition { Ok(()) } else { Err(C_RC_CMD_INVALID_ARG) }
}

impl Source {
    /// The origin of the payload.
    #[inline]
    pub fn origin(&self) -> Origin {
        match self {
            Self::Memory(_) => Origin::Memory,
            Self::Operands(_, origin) => *origin,
            Self::Immediate(_) | Self::Nothing => Origin::Nic,
        }
    }

    /// An address at which `length` bytes at `offset` of an operation of `command` can be read.
    /// Translated for each packet, because software may unmap the memory while the put is in
    /// progress.
    #[inline]
    pub fn at(
        &self,
        command: &RingCommand,
        space: &AddressSpace,
        offset: u32,
        length: u16,
        staging: &mut Staging,
    ) -> Result<*const u8, ReturnCode> {
        match self {
            Self::Immediate(word) => Ok(command.words()[*word..].as_ptr().cast()),
            Self::Operands(words, _) => Ok(words.as_ptr().cast()),
            Self::Memory(from) if length > 0 => {
                let iova = from.iova + u64::from(offset);
                let from =
                    space.translate(from.lac, iova, u64::from(length), MemoryAccess::Read)?;
                from.payload(length, staging)
            }
            Self::Memory(_) | Self::Nothing => Ok(std::ptr::null()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A command of any type, size and opcode.
    fn command() -> impl Strategy<Value = RingCommand> {
        prop::array::uniform32(any::<u64>()).prop_map(RingCommand::from_words)
    }

    /// A command that is often accepted: its type, size and opcode fit, and its length is the
    /// length of an immediate put or atomic operation.
    fn plausible() -> impl Strategy<Value = RingCommand> {
        let opcodes = [C_CMD_PUT, C_CMD_SMALL_MESSAGE, C_CMD_ATOMIC, C_CMD_FETCHING_ATOMIC];
        let immediate = opcodes.map(|opcode| (C_CMD_TYPE_IDC, C_CMD_SIZE_64B, opcode));
        let dma = [
            (C_CMD_TYPE_IDC, C_CMD_SIZE_32B, C_CMD_PUT),
            (C_CMD_TYPE_IDC, C_CMD_SIZE_32B, C_CMD_ATOMIC),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_32B, C_CMD_NOMATCH_PUT),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_32B, C_CMD_NOMATCH_GET),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_PUT),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_GET),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_64B, C_CMD_RENDEZVOUS_PUT),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_128B, C_CMD_ATOMIC),
            (C_CMD_TYPE_DMA, C_CMD_SIZE_128B, C_CMD_FETCHING_ATOMIC),
        ];
        let headers = prop::sample::select([&immediate[..], &dma].concat());
        let words = prop::array::uniform32(any::<u64>());
        (words, headers, prop::sample::select(vec![32_u64, 64])).prop_map(
            |(mut words, (cmd_type, size, opcode), length)| {
                let header = u64::from(cmd_type | size << 2 | opcode << 4);
                words[0] = words[0] & !0xffff | header | length << 8;
                RingCommand::from_words(words)
            },
        )
    }

    proptest! {
        /// No field of the earlier command is left, except the rendezvous fields, which only
        /// rendezvous puts have.
        #[test]
        fn decoding_replaces_the_fields_of_an_earlier_command(
            earlier in prop_oneof![1 => command(), 4 => plausible()],
            later in prop_oneof![1 => command(), 4 => plausible()],
            context in prop::array::uniform4(any::<u64>()),
        ) {
            let context = CStateCmd::from_words(context);
            let (mut used, mut fresh) = (Operation::new(), Operation::new());
            let _ = used.decode(&earlier, &context);
            let decoded = used.decode(&later, &context);
            prop_assert_eq!(decoded, fresh.decode(&later, &context));
            if decoded.is_ok() {
                if used.kind != PacketKind::Rendezvous {
                    used.rendezvous = Rendezvous::default();
                    fresh.rendezvous = Rendezvous::default();
                }
                prop_assert_eq!(used, fresh);
            }
        }
    }
}
