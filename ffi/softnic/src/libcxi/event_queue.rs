//! Event queues (libcxi.md 8.1).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::records::EqSwState;
use cxi_sys::*;
use rustix::io::Errno;

use super::lni::LniHandle;
use super::memory::{MdHandle, check_access};
use super::service::books::{allocate, publish};
use super::wait::WaitHandle;
use super::{answer, hand_out, handle, place, take_back};
use crate::engine::Engine;
use crate::engine::event_queue::{EventQueue, Thresholds};
use crate::fabric::Fabric;
use crate::nic::Nic;
use crate::pages::{Pages, page_size};

/// Handle of an event queue.
#[repr(C)]
pub struct EqHandle {
    public: cxi_eq,
    pub nic: Arc<Nic>,
    pub lni: usize,
    pub number: usize,
    /// The page of `public.sw_state_addr`.
    software: Arc<Pages>,
    /// Where the buffer is that the queue moves to, and its length.
    next: Option<(*mut c_void, usize)>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_evtq(
    lni: *mut cxil_lni,
    md: *const cxi_md,
    attr: *const cxi_eq_attr,
    event_wait: *mut cxil_wait_obj,
    status_wait: *mut cxil_wait_obj,
    evtq: *mut *mut cxi_eq,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        let place = unsafe { place(evtq) }?;
        // SAFETY: C contract.
        let md = unsafe { md.cast::<MdHandle>().as_ref() };
        if md.is_some_and(|md| !Arc::ptr_eq(&md.nic, &lni.nic)) {
            return Err(Errno::INVAL);
        }
        let md = md.map(|md| md.number);
        let mut waits = [None, None];
        for (wait, given) in waits.iter_mut().zip([event_wait, status_wait]) {
            // SAFETY: C contract: null or a wait object.
            if let Some(given) = unsafe { given.cast::<WaitHandle>().as_ref() } {
                if given.lni != lni.number || !Arc::ptr_eq(&given.nic, &lni.nic) {
                    return Err(Errno::INVAL);
                }
                *wait = Some(given.object.clone());
            }
        }
        check_attributes(attr)?;
        let software = Arc::new(Pages::anonymous(page_size())?);
        let number = lni.nic.with(|engine| {
            let passthrough = attr.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0;
            let md = check_mapping(
                engine,
                lni.number,
                md,
                passthrough,
                attr.queue,
                attr.queue_len,
            )?;
            let buffer = attr.queue.expose_provenance();
            // SAFETY: the buffer was found accessible just now, and is the caller's to give.
            unsafe { attr.queue.cast::<u8>().write_bytes(0, attr.queue_len) };
            // SAFETY: C contract: the buffer outlives the queue; unmapping it before is EBUSY.
            let mut queue = unsafe {
                EventQueue::new(lni.number, md, buffer, attr.queue_len, software.clone())
            };
            let thresholds = Thresholds {
                base: attr.status_thresh_base,
                delta: attr.status_thresh_delta,
                count: attr.status_thresh_count,
            };
            queue.configure(attr.flags, attr.reserved_slots as usize, thresholds);
            queue.set_waits(waits);
            let waited_for = queue.is_waited_for();
            let number = allocate(engine, lni.number, CXI_RSRC_TYPE_EQ, |engine| {
                engine.eqs.insert(queue).ok_or(Errno::NOSPC)
            })?;
            engine.waited_for += usize::from(waited_for);
            Ok(number)
        })?;
        let public = cxi_eq {
            byte_size: attr.queue_len as u32,
            sw_state: c_ee_cfg_eq_sw_state { qw: 0 },
            sw_state_addr: software.at(0, 8).cast(),
            last_ts_sec: 0,
            last_ts_ns: 0,
            rd_offset: C_EE_CFG_ECB_SIZE,
            prev_rd_offset: C_EE_CFG_ECB_SIZE,
            eqn: number as u32,
            context: std::ptr::null_mut::<c_void>(),
            __bindgen_anon_1: cxi_eq__bindgen_ty_1 {
                events: attr.queue.cast(),
            },
        };
        *place = hand_out(EqHandle {
            public,
            nic: lni.nic.clone(),
            lni: lni.number,
            number,
            software,
            next: None,
        });
        Ok(())
    })
}

/// The rules about an event queue's attributes (nic.md 5.1).
fn check_attributes(attr: &cxi_eq_attr) -> Result<(), Errno> {
    check_buffer(attr.queue, attr.queue_len)?;
    if attr.reserved_slots as usize > most_reserved(attr.queue_len) {
        return Err(Errno::INVAL);
    }
    let (base, delta, count) = (
        attr.status_thresh_base,
        attr.status_thresh_delta,
        attr.status_thresh_count,
    );
    if base > 100 || delta > 100 || count > 4 || (count > 0 && (count - 1) * delta > base) {
        return Err(Errno::INVAL);
    }
    if attr.flags & u64::from(CXI_EQ_REGISTER_PCT) != 0 {
        // The device says that a retry handler runs, so there cannot be a second.
        return Err(if rustix::process::geteuid().is_root() {
            Errno::EXIST
        } else {
            Errno::PERM
        });
    }
    // Physically contiguous memory, which a page is, and more cannot be known to be.
    if attr.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0 && attr.queue_len > page_size() {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Most slots of a buffer of `len` bytes that can be reserved: all but the status.
fn most_reserved(len: usize) -> usize {
    len / C_EE_CFG_ECB_SIZE as usize - 1
}

/// A buffer is whole pages, at most 4 GiB.
fn check_buffer(queue: *mut c_void, len: usize) -> Result<(), Errno> {
    let page = page_size();
    let aligned = !queue.is_null() && queue.addr().is_multiple_of(page);
    let sized = len != 0 && len.is_multiple_of(page) && len <= 4 << 30;
    if aligned && sized {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// The mapping that holds the buffer, which must allow the NIC to write; none for passthrough, where the
/// process itself must be able to.
fn check_mapping(
    engine: &Engine<Fabric>,
    lni: usize,
    md: Option<usize>,
    passthrough: bool,
    queue: *mut c_void,
    len: usize,
) -> Result<Option<usize>, Errno> {
    let start = queue.addr();
    let rights = CXI_MAP_READ | CXI_MAP_WRITE;
    if passthrough {
        check_access(start, start + len, rights)?;
        return Ok(None);
    }
    let number = md.ok_or(Errno::INVAL)?;
    let md = engine
        .mds
        .get(number)
        .filter(|md| md.lni == lni)
        .ok_or(Errno::INVAL)?;
    let inside = start >= md.va && start - md.va <= md.len && len <= md.len - (start - md.va);
    // The program polls the queue: it is memory of the CPU.
    let on_device = md.flags & CXI_MAP_DEVICE != 0;
    if !inside || on_device || md.flags & rights != rights {
        return Err(Errno::INVAL);
    }
    Ok(Some(number))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_evtq(evtq: *mut cxi_eq) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let EqHandle {
            nic, number, lni, ..
        } = unsafe { handle(evtq) }?;
        nic.with(|engine| {
            let busy = engine
                .ptes
                .iter()
                .any(|(_, pte)| usize::from(pte.eq) == *number)
                || engine
                    .tx
                    .iter()
                    .any(|(_, queue)| usize::from(queue.error_eq) == *number)
                || engine
                    .tgt
                    .iter()
                    .any(|(_, queue)| usize::from(queue.error_eq) == *number);
            if busy {
                return Err(Errno::BUSY);
            }
            engine.remove_event_queue(*number);
            publish(engine, *lni);
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_evtq`; gone by C contract once this succeeds.
        unsafe { take_back::<EqHandle, _>(evtq) };
        Ok(())
    })
}

/// Has the queue go on in another buffer (nic.md 5.8), with the same rules as for the first. EBUSY while an earlier
/// move is not complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_resize(
    evtq: *mut cxi_eq,
    queue: *mut c_void,
    queue_len: usize,
    queue_md: *mut cxi_md,
) -> c_int {
    answer(|| {
        // SAFETY: C contract: null or an event queue, used by this thread alone.
        let eq = unsafe { evtq.cast::<EqHandle>().as_mut() }.ok_or(Errno::INVAL)?;
        check_buffer(queue, queue_len)?;
        // SAFETY: C contract: null or a mapping.
        let md = unsafe { queue_md.cast::<MdHandle>().as_ref() };
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
            let too_small = leaving.reserved() > most_reserved(queue_len);
            if too_small || (passthrough && queue_len > page_size()) {
                return Err(Errno::INVAL);
            }
            let md = check_mapping(engine, eq.lni, md, passthrough, queue, queue_len)?;
            let moving = engine.eqs.get_mut(eq.number).ok_or(Errno::INVAL)?;
            let buffer = queue.expose_provenance();
            // SAFETY: the buffer was found accessible just now, and is the caller's to give.
            unsafe { queue.cast::<u8>().write_bytes(0, queue_len) };
            // SAFETY: C contract: the buffer outlives the queue; unmapping it before is EBUSY.
            let moved = unsafe { moving.move_to(md, buffer, queue_len) };
            if moved { Ok(()) } else { Err(Errno::BUSY) }
        })?;
        eq.next = Some((queue, queue_len));
        Ok(())
    })
}

/// Goes over to the buffer of [`cxil_evtq_resize`], after its EQ_SWITCH was consumed: the public part of the queue is about
/// the new buffer then, and the old one is the caller's again. EINVAL if the queue is not moving.
///
/// The NIC is told at once, not by the next acknowledgement (nic.md 5.8): else, after two moves without one, what the
/// register says of the first buffer would be taken for news of the third.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_resize_complete(evtq: *mut cxi_eq) -> c_int {
    answer(|| {
        // SAFETY: C contract: null or an event queue, used by this thread alone.
        let eq = unsafe { evtq.cast::<EqHandle>().as_mut() }.ok_or(Errno::INVAL)?;
        let (queue, len) = eq.next.ok_or(Errno::INVAL)?;
        let in_buffer_b = eq.nic.with(|engine| {
            let moving = engine.eqs.get_mut(eq.number).ok_or(Errno::INVAL)?;
            if !moving.has_moved() {
                return Err(Errno::INVAL);
            }
            Ok(moving.is_in_buffer_b())
        })?;
        eq.next = None;
        // SAFETY: all members of this union of C are the same 64 bits.
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

/// Largest change of the reserved slots by one call (nic.md 5.6).
const MOST_RESERVED: c_int = (1 << 14) - 1;

/// Changes how many slots incoming messages may not use. EINVAL beyond 2^14 - 1 either way, and below none; ENOSPC
/// where not so many slots are free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_evtq_adjust_reserved_fc(evtq: *mut cxi_eq, value: c_int) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let EqHandle { nic, number, .. } = unsafe { handle(evtq) }?;
        if !(-MOST_RESERVED..=MOST_RESERVED).contains(&value) {
            return Err(Errno::INVAL);
        }
        nic.with(|engine| {
            let queue = engine.eqs.get_mut(*number).ok_or(Errno::INVAL)?;
            queue.reserve(value as isize).ok_or(match value {
                ..0 => Errno::INVAL,
                _ => Errno::NOSPC,
            })
        })
    })
}
