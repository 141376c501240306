//! What happens when the list entries of a NIC run out (nic.md 8.3, 8.5): one portal takes all that
//! are left, a message finds no room, and the portal recovers.
//!
//! A portal has the list entries of one processing element of the NIC.

use std::thread;
use std::time::Duration;

use super::alone::Alone;
use super::driver;
use super::watchdog::Notices;
use crate::bench::api::Peer;
use crate::bench::common::memory::map;
use crate::bench::common::{
    Direction, Entry, Initiator, Match, NotIssued, PORTAL_INDEX, Portals, Reports, UNRECEIVED,
    WriteOrder, answer, portals,
};
use crate::endpoint::Endpoint;
use cxi::{EventType, MemoryRegion, PortalTableEntry, ReturnCode};
use facts::device::{DeviceName, LibraryFile};
use facts::error::{Context, Failure, Kind};
use measure::{Clock, MonotonicRaw};
use node::explain;
use node::explain::Explain;
use node::gpu::Use;
use plan::Plan;
use plan::buffers::Buffer;
use plan::tools::LOOPBACK_BW;
use plan::typed::Typed;
use report::exhaust::{Exhaustion, RefusedMessage};

/// Most list entries that are appended: more than a processing element has (libcxi.md 11).
const MOST: u32 = 1 << 16;

/// Events that can be pending at the target. The smallest queue, one page, holds them.
const EVENTS: u32 = 1;

/// Seconds for which a portal may refuse messages after list entries are free and it is enabled.
const RECOVERY_LIMIT: f64 = 2.0;

/// Seconds for which the event of a state may come after the answer to the message.
const EVENT_LIMIT: f64 = 0.001;

/// Seconds for which list entries may be missing after their portal is released, and the pause
/// before each further attempt.
const FREE_LIMIT: f64 = 2.0;
const FREE_PAUSE: Duration = Duration::from_millis(100);

/// The entries of the portal. They report nothing.
const ENTRY: Entry = Entry {
    put: true,
    get: false,
    matching: None,
    reports: Reports::Nothing,
    order: WriteOrder::Strict,
    buffer_id: 0,
};

/// What no message matches.
const FILLER: Match = Match { initiator: 0, bits: 1, ignored: 0 };

const NOT_ISSUED: NotIssued = NotIssued("message");

/// Takes all list entries that `device` has left for one portal of this user's service, and sends
/// messages to it. All of them are free when this function returns, or after the end of the
/// process.
///
/// # Errors
///
/// The errors of [`Endpoint::new`], a command that the NIC refuses, and an interruption.
pub fn exhaust(
    program: &str,
    device: DeviceName,
    libcxi: Option<LibraryFile>,
) -> Result<Exhaustion, Failure> {
    let typed = Typed { device: Some(device), ..Typed::nothing(LOOPBACK_BW.defaults) };
    let plan = Plan::new(&LOOPBACK_BW, program.to_owned(), typed, None)?;
    let plan = Plan { libcxi, ..super::place(&plan)? };
    let endpoint = driver::open(&plan)?;
    let own = endpoint.address();
    let alone = Alone(Notices::new(&endpoint, &plan));
    let peer = Peer { address: own.address, portal: PORTAL_INDEX, supervisor: &alone };
    let mut sender = Initiator::new(&endpoint, peer, Buffer::full(&plan.run))?;
    let mut target = FilledPortal::new(&endpoint, &plan)?;

    let (entries, code) = target.fill(MOST)?;
    let append = (code != ReturnCode::OK).then(|| code.to_string());
    let message = append.as_ref().map(|_| target.refuse(&mut sender)).transpose()?;
    let entries_again = target.fill_again(&endpoint, entries)?;
    let exhausted_s = target.exhausted_s;

    target.close()?;
    sender.close()?;
    endpoint.close()?;
    let is_software = own.simulated;
    Ok(Exhaustion { is_software, entries, append, message, exhausted_s, entries_again })
}

/// The portal whose lists take all entries.
struct FilledPortal {
    portals: Portals,
    portal: Option<PortalTableEntry>,
    buffer: MemoryRegion,
    /// Entries that no message matches.
    fillers: u32,
    /// When the list entries ran out, if none is free.
    full_since: Option<u64>,
    /// For how many seconds none was free before.
    exhausted_s: f64,
}

impl FilledPortal {
    fn new(endpoint: &Endpoint, plan: &Plan) -> Result<Self, Failure> {
        let portals = Portals::new(endpoint, EVENTS)?;
        let buffer = map(endpoint, Use::Receive, Buffer::full(&plan.run))?;
        let mut target =
            Self { portals, portal: None, buffer, fillers: 0, full_since: None, exhausted_s: 0.0 };
        target.open(endpoint)?;
        Ok(target)
    }

    /// Opens a portal that stores messages without receives.
    fn open(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let mut portal = self.portals.open_with_flow_control(endpoint, PORTAL_INDEX)?;
        self.portals.append_overflow(&mut portal, &self.buffer, ENTRY)?;
        self.portal = Some(portal);
        Ok(())
    }

    /// Takes the list entries that are left, or this number. Returns how many the portal has, and
    /// how the last append ended.
    fn fill(&mut self, most: u32) -> Result<(u32, ReturnCode), Failure> {
        let Some(portal) = &self.portal else {
            return Ok((0, ReturnCode::OK));
        };
        let filler = Entry { matching: Some(FILLER), ..ENTRY };
        let (fillers, code) = self.portals.fill(portal, &self.buffer, filler, most)?;
        self.fillers = fillers;
        self.full_since = (code != ReturnCode::OK).then(|| MonotonicRaw.now());
        Ok((portals::OVERFLOW_ENTRIES + fillers, code))
    }

    /// Releases the portal, and fills new ones until one gets `wanted` list entries. Returns the
    /// most that one got: a NIC may free them later than the driver says.
    fn fill_again(&mut self, endpoint: &Endpoint, wanted: u32) -> Result<u32, Failure> {
        let begin = MonotonicRaw.now();
        let mut most = 0;
        loop {
            self.release()?;
            let is_over = seconds_since(begin) > FREE_LIMIT;
            match self.open(endpoint).and_then(|()| self.fill(MOST)) {
                Ok((entries, _)) => most = most.max(entries),
                // There is no list entry for messages yet.
                Err(failure) if failure.kind == Kind::Nic => {}
                Err(failure) => return Err(failure),
            }
            if most >= wanted || is_over {
                self.release()?;
                return Ok(most);
            }
            thread::sleep(FREE_PAUSE);
        }
    }

    /// Releases the portal with its list entries.
    fn release(&mut self) -> Result<(), Failure> {
        self.portal.take().map_or(Ok(()), portals::close)?;
        self.exhausted_s += self.full_since.take().map_or(0.0, seconds_since);
        Ok(())
    }

    /// Sends a message for whose header there is no list entry, and lets the portal recover.
    fn refuse(&mut self, sender: &mut Initiator) -> Result<RefusedMessage, Failure> {
        let code = send(sender)?;
        let mut refused =
            RefusedMessage { return_code: code.to_string(), reason: None, recovery_s: None };
        if code == ReturnCode::OK {
            return Ok(refused);
        }
        refused.reason = state_change(&mut self.portals)?;
        let Some(portal) = &self.portal else {
            return Ok(refused);
        };
        let begin = MonotonicRaw.now();
        let mut is_disabled = refused.reason.is_some();
        while refused.recovery_s.is_none() && seconds_since(begin) < RECOVERY_LIMIT {
            // Others may have taken those that were freed before.
            if self.fillers > 0 {
                self.portals.unlink(portal, ENTRY.buffer_id)?;
                self.fillers -= 1;
            }
            if is_disabled {
                self.portals.enable_again(portal)?;
            }
            if send(sender)? == ReturnCode::OK {
                refused.recovery_s = Some(seconds_since(begin));
            } else {
                is_disabled = state_change(&mut self.portals)?.is_some();
            }
        }
        Ok(refused)
    }

    fn close(mut self) -> Result<(), Failure> {
        self.release()?;
        self.portals.close()?;
        self.buffer.close().explain("cannot release the receiving buffer")
    }
}

fn seconds_since(begin: u64) -> f64 {
    (MonotonicRaw.now() - begin) as f64 / 1e9
}

/// Returns why the NIC has disabled a portal, if it has.
fn state_change(portals: &mut Portals) -> Result<Option<String>, Failure> {
    let begin = MonotonicRaw.now();
    loop {
        let is_over = seconds_since(begin) > EVENT_LIMIT;
        let reason = portals.state_change()?;
        if reason.is_some() || is_over {
            return Ok(reason.map(|reason| reason.to_string()));
        }
    }
}

/// Sends a message without data to the portal, and returns its answer.
fn send(sender: &mut Initiator) -> Result<ReturnCode, Failure> {
    let mut message = sender.full(Direction::Put, 0);
    message.set_match_bits(UNRECEIVED);
    let mut batch = sender.transmit.batch();
    batch.emit_dma(&message).nic(NOT_ISSUED)?;
    batch.commit_doorbell();
    let poll = || sender.events.poll().map(|event| (event.event_type(), event.return_code()));
    let (kind, code) = answer("sending a message", poll)?;
    sender.events.acknowledge();
    match kind {
        EventType::ACK => Ok(code),
        _ => Err(explain::unexpected("sending a message", kind, EventType::ACK, code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{self, endpoint};
    use plan::testing::plan;

    /// The software NIC has 16384 list entries for a processing element.
    #[test]
    fn entries_end_and_come_back() {
        let device = "soft44".parse().unwrap();
        let found = exhaust("check", device, None).unwrap();
        assert_eq!((found.entries, found.entries_again), (16384, 16384));
        assert_eq!(found.append.as_deref(), Some("NO_SPACE"));
        let message = found.message.unwrap();
        assert_eq!(message.return_code, "PT_DISABLED");
        assert_eq!(message.reason.as_deref(), Some("FC_UNEXPECTED_FAIL"));
        assert!(message.recovery_s.is_some());
        assert!(found.is_software);
    }

    /// No message arrives: the portal at that index does not exist.
    #[test]
    fn recovery_frees_no_more_entries_than_there_are() {
        let plan = plan("loopback-bw", &["-d", "soft45"]);
        let endpoint = endpoint(&plan);
        let address = endpoint.address().address;
        let peer = Peer { address, portal: PORTAL_INDEX + 1, supervisor: &testing::Alone };
        let mut sender = Initiator::new(&endpoint, peer, Buffer::full(&plan.run)).unwrap();
        let mut target = FilledPortal::new(&endpoint, &plan).unwrap();
        target.fill(3).unwrap();
        let refused = target.refuse(&mut sender).unwrap();
        assert_eq!(refused.return_code, "PTLTE_NOT_FOUND");
        assert_eq!((refused.reason, refused.recovery_s, target.fillers), (None, None, 0));
        target.close().unwrap();
        sender.close().unwrap();
        endpoint.close().unwrap();
    }
}
