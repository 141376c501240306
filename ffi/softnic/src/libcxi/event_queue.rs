//! Event queues, and wait objects, which wake programs that sleep in poll(2) until there is an
//! event (libcxi.md 8.1).

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use cxi_sys::records::EqSwState;
use cxi_sys::*;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use super::boundary::{Handle, answer, answer_number, from_c, hand_out, require_capability};
use super::service::registry::{allocate, publish};
use crate::engine::Engine;
use crate::engine::event_queue::{EventQueue, Interrupt, Thresholds, Time};
use crate::fabric::Fabric;
use crate::nic::SoftwareNic;
use crate::pages::{Pages, page_size};
use crate::process_memory::{check_writable, kernel_page_size};

/// Handle of an event queue.
#[repr(C)]
pub struct EqHandle {
    public: cxi_eq,
    pub nic: Arc<SoftwareNic>,
    pub lni: usize,
    pub number: usize,
    /// The page of `public.sw_state_addr`.
    software: Arc<Pages>,
    /// The buffer that the queue moves to, and its length.
    next: Option<(*mut c_void, usize)>,
}

// SAFETY: `cxil_alloc_evtq` gives out these handles, which begin with their public part.
unsafe impl Handle for cxi_eq {
    type Object = EqHandle;
}

/// Handle of a wait object.
pub struct WaitHandle {
    pub nic: Arc<SoftwareNic>,
    pub lni: usize,
    pub object: Arc<WaitObject>,
}

// SAFETY: `cxil_alloc_wait_obj` gives out these handles, which have no public part.
unsafe impl Handle for cxil_wait_obj {
    type Object = WaitHandle;
}

fn time_of_day() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64, now.tv_nsec as u32)
}

/// Makes an event queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_evtq(
    lni: *mut cxil_lni,
    md: *const cxi_md,
    attr: *const cxi_eq_attr,
    event_wait: *mut cxil_wait_obj,
    status_wait: *mut cxil_wait_obj,
    evtq: *mut *mut cxi_eq,
) -> c_int {
    from_c!(answer_at(evtq, || {
        let lni = from_c!(handle(lni))?;
        let attr = from_c!(input(attr))?;
        let md = from_c!(optional_handle(md));
        if md.is_some_and(|md| !Arc::ptr_eq(&md.nic, &lni.nic)) {
            return Err(Errno::INVAL);
        }
        let md = md.map(|md| md.number);
        let mut interrupts: [Option<Arc<dyn Interrupt>>; 2] = [None, None];
        for (interrupt, wait) in interrupts.iter_mut().zip([event_wait, status_wait]) {
            if let Some(wait) = from_c!(optional_handle(wait)) {
                if !lni.owns(&wait.nic, wait.lni) {
                    return Err(Errno::INVAL);
                }
                *interrupt = Some(wait.object.clone());
            }
        }
        check_attributes(attr)?;
        let software = Arc::new(Pages::anonymous(page_size())?);
        let number = lni.nic.with(|engine| {
            let passthrough = attr.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0;
            let md =
                check_mapping(engine, lni.number, md, passthrough, attr.queue, attr.queue_len)?;
            let buffer = attr.queue.expose_provenance();
            // SAFETY: `check_mapping` found the buffer writable, and the caller gives it to the
            // queue.
            unsafe { attr.queue.cast::<u8>().write_bytes(0, attr.queue_len) };
            // SAFETY: `check_attributes` found the buffer page aligned, and the caller keeps it
            // until it destroys or moves the queue.
            let mut queue = unsafe {
                let (len, software) = (attr.queue_len, software.clone());
                EventQueue::new(lni.number, md, buffer, len, software, time_of_day)
            };
            queue.configure(attr.flags, attr.reserved_slots as usize, thresholds(attr));
            queue.set_interrupts(interrupts);
            if let Some(errors) = engine.wire.errors.clone() {
                queue.set_errors(errors);
            }
            queue.is_writable = is_writable(engine, md);
            insert(engine, lni.number, queue)
        })?;
        Ok(hand_out(EqHandle {
            public: public(attr, number, &software),
            nic: lni.nic.clone(),
            lni: lni.number,
            number,
            software,
            next: None,
        }))
    }))
}

fn thresholds(attr: &cxi_eq_attr) -> Thresholds {
    Thresholds {
        base: attr.status_thresh_base,
        delta: attr.status_thresh_delta,
        count: attr.status_thresh_count,
    }
}

/// Adds an event queue to the objects of an LNI, and returns its number.
fn insert(engine: &mut Engine<Fabric>, lni: usize, queue: EventQueue) -> Result<usize, Errno> {
    let (interrupting, combining) = (queue.has_event_interrupt(), queue.combines_events());
    let stamping = queue.has_timestamps();
    let number = allocate(engine, lni, CXI_RSRC_TYPE_EQ, |engine| {
        engine.eqs.insert_again(lni, queue).ok_or(Errno::NOSPC)
    })?;
    engine.interrupting += usize::from(interrupting);
    engine.combining += usize::from(combining);
    engine.stamping += usize::from(stamping);
    Ok(number)
}

/// The part of a new queue that inline functions of C use.
fn public(attr: &cxi_eq_attr, number: usize, software: &Pages) -> cxi_eq {
    cxi_eq {
        byte_size: attr.queue_len as u32,
        sw_state: c_ee_cfg_eq_sw_state { qw: 0 },
        sw_state_addr: software.at(0, 8).cast(),
        last_ts_sec: 0,
        last_ts_ns: 0,
        rd_offset: C_EE_CFG_ECB_SIZE,
        prev_rd_offset: C_EE_CFG_ECB_SIZE,
        eqn: number as u32,
        context: std::ptr::null_mut::<c_void>(),
        __bindgen_anon_1: cxi_eq__bindgen_ty_1 { events: attr.queue.cast() },
    }
}

/// Checks the attributes of an event queue (nic.md 5.1).
fn check_attributes(attr: &cxi_eq_attr) -> Result<(), Errno> {
    check_buffer(attr.queue, attr.queue_len)?;
    if attr.reserved_slots as usize > most_reserved(attr.queue_len) {
        return Err(Errno::INVAL);
    }
    let (base, delta, count) =
        (attr.status_thresh_base, attr.status_thresh_delta, attr.status_thresh_count);
    if base > 100 || delta > 100 || count > 4 || (count > 0 && (count - 1) * delta > base) {
        return Err(Errno::INVAL);
    }
    if attr.flags & u64::from(CXI_EQ_REGISTER_PCT) != 0 {
        // The device information names the event queue of a retry handler, so this would be a
        // second.
        return require_capability(CapabilitySet::SYS_ADMIN).and(Err(Errno::EXIST));
    }
    Ok(())
}

/// The most slots of a buffer of `len` bytes that can be reserved: all but the status slot.
fn most_reserved(len: usize) -> usize {
    len / C_EE_CFG_ECB_SIZE as usize - 1
}

/// Checks a buffer: whole pages, at most 4 GiB.
fn check_buffer(queue: *mut c_void, len: usize) -> Result<(), Errno> {
    let page = page_size();
    let aligned = !queue.is_null() && queue.addr().is_multiple_of(page);
    let sized = len != 0 && len.is_multiple_of(page) && len <= 4 << 30;
    if aligned && sized { Ok(()) } else { Err(Errno::INVAL) }
}

/// The mapping that holds the buffer, whether or not the NIC may write it (libcxi.md 8.1); `None`
/// for passthrough, where the buffer must be contiguous. EFAULT unless the process may write the
/// buffer.
fn check_mapping(
    engine: &Engine<Fabric>,
    lni: usize,
    md: Option<usize>,
    passthrough: bool,
    queue: *mut c_void,
    len: usize,
) -> Result<Option<usize>, Errno> {
    let start = queue.addr();
    if passthrough {
        check_writable(start, start + len)?;
        check_contiguous(start, len)?;
        return Ok(None);
    }
    let number = md.ok_or(Errno::INVAL)?;
    let md = engine.mds.get(number).filter(|md| md.lni == lni).ok_or(Errno::INVAL)?;
    let inside = start >= md.va && start - md.va <= md.len && len <= md.len - (start - md.va);
    // The program polls the queue, so it must be memory of the CPU.
    let on_device = md.flags & CXI_MAP_DEVICE != 0;
    if !inside || on_device {
        return Err(Errno::INVAL);
    }
    // The mapping may have been made without memory.
    check_writable(start, start + len)?;
    Ok(Some(number))
}

/// Whether the NIC may write a buffer in this mapping, or in none.
fn is_writable(engine: &Engine<Fabric>, md: Option<usize>) -> bool {
    let md = md.and_then(|md| engine.mds.get(md));
    md.is_none_or(|md| md.flags & CXI_MAP_WRITE != 0)
}

/// Checks that mapped memory is physically contiguous: inside one page, which may be a huge page.
fn check_contiguous(start: usize, len: usize) -> Result<(), Errno> {
    let page = kernel_page_size(start)?;
    if start / page == (start + len - 1) / page { Ok(()) } else { Err(Errno::INVAL) }
}

/// Destroys an event queue. EBUSY while portals table entries or command queues use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_evtq(evtq: *mut cxi_eq) -> c_int {
    from_c!(end(evtq, |evtq: &EqHandle| {
        evtq.nic.with(|engine| {
            let busy = engine.ptes.iter().any(|(_, pte)| usize::from(pte.eq) == evtq.number)
                || engine.tx.iter().any(|(_, queue)| usize::from(queue.error_eq) == evtq.number)
                || engine.tgt.iter().any(|(_, queue)| usize::from(queue.error_eq) == evtq.number);
            if busy {
                return Err(Errno::BUSY);
            }
            engine.remove_event_queue(evtq.number);
            publish(engine, evtq.lni);
            Ok(())
        })
    }))
}

/// Moves the queue to another buffer (nic.md 5.8), which obeys the rules for the first. EBUSY while
/// an earlier move is not complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_resize(
    evtq: *mut cxi_eq,
    queue: *mut c_void,
    queue_len: usize,
    queue_md: *mut cxi_md,
) -> c_int {
    answer(|| {
        let eq = from_c!(handle_mut(evtq))?;
        check_buffer(queue, queue_len)?;
        let md = from_c!(optional_handle(queue_md));
        if md.is_some_and(|md| !Arc::ptr_eq(&md.nic, &eq.nic)) {
            return Err(Errno::INVAL);
        }
        let md = md.map(|md| md.number);
        if eq.next.is_some() {
            return Err(Errno::BUSY);
        }
        eq.nic.with(|engine| {
            let leaving = engine.eqs.get(eq.number).ok_or(Errno::INVAL)?;
            let passthrough = leaving.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0;
            if leaving.reserved() > most_reserved(queue_len) {
                return Err(Errno::INVAL);
            }
            let md = check_mapping(engine, eq.lni, md, passthrough, queue, queue_len)?;
            let is_writable = is_writable(engine, md);
            let moving = engine.eqs.get_mut(eq.number).ok_or(Errno::INVAL)?;
            let buffer = queue.expose_provenance();
            // SAFETY: `check_mapping` found the buffer writable, and the caller gives it to the
            // queue.
            unsafe { queue.cast::<u8>().write_bytes(0, queue_len) };
            // SAFETY: `check_buffer` found the buffer page aligned, and the caller keeps it until
            // it destroys or moves the queue.
            let moved = unsafe { moving.move_to(md, buffer, queue_len) };
            if !moved {
                return Err(Errno::BUSY);
            }
            moving.is_writable = is_writable;
            Ok(())
        })?;
        eq.next = Some((queue, queue_len));
        Ok(())
    })
}

/// Switches the public part of the queue to the buffer of [`cxil_evtq_resize`], after its EQ_SWITCH
/// was read; the previous buffer is the caller's again. EINVAL if the queue is not moving.
///
/// The software-state register is written at once, not by the next acknowledgement (nic.md 5.8).
/// Otherwise, after two moves without an acknowledgement, the NIC would take the read pointer of
/// the first buffer for one of the third.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_resize_complete(evtq: *mut cxi_eq) -> c_int {
    answer(|| {
        let eq = from_c!(handle_mut(evtq))?;
        let (queue, len) = eq.next.ok_or(Errno::INVAL)?;
        let in_buffer_b = eq.nic.with(|engine| {
            let moving = engine.eqs.get_mut(eq.number).ok_or(Errno::INVAL)?;
            if !moving.complete_move() {
                return Err(Errno::INVAL);
            }
            Ok(moving.is_in_buffer_b())
        })?;
        eq.next = None;
        // SAFETY: all fields of the union are 64 bits, valid for any bits.
        let mut state = EqSwState::from_bytes(unsafe { eq.public.sw_state.qw }.to_le_bytes());
        state.set_reading_buffer_b(in_buffer_b).set_rd_ptr(1);
        let state = u64::from_le_bytes(*state.bytes());
        eq.software.word(0).store(state, Ordering::Release);
        eq.public.sw_state.qw = state;
        eq.public.byte_size = len as u32;
        eq.public.rd_offset = C_EE_CFG_ECB_SIZE;
        eq.public.prev_rd_offset = C_EE_CFG_ECB_SIZE;
        eq.public.__bindgen_anon_1.events = queue.cast();
        Ok(())
    })
}

/// The largest change of the reserved slots by one call (nic.md 5.6).
const MOST_RESERVED: c_int = (1 << 14) - 1;

/// Changes the number of slots that received messages may not use, and returns the new number.
/// EINVAL for a change of more than 2^14 - 1 slots, and if the number would be negative; ENOSPC if
/// too few slots are free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_adjust_reserved_fc(evtq: *mut cxi_eq, value: c_int) -> c_int {
    answer_number(|| {
        let EqHandle { nic, number, .. } = from_c!(handle(evtq))?;
        if !(-MOST_RESERVED..=MOST_RESERVED).contains(&value) {
            return Err(Errno::INVAL);
        }
        nic.with(|engine| {
            let queue = engine.eqs.get_mut(*number).ok_or(Errno::INVAL)?;
            let reserved = queue.reserve(value as isize).ok_or(match value {
                ..0 => Errno::INVAL,
                _ => Errno::NOSPC,
            })?;
            Ok(reserved as c_int)
        })
    })
}

/// Makes a wait object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_wait_obj(
    lni: *mut cxil_lni,
    wait: *mut *mut cxil_wait_obj,
) -> c_int {
    from_c!(answer_at(wait, || {
        let lni = from_c!(handle(lni))?;
        let object = Arc::new(WaitObject::new()?);
        lni.nic.with(|engine| {
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            owner.wait_objects += 1;
            Ok(())
        })?;
        Ok(hand_out(WaitHandle { nic: lni.nic.clone(), lni: lni.number, object }))
    }))
}

/// Destroys a wait object. EBUSY while an event queue signals it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_wait_obj(wait: *mut cxil_wait_obj) -> c_int {
    from_c!(end(wait, |wait: &WaitHandle| {
        wait.nic.with(|engine| {
            if Arc::strong_count(&wait.object) > 1 {
                return Err(Errno::BUSY);
            }
            let owner = engine.lnis.get_mut(wait.lni).ok_or(Errno::INVAL)?;
            owner.wait_objects -= 1;
            Ok(())
        })
    }))
}

/// The descriptor to poll, which is ready (POLLPRI and POLLIN) from an event on until it is
/// cleared. EIO in a child process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_wait_obj_fd(wait: *mut cxil_wait_obj) -> c_int {
    answer_number(|| {
        let WaitHandle { nic, object, .. } = from_c!(handle(wait))?;
        nic.with(|_| Ok(object.descriptor()))
    })
}

/// Clears a wait object. Does nothing for null, and in a child process, because the socket belongs
/// to the parent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_clear_wait_obj(wait: *mut cxil_wait_obj) {
    answer(|| {
        let WaitHandle { nic, object, .. } = from_c!(handle(wait))?;
        nic.with(|_| {
            object.clear();
            Ok(())
        })
    });
}

/// A descriptor that poll(2) reports as ready from a signal until it is cleared.
///
/// The descriptor of the driver is a file of sysfs, which is polled for POLLPRI. This one is a
/// socket with an out-of-band byte, which gives POLLPRI and POLLIN.
pub struct WaitObject {
    ours: OwnedFd,
    theirs: OwnedFd,
    signaled: Mutex<bool>,
}

impl WaitObject {
    /// Makes a descriptor that is not ready.
    ///
    /// # Errors
    /// The errno of socketpair(2).
    pub fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(Self { ours, theirs, signaled: Mutex::new(false) })
    }

    pub fn descriptor(&self) -> RawFd {
        self.theirs.as_raw_fd()
    }

    /// Makes the descriptor not ready.
    pub fn clear(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            return;
        }
        let mut byte = [0; 1];
        // After an out-of-band byte was received, an ordinary receive removes its mark from the
        // queue.
        for flags in [RecvFlags::OOB, RecvFlags::empty()] {
            while recv(&self.theirs, &mut byte, flags).is_err_and(|error| error == Errno::INTR) {}
        }
        *signaled = false;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.signaled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupt for WaitObject {
    /// Makes the descriptor ready, if it is not.
    fn signal(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            *signaled = true;
            // Before Linux 5.15 local sockets have no out-of-band bytes: then an ordinary byte
            // gives POLLIN.
            if send(&self.ours, &[1], SendFlags::OOB).is_err() {
                let _ = send(&self.ours, &[1], SendFlags::empty());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn events(wait: &WaitObject) -> PollFlags {
        // SAFETY: `wait` owns the descriptor and lives until the end of this function.
        let descriptor = unsafe { BorrowedFd::borrow_raw(wait.descriptor()) };
        let mut polled = [PollFd::new(&descriptor, PollFlags::PRI | PollFlags::IN)];
        let at_once = Timespec::default();
        poll(&mut polled, Some(&at_once)).unwrap();
        polled[0].revents()
    }

    #[test]
    fn is_ready_from_signal_until_cleared() {
        let wait = WaitObject::new().unwrap();
        assert_eq!(events(&wait), PollFlags::empty());
        for _ in 0..3 {
            wait.signal();
            wait.signal();
            assert!(events(&wait).contains(PollFlags::PRI));
            wait.clear();
            assert_eq!(events(&wait), PollFlags::empty());
            wait.clear();
        }
    }
}
