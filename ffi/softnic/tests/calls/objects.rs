//! Memory, queues and portals: rejected arguments, limits, the order of release, and command queues
//! in the caller's memory (libcxi.md 7, 8, 10, 11; nic.md 9.3).

use std::ffi::c_void;

use crate::driver::prelude::*;
use crate::memory::{PRIVATE, READ_WRITE, mmap};

fn map(lni: *mut cxil_lni, va: *mut u8, len: usize, flags: u32) -> i32 {
    let mut md = null_mut();
    -call!(cxil_map(lni, va.cast(), len, flags, null_mut(), &mut md))
}

#[test]
fn rejects_unmappable_memory() {
    alone!();
    let rig = Rig::new();
    let base = Pages::new(2 * PAGE).base;
    let hole = mmap(null_mut(), 2 * PAGE, READ_WRITE, PRIVATE, -1);
    let second = hole.wrapping_add(PAGE).cast();
    // SAFETY: the test's own page, which nothing uses.
    assert_eq!(unsafe { libc::munmap(second, PAGE) }, 0);
    static CONSTANT: [u8; 8] = [7; 8];
    let constant = CONSTANT.as_ptr().cast_mut();
    for (va, len, flags, code) in [
        (base, 0, RW, EINVAL),
        (base, PAGE, RW | CXI_MAP_FAULT, EINVAL),
        (base, PAGE, RW | CXI_MAP_PREFETCH, EINVAL),
        (base, PAGE, RW | CXI_MAP_ATS, EOPNOTSUPP),
        (base, PAGE, RW | CXI_MAP_DEVICE, ENODEV),
        (base, usize::MAX, RW, EOVERFLOW),
        (null_mut(), PAGE, RW, EFAULT),
        (hole, 2 * PAGE, RW, EFAULT),
        // So that callers try again without CXI_MAP_WRITE.
        (constant, 8, RW, EINVAL),
        (constant, 8, CXI_MAP_PIN | CXI_MAP_WRITE, EINVAL),
        (base, 1 << 57, RW | CXI_MAP_ALLOC_MD, ENOMEM),
        (constant, 8, CXI_MAP_PIN | CXI_MAP_READ, 0),
    ] {
        assert_eq!(map(rig.lni, va, len, flags), code, "{va:?} {len} {flags:#x}");
    }
    assert_eq!(map(null_mut(), base, PAGE, RW), EINVAL);
    let (va, hints, none) = (base.cast(), null_mut(), null_mut());
    assert_eq!(call!(cxil_map(rig.lni, va, PAGE, RW, hints, none)), -EINVAL);
    assert_eq!(call!(cxil_unmap(null_mut())), -EINVAL);
}

#[test]
fn maps_whole_pages() {
    alone!();
    let rig = Rig::new();
    let pages = Pages::new(3 * PAGE);
    let mut md = null_mut();
    let va: *mut c_void = pages.base.wrapping_add(PAGE - 1).cast();
    assert_eq!(call!(cxil_map(rig.lni, va, 3, RW, null_mut(), &mut md)), 0);
    // SAFETY: `cxil_map` has just returned the mapping.
    let md = unsafe { *md };
    assert_eq!((md.va, md.len), (pages.base.addr() as u64, 2 * PAGE));
    assert!(md.lac < 8);
    assert_eq!(md.iova % PAGE as u64, 0);
    assert_ne!(md.iova, md.va, "programs must not depend on equality");
}

#[test]
fn limits_kinds_of_mappings_to_eight() {
    alone!();
    let rig = Rig::new();
    let lni = alloc_lni(rig.dev);
    let pages = Pages::new(PAGE);
    let kind = |number: u32| {
        let direction = number << 2 & (CXI_MAP_READ | CXI_MAP_WRITE);
        let cache = if number & 4 != 0 { CXI_MAP_NOCACHE } else { 0 };
        CXI_MAP_PIN | direction | cache
    };
    // The ninth mapping is of a known kind.
    for number in [0, 1, 2, 3, 4, 5, 6, 7, 3] {
        assert_eq!(map(lni, pages.base, PAGE, kind(number)), 0);
    }
    let ninth = CXI_MAP_PIN | CXI_MAP_USER_ADDR;
    assert_eq!(map(lni, pages.base, PAGE, ninth), ENOSPC);
    assert_eq!(map(rig.lni, pages.base, PAGE, ninth), 0, "another LNI");
}

#[test]
fn keeps_mapping_when_another_of_its_memory_is_unmapped() {
    alone!();
    let (mut rig, source, first) = Rig::with_target();
    source.pages.fill(5);
    let second = Buffer::over(rig.lni, first.pages, RW);
    assert_eq!(second.lac, first.lac);
    first.unmap();
    rig.target(32, &second);
    let put = rig.put_to(rig.dfa(32), &source, 100);
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(second.pages.is(0, 100, 5));
}

/// The errno of creating an event queue with changed attributes.
fn evtq(lni: *mut cxil_lni, buffer: &Buffer, change: impl FnOnce(&mut cxi_eq_attr)) -> i32 {
    let mut attr = attributes(buffer.pages.base.cast(), PAGE);
    change(&mut attr);
    let (md, none, mut eq) = (buffer.md, null_mut(), null_mut());
    -call!(cxil_alloc_evtq(lni, md, &attr, none, none, &mut eq))
}

#[test]
fn rejects_invalid_event_queue_attributes() {
    alone!();
    let rig = Rig::new();
    let lni = rig.lni;
    let buffer = rig.buffer(2 * PAGE);
    type Change = fn(&mut cxi_eq_attr);
    let changes: [(Change, i32); 15] = [
        (|_| {}, 0),
        (|a| a.queue_len = 0, EINVAL),
        (|a| a.queue_len = PAGE - 64, EINVAL),
        (|a| a.queue_len = 3 * PAGE, EINVAL),
        (|a| a.queue = a.queue.wrapping_byte_add(64), EINVAL),
        (|a| a.queue = a.queue.wrapping_byte_sub(PAGE), EINVAL),
        (|a| a.queue = null_mut(), EINVAL),
        (|a| a.reserved_slots = 63, 0),
        (|a| a.reserved_slots = 64, EINVAL),
        (|a| a.status_thresh_base = 101, EINVAL),
        (|a| a.status_thresh_delta = 101, EINVAL),
        (|a| a.status_thresh_count = 5, EINVAL),
        (|a| thresholds(a, 60), 0),
        (|a| thresholds(a, 59), EINVAL),
        // A passthrough queue needs contiguous memory.
        (
            |a| {
                a.flags |= u64::from(CXI_EQ_PASSTHROUGH);
                a.queue_len = 2 * PAGE;
            },
            EINVAL,
        ),
    ];
    fn thresholds(a: &mut cxi_eq_attr, base: u32) {
        a.status_thresh_base = base;
        (a.status_thresh_delta, a.status_thresh_count) = (20, 4);
    }
    for (number, (change, code)) in changes.into_iter().enumerate() {
        assert_eq!(evtq(lni, &buffer, change), code, "change {number}");
    }
    let registers = evtq(lni, &buffer, |a| a.flags |= u64::from(CXI_EQ_REGISTER_PCT));
    assert_eq!(registers, if is_root() { EEXIST } else { EPERM });
    // The mapping must be of the same LNI, with any rights; only passthrough queues need none.
    let unwritable = Buffer::new(lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
    assert_eq!(evtq(lni, &unwritable, |_| {}), 0);
    let unreadable = Buffer::new(lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
    assert_eq!(evtq(lni, &unreadable, |_| {}), 0);
    assert_eq!(evtq(alloc_lni(rig.dev), &buffer, |_| {}), EINVAL);
    let unmapped = Buffer { md: null_mut(), ..buffer };
    assert_eq!(evtq(lni, &unmapped, |_| {}), EINVAL);
    let passthrough = |a: &mut cxi_eq_attr| a.flags |= u64::from(CXI_EQ_PASSTHROUGH);
    assert_eq!(evtq(lni, &unmapped, passthrough), 0);
    assert_eq!(evtq(null_mut(), &buffer, |_| {}), EINVAL);
    let attr = attributes(buffer.pages.base.cast(), PAGE);
    let alloc = |attr, eq| {
        let (md, none) = (buffer.md, null_mut());
        call!(cxil_alloc_evtq(lni, md, attr, none, none, eq))
    };
    let mut eq = null_mut();
    assert_eq!(alloc(&attr, null_mut()), -EINVAL);
    assert_eq!(alloc(null(), &mut eq), -EINVAL);
    assert_eq!(call!(cxil_destroy_evtq(null_mut())), -EINVAL);
    // The memory of a new queue is cleared.
    buffer.pages.fill(0xff);
    assert_eq!(alloc(&attr, &mut eq), 0);
    assert!(buffer.pages.is(0, PAGE, 0));
}

#[test]
fn rejects_objects_of_other_devices() {
    alone!();
    let (rig, other) = (Rig::new(), Rig::new());
    // The numbers are the same on both devices.
    let (buffer, foreign) = (rig.buffer(PAGE), other.buffer(PAGE));
    let disguised = Buffer { md: foreign.md, ..buffer };
    assert_eq!(evtq(rig.lni, &disguised, |_| {}), EINVAL);
    let (eq, mut cq, mut map) = (other.eq.handle, null_mut(), null_mut());
    let code = call!(cxil_alloc_cmdq(rig.lni, eq, &options(), &mut cq));
    assert_eq!(code, -EINVAL);
    assert_eq!(alloc_pte(rig.lni, eq), Err(EINVAL));
    let pte = rig.portal(0, |_| {}).handle;
    let code = call!(cxil_map_pte(pte, other.domain, 1, false, &mut map));
    assert_eq!(code, -EINVAL);
}

/// The slots of a new transmit queue with changed options, or an errno.
fn cmdq(lni: *mut cxil_lni, change: impl FnOnce(&mut cxi_cq_alloc_opts)) -> Result<u32, i32> {
    let (mut options, mut cq) = (options(), null_mut());
    options.flags = CXI_CQ_IS_TX;
    change(&mut options);
    answered(call!(cxil_alloc_cmdq(lni, null_mut(), &options, &mut cq)))?;
    // SAFETY: `cxil_alloc_cmdq` has just returned the queue.
    Ok(unsafe { (*cq).size })
}

#[test]
fn rejects_invalid_command_queue_options() {
    alone!();
    let rig = Rig::new();
    for (count, size) in [
        (0, Ok(64)),
        (1, Ok(64)),
        (65, Ok(128)),
        (257, Ok(512)),
        (16385, Ok(32768)),
        (65536, Ok(65536)),
        (65537, Err(E2BIG)),
        (u32::MAX, Err(E2BIG)),
    ] {
        assert_eq!(cmdq(rig.lni, |o| o.count = count), size, "{count}");
    }
    let alloc = |change: fn(&mut cxi_cq_alloc_opts)| cmdq(rig.lni, change);
    assert_eq!(alloc(|o| o.policy = 4), Err(EINVAL));
    // Only target queues have the threshold id (libcxi.md 8.2).
    assert_eq!(alloc(|o| o.lpe_cdt_thresh_id = 4), Ok(64));
    for (id, slots) in [(3, Ok(64)), (4, Err(EINVAL))] {
        let target = cmdq(rig.lni, |o| (o.flags, o.lpe_cdt_thresh_id) = (0, id));
        assert_eq!(target, slots, "{id}");
    }
    for lcid in [1, 16, u32::MAX] {
        assert_eq!(cmdq(rig.lni, |o| o.lcid = lcid), Err(EINVAL), "{lcid}");
    }
    alloc_cp(rig.lni, 10);
    assert_eq!(alloc(|o| o.lcid = 1), Ok(64));
    let trigger = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
    for (lcid, size) in [(1, Err(EINVAL)), (0, Ok(64))] {
        let found = cmdq(rig.lni, |o| (o.flags, o.lcid) = (trigger, lcid));
        assert_eq!(found, size, "trigger queues have LCID 0");
    }
    let ethernet = alloc(|o| o.flags |= CXI_CQ_TX_ETHERNET);
    assert_eq!(ethernet, Err(if is_root() { EOPNOTSUPP } else { EPERM }));
    // A transmit queue needs a profile, a target queue does not.
    assert_eq!(cmdq(alloc_lni(rig.dev), |_| {}), Err(EINVAL));
    assert_eq!(cmdq(alloc_lni(rig.dev), |o| o.flags = 0), Ok(64));
    assert_eq!(cmdq(null_mut(), |_| {}), Err(EINVAL));
    let (options, mut cq) = (options(), null_mut());
    for (options, cq) in [(&raw const options, null_mut()), (null(), &raw mut cq)] {
        let code = call!(cxil_alloc_cmdq(rig.lni, null_mut(), options, cq));
        assert_eq!(code, -EINVAL);
    }
    assert_eq!(call!(cxil_destroy_cmdq(null_mut())), -EINVAL);
}

#[test]
fn rejects_invalid_portal_arguments() {
    alone!();
    let rig = Rig::new();
    let (other, eq) = (alloc_lni(rig.dev), rig.teq.handle);
    let (mut opts, mut pte) = (pte_options(), null_mut());
    let (none, to) = (null_mut(), &raw mut pte);
    for (lni, opts, to) in [
        (other, &raw mut opts, to),
        (none, &raw mut opts, to),
        (rig.lni, null_mut(), to),
        (rig.lni, &raw mut opts, null_mut()),
    ] {
        assert_eq!(call!(cxil_alloc_pte(lni, eq, opts, to)), -EINVAL);
    }
    opts.set_ethernet(1);
    let ethernet = call!(cxil_alloc_pte(rig.lni, eq, &mut opts, to));
    assert_eq!(ethernet, if is_root() { -EOPNOTSUPP } else { -EPERM });

    let pte = rig.portal(0, |_| {}).handle;
    let (mut map, foreign) = (null_mut(), alloc_domain(other, VNI, C_PID_ANY));
    let map = &raw mut map;
    for (pte, domain, index, multicast, map, code) in [
        (pte, rig.domain, 256, false, map, -EINVAL),
        (pte, rig.domain, u32::MAX, false, map, -EINVAL),
        (pte, foreign, 1, false, map, -EINVAL),
        (pte, rig.domain, 1, true, map, -EOPNOTSUPP),
        (pte, null_mut(), 1, false, map, -EINVAL),
        (null_mut(), rig.domain, 1, false, map, -EINVAL),
        (pte, rig.domain, 1, false, null_mut(), -EINVAL),
        // An index in use is accepted.
        (pte, rig.domain, 0, false, map, 0),
    ] {
        let found = call!(cxil_map_pte(pte, domain, index, multicast, map));
        assert_eq!(found, code, "index {index}");
    }
    assert_eq!(call!(cxil_unmap_pte(null_mut())), -EINVAL);
    assert_eq!(call!(cxil_destroy_pte(null_mut())), -EINVAL);
}

#[test]
fn enforces_limits_of_nic() {
    alone!();
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
    assert_eq!(alloc_pte(rig.lni, null_mut()), Err(ENOSPC));
    let (pte, mut mapped) = (portals[0].handle, null_mut());
    let mut map = || call!(cxil_map_pte(pte, rig.domain, 7, false, &mut mapped));
    for _ in 2047..2560 {
        assert_eq!(map(), 0);
    }
    assert_eq!(map(), -ENOSPC);
    assert_eq!(call!(cxil_unmap_pte(portals[9].map)), 0);
    assert_eq!(map(), 0);
}

#[test]
fn refuses_to_destroy_used_objects() {
    alone!();
    let rig = Rig::new();
    let lni = alloc_lni(rig.dev);
    let domain = alloc_domain(lni, VNI, C_PID_ANY);
    let cp = alloc_cp(lni, VNI);
    let eq = EventQueue::new(rig.dev, lni, CXI_EQ_EC_DISABLE);
    let (handle, md) = (eq.handle, eq.buffer.md);
    let transmit = Queue::with(rig.dev, lni, handle, |o| o.flags = CXI_CQ_IS_TX);
    let target = Queue::with(rig.dev, lni, handle, |_| {});
    let pte = alloc_pte(lni, handle).unwrap();
    let mut map = null_mut();
    assert_eq!(call!(cxil_map_pte(pte, domain, 3, false, &mut map)), 0);

    let lni_code = || call!(cxil_destroy_lni(lni));
    let eq_code = || call!(cxil_destroy_evtq(handle));
    assert_eq!([lni_code(), eq_code()], [-EBUSY; 2]);
    assert_eq!(call!(cxil_destroy_domain(domain)), -EBUSY);
    assert_eq!(call!(cxil_destroy_pte(pte)), -EBUSY);
    assert_eq!(call!(cxil_unmap(md)), -EBUSY);
    assert_eq!(call!(cxil_unmap_pte(map)), 0);
    assert_eq!(call!(cxil_destroy_domain(domain)), 0);
    assert_eq!(eq_code(), -EBUSY);
    assert_eq!(call!(cxil_destroy_pte(pte)), 0);
    assert_eq!([lni_code(), eq_code()], [-EBUSY; 2]);
    assert_eq!(call!(cxil_destroy_cmdq(transmit.handle)), 0);
    assert_eq!(eq_code(), -EBUSY);
    assert_eq!(call!(cxil_destroy_cmdq(target.handle)), 0);
    assert_eq!(call!(cxil_unmap(md)), -EBUSY);
    assert_eq!((eq_code(), lni_code()), (0, -EBUSY));
    assert_eq!((call!(cxil_unmap(md)), lni_code()), (0, -EBUSY));
    assert_eq!((call!(cxil_destroy_cp(cp)), lni_code()), (0, 0));
}

#[test]
fn each_user_of_event_queue_keeps_it_busy() {
    alone!();
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
    let pte = alloc_pte(rig.lni, eq.handle).unwrap();
    assert_eq!(free(&eq), -EBUSY);
    assert_eq!(call!(cxil_destroy_pte(pte)), 0);
    assert_eq!(free(&eq), 0);
}

#[test]
fn each_object_keeps_its_lni_busy() {
    alone!();
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
    buffer.unmap();
    let queue = Queue::target(rig.dev, lni);
    busy();
    assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
    let pte = alloc_pte(lni, null_mut()).unwrap();
    busy();
    assert_eq!(call!(cxil_destroy_pte(pte)), 0);
    assert_eq!(call!(cxil_destroy_lni(lni)), 0);
}

/// A profile can be destroyed before its queue, whose commands then fail.
#[test]
fn command_without_profile_is_a_permission_violation() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    assert_eq!(call!(cxil_destroy_cp(rig.cp)), 0);
    rig.tx.issue(&rig.nomatch_put(&source, 0, 8, |_| {}));
    assert_eq!(rig.tx.wait_failure(), C_RC_PERM_VIOLATION);
}

#[test]
fn destroying_portal_frees_its_entries() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    // In all, more entries than the NIC has.
    for _ in 0..5 {
        let portal = rig.target(0, &sink);
        for _ in 0..4095 {
            let entry = append(portal.number, |entry| _ = entry.set_event_link_disable(true));
            rig.tgt.issue(&entry);
        }
        rig.tgt.drain();
        portal.close();
    }
    assert_eq!(rig.teq.poll(), None, "an append failed");
}

fn in_memory(pages: Pages) -> cxi_cq_alloc_opts_buf {
    cxi_cq_alloc_opts_buf {
        opts: options(),
        buf: pages.base.cast(),
        is_host_mem: true,
        dmabuf_fd: -1,
        dmabuf_offset: 0,
    }
}

#[test]
fn runs_queue_in_caller_memory() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    source.pages.fill(3);
    rig.target(0, &sink);
    // Bytes of an earlier queue are not commands.
    let pages = Pages::new(2 * PAGE);
    pages.fill(0xff);
    let mut opts = in_memory(pages);
    opts.opts.flags = CXI_CQ_IS_TX;
    opts.opts.lcid = rig.lcid;
    opts.opts.count = 65;
    let mut handle = null_mut();
    let (lni, eq) = (rig.lni, rig.eq.handle);
    assert_eq!(call!(cxil_alloc_buf_cmdq(lni, eq, &opts, &mut handle)), 0);
    // SAFETY: libcxi has just returned the handle.
    let public = unsafe { &*handle };
    // SAFETY: the library fills this member.
    let memory = unsafe { public.__bindgen_anon_1.cmds32 };
    assert_eq!(memory.cast(), pages.base);
    assert_eq!(public.size, 128);
    assert!(pages.is(64, 2 * PAGE - 64, 0));
    rig.tx = Queue::over(rig.dev, handle);
    // More commands than the ring holds.
    for round in 0..300_u32 {
        let put = rig.dma_put(&source, 0, 1 + round, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    assert!(sink.pages.is(0, 300, 3));
    assert_eq!(call!(cxil_destroy_cmdq(handle)), 0);
    // The caller's memory is not unmapped.
    pages.fill(5);
}

#[test]
fn allocates_memory_for_queue_without_buffer() {
    alone!();
    let rig = Rig::new();
    let mut opts = in_memory(Pages::new(PAGE));
    opts.buf = null_mut();
    // Not looked at without a buffer.
    opts.is_host_mem = false;
    let mut handle = null_mut();
    let eq = null_mut();
    assert_eq!(call!(cxil_alloc_buf_cmdq(rig.lni, eq, &opts, &mut handle)), 0);
    // SAFETY: the call has made the queue.
    assert!(unsafe { (*handle).size } >= opts.opts.count);
    assert_eq!(call!(cxil_destroy_cmdq(handle)), 0);
}

#[test]
fn rejects_unusable_queue_memory() {
    alone!();
    let rig = Rig::new();
    let pages = Pages::new(PAGE);
    let mut handle = null_mut();
    let mut alloc = |change: &dyn Fn(&mut cxi_cq_alloc_opts_buf)| {
        let mut opts = in_memory(pages);
        change(&mut opts);
        let eq = null_mut();
        -call!(cxil_alloc_buf_cmdq(rig.lni, eq, &opts, &mut handle))
    };
    let inside = pages.base.wrapping_add(64).cast();
    assert_eq!(alloc(&|opts| opts.buf = inside), EINVAL);
    assert_eq!(alloc(&|opts| opts.is_host_mem = false), EOPNOTSUPP);
    assert_eq!(alloc(&|opts| opts.opts.count = 65537), E2BIG);
    assert_eq!(alloc(&|opts| opts.opts.policy = 4), EINVAL);
    let nowhere = std::ptr::without_provenance_mut(PAGE);
    assert_eq!(alloc(&|opts| opts.buf = nowhere), EFAULT);
    // SAFETY: the test's own page.
    let code = unsafe { libc::mprotect(pages.base.cast(), PAGE, libc::PROT_READ) };
    assert_eq!(code, 0);
    assert_eq!(alloc(&|_| {}), EFAULT);
    let (lni, eq, opts) = (rig.lni, null_mut(), in_memory(pages));
    let call = |lni, opts, to| -call!(cxil_alloc_buf_cmdq(lni, eq, opts, to));
    assert_eq!(call(null_mut(), &opts, &mut handle), EINVAL);
    assert_eq!(call(lni, std::ptr::null(), &mut handle), EINVAL);
    assert_eq!(call(lni, &opts, null_mut()), EINVAL);
}

fn unanswered(queue: *mut cxi_cq) -> u32 {
    let mut count = 77;
    assert_eq!(call!(cxil_cmdq_ack_counter(queue, &mut count)), 0);
    count
}

#[test]
fn counts_unanswered_operations() {
    alone!();
    // The puts are under way while the test counts them.
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var("CXIDIAG_LINK", "latency=20ms") };
    let (mut rig, source, _) = Rig::with_target();
    assert_eq!(unanswered(rig.tx.handle), 0);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..3 {
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    progress(rig.dev);
    assert_eq!(unanswered(rig.tx.handle), 3);
    for _ in 0..3 {
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
    }
    assert_eq!(unanswered(rig.tx.handle), 0);
    let mut count = 77;
    let value_for = |queue, count| -call!(cxil_cmdq_ack_counter(queue, count));
    assert_eq!(value_for(null_mut(), &mut count), EINVAL);
    assert_eq!(value_for(rig.tx.handle, null_mut()), EINVAL);
    assert_eq!(count, 77);
    // The commands of target queues have no responses, also before they are executed.
    rig.tgt.write_and_ring(&append(0, |_| {}));
    assert_eq!(unanswered(rig.tgt.handle), 0);
}

/// nic.md 9.3: triggered operations issued from the queue that are not complete or cancelled.
#[test]
fn counts_waiting_triggered_operations() {
    alone!();
    let mut rig = Rig::new();
    let queue = || Queue::trigger(rig.dev, rig.lni, null_mut());
    let mut queues = [queue(), queue()];
    let counter = Counter::new(rig.lni);
    let number = counter.number;
    let add = |count| counter.ring(0, count);
    for (thresholds, queue) in [1..4, 2..4].into_iter().zip(&mut queues) {
        for threshold in thresholds {
            queue.emit(&trig_event(number, rig.eq.number, threshold));
        }
        queue.ring();
        queue.drain();
    }
    let counts = || queues.each_ref().map(|queue| unanswered(queue.handle));
    assert_eq!(counts(), [3, 2]);
    add(1);
    assert_eq!(rig.eq.wait().kind(), C_EVENT_TRIGGERED_OP);
    assert_eq!(counts(), [2, 2]);
    add(1);
    for _ in 0..2 {
        assert_eq!(rig.eq.wait().kind(), C_EVENT_TRIGGERED_OP);
    }
    assert_eq!(counts(), [1, 1]);
    // A new queue with the number of a destroyed one starts at zero.
    let [first, second] = queues;
    assert_eq!(call!(cxil_destroy_cmdq(first.handle)), 0);
    let next = queue();
    assert_eq!(unanswered(next.handle), 0);
    assert_eq!(unanswered(second.handle), 1);
    counter.destroy();
    assert_eq!(unanswered(second.handle), 0, "cancelled");
    wait_for("the events of what was cancelled", || {
        rig.eq.poll().filter(|event| event.code() == C_RC_CANCELED)
    });
    rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.drain();
}
