//! Portals table entries and their mappings.

use std::ptr::NonNull;
use std::sync::Arc;

use cxi_sys::*;

use crate::counter::{Counter, CounterHandle};
use crate::error::Error;
use crate::event_queue::{EventQueue, EventQueueHandle};
use crate::library::{Destroy, Owned};
use crate::lni::{Domain, DomainHandle, Lni, LniHandle};
use crate::memory::{MemoryRegion, RegionHandle};
use crate::observer::{Registration, StateLocation};

/// A portals table entry (PTE): the target of operations to a NIC, PID and portal index.
///
/// It receives operations once it is mapped and a command of a [`TargetQueue`](crate::TargetQueue)
/// has enabled it (nic.md 8.1).
pub struct PortalTableEntry {
    // Observation ends first. Mappings are released before the entry, and the entry before the
    // objects it names (libcxi.md 10).
    registration: Registration,
    mappings: Vec<EntryMapping>,
    object: Owned<cxil_pte>,
    kept_mapped: Vec<Arc<RegionHandle>>,
    kept_counters: Vec<Arc<CounterHandle>>,
    _events: Arc<EventQueueHandle>,
    _lni: Arc<LniHandle>,
}

/// The mapping of an entry at one index of a domain.
struct EntryMapping {
    object: Owned<cxil_pte_map>,
    _domain: Arc<DomainHandle>,
}

impl PortalTableEntry {
    /// Allocates an entry that reports to `events`, with matching lists if `is_matching`.
    ///
    /// # Errors
    ///
    /// See libcxi.md 8.3.
    pub fn new(lni: &Lni, events: &EventQueue, is_matching: bool) -> Result<Self, Error> {
        Self::with_options(lni, events, |options| {
            options.set_is_matching(is_matching.into());
        })
    }

    /// Allocates an entry that reports to `events`, with the options that `set` sets and no others
    /// (nic.md 8.1).
    ///
    /// # Errors
    ///
    /// See libcxi.md 8.3.
    pub fn with_options(
        lni: &Lni,
        events: &EventQueue,
        set: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Result<Self, Error> {
        let lni = lni.handle();
        let events = events.handle();
        let api = lni.library().api();
        let mut options = cxi_pt_alloc_opts {
            _bitfield_align_1: [],
            _bitfield_1: Default::default(),
            __bindgen_padding_0: [0; 5],
        };
        set(&mut options);
        let object = Owned::allocate(
            lni.library(),
            "cxil_alloc_pte",
            Destroy { call: "cxil_destroy_pte", function: api.cxil_destroy_pte },
            // SAFETY: the handles keep the interface and the event queue allocated until the entry
            // is destroyed; `entry` is a valid out pointer.
            |entry| unsafe {
                (api.cxil_alloc_pte)(lni.as_ptr(), events.as_ptr(), &raw mut options, entry)
            },
        )?;
        let entry = NonNull::new(object.as_ptr());
        let source = StateLocation::Portal {
            number: object.read().ptn as u16,
            entry: entry.ok_or(Error::new("cxil_alloc_pte", libc::EFAULT))?,
            library: lni.library().share(),
        };
        Ok(Self {
            registration: lni.observer().register(source),
            mappings: Vec::new(),
            object,
            kept_mapped: Vec::new(),
            kept_counters: Vec::new(),
            _events: Arc::clone(events),
            _lni: Arc::clone(lni),
        })
    }

    /// The number by which target commands and target events name the entry, 1 to 2047. It is
    /// independent of the index at which the entry is mapped.
    pub fn number(&self) -> u16 {
        self.object.read().ptn as u16
    }

    /// Maps the entry at portal index `index` of `domain`. The library does not refuse an index
    /// that is in use (libcxi.md 8.3).
    ///
    /// # Errors
    ///
    /// EINVAL unless `index` is less than `pid_granule`.
    pub fn map(&mut self, domain: &Domain, index: u32) -> Result<(), Error> {
        let domain = domain.handle();
        let library = self.object.library();
        let api = library.api();
        let object = Owned::allocate(
            library,
            "cxil_map_pte",
            Destroy { call: "cxil_unmap_pte", function: api.cxil_unmap_pte },
            // SAFETY: the handles keep the entry and the domain allocated until the mapping is
            // removed; `mapping` is a valid out pointer.
            |mapping| unsafe {
                (api.cxil_map_pte)(self.object.as_ptr(), domain.as_ptr(), index, false, mapping)
            },
        )?;
        self.mappings.push(EntryMapping { object, _domain: Arc::clone(domain) });
        Ok(())
    }

    /// Keeps `region`, which list entries of this entry name, mapped until the entry is destroyed.
    pub fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.kept_mapped.push(Arc::clone(region.handle()));
    }

    /// Keeps `counter`, on which list entries of this entry count, until the entry is destroyed.
    pub fn keep_counter(&mut self, counter: &Counter) {
        self.kept_counters.push(Arc::clone(counter.handle()));
    }

    /// Removes the mappings and destroys the entry with its list entries, even after a failure.
    ///
    /// # Errors
    ///
    /// The first failure of `cxil_unmap_pte` or `cxil_destroy_pte`.
    pub fn close(mut self) -> Result<(), Error> {
        self.registration.end();
        let unmapped = self
            .mappings
            .iter_mut()
            .map(|mapping| mapping.object.release())
            .fold(Ok(()), Result::and);
        unmapped.and(self.object.release())
    }
}
