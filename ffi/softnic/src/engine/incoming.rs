//! Operations of other NICs in progress at this one.

use super::lists::Landing;
use super::packet::Packet;
use super::return_codes::ReturnCode;
use super::wire::PeerId;

/// A put of which packets are missing.
pub struct IncompletePut {
    pub peer: PeerId,
    /// Its first packet.
    pub header: Packet,
    /// `None` if it matched no entry, or was cancelled.
    pub landing: Option<Landing>,
    pub code: ReturnCode,
}

/// A get of which data remains to be sent. There is at most one for each transaction of each NIC
/// that sends to this one.
pub struct IncompleteReply {
    pub peer: PeerId,
    pub landing: Landing,
    pub request: Packet,
    /// Bytes sent.
    pub sent: u32,
}
