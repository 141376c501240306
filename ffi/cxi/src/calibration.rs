//! Queues without a NIC, for measuring what issuing a command and polling an event cost by
//! themselves.
//!
//! The queues of this package run on a libcxi whose objects are memory of the process: the code
//! that runs is the code that runs on a NIC. The caller plays the NIC, outside the timed part:
//! [`PrivateQueues::read_command`], [`PrivateQueues::write_event`].
//!
//! One thing differs from hardware: stores to the launch page go to ordinary memory, not through
//! the write-combining buffer to the bus.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, ptr};

use cxi_sys::records::{CStateCmd, CqStatus, IdcHdr};
use cxi_sys::*;

use crate::device::Device;
use crate::error::{EmitError, Error};
use crate::event_queue::EventQueue;
use crate::library::Library;
use crate::lni::{CommunicationProfile, Lni};
use crate::pages::Pages;
use crate::prepared::Prepared;
use crate::transmit_queue::TransmitQueue;

/// Bytes of the event of a put.
const EVENT: usize = 16;

/// Payload of each put.
const PAYLOAD: [u8; 8] = [0; 8];

/// Slots of the transmit queue.
const SLOTS: u32 = 64;

/// A transmit queue and an event queue without a NIC.
pub struct PrivateQueues {
    // Released before the interface.
    transmit: TransmitQueue,
    events: EventQueue,
    /// A put of 8 bytes.
    put: Prepared<4>,
    /// The memory that a NIC would write.
    memory: QueueMemory,
    /// Slot of the next command.
    command: u16,
    /// Offset of the next event in its queue.
    event: usize,
    _lni: Lni,
}

impl PrivateQueues {
    /// Allocates the queues.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn new() -> Result<Self, Error> {
        let library = Library::from_api(api());
        let lni = Lni::new(&Device::open(&library, 0)?, 1)?;
        let profile = CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)?;
        let events = EventQueue::new(&lni, 1, CXI_EQ_EC_DISABLE.into())?;
        let mut transmit = TransmitQueue::new(&profile, SLOTS, &events, None)?;
        let mut context = CStateCmd::new();
        context.set_event_send_disable(true).set_restricted(true).set_eq(events.number());
        let mut batch = transmit.batch();
        let emitted = batch.emit_c_state(&context);
        emitted.expect("an empty queue has room for its first command");
        batch.commit_doorbell();
        let put = transmit.prepare_idc_put(&IdcHdr::new(), &PAYLOAD);
        Ok(Self {
            put: put.expect("8 bytes fit in the command"),
            transmit,
            events,
            memory: memory(&lni),
            command: C_CQ_FIRST_WR_PTR as u16 + 1,
            event: SLOT,
            _lni: lni,
        })
    }

    /// Issues a put of 8 bytes by low-latency write.
    ///
    /// # Errors
    ///
    /// A queue is full: commands were not read, or events not acknowledged.
    #[inline]
    pub fn issue(&mut self) -> Result<(), EmitError> {
        self.transmit.issue_low_latency(&self.put)
    }

    /// Moves the read pointer over one issued command, as a NIC does when it has read it.
    pub fn read_command(&mut self) {
        self.command += 1;
        if u32::from(self.command) == SLOTS {
            self.command = C_CQ_FIRST_WR_PTR as u16;
        }
        let mut status = CqStatus::new();
        status.set_rd_ptr(self.command);
        status.set_return_code(C_RC_OK as u8);
        self.store(self.memory.commands, u64::from_le_bytes(*status.bytes()));
    }

    /// Writes the event of a successful put, as a NIC does when the put is acknowledged.
    pub fn write_event(&mut self) {
        // The size code 1 stands for 16 bytes (nic.md 5.3).
        let head = ((1 | u64::from(C_EVENT_ACK) << 2) << 48) | (u64::from(C_RC_OK) << 56);
        self.store(self.memory.events.wrapping_add(self.event + 8), head);
        self.event += EVENT;
        if self.event == self.memory.event_bytes {
            self.event = SLOT;
        }
    }

    /// Polls for an event. Returns whether there was one.
    #[inline]
    pub fn poll(&mut self) -> bool {
        self.events.poll().is_some()
    }

    /// Gives the slots of polled events back.
    pub fn acknowledge(&mut self) {
        self.events.acknowledge();
    }

    fn store(&self, at: *mut u8, word: u64) {
        // SAFETY: `at` is an aligned word of a queue that `self` keeps allocated; the CPU accesses
        // it only through atomics.
        let to = unsafe { AtomicU64::from_ptr(at.cast()) };
        to.store(word.to_le(), Ordering::Release);
    }
}

/// Bytes of a slot of an event queue.
const SLOT: usize = 64;

/// Distance of the windows of a launch page.
const WINDOW: usize = 1024;

/// The memory that a NIC would write. Valid as long as the queues.
#[derive(Clone, Copy)]
struct QueueMemory {
    /// Start of the command queue, with its status word.
    commands: *mut u8,
    /// Start of the event queue.
    events: *mut u8,
    /// Size of the event queue in bytes.
    event_bytes: usize,
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

/// The memory of the queues of `lni`, an interface of this table.
fn memory(lni: &Lni) -> QueueMemory {
    let lni: *const PrivateLni = lni.handle().as_ptr().cast();
    // SAFETY: `alloc_lni` made the interface, which `lni` keeps allocated.
    unsafe { &(*lni).memory }.get()
}

/// The table.
///
/// There is no NIC behind the objects: nothing reads commands or writes events.
fn api() -> Api {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// More commands than either queue holds.
    #[test]
    fn completes_each_issued_command_once() {
        let mut queues = PrivateQueues::new().unwrap();
        assert!(!queues.poll());
        for _ in 0..1_000 {
            queues.issue().unwrap();
            assert!(!queues.poll());
            queues.read_command();
            queues.write_event();
            assert!(queues.poll());
            assert!(!queues.poll());
            queues.acknowledge();
        }
    }

    #[test]
    fn event_may_be_ready_before_its_command() {
        let mut queues = PrivateQueues::new().unwrap();
        for _ in 0..1_000 {
            queues.write_event();
            queues.issue().unwrap();
            assert!(queues.poll());
            queues.acknowledge();
            queues.read_command();
        }
    }

    #[test]
    fn queue_is_full_if_commands_are_not_read() {
        let mut queues = PrivateQueues::new().unwrap();
        let issued = (0..2 * SLOTS).take_while(|_| queues.issue().is_ok()).count();
        assert!(issued < SLOTS as usize, "{issued}");
    }
}
