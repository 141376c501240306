//! Counting events (libcxi.md 8.4).

use std::ffi::c_int;
use std::sync::Arc;

use cxi_sys::records::CtWriteback;
use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{Handle, answer, from_c, hand_out};
use super::service::registry::{allocate, publish};
use crate::doorbell::{Doorbell, Trapped};
use crate::engine::counter::CountingEvent;
use crate::nic::SoftwareNic;
use crate::process_memory::check_writable;
use crate::trap::DoorbellPage;

/// Handle of a counter.
#[repr(C)]
pub struct CtHandle {
    public: cxi_ct,
    /// The page of `public.doorbell`. Dropped before the NIC that it rings.
    _doorbells: DoorbellPage,
    nic: Arc<SoftwareNic>,
    number: usize,
}

// SAFETY: `cxil_alloc_ct` gives out these handles, which begin with their public part.
unsafe impl Handle for cxi_ct {
    type Object = CtHandle;
}

/// Makes a counter. Without `wb` it has no write-back word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_ct(
    lni: *mut cxil_lni,
    wb: *mut c_ct_writeback,
    ct: *mut *mut cxi_ct,
) -> c_int {
    from_c!(answer_at(ct, || {
        let lni = from_c!(handle(lni))?;
        let address = check_word(wb)?;
        let doorbells = DoorbellPage::new(lni.nic.trapped != Trapped::None)?;
        let mut counter = CountingEvent::new(lni.number, doorbells.memory().clone());
        // SAFETY: `check_word` found the word accessible and aligned; the caller keeps it until it
        // destroys the counter or replaces the word.
        unsafe { counter.set_write_back(address) };
        let number = lni.nic.with(|engine| {
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            let (pool, most) = (owner.triggered_pool, owner.most_pending);
            allocate(engine, lni.number, CXI_RSRC_TYPE_CT, |engine| {
                engine.counters.insert(counter, pool, most).ok_or(Errno::NOSPC)
            })
        })?;
        doorbells.arm(&lni.nic, Doorbell::Counter(number));
        let public =
            cxi_ct { doorbell: doorbells.memory().at(0, 8).cast(), ctn: number as u32, wb };
        Ok(hand_out(CtHandle { public, nic: lni.nic.clone(), number, _doorbells: doorbells }))
    }))
}

/// Replaces the write-back word. Null removes it, as for `cxil_alloc_ct`; the reference does
/// not state this. The call does not write the counts to the new word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_ct_wb_update(ct: *mut cxi_ct, wb: *mut c_ct_writeback) -> c_int {
    answer(|| {
        let ct = from_c!(handle_mut(ct))?;
        let address = check_word(wb)?;
        ct.nic.with(|engine| {
            let counter = engine.counters.get_mut(ct.number).ok_or(Errno::INVAL)?;
            // SAFETY: `check_word` found the word accessible and aligned; the caller keeps it until
            // it destroys the counter or replaces the word.
            unsafe { counter.set_write_back(address) };
            Ok(())
        })?;
        ct.public.wb = wb;
        Ok(())
    })
}

/// Destroys a counter, also one in use (libcxi.md 10): its triggered operations are cancelled, and
/// operations in progress are not counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_ct(ct: *mut cxi_ct) -> c_int {
    from_c!(end(ct, |ct: &CtHandle| {
        ct.nic.with(|engine| {
            let lni = engine.counters.get_mut(ct.number).ok_or(Errno::INVAL)?.lni;
            engine.remove_counter(ct.number);
            publish(engine, lni);
            Ok(())
        })
    }))
}

/// The address of a write-back word; `None` for null. EINVAL unless it is aligned; EFAULT unless
/// the process may write it.
fn check_word(wb: *mut c_ct_writeback) -> Result<Option<usize>, Errno> {
    if wb.is_null() {
        return Ok(None);
    }
    if !wb.addr().is_multiple_of(CtWriteback::SIZE) {
        return Err(Errno::INVAL);
    }
    let start = wb.expose_provenance();
    check_writable(start, start + CtWriteback::SIZE)?;
    Ok(Some(start))
}
