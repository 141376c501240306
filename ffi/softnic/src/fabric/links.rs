//! The links between switches, whose state all NICs of a fabric share: the file `links`.
//!
//! The first device that is opened makes the file, and the last one removes it. All devices of a
//! fabric have the same topology.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

use cxi_sys::C_RC_UNDELIVERABLE;
use rustix::io::Errno;
use topology::Topology;

use super::directory::Directory;
use super::link_time::now;
use super::place::FabricDirectory;
use super::port::allocate;
use crate::engine::wire::{Packet, PacketKind};
use crate::environment;
use crate::network::{Cells, Count, Network, Parcel};
use crate::pages::Pages;
use crate::random::Random;

/// "cxilink" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"cxilink\x01");

// Words of the file: the magic, the fingerprint of the topology, when the fabric was made in
// nanoseconds of the monotonic clock, and the length of the name of the topology, which follows.
const FINGERPRINT: usize = 1;
const MADE: usize = 2;
const NAME_LENGTH: usize = 3;
const NAME_AT: usize = 32;

/// Where the words of the links begin, in bytes.
const CELLS_AT: usize = 4096;

/// Words in memory that all NICs map.
pub struct SharedCells(Pages);

impl Cells for SharedCells {
    fn word(&self, index: usize) -> &AtomicU64 {
        self.0.word(CELLS_AT + 8 * index)
    }
}

/// The links, as one open device sees them.
pub struct Links {
    network: Network<SharedCells>,
    /// When the fabric was made, in nanoseconds.
    made: u64,
    /// The addresses of the NICs.
    addresses: Vec<u32>,
}

/// The head of the file.
struct Head {
    fingerprint: u64,
    made: u64,
    name: String,
}

impl Links {
    /// Opens the links of the fabric for the NIC with the number `own`; `None` for a fabric without
    /// topology.
    ///
    /// # Errors
    /// EINVAL if the open devices of the fabric have another topology; errors of the directory.
    pub fn open(
        directory: &Directory,
        topology: Option<&Topology>,
        own: u32,
        random: Random,
    ) -> Result<Option<Self>, Errno> {
        if conflict(directory, topology)?.is_some() {
            return Err(Errno::INVAL);
        }
        let found = directory.links();
        if found.is_some() && !directory.has_ports()? {
            // Left by processes that were killed.
            directory.remove_links()?;
        }
        let Some(topology) = topology else {
            return Ok(None);
        };
        let file = match directory.links() {
            Some(file) => file,
            None => make(directory, topology)?,
        };
        let head = read_head(&file).ok_or(Errno::IO)?;
        let cells = SharedCells(Pages::shared(&file, length(topology))?);
        let numbers = 0..topology.nics.len();
        Ok(Some(Self {
            network: Network::new(topology, cells, own as usize, random),
            made: head.made,
            addresses: numbers.filter_map(|nic| topology.address(nic)).collect(),
        }))
    }

    /// Sends a packet at the time `now` to the NIC with the address `to`: may mark it, or set its
    /// return code if no path is up. Returns when it arrives, in nanoseconds of the monotonic
    /// clock.
    pub fn send(&mut self, packet: &mut Packet, to: u32, now: u64) -> u64 {
        let is_answer = matches!(packet.kind, PacketKind::Response | PacketKind::Reply);
        let parcel = Parcel {
            class: packet.class.into(),
            payload: packet.length.into(),
            is_ordered: !packet.restricted && !is_answer,
        };
        let place = self.addresses.iter().position(|address| *address == to);
        let age = now.saturating_sub(self.made);
        let passage = place.and_then(|place| self.network.send(place, &parcel, age));
        let Some(passage) = passage else {
            packet.return_code = C_RC_UNDELIVERABLE as u8;
            return now;
        };
        packet.is_marked |= passage.is_marked;
        self.made + passage.due
    }

    /// Counts how long a packet to the NIC with the address `to` is under way in the model, in
    /// nanoseconds, if it is the last one of a message.
    pub fn note_delay(&self, packet: &Packet, to: u32, delay: u64) {
        let answered = match packet.kind {
            PacketKind::Response => Some(to),
            PacketKind::Reply if is_last(packet) => Some(to),
            PacketKind::Get | PacketKind::Atomic => None,
            PacketKind::Put if is_last(packet) => None,
            PacketKind::Reply | PacketKind::Put | PacketKind::Rendezvous | PacketKind::Abort => {
                return;
            }
        };
        let Some(address) = answered else {
            return self.network.note_delay(None, delay);
        };
        let place = self.addresses.iter().position(|known| *known == address);
        if place.is_some() {
            self.network.note_delay(place, delay);
        }
    }
}

/// Whether a packet is the last one of its message.
fn is_last(packet: &Packet) -> bool {
    u64::from(packet.offset) + u64::from(packet.length) == u64::from(packet.total)
}

/// Makes the file, all of whose clocks are 0.
fn make(directory: &Directory, topology: &Topology) -> Result<File, Errno> {
    let file = directory.create_links()?;
    let name = topology.name.as_bytes();
    let name = &name[..name.len().min(CELLS_AT - NAME_AT)];
    let words = [MAGIC, topology.fingerprint(), now(), name.len() as u64];
    let head: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let written = rustix::fs::ftruncate(&file, length(topology) as u64)
        .and_then(|()| allocate(&file, 0, length(topology)))
        .and_then(|()| {
            let written = file.write_all_at(&[&head, name].concat(), 0);
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
    if let Err(error) = written {
        let _ = directory.remove_links();
        return Err(error);
    }
    Ok(file)
}

fn length(topology: &Topology) -> usize {
    let words = Network::layout(topology).words();
    (CELLS_AT + 8 * words).next_multiple_of(4096)
}

/// Reads the head of the file; `None` if it is not one of this version.
fn read_head(file: &File) -> Option<Head> {
    let mut bytes = [0; CELLS_AT];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |place: usize| u64::from_le_bytes(words[place]);
    let name = bytes[NAME_AT..].get(..word(NAME_LENGTH) as usize)?;
    // A directory that outlives a reboot has the time of another clock.
    (word(0) == MAGIC && word(MADE) <= now()).then(|| Head {
        fingerprint: word(FINGERPRINT),
        made: word(MADE),
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// A message if the open devices of the fabric have another topology than this one.
fn conflict(directory: &Directory, own: Option<&Topology>) -> Result<Option<String>, Errno> {
    let found = directory.links();
    if own.is_none() && found.is_none() || !directory.has_ports()? {
        return Ok(None);
    }
    let head = found.as_ref().and_then(read_head);
    let fingerprint = |head: &Head| head.fingerprint;
    if head.as_ref().map(fingerprint) == own.map(Topology::fingerprint) {
        return Ok(None);
    }
    let other = head.map_or("no topology".into(), |head| format!("the topology {}", head.name));
    let name = own.map_or("", |own| &own.name);
    Ok(Some(format!(
        "{}={name}: the open NICs of this fabric have {other}; expected the same, or another \
         directory in CXIDIAG_FABRIC_DIR",
        topology::VARIABLE
    )))
}

/// Checks that open devices of the fabric have the topology of this process.
///
/// # Errors
/// One line that names both.
pub fn check() -> Result<(), String> {
    let own = environment::topology()?;
    let directory =
        FabricDirectory::from_environment().and_then(|place| Directory::lock_existing(&place));
    // Without a directory, or if it cannot be used, opening a device says so.
    let found = directory.and_then(|directory| conflict(&directory, own.as_ref()));
    found.ok().flatten().map_or(Ok(()), Err)
}

/// The counts of the links of the NIC with this address; `None` for a fabric without topology.
pub fn nic_counts(directory: &Directory, nid: u32) -> Option<NicLinkCounts> {
    let topology = environment::topology().ok().flatten()?;
    let file = directory.links()?;
    read_head(&file).filter(|head| head.fingerprint == topology.fingerprint())?;
    let layout = Network::layout(&topology);
    let number = (0..topology.nics.len()).find(|nic| topology.address(*nic) == Some(nid))?;
    let [transmit, receive] = [0, 1].map(|side| 2 * number + side);
    let count = |link: usize, count: Count| {
        let mut bytes = [0; 8];
        let at = CELLS_AT + 8 * layout.count(link, count);
        file.read_exact_at(&mut bytes, at as u64).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    Some(NicLinkCounts {
        sent_again: count(transmit, Count::Losses)?,
        received_again: count(receive, Count::Losses)?,
        blocked: count(transmit, Count::Blocked)?,
        filled: count(transmit, Count::Filled)?,
        delay: LinksDelay {
            messages: count(transmit, Count::Messages)?,
            total: count(transmit, Count::Delay)?,
            answers: count(receive, Count::Messages)?,
            answers_total: count(receive, Count::Delay)?,
        },
    })
}

/// The counts of the links of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicLinkCounts {
    /// Packets that were sent again on the links from and to the NIC.
    pub sent_again: u64,
    pub received_again: u64,
    /// Nanoseconds for which queues blocked its transmitting side.
    pub blocked: u64,
    /// Nanoseconds that its packets with data took on the slowest link of their way.
    pub filled: u64,
    pub delay: LinksDelay,
}

/// How long messages of a NIC and the answers to them were under way in the model of the fabric,
/// since the fabric was made. The times of processes without a CPU are not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinksDelay {
    /// Puts, atomic operations and requests of gets that it sent.
    pub messages: u64,
    /// Nanoseconds from the sending of their last packets to the arrival, together.
    pub total: u64,
    /// Acknowledgements and data of gets that were sent to it.
    pub answers: u64,
    /// Nanoseconds for which they were under way, together.
    pub answers_total: u64,
}
