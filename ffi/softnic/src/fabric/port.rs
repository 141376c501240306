//! The shared memory of one open NIC: a header and 64 lanes.
//!
//! A lane is a ring of cells for packets, with one writer, the NIC that claimed it, and one reader,
//! the owner of the port. A cell is published by its sequence number, stored last. So a writer that
//! dies in between leaves a cell that is not read, and that the next owner of the lane overwrites.
//!
//! All offsets are in bytes. Fields of the header that change often have separate cache lines.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use cxi_sys::C_PID_ANY;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};
use rustix::thread::{gettid, sched_getcpu};

use crate::counter_names::COUNT;
use crate::engine::triggers::POOLS;
use crate::engine::wire::{Packet, SEGMENT, WIRE_FLAG};
use crate::engine::{ELEMENTS, LNIS, PROFILES, Profile, VniRange};
use crate::pages::Pages;

/// "cxisoft" and the version of this layout. Ports of other versions are ignored.
const MAGIC: u64 = u64::from_le_bytes(*b"cxisoft\x0c");

const MAGIC_AT: usize = 0;
const INSTANCE_AT: usize = 8;
const PARKED_AT: usize = 64;
const WAKER_AT: usize = 68;
const RINGER_AT: usize = 72;
const LANES_AT: usize = 128;
/// One more than the highest number that an LNI of the owner has had.
const USES_AT: usize = 136;
/// The triggered operations that the owner has in use, by pool.
const TRIGGERED_AT: usize = 144;
/// The VNIs on which the owner has PIDs, and below a bit for each PID.
const VNIS_AT: usize = 192;
const PIDS_AT: usize = 4096;
/// The resources that each LNI of the owner uses, by its number.
const USE_AT: usize = PIDS_AT + VNIS * 8 * PID_WORDS;
const USE_LEN: usize = 8 * USE_WORDS;
/// Words of an LNI: its service and RGID, two for the counts, one for the list entries, and a half
/// for each profile.
const USE_WORDS: usize = 4 + PROFILES / 2;
/// The counts of the owner (`counts`): two words of 32 bits, and the counts.
const COUNTS_AT: usize = USE_AT + LNIS * USE_LEN;
const COUNTS_LEN: usize = 8 + 8 * COUNT;
const HEADER_LEN: usize = (COUNTS_AT + COUNTS_LEN).next_multiple_of(4096);

/// VNIs, or ranges of VNIs, on which a NIC can have PIDs: the size of a table of its receive unit
/// (libcxi.md 6).
pub const VNIS: usize = 256;

/// Words with a bit for each PID, and for the wildcard, which is never claimed.
const PID_WORDS: usize = (C_PID_ANY as usize + 1) / 64;

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

/// Marks a word of the VNI table as in use; below it are the first and the last VNI.
const CLAIMED: u64 = 1 << 32;

fn vni_word(vnis: VniRange) -> u64 {
    let (first, last) = vnis.bounds();
    CLAIMED | u64::from(first) << 16 | u64::from(last)
}

fn parse_vni_word(word: u64) -> Option<VniRange> {
    let used = word & CLAIMED != 0;
    VniRange::new((word >> 16) as u16, word as u16).filter(|_| used)
}

/// The PIDs of a port on some VNIs.
pub struct Endpoints {
    /// Its place in the table of VNIs.
    pub row: usize,
    pub vnis: VniRange,
    pids: [u64; PID_WORDS],
}

impl Endpoints {
    /// Whether a PID is in use.
    pub fn contains(&self, pid: u16) -> bool {
        let word = self.pids.get(usize::from(pid) / 64);
        word.is_some_and(|word| word & pid_bit(pid) != 0)
    }
}

fn pid_bit(pid: u16) -> u64 {
    1 << (pid % 64)
}

/// A copy of the header of a port.
pub struct PortHeader {
    pub instance: u64,
    pub endpoints: Vec<Endpoints>,
}

/// The resources in use by an LNI that services limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LniUse {
    /// The service of the LNI; 0 for no LNI.
    pub service: u32,
    /// The RGID of the LNI.
    pub rgid: u16,
    /// By `CXI_RSRC_TYPE_*`; 0 for list entries.
    pub counts: [u16; 8],
    /// The list entries of each processing element.
    pub entries: [u16; ELEMENTS],
    /// Communication profiles, by LCID.
    pub profiles: [Option<Profile>; PROFILES],
}

/// Marks a profile of an LNI that exists; below it are its type, its class and its VNI.
const HELD: u32 = 1 << 31;

fn profile_bits(profile: Option<Profile>) -> u32 {
    profile
        .map_or(0, |Profile { vni, tc, tc_type }| HELD | tc_type << 24 | tc << 16 | u32::from(vni))
}

fn parse_profile_bits(bits: u32) -> Option<Profile> {
    (bits & HELD != 0).then_some(Profile {
        vni: bits as u16,
        tc: bits >> 16 & 0xff,
        tc_type: bits >> 24 & 0x7f,
    })
}

/// The resources in use by the LNIs of a port. Unwritten bytes are no LNIs.
pub fn read_uses(file: &File) -> Vec<LniUse> {
    let read = |at: usize, bytes: &mut [u8]| file.read_exact_at(bytes, at as u64).is_ok();
    let mut count = [0; 8];
    if !read(USES_AT, &mut count) {
        return Vec::new();
    }
    let lnis = usize::try_from(u64::from_le_bytes(count)).map_or(LNIS, |count| count.min(LNIS));
    let mut bytes = vec![0; lnis * USE_LEN];
    if !read(USE_AT, &mut bytes) {
        return Vec::new();
    }
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let lni_use = |lni: usize| {
        let first = lni * USE_WORDS;
        let packed = u128::from(word(first + 1)) | u128::from(word(first + 2)) << 64;
        LniUse {
            service: word(first) as u32,
            rgid: (word(first) >> 32) as u16,
            counts: std::array::from_fn(|kind| (packed >> (16 * kind)) as u16),
            entries: std::array::from_fn(|element| (word(first + 3) >> (16 * element)) as u16),
            profiles: std::array::from_fn(|lcid| {
                let pair = word(first + 4 + lcid / 2);
                parse_profile_bits((pair >> (32 * (lcid % 2))) as u32)
            }),
        }
    };
    (0..lnis).map(lni_use).filter(|found| found.service != 0).collect()
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
pub fn read_header(file: &File) -> Option<PortHeader> {
    if file.metadata().ok()?.len() != PORT_LEN as u64 {
        return None;
    }
    let mut bytes = [0; PIDS_AT];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at / 8]);
    let endpoints = |row| {
        let vnis = parse_vni_word(word(VNIS_AT + 8 * row))?;
        let mut bytes = [0; 8 * PID_WORDS];
        file.read_exact_at(&mut bytes, pids_at(row) as u64).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let pids = std::array::from_fn(|index| u64::from_le_bytes(words[index]));
        Some(Endpoints { row, vnis, pids })
    };
    (word(MAGIC_AT) == MAGIC).then(|| PortHeader {
        instance: word(INSTANCE_AT),
        endpoints: (0..VNIS).filter_map(endpoints).collect(),
    })
}

/// A port mapped into this process.
pub struct Port {
    pages: Pages,
    /// Whether the RGIDs of its LNIs have changed.
    groups_changed: AtomicBool,
}

impl Port {
    /// Gives a new file its size and a header, for which memory is allocated.
    pub fn create(file: &File, instance: u64) -> Result<Self, Errno> {
        rustix::fs::ftruncate(file, PORT_LEN as u64)?;
        allocate(file, 0, HEADER_LEN)?;
        let port = Self::map(file)?;
        port.pages.word(INSTANCE_AT).store(instance, Ordering::Relaxed);
        port.pages.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(port)
    }

    /// Maps a port of full length, whose header has been read.
    pub fn map(file: &File) -> Result<Self, Errno> {
        Ok(Self { pages: Pages::shared(file, PORT_LEN)?, groups_changed: AtomicBool::new(false) })
    }

    /// The word that is 1 while the engine thread of the owner sleeps.
    pub fn parked(&self) -> &AtomicU32 {
        self.pages.word32(PARKED_AT)
    }

    /// The word with the CPU of the last sender that woke the engine thread, plus 1; 0 if none did.
    pub fn waker(&self) -> &AtomicU32 {
        self.pages.word32(WAKER_AT)
    }

    /// The word with the thread that last rang a doorbell that traps, and below it its CPU, plus 1;
    /// 0 if none did.
    pub fn ringer(&self) -> &AtomicU64 {
        self.pages.word(RINGER_AT)
    }

    /// Stores that the calling thread rings a doorbell.
    pub fn set_ringer(&self) {
        thread_local! {
            static THREAD: u64 = u64::from(gettid().as_raw_nonzero().get() as u32) << 32;
        }
        let cpu = sched_getcpu() as u64 + 1;
        let word = THREAD.try_with(|thread| thread | cpu).unwrap_or_default();
        self.ringer().store(word, Ordering::Relaxed);
    }

    /// Whether the threads that last rang doorbells of this port and of another one are two threads
    /// on one CPU.
    #[inline]
    pub fn shares_cpu_with(&self, other: &Self) -> bool {
        let [own, other] = [self, other].map(|port| port.ringer().load(Ordering::Relaxed));
        own != other && own as u32 == other as u32
    }

    /// Wakes the engine thread of the owner, if it sleeps.
    #[inline]
    pub fn wake(&self) {
        if self.parked().load(Ordering::Relaxed) != 0 {
            self.parked().store(0, Ordering::Relaxed);
            let cpu = sched_getcpu() as u32 + 1;
            self.waker().store(cpu, Ordering::Relaxed);
            let _ = futex::wake(self.parked(), futex::Flags::empty(), u32::MAX);
        }
    }

    /// Publishes the resources in use by an LNI.
    pub fn set_use(&self, lni: usize, used: LniUse) {
        assert!(lni < LNIS);
        let packed = (used.counts.iter().enumerate())
            .fold(0u128, |sum, (kind, &count)| sum | u128::from(count) << (16 * kind));
        let entries = (used.entries.iter().enumerate())
            .fold(0u64, |sum, (element, &count)| sum | u64::from(count) << (16 * element));
        let counts = [
            u64::from(used.rgid) << 32 | u64::from(used.service),
            packed as u64,
            (packed >> 64) as u64,
            entries,
        ];
        let (pairs, _) = used.profiles.as_chunks::<2>();
        let profiles = pairs
            .iter()
            .map(|pair| u64::from(profile_bits(pair[1])) << 32 | u64::from(profile_bits(pair[0])));
        let owner = self.pages.word(USE_AT + lni * USE_LEN);
        if owner.load(Ordering::Relaxed) != counts[0] {
            self.groups_changed.store(true, Ordering::Relaxed);
        }
        for (index, word) in counts.into_iter().chain(profiles).enumerate() {
            let at = USE_AT + lni * USE_LEN + 8 * index;
            self.pages.word(at).store(word, Ordering::Release);
        }
        let count = self.pages.word(USES_AT);
        count.fetch_max(lni as u64 + 1, Ordering::Release);
    }

    /// The word with the triggered operations of a pool that the owner has in use.
    #[inline]
    pub fn triggered(&self, pool: usize) -> &AtomicU64 {
        assert!(pool < POOLS);
        self.pages.word(TRIGGERED_AT + 8 * pool)
    }

    /// Whether the RGIDs of the LNIs of this port have changed since the last call.
    #[inline]
    pub fn take_groups_changed(&self) -> bool {
        self.groups_changed.load(Ordering::Relaxed)
            && self.groups_changed.swap(false, Ordering::Relaxed)
    }

    /// The lanes that were ever claimed, one bit each. The lowest free lane is claimed first, so
    /// there are no more than NICs that sent to this one at the same time.
    pub fn lanes(&self) -> &AtomicU64 {
        self.pages.word(LANES_AT)
    }

    /// Whether a row of the table of VNIs has these VNIs and this PID.
    #[inline]
    pub fn serves(&self, row: usize, vnis: VniRange, pid: u16) -> bool {
        let pids = self.pids(row, pid).load(Ordering::Relaxed);
        pids & pid_bit(pid) != 0 && self.vni(row).load(Ordering::Relaxed) == vni_word(vnis)
    }

    /// Adds PIDs on some VNIs; false if there is no room for further VNIs. The directory must be
    /// locked.
    pub fn add_pids(&self, vnis: VniRange, pids: Range<u16>) -> bool {
        let row = self.row_of(vni_word(vnis)).or_else(|| self.row_of(0));
        let Some(row) = row else {
            return false;
        };
        for pid in pids {
            self.pids(row, pid).fetch_or(pid_bit(pid), Ordering::Relaxed);
        }
        self.vni(row).store(vni_word(vnis), Ordering::Release);
        true
    }

    /// Removes a PID.
    pub fn remove_pid(&self, vnis: VniRange, pid: u16) {
        let Some(row) = self.row_of(vni_word(vnis)) else {
            return;
        };
        self.pids(row, pid).fetch_and(!pid_bit(pid), Ordering::Relaxed);
        let mut words = (0..PID_WORDS).map(|word| self.pages.word(pids_at(row) + 8 * word));
        if words.all(|word| word.load(Ordering::Relaxed) == 0) {
            self.vni(row).store(0, Ordering::Release);
        }
    }

    /// Removes all PIDs.
    pub fn remove_pids(&self) {
        (0..VNIS).for_each(|row| self.vni(row).store(0, Ordering::Release));
    }

    fn row_of(&self, word: u64) -> Option<usize> {
        (0..VNIS).find(|&row| self.vni(row).load(Ordering::Relaxed) == word)
    }

    fn vni(&self, row: usize) -> &AtomicU64 {
        assert!(row < VNIS);
        self.pages.word(VNIS_AT + 8 * row)
    }

    fn pids(&self, row: usize, pid: u16) -> &AtomicU64 {
        assert!(row < VNIS && u32::from(pid) <= C_PID_ANY);
        self.pages.word(pids_at(row) + 8 * usize::from(pid / 64))
    }

    /// The instance of the NIC that owns a lane; 0 is none.
    pub fn owner(&self, lane: usize) -> &AtomicU64 {
        self.pages.word(lane_at(lane) + OWNER_AT)
    }

    /// NID and slot of the NIC that owns a lane.
    pub fn owner_name(&self, lane: usize) -> (u32, u32) {
        let name = self.pages.word(lane_at(lane) + OWNER_NAME_AT).load(Ordering::Acquire);
        ((name >> 32) as u32, name as u32)
    }

    /// The number of cells that the reader has released.
    pub fn tail(&self, lane: usize) -> &AtomicU32 {
        self.pages.word32(lane_at(lane) + TAIL_AT)
    }

    /// A word of the header of a cell. The lower half of the first word is the sequence number: one
    /// more than the position of the packet, counted from the first packet of the lane.
    #[inline]
    pub fn cell_word(&self, lane: usize, position: u32, word: usize) -> &AtomicU64 {
        let at = lane_at(lane) + HEADERS_AT + cell(position) * CELL_HEADER;
        self.pages.word(at + 8 * word)
    }

    /// The first word of a cell, if it has the packet with this position.
    #[inline]
    pub fn first_word(&self, lane: usize, position: u32) -> Option<u64> {
        let first = self.cell_word(lane, position, 0).load(Ordering::Acquire);
        (first as u32 == position.wrapping_add(1)).then_some(first)
    }

    /// Reads the packet in a cell with this first word; false if no NIC of this version can have
    /// written it.
    #[inline]
    pub fn read(&self, lane: usize, position: u32, first: u64, packet: &mut Packet) -> bool {
        packet.decode(first, |index| self.cell_word(lane, position, index).load(Ordering::Relaxed))
    }

    /// When the packet in a cell with this first word is due, in nanoseconds of the monotonic
    /// clock; 0 without a due time.
    #[inline]
    pub fn due(&self, lane: usize, position: u32, first: u64) -> u64 {
        match first & TIMED {
            0 => 0,
            _ => self.cell_due(lane, position).load(Ordering::Relaxed),
        }
    }

    /// The word of the due time of a cell.
    #[inline]
    pub fn cell_due(&self, lane: usize, position: u32) -> &AtomicU64 {
        let at = lane_at(lane) + DUE_AT + 8 * cell(position);
        self.pages.word(at)
    }

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
        self.pages.word(lane_at(lane) + OWNER_NAME_AT).store(name, Ordering::Release);
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

/// Lanes of each port whose memory is allocated when a NIC joins, at most: more NICs rarely send to
/// one NIC.
const RESERVED_LANES: usize = 8;

/// The bytes that are allocated for each port of a fabric with `count` ports.
pub fn reserved(count: usize) -> usize {
    HEADER_LEN + count.min(RESERVED_LANES) * LANE_LEN
}

/// Allocates memory of a port of a fabric with `count` ports, so that it cannot be missing when
/// NICs begin to send.
pub fn reserve(file: &File, count: usize) -> Result<(), Errno> {
    allocate(file, 0, reserved(count))
}

fn pids_at(row: usize) -> usize {
    PIDS_AT + row * 8 * PID_WORDS
}

fn lane_at(lane: usize) -> usize {
    assert!(lane < LANES);
    HEADER_LEN + lane * LANE_LEN
}

fn cell(position: u32) -> usize {
    (position % CELLS) as usize
}

/// Allocates the space of a range. So a full file system is an error here, not a fatal signal at
/// the first store to the mapping.
pub fn allocate(file: impl AsFd, offset: usize, len: usize) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, len as u64) {
        // The file system does not support allocation, or a filter of system calls refuses it.
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS) => Ok(()),
        result => result,
    }
}

/// The number of the last request for the counts, the number of the last request that was answered,
/// and the counts.
const REQUESTED_AT: usize = COUNTS_AT;
const ANSWERED_AT: usize = COUNTS_AT + 4;
const VALUES_AT: usize = COUNTS_AT + 8;

/// The counts that the owner of a port published last; `None` if the file is not a port of this
/// version.
pub fn read_counts(file: &File) -> Option<Vec<u64>> {
    read_header(file)?;
    let mut bytes = vec![0; 8 * COUNT];
    file.read_exact_at(&mut bytes, VALUES_AT as u64).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

impl Port {
    /// Asks the owner to publish its counts, and returns the number of the request.
    pub fn request_counts(&self) -> u32 {
        let requested = self.pages.word32(REQUESTED_AT);
        requested.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// Whether there is an unanswered request for the counts.
    pub fn are_counts_requested(&self) -> bool {
        self.requested() != self.pages.word32(ANSWERED_AT).load(Ordering::Relaxed)
    }

    /// Publishes the counts of the owner with their places in
    /// [`counter_names::all`](crate::counter_names::all), which answers all requests so far. The
    /// counts at other places stay 0.
    pub fn publish_counts(&self, counts: impl Iterator<Item = (usize, u64)>) {
        let requested = self.requested();
        for (place, count) in counts {
            self.pages.word(VALUES_AT + 8 * place).store(count, Ordering::Relaxed);
        }
        self.answer(requested);
    }

    /// Answers all requests so far with the counts that were published last.
    pub fn answer_requests(&self) {
        self.answer(self.requested());
    }

    fn requested(&self) -> u32 {
        self.pages.word32(REQUESTED_AT).load(Ordering::Acquire)
    }

    fn answer(&self, requested: u32) {
        let answered = self.pages.word32(ANSWERED_AT);
        answered.store(requested, Ordering::Release);
        let _ = futex::wake(answered, futex::Flags::empty(), u32::MAX);
    }

    /// Waits until the owner answered a request for its counts, or the time is over.
    pub fn await_counts(&self, request: u32, end: Instant) {
        let answered = self.pages.word32(ANSWERED_AT);
        loop {
            let seen = answered.load(Ordering::Acquire);
            let left = end.saturating_duration_since(Instant::now());
            if seen.wrapping_sub(request) as i32 >= 0 || left.is_zero() {
                return;
            }
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = futex::wait(answered, futex::Flags::empty(), seen, Some(&left));
        }
    }
}
