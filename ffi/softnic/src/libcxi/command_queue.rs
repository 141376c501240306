//! Command queues (libcxi.md 8.2).

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::event_queue::EqHandle;
use super::lni::LniHandle;
use super::memory::check_access;
use super::service::books::{allocate, publish};
use super::{answer, hand_out, handle, place, take_back};
use crate::engine::portal::TargetQueue;
use crate::engine::ring::{CommandRing, StatusPolicy};
use crate::engine::transmit::TransmitQueue;
use crate::nic::Nic;
use crate::pages::{Pages, page_size};

/// Handle of a command queue.
#[repr(C)]
struct CqHandle {
    public: cxi_cq,
    nic: Arc<Nic>,
    lni: usize,
    transmit: bool,
    number: usize,
    memory: Arc<Pages>,
    launch: Arc<Pages>,
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
        let memory = |bytes| Pages::anonymous(bytes);
        *place = make(lni, eq, opts, memory)?;
        Ok(())
    })
}

/// As [`cxil_alloc_cmdq`], in memory of the caller's: page aligned, and large enough for as many entries as
/// the queue gets (EINVAL), or the process itself could not write it (EFAULT). It outlives the queue. Memory
/// of a GPU is not offered (EOPNOTSUPP).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_buf_cmdq(
    lni: *mut cxil_lni,
    evtq: *mut cxi_eq,
    opts: *const cxi_cq_alloc_opts_buf,
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
        if opts.buf.is_null() || !opts.buf.addr().is_multiple_of(page_size()) {
            return Err(Errno::INVAL);
        }
        if !opts.is_host_mem {
            return Err(Errno::OPNOTSUPP);
        }
        let memory = |bytes| {
            let start = opts.buf.expose_provenance();
            let end = start.checked_add(bytes).ok_or(Errno::OVERFLOW)?;
            check_access(start, end, CXI_MAP_READ | CXI_MAP_WRITE)?;
            // SAFETY: the range was found writable just now, and is the caller's to give.
            unsafe { opts.buf.cast::<u8>().write_bytes(0, bytes) };
            // SAFETY: C contract: the memory outlives the queue, and only the queue's writer uses it.
            Ok(unsafe { Pages::lent(opts.buf.cast(), bytes) })
        };
        *place = make(lni, eq, &opts.opts, memory)?;
        Ok(())
    })
}

/// Makes a queue in what `memory` gives for so many bytes.
fn make(
    lni: &LniHandle,
    eq: Option<&EqHandle>,
    opts: &cxi_cq_alloc_opts,
    memory: impl FnOnce(usize) -> Result<Pages, Errno>,
) -> Result<*mut cxi_cq, Errno> {
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
    let memory = Arc::new(memory(count as usize * C_CQ_CMD_SIZE as usize)?);
    let launch = Arc::new(Pages::anonymous(4096)?);
    let mut ring = CommandRing::new(memory.clone(), launch.clone(), count, policy);
    // As wide as the field of the hardware: there are four.
    ring.counts.pool = opts.stat_cnt_pool as usize & 3;
    let error_eq = eq.map_or(0, |eq| eq.number as u16);
    let number = lni.nic.with(|engine| {
        let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
        if !transmit {
            let queue = TargetQueue {
                ring,
                lni: lni.number,
                error_eq,
            };
            return allocate(engine, lni.number, CXI_RSRC_TYPE_TGQ, |engine| {
                engine.tgt.insert(queue).ok_or(Errno::NOSPC)
            });
        }
        let lcid = opts.lcid as usize;
        owner
            .profiles
            .get(lcid)
            .and_then(Option::as_ref)
            .ok_or(Errno::INVAL)?;
        let queue = TransmitQueue::new(ring, lni.number, lcid as u8, trigger, error_eq);
        allocate(engine, lni.number, CXI_RSRC_TYPE_TXQ, |engine| {
            engine.tx.insert(queue).ok_or(Errno::NOSPC)
        })
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
    Ok(hand_out(CqHandle {
        public,
        nic: lni.nic.clone(),
        lni: lni.number,
        transmit,
        number,
        memory,
        launch,
    }))
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
        let queue: &CqHandle = unsafe { handle(cmdq) }?;
        let CqHandle {
            nic,
            lni,
            transmit,
            number,
            ..
        } = queue;
        nic.with(|engine| {
            if *transmit {
                engine.remove_transmit_queue(*number);
            } else {
                engine.remove_target_queue(*number);
            }
            publish(engine, *lni);
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_cmdq`; gone by C contract once this succeeds.
        unsafe { take_back::<CqHandle, _>(cmdq) };
        Ok(())
    })
}

/// How many operations of a transmit queue have no answer yet; of a trigger queue also those that wait for their
/// counter (nic.md 9.3). EINVAL for a target queue, whose commands get none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_cmdq_ack_counter(
    cmdq: *mut cxi_cq,
    ack_counter: *mut c_uint,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let queue: &CqHandle = unsafe { handle(cmdq) }?;
        // SAFETY: C contract.
        let place = unsafe { ack_counter.as_mut() }.ok_or(Errno::INVAL)?;
        if !queue.transmit {
            return Err(Errno::INVAL);
        }
        *place = queue.nic.with(|engine| {
            let unanswered = engine.tx.get(queue.number).ok_or(Errno::INVAL)?.outstanding;
            let pending = engine.counters.pending_from(queue.number);
            Ok((unanswered + pending) as c_uint)
        })?;
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
