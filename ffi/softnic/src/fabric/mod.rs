//! The wire between software NICs of one host: shared memory in a private directory.
//!
//! Each open NIC has a *port*, a file that other NICs map to send to it. The headers of ports
//! contain the (VNI, PID) that they serve, by which addresses are resolved. A NIC sends to itself
//! through its own port too.

mod directory;
mod error_flags;
mod lane;
mod link_model;
mod link_settings;
mod link_time;
mod links;
mod place;
mod port;
mod properties;
mod shared_counts;
mod syntax;
mod wire;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cxi_sys::C_PID_ANY;
use rustix::io::Errno;
use rustix::process::Uid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::engine::VniRange;
use crate::engine::packet_counts::PacketCounts;
use crate::engine::telemetry::Telemetry;
use crate::engine::wire::PeerId;
use crate::environment::{self, Driver, Nics};
use crate::random::Random;
use crate::{counter_names, fork};
pub use directory::{Directory, Space};
pub use error_flags::ErrorFlags;
use lane::{EarlyPackets, Remote, Unread};
use link_model::LinkModel;
pub use link_settings::{Health, LinkSettings, PCIE_MAX, PcieLanes, Slowness};
pub use link_time::now;
use links::Links;
pub use links::{LinksDelay, NicLinkCounts, nic_counts as nic_link_counts};
pub use place::{FabricDirectory, describe_holder, fallback, identity, owner};
use port::{Endpoints, LANES, VNIS};
pub use port::{LniUse, Port};
use properties::{FetchAdd, ShownGroups};
pub use properties::{available as available_groups, available_in as available_groups_in};
use shared_counts::Totals;
pub use shared_counts::TriggeredPools;
pub use syntax::from_environment as settings;

/// The result of the last lookup of an address.
struct AddressLookup {
    nid: u32,
    vni: u16,
    pid: u16,
    peer: PeerId,
    /// The row of the peer's table of VNIs with the address, and its VNIs.
    row: usize,
    vnis: VniRange,
}

/// A lane of the own port.
#[derive(Clone, Copy, Default)]
struct Inbound {
    /// Position of the next cell.
    head: u32,
    /// The rest of the responses that share this cell.
    responses: Unread,
    /// When the next packet is delivered, which has arrived but takes time to be received.
    delivery: Option<u64>,
    /// Instance and peer of the NIC that sent the last packet.
    sender: Option<(u64, PeerId)>,
}

/// One NIC's connection to the fabric.
pub struct Fabric {
    place: FabricDirectory,
    port: Arc<Port>,
    /// Holds the lock that marks the port as alive.
    file: Option<File>,
    nid: u32,
    slot: u32,
    instance: u64,
    remotes: Vec<Option<Remote>>,
    routes: Vec<AddressLookup>,
    inbound: [Inbound; LANES],
    /// The lane to poll first, so that none starves.
    turn: u32,
    /// The link, as the environment describes it.
    pub settings: LinkSettings,
    /// The model of the link, if the environment requests one.
    link: Option<Box<LinkModel>>,
    /// Bits of the first word of a cell that decide whether its packet may have to wait.
    waits: u64,
    early: EarlyPackets,
    /// The earliest due time of the packets that were not due at the last poll.
    next_due: Option<u64>,
    /// Whether the program of the NIC that this one sent to last rings on the CPU on which the own
    /// program rings.
    pub shares_cpu: bool,
    /// Settings that are parameters of the driver on hardware.
    pub driver: Driver,
    /// Where this process sees the number of RGIDs without LNIs.
    shown_groups: Option<ShownGroups>,
    /// The operation that is executed as an addition, as this process sees it.
    pub fetch_add: FetchAdd,
    /// The error flags of the NIC.
    pub errors: Option<Arc<ErrorFlags>>,
    /// The pools of triggered operations of the NIC.
    pub triggered: Option<Arc<TriggeredPools>>,
    pub sent: PacketCounts,
    pub received: PacketCounts,
}

impl Fabric {
    /// Joins the fabric with a new port of the NIC with this number and the address `nid`.
    ///
    /// # Errors
    /// EINVAL for invalid environment variables; errors of the file system.
    pub fn join(number: u32, nid: u32) -> Result<Self, Errno> {
        let settings = syntax::from_environment(number).map_err(|_| Errno::INVAL)?;
        let driver = Driver::from_environment().map_err(|_| Errno::INVAL)?;
        let place = FabricDirectory::from_environment()?;
        let directory = Directory::lock(&place)?;
        directory.sweep()?;
        let topology = environment::topology().map_err(|_| Errno::INVAL)?;
        let instance = random()?;
        // Each open device begins with paths of its own, as on hardware.
        let links = Links::open(&directory, topology.as_ref(), number, Random(instance))?;
        let (file, slot) = directory.create(nid)?;
        let memory = directory.reopen(nid, slot);
        let port = memory.and_then(|memory| Port::create(&memory, instance));
        let port = port.and_then(|port| directory.reserve().map(|()| port));
        let port = port.inspect_err(|_| {
            let _ = directory.remove(nid, slot);
        })?;
        fork::keep_from_children(&file);
        // Without counters, devices work all the same.
        let _ = directory.totals(nid);
        let errors = ErrorFlags::open(&directory, nid).ok().map(Arc::new);
        let port = Arc::new(port);
        let triggered = directory.triggered(nid);
        let triggered = triggered.and_then(|file| TriggeredPools::open(file, port.clone()));
        let triggered = triggered.ok().map(Arc::new);
        place.keep();
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let fetch_add = FetchAdd::of(number, &settings.health);
        let link = LinkModel::new(settings.clone(), &nics, nid, slot, links);
        let overtake = link.as_ref().is_some_and(|link| link.has_switches());
        let takes_time = link.as_ref().is_some_and(|link| link.reception.is_some());
        Ok(Self {
            place,
            port,
            file: Some(file),
            nid,
            slot,
            instance,
            remotes: Vec::new(),
            routes: Vec::new(),
            inbound: [Inbound::default(); LANES],
            turn: 0,
            link,
            waits: if takes_time { u64::MAX } else { port::TIMED },
            settings,
            early: EarlyPackets::new(overtake),
            next_due: None,
            shares_cpu: false,
            driver,
            shown_groups: ShownGroups::of(number),
            fetch_add,
            errors,
            triggered,
            sent: PacketCounts::default(),
            received: PacketCounts::default(),
        })
    }

    pub fn port(&self) -> Arc<Port> {
        self.port.clone()
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        let link = self.link.as_ref();
        link.is_none_or(|link| link.is_up())
    }

    /// Publishes the counts of this device. The counts of the wire in `telemetry` are replaced.
    pub fn publish_counts(&self, mut telemetry: Telemetry) {
        telemetry.sent = self.sent.clone();
        telemetry.received = self.received.clone();
        telemetry.link = self.link.as_ref().map(|link| link.counts()).unwrap_or_default();
        self.port.publish_counts(telemetry.values(counter_names::places));
    }

    pub fn packets_sent(&self) -> u64 {
        self.sent.all()
    }

    /// The directory of the ports.
    pub fn place(&self) -> &FabricDirectory {
        &self.place
    }

    /// Locks and returns the directory.
    pub fn directory(&self) -> Result<Directory, Errno> {
        Directory::lock_existing(&self.place)
    }

    /// The user as whom this process accesses the fabric.
    pub fn user(&self) -> Uid {
        self.place.user
    }

    pub fn own_nid(&self) -> u32 {
        self.nid
    }

    /// Updates the file with the number of RGIDs without LNIs if the LNIs of this device have
    /// changed since the last call. The directory must not be locked.
    #[inline]
    pub fn show_groups(&self) {
        if self.port.take_groups_changed() {
            self.write_groups();
        }
    }

    #[cold]
    fn write_groups(&self) {
        if self.shown_groups.is_some()
            && let Ok(directory) = self.directory()
        {
            self.write_groups_in(&directory);
        }
    }

    /// Updates the file. If it cannot be written, it stays as it is: the NIC works without it.
    fn write_groups_in(&self, directory: &Directory) {
        if let Some(shown) = &self.shown_groups {
            // The last device that leaves removes the directory.
            let number = properties::available(directory, self.nid).unwrap_or(properties::ALL);
            let _ = shown.write(number);
        }
    }

    /// Leaves the fabric: releases the endpoints, and removes the port. Lanes need no release,
    /// because their owner is gone.
    fn leave(&mut self) -> Result<(), Errno> {
        let directory = Directory::lock_existing(&self.place)?;
        self.port.remove_pids();
        // Readers ask under the lock of the directory, perhaps since the device was closed.
        self.port.answer_requests();
        directory.count_closed(self.nid, self.file.as_ref().and_then(port::read_counts));
        if let Some(file) = &self.file {
            directory.give_triggered_back(self.nid, file);
        }
        directory.sweep()?;
        let removed = directory.remove(self.nid, self.slot);
        self.write_groups_in(&directory);
        removed
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // Fails if the directory was removed by hand; then nothing remains to be done.
        let _ = self.leave();
        if let Some(file) = self.file.take() {
            fork::release(file);
        }
    }
}

/// Checks the environment variables of the link model and of the directory, and that other open
/// devices have the same topology.
///
/// # Errors
/// One line that names the variable.
pub fn check_environment() -> Result<(), String> {
    syntax::from_environment(0)?;
    place::check()?;
    links::check()
}

/// A random number for an open NIC; never 0, which means no NIC.
fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    if getrandom(&mut bytes[..], GetRandomFlags::empty()) != Ok(bytes.len()) {
        let device = File::open("/dev/urandom");
        let read = device.and_then(|mut device| device.read_exact(&mut bytes));
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    }
    Ok(u64::from_le_bytes(bytes) | 1)
}

/// The longest time to wait for the answers of other processes. A process that is stopped counts
/// with what it published last.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The counts of a NIC since it started. `lock` locks the directory of the fabric; `publish_own`
/// publishes the counts of the devices of this process.
///
/// # Errors
/// Errors of the directory.
///
/// Each device counts in its own memory. A reader asks the owners of the ports to publish their
/// counts; the engine thread of each process answers.
pub fn nic_counts(
    lock: impl Fn() -> Result<Directory, Errno>,
    nid: u32,
    publish_own: impl FnOnce(),
) -> Result<Totals, Errno> {
    let mut asked = Vec::new();
    for (_, file, _) in lock()?.ports(nid)? {
        let port = Port::map(&file)?;
        asked.push((port.request_counts(), port));
    }
    publish_own();
    let end = Instant::now() + LONGEST_WAIT;
    for (request, port) in asked {
        if port.are_counts_requested() {
            port.wake();
            port.await_counts(request, end);
        }
    }
    // The devices that were closed meanwhile are in the totals.
    let directory = lock()?;
    directory.sweep()?;
    let mut totals = directory.totals(nid)?;
    for (_, file, _) in directory.ports(nid)? {
        if let Some(counts) = port::read_counts(&file) {
            totals.add(&counts);
        }
    }
    Ok(totals)
}

impl Fabric {
    /// The resources in use by the LNIs of all processes that have this NIC open.
    pub fn uses(&self, directory: &Directory) -> Result<Vec<LniUse>, Errno> {
        let ports = directory.ports(self.nid)?;
        Ok(ports.iter().flat_map(|(_, file, _)| port::read_uses(file)).collect())
    }

    /// Claims `count` consecutive PIDs on `vnis` for this NIC, from `pid` on or the lowest free
    /// ones, and returns the first. With `pid`, they must be below the wildcard.
    ///
    /// # Errors
    /// EEXIST if a port of this NIC has one of them on one of these VNIs; ENOSPC if there are too
    /// few below 510 (libcxi.md 6), or if the NIC has domains on too many VNIs.
    pub fn claim(&mut self, vnis: VniRange, pid: Option<u16>, count: u16) -> Result<u16, Errno> {
        let directory = self.directory()?;
        let ports = directory.ports(self.nid)?;
        let in_use = || ports.iter().flat_map(|(_, _, header)| &header.endpoints);
        let mut rows: BTreeSet<VniRange> = in_use().map(|endpoints| endpoints.vnis).collect();
        rows.insert(vnis);
        if rows.len() > VNIS {
            return Err(Errno::NOSPC);
        }
        let overlapping: Vec<&Endpoints> =
            in_use().filter(|endpoints| endpoints.vnis.overlaps(vnis)).collect();
        let is_free =
            |pid: u16| !overlapping.iter().any(|port_endpoints| port_endpoints.contains(pid));
        let are_free = |first: u16| (first..first + count).all(is_free);
        let first = match pid {
            Some(pid) => Some(pid).filter(|&pid| are_free(pid)).ok_or(Errno::EXIST)?,
            // The wildcard never selects the highest PID.
            None => (0..C_PID_ANY as u16)
                .take_while(|first| first + count < C_PID_ANY as u16)
                .find(|&first| are_free(first))
                .ok_or(Errno::NOSPC)?,
        };
        if self.port.add_pids(vnis, first..first + count) { Ok(first) } else { Err(Errno::NOSPC) }
    }

    /// Releases a PID.
    pub fn unclaim(&mut self, vnis: VniRange, pid: u16) {
        self.port.remove_pid(vnis, pid);
    }
}
