//! The shared memory of one open NIC: a header and 64 lanes.
//!
//! A lane is a ring of packet cells with one writer, the NIC that claimed it, and one reader, the
//! owner of the port. A cell is published by its sequence number, stored last; so a writer that
//! dies half-way leaves a cell that nobody reads and the next owner of the lane writes over.
//!
//! All offsets are in bytes; every field of the header has a cache line of its own, or
//! shares it with others that hardly change.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::engine::packet::{MTU, OF_THE_WIRE};
use crate::pages::Pages;

/// "cxisoft" and the version of this layout. Ports of other versions are left alone.
const MAGIC: u64 = u64::from_le_bytes(*b"cxisoft\x05");

const MAGIC_AT: usize = 0;
const INSTANCE_AT: usize = 8;
const PARKED_AT: usize = 64;
const LANES_AT: usize = 128;
const ENDPOINTS_AT: usize = 192;
/// What each LNI of the owner uses, by its number.
const USE_AT: usize = 4096;
const USE_LEN: usize = 32;
const HEADER_LEN: usize = USE_AT + LNIS * USE_LEN;

/// LNIs that one open NIC can have, by their numbers.
pub const LNIS: usize = 256;

/// Endpoints that one open NIC can claim.
pub const ENDPOINTS: usize = 64;

/// Lanes of a port: NICs that can send to it.
pub const LANES: usize = 64;

/// Cells of a lane.
pub const CELLS: u32 = 64;

const OWNER_AT: usize = 0;
const OWNER_NAME_AT: usize = 8;
const TAIL_AT: usize = 64;
/// When the packet of each cell is due, if the link has a model.
const DUE_AT: usize = 128;
const CELLS_AT: usize = DUE_AT + 8 * CELLS as usize;
const CELL_HEADER: usize = 64;
const CELL_LEN: usize = CELL_HEADER + MTU;
/// A whole number of pages, so that a lane is allocated alone.
const LANE_LEN: usize = (CELLS_AT + CELLS as usize * CELL_LEN).next_multiple_of(4096);
const PORT_LEN: usize = HEADER_LEN + LANES * LANE_LEN;

/// In the first word of a cell: its packet is not to be delivered before its time.
pub const TIMED: u64 = OF_THE_WIRE;

/// Says that an endpoint word is in use; below it VNI and PID.
const CLAIMED: u64 = 1 << 32;

/// An endpoint as the table holds it.
pub fn endpoint(vni: u16, pid: u16) -> u64 {
    CLAIMED | u64::from(vni) << 16 | u64::from(pid)
}

/// VNI and PID of an endpoint in use.
pub fn parse_endpoint(word: u64) -> Option<(u16, u16)> {
    (word & CLAIMED != 0).then_some(((word >> 16) as u16, word as u16))
}

/// The header of somebody's port at one moment.
pub struct Header {
    pub instance: u64,
    pub endpoints: Vec<u64>,
}

/// What an LNI uses of the resources that services limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Its service; 0 where there is no LNI.
    pub service: u32,
    /// By `CXI_RSRC_TYPE_*`.
    pub counts: [u16; 8],
    /// Communication profiles.
    pub profiles: u16,
}

/// What the LNIs of a port use. Bytes that nobody has written say that there are none.
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

/// Whether this is the file of a port, of any version, or of one whose owner died before it was
/// ready: that file is still empty, or has no magic yet.
pub fn is_port(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let mut magic = [0; 8];
    let is_ready = file.read_exact_at(&mut magic, MAGIC_AT as u64).is_ok();
    let is_ours = magic[..7] == MAGIC.to_le_bytes()[..7] || magic == [0; 8];
    metadata.is_file() && (metadata.len() == 0 || is_ready && is_ours)
}

/// Reads the header of a port; `None` if it is not one, or not ready, or of another version.
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

/// A port mapped into this process, one's own or another's.
pub struct Port {
    pages: Pages,
}

impl Port {
    /// Gives a new file its size, and its header in memory that is really there.
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

    /// Maps a port whose header has been read, and is therefore of full length.
    pub fn map(file: &File) -> Result<Self, Errno> {
        Ok(Self {
            pages: Pages::shared(file, PORT_LEN)?,
        })
    }

    /// 1 while the owner's engine sleeps and wants to be woken.
    pub fn parked(&self) -> &AtomicU32 {
        self.pages.word32(PARKED_AT)
    }

    /// Says what an LNI uses.
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

    /// Lanes that were ever claimed, one bit each. Their number is that of the most NICs that
    /// sent to this one at the same time, since the lowest free lane is taken first.
    pub fn lanes(&self) -> &AtomicU64 {
        self.pages.word(LANES_AT)
    }

    /// An entry of the endpoint table.
    pub fn endpoint(&self, index: usize) -> &AtomicU64 {
        assert!(index < ENDPOINTS);
        self.pages.word(ENDPOINTS_AT + 8 * index)
    }

    /// Instance of the NIC that owns a lane; 0 is none.
    pub fn owner(&self, lane: usize) -> &AtomicU64 {
        self.pages.word(lane_at(lane) + OWNER_AT)
    }

    /// NID and slot of the NIC that owns a lane.
    pub fn owner_name(&self, lane: usize) -> (u32, u32) {
        let name = self
            .pages
            .word(lane_at(lane) + OWNER_NAME_AT)
            .load(Ordering::Acquire);
        ((name >> 32) as u32, name as u32)
    }

    /// Number of cells that the reader has given back.
    pub fn tail(&self, lane: usize) -> &AtomicU32 {
        self.pages.word32(lane_at(lane) + TAIL_AT)
    }

    /// A word of the header of a cell. The first has the sequence number in its lower half:
    /// one more than the position of the packet in the lane's history.
    #[inline]
    pub fn cell_word(&self, lane: usize, position: u32, word: usize) -> &AtomicU64 {
        self.pages.word(cell_at(lane, position) + 8 * word)
    }

    /// The first word of a cell, if the packet of that position in the lane's history is in it.
    #[inline]
    pub fn first_word(&self, lane: usize, position: u32) -> Option<u64> {
        let first = self.cell_word(lane, position, 0).load(Ordering::Acquire);
        (first as u32 == position.wrapping_add(1)).then_some(first)
    }

    /// The header in a cell with this first word.
    #[inline]
    pub fn header(&self, lane: usize, position: u32, first: u64) -> [u64; 8] {
        let word = |index| {
            self.cell_word(lane, position, index)
                .load(Ordering::Relaxed)
        };
        [
            first,
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
            word(7),
        ]
    }

    /// When the packet in a cell with this first word is due, in nanoseconds of the monotonic clock: at once, unless
    /// its sender says otherwise.
    #[inline]
    pub fn due(&self, lane: usize, position: u32, first: u64) -> u64 {
        match first & TIMED {
            0 => 0,
            _ => self.cell_due(lane, position).load(Ordering::Relaxed),
        }
    }

    /// Where the sender says so.
    #[inline]
    pub fn cell_due(&self, lane: usize, position: u32) -> &AtomicU64 {
        let at = lane_at(lane) + DUE_AT + 8 * (position % CELLS) as usize;
        self.pages.word(at)
    }

    /// The payload of a cell.
    #[inline]
    pub fn cell_payload(&self, lane: usize, position: u32) -> *mut u8 {
        self.pages.at(cell_at(lane, position) + CELL_HEADER, MTU)
    }

    /// Makes a lane of this port, whose file is `file`, one's own. The directory must be locked,
    /// and the lane free or its owner dead. Answers the position of the next packet.
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
        // What an earlier owner published is still to be read; go on behind it.
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

fn cell_at(lane: usize, position: u32) -> usize {
    lane_at(lane) + CELLS_AT + (position % CELLS) as usize * CELL_LEN
}

/// Reserves the space of a range. A full file system is an errno here, and would be a fatal
/// signal at the first store to the mapping.
fn allocate(file: impl AsFd, offset: usize, len: usize) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, len as u64) {
        // A file system that cannot reserve. Nothing to be done about it.
        Err(Errno::OPNOTSUPP) => Ok(()),
        result => result,
    }
}
