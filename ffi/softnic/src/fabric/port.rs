//! The shared memory of one open NIC: a header and 64 lanes.
//!
//! A lane is a ring of cells for packets, with one writer, the NIC that claimed it, and one reader,
//! the owner of the port. A cell is published by its sequence number, stored last. So a writer that
//! dies in between leaves a cell that is not read, and that the next owner of the lane overwrites.
//!
//! All offsets are in bytes. Fields of the header that change often have separate cache lines.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::engine::packet::{Packet, SEGMENT, WIRE_FLAG};
use crate::pages::Pages;

/// "cxisoft" and the version of this layout. Ports of other versions are ignored.
const MAGIC: u64 = u64::from_le_bytes(*b"cxisoft\x06");

const MAGIC_AT: usize = 0;
const INSTANCE_AT: usize = 8;
const PARKED_AT: usize = 64;
const WAKER_AT: usize = 68;
const LANES_AT: usize = 128;
const ENDPOINTS_AT: usize = 192;
/// The resources that each LNI of the owner uses, by its number.
const USE_AT: usize = 4096;
const USE_LEN: usize = 32;
const HEADER_LEN: usize = USE_AT + LNIS * USE_LEN;

/// LNIs of one open NIC, by their numbers.
pub const LNIS: usize = 256;

/// Endpoints that one open NIC can claim.
pub const ENDPOINTS: usize = 64;

/// Lanes of a port, which is the number of NICs that can send to it.
pub const LANES: usize = 64;

/// Cells of a lane. With more cells, two processes that share a CPU take turns less often; with
/// fewer, payload stays in nearer caches.
pub const CELLS: u32 = 128;

const OWNER_AT: usize = 0;
const OWNER_NAME_AT: usize = 8;
const TAIL_AT: usize = 64;
/// The due time of each cell's packet, with a link model.
const DUE_AT: usize = 128;
/// The headers of the cells, one after the other, so that processors fetch the next ones ahead.
const HEADERS_AT: usize = DUE_AT + 8 * CELLS as usize;
const CELL_HEADER: usize = 64;
/// The payloads of the cells, from the start of a page.
const PAYLOADS_AT: usize = (HEADERS_AT + CELLS as usize * CELL_HEADER).next_multiple_of(4096);
/// A multiple of the page size, so that each lane is allocated separately.
const LANE_LEN: usize = PAYLOADS_AT + CELLS as usize * SEGMENT;
const PORT_LEN: usize = HEADER_LEN + LANES * LANE_LEN;

/// A bit of the first word of a cell: its packet has a due time.
pub const TIMED: u64 = WIRE_FLAG;

/// Marks an endpoint word as in use; below it are VNI and PID.
const CLAIMED: u64 = 1 << 32;

/// Returns an endpoint as a word of the table.
pub fn endpoint(vni: u16, pid: u16) -> u64 {
    CLAIMED | u64::from(vni) << 16 | u64::from(pid)
}

/// Returns VNI and PID of an endpoint in use.
pub fn parse_endpoint(word: u64) -> Option<(u16, u16)> {
    (word & CLAIMED != 0).then_some(((word >> 16) as u16, word as u16))
}

/// A copy of the header of a port.
pub struct Header {
    pub instance: u64,
    pub endpoints: Vec<u64>,
}

/// The resources in use by an LNI that services limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The service of the LNI; 0 for no LNI.
    pub service: u32,
    /// By `CXI_RSRC_TYPE_*`.
    pub counts: [u16; 8],
    /// Communication profiles.
    pub profiles: u16,
}

/// Returns the resources in use by the LNIs of a port. Unwritten bytes are no LNIs.
pub fn read_uses(file: &File) -> Vec<Use> {
    let mut bytes = [0; LNIS * USE_LEN];
    if file.read_exact_at(&mut bytes, USE_AT as u64).is_err() {
        return Vec::new();
    }
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let of_lni = |lni: usize| {
        let first = lni * USE_LEN / 8;
        let packed = u128::from(word(first + 1)) | u128::from(word(first + 2)) << 64;
        Use {
            service: word(first) as u32,
            counts: std::array::from_fn(|kind| (packed >> (16 * kind)) as u16),
            profiles: word(first + 3) as u16,
        }
    };
    (0..LNIS)
        .map(of_lni)
        .filter(|found| found.service != 0)
        .collect()
}

/// Whether this is the file of a port, of any version, complete or not: an incomplete file is
/// empty, or has no magic yet.
pub fn is_port(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let mut magic = [0; 8];
    let is_ready = file.read_exact_at(&mut magic, MAGIC_AT as u64).is_ok();
    let is_ours = magic[..7] == MAGIC.to_le_bytes()[..7] || magic == [0; 8];
    metadata.is_file() && (metadata.len() == 0 || is_ready && is_ours)
}

/// Reads the header of a port; `None` if the file is not a port, is incomplete, or has another
/// version.
pub fn read_header(file: &File) -> Option<Header> {
    if file.metadata().ok()?.len() != PORT_LEN as u64 {
        return None;
    }
    let mut bytes = [0; ENDPOINTS_AT + 8 * ENDPOINTS];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at / 8]);
    (word(MAGIC_AT) == MAGIC).then(|| Header {
        instance: word(INSTANCE_AT),
        endpoints: (0..ENDPOINTS)
            .map(|index| word(ENDPOINTS_AT + 8 * index))
            .collect(),
    })
}

/// A port mapped into this process.
pub struct Port {
    pages: Pages,
}

impl Port {
    /// Gives a new file its size and a header, for which memory is allocated.
    pub fn create(file: &File, instance: u64) -> Result<Self, Errno> {
        rustix::fs::ftruncate(file, PORT_LEN as u64)?;
        allocate(file, 0, HEADER_LEN)?;
        let port = Self::map(file)?;
        port.pages
            .word(INSTANCE_AT)
            .store(instance, Ordering::Relaxed);
        port.pages.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(port)
    }

    /// Maps a port of full length, whose header has been read.
    pub fn map(file: &File) -> Result<Self, Errno> {
        Ok(Self {
            pages: Pages::shared(file, PORT_LEN)?,
        })
    }

    /// Returns the word that is 1 while the engine thread of the owner sleeps.
    pub fn parked(&self) -> &AtomicU32 {
        self.pages.word32(PARKED_AT)
    }

    /// Returns the word with the CPU of the last sender that woke the engine thread, plus 1; 0 if
    /// none did.
    pub fn waker(&self) -> &AtomicU32 {
        self.pages.word32(WAKER_AT)
    }

    /// Publishes the resources in use by an LNI.
    pub fn set_use(&self, lni: usize, used: Use) {
        assert!(lni < LNIS);
        let packed = (used.counts.iter().enumerate()).fold(0u128, |sum, (kind, &count)| {
            sum | u128::from(count) << (16 * kind)
        });
        let words = [
            u64::from(used.service),
            packed as u64,
            (packed >> 64) as u64,
            u64::from(used.profiles),
        ];
        for (index, word) in words.into_iter().enumerate() {
            let at = USE_AT + lni * USE_LEN + 8 * index;
            self.pages.word(at).store(word, Ordering::Release);
        }
    }

    /// Returns the lanes that were ever claimed, one bit each. The lowest free lane is claimed
    /// first, so there are no more than NICs that sent to this one at the same time.
    pub fn lanes(&self) -> &AtomicU64 {
        self.pages.word(LANES_AT)
    }

    /// Returns an entry of the endpoint table.
    pub fn endpoint(&self, index: usize) -> &AtomicU64 {
        assert!(index < ENDPOINTS);
        self.pages.word(ENDPOINTS_AT + 8 * index)
    }

    /// Returns the instance of the NIC that owns a lane; 0 is none.
    pub fn owner(&self, lane: usize) -> &AtomicU64 {
        self.pages.word(lane_at(lane) + OWNER_AT)
    }

    /// Returns NID and slot of the NIC that owns a lane.
    pub fn owner_name(&self, lane: usize) -> (u32, u32) {
        let name = self
            .pages
            .word(lane_at(lane) + OWNER_NAME_AT)
            .load(Ordering::Acquire);
        ((name >> 32) as u32, name as u32)
    }

    /// Returns the number of cells that the reader has released.
    pub fn tail(&self, lane: usize) -> &AtomicU32 {
        self.pages.word32(lane_at(lane) + TAIL_AT)
    }

    /// Returns a word of the header of a cell. The lower half of the first word is the sequence
    /// number: one more than the position of the packet, counted from the first packet of the lane.
    #[inline]
    pub fn cell_word(&self, lane: usize, position: u32, word: usize) -> &AtomicU64 {
        let at = lane_at(lane) + HEADERS_AT + cell(position) * CELL_HEADER;
        self.pages.word(at + 8 * word)
    }

    /// Returns the first word of a cell, if it has the packet with this position.
    #[inline]
    pub fn first_word(&self, lane: usize, position: u32) -> Option<u64> {
        let first = self.cell_word(lane, position, 0).load(Ordering::Acquire);
        (first as u32 == position.wrapping_add(1)).then_some(first)
    }

    /// Reads the packet in a cell with this first word; false if no NIC of this version can have
    /// written it.
    #[inline]
    pub fn read(&self, lane: usize, position: u32, first: u64, packet: &mut Packet) -> bool {
        packet.decode(first, |index| {
            self.cell_word(lane, position, index)
                .load(Ordering::Relaxed)
        })
    }

    /// Returns when the packet in a cell with this first word is due, in nanoseconds of the
    /// monotonic clock; 0 without a due time.
    #[inline]
    pub fn due(&self, lane: usize, position: u32, first: u64) -> u64 {
        match first & TIMED {
            0 => 0,
            _ => self.cell_due(lane, position).load(Ordering::Relaxed),
        }
    }

    /// Returns the word of the due time of a cell.
    #[inline]
    pub fn cell_due(&self, lane: usize, position: u32) -> &AtomicU64 {
        let at = lane_at(lane) + DUE_AT + 8 * cell(position);
        self.pages.word(at)
    }

    /// Returns the address of the payload of a cell.
    #[inline]
    pub fn cell_payload(&self, lane: usize, position: u32) -> *mut u8 {
        let at = lane_at(lane) + PAYLOADS_AT + cell(position) * SEGMENT;
        self.pages.at(at, SEGMENT)
    }

    /// Claims a lane of this port, whose file is `file`, for a NIC. The directory must be locked,
    /// and the lane free or its owner dead. Returns the position of the next packet.
    pub fn claim(
        &self,
        file: &File,
        lane: usize,
        instance: u64,
        nid: u32,
        slot: u32,
    ) -> Result<u32, Errno> {
        allocate(file, lane_at(lane), LANE_LEN)?;
        let name = u64::from(nid) << 32 | u64::from(slot);
        self.pages
            .word(lane_at(lane) + OWNER_NAME_AT)
            .store(name, Ordering::Release);
        self.owner(lane).store(instance, Ordering::Release);
        // Packets that an earlier owner published are still unread: continue behind them.
        let mut position = self.tail(lane).load(Ordering::Acquire);
        while self.cell_word(lane, position, 0).load(Ordering::Acquire) as u32
            == position.wrapping_add(1)
        {
            position = position.wrapping_add(1);
        }
        self.lanes().fetch_or(1 << lane, Ordering::AcqRel);
        Ok(position)
    }
}

fn lane_at(lane: usize) -> usize {
    assert!(lane < LANES);
    HEADER_LEN + lane * LANE_LEN
}

/// Returns the index of the cell for a position.
fn cell(position: u32) -> usize {
    (position % CELLS) as usize
}

/// Allocates the space of a range. So a full file system is an error here, not a fatal signal at
/// the first store to the mapping.
fn allocate(file: impl AsFd, offset: usize, len: usize) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, len as u64) {
        // The file system does not support allocation.
        Err(Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}
