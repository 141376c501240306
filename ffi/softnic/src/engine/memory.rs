//! Addresses as the NIC sees them (libcxi.md 7).
//!
//! A command or list entry names memory by logical address context and I/O virtual address. An LNI
//! has eight contexts; mappings with the same flags share one.

use cxi_sys::{
    C_RC_INVALID_AC, C_RC_NO_TRANSLATION, C_RC_PAGE_PERM_ERROR, CXI_MAP_READ, CXI_MAP_WRITE,
};

use super::location::MemoryLocation;
use super::return_codes::ReturnCode;
use crate::pages::page_size;

/// Logical address contexts of one LNI (nic.md 0).
pub const CONTEXTS: usize = 8;

/// The place of the page size in the flags of contexts with huge pages, as a power of 2 (libcxi.md
/// 7.4). Flags of programs do not have these bits.
pub const HUGE_SHIFT_AT: u32 = 24;

/// The first address that commands cannot name: their addresses have 57 bits.
const END: u64 = 1 << 57;

/// Why no more memory can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The flags would need a ninth context.
    Contexts,
    /// The context has not enough addresses left.
    Addresses,
}

/// How the NIC accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAccess {
    Read,
    Write,
}

/// One mapped range.
#[derive(Clone, Copy)]
struct Mapping {
    iova: u64,
    location: MemoryLocation,
    len: usize,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.iova + self.len as u64
    }

    /// The location `skip` bytes behind the start.
    #[inline]
    fn at(&self, skip: u64) -> MemoryLocation {
        MemoryLocation { va: self.location.va + skip as usize, ..self.location }
    }

    /// The part before an address.
    fn up_to(&self, iova: u64) -> Option<Self> {
        (self.iova < iova)
            .then(|| Self { len: (iova.min(self.end()) - self.iova) as usize, ..*self })
    }

    /// The part from an address on.
    fn from(&self, iova: u64) -> Option<Self> {
        (iova < self.end()).then(|| {
            let skip = iova.saturating_sub(self.iova);
            Self { iova: self.iova + skip, location: self.at(skip), len: self.len - skip as usize }
        })
    }
}

struct AddressContext {
    flags: u32,
    /// The first address that was never allocated.
    next: u64,
    /// Number of allocated address ranges.
    reservations: usize,
    /// The memory behind them, by ascending `iova`, without overlaps.
    mappings: Vec<Mapping>,
}

impl AddressContext {
    /// Removes the memory behind `len` bytes of addresses; mappings cut by the range keep the rest.
    fn clear(&mut self, iova: u64, len: usize) {
        let end = iova + len as u64;
        let touched = |mapping: &Mapping| mapping.iova < end && iova < mapping.end();
        let Some(first) = self.mappings.iter().position(touched) else {
            return;
        };
        let count = self.mappings[first..].iter().take_while(|m| touched(m)).count();
        let cut = self.mappings.drain(first..first + count);
        let rest: Vec<Mapping> =
            cut.flat_map(|mapping| [mapping.up_to(iova), mapping.from(end)]).flatten().collect();
        self.mappings.splice(first..first, rest);
    }
}

/// The address contexts of one LNI.
#[derive(Default)]
pub struct AddressSpace {
    contexts: [Option<AddressContext>; CONTEXTS],
}

impl AddressSpace {
    /// Maps `len` bytes at a location, both multiples of the page size. Returns (lac, iova).
    ///
    /// I/O virtual addresses do not resemble virtual addresses. An unmapped page follows each
    /// range, and a range is not reused while its context exists, so that a stale or overrunning
    /// address always fails with `NO_TRANSLATION` and never reaches other memory.
    ///
    /// # Errors
    /// See [`Full`].
    pub fn map(
        &mut self,
        location: MemoryLocation,
        len: usize,
        flags: u32,
    ) -> Result<(u8, u64), Full> {
        let (lac, iova) = self.reserve(len, flags)?;
        self.place(lac, iova, location, len);
        Ok((lac, iova))
    }

    /// The number of contexts in use.
    pub fn contexts(&self) -> usize {
        self.contexts.iter().flatten().count()
    }

    /// Whether a mapping with these flags takes one more context.
    pub fn needs_context(&self, flags: u32) -> bool {
        !self.contexts.iter().flatten().any(|context: &AddressContext| context.flags == flags)
    }

    /// Whether the memory of a context is in huge pages.
    pub fn is_huge(&self, lac: u8) -> bool {
        let context = self.contexts.get(usize::from(lac)).and_then(Option::as_ref);
        context.is_some_and(|context| context.flags >> HUGE_SHIFT_AT != 0)
    }

    /// Allocates addresses as `map` does, with no memory behind them.
    ///
    /// # Errors
    /// See [`Full`].
    pub fn reserve(&mut self, len: usize, flags: u32) -> Result<(u8, u64), Full> {
        let same =
            |context: &Option<AddressContext>| context.as_ref().is_some_and(|c| c.flags == flags);
        let lac = match self.contexts.iter().position(same) {
            Some(lac) => lac,
            None => {
                let free = self.contexts.iter().position(Option::is_none);
                free.ok_or(Full::Contexts)?
            }
        };
        let slot = &mut self.contexts[lac];
        let iova = slot.as_ref().map_or((lac as u64 + 1) << 44, |c| c.next);
        let next = iova.saturating_add(len as u64).checked_add(page_size() as u64);
        let next = next.filter(|&next| next <= END).ok_or(Full::Addresses)?;
        let context = slot.get_or_insert_with(|| AddressContext {
            flags,
            next,
            reservations: 0,
            mappings: Vec::new(),
        });
        context.next = next;
        context.reservations += 1;
        Ok((lac as u8, iova))
    }

    /// Puts memory behind reserved addresses, in place of any other memory there.
    pub fn place(&mut self, lac: u8, iova: u64, location: MemoryLocation, len: usize) {
        if let Some(context) = &mut self.contexts[usize::from(lac)] {
            context.clear(iova, len);
            let at = context.mappings.partition_point(|other| other.iova < iova);
            let mapping = Mapping { iova, location, len };
            context.mappings.insert(at, mapping);
        }
    }

    /// Releases reserved addresses and the memory behind them; the context ends with its last
    /// range.
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

    /// The location of `len` bytes (at least one) at `iova`.
    ///
    /// # Errors
    /// INVALID_AC without such a context, NO_TRANSLATION beyond a mapping, PAGE_PERM_ERROR for an
    /// access that the mapping does not allow.
    #[inline]
    pub fn translate(
        &self,
        lac: u8,
        iova: u64,
        len: u64,
        access: MemoryAccess,
    ) -> Result<MemoryLocation, ReturnCode> {
        let context =
            self.contexts.get(usize::from(lac)).and_then(Option::as_ref).ok_or(C_RC_INVALID_AC)?;
        let after = context.mappings.partition_point(|mapping| mapping.iova <= iova);
        let mapping =
            after.checked_sub(1).map(|at| &context.mappings[at]).ok_or(C_RC_NO_TRANSLATION)?;
        let skip = iova - mapping.iova;
        if skip >= mapping.len as u64 || len > mapping.len as u64 - skip {
            return Err(C_RC_NO_TRANSLATION);
        }
        let right = match access {
            MemoryAccess::Read => CXI_MAP_READ,
            MemoryAccess::Write => CXI_MAP_WRITE,
        };
        if context.flags & right == 0 {
            return Err(C_RC_PAGE_PERM_ERROR);
        }
        Ok(mapping.at(skip))
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::MemoryKind;
    use super::*;

    const RW: u32 = CXI_MAP_READ | CXI_MAP_WRITE;

    /// Translates an address of the NIC to a virtual address.
    fn translate(
        space: &AddressSpace,
        lac: u8,
        iova: u64,
        len: u64,
        access: MemoryAccess,
    ) -> Result<usize, ReturnCode> {
        let location = space.translate(lac, iova, len, access)?;
        assert!(matches!(location.memory, MemoryKind::Pinned));
        Ok(location.va)
    }

    #[test]
    fn translates_every_byte_of_mapping_and_none_beside_it() {
        let page = page_size();
        let mut space = AddressSpace::default();
        let (lac, first) = space.map(MemoryLocation::pinned(0x10_0000), 2 * page, RW).unwrap();
        let (lac2, second) = space.map(MemoryLocation::pinned(0x50_0000), page, RW).unwrap();
        assert_eq!((lac, lac2), (0, 0), "same flags, same context");
        let at = |iova, len| translate(&space, 0, iova, len, MemoryAccess::Write);
        assert_eq!(at(first, 2 * page as u64), Ok(0x10_0000));
        assert_eq!(at(first + 7, 1), Ok(0x10_0007));
        assert_eq!(at(second, page as u64), Ok(0x50_0000));
        assert_eq!(at(first + 1, 2 * page as u64), Err(C_RC_NO_TRANSLATION));
        assert_eq!(at(first + 2 * page as u64, 1), Err(C_RC_NO_TRANSLATION), "guard page");
        assert_eq!(at(first - 1, 1), Err(C_RC_NO_TRANSLATION));
        assert_eq!(at(u64::MAX >> 7, 1), Err(C_RC_NO_TRANSLATION));
    }

    #[test]
    fn places_and_replaces_memory_behind_reserved_addresses() {
        let page = page_size() as u64;
        let len = page_size();
        let mut space = AddressSpace::default();
        let (lac, iova) = space.reserve(4 * len, RW).unwrap();
        let (_, next) = space.map(MemoryLocation::pinned(0x90_0000), len, RW).unwrap();
        let at = |space: &AddressSpace, page_number: u64, len| {
            translate(space, lac, iova + page_number * page, len, MemoryAccess::Write)
        };
        assert_eq!(at(&space, 0, 1), Err(C_RC_NO_TRANSLATION));
        space.place(lac, iova, MemoryLocation::pinned(0x10_0000), 4 * len);
        assert_eq!(at(&space, 0, 4 * page), Ok(0x10_0000));
        // Another page in the middle leaves three ranges.
        space.place(lac, iova + page, MemoryLocation::pinned(0x50_0000), len);
        assert_eq!(at(&space, 0, page), Ok(0x10_0000));
        assert_eq!(at(&space, 1, page), Ok(0x50_0000));
        assert_eq!(at(&space, 2, 2 * page), Ok(0x10_0000 + 2 * len));
        assert_eq!(at(&space, 0, page + 1), Err(C_RC_NO_TRANSLATION));
        // A range that overlaps the ends of two mappings.
        space.place(lac, iova + page, MemoryLocation::pinned(0x70_0000), 2 * len);
        assert_eq!(at(&space, 1, 2 * page), Ok(0x70_0000));
        assert_eq!(at(&space, 3, page), Ok(0x10_0000 + 3 * len));
        space.unmap(lac, iova, 4 * len);
        for number in 0..4 {
            assert_eq!(at(&space, number, 1), Err(C_RC_NO_TRANSLATION));
        }
        assert_eq!(translate(&space, lac, next, page, MemoryAccess::Read), Ok(0x90_0000));
        space.unmap(lac, next, len);
        assert_eq!(at(&space, 0, 1), Err(C_RC_INVALID_AC));
    }

    #[test]
    fn access_rights_belong_to_the_context() {
        let page = page_size();
        let mut space = AddressSpace::default();
        let (lac, iova) = space.map(MemoryLocation::pinned(0x10_0000), page, CXI_MAP_READ).unwrap();
        assert_eq!(translate(&space, lac, iova, 1, MemoryAccess::Write), Err(C_RC_PAGE_PERM_ERROR));
        assert_eq!(translate(&space, lac, iova, 1, MemoryAccess::Read), Ok(0x10_0000));
        assert_eq!(translate(&space, 1, iova, 1, MemoryAccess::Read), Err(C_RC_INVALID_AC));
        let (other, _) = space.map(MemoryLocation::pinned(0x10_0000), page, RW).unwrap();
        assert_eq!(other, 1);
    }

    #[test]
    fn knows_contexts_with_huge_pages() {
        let mut space = AddressSpace::default();
        space.reserve(page_size(), RW).unwrap();
        space.reserve(2 << 20, RW | 21 << HUGE_SHIFT_AT).unwrap();
        assert_eq!([0, 1, 2, 8].map(|lac| space.is_huge(lac)), [false, true, false, false]);
    }

    #[test]
    fn hands_out_addresses_of_57_bits_only() {
        let page = page_size();
        let mut space = AddressSpace::default();
        let most = (END - (1 << 44)) as usize - page;
        for len in [most + page, usize::MAX / page * page] {
            assert_eq!(space.reserve(len, RW), Err(Full::Addresses));
        }
        assert_eq!(space.contexts(), 0, "nothing is allocated");
        assert_eq!(space.reserve(most, RW), Ok((0, 1 << 44)));
        assert_eq!(space.reserve(page, RW), Err(Full::Addresses));
        assert_eq!(space.reserve(page, 0), Ok((1, 2 << 44)));
    }

    #[test]
    fn has_eight_contexts_and_reuses_no_address() {
        let page = page_size();
        let mut space = AddressSpace::default();
        for flags in 0..8 {
            assert_eq!(
                space.map(MemoryLocation::pinned(0), page, flags << 8).unwrap().0,
                flags as u8
            );
        }
        assert_eq!(space.map(MemoryLocation::pinned(0), page, 8 << 8), Err(Full::Contexts));
        let (lac, first) = space.map(MemoryLocation::pinned(0), page, 0).unwrap();
        space.unmap(lac, first, page);
        let (_, second) = space.map(MemoryLocation::pinned(0), page, 0).unwrap();
        assert_ne!(first, second);
        assert_eq!(translate(&space, lac, first, 1, MemoryAccess::Read), Err(C_RC_NO_TRANSLATION));
    }
}
