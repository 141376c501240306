//! What the threads of the probing process share: targets, the state of NICs, and figures.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::probe::figures::{NicFigures, Omission};
use crate::probe::schedule::NextProbe;
use crew::location::Class;
use facts::device::{DeviceName, FabricAddress};
use members::prober_nic::EndedProbe;
use session::control_line::{NicState, NodeState, ProbeProgress};

/// A NIC is left out for this time after a client has measured.
const HOLD: Duration = Duration::from_secs(1);

/// Most lines for the log that wait.
const MOST_NOTES: usize = 100;

/// What threads share.
pub struct ProbeBoard {
    began: Instant,
    shared: Mutex<BoardState>,
    changed: Condvar,
}

struct BoardState {
    slots: Vec<ProbeTarget>,
    nics: Vec<OwnNic>,
    is_paused: bool,
    has_ended: bool,
    notes: Vec<String>,
}

/// A target: its host, and its NICs as its server tells them.
#[derive(Default)]
struct ProbeTarget {
    host: Option<String>,
    node: Option<NodeState>,
}

/// A NIC of this node.
struct OwnNic {
    device: DeviceName,
    /// None while it is not open.
    state: Option<NicState>,
    /// A client measures on it.
    is_used: bool,
    /// When a client has last measured on it.
    used_until: Option<Instant>,
    /// Others use it heavily.
    is_busy: bool,
    figures: NicFigures,
}

impl OwnNic {
    fn is_held(&self) -> bool {
        self.is_used || self.used_until.is_some_and(|until| until.elapsed() < HOLD)
    }
}

/// What a NIC does at a time of its schedule.
#[derive(Debug, PartialEq, Eq)]
pub enum ScheduledTask {
    Nothing,
    Probe(ProbedNic),
}

/// The NIC of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedNic {
    pub address: FabricAddress,
    host: String,
    device: String,
    class: Class,
}

impl ProbeBoard {
    pub fn new(devices: &[DeviceName], slots: usize) -> Self {
        let nic = |device: &DeviceName| OwnNic {
            device: *device,
            state: None,
            is_used: false,
            used_until: None,
            is_busy: false,
            figures: NicFigures::new(&device.to_string(), None, slots),
        };
        Self {
            began: Instant::now(),
            shared: Mutex::new(BoardState {
                slots: (0..slots).map(|_| ProbeTarget::default()).collect(),
                nics: devices.iter().map(nic).collect(),
                is_paused: false,
                has_ended: false,
                notes: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on the clock of the figures.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends all sleeps.
    pub fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Sleeps until a time on the clock of the figures. Returns false if the process ends.
    pub fn sleep_until(&self, due: Duration) -> bool {
        let mut shared = self.lock();
        loop {
            let left = due.saturating_sub(self.now());
            if shared.has_ended || left.is_zero() {
                return !shared.has_ended;
            }
            let waited = self.changed.wait_timeout(shared, left);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sleeps for a time. Returns false if the process ends.
    pub fn sleep(&self, time: Duration) -> bool {
        self.sleep_until(self.now() + time)
    }

    /// Sets the hosts of the slots. A slot with another host begins anew.
    pub fn set_targets(&self, hosts: &[&str]) {
        let shared = &mut *self.lock();
        for (index, slot) in shared.slots.iter_mut().enumerate() {
            let host = hosts.get(index).copied();
            if slot.host.as_deref() != host {
                *slot = ProbeTarget { host: host.map(str::to_owned), node: None };
                for nic in &mut shared.nics {
                    nic.figures.targets[index] = None;
                }
            }
        }
    }

    pub fn targets(&self) -> usize {
        self.lock().slots.iter().filter(|slot| slot.host.is_some()).count()
    }

    pub fn host(&self, slot: usize) -> Option<String> {
        self.lock().slots[slot].host.clone()
    }

    /// Sets the NICs of the host in a slot. Returns false if the slot has another host.
    pub fn set_node(&self, slot: usize, host: &str, node: Option<NodeState>) -> bool {
        let mut shared = self.lock();
        let has_ended = shared.has_ended;
        let slot = &mut shared.slots[slot];
        let is_same = slot.host.as_deref() == Some(host);
        if is_same {
            slot.node = node;
        }
        is_same && !has_ended
    }

    /// Sets the state of a NIC of this node; none while it is not open.
    pub fn set_nic(&self, index: usize, state: Option<NicState>) {
        let nic = &mut self.lock().nics[index];
        if let Some(state) = &state {
            nic.figures.location = state.location;
        }
        nic.state = state;
    }

    /// Sets the NICs on which clients of the server measure.
    pub fn set_used(&self, devices: &[DeviceName]) {
        for nic in &mut self.lock().nics {
            let is_used = devices.contains(&nic.device);
            if nic.is_used && !is_used {
                nic.used_until = Some(Instant::now());
            }
            nic.is_used = is_used;
        }
    }

    pub fn set_busy(&self, index: usize, is_busy: bool) {
        self.lock().nics[index].is_busy = is_busy;
    }

    pub fn set_paused(&self, is_paused: bool) {
        self.lock().is_paused = is_paused;
    }

    /// The NICs of this node that are open, for those that probe it.
    pub fn state(&self) -> NodeState {
        let shared = self.lock();
        let state = |nic: &OwnNic| {
            let is_busy = shared.is_paused || nic.is_busy || nic.is_held();
            Some(NicState { is_busy, ..nic.state.clone()? })
        };
        NodeState { nics: shared.nics.iter().filter_map(state).collect() }
    }

    /// Returns what has come of the probes.
    pub fn progress(&self) -> ProbeProgress {
        let now = self.now();
        let shared = self.lock();
        let hosts = shared.slots.iter().filter(|slot| slot.host.is_some()).count();
        let mut progress =
            ProbeProgress { targets: hosts * shared.nics.len(), ..ProbeProgress::default() };
        for target in shared.nics.iter().flat_map(|nic| nic.figures.targets.iter().flatten()) {
            progress.measured += usize::from(target.latencies(now).is_some());
            progress.bursts += target.bursts;
            progress.late += target.late;
        }
        progress
    }

    /// Closes a NIC of this node, which cannot be used, and counts it as left out.
    pub fn leave_out_unusable(&self, index: usize) {
        let nic = &mut self.lock().nics[index];
        nic.state = None;
        nic.figures.leave_out(Omission::Unusable);
    }

    /// Returns what a NIC of this node does for a slot. Counts a probe that is left out.
    pub fn job(&self, index: usize, slot: usize) -> ScheduledTask {
        let shared = &mut *self.lock();
        if shared.slots[slot].host.is_none() {
            return ScheduledTask::Nothing;
        }
        let reason = match peer(&shared.slots[slot], &shared.nics[index], index) {
            _ if shared.is_paused => Omission::Paused,
            _ if shared.nics[index].is_held() => Omission::Client,
            _ if shared.nics[index].is_busy => Omission::Busy,
            Ok(peer) => return ScheduledTask::Probe(peer),
            Err(reason) => reason,
        };
        shared.nics[index].figures.leave_out(reason);
        ScheduledTask::Nothing
    }

    /// Adds a probe to the figures. Returns when the next one is due.
    pub fn add(&self, index: usize, slot: usize, peer: &ProbedNic, ended: EndedProbe) -> NextProbe {
        let now = self.now();
        let shared = &mut *self.lock();
        if shared.slots[slot].host.as_ref() != Some(&peer.host) {
            return NextProbe::Usual;
        }
        // A client may have begun meanwhile, here or there, and a server that has ended has taken
        // the target with it.
        let node = shared.slots[slot].node.as_ref();
        let mut nics = node.into_iter().flat_map(|node| &node.nics);
        let is_free = nics.any(|nic| nic.address == peer.address && !nic.is_busy);
        if shared.nics[index].is_held() || !is_free {
            return NextProbe::Usual;
        }
        let target = (peer.host.as_str(), peer.device.as_str(), peer.class);
        shared.nics[index].figures.target(slot, target, now).add(ended, now)
    }

    pub fn figures(&self) -> Vec<NicFigures> {
        self.lock().nics.iter().map(|nic| nic.figures.clone()).collect()
    }

    /// Keeps a line for the log.
    pub fn note(&self, text: String) {
        let notes = &mut self.lock().notes;
        if notes.len() < MOST_NOTES {
            notes.push(text);
        }
    }

    pub fn take_notes(&self) -> Vec<String> {
        mem::take(&mut self.lock().notes)
    }
}

/// The NIC of the node in a slot that the NIC `own` probes: the one at the same place.
fn peer(slot: &ProbeTarget, own: &OwnNic, index: usize) -> Result<ProbedNic, Omission> {
    let state = own.state.as_ref().ok_or(Omission::Unusable)?;
    let node = slot.node.as_ref().filter(|node| !node.nics.is_empty());
    let nics = &node.ok_or(Omission::Unreachable)?.nics;
    let other = &nics[index % nics.len()];
    // Packets of another VNI do not arrive.
    if other.vni != state.vni || other.device.kind != state.device.kind {
        return Err(Omission::Unreachable);
    }
    if other.is_busy {
        return Err(Omission::TargetBusy);
    }
    Ok(ProbedNic {
        address: other.address,
        host: slot.host.clone().unwrap_or_default(),
        device: other.device.to_string(),
        class: Class::between(state.location, other.location),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use members::prober_nic::{ProbeFailure, ProbeFigure};

    fn state(index: u32, is_busy: bool) -> NicState {
        NicState {
            device: DeviceName::software(index),
            address: FabricAddress { nic: 0x12 + index, pid: 1 },
            vni: 10,
            location: None,
            is_busy,
        }
    }

    fn left_out(board: &ProbeBoard) -> Vec<(&'static str, u64)> {
        let figures = board.figures();
        figures[0].left_out().filter(|(_, count)| *count > 0).collect()
    }

    fn board() -> ProbeBoard {
        let board = ProbeBoard::new(&[DeviceName::software(0)], 2);
        board.set_targets(&["nid1"]);
        board.set_nic(0, Some(state(0, false)));
        assert!(board.set_node(0, "nid1", Some(NodeState { nics: vec![state(1, false)] })));
        board
    }

    #[test]
    fn probes_only_nics_that_nobody_needs() {
        let board = board();
        assert!(matches!(board.job(0, 0), ScheduledTask::Probe(peer) if peer.device == "soft1"));
        assert_eq!(board.job(0, 1), ScheduledTask::Nothing);
        assert!(left_out(&board).is_empty());
        board.set_used(&[DeviceName::software(0)]);
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
        assert!(board.state().nics[0].is_busy);
        board.set_used(&[]);
        // A second later at the earliest.
        assert!(board.state().nics[0].is_busy);
        board.set_paused(true);
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
        assert_eq!(left_out(&board), [("client", 1), ("paused", 1)]);
    }

    #[test]
    fn leaves_out_targets_that_are_busy_or_lost() {
        let board = board();
        board.set_node(0, "nid1", Some(NodeState { nics: vec![state(1, true)] }));
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
        board.set_node(0, "nid1", Some(NodeState::default()));
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
        let other_vni = NicState { vni: 11, ..state(1, false) };
        board.set_node(0, "nid1", Some(NodeState { nics: vec![other_vni] }));
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
        assert_eq!(left_out(&board), [("target_busy", 1), ("unreachable", 2)]);
        // The state of a host that was replaced counts no more.
        board.set_targets(&["nid2"]);
        assert!(!board.set_node(0, "nid1", Some(NodeState { nics: vec![state(1, false)] })));
        assert_eq!(board.job(0, 0), ScheduledTask::Nothing);
    }

    #[test]
    fn forgets_figures_of_probe_that_met_a_client() {
        let board = board();
        let ScheduledTask::Probe(peer) = board.job(0, 0) else {
            panic!("no probe");
        };
        let failed = |result| EndedProbe {
            result,
            turns: 0,
            waited: Duration::ZERO,
            stopped: Duration::ZERO,
            took: HOLD,
        };
        board.set_used(&[DeviceName::software(0)]);
        assert_eq!(board.add(0, 0, &peer, failed(Err(ProbeFailure::NoAnswer))), NextProbe::Usual);
        assert!(board.figures()[0].targets[0].is_none());
        let board = self::board();
        board.add(0, 0, &peer, failed(Ok(ProbeFigure::Bulk(1e9))));
        assert_eq!(board.figures()[0].targets[0].as_ref().unwrap().host, "nid1");
    }

    #[test]
    fn probe_of_a_target_that_is_lost_or_busy_does_not_count() {
        let board = board();
        let ScheduledTask::Probe(peer) = board.job(0, 0) else {
            panic!("no probe");
        };
        let failed = || EndedProbe {
            result: Err(ProbeFailure::Error),
            turns: 0,
            waited: Duration::ZERO,
            stopped: Duration::ZERO,
            took: HOLD,
        };
        board.set_node(0, "nid1", None);
        assert_eq!(board.add(0, 0, &peer, failed()), NextProbe::Usual);
        // A client of the target may have slowed the probe.
        board.set_node(0, "nid1", Some(NodeState { nics: vec![state(1, true)] }));
        let disturbed = EndedProbe { result: Ok(ProbeFigure::Bulk(1e9)), ..failed() };
        assert_eq!(board.add(0, 0, &peer, disturbed), NextProbe::Usual);
        assert!(board.figures()[0].targets[0].is_none());
        board.set_node(0, "nid1", Some(NodeState { nics: vec![state(1, false)] }));
        assert_eq!(board.add(0, 0, &peer, failed()), NextProbe::Rarer);
    }

    #[test]
    fn end_wakes_sleepers() {
        let board = board();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| board.sleep(Duration::from_secs(3600)));
            board.end();
            assert!(!sleeper.join().unwrap());
        });
        assert!(!board.sleep(Duration::ZERO));
    }
}
