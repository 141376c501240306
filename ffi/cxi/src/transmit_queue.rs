//! Transmit queues: initiator commands (nic.md 3.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::*;
use cxi_sys::*;

use crate::counter::Counter;
use crate::encode::{self, IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED};
use crate::error::{EmitError, Error};
use crate::event_queue::{EventQueue, EventQueueHandle, Reporting};
use crate::lni::CommunicationProfile;
use crate::memory::MemoryRegion;
use crate::queue::{ALLOCATE, CommandQueue};

/// A queue of initiator commands.
///
/// ```
/// fn two_batches(queue: &mut cxi::TransmitQueue) {
///     queue.batch().commit_doorbell();
///     queue.batch().commit_low_latency();
/// }
/// ```
///
/// Two batches at a time do not compile:
///
/// ```compile_fail,E0499
/// fn two_batches(queue: &mut cxi::TransmitQueue) {
///     let first = queue.batch();
///     let second = queue.batch();
///     first.commit_doorbell();
///     second.commit_doorbell();
/// }
/// ```
///
/// Committing a batch twice does not compile:
///
/// ```compile_fail,E0382
/// fn commit_twice(queue: &mut cxi::TransmitQueue) {
///     let batch = queue.batch();
///     batch.commit_doorbell();
///     batch.commit_doorbell();
/// }
/// ```
pub struct TransmitQueue {
    // Released before the event queue that its operations report to (libcxi.md 10).
    commands: CommandQueue,
    completions: Arc<EventQueueHandle>,
    context: CommandContext,
}

/// The properties of a queue that immediate data and prepared commands depend on.
#[derive(Clone, Copy)]
struct CommandContext {
    /// The last C_STATE committed.
    c_state: Option<CState>,
    stamp: Stamp,
}

/// Marks a queue with its C_STATE. No two queues have the same stamp, and each C_STATE brings a new
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp(u64);

impl Stamp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The parts of a C_STATE that matter to later immediate data commands.
#[derive(Clone, Copy)]
struct CState {
    payload_limit: usize,
    /// Events of each command.
    events: u32,
}

impl CommandContext {
    /// The C_STATE in force if it allows an immediate data command with `payload` bytes.
    #[inline]
    fn c_state_for(&self, payload: usize) -> Result<CState, EmitError> {
        let c_state = self.c_state.ok_or(EmitError::NoCState)?;
        if payload > c_state.payload_limit {
            return Err(EmitError::PayloadTooLong {
                length: payload,
                limit: c_state.payload_limit,
            });
        }
        Ok(c_state)
    }
}

impl TransmitQueue {
    /// Allocates a queue of at least `slots` slots of 64 bytes (at most 65536), 5 of which are
    /// never used. Its operations report to `completions`. The NIC reports refused commands to
    /// `failures` as COMMAND_FAILURE, if given, and always in [`status`](Self::status).
    ///
    /// # Errors
    ///
    /// EINVAL if `completions` belongs to another interface; others see libcxi.md 8.2.
    pub fn new(
        profile: &CommunicationProfile,
        slots: u32,
        completions: &EventQueue,
        failures: Option<&EventQueue>,
    ) -> Result<Self, Error> {
        let profile = profile.handle();
        let lni = profile.lni();
        if !Arc::ptr_eq(lni, completions.handle().lni()) {
            return Err(Error::new(ALLOCATE, libc::EINVAL));
        }
        Ok(Self {
            commands: CommandQueue::allocate(lni, slots, CXI_CQ_IS_TX, Some(profile), failures)?,
            completions: Arc::clone(completions.handle()),
            context: CommandContext { c_state: None, stamp: Stamp::new() },
        })
    }

    /// The number of slots of 64 bytes; 5 of them are never used (nic.md 2.4).
    pub fn slots(&self) -> u32 {
        self.commands.slots()
    }

    /// The status that the NIC wrote last (nic.md 2.2).
    pub fn status(&self) -> CqStatus {
        self.commands.status()
    }

    /// Begins a batch of commands.
    #[inline]
    pub fn batch(&mut self) -> TransmitBatch<'_> {
        TransmitBatch {
            wp: self.commands.write_pointer(),
            events: 0,
            context: self.context,
            queue: self,
        }
    }

    /// The events of an operation of this queue.
    #[inline]
    pub(crate) fn events_of(&self, command: &impl Reporting) -> Result<u32, EmitError> {
        self.completions.events_of(command)
    }

    /// The events of an immediate data command with `payload` bytes.
    #[inline]
    pub(crate) fn idc_events(&self, payload: usize) -> Result<u32, EmitError> {
        Ok(self.context.c_state_for(payload)?.events)
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.context.stamp
    }

    /// Hands an encoded command that will cause `events` events to the NIC.
    #[inline]
    pub(crate) fn issue<const WORDS: usize>(
        &mut self,
        command: &[u64; WORDS],
        events: u32,
        stamp: Stamp,
        low_latency: bool,
    ) -> Result<(), EmitError> {
        if stamp != self.context.stamp {
            return Err(EmitError::Outdated);
        }
        if !self.completions.has_room(events) {
            return Err(EmitError::EventQueueFull);
        }
        self.commands.issue(command, low_latency)?;
        self.completions.expect(events);
        Ok(())
    }

    /// Keeps `region`, which commands of this queue name, mapped until the queue is destroyed.
    pub fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.commands.keep_mapped(region);
    }

    /// Keeps `counter`, on which commands of this queue count, until the queue is destroyed.
    pub fn keep_counter(&mut self, counter: &Counter) {
        self.commands.keep_counter(counter);
    }

    /// Destroys the queue.
    ///
    /// # Errors
    ///
    /// The errors of `cxil_destroy_cmdq`.
    pub fn close(mut self) -> Result<(), Error> {
        self.commands.release()
    }
}

/// Commands being written into a [`TransmitQueue`]; dropping the batch discards them.
///
/// A command that is refused leaves the batch as it was. All methods that add a command fail with
/// [`EmitError::QueueFull`] if the ring has no room for it, and those that add an operation with
/// [`EmitError::EventQueueFull`] if the event queue has no room for its events.
#[must_use = "commands are discarded unless committed"]
pub struct TransmitBatch<'queue> {
    queue: &'queue mut TransmitQueue,
    wp: u32,
    /// Events that the commands so far will cause.
    events: u32,
    context: CommandContext,
}

impl TransmitBatch<'_> {
    /// Sets the context of the immediate data commands after it (nic.md 3.4).
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherEventQueue`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_c_state(&mut self, command: &CStateCmd) -> Result<(), EmitError> {
        let c_state = CState {
            payload_limit: if command.restricted() {
                IDC_MAX_RESTRICTED
            } else {
                IDC_MAX_UNRESTRICTED
            },
            events: self.queue.completions.events_of(command)?,
        };
        self.emit(1, 0, encode::c_state(command).bytes(), &[])?;
        self.context = CommandContext { c_state: Some(c_state), stamp: Stamp::new() };
        Ok(())
    }

    /// Adds a put of `payload`, which travels in the command (nic.md 3.5). The limit of the payload
    /// is [`IDC_MAX_RESTRICTED`] if the C_STATE in force is restricted, else
    /// [`IDC_MAX_UNRESTRICTED`].
    ///
    /// # Errors
    ///
    /// [`EmitError::NoCState`], [`EmitError::PayloadTooLong`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_idc_put(&mut self, header: &IdcHdr, payload: &[u8]) -> Result<(), EmitError> {
        let c_state = self.context.c_state_for(payload.len())?;
        let (header, halves) = encode::idc_put(header, payload.len());
        self.emit(halves, c_state.events, header.bytes(), payload)
    }

    /// Adds a small message: a put of `payload` with match bits, header data and user pointer in
    /// the command (nic.md 3.6). The payload is at most [`IDC_MAX_UNRESTRICTED`] bytes long.
    ///
    /// # Errors
    ///
    /// [`EmitError::NoCState`], [`EmitError::RestrictedMessage`] if the C_STATE in force is
    /// restricted, [`EmitError::PayloadTooLong`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_idc_msg(&mut self, header: &IdcMsgHdr, payload: &[u8]) -> Result<(), EmitError> {
        if let Some(c_state) = self.context.c_state
            && c_state.payload_limit != IDC_MAX_UNRESTRICTED
        {
            return Err(EmitError::RestrictedMessage);
        }
        let c_state = self.context.c_state_for(payload.len())?;
        let (header, halves) = encode::idc_msg(header, payload.len());
        self.emit(halves, c_state.events, header.bytes(), payload)
    }

    /// Adds a NOMATCH_PUT or NOMATCH_GET, by the opcode of `command` (nic.md 3.8). The caller
    /// chooses `restricted`.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherEventQueue`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_nomatch_dma(&mut self, command: &NomatchDmaCmd) -> Result<(), EmitError> {
        let events = self.queue.completions.events_of(command)?;
        self.emit(1, events, encode::nomatch_dma(command).bytes(), &[])
    }

    /// Adds a PUT, GET or RENDEZVOUS_PUT, by the opcode of `command` (nic.md 3.9).
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherEventQueue`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_dma(&mut self, command: &FullDmaCmd) -> Result<(), EmitError> {
        let events = self.queue.completions.events_of(command)?;
        self.emit(2, events, encode::dma(command).bytes(), &[])
    }

    /// Adds an atomic operation whose operands travel in the command, in the small form unless it
    /// is fetching, CSWAP, AXOR or DOUBLE_COMPLEX (nic.md 3.7). The NIC stores fetched values at
    /// `local_addr` in the address context `write_lac` of the C_STATE.
    ///
    /// # Errors
    ///
    /// [`EmitError::NoCState`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_idc_amo(&mut self, command: &IdcAmoCmd, fetching: bool) -> Result<(), EmitError> {
        let c_state = self.context.c_state_for(0)?;
        let (command, halves) = encode::idc_amo(command, fetching);
        let length = 32 * halves as usize;
        self.emit(halves, c_state.events, &command.bytes()[..length], &[])
    }

    /// Adds an atomic operation whose first operand lies in memory (nic.md 3.10). Its `request_len`
    /// is set to the size of its type.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherEventQueue`], or see [`TransmitBatch`].
    #[inline]
    pub fn emit_dma_amo(&mut self, command: &DmaAmoCmd, fetching: bool) -> Result<(), EmitError> {
        let events = self.queue.completions.events_of(command)?;
        let command = encode::dma_amo(command, fetching);
        self.emit(4, events, command.bytes(), &[])
    }

    /// Switches later commands of the queue, in this batch and in later batches, to `profile`
    /// (nic.md 3.11). The queue keeps the profile until it is destroyed.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherInterface`], or see [`TransmitBatch`].
    pub fn emit_lcid(&mut self, profile: &CommunicationProfile) -> Result<(), EmitError> {
        let profile = profile.handle();
        if !Arc::ptr_eq(profile.lni(), self.queue.completions.lni()) {
            return Err(EmitError::OtherInterface);
        }
        // The LCID command and the NOOP after it form an aligned pair.
        let lcid = encode::cq(C_CMD_CQ_LCID, profile.lcid());
        let noop = encode::cq(C_CMD_CQ_NOOP, 0);
        self.emit(4, 0, lcid.bytes(), noop.bytes())?;
        self.queue.commands.keep_profile(profile);
        Ok(())
    }

    /// Adds a FENCE: later commands of the queue start after all earlier ones have completed
    /// (nic.md 3.11).
    ///
    /// # Errors
    ///
    /// See [`TransmitBatch`].
    pub fn emit_fence(&mut self) -> Result<(), EmitError> {
        self.emit(2, 0, encode::cq(C_CMD_CQ_FENCE, 0).bytes(), &[])
    }

    /// Adds a command as it is, of any type and opcode, even one that the NIC refuses. It reserves
    /// no room for events: the caller sizes the event queue for them.
    ///
    /// # Errors
    ///
    /// See [`TransmitBatch`].
    ///
    /// # Panics
    ///
    /// Panics unless the command is 32, 64, 128 or 256 bytes long.
    pub fn emit_bytes(&mut self, command: &[u8]) -> Result<(), EmitError> {
        let length = command.len();
        assert!(matches!(length, 32 | 64 | 128 | 256), "a command of {length} bytes");
        self.emit(length as u32 / 32, 0, command, &[])
    }

    /// The bytes of the commands so far as the NIC will read them, padding included.
    pub fn bytes(&self) -> Vec<u8> {
        self.queue.commands.bytes(self.wp)
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        let wp = self.wp;
        self.publish().commit_doorbell(wp);
    }

    /// Hands the first one or two slots to the NIC through the low-latency windows, if they
    /// qualify, and the rest by doorbell.
    #[inline]
    pub fn commit_low_latency(self) {
        let wp = self.wp;
        self.publish().commit_low_latency(wp);
    }
}

impl<'queue> TransmitBatch<'queue> {
    /// Passes the batch's C_STATE and events to its queue.
    #[inline]
    fn publish(self) -> &'queue mut CommandQueue {
        let queue = self.queue;
        queue.context = self.context;
        queue.completions.expect(self.events);
        &mut queue.commands
    }

    /// Writes a command of `halves` half-slots that will cause `events` events.
    #[inline]
    fn emit(
        &mut self,
        halves: u32,
        events: u32,
        command: &[u8],
        payload: &[u8],
    ) -> Result<(), EmitError> {
        if !self.queue.completions.has_room(self.events + events) {
            return Err(EmitError::EventQueueFull);
        }
        self.wp = self.queue.commands.write(self.wp, halves, command, payload)?;
        self.events += events;
        Ok(())
    }
}
