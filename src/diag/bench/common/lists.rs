//! Lists: the operations that one doorbell issues, counted together, their commands, and their
//! places in the buffers (tools.md 3.7); and what issues single operations or lists.

use cxi::records::{FullDmaCmd, IdcHdr, NomatchDmaCmd};
use cxi::{
    CommunicationProfile, EmitError, Event, EventRecord, EventType, IDC_MAX_RESTRICTED,
    MemoryRegion, ReturnCode, TransmitBatch,
};
use facts::advice::{Advise, Situation};
use facts::error::{Context, Failure};
use node::explain;
use plan::buffers::Buffer;
use plan::run_options::{MAX_HRP_SIZE, RunOptions, Side};

use super::operation::NotIssued;
use super::{Direction, Initiator, Numbering, PERIOD, ThresholdCounter};
use crate::bench::api::{Part, Peer, SizeOfRun};
use crate::endpoint::Endpoint;

/// Most slots of a transmit queue that one operation takes.
const SLOTS_PER_OPERATION: u32 = 4;

/// Slots in addition to the slots of a list: three for an answer to the peer's list or a switch of
/// the profile, and five that the NIC leaves unused (defect T6 of tools.md). With the longest list,
/// the largest queue holds them.
pub const FURTHER_SLOTS: u32 = 3 + 5;

/// Names of the operations of a list, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// One operation: `message`.
    pub operation: &'static str,
    /// The activity: `sending messages`.
    pub doing: &'static str,
}

/// An initiator of lists. The NIC counts completed operations and reports whole lists.
pub struct ListInitiator {
    /// The queues and the buffer.
    pub initiator: Initiator,
    completed: ThresholdCounter,
    words: Words,
    high_rate: Option<HighRate>,
}

/// The failure to allocate a profile of High Rate Puts, with the remedy.
fn no_high_rate(error: cxi::Error) -> Failure {
    let errno = error.errno();
    let failure = explain::explained(error, "cannot allocate a profile of High Rate Puts");
    if errno == libc::EINVAL { failure.explained(Situation::NoHighRatePuts) } else { failure }
}

/// The profile of high-rate puts.
struct HighRate {
    profile: CommunicationProfile,
    /// The queue issues its commands with this profile.
    is_selected: bool,
}

impl ListInitiator {
    /// Allocates queues for lists of up to `list_size` operations, and one more.
    pub fn new(
        peer: Peer<'_>,
        buffer: Buffer,
        list_size: u32,
        words: Words,
    ) -> Result<Self, Failure> {
        let slots = SLOTS_PER_OPERATION * list_size + FURTHER_SLOTS;
        let mut initiator = Initiator::with_queues(peer, buffer, slots, list_size + 1)?;
        let completed = ThresholdCounter::new(peer.own, &initiator.events)?;
        completed.keep_for(&mut initiator.transmit);
        Ok(Self { initiator, completed, words, high_rate: None })
    }

    /// Allows operations with the profile of high-rate puts, and selects the profile of operations
    /// of `size` bytes. Called before all other commands, as in the legacy tools (tools.md 4.3).
    ///
    /// # Errors
    ///
    /// A call that the library refuses, and a queue without room for the command.
    pub fn allow_high_rate(&mut self, endpoint: &Endpoint, size: u64) -> Result<(), Failure> {
        let profile = endpoint.high_rate_profile().map_err(no_high_rate)?;
        self.high_rate = Some(HighRate { profile, is_selected: false });
        self.select_profile(size)
    }

    /// Selects the profile of the operations that follow, which have `size` bytes: the
    /// profile of high-rate puts if it is allocated and the size fits, else the default.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    pub fn select_profile(&mut self, size: u64) -> Result<(), Failure> {
        let Some(high_rate) = &mut self.high_rate else {
            return Ok(());
        };
        let wanted = size <= MAX_HRP_SIZE;
        if high_rate.is_selected == wanted {
            return Ok(());
        }
        let profile = if wanted { &high_rate.profile } else { &self.initiator.profile };
        let mut batch = self.initiator.transmit.batch();
        batch.emit_lcid(profile).nic("cannot switch the communication profile")?;
        batch.commit_doorbell();
        high_rate.is_selected = wanted;
        Ok(())
    }

    /// The number of the counter on which all commands count their completion.
    pub fn counter(&self) -> u16 {
        self.completed.number()
    }

    /// Issues `count` operations with one doorbell; `emit` writes the command of the next one.
    ///
    /// # Errors
    ///
    /// A command for which the queue has no room.
    #[inline]
    pub fn issue(
        &mut self,
        count: u64,
        mut emit: impl FnMut(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Result<(), Failure> {
        self.completed.arm(count)?;
        let mut batch = self.initiator.transmit.batch();
        for _ in 0..count {
            emit(&mut batch).nic(NotIssued(self.words.operation))?;
        }
        batch.commit_doorbell();
        Ok(())
    }

    /// Polls once. Returns whether the NIC reports that the issued operations are complete.
    /// `on_other` is called if another counter reports to the same event queue.
    #[inline]
    pub fn poll(&mut self, on_other: impl FnOnce()) -> Result<bool, Failure> {
        let Some(event) = self.initiator.events.poll() else {
            return Ok(false);
        };
        let seen = triggered(&event, self.words)?;
        self.initiator.events.acknowledge();
        let complete = seen == self.counter();
        if !complete {
            on_other();
        }
        Ok(complete)
    }

    /// Takes the report of another counter from the event queue, if there is one.
    pub fn take_other(&mut self) -> Result<bool, Failure> {
        let events = &mut self.initiator.events;
        let Some(event) = events.poll() else {
            return Ok(false);
        };
        triggered(&event, self.words)?;
        events.acknowledge();
        Ok(true)
    }

    /// Releases the resources.
    pub fn close(self) -> Result<(), Failure> {
        self.initiator.close_with(|| self.completed.close())
    }
}

/// The number of the counter whose threshold was reached.
#[inline(always)]
fn triggered(event: &Event<'_>, words: Words) -> Result<u16, Failure> {
    let (kind, code) = (event.event_type(), event.return_code());
    match (kind, code, event.record()) {
        (EventType::TRIGGERED_OP, ReturnCode::OK, EventRecord::TriggeredShort(record)) => {
            Ok(record.ct_handle())
        }
        (EventType::TRIGGERED_OP, ReturnCode::OK, EventRecord::TriggeredLong(record)) => {
            Ok(record.ct_handle())
        }
        _ => Err(unexpected(words, kind, code)),
    }
}

#[cold]
fn unexpected(words: Words, kind: EventType, code: ReturnCode) -> Failure {
    explain::unexpected(words.doing, kind, EventType::TRIGGERED_OP, code)
}

/// A command that is issued once for each operation of a list.
pub trait ListCommand: Send {
    /// Writes the command of the operation at `offset` of both buffers.
    ///
    /// # Errors
    ///
    /// A command that the queue does not take.
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError>;

    /// Prepares the next list; `buffer` is the initiator's.
    ///
    /// # Errors
    ///
    /// A copy that fails.
    #[inline(always)]
    fn advance(&mut self, _buffer: &MemoryRegion) -> Result<(), Failure> {
        Ok(())
    }
}

/// An immediate data put of numbered bytes.
pub struct ImmediatePut {
    header: IdcHdr,
    /// One period of the buffer's contents, followed by the longest payload.
    payload: [u8; PERIOD as usize + IDC_MAX_RESTRICTED],
    length: usize,
}

impl ImmediatePut {
    /// Creates puts of `size` bytes, at most [`IDC_MAX_RESTRICTED`].
    pub fn new(initiator: &Initiator, size: u64, numbering: Numbering) -> Self {
        Self {
            header: initiator.idc_header(),
            payload: std::array::from_fn(|at| numbering.byte(at as u64)),
            length: size as usize,
        }
    }

    /// Writes the command of an empty put at the start of the entry.
    ///
    /// # Errors
    ///
    /// A command that the queue does not take.
    #[inline(always)]
    pub fn emit_empty(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        self.header.set_remote_offset(0);
        batch.emit_idc_put(&self.header, &[])
    }
}

impl ListCommand for ImmediatePut {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.header.set_remote_offset(offset);
        // The bytes of a numbered buffer at this offset.
        let start = (offset % PERIOD) as usize;
        batch.emit_idc_put(&self.header, &self.payload[start..start + self.length])
    }
}

/// A restricted DMA put or get, counted and otherwise silent.
pub struct RestrictedDma {
    local: u64,
    command: NomatchDmaCmd,
}

impl RestrictedDma {
    /// Creates operations of `size` bytes.
    pub fn new(lists: &ListInitiator, direction: Direction, size: u64) -> Self {
        let mut command = lists.initiator.nomatch(direction, size);
        command
            .set_event_success_disable(true)
            .set_event_ct_ack(direction == Direction::Put)
            .set_event_ct_reply(direction == Direction::Get)
            .set_ct(lists.counter());
        Self { local: lists.initiator.buffer.iova(0), command }
    }
}

impl ListCommand for RestrictedDma {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_local_addr(self.local + offset).set_remote_offset(offset);
        batch.emit_nomatch_dma(&self.command)
    }
}

/// An unrestricted DMA put or get, counted and otherwise silent.
pub struct UnrestrictedDma {
    local: u64,
    command: FullDmaCmd,
}

impl UnrestrictedDma {
    /// Creates operations of `size` bytes.
    pub fn new(lists: &ListInitiator, direction: Direction, size: u64) -> Self {
        let mut command = lists.initiator.full(direction, size);
        command
            .set_event_success_disable(true)
            .set_event_ct_ack(direction == Direction::Put)
            .set_event_ct_reply(direction == Direction::Get)
            .set_ct(lists.counter());
        Self { local: lists.initiator.buffer.iova(0), command }
    }
}

impl ListCommand for UnrestrictedDma {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_local_addr(self.local + offset).set_remote_offset(offset);
        batch.emit_dma(&self.command)
    }
}

/// The offsets of the operations of a list in the buffers.
#[derive(Clone, Copy, Debug)]
pub struct ListOffsets {
    list_size: u64,
    /// Bytes from one offset to the next.
    step: u64,
    /// Number of distinct offsets.
    places: u64,
    /// Index of the next offset.
    place: u64,
}

impl ListOffsets {
    /// Creates the walk of lists with operations of `size` bytes.
    ///
    /// # Errors
    ///
    /// The run has no lists.
    pub fn new(run: &RunOptions, size: u64) -> Result<Self, Failure> {
        let lists = run.lists()?;
        let step = lists.step(size);
        Ok(Self {
            list_size: lists.list_size.into(),
            step,
            // Offsets are within the requested length of the buffer, not the length rounded up to
            // pages. The first offset is used even if its spacing does not fit.
            places: (lists.buffer(run.max_size) / step).max(1),
            place: 0,
        })
    }

    /// Creates the walk of a single operation of `size` bytes, at the start of the buffers.
    pub fn from_one(size: u64) -> Self {
        Self { list_size: 1, step: size, places: 1, place: 0 }
    }

    /// The number of operations of a list.
    pub fn list_size(&self) -> u64 {
        self.list_size
    }

    pub fn distinct_places(&self) -> u64 {
        self.list_size.min(self.places)
    }

    /// The number of bytes from the start of a buffer to the end of the last operation, if each has
    /// `size` bytes.
    pub fn length(&self, size: u64) -> u64 {
        (self.distinct_places() - 1) * self.step + size
    }

    /// Returns to the start of the buffers, where each list begins.
    #[inline(always)]
    pub fn restart(&mut self) {
        self.place = 0;
    }

    /// The offset of the next operation, in bytes.
    #[inline(always)]
    pub fn next_offset(&mut self) -> u64 {
        let offset = self.place * self.step;
        self.place += 1;
        if self.place == self.places {
            self.place = 0;
        }
        offset
    }

    /// Numbers the bytes of `buffer` that operations of `size` bytes carry.
    ///
    /// # Errors
    ///
    /// A peer that ends meanwhile, and a copy that fails.
    pub fn fill(&self, buffer: &MemoryRegion, size: SizeOfRun<'_>) -> Result<(), Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).fill(buffer, self.length(size), supervisor)
    }

    /// Checks that all operations of a list of `size` bytes have left numbered bytes in `buffer`;
    /// `whose` names the buffer in the message. Returns the number of these bytes.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, a peer that ends meanwhile, and a copy that fails.
    pub fn check(
        mut self,
        buffer: &MemoryRegion,
        whose: &str,
        size: SizeOfRun<'_>,
    ) -> Result<u64, Failure> {
        self.restart();
        // All offsets of a list; a list that wraps uses them again.
        let offsets = (0..self.distinct_places()).map(|_| self.next_offset());
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).check(buffer, whose, offsets, size, supervisor)
    }
}

/// Issues the operations of a one-sided benchmark: one at a time, or in lists.
pub trait Issuer: Sized {
    /// Name of its buffer, for messages.
    const BUFFER: &'static str;

    /// Whether a check clears the buffer, so that the check after the next size notices missing
    /// writes. The operations of the next size may begin only after the check.
    const CLEARS: bool;

    /// The part that `side` plays in `run`.
    fn part(run: &RunOptions, side: Side) -> Part;

    /// Where in the buffers operations of `size` bytes go.
    ///
    /// # Errors
    ///
    /// Lists in a run that has none.
    fn offsets(run: &RunOptions, size: u64) -> Result<ListOffsets, Failure>;

    /// The queues and the buffer.
    fn initiator(&self) -> &Initiator;

    /// Releases the resources.
    fn close(self) -> Result<(), Failure>;
}

/// One operation at a time. Only the client issues operations.
impl Issuer for Initiator {
    const BUFFER: &'static str = "the client's buffer";
    // The client begins the next size while the server checks.
    const CLEARS: bool = false;

    fn part(_: &RunOptions, side: Side) -> Part {
        match side {
            Side::Client => Part::Active,
            Side::Server => Part::Passive,
        }
    }

    fn offsets(_: &RunOptions, size: u64) -> Result<ListOffsets, Failure> {
        Ok(ListOffsets::from_one(size))
    }

    fn initiator(&self) -> &Initiator {
        self
    }

    fn close(self) -> Result<(), Failure> {
        Initiator::close(self)
    }
}

/// Lists. The options determine which sides issue them.
impl Issuer for ListInitiator {
    const BUFFER: &'static str = "the initiator's buffer";
    const CLEARS: bool = true;

    fn part(run: &RunOptions, side: Side) -> Part {
        Part::by_direction(run, side)
    }

    fn offsets(run: &RunOptions, size: u64) -> Result<ListOffsets, Failure> {
        ListOffsets::new(run, size)
    }

    fn initiator(&self) -> &Initiator {
        &self.initiator
    }

    fn close(self) -> Result<(), Failure> {
        ListInitiator::close(self)
    }
}
