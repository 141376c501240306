//! Trigger queues: commands to counters, and commands that wait for counters (nic.md 3.12, 9.3).

use std::sync::Arc;

use cxi_sys::records::*;
use cxi_sys::*;

use crate::counter::{Counter, Counts, MAX_SUCCESSES};
use crate::encode;
use crate::error::{EmitError, Error};
use crate::event_queue::{EventQueue, EventQueueHandle, Reporting};
use crate::lni::CommunicationProfile;
use crate::memory::MemoryRegion;
use crate::queue::{ALLOCATE, CommandQueue};

/// A transmit queue for counter commands.
///
/// The NIC reports to its event queue: one event for each
/// [`emit_trigger_event`](TriggerBatch::emit_trigger_event), and the events of its DMA commands.
/// Emitting a command reserves room for its events. The room of a DMA command stays reserved if the
/// command never runs because its counter or this queue was destroyed first; a cancelled trigger
/// event still arrives and releases its room.
pub struct TriggerQueue {
    // Released before the event queue that its commands report to (libcxi.md 10).
    commands: CommandQueue,
    events: Arc<EventQueueHandle>,
    /// The profile of the queue has LCID 0.
    runs_dma: bool,
}

impl TriggerQueue {
    /// Allocates a queue of at least `slots` slots, like [`TransmitQueue::new`]. Trigger events,
    /// the completions of its DMA commands and COMMAND_FAILURE go to `events`.
    ///
    /// The queue has LCID 0, whatever the LCID of `profile` is. The first profile of an interface
    /// has LCID 0, and so has one from [`CommunicationProfile::for_triggers`]. But another process
    /// can have LCID 0, if its interface shares an RGID with this one (libcxi.md 5). DMA commands
    /// need a `profile` with LCID 0.
    ///
    /// # Errors
    ///
    /// EINVAL if no profile has LCID 0 or `events` belongs to another interface; others see
    /// libcxi.md 8.2.
    ///
    /// [`TransmitQueue::new`]: crate::TransmitQueue::new
    pub fn new(
        profile: &CommunicationProfile,
        slots: u32,
        events: &EventQueue,
    ) -> Result<Self, Error> {
        let profile = profile.handle();
        let lni = profile.lni();
        if !Arc::ptr_eq(lni, events.handle().lni()) {
            return Err(Error::new(ALLOCATE, libc::EINVAL));
        }
        let flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
        let mut commands = CommandQueue::allocate(lni, slots, flags, Some(profile), Some(events))?;
        commands.pad_with(encode::counter_noop());
        Ok(Self { commands, events: Arc::clone(events.handle()), runs_dma: profile.lcid() == 0 })
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
    pub fn batch(&mut self) -> TriggerBatch<'_> {
        TriggerBatch { wp: self.commands.write_pointer(), events: 0, queue: self }
    }

    /// Keeps `region`, which DMA commands of this queue name, mapped until the queue is destroyed.
    pub fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.commands.keep_mapped(region);
    }

    /// Keeps `counter`, which commands of this queue name, until the queue is destroyed.
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

/// Commands being written into a [`TriggerQueue`]; dropping the batch discards them. Trigger queues
/// have no low-latency path (nic.md 2.8).
///
/// All methods that add a command fail with [`EmitError::OtherInterface`] if a counter belongs to
/// another interface, with [`EmitError::ThresholdTooLarge`] if a threshold exceeds 48 bits, with
/// [`EmitError::OtherEventQueue`] if an embedded command reports to another event queue, with
/// [`EmitError::OtherProfile`] if there is an embedded command and the profile of the queue does
/// not have LCID 0, and with [`EmitError::QueueFull`] or [`EmitError::EventQueueFull`] if there is
/// no room for the command or its events. A command that is refused leaves the batch as it was.
#[must_use = "commands are discarded unless committed"]
pub struct TriggerBatch<'queue> {
    queue: &'queue mut TriggerQueue,
    wp: u32,
    /// Events that the commands so far will cause.
    events: u32,
}

impl TriggerBatch<'_> {
    /// When the successes of `counter` reach `threshold`, or if they have reached it already,
    /// reports one TRIGGERED_OP to the event queue of this queue and writes the counts back. If the
    /// counter is cancelled or destroyed first, the event has return code CANCELED.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    #[inline]
    pub fn emit_trigger_event(
        &mut self,
        counter: &Counter,
        threshold: u64,
    ) -> Result<(), EmitError> {
        let mut command = self.command_after(counter, threshold)?;
        command.set_eq(self.queue.events.number());
        self.emit(C_CMD_CT_TRIG_EVENT, 1, &command, &[])
    }

    /// When the successes of `counter` reach `threshold`, sets the given counts of `changed`.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_trigger_set(
        &mut self,
        counter: &Counter,
        threshold: u64,
        changed: &Counter,
        success: Option<u64>,
        failure: Option<u8>,
    ) -> Result<(), EmitError> {
        let mut command = self.command_after(counter, threshold)?;
        command.set_ct(self.number(changed)?);
        put(&mut command, success, failure);
        self.emit(C_CMD_CT_TRIG_SET, 0, &command, &[])
    }

    /// When the successes of `counter` reach `threshold`, adds `by` to the counts of `changed`.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_trigger_increment(
        &mut self,
        counter: &Counter,
        threshold: u64,
        changed: &Counter,
        by: Counts,
    ) -> Result<(), EmitError> {
        let mut command = self.command_after(counter, threshold)?;
        command.set_ct(self.number(changed)?);
        put(&mut command, unless_zero(by.success), unless_zero(by.failure));
        self.emit(C_CMD_CT_TRIG_INC, 0, &command, &[])
    }

    /// Executes `dma` under the profile of this queue when the successes of `counter` reach
    /// `threshold`. The event queue of `dma` is the event queue of this queue, or none.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_trigger_dma(
        &mut self,
        counter: &Counter,
        threshold: u64,
        dma: &FullDmaCmd,
    ) -> Result<(), EmitError> {
        self.emit_embedded(counter, threshold, dma, encode::dma(dma).bytes())
    }

    /// When the successes of `counter` reach `threshold`, executes a non-matching DMA command, like
    /// [`emit_trigger_dma`](Self::emit_trigger_dma).
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_trigger_nomatch_dma(
        &mut self,
        counter: &Counter,
        threshold: u64,
        dma: &NomatchDmaCmd,
    ) -> Result<(), EmitError> {
        self.emit_embedded(counter, threshold, dma, encode::nomatch_dma(dma).bytes())
    }

    /// When the successes of `counter` reach `threshold`, executes an atomic operation, like
    /// [`emit_trigger_dma`](Self::emit_trigger_dma).
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_trigger_dma_amo(
        &mut self,
        counter: &Counter,
        threshold: u64,
        amo: &DmaAmoCmd,
        fetching: bool,
    ) -> Result<(), EmitError> {
        self.emit_embedded(counter, threshold, amo, encode::dma_amo(amo, fetching).bytes())
    }

    /// Sets the given counts of `counter`.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_set(
        &mut self,
        counter: &Counter,
        success: Option<u64>,
        failure: Option<u8>,
    ) -> Result<(), EmitError> {
        let mut command = self.command_to(counter)?;
        put(&mut command, success, failure);
        self.emit(C_CMD_CT_SET, 0, &command, &[])
    }

    /// Adds `by` to the counts of `counter`.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_increment(&mut self, counter: &Counter, by: Counts) -> Result<(), EmitError> {
        let mut command = self.command_to(counter)?;
        put(&mut command, unless_zero(by.success), unless_zero(by.failure));
        self.emit(C_CMD_CT_INC, 0, &command, &[])
    }

    /// Makes the NIC write the counts back, for [`Counter::written_back`].
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_get(&mut self, counter: &Counter) -> Result<(), EmitError> {
        let command = self.command_to(counter)?;
        self.emit(C_CMD_CT_GET, 0, &command, &[])
    }

    /// Cancels all commands that wait for `counter`. Trigger events arrive with return code
    /// CANCELED.
    ///
    /// # Errors
    ///
    /// See [`TriggerBatch`].
    pub fn emit_cancel(&mut self, counter: &Counter) -> Result<(), EmitError> {
        let command = self.command_to(counter)?;
        self.emit(C_CMD_CT_CANCEL, 0, &command, &[])
    }

    /// The bytes of the commands so far as the NIC will read them, padding included.
    pub fn bytes(&self) -> Vec<u8> {
        self.queue.commands.bytes(self.wp)
    }

    /// Hands the commands to the NIC by doorbell. An empty batch stores nothing.
    #[inline]
    pub fn commit_doorbell(self) {
        self.queue.events.expect(self.events);
        self.queue.commands.commit_doorbell(self.wp);
    }

    fn command_to(&self, counter: &Counter) -> Result<CtCmd, EmitError> {
        let mut command = CtCmd::new();
        command.set_ct(self.number(counter)?);
        Ok(command)
    }

    /// A command that waits for one counter.
    #[inline]
    fn command_after(&self, counter: &Counter, threshold: u64) -> Result<CtCmd, EmitError> {
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
        if !Arc::ptr_eq(counter.handle().lni(), self.queue.events.lni()) {
            return Err(EmitError::OtherInterface);
        }
        Ok(counter.number())
    }

    /// Writes a command that waits for a counter and embeds `embedded`, the encoded `dma`.
    fn emit_embedded(
        &mut self,
        counter: &Counter,
        threshold: u64,
        dma: &impl Reporting,
        embedded: &[u8],
    ) -> Result<(), EmitError> {
        let command = self.command_after(counter, threshold)?;
        if !self.queue.runs_dma {
            return Err(EmitError::OtherProfile);
        }
        let events = self.queue.events.events_of(dma)?;
        self.emit(C_CMD_CT_TRIG_DMA, events, &command, embedded)
    }

    /// Writes a command and the one that it embeds, which together will cause `events` events.
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
        let commands = &mut self.queue.commands;
        self.wp = commands.write(self.wp, halves, command.bytes(), embedded)?;
        self.events += events;
        Ok(())
    }
}

/// Puts the given counts into a command and sets their flags.
fn put(command: &mut CtCmd, success: Option<u64>, failure: Option<u8>) {
    command.put_set_ct_success(success.is_some());
    command.put_set_ct_failure(failure.is_some());
    command.put_ct_success(success.unwrap_or(0));
    command.put_ct_failure(failure.unwrap_or(0));
}

/// `None` for 0: the command does not flag an increment by 0.
fn unless_zero<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
