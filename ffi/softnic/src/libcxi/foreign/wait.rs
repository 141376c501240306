//! Wait objects: programs sleep on them until there is an event (libcxi.md 8.1).

use std::ffi::c_int;
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use crate::interrupt::WaitObject;
use crate::libcxi::boundary::{answer, answer_number, from_c, hand_out};
use crate::libcxi::event_queue::WaitHandle;

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

/// Returns the descriptor to poll, which is ready (POLLPRI and POLLIN) from an event on until it is
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
