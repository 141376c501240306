//! Ownership of a command queue of any kind, with what has to outlive it.

use std::ptr;
use std::rc::Rc;

use cxi_sys::records::CmdHeader;
use cxi_sys::{cxi_cq, cxi_cq_alloc_opts};

use crate::bus::MappedQueue;
use crate::counter::{Counter, CounterHandle};
use crate::error::Error;
use crate::event_queue::{EventQueue, EventQueueHandle};
use crate::launch::Producer;
use crate::lni::{LniHandle, ProfileHandle};
use crate::memory::{MemoryRegion, RegionHandle};
use crate::owned::{Destroy, Owned};
use crate::ring::Ring;

pub(crate) const CALL: &str = "cxil_alloc_cmdq";

/// A command queue; what it keeps is released after it.
pub(crate) struct QueueHandle {
    object: Owned<cxi_cq>,
    kept_mapped: Vec<Rc<RegionHandle>>,
    kept_counters: Vec<Rc<CounterHandle>>,
    _failures: Option<Rc<EventQueueHandle>>,
    /// The one of its creation, and those it changed to.
    profiles: Vec<Rc<ProfileHandle>>,
    _lni: Rc<LniHandle>,
}

impl QueueHandle {
    pub(crate) fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.kept_mapped.push(Rc::clone(region.handle()));
    }

    pub(crate) fn keep_counter(&mut self, counter: &Counter) {
        self.kept_counters.push(Rc::clone(counter.handle()));
    }

    pub(crate) fn keep_profile(&mut self, profile: &Rc<ProfileHandle>) {
        if !self.profiles.iter().any(|kept| Rc::ptr_eq(kept, profile)) {
            self.profiles.push(Rc::clone(profile));
        }
    }

    pub(crate) fn release(&mut self) -> Result<(), Error> {
        self.object.release()
    }

    pub(crate) fn allocate(
        lni: &Rc<LniHandle>,
        options: &cxi_cq_alloc_opts,
        failures: Option<&EventQueue>,
        profile: Option<&Rc<ProfileHandle>>,
    ) -> Result<(Self, Producer<MappedQueue>), Error> {
        let api = lni.library().api();
        let failures = failures.map(EventQueue::handle);
        let event_queue = failures.map_or(ptr::null_mut(), |queue| queue.as_ptr());
        let object = Owned::allocate(
            lni.library(),
            CALL,
            Destroy {
                call: "cxil_destroy_cmdq",
                function: api.cxil_destroy_cmdq,
            },
            // SAFETY: the interface and the event queue are alive and stay so until the queue is
            // destroyed, and `queue` is there to be filled.
            |queue| unsafe { (api.cxil_alloc_cmdq)(lni.as_ptr(), event_queue, options, queue) },
        )?;
        let cq = object.read();
        let bus = MappedQueue::new(&cq).ok_or(Error::new(CALL, libc::EFAULT))?;
        let producer = Producer {
            ring: Ring::new(cq.size),
            bus,
            noop: CmdHeader::new(),
        };
        let handle = Self {
            object,
            kept_mapped: Vec::new(),
            kept_counters: Vec::new(),
            _failures: failures.map(Rc::clone),
            profiles: profile.map(Rc::clone).into_iter().collect(),
            _lni: Rc::clone(lni),
        };
        Ok((handle, producer))
    }
}
