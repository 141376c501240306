//! Resources of a service: maxima and reservations, and the registers that show their use (nic.md
//! 9.5).

use crate::desk::*;
use crate::driver::prelude::*;

/// The resources that are allocated by calls.
const CALLED_FOR: [cxi_rsrc_type; 6] = [
    CXI_RSRC_TYPE_PTE,
    CXI_RSRC_TYPE_TXQ,
    CXI_RSRC_TYPE_TGQ,
    CXI_RSRC_TYPE_EQ,
    CXI_RSRC_TYPE_CT,
    CXI_RSRC_TYPE_AC,
];

/// An object of any kind, with its destroy function.
struct Object(Box<dyn FnOnce()>);

impl Object {
    fn destroy(self) {
        self.0();
    }
}

type Made = Result<Object, i32>;

fn made<T: Copy + 'static>(code: i32, handle: T, destroy: unsafe extern "C" fn(T) -> i32) -> Made {
    answered(code)?;
    Ok(Object(Box::new(move || {
        // SAFETY: libcxi has just returned the handle, and the closure runs once.
        assert_eq!(unsafe { destroy(handle) }, 0);
    })))
}

/// An open device with an LNI, a profile and a mapping, which uses a context.
struct User {
    dev: Dev,
    lni: Lni,
    buffer: Buffer,
}

impl Drop for User {
    fn drop(&mut self) {
        call!(cxil_close_device(self.dev));
    }
}

impl User {
    fn of(service: u32) -> Self {
        let dev = open(0);
        let lni = lni(dev, service).unwrap();
        profile(lni, 1, CXI_TC_BEST_EFFORT).unwrap();
        let buffer = Buffer::new(lni, PAGE, RW);
        Self { dev, lni, buffer }
    }

    fn queue(&self, flags: u32) -> Made {
        let (mut options, mut cq) = (options(), null_mut());
        options.flags = flags;
        let code = call!(cxil_alloc_cmdq(self.lni, null_mut(), &options, &mut cq));
        made(code, cq, cxil_destroy_cmdq)
    }

    /// Allocates a resource. For contexts, `nth` selects one of three kinds of mappings, 0 to 2.
    fn make(&self, kind: cxi_rsrc_type, nth: u32) -> Made {
        let (lni, place, none) = (self.lni, self.buffer.pages.base.cast(), null_mut());
        match kind {
            CXI_RSRC_TYPE_PTE => {
                let (mut options, mut pte) = (pte_options(), null_mut());
                let code = call!(cxil_alloc_pte(lni, null_mut(), &mut options, &mut pte));
                made(code, pte, cxil_destroy_pte)
            }
            CXI_RSRC_TYPE_TXQ => self.queue(CXI_CQ_IS_TX),
            CXI_RSRC_TYPE_TGQ => self.queue(0),
            CXI_RSRC_TYPE_EQ => {
                let (attributes, mut eq) = (attributes(place, PAGE), null_mut());
                let md = self.buffer.md;
                let code = call!(cxil_alloc_evtq(lni, md, &attributes, none, none, &mut eq));
                made(code, eq, cxil_destroy_evtq)
            }
            CXI_RSRC_TYPE_CT => {
                let mut ct = null_mut();
                made(call!(cxil_alloc_ct(lni, null_mut(), &mut ct)), ct, cxil_destroy_ct)
            }
            CXI_RSRC_TYPE_AC => {
                assert!(nth < 3, "the fourth is the one in use");
                let (flags, mut md) = (CXI_MAP_PIN | nth << 2, null_mut());
                let code = call!(cxil_map(lni, place, PAGE, flags, null_mut(), &mut md));
                made(code, md, cxil_unmap)
            }
            _ => panic!("kind {kind} has no call"),
        }
    }
}

#[test]
fn enforces_maximum_of_each_resource() {
    alone!();
    let Some(dev) = administrator() else { return };
    for kind in CALLED_FOR {
        let at = kind as usize;
        let before = if kind == CXI_RSRC_TYPE_AC { 2 } else { 0 };
        let mut desc = plain(70);
        limit(&mut desc, kind, before + 2, 0);
        assert_eq!(alloc(dev, &desc), Ok(5));
        // Two users of the service share its maximum.
        let (one, two, other) = (User::of(5), User::of(5), User::of(1));
        let first = one.make(kind, 0).unwrap();
        two.make(kind, 0).unwrap();
        assert_eq!(used(dev, 5)[at], before + 2, "{kind}");
        for user in [&one, &two] {
            assert_eq!(user.make(kind, 1).err(), Some(ENOSPC), "{kind}");
        }
        first.destroy();
        if kind == CXI_RSRC_TYPE_AC {
            assert_eq!(used(dev, 5)[at], before + 1, "{kind}");
            two.make(kind, 1).unwrap();
        } else {
            // Until its LNI ends, a destroyed object counts, for other LNIs too (libcxi.md 10).
            assert_eq!(used(dev, 5)[at], before + 2, "{kind}");
            assert_eq!(two.make(kind, 1).err(), Some(ENOSPC), "{kind}");
            let again = one.make(kind, 1).err();
            let is_taken_again = kind != CXI_RSRC_TYPE_CT;
            assert_eq!(again, (!is_taken_again).then_some(ENOSPC), "{kind}");
        }
        assert_eq!(one.make(kind, 1).err(), Some(ENOSPC), "{kind}");
        // Other services are not limited.
        for nth in 0..3 {
            other.make(kind, nth).unwrap();
        }
        assert_eq!(used(dev, 1)[at], before / 2 + 3, "{kind}");
        assert_eq!(uses(dev), [1, 2, 3, 4, 5].map(|id| (id, used(dev, id))));
        // A closed device uses nothing.
        drop(two);
        assert_eq!(used(dev, 5)[at], 1, "{kind}");
        drop((one, other));
        assert_eq!(uses(dev), [1, 2, 3, 4, 5].map(|id| (id, [0; KINDS])));
        assert_eq!(destroy(dev, 5), Ok(0));
    }
    close(dev);
}

/// libcxi.md 10: event queues and portals take the numbers of destroyed ones of their LNI again,
/// counters never do, and all are free with the LNI.
#[test]
fn destroyed_objects_count_until_their_lni_ends() {
    alone!();
    let dev = open(0);
    let count = |kind: cxi_rsrc_type| used(dev, 1)[kind as usize];
    let user = User::of(1);
    for kind in [CXI_RSRC_TYPE_EQ, CXI_RSRC_TYPE_PTE] {
        for _ in 0..3 {
            user.make(kind, 0).unwrap().destroy();
            assert_eq!(count(kind), 1, "{kind}");
        }
    }
    for kind in [CXI_RSRC_TYPE_TXQ, CXI_RSRC_TYPE_TGQ] {
        for made in 1..4 {
            user.make(kind, 0).unwrap().destroy();
            assert_eq!(count(kind), made, "{kind}");
        }
    }
    for _ in 0..2047 {
        user.make(CXI_RSRC_TYPE_CT, 0).unwrap().destroy();
    }
    assert_eq!(user.make(CXI_RSRC_TYPE_CT, 0).err(), Some(ENOSPC));
    for _ in 0..1100 {
        user.make(CXI_RSRC_TYPE_TXQ, 0).unwrap().destroy();
    }
    drop(user);
    assert_eq!(used(dev, 1), [0; KINDS]);
    let user = User::of(1);
    user.make(CXI_RSRC_TYPE_CT, 0).unwrap();
    drop(user);
    close(dev);
}

#[test]
fn enforces_maximum_of_zero() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    for kind in 0..KINDS as u32 {
        limit(&mut desc, kind, u16::from(kind == CXI_RSRC_TYPE_AC), 0);
    }
    assert_eq!(alloc(dev, &desc), Ok(5));
    let user = User::of(5);
    for kind in CALLED_FOR {
        assert_eq!(user.make(kind, 0).err(), Some(ENOSPC), "{kind}");
    }
    drop(user);
    assert_eq!(destroy(dev, 5), Ok(0));
    // Without the flag there are no limits.
    desc.set_resource_limits(0);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let user = User::of(5);
    for kind in CALLED_FOR {
        assert!(user.make(kind, 0).is_ok(), "{kind}");
    }
    drop(user);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn reserves_resources_for_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_TGQ, 511, 510);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let (keeper, other, second) = (User::of(5), User::of(1), User::of(2));
    // Two are left for all other services.
    let one = other.queue(0).unwrap();
    second.queue(0).unwrap();
    assert_eq!(other.queue(0).err(), Some(ENOSPC));
    assert_eq!(second.queue(0).err(), Some(ENOSPC));
    // The service uses its reservation first, then the rest.
    for _ in 0..510 {
        keeper.queue(0).unwrap();
    }
    assert_eq!(keeper.queue(0).err(), Some(ENOSPC));
    assert_eq!(used(dev, 5)[CXI_RSRC_TYPE_TGQ as usize], 510);
    // The number of a destroyed queue stays with its LNI, which alone gives it back.
    one.destroy();
    assert_eq!(keeper.queue(0).err(), Some(ENOSPC));
    other.queue(0).unwrap();
    assert_eq!(other.queue(0).err(), Some(ENOSPC));
    drop((keeper, other, second));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn rejects_reservation_beyond_available() {
    alone!();
    let Some(dev) = administrator() else { return };
    // SAFETY: integers and booleans, for which zero is a value.
    let mut info: cxi_svc_fail_info = unsafe { std::mem::zeroed() };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, 2048, 1537);
    let mut ask_for = |desc: &cxi_svc_desc| answered(call!(cxil_alloc_svc(dev, desc, &mut info)));
    assert_eq!(ask_for(&desc), Err(ENOSPC));
    assert_eq!(alloc(dev, &desc), Err(ENOSPC), "without a place for the numbers");
    let totals = [2047, 1024, 512, 2047, 2047, 16384, 1536, 1022];
    assert_eq!(info.rsrc_avail, totals, "512 are the default service's");
    assert!(!info.no_le_pools && !info.no_tle_pools && !info.no_cntr_pools);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, 2048, 1536);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let next = |res| {
        let mut next = plain(71);
        limit(&mut next, CXI_RSRC_TYPE_TGQ, 512, res);
        next
    };
    // Resources in use cannot be reserved.
    let users = [User::of(1), User::of(1)];
    for user in &users {
        user.queue(0).unwrap();
    }
    // SAFETY: the list is alive until it is freed.
    info = unsafe { std::mem::zeroed() };
    let code = call!(cxil_alloc_svc(dev, &next(511), &mut info));
    assert_eq!(answered(code), Err(ENOSPC));
    assert_eq!(info.rsrc_avail, [2047, 1024, 510, 2047, 2047, 16384, 0, 1020]);
    assert_eq!(alloc(dev, &next(510)), Ok(6));
    // An update may reuse the service's own reservation.
    let own = |res| cxi_svc_desc { svc_id: 6, ..next(res) };
    assert_eq!(update(dev, &own(510)), Ok(0));
    info.rsrc_avail = [0; KINDS];
    let code = call!(cxil_update_svc(dev, &own(511), &mut info));
    assert_eq!(answered(code), Err(ENOSPC));
    assert_eq!(info.rsrc_avail[CXI_RSRC_TYPE_TGQ as usize], 510);
    assert_eq!(limits(&get(dev, 6).unwrap())[CXI_RSRC_TYPE_TGQ as usize].res, 510);
    drop(users);
    assert_eq!(update(dev, &own(512)), Ok(0));
    assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)));
    close(dev);
}

#[test]
fn limits_services_with_reserved_entries_to_pools() {
    alone!();
    let Some(dev) = administrator() else { return };
    // The default service reserves triggered operations too.
    for (kind, pools) in [(CXI_RSRC_TYPE_LE, 16), (CXI_RSRC_TYPE_TLE, 3)] {
        let reserving = |vni, res| {
            let mut desc = plain(vni);
            limit(&mut desc, kind, 10, res);
            desc
        };
        let ids: Vec<u32> =
            (0..pools).map(|nth| alloc(dev, &reserving(70 + nth, 1)).unwrap()).collect();
        // SAFETY: integers and booleans, for which zero is a value.
        let mut info: cxi_svc_fail_info = unsafe { std::mem::zeroed() };
        let code = call!(cxil_alloc_svc(dev, &reserving(90, 1), &mut info));
        assert_eq!(code, -ENOSPC);
        let missing = (info.no_le_pools, info.no_tle_pools, info.no_cntr_pools);
        let is_le = kind == CXI_RSRC_TYPE_LE;
        assert_eq!(missing, (is_le, !is_le, false));
        // A service that names none needs no pool, and an update keeps its own.
        let mut none = plain(90);
        limit(&mut none, kind, 0, 0);
        let other = alloc(dev, &none).unwrap();
        let own = |id, res| cxi_svc_desc { svc_id: id, ..reserving(90, res) };
        assert_eq!(update(dev, &own(other, 1)), Err(ENOSPC));
        assert_eq!(update(dev, &own(ids[0], 2)), Ok(0));
        // A destroyed service returns its pool.
        assert_eq!(destroy(dev, ids[0]), Ok(0));
        assert_eq!(update(dev, &own(other, 1)), Ok(0));
        for id in ids[1..].iter().chain([&other]) {
            assert_eq!(destroy(dev, *id), Ok(0));
        }
    }
    close(dev);
}

/// libcxi.md 3.3: a service has eight triggered operations at least, and a pool for them, also
/// without limits. Services that name none share a pool since 14.0.1.
#[test]
fn services_have_eight_triggered_operations_at_least() {
    alone!();
    set("CXIDIAG_SERVICES", "enabled");
    for release in ["12", "13", "14", "14.0.1", "next"] {
        set("CXIDIAG_SHS", release);
        let Some(dev) = administrator() else { return };
        let named = |vni, count| {
            let mut desc = plain(vni);
            limit(&mut desc, CXI_RSRC_TYPE_TLE, count, count);
            desc
        };
        let found = [plain(70), named(71, 1), named(72, 100)].map(|desc| {
            let made = get(dev, alloc(dev, &desc).unwrap()).unwrap();
            let tles = limits(&made)[CXI_RSRC_TYPE_TLE as usize];
            (made.resource_limits(), tles.max, tles.res)
        });
        assert_eq!(found, [(0, 8, 8), (1, 8, 8), (1, 100, 100)], "{release}");
        assert_eq!(alloc(dev, &plain(73)), Err(ENOSPC), "{release}");
        let shares = matches!(release, "14.0.1" | "next");
        let shared = alloc(dev, &named(73, 0));
        assert_eq!(shared, if shares { Ok(5) } else { Err(ENOSPC) }, "{release}");
        for id in (2..=4).chain(shared.ok()) {
            assert_eq!(destroy(dev, id), Ok(0));
        }
        close(dev);
    }
}

/// Limits list entries and triggered operations of the default service to `most`; returns its
/// description before.
fn narrow_default(dev: Dev, most: u16) -> cxi_svc_desc {
    let before = get(dev, 1).unwrap();
    let mut desc = before;
    limit(&mut desc, CXI_RSRC_TYPE_LE, most, 0);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, most, 0);
    assert_eq!(update(dev, &desc), Ok(0));
    before
}

/// The return code of one more entry.
fn link(rig: &mut Rig, portal: Portal, sink: &Buffer) -> u32 {
    let event = rig.append(portal, |entry| whole(entry, sink));
    assert_eq!(event.kind(), C_EVENT_LINK);
    event.code()
}

#[test]
fn reserves_list_entries() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_LE, 16384, 16382);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    let codes = [0; 3].map(|_| link(&mut rig, portal, &sink));
    assert_eq!(codes, [C_RC_OK, C_RC_OK, C_RC_NO_SPACE]);
    drop(rig);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

/// Opens portals of all processing elements, and the first and the last of one of them.
fn portals_of_elements(rig: &mut Rig) -> [Portal; 5] {
    [0, 1, 2, 3, 4].map(|index| rig.portal(index, |_| {}))
}

/// Portals of one processing element share its list entries (libcxi.md 11).
#[test]
fn default_service_has_list_entries_of_each_processing_element() {
    alone!();
    let dev = open(0);
    let most = limits(&get(dev, 1).unwrap())[CXI_RSRC_TYPE_LE as usize].max;
    close(dev);
    assert_eq!(most, 16384);
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let [first, others @ .., last] = portals_of_elements(&mut rig);
    for nth in 1..16384 {
        let portal = [first, last][nth % 2].number;
        rig.tgt.issue(&append(portal, |entry| {
            whole(entry, &sink);
            entry.set_event_link_disable(true);
        }));
    }
    assert_eq!(link(&mut rig, first, &sink), C_RC_OK, "16,384");
    for portal in [first, last] {
        assert_eq!(link(&mut rig, portal, &sink), C_RC_NO_SPACE);
    }
    for portal in others {
        assert_eq!(link(&mut rig, portal, &sink), C_RC_OK);
    }
    assert_eq!(used(rig.dev, 1)[CXI_RSRC_TYPE_LE as usize], 16384);
}

#[test]
fn limits_list_entries() {
    alone!();
    let Some(dev) = administrator() else { return };
    let before = narrow_default(dev, 3);
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let [first, other, .., last] = portals_of_elements(&mut rig);
    let portals = [first, last];
    for nth in 0..3 {
        assert_eq!(link(&mut rig, portals[nth % 2], &sink), C_RC_OK);
    }
    assert_eq!(link(&mut rig, other, &sink), C_RC_OK);
    assert_eq!(link(&mut rig, portals[0], &sink), C_RC_NO_SPACE);
    assert_eq!(link(&mut rig, portals[1], &sink), C_RC_NO_SPACE);
    assert_eq!(used(rig.dev, 1)[CXI_RSRC_TYPE_LE as usize], 3);
    // SAFETY: integers and a pointer, for which zero is a value.
    let mut status: cxi_pte_status = unsafe { std::mem::zeroed() };
    assert_eq!(call!(cxil_pte_status(portals[0].handle, &mut status)), 0);
    assert_eq!((status.les_max, status.les_allocated), (3, 3));
    rig.set_state(portals[0], C_PTLTE_RESET);
    assert_eq!(link(&mut rig, portals[0], &sink), C_RC_OK);
    drop(rig);
    assert_eq!(update(dev, &before), Ok(0));
    close(dev);
}

#[test]
fn counts_unexpected_headers_as_list_entries() {
    alone!();
    let Some(dev) = administrator() else { return };
    let before = narrow_default(dev, 2);
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let portal = rig.enabled(0, |options| options.set_is_matching(1));
    let link = rig.append(portal, |entry| {
        whole(entry, &sink);
        entry
            .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
            .set_ignore_bits(u64::MAX)
            .set_match_id(u32::MAX)
            .set_event_comm_disable(true);
    });
    assert_eq!(link.code(), C_RC_OK);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    assert_ne!(rig.code(&put), C_RC_OK, "no place for its header");
    drop(rig);
    assert_eq!(update(dev, &before), Ok(0));
    close(dev);
}

#[test]
fn limits_triggered_operations() {
    alone!();
    let Some(dev) = administrator() else { return };
    let before = narrow_default(dev, 3);
    let mut rig = Rig::new();
    let mut queue = Queue::trigger(rig.dev, rig.lni, rig.eq.handle);
    let counter = Counter::new(rig.lni).number;
    for _ in 0..4 {
        queue.emit(&trig_event(counter, 0, 1));
    }
    queue.ring();
    assert_eq!(rig.eq.wait().kind(), C_EVENT_COMMAND_FAILURE, "the fourth");
    progress(rig.dev);
    assert_eq!(used(rig.dev, 1)[CXI_RSRC_TYPE_TLE as usize], 3);
    drop(rig);
    assert_eq!(update(dev, &before), Ok(0));
    close(dev);
}

const MOST_IN_USE: u32 = 0x870;
const IN_USE: u32 = 0x850;

fn read<const COUNT: usize>(dev: Dev, csr: u32) -> [u64; COUNT] {
    let mut values = [0; COUNT];
    assert_eq!(call!(cxil_read_csr(dev, csr, values.as_mut_ptr().cast(), 8 * COUNT)), 0);
    values
}

/// Five users of a service with 100 triggered operations post as many as they can, as the test of
/// libfabric does that reads these registers.
#[test]
fn most_triggered_operations_in_use_are_those_of_the_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, 100, 100);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    let zeros = [0u64; 4];
    assert_eq!(call!(cxil_write_csr(dev, MOST_IN_USE, zeros.as_ptr().cast(), 32)), 0);
    let mut users: Vec<(Rig, Queue, u16)> = (0..5)
        .map(|_| {
            let rig = Rig::with_vni(5, 70);
            let queue = Queue::trigger(rig.dev, rig.lni, rig.eq.handle);
            let counter = Counter::new(rig.lni).number;
            (rig, queue, counter)
        })
        .collect();
    for (_, queue, counter) in &mut users {
        for _ in 0..20 {
            queue.emit(&trig_event(*counter, 0, 1));
        }
        queue.ring();
        queue.drain();
    }
    assert_eq!(read(dev, MOST_IN_USE), [0, 100, 0, 0]);
    assert_eq!(read(dev, IN_USE), [0, 100, 0, 0]);
    assert_eq!(read(dev, 0x508), [100 | 100 << 16 | 100 << 32]);
    assert_eq!(read(dev, 0x520), [100 << 48]);
    // One more fails. The end of a process frees its operations, and the maximum stays.
    let (rig, queue, counter) = &mut users[0];
    queue.emit(&trig_event(*counter, 0, 1));
    queue.ring();
    assert_eq!(rig.eq.wait().kind(), C_EVENT_COMMAND_FAILURE);
    users.truncate(3);
    assert_eq!(read(dev, IN_USE), [0, 60, 0, 0]);
    drop(users);
    assert_eq!((read(dev, IN_USE), read(dev, MOST_IN_USE)), ([0; 4], [0, 100, 0, 0]));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn list_entries_count_in_the_pool_of_the_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_LE, 64, 32);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    let mut rig = Rig::with_vni(5, 70);
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    for _ in 0..3 {
        assert_eq!(rig.append(portal, |entry| whole(entry, &sink)).code(), C_RC_OK);
    }
    let mut expected = [0; 64];
    // RGID 1 begins in element 1; the first service with list entries of its own has pool 1.
    expected[16 + 1] = 3;
    assert_eq!(read(dev, 0x980_0800), expected);
    let limits: [u64; 2] = read(dev, 0x980_0480);
    assert_eq!(limits, [(16384 - 32) << 32, 32 | 64 << 32]);
    drop(rig);
    assert_eq!(read(dev, 0x980_0800), [0; 64]);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

/// libcxi.md 8.3: from RGID modulo 4 on, whatever the numbers of portals are.
#[test]
fn portals_of_an_lni_are_in_elements_in_turn() {
    alone!();
    let Some(dev) = administrator() else { return };
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    // RGIDs 1 and 2.
    let mut rigs = [Rig::new(), Rig::new()];
    for (index, expected) in [[1, 2, 3, 0, 1], [2, 3, 0, 1, 2]].into_iter().enumerate() {
        let rig = &mut rigs[index];
        let sink = rig.buffer(PAGE);
        for (place, element) in expected.into_iter().enumerate() {
            let portal = rig.portal(place as u32, |_| {});
            let before: [u64; 64] = read(dev, 0x980_0800);
            assert_eq!(rig.append(portal, |entry| whole(entry, &sink)).code(), C_RC_OK);
            let mut after: [u64; 64] = read(dev, 0x980_0800);
            after[16 * element] -= 1;
            assert_eq!(after, before, "{index} {place}");
        }
    }
    drop(rigs);
    close(dev);
}
