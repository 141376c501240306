//! Command queues of any kind: the ring, and the objects that the queue keeps allocated (nic.md 2).
//!
//! Commands are written into a batch. The batch writes them straight into the ring, beyond the
//! write pointer that the NIC knows; committing moves that pointer. Dropping a batch leaves the
//! pointer where it was.

use std::ptr;
use std::sync::Arc;

use cxi_sys::records::{CmdHeader, CqStatus};
use cxi_sys::{
    CXI_CQ_IS_TX, CXI_CQ_TX_WITH_TRIG_CMDS, CXI_CQ_UPDATE_ALWAYS, cxi_cq, cxi_cq_alloc_opts,
};

use crate::bus::{Bus, MappedQueue, Ring};
use crate::counter::{Counter, CounterHandle};
use crate::error::{EmitError, Error};
use crate::event_queue::{EventQueue, EventQueueHandle};
use crate::launch::Producer;
use crate::library::ProgressHook;
use crate::library::{Destroy, Owned};
use crate::lni::{LniHandle, ProfileHandle};
use crate::memory::{MemoryRegion, RegionHandle};
use crate::observer::{QueueKind, Registration, StateLocation};

pub(crate) const ALLOCATE: &str = "cxil_alloc_cmdq";

/// A command queue. The objects that it keeps are released after it (libcxi.md 10).
pub(crate) struct CommandQueue {
    // Ends before the queue is released.
    registration: Registration,
    producer: Producer<MappedQueue>,
    progress: ProgressHook,
    object: Owned<cxi_cq>,
    regions: Vec<Arc<RegionHandle>>,
    counters: Vec<Arc<CounterHandle>>,
    /// The profile of the allocation and those that LCID commands name.
    profiles: Vec<Arc<ProfileHandle>>,
    _failures: Option<Arc<EventQueueHandle>>,
    _lni: Arc<LniHandle>,
}

impl CommandQueue {
    /// Allocates a queue of at least `slots` slots with `flags` `CXI_CQ_*`. The NIC reports refused
    /// commands to `failures`.
    pub(crate) fn allocate(
        lni: &Arc<LniHandle>,
        slots: u32,
        flags: u32,
        profile: Option<&Arc<ProfileHandle>>,
        failures: Option<&EventQueue>,
    ) -> Result<Self, Error> {
        let api = lni.library().api();
        // The driver refuses trigger queues with another LCID (libcxi.md 8.2).
        let is_trigger = flags & CXI_CQ_TX_WITH_TRIG_CMDS != 0;
        let lcid = profile.filter(|_| !is_trigger).map_or(0, |profile| profile.lcid());
        let options = cxi_cq_alloc_opts {
            count: slots,
            policy: CXI_CQ_UPDATE_ALWAYS,
            stat_cnt_pool: 0,
            flags,
            lcid,
            lpe_cdt_thresh_id: 0,
        };
        let failures = failures.map(EventQueue::handle);
        let event_queue = failures.map_or(ptr::null_mut(), |queue| queue.as_ptr());
        let object = Owned::allocate(
            lni.library(),
            ALLOCATE,
            Destroy { call: "cxil_destroy_cmdq", function: api.cxil_destroy_cmdq },
            // SAFETY: the handles keep the interface and the event queue allocated until the queue
            // is destroyed; `options` outlives the call; `queue` is a valid out pointer.
            |queue| unsafe {
                (api.cxil_alloc_cmdq)(lni.as_ptr(), event_queue, &raw const options, queue)
            },
        )?;
        let cq = object.read();
        let bus = MappedQueue::new(&cq).ok_or(Error::new(ALLOCATE, libc::EFAULT))?;
        let kind = match (flags & CXI_CQ_IS_TX != 0, is_trigger) {
            (false, _) => QueueKind::Target,
            (true, false) => QueueKind::Transmit,
            (true, true) => QueueKind::Trigger,
        };
        let status = bus.status_block();
        Ok(Self {
            registration: lni.observer().register(StateLocation::Commands { kind, status }),
            producer: Producer { ring: Ring::new(cq.size), bus, noop: CmdHeader::new() },
            progress: lni.progress(),
            object,
            regions: Vec::new(),
            counters: Vec::new(),
            profiles: profile.map(Arc::clone).into_iter().collect(),
            _failures: failures.map(Arc::clone),
            _lni: Arc::clone(lni),
        })
    }

    /// Sets the header of the NOOPs that pad the ring.
    pub(crate) fn pad_with(&mut self, noop: CmdHeader) {
        self.producer.noop = noop;
    }

    /// The number of slots of 64 bytes, including the status area.
    pub(crate) fn slots(&self) -> u32 {
        self.producer.ring.size32() / 2
    }

    /// The status that the NIC wrote last (nic.md 2.2).
    pub(crate) fn status(&self) -> CqStatus {
        self.producer.bus.status()
    }

    pub(crate) fn keep_mapped(&mut self, region: &MemoryRegion) {
        self.regions.push(Arc::clone(region.handle()));
    }

    pub(crate) fn keep_counter(&mut self, counter: &Counter) {
        self.counters.push(Arc::clone(counter.handle()));
    }

    pub(crate) fn keep_profile(&mut self, profile: &Arc<ProfileHandle>) {
        if !self.profiles.iter().any(|kept| Arc::ptr_eq(kept, profile)) {
            self.profiles.push(Arc::clone(profile));
        }
    }

    /// The half-slot of the first command of a new batch.
    #[inline]
    pub(crate) fn write_pointer(&self) -> u32 {
        self.producer.ring.wp
    }

    /// Writes a command of `halves` half-slots (1, 2, 4 or 8), made of `command` and `payload`, at
    /// or after half-slot `wp`. Returns the half-slot after it.
    #[inline]
    pub(crate) fn write(
        &mut self,
        wp: u32,
        halves: u32,
        command: &[u8],
        payload: &[u8],
    ) -> Result<u32, EmitError> {
        self.producer.write_command(wp, halves, command, payload)
    }

    /// The bytes of the commands that lie in the ring between the write pointer and half-slot `wp`,
    /// with their padding.
    pub(crate) fn bytes(&self, wp: u32) -> Vec<u8> {
        let Producer { ring, bus, .. } = &self.producer;
        let mut bytes = Vec::new();
        let mut at = ring.wp;
        while at != wp {
            for offset in (0..32).step_by(8) {
                let word = bus.read_ring(at as usize * 32 + offset);
                bytes.extend(word.to_ne_bytes());
            }
            at = ring.advance(at, 1);
        }
        bytes
    }

    /// Hands the commands up to half-slot `wp` to the NIC by doorbell.
    #[inline]
    pub(crate) fn commit_doorbell(&mut self, wp: u32) {
        self.producer.ring.wp = wp;
        self.producer.doorbell();
        self.launched();
    }

    /// Hands the commands up to half-slot `wp` to the NIC: the first one or two slots through a
    /// low-latency window if they qualify, the rest by doorbell.
    #[inline]
    pub(crate) fn commit_low_latency(&mut self, wp: u32) {
        self.producer.ring.wp = wp;
        self.producer.low_latency();
        self.launched();
    }

    /// Writes a command of `WORDS` words and hands it to the NIC, by low-latency write if it
    /// qualifies and `low_latency` is set, else by doorbell.
    #[inline]
    pub(crate) fn issue<const WORDS: usize>(
        &mut self,
        command: &[u64; WORDS],
        low_latency: bool,
    ) -> Result<(), EmitError> {
        self.producer.issue(command, low_latency)?;
        self.launched();
        Ok(())
    }

    /// Notes for observers what the NIC was told, and runs a software NIC.
    #[inline]
    fn launched(&self) {
        self.registration.set_written(self.producer.ring.hw_wp / 2);
        self.progress.run();
    }

    pub(crate) fn release(&mut self) -> Result<(), Error> {
        self.registration.end();
        self.object.release()
    }
}
