//! Transmit queues: turn initiator commands into packets (nic.md 3).
//!
//! Commands of a queue start in order. A put is cut into packets as the wire has room, so a queue
//! with a slow receiver waits without delaying other queues. A get or an atomic operation is one
//! packet.

use cxi_sys::records::{CStateCmd, CmdHeader, CqCmd, FaUnicast};
use cxi_sys::*;

use super::address::{Address, PID_BITS};
use super::commands::{Operation, Source};
use super::counter;
use super::event_queue::{self, EventQueue};
use super::events::{self, FailedCommand, InitiatorEvent};
use super::lni::Lni;
use super::location::{self, Staging};
use super::return_codes::{ErrorFlag, ReturnCode};
use super::ring::{CommandRing, RingCommand};
use super::table::Table;
use super::transactions::{OpenTransaction, ReplyDestination, Transactions};
use super::triggers::{self, CountingEvents, IssuingQueue, LaunchedCommand};
use super::wire::{INLINE, MTU, Origin, Packet, PacketKind, PeerId, Rendezvous, Waiting, Wire};

/// The most commands executed before other queues get their turn.
const BURST: usize = 32;

/// A transmit queue.
pub struct TransmitQueue {
    pub ring: CommandRing,
    pub lni: usize,
    /// The communication profile of the next commands.
    pub lcid: u8,
    /// It is a trigger queue, which also accepts counter commands (nic.md 1).
    pub trigger: bool,
    /// Event queue for COMMAND_FAILURE; 0 is none.
    pub error_eq: u16,
    /// The context of immediate data commands (nic.md 3.4).
    pub c_state: CStateCmd,
    /// The operation of which packets remain to be sent.
    pub transfer: Option<Transfer>,
    /// The command and the payload of `transfer`.
    transferred: (RingCommand, Source),
    /// Number of operations that wait for their response, for FENCE.
    pub outstanding: usize,
}

/// An operation of which packets remain to be sent.
pub struct Transfer {
    pub peer: PeerId,
    /// Header of the next packet.
    pub packet: Packet,
    send_event: bool,
}

/// The result of a command.
#[derive(PartialEq, Eq)]
enum CommandResult {
    Done,
    /// It cannot be executed yet, because of the wire, the transactions or a fence.
    Wait,
}

/// The parts of the NIC that transmit queues use.
pub struct TransmitParts<'a, W> {
    pub wire: &'a mut W,
    pub lnis: &'a Table<Lni>,
    pub eqs: &'a mut Table<EventQueue>,
    pub transactions: &'a mut Transactions,
    pub waiting: &'a mut Waiting,
    pub counters: &'a mut CountingEvents,
    pub staging: &'a mut Staging,
}

impl<W: Wire> TransmitParts<'_, W> {
    /// Sets the error flag of an operation that failed at its initiator.
    #[cold]
    fn raise(&self, code: ReturnCode) {
        if let Some(flag) = ErrorFlag::from_failure(code) {
            self.wire.raise(flag);
        }
    }
}

impl TransmitQueue {
    /// Makes a queue without operations.
    pub fn new(ring: CommandRing, lni: usize, lcid: u8, trigger: bool, error_eq: u16) -> Self {
        Self {
            ring,
            lni,
            lcid,
            trigger,
            error_eq,
            c_state: CStateCmd::new(),
            transfer: None,
            transferred: (RingCommand::new(), Source::Nothing),
            outstanding: 0,
        }
    }

    /// Whether there is certainly nothing to execute.
    #[inline]
    fn is_idle(&self) -> bool {
        self.transfer.is_none() && !self.trigger && !self.ring.has_next()
    }

    /// Completes an operation that cannot be sent.
    fn refuse<W>(
        &mut self,
        operation: &Operation,
        code: ReturnCode,
        tgt_error: bool,
        nic: &mut TransmitParts<'_, W>,
    ) -> CommandResult {
        self.ring.is_refused = true;
        nic.counters.count_completion(operation.counting, 0, code, nic.eqs);
        let completion = InitiatorEvent {
            kind: completion_kind(operation),
            user_ptr: operation.user_ptr,
            mlength: 0,
            ptl_list: 0,
            rendezvous: false,
            tgt_error,
            return_code: code,
        };
        events::initiator(nic.eqs, operation.eq, &completion);
        CommandResult::Done
    }

    /// Executes the commands of the queue, up to a bound. True if there was anything to do.
    #[inline]
    pub fn run<W: Wire>(&mut self, number: usize, nic: &mut TransmitParts<'_, W>) -> bool {
        let mut worked = self.ring.read_launch_page();
        if self.is_idle() {
            return worked;
        }
        let (mut command, mut operation) = (RingCommand::new(), Operation::new());
        for _ in 0..BURST {
            if let Some(transfer) = &mut self.transfer {
                let before = transfer.packet.offset;
                let (command, source) = &self.transferred;
                if !transfer.advance(command, source, self.lni, nic) {
                    return worked || transfer.packet.offset != before;
                }
                self.transfer = None;
                worked = true;
            }
            if self.trigger
                && let Some(launch) = nic.counters.take_launched(number)
            {
                if !self.launch(number, launch, &mut operation, nic) {
                    break;
                }
                worked = true;
                continue;
            }
            if self.ring.is_held() {
                break;
            }
            let Some(fetched) = self.ring.peek(&mut command) else {
                break;
            };
            let header = command.header;
            let accepted = fetched.and_then(|()| nic.wire.refusal().map_or(Ok(()), Err));
            match accepted.and_then(|()| self.execute(number, &command, &mut operation, nic)) {
                Ok(CommandResult::Done) => {
                    nic.wire.count_command();
                    self.ring.advance(header);
                }
                Ok(CommandResult::Wait) => break,
                Err(code) => {
                    nic.wire.count_command();
                    let slot = self.ring.fail(header, code);
                    self.report_failure(number, slot, header, code, nic.eqs);
                }
            }
            worked = true;
        }
        worked
    }

    /// Executes a triggered command with the current profile and rights of the queue; false if it
    /// cannot be executed yet. A command that has lost its rights since it was accepted is reported
    /// without stopping the queue, which has advanced since.
    fn launch<W: Wire>(
        &mut self,
        number: usize,
        launch: LaunchedCommand,
        operation: &mut Operation,
        nic: &mut TransmitParts<'_, W>,
    ) -> bool {
        let command = &launch.command;
        let result = operation
            .decode(command, &self.c_state)
            .and_then(|()| self.start(number, command, operation, nic));
        match result {
            Ok(CommandResult::Done) => {}
            Ok(CommandResult::Wait) => {
                nic.counters.put_back(launch);
                return false;
            }
            Err(code) => {
                let slot = launch.slot;
                self.report_failure(number, slot, command.header, code, nic.eqs);
            }
        }
        true
    }

    fn report_failure(
        &self,
        number: usize,
        slot: u16,
        header: CmdHeader,
        code: ReturnCode,
        eqs: &mut Table<EventQueue>,
    ) {
        let failed = FailedCommand { queue: number, is_target: false, slot, header, code };
        events::command_failure(eqs, self.error_eq, &failed);
    }

    #[inline]
    fn execute<W: Wire>(
        &mut self,
        number: usize,
        command: &RingCommand,
        operation: &mut Operation,
        nic: &mut TransmitParts<'_, W>,
    ) -> Result<CommandResult, ReturnCode> {
        let header = command.header;
        if self.trigger && !matches!(command.size(), 64 | 128) {
            return Err(C_RC_CMD_INVALID_ARG); // nic.md 2.6
        }
        match (u32::from(header.cmd_type()), u32::from(header.opcode())) {
            (C_CMD_TYPE_IDC, C_CMD_CSTATE) => {
                let c_state = CStateCmd::from_bytes(command.bytes());
                let length = usize::from(c_state.length());
                if command.size() != CStateCmd::SIZE || length != CStateCmd::SIZE {
                    return Err(C_RC_CMD_INVALID_ARG);
                }
                self.c_state = c_state;
                Ok(CommandResult::Done)
            }
            (C_CMD_TYPE_IDC | C_CMD_TYPE_DMA, C_CMD_NOOP) | (C_CMD_TYPE_CQ, C_CMD_CQ_NOOP) => {
                Ok(CommandResult::Done)
            }
            (C_CMD_TYPE_CT, _) if self.trigger => {
                let issuer = IssuingQueue {
                    lni: self.lni,
                    queue: number,
                    slot: self.ring.slot(),
                    c_state: &self.c_state,
                };
                triggers::execute_command(command, &issuer, nic.counters, nic.eqs)?;
                Ok(CommandResult::Done)
            }
            (C_CMD_TYPE_CQ, C_CMD_CQ_FENCE) => {
                Ok(if self.outstanding == 0 { CommandResult::Done } else { CommandResult::Wait })
            }
            (C_CMD_TYPE_CQ, C_CMD_CQ_LCID) => self.select_profile(command, nic.lnis),
            _ => {
                operation.decode(command, &self.c_state)?;
                self.start(number, command, operation, nic)
            }
        }
    }

    fn select_profile(
        &mut self,
        command: &RingCommand,
        lnis: &Table<Lni>,
    ) -> Result<CommandResult, ReturnCode> {
        if !self.ring.is_at_even_slot() {
            return Err(C_RC_CMD_ALIGN_ERROR); // nic.md 3.11
        }
        let lcid = CqCmd::from_bytes(command.bytes()).lcid();
        // Trigger queues are always made with LCID 0, so they cannot select another.
        if self.trigger && lcid != 0 {
            return Err(C_RC_PERM_VIOLATION);
        }
        lnis.get(self.lni).and_then(|lni| lni.profile(lcid)).ok_or(C_RC_PERM_VIOLATION)?;
        self.lcid = lcid;
        Ok(CommandResult::Done)
    }

    /// The state of an operation until its response arrives. `number` is the number of this queue.
    #[inline]
    fn transaction(
        &self,
        number: usize,
        peer: PeerId,
        eq: u16,
        operation: &Operation,
    ) -> OpenTransaction {
        OpenTransaction {
            peer,
            queue: Some(number),
            eq,
            user_ptr: operation.user_ptr,
            event: completion_kind(operation),
            length: operation.length,
            destination: operation.result.map(|to| ReplyDestination {
                lni: self.lni,
                lac: to.lac,
                iova: to.iova,
            }),
            rendezvous: None,
            success_disable: operation.success_disable,
            counting: operation.counting,
            local_error: None,
            probed: false,
        }
    }

    /// Starts an operation, or completes it at once if it cannot be sent.
    #[inline]
    fn start<W: Wire>(
        &mut self,
        number: usize,
        command: &RingCommand,
        operation: &mut Operation,
        nic: &mut TransmitParts<'_, W>,
    ) -> Result<CommandResult, ReturnCode> {
        let lni = nic.lnis.get(self.lni).ok_or(C_RC_PERM_VIOLATION)?;
        let profile = lni.profile(self.lcid).ok_or(C_RC_PERM_VIOLATION)?;
        let (vni, is_high_rate) = (profile.vni, profile.tc_type == CXI_TC_TYPE_HRP);
        let eq = event_queue::check_owner(nic.eqs, operation.eq, self.lni)?;
        let counting = operation.counting;
        if counting.is_used() && !nic.counters.is_of(counting.ct(), self.lni) {
            return Err(C_RC_PERM_VIOLATION);
        }
        if operation.reduction {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        if nic.transactions.is_full() {
            return Ok(CommandResult::Wait);
        }
        if is_high_rate && !fits_high_rate(operation) {
            return Ok(self.refuse(operation, C_RC_HRP_CONFIG_ERROR, false, nic));
        }
        if let Err(code) = operation.prepare(command, &lni.space) {
            nic.raise(code);
            return Ok(self.refuse(operation, code, false, nic));
        }
        let dfa = FaUnicast::from_bytes(operation.dfa.to_le_bytes());
        let pid = dfa.endpoint_defined() & ((1 << PID_BITS) - 1);
        let peer = match nic.wire.resolve(dfa.nid(), vni, pid) {
            Ok(peer) => peer,
            Err(code) => {
                return Ok(self.refuse(operation, code, code != C_RC_UNDELIVERABLE, nic));
            }
        };
        let transaction = self.transaction(number, peer, eq, operation);
        let tag = nic.transactions.start(transaction);
        self.outstanding += 1;
        let index = dfa.endpoint_defined() >> PID_BITS << 5 | u16::from(operation.index_ext);
        let origin = match operation.source {
            Source::Memory(from) if nic.wire.has_page_costs() && lni.space.is_huge(from.lac) => {
                Origin::HugePages
            }
            source => source.origin(),
        };
        let address = Address::new(vni, pid, index);
        let header = Packet { class: profile.class(), tag, address, origin, ..header(operation) };
        let send_event = !operation.send_disable;
        let mut transfer = Transfer { peer, packet: header, send_event };
        if !transfer.advance(command, &operation.source, self.lni, nic) {
            self.transfer = Some(transfer);
            self.transferred = (command.clone(), operation.source);
        }
        Ok(CommandResult::Done)
    }
}

/// The kind of the event that ends an operation.
#[inline]
fn completion_kind(operation: &Operation) -> c_event_type {
    if operation.is_answered_with_data() { C_EVENT_REPLY } else { C_EVENT_ACK }
}

/// The fields of the first packet that an operation alone determines.
#[inline]
fn header(operation: &Operation) -> Packet {
    // The restricted header has no fields for match information (nic.md 3.10.1).
    let carried = |value| if operation.restricted { 0 } else { value };
    Packet {
        kind: operation.kind,
        restricted: operation.restricted,
        flush: operation.flush,
        small: operation.small,
        initiator: carried(operation.initiator.into()) as u32,
        remote_offset: operation.remote_offset,
        total: operation.total(),
        amo: operation.amo,
        rendezvous: match operation.kind {
            PacketKind::Rendezvous => operation.rendezvous,
            _ => Rendezvous::default(),
        },
        tail: [carried(operation.match_bits), carried(operation.header_data)],
        ..Packet::default()
    }
}

/// Whether an operation can be a high-rate put: restricted, without an answer of data, one packet
/// (nic.md 3.11).
fn fits_high_rate(operation: &Operation) -> bool {
    let fits = operation.length <= MTU as u32;
    operation.restricted && !operation.is_answered_with_data() && fits
}

impl Transfer {
    /// Sends packets with the payload of `command` at `source` while there is room. Returns true
    /// when all are sent, or the operation was aborted.
    #[inline]
    fn advance<W: Wire>(
        &mut self,
        command: &RingCommand,
        source: &Source,
        lni: usize,
        nic: &mut TransmitParts<'_, W>,
    ) -> bool {
        let most = nic.wire.most_payload() as u32;
        loop {
            // The data of a get is in its reply.
            let end = match self.packet.kind {
                PacketKind::Get => 0,
                _ => self.packet.carried(),
            };
            let rest = end - self.packet.offset;
            self.packet.length = rest.min(most) as u16;
            let space = nic.lnis.get(lni).map(|lni| &lni.space);
            let payload = space.ok_or(C_RC_PERM_VIOLATION).and_then(|space| {
                let (offset, length) = (self.packet.offset, self.packet.length);
                source.at(command, space, offset, length, nic.staging)
            });
            let payload = match payload {
                Ok(payload) => payload,
                Err(code) => {
                    nic.raise(code);
                    self.abort(Some(code), nic.transactions, nic.waiting);
                    return true;
                }
            };
            self.inline_payload(payload);
            // SAFETY: `Source::at` returned these bytes: part of the operation, or of the staging
            // buffer, or of memory that software keeps mapped while commands use it.
            let sent = unsafe { nic.wire.send(self.peer, &self.packet, payload) };
            if !sent {
                return false;
            }
            self.packet.offset += u32::from(self.packet.length);
            if self.packet.offset == end {
                break;
            }
            if self.packet.kind == PacketKind::Rendezvous {
                // The rest of the eager part is sent like the rest of a put.
                self.packet.kind = PacketKind::Put;
                self.packet.total = end;
            }
        }
        self.report_sent(nic);
        true
    }

    /// Counts an operation that is sent completely, and writes its SEND event.
    #[inline]
    fn report_sent<W: Wire>(&self, nic: &mut TransmitParts<'_, W>) {
        if let Some(transaction) = nic.transactions.get_mut(self.packet.tag)
            && transaction.counting.send()
        {
            let counting = transaction.counting;
            let change = counter::amount(counting.bytes(), transaction.length, C_RC_OK);
            nic.counters.change(usize::from(counting.ct()), change, nic.eqs);
        }
        if self.send_event
            && let Some(transaction) = nic.transactions.get_mut(self.packet.tag)
        {
            let event = InitiatorEvent {
                kind: C_EVENT_SEND,
                user_ptr: transaction.user_ptr,
                mlength: transaction.length,
                ptl_list: 0,
                rendezvous: false,
                tgt_error: false,
                return_code: C_RC_OK,
            };
            events::initiator(nic.eqs, transaction.eq, &event);
        }
    }

    /// Puts the payload of the whole operation into the header of its packet, if that has room for
    /// it.
    #[inline]
    fn inline_payload(&mut self, payload: *const u8) {
        let packet = &mut self.packet;
        let length = usize::from(packet.length);
        // A packet for which there was no room has its payload already.
        if packet.inline {
            return;
        }
        if length > INLINE || packet.tail != [0; 2] || packet.total != length as u32 {
            return;
        }
        packet.inline = true;
        if length > 0 {
            let tail = packet.tail.as_mut_ptr().cast();
            // SAFETY: `advance` passes `length` readable bytes, and the tail holds 16.
            unsafe { location::copy(payload, tail, length) };
        }
    }

    /// Aborts the operation, at the target too. `error` is the return code for the initiator.
    pub fn abort(
        &self,
        error: Option<ReturnCode>,
        transactions: &mut Transactions,
        waiting: &mut Waiting,
    ) {
        if let Some(transaction) = transactions.get_mut(self.packet.tag) {
            transaction.local_error = error;
        }
        let packet = Packet { kind: PacketKind::Abort, length: 0, ..self.packet };
        waiting.push_back((self.peer, packet));
    }
}
