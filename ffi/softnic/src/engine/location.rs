//! Where translated bytes are, in memory of the CPU or of a GPU, and copies and atomic updates of
//! memory that programs access at the same time.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cxi_sys::{C_RC_NO_TRANSLATION, C_RC_PCIE_UNSUCCESS_CMPL};

use super::return_codes::ReturnCode;
use super::wire::SEGMENT;
use crate::gpu::Gpu;
use crate::process_memory;

/// Copies `len` bytes. An aligned 8-byte word is written in one store, because programs poll such
/// words.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. Other threads and
/// processes may access both at the same time.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && to.addr().is_multiple_of(8) {
        // SAFETY: the caller guarantees 8 readable bytes at `from`.
        let value = unsafe { from.cast::<u64>().read_unaligned() };
        // SAFETY: `to` is aligned, and the caller guarantees 8 writable bytes there.
        let word = unsafe { AtomicU64::from_ptr(to.cast()) };
        word.store(value, Ordering::Relaxed);
    } else {
        // SAFETY: the caller guarantees both ranges, and that they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Replaces the value of `len` bytes (1, 2, 4, 8 or 16) by the result of `compute`, and returns the
/// previous value. Up to 8 bytes the update is atomic for all accesses to the memory; with 16
/// bytes, for other updates of 16 bytes by this process. `compute` may run more than once.
///
/// # Safety
/// `place` is readable, writable and aligned for `len` bytes. Other threads and processes may
/// access it at the same time.
pub unsafe fn update(place: *mut u8, len: usize, mut compute: impl FnMut(u128) -> u128) -> u128 {
    macro_rules! exchange {
        ($atomic:ident, $int:ident) => {{
            // SAFETY: the caller guarantees an aligned place of this length.
            let word = unsafe { $atomic::from_ptr(place.cast()) };
            let mut before = word.load(Ordering::Relaxed);
            loop {
                let after = compute(u128::from($int::from_le(before))) as $int;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match word.compare_exchange_weak(before, after.to_le(), success, failure) {
                    Ok(_) => break u128::from($int::from_le(before)),
                    Err(now) => before = now,
                }
            }
        }};
    }
    match len {
        1 => exchange!(AtomicU8, u8),
        2 => exchange!(AtomicU16, u16),
        4 => exchange!(AtomicU32, u32),
        8 => exchange!(AtomicU64, u64),
        _ => {
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
            let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller guarantees 16 aligned bytes, of which these are the first 8.
            let low = unsafe { AtomicU64::from_ptr(place.cast()) };
            // SAFETY: the caller guarantees 16 aligned bytes, of which these are the last 8.
            let high = unsafe { AtomicU64::from_ptr(place.cast::<u64>().wrapping_add(1)) };
            let word = |word: &AtomicU64| u128::from(u64::from_le(word.load(Ordering::Acquire)));
            let before = word(low) | word(high) << 64;
            let after = compute(before);
            low.store((after as u64).to_le(), Ordering::Release);
            high.store(((after >> 64) as u64).to_le(), Ordering::Release);
            before
        }
    }
}

/// The return code for device memory that cannot be accessed: an unsuccessful PCIe completion
/// (nic.md 7).
const ACCESS_FAILED: ReturnCode = C_RC_PCIE_UNSUCCESS_CMPL;

/// The kind of memory at an address.
#[derive(Clone, Copy)]
pub enum MemoryKind {
    /// Memory of the CPU that software keeps mapped.
    Pinned,
    /// Memory of the CPU that software may unmap at any time, or never had.
    OnDemand,
    /// Memory of a GPU, whose address is not valid for the CPU.
    Gpu(&'static dyn Gpu),
}

/// The memory behind a translated address.
#[derive(Clone, Copy)]
pub struct MemoryLocation {
    pub va: usize,
    pub memory: MemoryKind,
}

/// A buffer for data that is not in pinned memory, on its way into a packet.
pub struct Staging(Box<[u8; SEGMENT]>);

impl Staging {
    /// Makes an empty buffer.
    pub fn new() -> Self {
        Self(Box::new([0; SEGMENT]))
    }
}

impl MemoryLocation {
    pub fn pinned(va: usize) -> Self {
        let memory = MemoryKind::Pinned;
        Self { va, memory }
    }

    /// Copies `len` bytes to this location.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. `len` bytes were translated at this location, and
    /// software keeps pinned memory mapped until this returns.
    #[inline]
    pub unsafe fn write(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        let MemoryKind::Pinned = self.memory else {
            // SAFETY: the caller guarantees `from`, and that `len` bytes were translated here.
            return unsafe { self.write_elsewhere(from, len) };
        };
        let to = std::ptr::with_exposed_provenance_mut(self.va);
        // SAFETY: the caller guarantees `from`, and `len` mapped bytes at `va`.
        unsafe { copy(from, to, len) };
        Ok(())
    }

    /// Copies to memory that is not pinned. Out of line, so that the usual copy stays short.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[cold]
    unsafe fn write_elsewhere(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        let to = std::ptr::with_exposed_provenance_mut(self.va);
        if let MemoryKind::Gpu(gpu) = self.memory {
            // SAFETY: the caller guarantees `from`.
            let done = unsafe { gpu.write(from, self.va, len) };
            return done.then_some(()).ok_or(ACCESS_FAILED);
        }
        // Programs poll aligned words of 8 bytes, so these are written in one store.
        let done = if len == 8 && self.va.is_multiple_of(8) {
            let found = process_memory::fault_in(to, len);
            if found {
                // SAFETY: the caller guarantees `from`, and `fault_in` has just found 8 bytes.
                unsafe { copy(from, to, len) };
            }
            found
        } else {
            // SAFETY: the caller guarantees `from`; the program mapped the memory at `va` for the
            // NIC.
            unsafe { process_memory::copy_on_demand(from, to, len) }
        };
        done.then_some(()).ok_or(C_RC_NO_TRANSLATION)
    }

    /// Copies `len` bytes from this location.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes. `len` bytes were translated at this location, and software
    /// keeps pinned memory mapped until this returns.
    #[inline]
    pub unsafe fn read(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        let MemoryKind::Pinned = self.memory else {
            // SAFETY: the caller guarantees `to`, and that `len` bytes were translated here.
            return unsafe { self.read_elsewhere(to, len) };
        };
        let from = std::ptr::with_exposed_provenance(self.va);
        // SAFETY: the caller guarantees `to`, and `len` mapped bytes at `va`.
        unsafe { copy(from, to, len) };
        Ok(())
    }

    /// Copies from memory that is not pinned. Out of line, so that the usual copy stays short.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[cold]
    unsafe fn read_elsewhere(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        if let MemoryKind::Gpu(gpu) = self.memory {
            // SAFETY: the caller guarantees `to`.
            let done = unsafe { gpu.read(self.va, to, len) };
            return done.then_some(()).ok_or(ACCESS_FAILED);
        }
        let from = std::ptr::with_exposed_provenance(self.va);
        // SAFETY: the caller guarantees `to`; the program mapped the memory at `va` for the NIC.
        let done = unsafe { process_memory::copy_on_demand(from, to, len) };
        done.then_some(()).ok_or(C_RC_NO_TRANSLATION)
    }

    /// An address at which the CPU can read `len` bytes, at most the bytes of one packet: the
    /// location itself, or the staging buffer until its next use.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    #[inline]
    pub fn payload(self, len: u16, staging: &mut Staging) -> Result<*const u8, ReturnCode> {
        if let MemoryKind::Pinned = self.memory {
            return Ok(std::ptr::with_exposed_provenance(self.va));
        }
        let buffer = &mut staging.0[..usize::from(len)];
        // SAFETY: `buffer` is writable for its length, and the memory is not pinned.
        unsafe { self.read_elsewhere(buffer.as_mut_ptr(), buffer.len()) }?;
        Ok(buffer.as_ptr())
    }

    /// Updates `len` bytes as [`update`] does. In memory of a GPU the update is atomic for other
    /// updates by this process, not for accesses by the GPU.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `len` aligned bytes, at most 16, were translated at this location, and software keeps pinned
    /// memory mapped until this returns.
    pub unsafe fn update(
        self,
        len: usize,
        mut compute: impl FnMut(u128) -> u128,
    ) -> Result<u128, ReturnCode> {
        let place = std::ptr::with_exposed_provenance_mut(self.va);
        match self.memory {
            MemoryKind::OnDemand if !process_memory::fault_in(place, len) => {
                return Err(C_RC_NO_TRANSLATION);
            }
            MemoryKind::Pinned | MemoryKind::OnDemand => {
                // SAFETY: the caller guarantees `len` aligned bytes at `va`, which are pinned or
                // which `fault_in` has just found.
                return Ok(unsafe { update(place, len, compute) });
            }
            MemoryKind::Gpu(_) => {}
        }
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        // SAFETY: the array holds 16 bytes, and the caller guarantees `len` bytes at this location.
        unsafe { self.read(bytes.as_mut_ptr(), len) }?;
        let before = u128::from_le_bytes(bytes);
        let after = compute(before).to_le_bytes();
        // SAFETY: the array holds 16 bytes, and the caller guarantees `len` bytes at this location.
        unsafe { self.write(after.as_ptr(), len) }?;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use cxi_sys::*;

    use super::*;
    use crate::engine::test_node::*;

    #[test]
    fn concurrent_updates_are_never_lost() {
        const TIMES: u128 = 50_000;
        for len in [1, 2, 4, 8, 16] {
            let memory = crate::pages::Pages::anonymous(crate::pages::page_size()).unwrap();
            // Carries out of the low word, so that both words of a long value change.
            let step = if len == 16 { 1 << 63 } else { 1 };
            let add = || {
                for _ in 0..TIMES {
                    // SAFETY: the first bytes of `memory`, which lives until the threads have
                    // ended.
                    unsafe { update(memory.at(0, len), len, |value| value.wrapping_add(step)) };
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(add);
                add();
            });
            // SAFETY: the first bytes of `memory`, which lives until the end of the loop body.
            let total = unsafe { update(memory.at(0, len), len, |value| value) };
            let mask = u128::MAX >> (128 - 8 * len);
            assert_eq!(total, (2 * TIMES * step) & mask, "{len} bytes");
        }
    }

    const LEN: usize = 4 * PAGE;

    /// The device address of the card's memory. No process maps memory at such a low address.
    const START: usize = 0x100;

    struct Card {
        bytes: Mutex<Vec<u8>>,
        broken: AtomicBool,
    }

    impl Card {
        fn new(len: usize) -> &'static Self {
            Box::leak(Box::new(Self {
                bytes: Mutex::new(vec![0; len]),
                broken: AtomicBool::new(false),
            }))
        }

        fn word(&self, at: usize) -> u64 {
            let bytes = self.bytes.lock().unwrap();
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
        }

        fn set_word(&self, at: usize, value: u64) {
            let mut bytes = self.bytes.lock().unwrap();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }

        fn break_down(&self) {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    impl Gpu for Card {
        unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
            let bytes = self.bytes.lock().unwrap();
            let bytes = &bytes[from - START..][..len];
            // SAFETY: the caller guarantees `len` writable bytes at `to`.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
            !self.broken.load(Ordering::Relaxed)
        }

        unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
            let mut bytes = self.bytes.lock().unwrap();
            let bytes = &mut bytes[to - START..][..len];
            // SAFETY: the caller guarantees `len` readable bytes at `from`.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
            !self.broken.load(Ordering::Relaxed)
        }
    }

    /// Replaces the memory of a node by memory of a card with the same content.
    fn on_card(node: &mut TestNode) -> &'static Card {
        let card = Card::new(LEN);
        for at in (0..LEN).step_by(8) {
            card.set_word(at, node.word(at));
        }
        let lni = node.engine.lnis.get_mut(node.lni).unwrap();
        let location = MemoryLocation { va: START, memory: MemoryKind::Gpu(card) };
        lni.space.place(node.lac, node.iova, location, LEN);
        card
    }

    /// A word of a node's memory.
    fn word(node: &TestNode, card: Option<&Card>, at: usize) -> u64 {
        card.map_or_else(|| node.word(at), |card| card.word(at))
    }

    /// Calls `test` with each combination of memories.
    fn pairs(mut test: impl FnMut(&mut TestNode, &mut TestNode, [Option<&Card>; 2])) {
        for (ours, theirs) in [(false, false), (true, false), (false, true), (true, true)] {
            let (mut initiator, mut target, _) = pair(LEN, 3);
            let ours = ours.then(|| on_card(&mut initiator));
            let theirs = theirs.then(|| on_card(&mut target));
            test(&mut initiator, &mut target, [ours, theirs]);
        }
    }

    #[test]
    fn moves_data_between_all_memories() {
        // Some fit in the header of their packet; some need several packets.
        for len in [8, 16, 24, 2048, 2056, LEN / 2] {
            pairs(|initiator, target, [ours, theirs]| {
                initiator.get(0, len as u32);
                settle(initiator, target);
                assert_eq!(initiator.event(), Some((C_EVENT_REPLY, C_RC_OK, false)));
                for at in (0..LEN).step_by(8) {
                    let sent = if at < len { word(target, theirs, at) } else { 0 };
                    assert_eq!(word(initiator, ours, at), sent, "{len} {at}");
                }
                // From another part of the own memory, with other words.
                let from = LEN / 2;
                let value = |at: usize| at as u64 * 3 + 7;
                for at in (0..LEN / 2).step_by(8) {
                    match ours {
                        Some(card) => card.set_word(from + at, value(at)),
                        None => {
                            let word = initiator.memory.word(from + at);
                            word.store(value(at), Ordering::Relaxed);
                        }
                    }
                }
                let beyond = word(target, theirs, len);
                initiator.put_from(from as u64, len as u32);
                settle(initiator, target);
                assert_eq!(initiator.event(), Some((C_EVENT_ACK, C_RC_OK, false)));
                for at in (0..len).step_by(8) {
                    assert_eq!(word(target, theirs, at), value(at), "{len} {at}");
                }
                assert_eq!(word(target, theirs, len), beyond);
            });
        }
    }

    #[test]
    fn executes_atomics_in_all_memories() {
        pairs(|initiator, target, [ours, theirs]| {
            let before = word(target, theirs, 0);
            let next = word(target, theirs, 8);
            match ours {
                Some(card) => card.set_word(0, 5),
                None => initiator.memory.word(0).store(5, Ordering::Relaxed),
            }
            initiator.sum();
            settle(initiator, target);
            assert_eq!(initiator.event(), Some((C_EVENT_REPLY, C_RC_OK, false)));
            assert_eq!(word(initiator, ours, 8), before);
            assert_eq!(word(target, theirs, 0), before + 5);
            assert_eq!(word(target, theirs, 8), next);
        });
    }

    /// An access that the card refuses fails on the card's side.
    #[test]
    fn fails_operations_on_broken_card() {
        const CODE: u32 = C_RC_PCIE_UNSUCCESS_CMPL;
        type Issue = fn(&mut TestNode);
        for (issue, kind) in [
            ((|node| node.get(0, 4096)) as Issue, C_EVENT_REPLY),
            (|node| node.get(0, 8), C_EVENT_REPLY),
            (|node| node.put_from(0, 4096), C_EVENT_ACK),
            (|node| node.put_from(0, 8), C_EVENT_ACK),
            (TestNode::sum, C_EVENT_REPLY),
        ] {
            pairs(|initiator, target, cards| {
                let [ours, theirs] = cards;
                cards.into_iter().flatten().for_each(Card::break_down);
                issue(initiator);
                settle(initiator, target);
                let (seen, code, is_target) = initiator.event().expect("an event");
                match (ours, theirs) {
                    (None, None) => assert_eq!((seen, code), (kind, C_RC_OK)),
                    (None, Some(_)) => assert_eq!((seen, code, is_target), (kind, CODE, true)),
                    (Some(_), None) => assert_eq!((seen, code, is_target), (kind, CODE, false)),
                    (Some(_), Some(_)) => assert_eq!((seen, code), (kind, CODE)),
                }
                assert!(!initiator.engine.depends_on_others());
                assert!(!target.engine.depends_on_others());
            });
        }
    }
}
