//! A mock of libcxi without a NIC, one per thread. It records the objects, refuses releases that
//! libcxi refuses, and fails on request.

pub mod counters;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi::sys::*;

/// Bytes of an event queue slot.
const SLOT: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Device,
    Lni,
    Domain,
    Profile,
    Region,
    EventQueue,
    CommandQueue,
    Portal,
    Mapping,
    Counter,
}

struct Object {
    kind: Kind,
    address: usize,
    /// Objects that libcxi does not release before it (libcxi.md 10).
    holds: Vec<usize>,
    /// Objects that must be released after it, although libcxi does not check that.
    needs: Vec<usize>,
}

/// The memory of an event queue.
#[derive(Clone, Copy)]
struct Events {
    start: *mut u8,
    bytes: usize,
    write_at: usize,
}

#[derive(Default)]
struct State {
    objects: Vec<Object>,
    released: Vec<Kind>,
    violations: Vec<String>,
    allocations: usize,
    fail_allocation: Option<usize>,
    fail_release: Option<Kind>,
    omit_pointers: bool,
    events: Vec<Events>,
    queues: Vec<(*mut u8, *mut u8)>,
    progress_calls: usize,
    on_progress: Option<fn()>,
    region_address: usize,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(f)
}

/// Resets the mock of this thread.
pub fn reset() {
    with(|state| *state = State::default());
    counters::reset();
}

/// The kinds of the allocated objects.
pub fn live() -> Vec<Kind> {
    with(|state| state.objects.iter().map(|object| object.kind).collect())
}

/// The kinds of the objects released since the reset, in order.
pub fn released() -> Vec<Kind> {
    with(|state| state.released.clone())
}

/// The errors of release order that libcxi does not report.
pub fn violations() -> Vec<String> {
    with(|state| state.violations.clone())
}

/// The number of allocations requested since the reset.
pub fn allocations() -> usize {
    with(|state| state.allocations)
}

/// Makes allocation number `index` (from 0) fail with ENOSPC.
pub fn fail_allocation(index: usize) {
    with(|state| state.fail_allocation = Some(index));
}

/// Makes the release of every object of `kind` fail with EIO.
pub fn fail_release(kind: Kind) {
    with(|state| state.fail_release = Some(kind));
}

/// Makes the mock return queues with null pointers.
pub fn omit_pointers() {
    with(|state| state.omit_pointers = true);
}

/// The number of calls of the progress hook since the reset.
pub fn progress_calls() -> usize {
    with(|state| state.progress_calls)
}

/// Sets the action of the progress hook.
pub fn on_progress(action: fn()) {
    with(|state| state.on_progress = Some(action));
}

/// The address of the last mapped buffer.
pub fn region_address() -> usize {
    with(|state| state.region_address)
}

/// Writes a 16-byte event with return code OK into the first event queue.
pub fn deliver(event_type: c_event_type) {
    deliver_with(event_type, C_RC_OK);
}

/// Writes a 16-byte event with return code `code` into the first event queue.
pub fn deliver_with(event_type: c_event_type, code: c_return_code) {
    let at = with(|state| {
        let events = &mut state.events[0];
        let at = events.start.wrapping_add(events.write_at);
        events.write_at += 16;
        if events.write_at == events.bytes {
            events.write_at = SLOT;
        }
        at
    });
    let head = (1 | u64::from(event_type) << 2) << 48 | u64::from(code) << 56;
    // SAFETY: the tests keep the event queue allocated, and access its memory only atomically.
    let word = unsafe { AtomicU64::from_ptr(at.wrapping_add(8).cast()) };
    assert_eq!(word.load(Ordering::Relaxed), 0, "the bytes have not been zeroed");
    word.store(head, Ordering::Release);
}

/// The status word of command queue `index`, in order of allocation.
pub fn status_word(index: usize) -> u64 {
    ring_word(index, 0)
}

/// Returns 8 bytes of the command memory of queue `index`.
pub fn ring_word(index: usize, offset: usize) -> u64 {
    let (commands, _) = with(|state| state.queues[index]);
    // SAFETY: the tests keep the queue allocated, and pass offsets inside its memory.
    unsafe { commands.wrapping_add(offset).cast::<u64>().read_volatile() }
}

/// Sets the NIC's read pointer of command queue `index`.
pub fn set_read_pointer(index: usize, slot: u32) {
    set_status(index, slot, C_RC_OK);
}

/// Sets the status of the first event queue: an event was dropped.
pub fn drop_event() {
    let start = with(|state| state.events[0].start);
    // SAFETY: the tests keep the event queue allocated, and access its memory only atomically.
    let word = unsafe { AtomicU64::from_ptr(start.wrapping_add(8).cast()) };
    word.store(1 << 56, Ordering::Release);
}

/// Sets the NIC's read pointer and return code of command queue `index`.
pub fn set_status(index: usize, slot: u32, code: c_return_code) {
    let (commands, _) = with(|state| state.queues[index]);
    let status = u64::from(slot) | u64::from(code) << 48;
    // SAFETY: the tests keep the queue allocated, and access its status only atomically.
    let word = unsafe { AtomicU64::from_ptr(commands.cast()) };
    word.store(status, Ordering::Release);
}

/// Returns 8 bytes of the launch page of queue `index`.
pub fn launch_word(index: usize, offset: usize) -> u64 {
    let (_, launch) = with(|state| state.queues[index]);
    // SAFETY: the tests keep the queue allocated, and pass offsets inside its memory.
    unsafe { launch.wrapping_add(offset).cast::<u64>().read_volatile() }
}

/// Makes the memory of command queue `index`, of `slots` slots, stale: all bytes after the status
/// become 0xee.
pub fn make_stale(index: usize, slots: u32) {
    let (commands, _) = with(|state| state.queues[index]);
    // SAFETY: the tests keep the queue, which has `slots` slots, allocated.
    unsafe { commands.wrapping_add(8).write_bytes(0xee, slots as usize * 64 - 8) };
}

/// The memory of command queue `index`, of `slots` slots, and its launch page.
pub fn queue_memory(index: usize, slots: u32) -> (Vec<u8>, [u8; 4096]) {
    let (commands, launch) = with(|state| state.queues[index]);
    let mut copy = vec![0; slots as usize * 64];
    // SAFETY: the tests keep the queue, which has `slots` slots, allocated.
    unsafe { commands.copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
    // SAFETY: the tests keep the queue, and thus its launch page, allocated.
    (copy, unsafe { launch.cast::<[u8; 4096]>().read_volatile() })
}

/// The table without progress hook, like hardware.
pub fn api() -> Api {
    Api {
        cxil_get_device_list: get_device_list,
        cxil_free_device_list: free_device_list,
        cxil_open_device: open_device,
        cxil_close_device: close_device,
        cxil_get_svc: Some(get_svc),
        cxil_alloc_lni: alloc_lni,
        cxil_destroy_lni: destroy_lni,
        cxil_alloc_cp: alloc_cp,
        cxil_destroy_cp: destroy_cp,
        cxil_alloc_domain: alloc_domain,
        cxil_destroy_domain: destroy_domain,
        cxil_alloc_cmdq: alloc_cmdq,
        cxil_destroy_cmdq: destroy_cmdq,
        cxil_map: map,
        cxil_unmap: unmap,
        cxil_get_svc_list: None,
        cxil_free_svc_list: None,
        cxil_get_svc_rsrc_use: None,
        cxil_get_svc_lpr: None,
        cxil_alloc_trig_cp: None,
        cxil_alloc_ct: counters::alloc_ct,
        cxil_ct_wb_update: counters::ct_wb_update,
        cxil_destroy_ct: counters::destroy_ct,
        cxil_alloc_pte: alloc_pte,
        cxil_destroy_pte: destroy_pte,
        cxil_map_pte: map_pte,
        cxil_unmap_pte: unmap_pte,
        cxil_alloc_evtq: alloc_evtq,
        cxil_destroy_evtq: destroy_evtq,
        cxil_pte_status: Some(pte_status),
        cxil_svc_get_vni_range: Some(svc_get_vni_range),
        progress: None,
    }
}

/// The table with a progress hook.
pub fn api_with_progress() -> Api {
    Api { progress: Some(progress), ..api() }
}

unsafe extern "C" fn progress(_: *mut cxil_dev) {
    let action = with(|state| {
        state.progress_calls += 1;
        state.on_progress
    });
    if let Some(action) = action {
        action();
    }
}

/// Stores a new object in `out`, unless this allocation is set to fail.
fn allocate<T>(kind: Kind, object: T, holds: &[usize], needs: &[usize], out: *mut *mut T) -> c_int {
    let fails = with(|state| {
        state.allocations += 1;
        state.fail_allocation == Some(state.allocations - 1)
    });
    if fails {
        return -libc::ENOSPC;
    }
    let address = Box::into_raw(Box::new(object));
    // SAFETY: the caller passes a valid out pointer.
    unsafe { out.write(address) };
    with(|state| {
        state.objects.push(Object {
            kind,
            address: address as usize,
            holds: holds.to_vec(),
            needs: needs.to_vec(),
        });
    });
    0
}

/// Releases an object, or returns the errno value that libcxi would.
fn release<T>(kind: Kind, object: *mut T) -> c_int {
    let address = object as usize;
    let result = with(|state| {
        let Some(index) = state
            .objects
            .iter()
            .position(|object| object.kind == kind && object.address == address)
        else {
            state.violations.push(format!("released a {kind:?} that does not exist"));
            return -libc::EINVAL;
        };
        if state.objects.iter().any(|object| object.holds.contains(&address)) {
            return -libc::EBUSY;
        }
        if state.fail_release == Some(kind) {
            return -libc::EIO;
        }
        if let Some(user) = state.objects.iter().find(|object| object.needs.contains(&address)) {
            let violation = format!("released a {kind:?} before a {:?} that needs it", user.kind);
            state.violations.push(violation);
        }
        state.objects.remove(index);
        state.released.push(kind);
        0
    });
    if result == 0 {
        // SAFETY: the object was recorded, so `allocate` boxed it; its record is removed above.
        drop(unsafe { Box::from_raw(object) });
    }
    result
}

unsafe extern "C" fn get_device_list(list: *mut *mut cxil_device_list) -> c_int {
    #[repr(C)]
    struct List {
        count: c_uint,
        info: [cxil_devinfo; 2],
    }
    let infos = [device_info(0), device_info(1)];
    let boxed = Box::new(List { count: 2, info: infos });
    // SAFETY: the caller passes a valid out pointer.
    unsafe { list.write(Box::into_raw(boxed).cast()) };
    0
}

unsafe extern "C" fn free_device_list(_: *mut cxil_device_list) {}

fn device_info(id: u32) -> cxil_devinfo {
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut info: cxil_devinfo = unsafe { std::mem::zeroed() };
    info.dev_id = id;
    info.__bindgen_anon_1.nid = 0x12345 + id;
    info.pid_bits = 9;
    info.pid_count = 511;
    info.pid_granule = 256;
    info.rdzv_get_idx = 255;
    for (to, from) in info.device_name.iter_mut().zip(format!("mock{id}").bytes()) {
        *to = from as _;
    }
    info.device_platform = C_PLATFORM_NETSIM;
    info.link_state = 1;
    info.pct_eq = 7;
    info
}

unsafe extern "C" fn open_device(id: u32, out: *mut *mut cxil_dev) -> c_int {
    let info = device_info(id);
    allocate(Kind::Device, cxil_dev { info }, &[], &[], out)
}

unsafe extern "C" fn close_device(device: *mut cxil_dev) {
    release(Kind::Device, device);
}

unsafe extern "C" fn get_svc(_: *mut cxil_dev, id: c_uint, out: *mut cxi_svc_desc) -> c_int {
    if !(1..=2).contains(&id) {
        return -libc::EINVAL;
    }
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut service: cxi_svc_desc = unsafe { std::mem::zeroed() };
    service.svc_id = id;
    service.set_enable(1);
    // Service 2 has a range of VNIs.
    service.set_restricted_vnis((id == 1).into());
    service.num_vld_vnis = 2;
    service.vnis = [1, 10, 99, 99];
    service.set_restricted_members(1);
    service.members[1].type_ = CXI_SVC_MEMBER_UID;
    service.members[1].svc_member.uid = 1000;
    // SAFETY: the caller passes a valid out pointer.
    unsafe { out.write(service) };
    0
}

unsafe extern "C" fn svc_get_vni_range(
    _: *mut cxil_dev,
    _: c_uint,
    min: *mut u16,
    max: *mut u16,
) -> c_int {
    // SAFETY: the caller passes a valid out pointer.
    unsafe { min.write(64) };
    // SAFETY: the caller passes a valid out pointer.
    unsafe { max.write(127) };
    0
}

unsafe extern "C" fn alloc_lni(device: *mut cxil_dev, out: *mut *mut cxil_lni, _: c_uint) -> c_int {
    allocate(Kind::Lni, cxil_lni { id: 3 }, &[], &[device as usize], out)
}

unsafe extern "C" fn destroy_lni(lni: *mut cxil_lni) -> c_int {
    release(Kind::Lni, lni)
}

unsafe extern "C" fn alloc_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    out: *mut *mut cxi_cp,
) -> c_int {
    let vni = cxi_cp__bindgen_ty_1 { vni };
    let is_profile = |kind: &Kind| *kind == Kind::Profile;
    let profile = cxi_cp {
        __bindgen_anon_1: vni,
        tc,
        tc_type,
        lcid: live().into_iter().filter(is_profile).count() as u32,
    };
    allocate(Kind::Profile, profile, &[lni as usize], &[], out)
}

unsafe extern "C" fn destroy_cp(profile: *mut cxi_cp) -> c_int {
    release(Kind::Profile, profile)
}

unsafe extern "C" fn alloc_domain(
    lni: *mut cxil_lni,
    vni: c_uint,
    pid: c_uint,
    out: *mut *mut cxil_domain,
) -> c_int {
    let pid = if pid == C_PID_ANY { 0 } else { pid };
    allocate(Kind::Domain, cxil_domain { vni, pid }, &[lni as usize], &[], out)
}

unsafe extern "C" fn destroy_domain(domain: *mut cxil_domain) -> c_int {
    release(Kind::Domain, domain)
}

/// NIC address of the first page of a mapping.
pub const IOVA: u64 = 0x7_0000_0000;

unsafe extern "C" fn map(
    lni: *mut cxil_lni,
    va: *mut c_void,
    len: usize,
    _: u32,
    _: *mut cxi_md_hints,
    out: *mut *mut cxi_md,
) -> c_int {
    with(|state| state.region_address = va as usize);
    // The mapping begins one page before the buffer, which libcxi allows (libcxi.md 7.3).
    let md = cxi_md {
        iova: IOVA - 4096,
        va: va as u64 - 4096,
        len: len + 4096,
        lac: 5,
        page_shift: 12,
        huge_shift: 0,
        id: 1,
    };
    allocate(Kind::Region, md, &[lni as usize], &[], out)
}

unsafe extern "C" fn unmap(md: *mut cxi_md) -> c_int {
    // SAFETY: the wrapper passes an object that it has not released; `release` reports a violation.
    let region = unsafe { md.read() };
    let result = release(Kind::Region, md);
    if !is_mapped(region.va as usize + 4096) {
        with(|state| state.violations.push("freed pages before they were unmapped".into()));
    }
    result
}

/// Whether the page at `address` is mapped.
pub fn is_mapped(address: usize) -> bool {
    let mut resident = 0;
    let page = ptr::without_provenance_mut(address);
    // SAFETY: mincore accepts any page address and writes one byte, for which `resident` has room.
    unsafe { libc::mincore(page, 1, &raw mut resident) == 0 }
}

static SW_STATE: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn alloc_evtq(
    lni: *mut cxil_lni,
    md: *const cxi_md,
    attr: *const cxi_eq_attr,
    _: *mut cxil_wait_obj,
    _: *mut cxil_wait_obj,
    out: *mut *mut cxi_eq,
) -> c_int {
    // SAFETY: the caller passes valid attributes.
    let attr = unsafe { attr.read() };
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut queue: cxi_eq = unsafe { std::mem::zeroed() };
    let number = with(|state| {
        state.events.push(Events {
            start: attr.queue.cast(),
            bytes: attr.queue_len,
            write_at: SLOT,
        });
        state.events.len()
    });
    queue.eqn = number as u32;
    if !with(|state| state.omit_pointers) {
        queue.sw_state_addr = SW_STATE.as_ptr();
    }
    allocate(Kind::EventQueue, queue, &[lni as usize, md as usize], &[], out)
}

unsafe extern "C" fn destroy_evtq(queue: *mut cxi_eq) -> c_int {
    release(Kind::EventQueue, queue)
}

fn command_memory(count: usize) -> Layout {
    Layout::from_size_align(count * 64, 4096).unwrap()
}

fn launch_page() -> Layout {
    Layout::from_size_align(4096, 4096).unwrap()
}

unsafe extern "C" fn alloc_cmdq(
    lni: *mut cxil_lni,
    events: *mut cxi_eq,
    opts: *const cxi_cq_alloc_opts,
    out: *mut *mut cxi_cq,
) -> c_int {
    // SAFETY: the caller passes valid options.
    let options = unsafe { opts.read() };
    let count = (options.count as usize).max(64).next_power_of_two();
    // SAFETY: the layout has a nonzero size.
    let commands = unsafe { alloc_zeroed(command_memory(count)) };
    // SAFETY: the layout has a nonzero size.
    let launch = unsafe { alloc_zeroed(launch_page()) };
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut queue: cxi_cq = unsafe { std::mem::zeroed() };
    queue.size = count as u32;
    queue.__bindgen_anon_1.cmds32 = commands.cast();
    queue.wp_addr = launch.cast();
    queue.ll_64 = launch.wrapping_add(1024);
    queue.ll_128a = launch.wrapping_add(2048);
    if !with(|state| state.omit_pointers) {
        queue.ll_128u = launch.wrapping_add(3072);
    }
    let mut holds = vec![lni as usize];
    if !events.is_null() {
        holds.push(events as usize);
    }
    let mut needs = Vec::new();
    if options.flags & CXI_CQ_IS_TX != 0 {
        needs = with(|state| {
            let profiles = state.objects.iter().filter(|object| object.kind == Kind::Profile);
            profiles.map(|object| object.address).collect()
        });
    }
    let result = allocate(Kind::CommandQueue, queue, &holds, &needs, out);
    if result == 0 {
        with(|state| state.queues.push((commands, launch)));
    } else {
        free_queue_memory(commands, launch, count);
    }
    result
}

fn free_queue_memory(commands: *mut u8, launch: *mut u8, count: usize) {
    // SAFETY: `alloc_zeroed` returned the memory for this layout.
    unsafe { dealloc(commands, command_memory(count)) };
    // SAFETY: `alloc_zeroed` returned the memory for this layout.
    unsafe { dealloc(launch, launch_page()) };
}

unsafe extern "C" fn destroy_cmdq(queue: *mut cxi_cq) -> c_int {
    // SAFETY: the wrapper passes an object that it has not released; `release` reports a violation.
    let cq = unsafe { queue.read() };
    let result = release(Kind::CommandQueue, queue);
    if result == 0 {
        // SAFETY: both members of the union are the same pointer.
        let commands = unsafe { cq.__bindgen_anon_1.cmds32 };
        free_queue_memory(commands.cast(), cq.wp_addr.cast(), cq.size as usize);
    }
    result
}

unsafe extern "C" fn alloc_pte(
    lni: *mut cxil_lni,
    events: *mut cxi_eq,
    _: *mut cxi_pt_alloc_opts,
    out: *mut *mut cxil_pte,
) -> c_int {
    let holds = [lni as usize, events as usize];
    allocate(Kind::Portal, cxil_pte { ptn: 9 }, &holds, &[], out)
}

/// Reports a disabled entry that has dropped three messages.
unsafe extern "C" fn pte_status(portal: *mut cxil_pte, status: *mut cxi_pte_status) -> c_int {
    let is_allocated = with(|state| {
        let mut objects = state.objects.iter();
        objects.any(|object| object.address == portal as usize)
    });
    if !is_allocated {
        return -libc::EINVAL;
    }
    // SAFETY: the wrapper passes a valid out pointer.
    let status = unsafe { &mut *status };
    status.state = C_PTLTE_DISABLED as u8;
    status.drop_count = 3;
    0
}

unsafe extern "C" fn destroy_pte(portal: *mut cxil_pte) -> c_int {
    release(Kind::Portal, portal)
}

unsafe extern "C" fn map_pte(
    portal: *mut cxil_pte,
    domain: *mut cxil_domain,
    _: c_uint,
    _: bool,
    out: *mut *mut cxil_pte_map,
) -> c_int {
    let holds = [portal as usize, domain as usize];
    // The structure is opaque; the mock needs only a unique address.
    allocate(Kind::Mapping, 0u64, &holds, &[], out.cast())
}

unsafe extern "C" fn unmap_pte(mapping: *mut cxil_pte_map) -> c_int {
    release(Kind::Mapping, mapping.cast::<u64>())
}
