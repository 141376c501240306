//! Rendezvous puts: the target fetches the data when a list entry matches (nic.md 10).

use cxi::records::{EventTargetLong, FullDmaCmd};
use cxi::sys::{C_CMD_GET, C_CMD_PUT, C_CMD_RENDEZVOUS_PUT, C_PID_ANY};
use cxi::{CommunicationProfile, MemoryRegion, PortalTableEntry, TransmitQueue, address};

use super::portals::{self, Entry, Match, Portals, Reports, WriteOrder};
use super::{Initiator, ThresholdCounter};
use crate::bench::api::Peer;
use crate::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::{Context, Failure};
use node::explain::Explain;
use plan::run_options::Side;

/// Match bits of messages and receiving entries (tools.md 3.4).
pub const MATCH_BITS: u64 = 0x1234_5678_9abc_def0;

/// The part of the match bits that a get carries.
const GET_BITS: u64 = 0xffff_0000_0000_0000;

/// The match bits of a get for its transaction type; ignored.
const TRANSACTION_TYPE: u64 = 0xf00;

/// Header data of the messages, visible in traces only.
const HEADER_DATA: u64 = 0x77;
const USER_POINTER: u64 = 0x88;

/// Number of the messages of one side.
const fn id(side: Side) -> u8 {
    match side {
        Side::Client => 0xcc,
        Side::Server => 0xaa,
    }
}

/// The initiator id of a side, with its PID, to which the get is addressed.
fn initiator_id(endpoint: &Endpoint, fabric_address: FabricAddress) -> u32 {
    let pid_bits = endpoint.device().info().pid_bits;
    address::match_id(pid_bits, fabric_address.pid, address::sent_nid(fabric_address.nic))
}

/// The match criteria for messages of `peer`.
pub fn messages_of(peer: Peer<'_>) -> Match {
    Match { initiator: initiator_id(peer.own, peer.address), bits: MATCH_BITS, ignored: 0 }
}

/// A rendezvous put of `size` bytes without eager data.
pub fn put(endpoint: &Endpoint, initiator: &Initiator, side: Side, size: u64) -> FullDmaCmd {
    let own = endpoint.address();
    let mut command = initiator.full(super::Direction::Put, size);
    command
        .set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
        .set_match_bits(MATCH_BITS)
        .set_rendezvous_id(id(side))
        .set_initiator(initiator_id(endpoint, own.address))
        .set_header_data(HEADER_DATA)
        .set_user_ptr(USER_POINTER);
    command
}

/// An eager put that matches the same entry as the rendezvous put.
pub fn eager(mut put: FullDmaCmd) -> FullDmaCmd {
    put.set_opcode(C_CMD_PUT as u8).set_rendezvous_id(0);
    put
}

/// The portal from which the peer fetches the data of this side's messages.
pub struct RendezvousPortal {
    portal: PortalTableEntry,
    /// Its events: GET, or only failures if gets are counted.
    pub portals: Portals,
}

impl RendezvousPortal {
    /// Opens `buffer` to the gets of `peer`, with a queue for `events` pending events.
    pub fn new(
        peer: Peer<'_>,
        side: Side,
        buffer: &MemoryRegion,
        reports: Reports,
        events: u32,
    ) -> Result<Self, Failure> {
        let mut portals = Portals::new(peer.own, events)?;
        let index = peer.own.device().info().rdzv_get_idx;
        let mut portal = portals.open(peer.own, index, true)?;
        let any_pid = FabricAddress { pid: C_PID_ANY, ..peer.address };
        let matching = Match {
            initiator: initiator_id(peer.own, any_pid),
            bits: MATCH_BITS & GET_BITS | u64::from(id(side)),
            ignored: TRANSACTION_TYPE,
        };
        let entry = Entry {
            put: false,
            get: true,
            matching: Some(matching),
            reports,
            order: WriteOrder::Strict,
            buffer_id: 0,
        };
        portals.append(&mut portal, buffer, entry)?;
        Ok(Self { portal, portals })
    }

    /// Releases the resources.
    pub fn close(self) -> Result<(), Failure> {
        portals::close(self.portal)?;
        self.portals.close()
    }
}

/// Fetches the data of a message in software, if the NIC leaves the get to software (defect T21 of
/// tools.md). It has its own queue, so that its REPLY arrives at the same event queue as the REPLYs
/// of the NIC's gets.
pub struct SoftwareFetcher {
    transmit: TransmitQueue,
    template: FullDmaCmd,
}

impl SoftwareFetcher {
    /// Creates the fetcher for messages of `peer` to `buffer`; each REPLY arrives at the queue of
    /// `portals`.
    pub fn new(
        peer: Peer<'_>,
        profile: &CommunicationProfile,
        portals: &Portals,
        buffer: &MemoryRegion,
        slots: u32,
    ) -> Result<Self, Failure> {
        let (own, info) = (peer.own.address(), peer.own.device().info());
        let mut transmit = TransmitQueue::new(profile, slots, &portals.events, None)
            .explain("cannot allocate the transmit queue of gets")?;
        transmit.keep_mapped(buffer);
        let index = info.rdzv_get_idx;
        let mut template = FullDmaCmd::new();
        template
            .set_opcode(C_CMD_GET as u8)
            .set_index_ext(address::index_ext(index))
            .set_dfa(address::dfa(peer.address.nic, peer.address.pid, index, info.pid_bits))
            .set_lac(buffer.lac())
            .set_event_send_disable(true)
            .set_initiator(initiator_id(peer.own, own.address))
            .set_eq(portals.events.number());
        Ok(Self { transmit, template })
    }

    /// Counts the gets on a counter.
    pub fn count(&mut self, triggered_counter: &ThresholdCounter) {
        triggered_counter.keep_for(&mut self.transmit);
        self.template.set_event_ct_reply(true).set_ct(triggered_counter.number());
    }

    /// Issues the get for the message that the RENDEZVOUS event `announced` reports.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    pub fn fetch(&mut self, announced: &EventTargetLong) -> Result<(), Failure> {
        let mut command = self.template;
        command
            .set_header_data(announced.header_data())
            .set_match_bits(announced.match_bits())
            .set_request_len(announced.rlength() - announced.mlength())
            .set_local_addr(announced.start())
            .set_remote_offset(announced.remote_offset());
        let mut batch = self.transmit.batch();
        batch.emit_dma(&command).nic("cannot issue the get of a message")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Releases the queue.
    pub fn close(self) -> Result<(), Failure> {
        self.transmit.close().explain("cannot release the transmit queue of gets")
    }
}
