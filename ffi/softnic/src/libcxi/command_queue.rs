//! Command queues (libcxi.md 8.2).

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::boundary::{Handle, from_c, hand_out, require_capability};
use super::event_queue::EqHandle;
use super::lni::LniHandle;
use super::service::registry::{ServiceRegistry, allocate, publish};
use crate::doorbell::{Doorbell, Trapped};
use crate::engine::Engine;
use crate::engine::ring::{CommandRing, StatusPolicy};
use crate::engine::target_queue::TargetQueue;
use crate::engine::transmit::TransmitQueue;
use crate::fabric::Fabric;
use crate::nic::SoftwareNic;
use crate::pages::{Pages, page_size};
use crate::process_memory::check_writable;
use crate::trap::DoorbellPage;

/// Handle of a command queue.
#[repr(C)]
pub struct CqHandle {
    public: cxi_cq,
    /// The page of `public.wp_addr`. Dropped before the NIC that it rings.
    launch: DoorbellPage,
    nic: Arc<SoftwareNic>,
    lni: usize,
    transmit: bool,
    number: usize,
    memory: Arc<Pages>,
}

// SAFETY: `cxil_alloc_cmdq` and `cxil_alloc_buf_cmdq` give out these handles, which begin with
// their public part.
unsafe impl Handle for cxi_cq {
    type Object = CqHandle;
}

/// Makes a command queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_cmdq(
    lni: *mut cxil_lni,
    evtq: *mut cxi_eq,
    opts: *const cxi_cq_alloc_opts,
    cmdq: *mut *mut cxi_cq,
) -> c_int {
    from_c!(answer_at(cmdq, || {
        let lni = from_c!(handle(lni))?;
        let opts = from_c!(input(opts))?;
        let eq = from_c!(optional_handle(evtq));
        make(lni, eq, opts, Pages::anonymous)
    }))
}

/// Makes a command queue in memory of the caller, which outlives the queue, or without `buf` in
/// memory of its own. EINVAL unless the memory is page aligned; EFAULT unless the process may write
/// enough of it for the queue; EOPNOTSUPP for memory of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_buf_cmdq(
    lni: *mut cxil_lni,
    evtq: *mut cxi_eq,
    opts: *const cxi_cq_alloc_opts_buf,
    cmdq: *mut *mut cxi_cq,
) -> c_int {
    from_c!(answer_at(cmdq, || {
        let lni = from_c!(handle(lni))?;
        let opts = from_c!(input(opts))?;
        let eq = from_c!(optional_handle(evtq));
        if opts.buf.is_null() {
            return make(lni, eq, &opts.opts, Pages::anonymous);
        }
        if !opts.buf.addr().is_multiple_of(page_size()) {
            return Err(Errno::INVAL);
        }
        if !opts.is_host_mem {
            return Err(Errno::OPNOTSUPP);
        }
        let memory = |bytes| {
            let start = opts.buf.expose_provenance();
            let end = start.checked_add(bytes).ok_or(Errno::OVERFLOW)?;
            check_writable(start, end)?;
            // SAFETY: `check_writable` found the range writable, and the caller gives it to the
            // queue.
            unsafe { opts.buf.cast::<u8>().write_bytes(0, bytes) };
            // SAFETY: the caller keeps the memory until it destroys the queue, and uses it only to
            // write commands.
            Ok(unsafe { Pages::lent(opts.buf.cast(), bytes) })
        };
        make(lni, eq, &opts.opts, memory)
    }))
}

/// Makes a queue in memory of the size that `memory` is called with.
fn make(
    lni: &LniHandle,
    eq: Option<&EqHandle>,
    opts: &cxi_cq_alloc_opts,
    memory: impl FnOnce(usize) -> Result<Pages, Errno>,
) -> Result<*mut cxi_cq, Errno> {
    if eq.is_some_and(|eq| !lni.owns(&eq.nic, eq.lni)) {
        return Err(Errno::INVAL);
    }
    let count = slots(opts.count)?;
    let policy = StatusPolicy::from_number(opts.policy).ok_or(Errno::INVAL)?;
    let flag = |flag| opts.flags & flag != 0;
    let (transmit, trigger) = (flag(CXI_CQ_IS_TX), flag(CXI_CQ_TX_WITH_TRIG_CMDS));
    if !transmit && opts.lpe_cdt_thresh_id > 3 {
        return Err(Errno::INVAL);
    }
    if transmit && flag(CXI_CQ_TX_ETHERNET) {
        return require_capability(CapabilitySet::NET_RAW).and(Err(Errno::OPNOTSUPP));
    }
    if transmit && trigger && opts.lcid != 0 {
        return Err(Errno::INVAL);
    }
    let memory = Arc::new(memory(count as usize * C_CQ_CMD_SIZE as usize)?);
    let doorbells = DoorbellPage::new(lni.nic.trapped == Trapped::All)?;
    let launch = doorbells.memory().clone();
    let mut ring = CommandRing::new(memory.clone(), launch.clone(), count, policy);
    // The field of the hardware has two bits.
    ring.counts.pool = opts.stat_cnt_pool as usize & 3;
    let error_eq = eq.map_or(0, |eq| eq.number as u16);
    let number = lni.nic.with(|engine| {
        engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
        if !transmit {
            let queue = TargetQueue { ring, lni: lni.number, error_eq };
            return allocate(engine, lni.number, CXI_RSRC_TYPE_TGQ, |engine| {
                engine.tgt.insert(queue).ok_or(Errno::NOSPC)
            });
        }
        let lcid = opts.lcid as usize;
        find_profile(engine, lni.number, lcid)?;
        let queue = TransmitQueue::new(ring, lni.number, lcid as u8, trigger, error_eq);
        allocate(engine, lni.number, CXI_RSRC_TYPE_TXQ, |engine| {
            engine.tx.insert(queue).ok_or(Errno::NOSPC)
        })
    })?;
    let doorbell = if transmit { Doorbell::Transmit(number) } else { Doorbell::Target(number) };
    doorbells.arm(&lni.nic, doorbell);
    let index = number as u32 + if transmit { 0 } else { C_NUM_TRANSMIT_CQS };
    Ok(hand_out(CqHandle {
        public: public(index, count, &memory, &launch),
        nic: lni.nic.clone(),
        lni: lni.number,
        transmit,
        number,
        memory,
        launch: doorbells,
    }))
}

/// Has an LNI know the profile with this LCID, which another LNI of its RGID may have allocated.
fn find_profile(engine: &mut Engine<Fabric>, lni: usize, lcid: usize) -> Result<(), Errno> {
    let owner = engine.lnis.get(lni).ok_or(Errno::INVAL)?;
    if owner.profiles.get(lcid).ok_or(Errno::INVAL)?.is_none() {
        let rgid = owner.rgid;
        let rgid_profiles = ServiceRegistry::open(&engine.wire)?.profiles_of(rgid);
        let profile = rgid_profiles[lcid].ok_or(Errno::INVAL)?;
        let owner = engine.lnis.get_mut(lni).ok_or(Errno::INVAL)?;
        owner.neighbour_profiles[lcid] = Some(profile);
    }
    Ok(())
}

/// The part of a new queue of `count` slots that inline functions of C use.
fn public(index: u32, count: u32, memory: &Pages, launch: &Pages) -> cxi_cq {
    cxi_cq {
        size: count,
        wp_addr: launch.at(0, 8).cast(),
        ll_64: launch.at(1024, 1024),
        ll_128a: launch.at(2048, 1024),
        ll_128u: launch.at(3072, 1024),
        __bindgen_anon_1: cxi_cq__bindgen_ty_1 { cmds32: memory.at(0, 0).cast() },
        rp32: C_CQ_FIRST_WR_PTR_32.into(),
        idx: index,
        size32: 2 * count,
        wp32: C_CQ_FIRST_WR_PTR_32.into(),
        hw_wp32: C_CQ_FIRST_WR_PTR_32.into(),
    }
}

/// The slots of a queue that was requested with `count` slots (nic.md 2.1).
fn slots(count: u32) -> Result<u32, Errno> {
    let per_page = page_size() as u64 / u64::from(C_CQ_CMD_SIZE);
    let pages = u64::from(count).max(per_page).div_ceil(per_page).next_power_of_two();
    let slots = pages * per_page;
    u32::try_from(slots).ok().filter(|&slots| slots <= CXI_MAX_CQ_COUNT).ok_or(Errno::TOOBIG)
}

/// Destroys a command queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_cmdq(cmdq: *mut cxi_cq) -> c_int {
    from_c!(end(cmdq, |queue: &CqHandle| {
        queue.nic.with(|engine| {
            if queue.transmit {
                engine.remove_transmit_queue(queue.number);
            } else {
                engine.remove_target_queue(queue.number);
            }
            publish(engine, queue.lni);
            Ok(())
        })
    }))
}

/// The number of operations of a queue without a response, pending triggered operations included
/// (libcxi.md 8.2). The commands of a target queue have no responses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_cmdq_ack_counter(
    cmdq: *mut cxi_cq,
    ack_counter: *mut c_uint,
) -> c_int {
    from_c!(answer_at(ack_counter, || {
        let queue = from_c!(handle(cmdq))?;
        queue.nic.with(|engine| {
            if !queue.transmit {
                return Ok(0);
            }
            let unanswered = engine.tx.get(queue.number).ok_or(Errno::INVAL)?.outstanding;
            let pending = engine.counters.pending_from(queue.number);
            Ok((unanswered + pending) as c_uint)
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_queue_sizes_up() {
        for (asked, given) in
            [(0, 64), (1, 64), (64, 64), (65, 128), (257, 512), (16385, 32768), (65536, 65536)]
        {
            assert_eq!(slots(asked), Ok(given), "{asked}");
        }
        assert_eq!(slots(65537), Err(Errno::TOOBIG));
        assert_eq!(slots(u32::MAX), Err(Errno::TOOBIG));
    }
}
