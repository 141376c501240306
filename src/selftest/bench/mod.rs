//! What a check works with: the objects of both ends on one NIC, which addresses itself, the bytes
//! of the last command and the last event, and errors that the check provokes. Each error sets an
//! error flag of the NIC, and the driver masks a flag at its 11th interrupt within 5 s, for all
//! users, until it is loaded again (health.md 2.5.1).

mod portals;

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use cxi::sys::*;
use cxi::{
    CommunicationProfile, Device, Domain, EmitError, EventQueue, EventType, Lni, MemoryRegion,
    Pages, PortalTableEntry, TargetBatch, TargetQueue, TransmitBatch, TransmitQueue, address,
};

use facts::device::DeviceName;
use facts::error_flag::ErrorFlag;
use facts::interrupt;

pub use super::ended::{CheckEnd, Checked, differs, ensure, equal, refused, skipped};
pub use super::events::{LIMIT, Seen, Trace, expect, next, quiet};
pub use portals::{matching, silent};

/// Bytes of the initiator's and of the target's memory.
pub const LEN: usize = 256 * 1024;

/// Pinned memory that the NIC may read and write.
pub const RIGHTS: u32 = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;

/// The user pointer of commands, unless a check sets another.
pub const USER_PTR: u64 = 0x1234_5678_9abc_def0;

/// The NIC, and what this process uses of it.
pub struct CheckedNic {
    /// The open device.
    pub device: Device,
    pub name: DeviceName,
    /// Number of the service.
    pub service: u32,
    pub vni: u32,
    /// Traffic class, `CXI_TC_*`.
    pub class: cxi_traffic_class,
    /// Errors that checks have provoked on it.
    pub provoked: Provoked,
}

impl CheckedNic {
    /// Skips a check of what exists for BEST_EFFORT only (libcxi.md 5).
    ///
    /// # Errors
    ///
    /// Another traffic class.
    pub fn needs_best_effort(&self) -> Checked {
        if self.class == CXI_TC_BEST_EFFORT {
            return Ok(());
        }
        skipped("the traffic class is not BEST_EFFORT")
    }

    /// Whether other LNIs of the service can share the profiles and contexts of an LNI (libcxi.md
    /// 4).
    ///
    /// # Errors
    ///
    /// The call fails.
    pub fn shares_rgids(&self) -> Checked<bool> {
        let lnis = self.device.lnis_per_rgid(self.service)?;
        Ok(lnis.is_some_and(|lnis| lnis > 1))
    }

    /// Allocates an interface.
    ///
    /// # Errors
    ///
    /// See libcxi.md 4.
    pub fn lni(&self) -> Result<Lni, cxi::Error> {
        Lni::new(&self.device, self.service)
    }
}

/// A portals table entry with an event queue of its own.
pub struct Portal {
    pub entry: PortalTableEntry,
    /// What happens at it.
    pub events: EventQueue,
}

/// A second VNI on which the bench holds its PID.
pub struct OtherVni {
    pub profile: CommunicationProfile,
    _domain: Domain,
}

/// The objects of one check. They are its own, so that a queue that stops ends no other check.
pub struct Bench<'nic> {
    pub nic: &'nic CheckedNic,
    /// The bytes of the last command and event.
    pub trace: Trace,
    /// The initiator's commands.
    pub transmit: TransmitQueue,
    /// The target's commands.
    pub target: TargetQueue,
    /// The initiator's events.
    pub events: EventQueue,
    /// The initiator's memory.
    pub local: MemoryRegion,
    /// The target's memory.
    pub remote: MemoryRegion,
    /// The profile of the initiator, the first of the interface.
    pub profile: CommunicationProfile,
    /// The address.
    pub domain: Domain,
    /// The interface.
    pub lni: Lni,
}

impl<'nic> Bench<'nic> {
    /// Allocates the objects of a check.
    pub fn new(nic: &'nic CheckedNic) -> Result<Self, cxi::Error> {
        let lni = nic.lni()?;
        let domain = Domain::new(&lni, nic.vni, C_PID_ANY)?;
        let profile = CommunicationProfile::new(&lni, nic.vni, nic.class, CXI_TC_TYPE_DEFAULT)?;
        let map = || MemoryRegion::map(&lni, Pages::anonymous(LEN)?, RIGHTS);
        let (local, remote) = (map()?, map()?);
        let events = EventQueue::new(&lni, 252, CXI_EQ_EC_DISABLE.into())?;
        let transmit = TransmitQueue::new(&profile, 64, &events, None)?;
        let target = TargetQueue::new(&lni, 64, None)?;
        Ok(Self {
            nic,
            trace: Trace::default(),
            transmit,
            target,
            events,
            local,
            remote,
            profile,
            domain,
            lni,
        })
    }

    /// Releases the objects.
    ///
    /// # Errors
    ///
    /// The first call that the library refuses.
    pub fn close(self) -> Result<(), cxi::Error> {
        let queues = [self.transmit.close(), self.target.close(), self.events.close()];
        let memory = [self.local.close(), self.remote.close()];
        let others = [self.profile.close(), self.domain.close(), self.lni.close()];
        queues.into_iter().chain(memory).chain(others).fold(Ok(()), Result::and)
    }

    /// The address of portal `index` of the bench. It is the only function that makes addresses of
    /// targets, so that no check reaches the memory of another process: a PID may belong to anyone
    /// on a VNI on which the bench does not hold it (libcxi.md 6).
    pub fn dfa(&self, index: u32) -> u32 {
        let info = self.nic.device.info();
        address::dfa(info.nid, self.domain.pid(), index, info.pid_bits)
    }

    /// Takes the PID of the bench on another VNI of the service too, and a profile for it.
    ///
    /// # Errors
    ///
    /// A service without a second VNI of its own receive profile, a PID that another process has
    /// there, and other refusals: the check is skipped.
    pub fn on_other_vni(&self) -> Checked<OtherVni> {
        let service = self.nic.device.service(self.nic.service)?;
        let mut vnis = service.vnis.iter().map(|vni| u32::from(*vni));
        let Some(vni) = vnis.find(|vni| *vni != self.nic.vni) else {
            return skipped("the service lists no second VNI");
        };
        let pid = self.domain.pid();
        let refused = |what: &str, error: cxi::Error| {
            CheckEnd::Skipped(format!("no {what} on VNI {vni}: {error}"))
        };
        let domain = Domain::new(&self.lni, vni, pid);
        let domain = domain.map_err(|error| refused(&format!("PID {pid}"), error))?;
        let profile =
            CommunicationProfile::new(&self.lni, vni, self.nic.class, CXI_TC_TYPE_DEFAULT);
        let profile = profile.map_err(|error| refused("profile", error))?;
        if profile.lcid() == self.profile.lcid() {
            return skipped("both VNIs of the service have one profile");
        }
        Ok(OtherVni { profile, _domain: domain })
    }

    /// A profile of another type for the VNI of the bench.
    ///
    /// # Errors
    ///
    /// See libcxi.md 5.
    pub fn profile_of(&self, ty: cxi_traffic_class_type) -> Checked<CommunicationProfile> {
        let (vni, class) = (self.nic.vni, self.nic.class);
        Ok(CommunicationProfile::new(&self.lni, vni, class, ty)?)
    }

    /// Waits until an error of this flag may be provoked.
    ///
    /// # Errors
    ///
    /// Too many errors of this flag in this run.
    pub fn provoke(&self, flag: ErrorFlag) -> Checked {
        self.nic.provoked.provoke(flag)
    }

    /// As [`Self::provoke`], for the flag that an operation with this return code sets, if any.
    pub fn provoke_code(&self, code: u32) -> Checked {
        flag_of(code).map_or(Ok(()), |flag| self.provoke(flag))
    }

    /// Returns this process's own match id.
    pub fn match_id(&self) -> u32 {
        let info = self.nic.device.info();
        let nid = address::sent_nid(info.nid);
        address::match_id(info.pid_bits, self.domain.pid(), nid)
    }

    /// Emits commands by `emit` and rings the doorbell.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn send(
        &mut self,
        emit: impl FnOnce(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        self.send_by(|batch| batch.commit_doorbell(), emit)
    }

    /// Emits commands by `emit` and hands them over by a low-latency write.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn send_low_latency(
        &mut self,
        emit: impl FnOnce(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        self.send_by(|batch| batch.commit_low_latency(), emit)
    }

    fn send_by(
        &mut self,
        commit: impl FnOnce(TransmitBatch<'_>),
        emit: impl FnOnce(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        let mut batch = self.transmit.batch();
        emit(&mut batch)?;
        self.trace.command = batch.bytes();
        commit(batch);
        Ok(())
    }

    /// Emits target commands by `emit` and rings the doorbell.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn command(
        &mut self,
        emit: impl FnOnce(&mut TargetBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        let mut batch = self.target.batch();
        emit(&mut batch)?;
        self.trace.command = batch.bytes();
        batch.commit_doorbell();
        Ok(())
    }

    /// Waits for the next event of the initiator.
    ///
    /// # Errors
    ///
    /// No event in time.
    pub fn event(&mut self) -> Checked<Seen> {
        next(&mut self.events, &mut self.trace)
    }

    /// Waits for an event of the initiator of this type and return code.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn expect(&mut self, kind: EventType, code: u32) -> Checked<Seen> {
        expect(&mut self.events, &mut self.trace, kind, code)
    }

    /// Waits for the next event of `portal`.
    ///
    /// # Errors
    ///
    /// No event in time.
    pub fn event_at(&mut self, portal: &mut Portal) -> Checked<Seen> {
        next(&mut portal.events, &mut self.trace)
    }

    /// Waits for an event of `portal` of this type and return code.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn expect_at(&mut self, portal: &mut Portal, kind: EventType, code: u32) -> Checked<Seen> {
        expect(&mut portal.events, &mut self.trace, kind, code)
    }

    /// Checks that the initiator gets no further event.
    ///
    /// # Errors
    ///
    /// An event.
    pub fn quiet(&mut self) -> Checked {
        quiet(&mut self.events, &mut self.trace)
    }

    /// Checks that `portal` reports nothing further.
    ///
    /// # Errors
    ///
    /// An event.
    pub fn quiet_at(&mut self, portal: &mut Portal) -> Checked {
        quiet(&mut portal.events, &mut self.trace)
    }

    /// Fills both memories, each with its own pattern, and returns what the initiator's has.
    ///
    /// # Errors
    ///
    /// None: it is host memory.
    pub fn fill(&self) -> Checked<Vec<u8>> {
        let pattern: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 + 1).collect();
        self.local.copy_in(0, &pattern)?;
        self.remote.fill(0xee)?;
        Ok(pattern)
    }
}

/// Returns `len` bytes of `memory` from `offset` on.
///
/// # Errors
///
/// None: it is host memory.
pub fn bytes_of(memory: &MemoryRegion, offset: usize, len: usize) -> Checked<Vec<u8>> {
    let mut bytes = vec![0; len];
    memory.copy_out(offset, &mut bytes)?;
    Ok(bytes)
}

/// Checks that `memory` has these bytes at `offset`.
///
/// # Errors
///
/// The first byte that differs.
pub fn has(what: &str, memory: &MemoryRegion, offset: usize, expected: &[u8]) -> Checked {
    let seen = bytes_of(memory, offset, expected.len())?;
    let differing = seen.iter().zip(expected).position(|(a, b)| a != b);
    differing.map_or(Ok(()), |at| {
        let byte = |bytes: &[u8]| format!("{what}: {:#04x} at byte {}", bytes[at], offset + at);
        Err(differs(byte(expected), byte(&seen)))
    })
}

/// Most errors of a flag in a run.
pub const MOST: usize = 3;

/// Least time between two errors of a flag: each is an interrupt and a line in the log.
const INTERVAL: Duration = Duration::from_millis(200);

/// Least time between the last error and the end of the run. Of runs that follow each other, three
/// at most provoke errors within 5 s.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a wait may take without looking for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// The errors of a run.
#[derive(Debug, Default)]
pub struct Provoked(RefCell<Vec<(ErrorFlag, Instant)>>);

impl Provoked {
    /// Waits until an error of this flag may be provoked, and counts it.
    ///
    /// # Errors
    ///
    /// `MOST` errors of the flag.
    pub fn provoke(&self, flag: ErrorFlag) -> Checked {
        if self.count(flag) == MOST {
            let name = flag.full_name();
            return skipped(format_args!("{MOST} errors of the flag {name} were provoked"));
        }
        let last = self.0.borrow().iter().rfind(|(known, _)| *known == flag).map(|last| last.1);
        wait_after(last, INTERVAL);
        self.0.borrow_mut().push((flag, Instant::now()));
        Ok(())
    }

    /// Returns how many errors of this flag were provoked.
    pub fn count(&self, flag: ErrorFlag) -> usize {
        let all = self.0.borrow();
        all.iter().filter(|(known, _)| *known == flag).count()
    }

    /// Waits until the driver has handled the last error, and another run may begin.
    pub fn settle(&self) {
        let last = self.0.borrow().last().map(|last| last.1);
        wait_after(last, PAUSE);
    }
}

/// Waits until `time` has passed since `last`, or for an interruption.
fn wait_after(last: Option<Instant>, time: Duration) {
    let Some(until) = last.map(|last| last + time) else {
        return;
    };
    while !interrupt::requested() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return;
        }
        thread::sleep(rest.min(SLICE));
    }
}

/// The flag that an operation with this return code sets, unless the driver masks it from the
/// start.
fn flag_of(code: c_return_code) -> Option<ErrorFlag> {
    Some(match code {
        C_RC_RESTRICTED_UNICAST => ErrorFlag::RESTRICTED_UNICAST,
        C_RC_NO_SPACE => ErrorFlag::NO_SPACE,
        C_RC_INVALID_ENDPOINT => ErrorFlag::INVALID_ENDPOINT,
        C_RC_OP_VIOLATION => ErrorFlag::OP_VIOLATION,
        C_RC_AMO_ALIGN_ERROR => ErrorFlag::AMO_ALIGN,
        C_RC_AMO_INVAL_OP_ERROR => ErrorFlag::AMO_OP,
        C_RC_AMO_LENGTH_ERROR => ErrorFlag::AMO_LENGTH,
        C_RC_PAGE_PERM_ERROR => ErrorFlag::PAGE_PERMISSION,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use cxi::records::FullDmaCmd;

    use super::*;

    fn differs_from(expected: &str, seen: &str) -> Checked {
        Err(differs(expected, seen))
    }

    #[test]
    fn waits_notice_other_events_and_their_absence() {
        let nic = crate::testing::nic();
        let mut bench = Bench::new(&nic).unwrap();
        let mut portal = bench.portal(0, |_| {}).unwrap();
        bench.append(&mut portal, |_| {}).unwrap();
        assert_eq!(bench.quiet(), Ok(()));
        let put = bench.dma(C_CMD_PUT, 8);
        bench.send(|batch| batch.emit_dma(&put)).unwrap();
        bench.expect_at(&mut portal, EventType::PUT, C_RC_OK).unwrap();
        assert_eq!(bench.quiet(), differs_from("no further event", "ACK OK"));
        bench.send(|batch| batch.emit_dma(&put)).unwrap();
        let other = bench.expect(EventType::REPLY, C_RC_OK).map(drop);
        assert_eq!(other, differs_from("REPLY OK", "ACK OK"));
        assert_eq!(bench.trace.command, put_bytes(&put));
        assert_eq!(bench.trace.event.len(), 16);
        let none = bench.expect(EventType::ACK, C_RC_OK).map(drop);
        assert_eq!(none, differs_from("ACK OK", "no event within 3 s"));
        assert_eq!(bench.trace.event.len(), 0);
        bench.remote.fill(7).unwrap();
        assert_eq!(has("memory", &bench.remote, 1, &[7, 7]), Ok(()));
        let expected = ("memory: 0x08 at byte 2", "memory: 0x07 at byte 2");
        let seen = has("memory", &bench.remote, 1, &[7, 8]);
        assert_eq!(seen, differs_from(expected.0, expected.1));
        drop(portal);
        bench.close().unwrap();
    }

    /// The command with the fields that emitting it sets.
    fn put_bytes(put: &FullDmaCmd) -> Vec<u8> {
        let mut put = *put;
        put.set_cmd_type(C_CMD_TYPE_DMA as u8).set_cmd_size(C_CMD_SIZE_64B as u8);
        put.bytes().to_vec()
    }
}
