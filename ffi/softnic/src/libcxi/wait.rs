//! Wait objects: sleeping until there is an event (libcxi.md 8.1).

use std::ffi::c_int;
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::lni::LniHandle;
use super::{answer, hand_out, handle, place, take_back};
use crate::interrupt::WaitObject;
use crate::nic::Nic;

/// Handle of a wait object.
pub struct WaitHandle {
    pub nic: Arc<Nic>,
    pub lni: usize,
    pub object: Arc<WaitObject>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_wait_obj(
    lni: *mut cxil_lni,
    wait: *mut *mut cxil_wait_obj,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let place = unsafe { place(wait) }?;
        let object = Arc::new(WaitObject::new()?);
        lni.nic.with(|engine| {
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            owner.wait_objects += 1;
            Ok(())
        })?;
        *place = hand_out(WaitHandle {
            nic: lni.nic.clone(),
            lni: lni.number,
            object,
        });
        Ok(())
    })
}

/// EBUSY while an event queue signals it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_wait_obj(wait: *mut cxil_wait_obj) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let WaitHandle { nic, lni, object } = unsafe { handle(wait) }?;
        nic.with(|engine| {
            if Arc::strong_count(object) > 1 {
                return Err(Errno::BUSY);
            }
            let owner = engine.lnis.get_mut(*lni).ok_or(Errno::INVAL)?;
            owner.wait_objects -= 1;
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_wait_obj`; gone by C contract once this succeeds.
        unsafe { take_back::<WaitHandle, _>(wait) };
        Ok(())
    })
}

/// The descriptor to poll: it is ready (POLLPRI and POLLIN) from an event on until it is cleared. A child process has
/// no part in that of its parent (EIO).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_wait_obj_fd(wait: *mut cxil_wait_obj) -> c_int {
    let mut descriptor = 0;
    let code = answer(|| {
        // SAFETY: C contract.
        let WaitHandle { nic, object, .. } = unsafe { handle(wait) }?;
        descriptor = nic.with(|_| Ok(object.descriptor()))?;
        Ok(())
    });
    if code == 0 { descriptor } else { code }
}

/// Nothing happens for null, and in a child process, which shares the socket of its parent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_clear_wait_obj(wait: *mut cxil_wait_obj) {
    answer(|| {
        // SAFETY: C contract.
        let WaitHandle { nic, object, .. } = unsafe { handle(wait) }?;
        if nic.is_ours() {
            object.clear();
        }
        Ok(())
    });
}
