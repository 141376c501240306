//! Command queues: a ring of commands in shared memory, read by the NIC (nic.md 2).
//!
//! Commands are emitted into a batch. The batch writes them straight into the ring,
//! behind the pointer that the NIC knows; committing moves that pointer. A batch that is
//! dropped leaves no trace.

use std::rc::Rc;

use cxi_sys::records::*;
use cxi_sys::*;

use crate::bus::{Bus, MappedQueue};
use crate::counter::Counter;
use crate::encode::{self, IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED};
use crate::error::{EmitError, Error};
use crate::event_queue::{EventQueue, EventQueueHandle};
use crate::launch::Producer;
use crate::library::Progress;
use crate::lni::{CommunicationProfile, Lni};
use crate::memory::MemoryRegion;
use crate::queue_handle::{CALL, QueueHandle};

/// A queue of initiator commands.
///
/// ```
/// fn two_batches(queue: &mut cxi::TransmitQueue) {
///     queue.batch().commit_doorbell();
///     queue.batch().commit_low_latency();
/// }
/// ```
///
/// Two batches at a time:
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
/// One batch committed twice:
///
/// ```compile_fail,E0382
/// fn commit_twice(queue: &mut cxi::TransmitQueue) {
///     let batch = queue.batch();
///     batch.commit_doorbell();
///     batch.commit_doorbell();
/// }
/// ```
pub struct TransmitQueue {
    producer: Producer<MappedQueue>,
    /// The last C_STATE committed.
    c_state: Option<CState>,
    progress: Progress,
    // The queue goes before what its commands report to (libcxi.md 10).
    handle: QueueHandle,
    completions: Rc<EventQueueHandle>,
}

/// What later immediate data commands take from a C_STATE.
#[derive(Clone, Copy)]
struct CState {
    payload_limit: usize,
    /// Events of each command.
    events: u32,
}

impl TransmitQueue {
    /// Makes a queue of at least `slots` slots of 64 bytes (at most 65536), 5 of which are
    /// never used. Its operations report to `completions`, a queue of the same interface
    /// (else EINVAL). Refused commands are reported to `failures` as COMMAND_FAILURE, if
    /// given; [`status`](Self::status) tells them in any case. Errors: libcxi.md 8.2.
    pub fn new(
        profile: &CommunicationProfile,
        slots: u32,
        completions: &EventQueue,
        failures: Option<&EventQueue>,
    ) -> Result<Self, Error> {
        let profile = profile.handle();
        let lni = profile.lni();
        if !Rc::ptr_eq(lni, completions.handle().lni()) {
            return Err(Error::new(CALL, libc::EINVAL));
        }
        let options = cxi_cq_alloc_opts {
            count: slots,
            policy: CXI_CQ_UPDATE_ALWAYS,
            stat_cnt_pool: 0,
            flags: CXI_CQ_IS_TX,
            lcid: profile.lcid(),
            lpe_cdt_thresh_id: 0,
        };
        let (handle, producer) = QueueHandle::allocate(lni, &options, failures, Some(profile))?;
        Ok(Self {
            producer,
            c_state: None,
            progress: lni.progress(),
            handle,
            completions: Rc::clone(completions.handle()),
        })
    }

    /// Slots of 64 bytes, as the library made it; 5 of them are never used (nic.md 2.4).
    pub fn slots(&self) -> u32 {
        self.producer.ring.size32() / 2
    }

    /// The status that the NIC last wrote (nic.md 2.2).
    pub fn status(&self) -> CqStatus {
        self.producer.bus.status()
    }

    /// Begins a batch of commands.
    #[inline]
    pub fn batch(&mut self) -> TransmitBatch<'_> {
        TransmitBatch {
            wp: self.producer.ring.wp,
            events: 0,
            c_state: self.c_state,
            queue: self,
        }
    }

    /// Keeps `region` mapped until this queue is destroyed: commands name it.
    pub fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.handle.keep_mapped(region);
    }

    /// Keeps `counter` until this queue is destroyed: its commands count on it.
    pub fn keep_counter(&mut self, counter: &Counter) {
        self.handle.keep_counter(counter);
    }

    /// Destroys the queue.
    pub fn close(mut self) -> Result<(), Error> {
        self.handle.release()
    }
}

/// Commands being written into a [`TransmitQueue`]. Dropping it undoes them.
///
/// A command that is refused leaves the batch as it was.
#[must_use = "commands are undone unless committed"]
pub struct TransmitBatch<'queue> {
    queue: &'queue mut TransmitQueue,
    wp: u32,
    /// Events that the commands so far will cause.
    events: u32,
    c_state: Option<CState>,
}

impl TransmitBatch<'_> {
    /// Sets the context of the immediate data commands after it (nic.md 3.4).
    #[inline]
    pub fn emit_c_state(&mut self, command: &CStateCmd) -> Result<(), EmitError> {
        let c_state = CState {
            payload_limit: match command.restricted() {
                true => IDC_MAX_RESTRICTED,
                false => IDC_MAX_UNRESTRICTED,
            },
            events: self.events_of(
                command.eq(),
                command.event_send_disable(),
                command.event_success_disable(),
            )?,
        };
        self.emit(1, 0, encode::c_state(command).bytes(), &[])?;
        self.c_state = Some(c_state);
        Ok(())
    }

    /// Puts `payload`, which travels in the command (nic.md 3.5). It is at most 224 bytes
    /// ([`IDC_MAX_RESTRICTED`]) if the C_STATE in force is restricted, else 192
    /// ([`IDC_MAX_UNRESTRICTED`]).
    #[inline]
    pub fn emit_idc_put(&mut self, header: &IdcHdr, payload: &[u8]) -> Result<(), EmitError> {
        let c_state = self.c_state.ok_or(EmitError::NoCState)?;
        if payload.len() > c_state.payload_limit {
            return Err(EmitError::PayloadTooLong {
                length: payload.len(),
                limit: c_state.payload_limit,
            });
        }
        let (header, halves) = encode::idc_put(header, payload.len());
        self.emit(halves, c_state.events, header.bytes(), payload)
    }

    /// Puts `payload` with match bits, header data and a user pointer of its own (nic.md 3.6).
    /// It is at most 192 bytes ([`IDC_MAX_UNRESTRICTED`]); the C_STATE in force must be an
    /// unrestricted one.
    #[inline]
    pub fn emit_idc_msg(&mut self, header: &IdcMsgHdr, payload: &[u8]) -> Result<(), EmitError> {
        let c_state = self.c_state.ok_or(EmitError::NoCState)?;
        if c_state.payload_limit != IDC_MAX_UNRESTRICTED {
            return Err(EmitError::RestrictedMessage);
        }
        if payload.len() > IDC_MAX_UNRESTRICTED {
            return Err(EmitError::PayloadTooLong {
                length: payload.len(),
                limit: IDC_MAX_UNRESTRICTED,
            });
        }
        let (header, halves) = encode::idc_msg(header, payload.len());
        self.emit(halves, c_state.events, header.bytes(), payload)
    }

    /// NOMATCH_PUT or NOMATCH_GET, by the opcode of `command` (nic.md 3.8). `restricted`
    /// is the caller's too.
    #[inline]
    pub fn emit_nomatch_dma(&mut self, command: &NomatchDmaCmd) -> Result<(), EmitError> {
        let events = self.events_of(
            command.eq(),
            command.event_send_disable(),
            command.event_success_disable(),
        )?;
        self.emit(1, events, encode::nomatch_dma(command).bytes(), &[])
    }

    /// PUT, GET or RENDEZVOUS_PUT, by the opcode of `command` (nic.md 3.9).
    #[inline]
    pub fn emit_dma(&mut self, command: &FullDmaCmd) -> Result<(), EmitError> {
        let events = self.events_of(
            command.eq(),
            command.event_send_disable(),
            command.event_success_disable(),
        )?;
        self.emit(2, events, encode::dma(command).bytes(), &[])
    }

    /// An atomic operation whose operands travel in the command, in the small form where that
    /// suffices: not for fetching ones, CSWAP, AXOR and DOUBLE_COMPLEX (nic.md 3.7). Fetched
    /// values go to `local_addr`, in the context `write_lac` of the C_STATE.
    #[inline]
    pub fn emit_idc_amo(&mut self, command: &IdcAmoCmd, fetching: bool) -> Result<(), EmitError> {
        let c_state = self.c_state.ok_or(EmitError::NoCState)?;
        let (command, halves) = encode::idc_amo(command, fetching);
        let length = 32 * halves as usize;
        self.emit(halves, c_state.events, &command.bytes()[..length], &[])
    }

    /// An atomic operation whose operand 1 lies in memory (nic.md 3.10). `request_len` is set
    /// to the size of its type.
    #[inline]
    pub fn emit_dma_amo(&mut self, command: &DmaAmoCmd, fetching: bool) -> Result<(), EmitError> {
        let events = self.events_of(
            command.eq(),
            command.event_send_disable(),
            command.event_success_disable(),
        )?;
        let command = encode::dma_amo(command, fetching);
        self.emit(4, events, command.bytes(), &[])
    }

    /// Later commands of the queue, of later batches too, travel under `profile` (nic.md 3.11),
    /// which is of the same interface and is kept until the queue is destroyed.
    pub fn emit_lcid(&mut self, profile: &CommunicationProfile) -> Result<(), EmitError> {
        let profile = profile.handle();
        if !Rc::ptr_eq(profile.lni(), self.queue.completions.lni()) {
            return Err(EmitError::OtherInterface);
        }
        // Two commands that always travel together, at a multiple of their common size.
        let lcid = encode::cq(C_CMD_CQ_LCID, profile.lcid());
        let noop = encode::cq(C_CMD_CQ_NOOP, 0);
        self.emit(4, 0, lcid.bytes(), noop.bytes())?;
        self.queue.handle.keep_profile(profile);
        Ok(())
    }

    /// Later commands of the queue start when all earlier ones have completed (nic.md 3.11).
    pub fn emit_fence(&mut self) -> Result<(), EmitError> {
        self.emit(2, 0, encode::cq(C_CMD_CQ_FENCE, 0).bytes(), &[])
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        let queue = self.publish();
        queue.producer.doorbell();
        queue.progress.run();
    }

    /// Hands the first one or two slots to the NIC through the low-latency windows, where
    /// they qualify, and the rest by doorbell.
    #[inline]
    pub fn commit_low_latency(self) {
        let queue = self.publish();
        queue.producer.low_latency();
        queue.progress.run();
    }
}

impl<'queue> TransmitBatch<'queue> {
    /// Makes the batch's state the queue's.
    #[inline]
    fn publish(self) -> &'queue mut TransmitQueue {
        let queue = self.queue;
        queue.producer.ring.wp = self.wp;
        queue.c_state = self.c_state;
        queue.completions.expect(self.events);
        queue
    }

    #[inline]
    fn events_of(
        &self,
        eq: u16,
        send_disable: bool,
        success_disable: bool,
    ) -> Result<u32, EmitError> {
        events_of(&self.queue.completions, eq, send_disable, success_disable)
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
        let producer = &mut self.queue.producer;
        let at = producer.place(self.wp, halves)?;
        producer.write(at, 0, command);
        producer.write(at, command.len(), payload);
        self.wp = producer.ring.advance(at, halves);
        self.events += events;
        Ok(())
    }
}

/// Events of a command that names event queue `eq`, which may be `completions` or none. A
/// failure always causes one; where success causes none it needs no room of its own, and
/// takes none from others ([`EventQueueHandle::expect_silence`]).
#[inline]
pub(crate) fn events_of(
    completions: &EventQueueHandle,
    eq: u16,
    send_disable: bool,
    success_disable: bool,
) -> Result<u32, EmitError> {
    if u32::from(eq) == C_EQ_NONE {
        return Ok(0);
    }
    if eq != completions.number() {
        return Err(EmitError::OtherEventQueue);
    }
    if success_disable {
        completions.expect_silence();
    }
    Ok(u32::from(!send_disable) + u32::from(!success_disable))
}

/// A queue of target commands. They report to the event queue of the portals table entry
/// that they name.
pub struct TargetQueue {
    producer: Producer<MappedQueue>,
    progress: Progress,
    handle: QueueHandle,
}

impl TargetQueue {
    /// Makes a queue of at least `slots` slots, as [`TransmitQueue::new`] does. Refused
    /// commands are reported to `failures`, if given. Errors: libcxi.md 8.2.
    pub fn new(lni: &Lni, slots: u32, failures: Option<&EventQueue>) -> Result<Self, Error> {
        let lni = lni.handle();
        let options = cxi_cq_alloc_opts {
            count: slots,
            policy: CXI_CQ_UPDATE_ALWAYS,
            stat_cnt_pool: 0,
            flags: 0,
            lcid: 0,
            lpe_cdt_thresh_id: 0,
        };
        let (handle, producer) = QueueHandle::allocate(lni, &options, failures, None)?;
        Ok(Self {
            producer,
            progress: lni.progress(),
            handle,
        })
    }

    /// Slots of 64 bytes, as the library made it; 5 of them are never used (nic.md 2.4).
    pub fn slots(&self) -> u32 {
        self.producer.ring.size32() / 2
    }

    /// The status that the NIC last wrote (nic.md 2.2).
    pub fn status(&self) -> CqStatus {
        self.producer.bus.status()
    }

    /// Begins a batch of commands.
    #[inline]
    pub fn batch(&mut self) -> TargetBatch<'_> {
        TargetBatch {
            wp: self.producer.ring.wp,
            queue: self,
        }
    }

    /// Destroys the queue.
    pub fn close(mut self) -> Result<(), Error> {
        self.handle.release()
    }
}

/// Commands being written into a [`TargetQueue`]. Dropping it undoes them. Target queues
/// have no low-latency path (nic.md 2.8).
#[must_use = "commands are undone unless committed"]
pub struct TargetBatch<'queue> {
    queue: &'queue mut TargetQueue,
    wp: u32,
}

impl TargetBatch<'_> {
    /// APPEND, UNLINK, SEARCH or SEARCH_AND_DELETE, by the opcode of `command` (nic.md
    /// 3.13).
    #[inline]
    pub fn emit_target(&mut self, command: &TargetCmd) -> Result<(), EmitError> {
        self.emit(encode::target(command).bytes())
    }

    /// Sets the state of a portals table entry (nic.md 3.13, 8.2).
    #[inline]
    pub fn emit_set_state(&mut self, command: &SetStateCmd) -> Result<(), EmitError> {
        self.emit(encode::set_state(command).bytes())
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        let queue = self.queue;
        queue.producer.ring.wp = self.wp;
        queue.producer.doorbell();
        queue.progress.run();
    }

    #[inline]
    fn emit(&mut self, command: &[u8; TargetCmd::SIZE]) -> Result<(), EmitError> {
        let halves = encode::halves(C_CMD_SIZE_64B);
        let producer = &mut self.queue.producer;
        let at = producer.place(self.wp, halves)?;
        producer.write(at, 0, command);
        self.wp = producer.ring.advance(at, halves);
        Ok(())
    }
}
