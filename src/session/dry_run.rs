//! A dry run of the handshake: the decisions of a session as a pure function on bytes, for fuzzing
//! and for tests with hostile bytes.

use std::net::{Ipv4Addr, SocketAddr};

use super::counters::ReceivedCounters;
use super::handshake::{Agreed, Handshake, Refusal};
use super::peer_facts::HandshakeIntroduction;
use super::wire::{MAX_PAYLOAD, RESULT_SIZE, decode_result};
use facts::net::{Incoming, TooLong};
use measure::SideResult;
use node::local_address::LocalAddress;
use node::nic::counter_table::Preset;
use node::nic::counters::CounterChanges;
use plan::Plan;

/// The result of a dry run.
#[derive(Debug)]
pub enum DryRunResult {
    /// The bytes end before a decision: a session would wait for more.
    Waits,
    /// The peer is refused for this reason.
    Refused(String),
    /// The handshake succeeds.
    Agreed(Agreed),
}

/// The result of a handshake of the side that `plan` describes with a peer that sends `bytes` in
/// pieces of `piece` bytes, and nothing else.
pub fn handshake(plan: &Plan, own: LocalAddress, bytes: &[u8], piece: usize) -> DryRunResult {
    let us = HandshakeIntroduction::new(plan, own, plan.port, "this-machine".into());
    let mut handshake = Handshake::new(&us, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let mut incoming = Incoming::new(MAX_PAYLOAD);
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = incoming.room();
        let taken = room.len().min(piece.max(1)).min(rest.len());
        room[..taken].copy_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        match incoming.advance(taken) {
            Ok(None) => {}
            Err(TooLong(length)) => return DryRunResult::Refused(format!("{length} bytes")),
            Ok(Some(payload)) => match handshake.accept(&payload) {
                Ok(None) => {}
                Ok(Some(agreed)) => return DryRunResult::Agreed(agreed),
                Err(Refusal::Unrelated(reason)) => return DryRunResult::Refused(reason),
                Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => {
                    return DryRunResult::Refused(failure.message());
                }
            },
        }
    }
    DryRunResult::Waits
}

/// The bandwidth result in `payload`, if it has the right size.
pub fn result(payload: &[u8]) -> Option<SideResult> {
    let bytes: &[u8; RESULT_SIZE] = payload.try_into().ok()?;
    Some(decode_result(bytes))
}

/// The counters in `payload`, if it is a message of them.
pub fn counters(payload: &[u8]) -> Option<CounterChanges> {
    let mut received = ReceivedCounters::none_of(Preset::Quick);
    received.add(payload)?;
    Some(received.changes())
}
