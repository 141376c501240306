//! What libcxi and the driver return: queues, counters, portals.

use cxi::attempt::{self, EventQueuePages};
use cxi::sys::*;
use cxi::{CommunicationProfile, Counter, Domain, Error, EventQueue, PortalTableEntry};
use rustix::thread::{CapabilitySet, capabilities};

use crate::bench::{Bench, Checked, ensure, equal, refused, skipped};
use crate::table::{CheckGroup, FactCheck, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "queue-calls", checks: CHECKS };

const CHECKS: &[FactCheck] = &[
    stated("event-queue-length", "libcxi.md 8.1", |bench| {
        for length in [0, 64, page() - 64, page() + 64] {
            let queue = event_queue(bench, PAGES, |queue| queue.queue_len = length);
            refused(libc::EINVAL, queue)?;
        }
        Ok(event_queue(bench, PAGES, |_| {}).map(drop)?)
    })
    .shows("the length of an event queue is a nonzero multiple of the page size, else EINVAL"),
    stated("event-queue-alignment", "libcxi.md 8.1", |bench| {
        let pages = EventQueuePages { offset: 64, ..PAGES };
        refused(libc::EINVAL, event_queue(bench, pages, |_| {}))
    })
    .shows("an event queue begins at a page, else EINVAL"),
    stated("event-queue-without-mapping", "libcxi.md 8.1", |bench| {
        let pages = EventQueuePages { mapped: 0, ..PAGES };
        refused(libc::EINVAL, event_queue(bench, pages, |_| {}))
    })
    .shows("an event queue without mapping and without PASSTHROUGH is EINVAL"),
    stated("event-queue-outside-mapping", "libcxi.md 8.1", |bench| {
        let pages = EventQueuePages { mapped: 1, ..PAGES };
        refused(libc::EINVAL, event_queue(bench, pages, |queue| queue.queue_len = 2 * page()))
    })
    .shows("an event queue that its mapping does not contain is EINVAL"),
    stated("event-queue-read-only-mapping", "libcxi.md 8.1", |bench| {
        let pages = EventQueuePages { is_writable: false, ..PAGES };
        Ok(event_queue(bench, pages, |_| {}).map(drop)?)
    })
    .shows("an event queue in a mapping without WRITE is accepted"),
    stated("event-queue-thresholds", "libcxi.md 8.1", |bench| {
        for (base, delta, count) in [(101, 0, 1), (50, 101, 1), (50, 1, 5), (50, 40, 4)] {
            let queue = event_queue(bench, PAGES, |queue| {
                queue.status_thresh_base = base;
                queue.status_thresh_delta = delta;
                queue.status_thresh_count = count;
            });
            refused(libc::EINVAL, queue)?;
        }
        Ok(())
    })
    .shows("status thresholds above 100 % or more than 4 are EINVAL"),
    stated("event-queue-reserved-slots", "libcxi.md 8.1", |bench| {
        let slots = (page() / 64) as u32;
        let reserve = |slots| event_queue(bench, PAGES, |queue| queue.reserved_slots = slots);
        refused(libc::EINVAL, reserve(slots))?;
        Ok(reserve(slots - 1).map(drop)?)
    })
    .shows("more reserved slots than the queue has, less one, are EINVAL"),
    stated("event-queue-clears-memory", "libcxi.md 8.1", |bench| {
        let is_zero = event_queue(bench, PAGES, |_| {})?;
        ensure(is_zero, "memory of zeros", "other bytes")
    })
    .shows("the library clears the memory of an event queue"),
    stated("event-queue-pct", "libcxi.md 8.1", |bench| {
        if has_capability(CapabilitySet::SYS_ADMIN) {
            return skipped("this process has CAP_SYS_ADMIN");
        }
        let queue = event_queue(bench, PAGES, |queue| queue.flags = CXI_EQ_REGISTER_PCT.into());
        refused(libc::EPERM, queue)
    })
    .shows("REGISTER_PCT without CAP_SYS_ADMIN is EPERM"),
    stated("command-queue-sizes", "libcxi.md 8.2", |bench| {
        let page = page() as u32 / 64;
        for count in [0, 1, page, page + 1, 2 * page + 1, 4 * page + 1] {
            let slots = command_queue(bench, |options| options.count = count)?;
            let expected = page * count.max(page).div_ceil(page).next_power_of_two();
            equal(format_args!("slots for {count}"), slots, expected)?;
        }
        Ok(())
    })
    .shows("a command queue has 64 slots or more, in a power-of-two number of pages"),
    stated("command-queue-limit", "libcxi.md 8.2", |bench| {
        refused(libc::E2BIG, command_queue(bench, |options| options.count = 65537))
    })
    .shows("a command queue of more than 65536 slots is E2BIG"),
    stated("command-queue-policy", "libcxi.md 8.2", |bench| {
        refused(libc::EINVAL, command_queue(bench, |options| options.policy = 4))?;
        command_queue(bench, |options| options.lpe_cdt_thresh_id = 4)?;
        let threshold = command_queue(bench, |options| {
            (options.flags, options.lpe_cdt_thresh_id) = (0, 4);
        });
        refused(libc::EINVAL, threshold)
    })
    .shows(
        "a policy above 3 is EINVAL, and so is a threshold id above 3 of a target queue, which \
         transmit queues do not have",
    ),
    stated("command-queue-lcid", "libcxi.md 8.2", |bench| {
        refused(libc::EINVAL, command_queue(bench, |options| options.lcid = 15))
    })
    .shows("a transmit queue with an LCID without profile is EINVAL"),
    stated("trigger-queue-lcid", "libcxi.md 8.2", |bench| {
        bench.nic.needs_best_effort()?;
        let (vni, class) = (bench.nic.vni, bench.nic.class);
        let ty = CXI_TC_TYPE_RESTRICTED;
        let other = CommunicationProfile::new(&bench.lni, vni, class, ty)?;
        let queue = command_queue(bench, |options| {
            options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
            options.lcid = other.lcid();
        });
        refused(libc::EINVAL, queue)
    })
    .shows("a trigger queue with another LCID than 0 is EINVAL"),
    stated("ethernet-queue", "libcxi.md 8.2", |bench| {
        if has_capability(CapabilitySet::NET_RAW) {
            return skipped("this process has CAP_NET_RAW");
        }
        let queue = command_queue(bench, |options| {
            options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_ETHERNET;
        });
        refused(libc::EPERM, queue)
    })
    .shows("an Ethernet queue without CAP_NET_RAW is EPERM"),
    stated("counter-alignment", "libcxi.md 8.4", |bench| {
        refused(libc::EINVAL, attempt::counter(&bench.lni, 4))?;
        Ok(attempt::counter(&bench.lni, 8)?)
    })
    .shows("a write-back word that is not aligned to 8 bytes is EINVAL"),
    stated("portal-index", "libcxi.md 8.3", |bench| {
        let mut entry = PortalTableEntry::new(&bench.lni, &bench.events, false)?;
        let granule = bench.nic.device.info().pid_granule;
        refused(libc::EINVAL, entry.map(&bench.domain, granule))?;
        entry.map(&bench.domain, granule - 1)?;
        entry.close()?;
        Ok(())
    })
    .shows("mapping a portal at pid_granule or above is EINVAL, at the index below it succeeds"),
    stated("portal-other-interface", "libcxi.md 8.3", |bench| {
        let lni = bench.nic.lni()?;
        let domain = Domain::new(&lni, bench.nic.vni, C_PID_ANY)?;
        let mut entry = PortalTableEntry::new(&bench.lni, &bench.events, false)?;
        refused(libc::EINVAL, entry.map(&domain, 0))
    })
    .shows("mapping a portal in a domain of another LNI is EINVAL"),
    stated("portal-index-twice", "libcxi.md 8.3", |bench| {
        let mut entries = Vec::new();
        for _ in 0..2 {
            let mut entry = PortalTableEntry::new(&bench.lni, &bench.events, false)?;
            let mapped = entry.map(&bench.domain, 7);
            mapped.map_err(|error| crate::bench::differs("a mapping", error))?;
            entries.push(entry);
        }
        Ok(())
    })
    .shows("a second portal at an index that is in use is not refused"),
    stated("numbers-from-1", "nic.md 0", |bench| {
        let entry = PortalTableEntry::new(&bench.lni, &bench.events, false)?;
        let counter = Counter::new(&bench.lni)?;
        for (what, number) in [
            ("event queue", bench.events.number()),
            ("portals table entry", entry.number()),
            ("counter", counter.number()),
        ] {
            let is_valid = (1..2048).contains(&number);
            ensure(is_valid, format_args!("{what}: 1 to 2047"), number)?;
        }
        Ok(())
    })
    .shows("event queues, counters and portals have numbers from 1 to 2047"),
    stated("use-of-service", "libcxi.md 10", use_of_service).shows(
        "the service counts each event queue, counter, transmit and target queue and portal, also \
         a destroyed one, until its LNI ends",
    ),
];

fn page() -> usize {
    cxi::page_size()
}

const PAGES: EventQueuePages =
    EventQueuePages { memory: 2, mapped: 2, is_writable: true, offset: 0 };

/// Allocates an event queue of one page with attributes changed by `change`. Returns whether its
/// memory was zero.
fn event_queue(
    bench: &Bench,
    pages: EventQueuePages,
    change: impl FnOnce(&mut cxi_eq_attr),
) -> Result<bool, Error> {
    let mut attributes = cxi_eq_attr {
        queue: std::ptr::null_mut(),
        queue_len: page(),
        flags: CXI_EQ_EC_DISABLE.into(),
        status_thresh_base: 0,
        status_thresh_delta: 0,
        status_thresh_count: 0,
        ec_delay: 0,
        cpu_affinity: 0,
        reserved_slots: 0,
    };
    change(&mut attributes);
    attempt::event_queue(&bench.lni, pages, &attributes)
}

/// Allocates a transmit queue with options changed by `change`, and returns its slots.
fn command_queue(bench: &Bench, change: impl FnOnce(&mut cxi_cq_alloc_opts)) -> Result<u32, Error> {
    let mut options = cxi_cq_alloc_opts {
        count: 1,
        policy: CXI_CQ_UPDATE_ALWAYS,
        stat_cnt_pool: 0,
        flags: CXI_CQ_IS_TX,
        lcid: bench.profile.lcid(),
        lpe_cdt_thresh_id: 0,
    };
    change(&mut options);
    attempt::command_queue(&bench.lni, None, &options)
}

/// Whether the process has a capability. Root of a container may lack it.
fn has_capability(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// Other processes begin and end meanwhile, so the counts are compared with what this process
/// holds.
fn use_of_service(bench: &mut Bench) -> Checked {
    let at_least = |bench: &Bench, when: &str| {
        let Some(counts) = bench.nic.device.in_use(bench.nic.service)? else {
            return skipped("the library does not count");
        };
        // The objects of the bench, and one more of each kind.
        for ((name, count), held) in cxi::RESOURCES.iter().zip(counts).zip([1, 2, 2, 2, 1]) {
            let fact = format_args!("{when}: {held} or more {name} in use");
            if let Some(count) = count {
                ensure(count >= held, fact, count)?;
            }
        }
        Ok(())
    };
    let events = EventQueue::new(&bench.lni, 1, 0)?;
    let counter = Counter::new(&bench.lni)?;
    let entry = PortalTableEntry::new(&bench.lni, &events, false)?;
    let transmit = cxi::TransmitQueue::new(&bench.profile, 1, &events, None)?;
    let target = cxi::TargetQueue::new(&bench.lni, 1, None)?;
    at_least(bench, "allocated")?;
    transmit.close()?;
    target.close()?;
    entry.close()?;
    counter.close()?;
    events.close()?;
    at_least(bench, "destroyed")
}
