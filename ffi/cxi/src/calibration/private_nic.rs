//! A table of libcxi functions whose objects are memory of the process. There is no NIC behind it:
//! nothing reads commands or writes events.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::{mem, ptr};

use cxi_sys::*;

use crate::lni::Lni;
use crate::pages::Pages;

/// Bytes of a slot of an event queue.
pub(super) const SLOT: usize = 64;

/// Distance of the windows of a launch page.
const WINDOW: usize = 1024;

/// The memory that a NIC would write. Valid as long as the queues.
#[derive(Clone, Copy)]
pub(super) struct QueueMemory {
    /// Start of the command queue, with its status word.
    pub(super) commands: *mut u8,
    /// Start of the event queue.
    pub(super) events: *mut u8,
    /// Size of the event queue in bytes.
    pub(super) event_bytes: usize,
}

/// An interface, and the memory of its last queues.
#[repr(C)]
struct PrivateLni {
    public: cxil_lni,
    memory: Cell<QueueMemory>,
}

/// An event queue with its register.
#[repr(C)]
struct PrivateEventQueue {
    public: cxi_eq,
    _register: Pages,
}

/// A command queue with its memory.
#[repr(C)]
struct PrivateCommandQueue {
    public: cxi_cq,
    _commands: Pages,
    _launch: Pages,
}

/// Returns the memory of the queues of `lni`, an interface of this table.
pub(super) fn memory(lni: &Lni) -> QueueMemory {
    let lni: *const PrivateLni = lni.handle().as_ptr().cast();
    // SAFETY: `alloc_lni` made the interface, which `lni` keeps allocated.
    unsafe { &(*lni).memory }.get()
}

/// Returns the table.
pub(super) fn api() -> Api {
    Api {
        cxil_open_device: open_device,
        cxil_close_device: close_device,
        cxil_alloc_lni: alloc_lni,
        cxil_destroy_lni: free::<PrivateLni, cxil_lni>,
        cxil_alloc_cp: alloc_cp,
        cxil_destroy_cp: free::<cxi_cp, cxi_cp>,
        cxil_map: map,
        cxil_unmap: free::<cxi_md, cxi_md>,
        cxil_alloc_evtq: alloc_evtq,
        cxil_destroy_evtq: free::<PrivateEventQueue, cxi_eq>,
        cxil_alloc_cmdq: alloc_cmdq,
        cxil_destroy_cmdq: free::<PrivateCommandQueue, cxi_cq>,
        cxil_get_device_list: refuse_1,
        cxil_free_device_list: ignore,
        cxil_alloc_domain: refuse_4,
        cxil_destroy_domain: refuse_1,
        cxil_alloc_ct: refuse_3,
        cxil_ct_wb_update: refuse_2,
        cxil_destroy_ct: refuse_1,
        cxil_alloc_pte: refuse_4,
        cxil_destroy_pte: refuse_1,
        cxil_map_pte: refuse_5,
        cxil_unmap_pte: refuse_1,
        cxil_get_svc: None,
        cxil_get_svc_list: None,
        cxil_free_svc_list: None,
        cxil_get_svc_rsrc_use: None,
        cxil_get_svc_lpr: None,
        cxil_alloc_trig_cp: None,
        cxil_pte_status: None,
        cxil_svc_get_vni_range: None,
        progress: None,
    }
}

/// Functions that the queues do not need.
extern "C" fn ignore<A>(_: A) {}
extern "C" fn refuse_1<A>(_: A) -> c_int {
    -libc::ENOSYS
}
extern "C" fn refuse_2<A, B>(_: A, _: B) -> c_int {
    -libc::ENOSYS
}
extern "C" fn refuse_3<A, B, C>(_: A, _: B, _: C) -> c_int {
    -libc::ENOSYS
}
extern "C" fn refuse_4<A, B, C, D>(_: A, _: B, _: C, _: D) -> c_int {
    -libc::ENOSYS
}
extern "C" fn refuse_5<A, B, C, D, E>(_: A, _: B, _: C, _: D, _: E) -> c_int {
    -libc::ENOSYS
}

/// Stores a new object in `out`; `T` begins with its public part `P`.
///
/// # Safety
///
/// `out` is a valid out pointer.
unsafe fn allocate<T, P>(object: T, out: *mut *mut P) -> c_int {
    let object = Box::into_raw(Box::new(object));
    // SAFETY: the caller passes a valid out pointer.
    unsafe { out.write(object.cast()) };
    0
}

/// Frees an object of type `T`, which begins with its public part `P`.
///
/// # Safety
///
/// [`allocate`] allocated the object, and it has not been freed.
unsafe extern "C" fn free<T, P>(object: *mut P) -> c_int {
    // SAFETY: `allocate` boxed a `T`, and the caller frees it once.
    drop(unsafe { Box::<T>::from_raw(object.cast()) });
    0
}

unsafe extern "C" fn open_device(_: u32, out: *mut *mut cxil_dev) -> c_int {
    // SAFETY: the structure consists of integers, for which zeros are valid.
    let device: cxil_dev = unsafe { mem::zeroed() };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(device, out) }
}

unsafe extern "C" fn close_device(device: *mut cxil_dev) {
    // SAFETY: the wrapper closes each device once.
    unsafe { free::<cxil_dev, cxil_dev>(device) };
}

unsafe extern "C" fn alloc_lni(_: *mut cxil_dev, out: *mut *mut cxil_lni, _: c_uint) -> c_int {
    let lni = PrivateLni {
        public: cxil_lni { id: 0 },
        memory: Cell::new(QueueMemory {
            commands: ptr::null_mut(),
            events: ptr::null_mut(),
            event_bytes: 0,
        }),
    };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(lni, out) }
}

unsafe extern "C" fn alloc_cp(
    _: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    out: *mut *mut cxi_cp,
) -> c_int {
    let profile = cxi_cp { __bindgen_anon_1: cxi_cp__bindgen_ty_1 { vni }, tc, tc_type, lcid: 0 };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(profile, out) }
}

unsafe extern "C" fn map(
    _: *mut cxil_lni,
    va: *mut c_void,
    len: usize,
    _: u32,
    _: *mut cxi_md_hints,
    out: *mut *mut cxi_md,
) -> c_int {
    let region = cxi_md {
        iova: va as u64,
        va: va as u64,
        len,
        lac: 0,
        page_shift: 12,
        huge_shift: 0,
        id: 0,
    };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(region, out) }
}

unsafe extern "C" fn alloc_evtq(
    lni: *mut cxil_lni,
    _: *const cxi_md,
    attributes: *const cxi_eq_attr,
    _: *mut cxil_wait_obj,
    _: *mut cxil_wait_obj,
    out: *mut *mut cxi_eq,
) -> c_int {
    // SAFETY: the wrapper passes valid attributes.
    let attributes = unsafe { attributes.read() };
    let Ok(register) = Pages::anonymous(mem::size_of::<u64>()) else {
        return -libc::ENOMEM;
    };
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut public: cxi_eq = unsafe { mem::zeroed() };
    public.eqn = 1;
    public.sw_state_addr = register.as_ptr().cast();
    update(lni, |memory| {
        memory.events = attributes.queue.cast();
        memory.event_bytes = attributes.queue_len;
    });
    let queue = PrivateEventQueue { public, _register: register };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(queue, out) }
}

unsafe extern "C" fn alloc_cmdq(
    lni: *mut cxil_lni,
    _: *mut cxi_eq,
    options: *const cxi_cq_alloc_opts,
    out: *mut *mut cxi_cq,
) -> c_int {
    // SAFETY: the wrapper passes valid options.
    let slots = unsafe { options.read() }.count;
    let pages = |bytes| Pages::anonymous(bytes);
    let (Ok(commands), Ok(launch)) = (pages(slots as usize * SLOT), pages(4 * WINDOW)) else {
        return -libc::ENOMEM;
    };
    // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
    let mut public: cxi_cq = unsafe { mem::zeroed() };
    public.size = slots;
    public.__bindgen_anon_1.cmds32 = commands.as_ptr().cast();
    public.wp_addr = launch.as_ptr().cast();
    public.ll_64 = launch.as_ptr().wrapping_add(WINDOW);
    public.ll_128a = launch.as_ptr().wrapping_add(2 * WINDOW);
    public.ll_128u = launch.as_ptr().wrapping_add(3 * WINDOW);
    update(lni, |memory| memory.commands = commands.as_ptr());
    let queue = PrivateCommandQueue { public, _commands: commands, _launch: launch };
    // SAFETY: the wrapper passes a valid out pointer.
    unsafe { allocate(queue, out) }
}

/// Changes the record of the memory of the queues of `lni`.
fn update(lni: *mut cxil_lni, change: impl FnOnce(&mut QueueMemory)) {
    let lni: *const PrivateLni = lni.cast();
    // SAFETY: the wrapper passes an interface that `alloc_lni` made and that it has not destroyed.
    let memory = unsafe { &(*lni).memory };
    let mut changed = memory.get();
    change(&mut changed);
    memory.set(changed);
}
