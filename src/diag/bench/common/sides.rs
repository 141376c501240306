//! The initiating side and the target side of a one-sided benchmark (tools.md 3.2, 3.3).

use cxi::records::{CStateCmd, FullDmaCmd, IdcHdr, NomatchDmaCmd};
use cxi::sys::{C_CMD_GET, C_CMD_NOMATCH_GET, C_CMD_NOMATCH_PUT, C_CMD_PUT, CXI_EQ_EC_DISABLE};
use cxi::{
    CommunicationProfile, EventQueue, MemoryRegion, PortalTableEntry, TransmitQueue, address,
};
use facts::device::FabricAddress;
use facts::error::{Context, Failure};
use node::explain::Explain;
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

use crate::bench::api::Peer;
use crate::bench::common::memory::{EVENT_PAGE, map};
use crate::bench::common::portals::{self, Entry, Portals, Reports};
use crate::bench::common::triggered_counter::{CounterQueue, TRIGGER_SLOTS};

/// Slots of the transmit queue of a latency benchmark; the library rounds up to a page.
const TRANSMIT_SLOTS: u32 = 5;

/// Options of immediate data commands that stand in their context, not in the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdcContext {
    /// Restricted operations.
    pub restricted: bool,
    /// The target's previous value is written to the buffer.
    pub fetching: bool,
    /// Success raises no event.
    pub silent: bool,
    /// Counter of completed operations, if they are counted.
    pub counter: Option<u16>,
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Put,
    /// From the peer.
    Get,
}

/// Profile, transmit queue, event queue and buffer, for commands to the peer's portal.
pub struct Initiator {
    /// Communication profile of all commands.
    pub profile: CommunicationProfile,
    /// Queue of the commands.
    pub transmit: TransmitQueue,
    pub events: EventQueue,
    /// Buffer that DMA commands read and write.
    pub buffer: MemoryRegion,
    dfa: u32,
    index_ext: u8,
}

impl Initiator {
    /// Allocates the resources of a latency benchmark; the buffer is zero.
    pub fn new(peer: Peer<'_>, buffer: Buffer) -> Result<Self, Failure> {
        Self::with_queues(peer, buffer, TRANSMIT_SLOTS, EVENT_PAGE)
    }

    /// Allocates the resources with queues for `slots` command slots and `in_flight` operations.
    pub fn with_queues(
        peer: Peer<'_>,
        buffer: Buffer,
        slots: u32,
        in_flight: u32,
    ) -> Result<Self, Failure> {
        let info = peer.own.device().info();
        let profile = peer.own.default_profile()?;
        // Events are not combined: each is written at once.
        let events = EventQueue::new(peer.own.lni(), in_flight, CXI_EQ_EC_DISABLE.into())
            .explain("cannot allocate the initiator's event queue")?;
        let buffer = map(peer.own, Use::Transmit, buffer)?;
        let mut transmit = TransmitQueue::new(&profile, slots, &events, None)
            .explain("cannot allocate the transmit queue")?;
        transmit.keep_mapped(&buffer);
        Ok(Self {
            profile,
            transmit,
            events,
            buffer,
            dfa: address::dfa(peer.address.nic, peer.address.pid, peer.portal, info.pid_bits),
            index_ext: address::index_ext(peer.portal),
        })
    }

    /// Issues the context of all immediate data commands that follow.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    pub fn set_idc_context(&mut self, context: IdcContext) -> Result<(), Failure> {
        let mut command = CStateCmd::new();
        command
            .set_index_ext(self.index_ext)
            .set_event_send_disable(true)
            .set_event_success_disable(context.silent)
            .set_restricted(context.restricted)
            .set_eq(self.events.number());
        if context.fetching {
            command.set_write_lac(self.buffer.lac());
        }
        if let Some(counter) = context.counter {
            command
                .set_event_ct_ack(!context.fetching)
                .set_event_ct_reply(context.fetching)
                .set_ct(counter);
        }
        let mut batch = self.transmit.batch();
        batch.emit_c_state(&command).nic("cannot issue the context of immediate data commands")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Aims commands that are made afterwards at a portal of another peer, with the same part of
    /// the index in the context of immediate data commands.
    pub fn aim_at(&mut self, peer: FabricAddress, portal: u32, pid_bits: u32) {
        self.dfa = address::dfa(peer.nic, peer.pid, portal, pid_bits);
        self.index_ext = address::index_ext(portal);
    }

    /// Sets the portal index of commands that are made afterwards.
    pub fn aim(&mut self, index: u32) {
        self.index_ext = address::index_ext(index);
    }

    /// The peer's endpoint, for commands.
    pub fn dfa(&self) -> u32 {
        self.dfa
    }

    /// The part of the portal index that the endpoint does not hold.
    pub fn index_ext(&self) -> u8 {
        self.index_ext
    }

    /// The header of an immediate data command to the start of the peer's entry.
    pub fn idc_header(&self) -> IdcHdr {
        let mut header = IdcHdr::new();
        header.set_dfa(self.dfa);
        header
    }

    /// A restricted PUT or GET between the first `size` bytes of the buffer and of the peer's
    /// entry.
    pub fn nomatch(&self, direction: Direction, size: u64) -> NomatchDmaCmd {
        let mut command = NomatchDmaCmd::new();
        command
            .set_opcode(match direction {
                Direction::Put => C_CMD_NOMATCH_PUT as u8,
                Direction::Get => C_CMD_NOMATCH_GET as u8,
            })
            .set_restricted(true)
            .set_index_ext(self.index_ext)
            .set_lac(self.buffer.lac())
            .set_event_send_disable(true)
            .set_dfa(self.dfa)
            .set_local_addr(self.buffer.iova(0))
            .set_request_len(size as u32)
            .set_eq(self.events.number());
        command
    }

    /// The unrestricted form of that command: ordered, one message.
    pub fn full(&self, direction: Direction, size: u64) -> FullDmaCmd {
        let mut command = FullDmaCmd::new();
        command
            .set_opcode(match direction {
                Direction::Put => C_CMD_PUT as u8,
                Direction::Get => C_CMD_GET as u8,
            })
            .set_index_ext(self.index_ext)
            .set_lac(self.buffer.lac())
            .set_event_send_disable(true)
            .set_dfa(self.dfa)
            .set_local_addr(self.buffer.iova(0))
            .set_request_len(size as u32)
            .set_eq(self.events.number());
        command
    }

    /// Releases the resources.
    pub fn close(self) -> Result<(), Failure> {
        self.close_with(|| Ok(()))
    }

    /// Releases the resources. `counted` releases the counter on which the commands count: after
    /// the queue of the commands and before the event queue to which the counter reports.
    pub fn close_with(self, counted: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.transmit.close().explain("cannot release the transmit queue")?;
        counted()?;
        self.events.close().explain("cannot release the initiator's event queue")?;
        self.buffer.close().explain("cannot release the buffer")
    }
}

/// A buffer with one persistent list entry on an enabled portal.
pub struct Target {
    portal: PortalTableEntry,
    /// Counts the operations of the peer, if both sides show their own view.
    arrivals: Option<CounterQueue>,
    portals: Portals,
    /// The memory that the operations of the peer read or write.
    pub buffer: MemoryRegion,
}

impl Target {
    /// Allocates `buffer`, which begins with `contents` and is zero behind them, and opens it to
    /// `peer` through `entry`. With `--both-ends`, the NIC counts the operations that arrive.
    pub fn new(
        peer: Peer<'_>,
        run: &RunOptions,
        buffer: Buffer,
        contents: &[u8],
        mut entry: Entry,
    ) -> Result<Self, Failure> {
        let mut portals = Portals::new(peer.own, EVENT_PAGE)?;
        let counts = run.extensions.both_ends;
        let arrivals = counts
            .then(|| CounterQueue::new(peer.own, TRIGGER_SLOTS, &portals.events))
            .transpose()?;
        if let Some(arrivals) = &arrivals {
            entry.reports = Reports::Counted(arrivals.number());
        }
        let buffer = map(peer.own, Use::Receive, buffer)?;
        buffer.copy_in(0, contents).explain("cannot fill the buffer")?;
        let mut portal = portals.open(peer.own, peer.portal, entry.matching.is_some())?;
        portals.append(&mut portal, &buffer, entry)?;
        Ok(Self { portal, arrivals, portals, buffer })
    }

    /// The number of operations that have arrived, if they are counted.
    ///
    /// # Errors
    ///
    /// A NIC that does not answer.
    pub fn arrived(&mut self) -> Result<Option<u64>, Failure> {
        let count = |queue: &mut CounterQueue| queue.read(false, "reading a counter");
        let counts = self.arrivals.as_mut().map(count).transpose()?;
        Ok(counts.map(|counts| counts.success))
    }

    /// Releases the resources.
    pub fn close(self) -> Result<(), Failure> {
        portals::close(self.portal)?;
        self.arrivals.map_or(Ok(()), CounterQueue::close)?;
        self.portals.close()?;
        self.buffer.close().explain("cannot release the buffer")
    }
}
