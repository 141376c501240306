//! Addresses as the NIC sees them (libcxi.md 7).
//!
//! A command or list entry names memory by (logical address context, I/O virtual address). An
//! LNI has eight contexts; mappings with the same flags share one.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cxi_sys::{
    C_RC_INVALID_AC, C_RC_NO_TRANSLATION, C_RC_PAGE_PERM_ERROR, CXI_MAP_READ, CXI_MAP_WRITE,
};

use super::ReturnCode;
use super::location::Location;
use crate::pages::page_size;

/// Logical address contexts of one LNI (nic.md 0).
pub const CONTEXTS: usize = 8;

/// What the NIC is about to do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// One mapped range.
#[derive(Clone, Copy)]
struct Mapping {
    iova: u64,
    location: Location,
    len: usize,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.iova + self.len as u64
    }

    /// What lies so many bytes behind its beginning.
    #[inline]
    fn at(&self, skip: u64) -> Location {
        Location {
            va: self.location.va + skip as usize,
            ..self.location
        }
    }

    /// What lies before an address.
    fn up_to(&self, iova: u64) -> Option<Self> {
        (self.iova < iova).then(|| Self {
            len: (iova.min(self.end()) - self.iova) as usize,
            ..*self
        })
    }

    /// What lies at an address and behind it.
    fn from(&self, iova: u64) -> Option<Self> {
        (iova < self.end()).then(|| {
            let skip = iova.saturating_sub(self.iova);
            Self {
                iova: self.iova + skip,
                location: self.at(skip),
                len: self.len - skip as usize,
            }
        })
    }
}

struct Context {
    flags: u32,
    /// First address not given out yet.
    next: u64,
    /// Ranges of addresses given out.
    reservations: usize,
    /// What is behind them, by ascending `iova`, never two at one address.
    mappings: Vec<Mapping>,
}

impl Context {
    /// Takes away what is behind `len` bytes of addresses; ranges that they cut keep the rest.
    fn clear(&mut self, iova: u64, len: usize) {
        let end = iova + len as u64;
        let touched = |mapping: &Mapping| mapping.iova < end && iova < mapping.end();
        let Some(first) = self.mappings.iter().position(touched) else {
            return;
        };
        let count = self.mappings[first..]
            .iter()
            .take_while(|m| touched(m))
            .count();
        let cut = self.mappings.drain(first..first + count);
        let rest: Vec<Mapping> = cut
            .flat_map(|mapping| [mapping.up_to(iova), mapping.from(end)])
            .flatten()
            .collect();
        self.mappings.splice(first..first, rest);
    }
}

/// The address contexts of one LNI.
#[derive(Default)]
pub struct AddressSpace {
    contexts: [Option<Context>; CONTEXTS],
}

impl AddressSpace {
    /// Maps `len` bytes at a location, both multiples of the page size. Answers (lac, iova), or `None`
    /// when a ninth kind of mapping would need a ninth context.
    ///
    /// Nothing in an address resembles the virtual one. A page that is never mapped follows each
    /// range, and a range that was unmapped is not given out again while the context lives, so
    /// that a stale or overrunning address always meets `NO_TRANSLATION`, not other memory.
    pub fn map(&mut self, location: Location, len: usize, flags: u32) -> Option<(u8, u64)> {
        let (lac, iova) = self.reserve(len, flags)?;
        self.place(lac, iova, location, len);
        Some((lac, iova))
    }

    /// Contexts in use.
    pub fn contexts(&self) -> usize {
        self.contexts.iter().flatten().count()
    }

    /// Whether a mapping with these flags takes one more context.
    pub fn needs_context(&self, flags: u32) -> bool {
        let same = |context: &Context| context.flags == flags;
        !self.contexts.iter().flatten().any(same)
    }

    /// As `map`, with no memory behind the addresses.
    pub fn reserve(&mut self, len: usize, flags: u32) -> Option<(u8, u64)> {
        let same = |context: &Option<Context>| context.as_ref().is_some_and(|c| c.flags == flags);
        let lac = match self.contexts.iter().position(same) {
            Some(lac) => lac,
            None => self.contexts.iter().position(Option::is_none)?,
        };
        let context = self.contexts[lac].get_or_insert_with(|| Context {
            flags,
            next: (lac as u64 + 1) << 44,
            reservations: 0,
            mappings: Vec::new(),
        });
        let iova = context.next;
        context.next += (len + page_size()) as u64;
        context.reservations += 1;
        Some((lac as u8, iova))
    }

    /// Puts memory behind reserved addresses, in place of what was there.
    pub fn place(&mut self, lac: u8, iova: u64, location: Location, len: usize) {
        if let Some(context) = &mut self.contexts[usize::from(lac)] {
            context.clear(iova, len);
            let at = context.mappings.partition_point(|other| other.iova < iova);
            let mapping = Mapping {
                iova,
                location,
                len,
            };
            context.mappings.insert(at, mapping);
        }
    }

    /// Gives reserved addresses back, with all that is behind them; the last ones take their context along.
    pub fn unmap(&mut self, lac: u8, iova: u64, len: usize) {
        let slot = &mut self.contexts[usize::from(lac)];
        if let Some(context) = slot {
            context.clear(iova, len);
            context.reservations -= 1;
            if context.reservations == 0 {
                *slot = None;
            }
        }
    }

    /// What is behind `iova`, from which `len` bytes (at least one) may be accessed.
    #[inline]
    pub fn translate(
        &self,
        lac: u8,
        iova: u64,
        len: u64,
        access: Access,
    ) -> Result<Location, ReturnCode> {
        let context = self
            .contexts
            .get(usize::from(lac))
            .and_then(Option::as_ref)
            .ok_or(C_RC_INVALID_AC)?;
        let after = context
            .mappings
            .partition_point(|mapping| mapping.iova <= iova);
        let mapping = after
            .checked_sub(1)
            .map(|at| &context.mappings[at])
            .ok_or(C_RC_NO_TRANSLATION)?;
        let skip = iova - mapping.iova;
        if skip >= mapping.len as u64 || len > mapping.len as u64 - skip {
            return Err(C_RC_NO_TRANSLATION);
        }
        let right = match access {
            Access::Read => CXI_MAP_READ,
            Access::Write => CXI_MAP_WRITE,
        };
        if context.flags & right == 0 {
            return Err(C_RC_PAGE_PERM_ERROR);
        }
        Ok(mapping.at(skip))
    }
}

/// Copies payload. An aligned 8-byte word is written in one piece, because programs poll such words.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. Both may be
/// accessed by others meanwhile, as memory under a NIC's hands always is.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && to.addr().is_multiple_of(8) {
        // SAFETY: the caller vouches for 8 readable bytes.
        let value = unsafe { from.cast::<u64>().read_unaligned() };
        // SAFETY: aligned, and the caller vouches for 8 writable bytes.
        let word = unsafe { AtomicU64::from_ptr(to.cast()) };
        word.store(value, Ordering::Relaxed);
    } else {
        // SAFETY: the caller's promise is the one needed here.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Replaces the value of `len` bytes (1, 2, 4, 8 or 16) by what `compute` makes of it, and answers the
/// value before. Up to 8 bytes, nobody else's write falls between the two, whoever else is writing;
/// with 16, no other update of 16 bytes in this process does. `compute` may run more than once.
///
/// # Safety
/// `place` is readable, writable and aligned for `len` bytes. It may be accessed by others meanwhile.
pub unsafe fn update(place: *mut u8, len: usize, mut compute: impl FnMut(u128) -> u128) -> u128 {
    macro_rules! exchange {
        ($atomic:ident, $int:ident) => {{
            // SAFETY: the caller vouches for an aligned place of this length.
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
            // SAFETY: the caller vouches for 16 aligned bytes.
            let low = unsafe { AtomicU64::from_ptr(place.cast()) };
            // SAFETY: as above.
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

#[cfg(test)]
mod tests {
    use super::*;

    const RW: u32 = CXI_MAP_READ | CXI_MAP_WRITE;

    /// The virtual address behind one of the NIC.
    fn translate(
        space: &AddressSpace,
        lac: u8,
        iova: u64,
        len: u64,
        access: Access,
    ) -> Result<usize, ReturnCode> {
        let location = space.translate(lac, iova, len, access)?;
        assert!(location.gpu.is_none());
        Ok(location.va)
    }

    #[test]
    fn every_byte_of_a_mapping_and_none_beside_it() {
        let page = page_size();
        let mut space = AddressSpace::default();
        let (lac, first) = space.map(Location::host(0x10_0000), 2 * page, RW).unwrap();
        let (lac2, second) = space.map(Location::host(0x50_0000), page, RW).unwrap();
        assert_eq!((lac, lac2), (0, 0), "same flags, same context");
        let at = |iova, len| translate(&space, 0, iova, len, Access::Write);
        assert_eq!(at(first, 2 * page as u64), Ok(0x10_0000));
        assert_eq!(at(first + 7, 1), Ok(0x10_0007));
        assert_eq!(at(second, page as u64), Ok(0x50_0000));
        assert_eq!(at(first + 1, 2 * page as u64), Err(C_RC_NO_TRANSLATION));
        assert_eq!(
            at(first + 2 * page as u64, 1),
            Err(C_RC_NO_TRANSLATION),
            "guard page"
        );
        assert_eq!(at(first - 1, 1), Err(C_RC_NO_TRANSLATION));
        assert_eq!(at(u64::MAX >> 7, 1), Err(C_RC_NO_TRANSLATION));
    }

    #[test]
    fn memory_is_put_behind_reserved_addresses_and_replaced() {
        let page = page_size() as u64;
        let len = page_size();
        let mut space = AddressSpace::default();
        let (lac, iova) = space.reserve(4 * len, RW).unwrap();
        let (_, next) = space.map(Location::host(0x90_0000), len, RW).unwrap();
        let at = |space: &AddressSpace, page_number: u64, len| {
            translate(space, lac, iova + page_number * page, len, Access::Write)
        };
        assert_eq!(at(&space, 0, 1), Err(C_RC_NO_TRANSLATION));
        space.place(lac, iova, Location::host(0x10_0000), 4 * len);
        assert_eq!(at(&space, 0, 4 * page), Ok(0x10_0000));
        // Another page in the middle leaves three ranges.
        space.place(lac, iova + page, Location::host(0x50_0000), len);
        assert_eq!(at(&space, 0, page), Ok(0x10_0000));
        assert_eq!(at(&space, 1, page), Ok(0x50_0000));
        assert_eq!(at(&space, 2, 2 * page), Ok(0x10_0000 + 2 * len));
        assert_eq!(at(&space, 0, page + 1), Err(C_RC_NO_TRANSLATION));
        // And one over the ends of two.
        space.place(lac, iova + page, Location::host(0x70_0000), 2 * len);
        assert_eq!(at(&space, 1, 2 * page), Ok(0x70_0000));
        assert_eq!(at(&space, 3, page), Ok(0x10_0000 + 3 * len));
        space.unmap(lac, iova, 4 * len);
        for number in 0..4 {
            assert_eq!(at(&space, number, 1), Err(C_RC_NO_TRANSLATION));
        }
        assert_eq!(
            translate(&space, lac, next, page, Access::Read),
            Ok(0x90_0000)
        );
        space.unmap(lac, next, len);
        assert_eq!(at(&space, 0, 1), Err(C_RC_INVALID_AC));
    }

    #[test]
    fn updates_of_several_threads_are_never_lost() {
        const TIMES: u128 = 50_000;
        for len in [1, 2, 4, 8, 16] {
            let memory = crate::pages::Pages::anonymous(page_size()).unwrap();
            // Beyond the low word, so that both of a long value change.
            let step = if len == 16 { 1 << 63 } else { 1 };
            let add = || {
                for _ in 0..TIMES {
                    // SAFETY: the beginning of a page of our own.
                    unsafe { update(memory.at(0, len), len, |value| value.wrapping_add(step)) };
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(add);
                add();
            });
            // SAFETY: as above.
            let total = unsafe { update(memory.at(0, len), len, |value| value) };
            let mask = u128::MAX >> (128 - 8 * len);
            assert_eq!(total, (2 * TIMES * step) & mask, "{len} bytes");
        }
    }

    #[test]
    fn rights_belong_to_the_context() {
        let page = page_size();
        let mut space = AddressSpace::default();
        let (lac, iova) = space
            .map(Location::host(0x10_0000), page, CXI_MAP_READ)
            .unwrap();
        assert_eq!(
            translate(&space, lac, iova, 1, Access::Write),
            Err(C_RC_PAGE_PERM_ERROR)
        );
        assert_eq!(translate(&space, lac, iova, 1, Access::Read), Ok(0x10_0000));
        assert_eq!(
            translate(&space, 1, iova, 1, Access::Read),
            Err(C_RC_INVALID_AC)
        );
        let (other, _) = space.map(Location::host(0x10_0000), page, RW).unwrap();
        assert_eq!(other, 1);
    }

    #[test]
    fn eight_contexts_and_no_address_twice() {
        let page = page_size();
        let mut space = AddressSpace::default();
        for flags in 0..8 {
            assert_eq!(
                space.map(Location::host(0), page, flags << 8).unwrap().0,
                flags as u8
            );
        }
        assert_eq!(space.map(Location::host(0), page, 8 << 8), None);
        let (lac, first) = space.map(Location::host(0), page, 0).unwrap();
        space.unmap(lac, first, page);
        let (_, second) = space.map(Location::host(0), page, 0).unwrap();
        assert_ne!(first, second);
        assert_eq!(
            translate(&space, lac, first, 1, Access::Read),
            Err(C_RC_NO_TRANSLATION)
        );
    }
}
