//! Event queues and command queues (libcxi.md 8.1, 8.2).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::lni::LniHandle;
use super::memory::MdHandle;
use super::{answer, hand_out, handle, place, take_back};
use crate::engine::Engine;
use crate::engine::event_queue::{EventQueue, Thresholds};
use crate::engine::portal::TargetQueue;
use crate::engine::ring::{CommandRing, StatusPolicy};
use crate::engine::transmit::TransmitQueue;
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
    software: Arc<Pages>,
}

/// Handle of a command queue.
#[repr(C)]
struct CqHandle {
    public: cxi_cq,
    nic: Arc<Nic>,
    transmit: bool,
    number: usize,
    memory: Arc<Pages>,
    launch: Arc<Pages>,
}

/// Wait objects are not offered: this NIC raises no interrupts (EOPNOTSUPP).
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
        if !event_wait.is_null() || !status_wait.is_null() {
            return Err(Errno::OPNOTSUPP);
        }
        check_queue(attr)?;
        let software = Arc::new(Pages::anonymous(page_size())?);
        let number = lni.nic.with(|engine| {
            let md = check_buffer(engine, lni.number, md, attr)?;
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
            engine.eqs.insert(queue).ok_or(Errno::NOSPC)
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
        });
        Ok(())
    })
}

/// The rules about an event queue's attributes (nic.md 5.1).
fn check_queue(attr: &cxi_eq_attr) -> Result<(), Errno> {
    let page = page_size();
    let aligned = !attr.queue.is_null() && attr.queue.addr().is_multiple_of(page);
    let sized =
        attr.queue_len != 0 && attr.queue_len.is_multiple_of(page) && attr.queue_len <= 4 << 30;
    if !aligned
        || !sized
        || attr.reserved_slots as usize > attr.queue_len / C_EE_CFG_ECB_SIZE as usize - 1
    {
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
    if attr.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0 && attr.queue_len > page {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// The mapping that holds the buffer, which must allow the NIC to write; none for passthrough.
fn check_buffer(
    engine: &Engine<Fabric>,
    lni: usize,
    md: Option<usize>,
    attr: &cxi_eq_attr,
) -> Result<Option<usize>, Errno> {
    if attr.flags & u64::from(CXI_EQ_PASSTHROUGH) != 0 {
        return Ok(None);
    }
    let number = md.ok_or(Errno::INVAL)?;
    let md = engine
        .mds
        .get(number)
        .filter(|md| md.lni == lni)
        .ok_or(Errno::INVAL)?;
    let start = attr.queue.addr();
    let rights = CXI_MAP_READ | CXI_MAP_WRITE;
    let inside =
        start >= md.va && start - md.va <= md.len && attr.queue_len <= md.len - (start - md.va);
    if !inside || md.flags & rights != rights {
        return Err(Errno::INVAL);
    }
    Ok(Some(number))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_evtq(evtq: *mut cxi_eq) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let EqHandle { nic, number, .. } = unsafe { handle(evtq) }?;
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
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_evtq`; gone by C contract once this succeeds.
        unsafe { take_back::<EqHandle, _>(evtq) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_cmdq(
    lni: *mut cxil_lni,
    evtq: *mut cxi_eq,
    opts: *const cxi_cq_alloc_opts,
    cmdq: *mut *mut cxi_cq,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let opts = unsafe { opts.as_ref() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        let place = unsafe { place(cmdq) }?;
        // SAFETY: C contract: null or an event queue.
        let eq = unsafe { evtq.cast::<EqHandle>().as_ref() };
        if eq.is_some_and(|eq| eq.lni != lni.number || !Arc::ptr_eq(&eq.nic, &lni.nic)) {
            return Err(Errno::INVAL);
        }
        let count = slots(opts.count)?;
        let policy = StatusPolicy::from_number(opts.policy).ok_or(Errno::INVAL)?;
        if opts.lpe_cdt_thresh_id > 3 {
            return Err(Errno::INVAL);
        }
        let flag = |flag| opts.flags & flag != 0;
        let (transmit, trigger) = (flag(CXI_CQ_IS_TX), flag(CXI_CQ_TX_WITH_TRIG_CMDS));
        if transmit && flag(CXI_CQ_TX_ETHERNET) {
            // This NIC has no Ethernet side to give to root either.
            return Err(if rustix::process::geteuid().is_root() {
                Errno::OPNOTSUPP
            } else {
                Errno::PERM
            });
        }
        if transmit && trigger && opts.lcid != 0 {
            return Err(Errno::INVAL);
        }
        let memory = Arc::new(Pages::anonymous(count as usize * C_CQ_CMD_SIZE as usize)?);
        let launch = Arc::new(Pages::anonymous(4096)?);
        let ring = CommandRing::new(memory.clone(), launch.clone(), count, policy);
        let error_eq = eq.map_or(0, |eq| eq.number as u16);
        let number = lni.nic.with(|engine| {
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            if !transmit {
                let queue = TargetQueue {
                    ring,
                    lni: lni.number,
                    error_eq,
                };
                return engine.tgt.insert(queue).ok_or(Errno::NOSPC);
            }
            let lcid = opts.lcid as usize;
            owner
                .profiles
                .get(lcid)
                .and_then(Option::as_ref)
                .ok_or(Errno::INVAL)?;
            let queue = TransmitQueue::new(ring, lni.number, lcid as u8, trigger, error_eq);
            engine.tx.insert(queue).ok_or(Errno::NOSPC)
        })?;
        let public = cxi_cq {
            size: count,
            wp_addr: launch.at(0, 8).cast(),
            ll_64: launch.at(1024, 1024),
            ll_128a: launch.at(2048, 1024),
            ll_128u: launch.at(3072, 1024),
            __bindgen_anon_1: cxi_cq__bindgen_ty_1 {
                cmds32: memory.at(0, 0).cast(),
            },
            rp32: C_CQ_FIRST_WR_PTR_32.into(),
            idx: number as u32 + if transmit { 0 } else { C_NUM_TRANSMIT_CQS },
            size32: 2 * count,
            wp32: C_CQ_FIRST_WR_PTR_32.into(),
            hw_wp32: C_CQ_FIRST_WR_PTR_32.into(),
        };
        *place = hand_out(CqHandle {
            public,
            nic: lni.nic.clone(),
            transmit,
            number,
            memory,
            launch,
        });
        Ok(())
    })
}

/// Slots of a queue of which `count` were asked for (nic.md 2.1).
fn slots(count: u32) -> Result<u32, Errno> {
    let per_page = page_size() as u64 / u64::from(C_CQ_CMD_SIZE);
    let pages = u64::from(count)
        .max(per_page)
        .div_ceil(per_page)
        .next_power_of_two();
    let slots = pages * per_page;
    u32::try_from(slots)
        .ok()
        .filter(|&slots| slots <= CXI_MAX_CQ_COUNT)
        .ok_or(Errno::TOOBIG)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_cmdq(cmdq: *mut cxi_cq) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let CqHandle {
            nic,
            transmit,
            number,
            ..
        } = unsafe { handle(cmdq) }?;
        nic.with(|engine| {
            if *transmit {
                engine.remove_transmit_queue(*number);
            } else {
                engine.tgt.remove(*number);
            }
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_cmdq`; gone by C contract once this succeeds.
        unsafe { take_back::<CqHandle, _>(cmdq) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_sizes() {
        for (asked, given) in [
            (0, 64),
            (1, 64),
            (64, 64),
            (65, 128),
            (257, 512),
            (16385, 32768),
            (65536, 65536),
        ] {
            assert_eq!(slots(asked), Ok(given), "{asked}");
        }
        assert_eq!(slots(65537), Err(Errno::TOOBIG));
        assert_eq!(slots(u32::MAX), Err(Errno::TOOBIG));
    }
}
