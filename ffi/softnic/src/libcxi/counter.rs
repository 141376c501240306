//! Counters (libcxi.md 8.4).

use std::ffi::c_int;
use std::sync::Arc;

use cxi_sys::records::CtWriteback;
use cxi_sys::*;
use rustix::io::Errno;

use super::lni::LniHandle;
use super::memory::check_access;
use super::service::books::{allocate, publish};
use super::{answer, hand_out, handle, place, take_back};
use crate::engine::counter::Counter;
use crate::nic::Nic;
use crate::pages::{Pages, page_size};

/// Handle of a counter.
#[repr(C)]
struct CtHandle {
    public: cxi_ct,
    nic: Arc<Nic>,
    number: usize,
    /// Keeps the page of `public.doorbell`.
    _doorbells: Arc<Pages>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_ct(
    lni: *mut cxil_lni,
    wb: *mut c_ct_writeback,
    ct: *mut *mut cxi_ct,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let place = unsafe { place(ct) }?;
        let address = check_word(wb)?;
        let doorbells = Arc::new(Pages::anonymous(page_size())?);
        let mut counter = Counter::new(lni.number, doorbells.clone());
        // SAFETY: found accessible and aligned just now; C contract: it outlives the counter.
        unsafe { counter.set_write_back(address) };
        let number = lni.nic.with(|engine| {
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            counter.most_pending = owner.most_pending;
            allocate(engine, lni.number, CXI_RSRC_TYPE_CT, |engine| {
                engine.counters.insert(counter).ok_or(Errno::NOSPC)
            })
        })?;
        let public = cxi_ct {
            doorbell: doorbells.at(0, 8).cast(),
            ctn: number as u32,
            wb,
        };
        *place = hand_out(CtHandle {
            public,
            nic: lni.nic.clone(),
            number,
            _doorbells: doorbells,
        });
        Ok(())
    })
}

/// Null takes the write-back word away, as it means none in `cxil_alloc_ct`; the specification does not
/// say. The counts are not written to the new word by this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_ct_wb_update(ct: *mut cxi_ct, wb: *mut c_ct_writeback) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let CtHandle { nic, number, .. } = unsafe { handle(ct) }?;
        let address = check_word(wb)?;
        nic.with(|engine| {
            let counter = engine.counters.get_mut(*number).ok_or(Errno::INVAL)?;
            // SAFETY: as in `cxil_alloc_ct`.
            unsafe { counter.set_write_back(address) };
            Ok(())
        })?;
        // SAFETY: alive, and by C contract used by this thread alone.
        unsafe { (*ct).wb = wb };
        Ok(())
    })
}

/// Nothing holds a counter (libcxi.md 10): what waits for it is cancelled, what still counts on it
/// counts nowhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_ct(ct: *mut cxi_ct) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let CtHandle { nic, number, .. } = unsafe { handle(ct) }?;
        nic.with(|engine| {
            let lni = engine.counters.get_mut(*number).ok_or(Errno::INVAL)?.lni;
            engine.remove_counter(*number);
            publish(engine, lni);
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_ct`; gone by C contract once this succeeds.
        unsafe { take_back::<CtHandle, _>(ct) };
        Ok(())
    })
}

/// The address of a write-back word, or none. EINVAL unless it is aligned; EFAULT unless the
/// process itself could write it.
fn check_word(wb: *mut c_ct_writeback) -> Result<Option<usize>, Errno> {
    if wb.is_null() {
        return Ok(None);
    }
    if !wb.addr().is_multiple_of(CtWriteback::SIZE) {
        return Err(Errno::INVAL);
    }
    let start = wb.expose_provenance();
    let rights = CXI_MAP_READ | CXI_MAP_WRITE;
    check_access(start, start + CtWriteback::SIZE, rights)?;
    Ok(Some(start))
}
