//! Memory, queues and portals: arguments that are refused, limits, and the order of release
//! (libcxi.md 7, 8, 10, 11).

mod driver;

use std::ffi::c_void;
use std::ptr::null_mut;

use cxi_sys::*;
use driver::alone::alone;
use driver::call;
use driver::event_queue::{EventQueue, attributes};
use driver::memory::{Buffer, PAGE, Pages, RW};
use driver::queue::{Queue, options};
use driver::rig::{Rig, VNI, alloc_cp, alloc_domain, alloc_lni, pte_options};
use libc::{E2BIG, EBUSY, EEXIST, EFAULT, EINVAL, ENOSPC, EOPNOTSUPP, EOVERFLOW, EPERM};

fn is_root() -> bool {
    // SAFETY: no requirements.
    unsafe { libc::geteuid() == 0 }
}

fn map(lni: *mut cxil_lni, va: *mut u8, len: usize, flags: u32) -> i32 {
    let mut md = null_mut();
    -call!(cxil_map(lni, va.cast(), len, flags, null_mut(), &mut md))
}

#[test]
fn memory_that_cannot_be_mapped() {
    alone(|| {
        let rig = Rig::new();
        let pages = Pages::new(PAGE);
        let to = |va: *mut u8, len, flags| map(rig.lni, va, len, flags);
        assert_eq!(to(pages.base, 0, RW), EINVAL);
        assert_eq!(to(pages.base, PAGE, RW | CXI_MAP_FAULT), EINVAL);
        assert_eq!(to(pages.base, PAGE, RW | CXI_MAP_PREFETCH), EINVAL);
        assert_eq!(to(pages.base, PAGE, RW & !CXI_MAP_PIN), EOPNOTSUPP);
        assert_eq!(to(pages.base, PAGE, RW | CXI_MAP_ATS), EOPNOTSUPP);
        assert_eq!(to(pages.base, PAGE, RW | CXI_MAP_DEVICE), EINVAL);
        assert_eq!(to(pages.base, usize::MAX, RW), EOVERFLOW);
        assert_eq!(to(null_mut(), PAGE, RW), EFAULT);
        static CONSTANT: [u8; 8] = [7; 8];
        assert_eq!(to(CONSTANT.as_ptr().cast_mut(), 8, RW), EFAULT);
        assert_eq!(
            to(CONSTANT.as_ptr().cast_mut(), 8, CXI_MAP_PIN | CXI_MAP_READ),
            0
        );
        assert_eq!(map(null_mut(), pages.base, PAGE, RW), EINVAL);
        let (va, hints, nowhere) = (pages.base.cast(), null_mut(), null_mut());
        assert_eq!(
            call!(cxil_map(rig.lni, va, PAGE, RW, hints, nowhere)),
            -EINVAL
        );
        assert_eq!(call!(cxil_unmap(null_mut())), -EINVAL);
    });
}

#[test]
fn mappings_cover_whole_pages() {
    alone(|| {
        let rig = Rig::new();
        let pages = Pages::new(3 * PAGE);
        let mut md = null_mut();
        let va: *mut c_void = pages.base.wrapping_add(PAGE - 1).cast();
        assert_eq!(call!(cxil_map(rig.lni, va, 3, RW, null_mut(), &mut md)), 0);
        // SAFETY: just made.
        let md = unsafe { *md };
        assert_eq!((md.va, md.len), (pages.base.addr() as u64, 2 * PAGE));
        assert!(md.lac < 8);
        assert_eq!(md.iova % PAGE as u64, 0);
        assert_ne!(md.iova, md.va, "nothing may depend on that");
    });
}

#[test]
fn eight_kinds_of_mappings() {
    alone(|| {
        let rig = Rig::new();
        let lni = alloc_lni(rig.dev);
        let pages = Pages::new(PAGE);
        let kind = |number: u32| {
            let direction = number << 2 & (CXI_MAP_READ | CXI_MAP_WRITE);
            let cache = if number & 4 != 0 { CXI_MAP_NOCACHE } else { 0 };
            CXI_MAP_PIN | direction | cache
        };
        for number in 0..8 {
            assert_eq!(map(lni, pages.base, PAGE, kind(number)), 0);
        }
        assert_eq!(
            map(lni, pages.base, PAGE, kind(3)),
            0,
            "of a kind that is there"
        );
        let ninth = CXI_MAP_PIN | CXI_MAP_USER_ADDR;
        assert_eq!(map(lni, pages.base, PAGE, ninth), ENOSPC);
        assert_eq!(map(rig.lni, pages.base, PAGE, ninth), 0, "of another LNI");
    });
}

/// The errno of creating an event queue whose attributes are changed.
fn evtq(lni: *mut cxil_lni, buffer: &Buffer, change: impl FnOnce(&mut cxi_eq_attr)) -> i32 {
    let mut attributes = attributes(buffer.pages.base.cast(), PAGE);
    change(&mut attributes);
    let mut eq = null_mut();
    let (md, none) = (buffer.md, null_mut());
    -call!(cxil_alloc_evtq(
        lni,
        md,
        &attributes,
        none,
        null_mut(),
        &mut eq
    ))
}

#[test]
fn event_queues_that_cannot_be() {
    alone(|| {
        let rig = Rig::new();
        let lni = rig.lni;
        let buffer = rig.buffer(2 * PAGE);
        let refused = |change: fn(&mut cxi_eq_attr)| evtq(lni, &buffer, change);
        assert_eq!(refused(|_| {}), 0);
        assert_eq!(refused(|a| a.queue_len = 0), EINVAL);
        assert_eq!(refused(|a| a.queue_len = PAGE - 64), EINVAL);
        assert_eq!(
            refused(|a| a.queue_len = 3 * PAGE),
            EINVAL,
            "beyond its mapping"
        );
        assert_eq!(refused(|a| a.queue = a.queue.wrapping_byte_add(64)), EINVAL);
        assert_eq!(
            refused(|a| a.queue = a.queue.wrapping_byte_sub(PAGE)),
            EINVAL
        );
        assert_eq!(refused(|a| a.queue = null_mut()), EINVAL);
        assert_eq!(refused(|a| a.reserved_slots = 63), 0);
        assert_eq!(refused(|a| a.reserved_slots = 64), EINVAL);
        assert_eq!(refused(|a| a.status_thresh_base = 101), EINVAL);
        assert_eq!(refused(|a| a.status_thresh_delta = 101), EINVAL);
        assert_eq!(refused(|a| a.status_thresh_count = 5), EINVAL);
        let thresholds = |a: &mut cxi_eq_attr, base| {
            (
                a.status_thresh_base,
                a.status_thresh_delta,
                a.status_thresh_count,
            ) = (base, 20, 4);
        };
        assert_eq!(evtq(lni, &buffer, |a| thresholds(a, 60)), 0);
        assert_eq!(evtq(lni, &buffer, |a| thresholds(a, 59)), EINVAL);
        let registers = refused(|a| a.flags |= u64::from(CXI_EQ_REGISTER_PCT));
        assert_eq!(registers, if is_root() { EEXIST } else { EPERM });
        let contiguous = refused(|a| {
            a.flags |= u64::from(CXI_EQ_PASSTHROUGH);
            a.queue_len = 2 * PAGE;
        });
        assert_eq!(contiguous, EINVAL);
        // The mapping must let the NIC write, and be of the same LNI.
        let unwritable = Buffer::new(lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
        assert_eq!(evtq(lni, &unwritable, |_| {}), EINVAL);
        assert_eq!(evtq(alloc_lni(rig.dev), &buffer, |_| {}), EINVAL);
        let unmapped = Buffer {
            md: null_mut(),
            ..buffer
        };
        assert_eq!(evtq(lni, &unmapped, |_| {}), EINVAL);
        // A wait object of another interface.
        let attributes = attributes(buffer.pages.base.cast(), PAGE);
        let (md, mut eq) = (buffer.md, null_mut());
        let mut foreign = null_mut();
        // SAFETY: an interface of this device, and room for the handle.
        let code = unsafe { cxil_alloc_wait_obj(alloc_lni(rig.dev), &mut foreign) };
        assert_eq!(code, 0);
        for (event, status) in [(foreign, null_mut()), (null_mut(), foreign)] {
            let code = call!(cxil_alloc_evtq(
                lni,
                md,
                &attributes,
                event,
                status,
                &mut eq
            ));
            assert_eq!(code, -EINVAL);
        }
        let (none, nowhere) = (null_mut(), null_mut());
        let code = call!(cxil_alloc_evtq(
            lni,
            md,
            &attributes,
            none,
            null_mut(),
            nowhere
        ));
        assert_eq!(code, -EINVAL);
        let code = call!(cxil_alloc_evtq(
            lni,
            md,
            std::ptr::null(),
            none,
            null_mut(),
            &mut eq
        ));
        assert_eq!(code, -EINVAL);
        assert_eq!(evtq(null_mut(), &buffer, |_| {}), EINVAL);
        assert_eq!(call!(cxil_destroy_evtq(null_mut())), -EINVAL);
    });
}

#[test]
fn objects_of_different_devices_do_not_mix() {
    alone(|| {
        let (rig, other) = (Rig::new(), Rig::new());
        // Numbers are the same on both, so that only the device tells them apart.
        let (buffer, foreign) = (rig.buffer(PAGE), other.buffer(PAGE));
        let disguised = Buffer {
            md: foreign.md,
            ..buffer
        };
        assert_eq!(evtq(rig.lni, &disguised, |_| {}), EINVAL);
        let mut cq = null_mut();
        let eq = other.eq.handle;
        assert_eq!(
            call!(cxil_alloc_cmdq(rig.lni, eq, &options(), &mut cq)),
            -EINVAL
        );
        let (mut opts, mut pte) = (pte_options(), null_mut());
        assert_eq!(
            call!(cxil_alloc_pte(rig.lni, eq, &mut opts, &mut pte)),
            -EINVAL
        );
        let portal = rig.portal(0, |_| {});
        let mut mapped = null_mut();
        let code = call!(cxil_map_pte(
            portal.handle,
            other.domain,
            1,
            false,
            &mut mapped
        ));
        assert_eq!(code, -EINVAL);
    });
}

/// The errno of creating a command queue, or its size.
fn cmdq(lni: *mut cxil_lni, change: impl FnOnce(&mut cxi_cq_alloc_opts)) -> Result<u32, i32> {
    let mut options = options();
    options.flags = CXI_CQ_IS_TX;
    change(&mut options);
    let mut cq = null_mut();
    match call!(cxil_alloc_cmdq(lni, null_mut(), &options, &mut cq)) {
        // SAFETY: just made.
        0 => Ok(unsafe { (*cq).size }),
        code => Err(-code),
    }
}

#[test]
fn command_queues_that_cannot_be() {
    alone(|| {
        let rig = Rig::new();
        let refused = |change: fn(&mut cxi_cq_alloc_opts)| cmdq(rig.lni, change);
        for (asked, size) in [(0, 64), (1, 64), (65, 128), (65536, 65536)] {
            assert_eq!(cmdq(rig.lni, |o| o.count = asked), Ok(size));
        }
        assert_eq!(refused(|o| o.count = 65537), Err(E2BIG));
        assert_eq!(refused(|o| o.count = u32::MAX), Err(E2BIG));
        assert_eq!(refused(|o| o.policy = 4), Err(EINVAL));
        assert_eq!(refused(|o| o.lpe_cdt_thresh_id = 4), Err(EINVAL));
        assert_eq!(refused(|o| o.lcid = 1), Err(EINVAL), "no such profile");
        assert_eq!(refused(|o| o.lcid = 16), Err(EINVAL));
        assert_eq!(refused(|o| o.lcid = u32::MAX), Err(EINVAL));
        alloc_cp(rig.lni, 10);
        assert_eq!(refused(|o| o.lcid = 1), Ok(64));
        let trigger = refused(|o| {
            o.flags |= CXI_CQ_TX_WITH_TRIG_CMDS;
            o.lcid = 1;
        });
        assert_eq!(trigger, Err(EINVAL));
        assert_eq!(refused(|o| o.flags |= CXI_CQ_TX_WITH_TRIG_CMDS), Ok(64));
        let ethernet = refused(|o| o.flags |= CXI_CQ_TX_ETHERNET);
        assert_eq!(ethernet, Err(if is_root() { EOPNOTSUPP } else { EPERM }));
        assert_eq!(
            cmdq(alloc_lni(rig.dev), |_| {}),
            Err(EINVAL),
            "without any profile"
        );
        assert_eq!(
            cmdq(alloc_lni(rig.dev), |o| o.flags = 0),
            Ok(64),
            "needs none"
        );
        assert_eq!(cmdq(null_mut(), |_| {}), Err(EINVAL));
        let (lni, none) = (rig.lni, null_mut());
        assert_eq!(
            call!(cxil_alloc_cmdq(lni, none, &options(), null_mut())),
            -EINVAL
        );
        let mut cq = null_mut();
        assert_eq!(
            call!(cxil_alloc_cmdq(lni, none, std::ptr::null(), &mut cq)),
            -EINVAL
        );
        assert_eq!(call!(cxil_destroy_cmdq(null_mut())), -EINVAL);
    });
}

#[test]
fn portals_that_cannot_be() {
    alone(|| {
        let rig = Rig::new();
        let other = alloc_lni(rig.dev);
        let (mut opts, mut pte) = (pte_options(), null_mut());
        let eq = rig.teq.handle;
        assert_eq!(
            call!(cxil_alloc_pte(other, eq, &mut opts, &mut pte)),
            -EINVAL
        );
        assert_eq!(
            call!(cxil_alloc_pte(rig.lni, eq, null_mut(), &mut pte)),
            -EINVAL
        );
        assert_eq!(
            call!(cxil_alloc_pte(rig.lni, eq, &mut opts, null_mut())),
            -EINVAL
        );
        assert_eq!(
            call!(cxil_alloc_pte(null_mut(), eq, &mut opts, &mut pte)),
            -EINVAL
        );
        opts.set_ethernet(1);
        let ethernet = call!(cxil_alloc_pte(rig.lni, eq, &mut opts, &mut pte));
        assert_eq!(ethernet, if is_root() { -EOPNOTSUPP } else { -EPERM });

        let portal = rig.portal(0, |_| {});
        let mut mapped = null_mut();
        let domain = alloc_domain(other, VNI, C_PID_ANY);
        let mut map = |domain, index, multicast| {
            call!(cxil_map_pte(
                portal.handle,
                domain,
                index,
                multicast,
                &mut mapped
            ))
        };
        assert_eq!(map(rig.domain, 256, false), -EINVAL);
        assert_eq!(map(rig.domain, u32::MAX, false), -EINVAL);
        assert_eq!(map(domain, 1, false), -EINVAL, "of another LNI");
        assert_eq!(map(rig.domain, 1, true), -EOPNOTSUPP);
        assert_eq!(map(null_mut(), 1, false), -EINVAL);
        assert_eq!(
            map(rig.domain, 0, false),
            0,
            "an index in use is not refused"
        );
        for code in [
            call!(cxil_map_pte(null_mut(), rig.domain, 1, false, &mut mapped)),
            call!(cxil_map_pte(
                portal.handle,
                rig.domain,
                1,
                false,
                null_mut()
            )),
            call!(cxil_unmap_pte(null_mut())),
            call!(cxil_destroy_pte(null_mut())),
        ] {
            assert_eq!(code, -EINVAL);
        }
    });
}

#[test]
fn limits_of_the_nic() {
    alone(|| {
        let rig = Rig::new();
        // The rig has two event queues and one queue of each kind.
        let buffer = rig.buffer(PAGE);
        for _ in 2..2047 {
            assert_eq!(evtq(rig.lni, &buffer, |_| {}), 0);
        }
        assert_eq!(evtq(rig.lni, &buffer, |_| {}), ENOSPC);
        for (flags, limit) in [(CXI_CQ_IS_TX, 1024), (0, 512)] {
            for _ in 1..limit {
                assert_eq!(cmdq(rig.lni, |o| o.flags = flags), Ok(64));
            }
            assert_eq!(cmdq(rig.lni, |o| o.flags = flags), Err(ENOSPC));
        }
        let portals: Vec<_> = (0..2047).map(|n| rig.portal(n % 256, |_| {})).collect();
        let (mut opts, mut pte) = (pte_options(), null_mut());
        let code = call!(cxil_alloc_pte(rig.lni, null_mut(), &mut opts, &mut pte));
        assert_eq!(code, -ENOSPC);
        let mut mapped = null_mut();
        let mut map = || {
            call!(cxil_map_pte(
                portals[0].handle,
                rig.domain,
                7,
                false,
                &mut mapped
            ))
        };
        for _ in 2047..2560 {
            assert_eq!(map(), 0);
        }
        assert_eq!(map(), -ENOSPC);
        assert_eq!(call!(cxil_unmap_pte(portals[9].map)), 0);
        assert_eq!(map(), 0);
    });
}

#[test]
fn held_objects_are_busy() {
    alone(|| {
        let rig = Rig::new();
        let lni = alloc_lni(rig.dev);
        let domain = alloc_domain(lni, VNI, C_PID_ANY);
        let cp = alloc_cp(lni, VNI);
        let eq = EventQueue::new(rig.dev, lni, CXI_EQ_EC_DISABLE);
        let transmit = Queue::with(rig.dev, lni, eq.handle, |o| o.flags = CXI_CQ_IS_TX);
        let target = Queue::with(rig.dev, lni, eq.handle, |_| {});
        let (mut opts, mut pte) = (pte_options(), null_mut());
        assert_eq!(
            call!(cxil_alloc_pte(lni, eq.handle, &mut opts, &mut pte)),
            0
        );
        let mut mapped = null_mut();
        assert_eq!(call!(cxil_map_pte(pte, domain, 3, false, &mut mapped)), 0);

        let busy = |what: &str, code: i32| assert_eq!(code, -EBUSY, "{what}");
        let freed = |what: &str, code: i32| assert_eq!(code, 0, "{what}");
        let lni_busy = || busy("LNI", call!(cxil_destroy_lni(lni)));
        lni_busy();
        busy("domain", call!(cxil_destroy_domain(domain)));
        busy("PTE", call!(cxil_destroy_pte(pte)));
        busy("EQ", call!(cxil_destroy_evtq(eq.handle)));
        busy("MD", call!(cxil_unmap(eq.buffer.md)));
        freed("mapping", call!(cxil_unmap_pte(mapped)));
        freed("domain", call!(cxil_destroy_domain(domain)));
        busy("EQ", call!(cxil_destroy_evtq(eq.handle)));
        freed("PTE", call!(cxil_destroy_pte(pte)));
        busy("EQ", call!(cxil_destroy_evtq(eq.handle)));
        lni_busy();
        freed("transmit queue", call!(cxil_destroy_cmdq(transmit.handle)));
        busy("EQ", call!(cxil_destroy_evtq(eq.handle)));
        freed("target queue", call!(cxil_destroy_cmdq(target.handle)));
        busy("MD", call!(cxil_unmap(eq.buffer.md)));
        freed("EQ", call!(cxil_destroy_evtq(eq.handle)));
        lni_busy();
        freed("MD", call!(cxil_unmap(eq.buffer.md)));
        lni_busy();
        freed("profile", call!(cxil_destroy_cp(cp)));
        freed("LNI", call!(cxil_destroy_lni(lni)));
    });
}

/// Each kind of user of an event queue holds it by itself.
#[test]
fn an_event_queue_is_busy_for_each_of_its_users() {
    alone(|| {
        let rig = Rig::new();
        let free = |eq: &EventQueue| call!(cxil_destroy_evtq(eq.handle));
        for flags in [CXI_CQ_IS_TX, 0] {
            let eq = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
            let queue = Queue::with(rig.dev, rig.lni, eq.handle, |o| o.flags = flags);
            assert_eq!(free(&eq), -EBUSY);
            assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
            assert_eq!(free(&eq), 0);
        }
        let eq = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
        let (mut opts, mut pte) = (pte_options(), null_mut());
        assert_eq!(
            call!(cxil_alloc_pte(rig.lni, eq.handle, &mut opts, &mut pte)),
            0
        );
        assert_eq!(free(&eq), -EBUSY);
        assert_eq!(call!(cxil_destroy_pte(pte)), 0);
        assert_eq!(free(&eq), 0);
    });
}

/// Each kind of object holds its LNI by itself.
#[test]
fn an_lni_is_busy_for_each_of_its_objects() {
    alone(|| {
        let rig = Rig::new();
        let lni = alloc_lni(rig.dev);
        let busy = || assert_eq!(call!(cxil_destroy_lni(lni)), -EBUSY);
        let cp = alloc_cp(lni, VNI);
        busy();
        assert_eq!(call!(cxil_destroy_cp(cp)), 0);
        let domain = alloc_domain(lni, VNI, C_PID_ANY);
        busy();
        assert_eq!(call!(cxil_destroy_domain(domain)), 0);
        let buffer = Buffer::new(lni, PAGE, RW);
        busy();
        assert_eq!(call!(cxil_unmap(buffer.md)), 0);
        let queue = Queue::target(rig.dev, lni);
        busy();
        assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
        let (mut opts, mut pte) = (pte_options(), null_mut());
        assert_eq!(
            call!(cxil_alloc_pte(lni, null_mut(), &mut opts, &mut pte)),
            0
        );
        busy();
        assert_eq!(call!(cxil_destroy_pte(pte)), 0);
        assert_eq!(call!(cxil_destroy_lni(lni)), 0);
    });
}

/// Nothing holds a profile: a queue that lost its own reports that as a command it may not give.
#[test]
fn a_profile_may_go_before_its_queue() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        assert_eq!(call!(cxil_destroy_cp(rig.cp)), 0);
        let put = rig.nomatch_put(&source, 0, 8, |_| {});
        rig.tx.emit(&put);
        rig.tx.ring();
        let code = rig.tx.wait_error().return_code();
        assert_eq!(u32::from(code), C_RC_PERM_VIOLATION);
    });
}

#[test]
fn a_portal_goes_with_its_entries() {
    alone(|| {
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        // More than the NIC has list entries, were they not given back.
        for _ in 0..5 {
            let portal = rig.target(0, &sink);
            for _ in 0..4095 {
                rig.tgt
                    .emit(&driver::commands::append(portal.number, |entry| {
                        entry.set_event_link_disable(true);
                    }));
                rig.tgt.ring();
            }
            rig.tgt.drain();
            assert_eq!(call!(cxil_unmap_pte(portal.map)), 0);
            assert_eq!(call!(cxil_destroy_pte(portal.handle)), 0);
        }
        assert_eq!(rig.teq.poll(), None, "no append failed");
    });
}
