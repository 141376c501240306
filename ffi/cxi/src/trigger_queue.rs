//! Trigger queues: commands about counters, and commands that wait for them (nic.md 3.12, 9.3).

use std::rc::Rc;

use cxi_sys::records::*;
use cxi_sys::*;

use crate::bus::{Bus, MappedQueue};
use crate::command_queue::events_of;
use crate::counter::{Counter, Counts, MAX_SUCCESSES};
use crate::encode;
use crate::error::{EmitError, Error};
use crate::event_queue::{EventQueue, EventQueueHandle};
use crate::launch::Producer;
use crate::library::Progress;
use crate::lni::CommunicationProfile;
use crate::memory::MemoryRegion;
use crate::queue_handle::{CALL, QueueHandle};

/// A transmit queue for counter commands.
///
/// Trigger events go to its event queue, one for each
/// [`emit_trigger_event`](TriggerBatch::emit_trigger_event), and so does what its DMA commands
/// report. They are counted against the room of that queue as they are emitted: an operation
/// that never happens, since its counter was destroyed or its queue stopped before, leaves less
/// room behind (a trigger event that is cancelled does not: it comes all the same).
pub struct TriggerQueue {
    producer: Producer<MappedQueue>,
    progress: Progress,
    // The queue goes before what its commands report to (libcxi.md 10).
    handle: QueueHandle,
    events: Rc<EventQueueHandle>,
}

impl TriggerQueue {
    /// Makes a queue of at least `slots` slots, as [`TransmitQueue::new`] does, that reports to
    /// `events`: trigger events, what its DMA commands complete with, and COMMAND_FAILURE.
    /// EINVAL if the LCID of `profile` is not 0: it is that of the first profile of an
    /// interface, or of [`CommunicationProfile::for_triggers`]. Other errors: libcxi.md 8.2.
    ///
    /// [`TransmitQueue::new`]: crate::TransmitQueue::new
    pub fn new(
        profile: &CommunicationProfile,
        slots: u32,
        events: &EventQueue,
    ) -> Result<Self, Error> {
        let profile = profile.handle();
        let lni = profile.lni();
        if !Rc::ptr_eq(lni, events.handle().lni()) {
            return Err(Error::new(CALL, libc::EINVAL));
        }
        let options = cxi_cq_alloc_opts {
            count: slots,
            policy: CXI_CQ_UPDATE_ALWAYS,
            stat_cnt_pool: 0,
            flags: CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS,
            lcid: profile.lcid(),
            lpe_cdt_thresh_id: 0,
        };
        let (handle, mut producer) =
            QueueHandle::allocate(lni, &options, Some(events), Some(profile))?;
        producer.noop = encode::counter_noop();
        Ok(Self {
            producer,
            progress: lni.progress(),
            handle,
            events: Rc::clone(events.handle()),
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
    pub fn batch(&mut self) -> TriggerBatch<'_> {
        TriggerBatch {
            wp: self.producer.ring.wp,
            events: 0,
            queue: self,
        }
    }

    /// Keeps `region` mapped until this queue is destroyed: its DMA commands name it.
    pub fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.handle.keep_mapped(region);
    }

    /// Keeps `counter` until this queue is destroyed: its commands name it.
    pub fn keep_counter(&mut self, counter: &Counter) {
        self.handle.keep_counter(counter);
    }

    /// Destroys the queue.
    pub fn close(mut self) -> Result<(), Error> {
        self.handle.release()
    }
}

/// Commands being written into a [`TriggerQueue`]. Dropping it undoes them. Such queues have no
/// low-latency path (nic.md 2.8).
///
/// Counters of another interface are refused ([`EmitError::OtherInterface`]), thresholds beyond
/// 48 bits too ([`EmitError::ThresholdTooLarge`]).
#[must_use = "commands are undone unless committed"]
pub struct TriggerBatch<'queue> {
    queue: &'queue mut TriggerQueue,
    wp: u32,
    /// Events that the commands so far will cause.
    events: u32,
}

impl TriggerBatch<'_> {
    /// When the successes of `counter` reach `threshold`, or if they have: TRIGGERED_OP to the
    /// queue's event queue, once, and the counts are written back. CANCELED comes instead when
    /// the counter is cancelled or destroyed before.
    #[inline]
    pub fn emit_trigger_event(
        &mut self,
        counter: &Counter,
        threshold: u64,
    ) -> Result<(), EmitError> {
        let mut command = self.trigger(counter, threshold)?;
        command.set_eq(self.queue.events.number());
        self.emit(C_CMD_CT_TRIG_EVENT, 1, &command, &[])
    }

    /// When the successes of `counter` reach `threshold`, the counts of `changed` that are given
    /// are overwritten.
    pub fn emit_trigger_set(
        &mut self,
        counter: &Counter,
        threshold: u64,
        changed: &Counter,
        success: Option<u64>,
        failure: Option<u8>,
    ) -> Result<(), EmitError> {
        let mut command = self.trigger(counter, threshold)?;
        command.set_ct(self.number(changed)?);
        put(&mut command, success, failure);
        self.emit(C_CMD_CT_TRIG_SET, 0, &command, &[])
    }

    /// When the successes of `counter` reach `threshold`, the counts of `changed` grow by `by`.
    pub fn emit_trigger_increment(
        &mut self,
        counter: &Counter,
        threshold: u64,
        changed: &Counter,
        by: Counts,
    ) -> Result<(), EmitError> {
        let mut command = self.trigger(counter, threshold)?;
        command.set_ct(self.number(changed)?);
        put(&mut command, some(by.success), some(by.failure));
        self.emit(C_CMD_CT_TRIG_INC, 0, &command, &[])
    }

    /// When the successes of `counter` reach `threshold`, `dma` is executed under the profile of
    /// this queue. Its event queue is that of this queue, or none.
    pub fn emit_trigger_dma(
        &mut self,
        counter: &Counter,
        threshold: u64,
        dma: &FullDmaCmd,
    ) -> Result<(), EmitError> {
        let command = self.trigger(counter, threshold)?;
        let events = self.events_of(
            dma.eq(),
            dma.event_send_disable(),
            dma.event_success_disable(),
        )?;
        let embedded = encode::dma(dma);
        self.emit(C_CMD_CT_TRIG_DMA, events, &command, embedded.bytes())
    }

    /// As [`emit_trigger_dma`](Self::emit_trigger_dma), for a non-matching command.
    pub fn emit_trigger_nomatch_dma(
        &mut self,
        counter: &Counter,
        threshold: u64,
        dma: &NomatchDmaCmd,
    ) -> Result<(), EmitError> {
        let command = self.trigger(counter, threshold)?;
        let events = self.events_of(
            dma.eq(),
            dma.event_send_disable(),
            dma.event_success_disable(),
        )?;
        let embedded = encode::nomatch_dma(dma);
        self.emit(C_CMD_CT_TRIG_DMA, events, &command, embedded.bytes())
    }

    /// As [`emit_trigger_dma`](Self::emit_trigger_dma), for an atomic operation.
    pub fn emit_trigger_dma_amo(
        &mut self,
        counter: &Counter,
        threshold: u64,
        amo: &DmaAmoCmd,
        fetching: bool,
    ) -> Result<(), EmitError> {
        let command = self.trigger(counter, threshold)?;
        let events = self.events_of(
            amo.eq(),
            amo.event_send_disable(),
            amo.event_success_disable(),
        )?;
        let embedded = encode::dma_amo(amo, fetching);
        self.emit(C_CMD_CT_TRIG_DMA, events, &command, embedded.bytes())
    }

    /// Overwrites the counts that are given.
    pub fn emit_set(
        &mut self,
        counter: &Counter,
        success: Option<u64>,
        failure: Option<u8>,
    ) -> Result<(), EmitError> {
        let mut command = self.about(counter)?;
        put(&mut command, success, failure);
        self.emit(C_CMD_CT_SET, 0, &command, &[])
    }

    /// Adds to the counts.
    pub fn emit_increment(&mut self, counter: &Counter, by: Counts) -> Result<(), EmitError> {
        let mut command = self.about(counter)?;
        put(&mut command, some(by.success), some(by.failure));
        self.emit(C_CMD_CT_INC, 0, &command, &[])
    }

    /// Has the counts written back: [`Counter::written_back`].
    pub fn emit_get(&mut self, counter: &Counter) -> Result<(), EmitError> {
        let command = self.about(counter)?;
        self.emit(C_CMD_CT_GET, 0, &command, &[])
    }

    /// Cancels all that waits for the counter. Trigger events come with CANCELED.
    pub fn emit_cancel(&mut self, counter: &Counter) -> Result<(), EmitError> {
        let command = self.about(counter)?;
        self.emit(C_CMD_CT_CANCEL, 0, &command, &[])
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        let queue = self.queue;
        queue.producer.ring.wp = self.wp;
        queue.events.expect(self.events);
        queue.producer.doorbell();
        queue.progress.run();
    }

    /// A command about one counter.
    fn about(&self, counter: &Counter) -> Result<CtCmd, EmitError> {
        let mut command = CtCmd::new();
        command.set_ct(self.number(counter)?);
        Ok(command)
    }

    /// A command that waits for one counter.
    #[inline]
    fn trigger(&self, counter: &Counter, threshold: u64) -> Result<CtCmd, EmitError> {
        if threshold > MAX_SUCCESSES {
            return Err(EmitError::ThresholdTooLarge);
        }
        let mut command = CtCmd::new();
        command.set_trig_ct(self.number(counter)?);
        command.set_threshold(threshold);
        Ok(command)
    }

    #[inline]
    fn number(&self, counter: &Counter) -> Result<u16, EmitError> {
        if !Rc::ptr_eq(counter.handle().lni(), self.queue.events.lni()) {
            return Err(EmitError::OtherInterface);
        }
        Ok(counter.number())
    }

    fn events_of(
        &self,
        eq: u16,
        send_disable: bool,
        success_disable: bool,
    ) -> Result<u32, EmitError> {
        events_of(&self.queue.events, eq, send_disable, success_disable)
    }

    /// Writes a command, and the one that it embeds, which will cause `events` events.
    #[inline]
    fn emit(
        &mut self,
        opcode: c_ct_op,
        events: u32,
        command: &CtCmd,
        embedded: &[u8],
    ) -> Result<(), EmitError> {
        if !self.queue.events.has_room(self.events + events) {
            return Err(EmitError::EventQueueFull);
        }
        let (command, halves) = encode::counter(command, opcode);
        let producer = &mut self.queue.producer;
        let at = producer.place(self.wp, halves)?;
        producer.write(at, 0, command.bytes());
        producer.write(at, CtCmd::SIZE, embedded);
        self.wp = producer.ring.advance(at, halves);
        self.events += events;
        Ok(())
    }
}

/// Puts the counts that are given into a command, flagged as meant.
fn put(command: &mut CtCmd, success: Option<u64>, failure: Option<u8>) {
    command.put_set_ct_success(success.is_some());
    command.put_set_ct_failure(failure.is_some());
    command.put_ct_success(success.unwrap_or(0));
    command.put_ct_failure(failure.unwrap_or(0));
}

/// An increment by nothing is not flagged.
fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
