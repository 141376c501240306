//! Registers of the NIC (libcxi.md 8.5).
//!
//! This NIC has only the clocks of the blocks, which count the time since this process opened the
//! device.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use cxi_sys::*;
use rustix::io::Errno;

use crate::libcxi::boundary::{answer, from_c, require_root};
use crate::libcxi::device::Device;

/// The clocks of the blocks.
const ELAPSED_TIME: [u32; 15] = [
    C_ATU_ERR_ELAPSED_TIME,
    C_CQ_ERR_ELAPSED_TIME,
    C_EE_ERR_ELAPSED_TIME,
    C_HNI_ERR_ELAPSED_TIME,
    C_HNI_PML_ERR_ELAPSED_TIME,
    C_IXE_ERR_ELAPSED_TIME,
    C_LPE_ERR_ELAPSED_TIME,
    C_MB_ERR_ELAPSED_TIME,
    C_MST_ERR_ELAPSED_TIME,
    C_OXE_ERR_ELAPSED_TIME,
    C_PARBS_ERR_ELAPSED_TIME,
    C_PCT_ERR_ELAPSED_TIME,
    C_PI_ERR_ELAPSED_TIME,
    C_PI_IPD_ERR_ELAPSED_TIME,
    C_RMU_ERR_ELAPSED_TIME,
];

/// Size of the registers: BAR 0 of a physical function (libcxi.md 2.2, `is_vf`).
const RANGE: usize = 2 << 30;

/// Maps the registers. EPERM unless the caller is root; EINVAL if they are mapped already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map_csr(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        if device.registers_mapped.load(Ordering::Relaxed) {
            return Err(Errno::INVAL);
        }
        require_root()?;
        device.registers_mapped.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Checks an access: EINVAL unless the registers are mapped, `value` is not null, and the access is
/// aligned and in their range.
fn check(
    device: &Device,
    value: *const c_void,
    csr: c_uint,
    len: usize,
    word: usize,
) -> Result<(), Errno> {
    let inside = len <= RANGE && csr as usize <= RANGE - len;
    let aligned = len.is_multiple_of(word) && (csr as usize).is_multiple_of(word);
    let mapped = device.registers_mapped.load(Ordering::Relaxed);
    if value.is_null() || !mapped || len == 0 || !aligned || !inside {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Reads registers. EOPNOTSUPP for registers that are not clocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_read_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    value: *mut c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        check(device, value, csr, csr_len, 8)?;
        let mut registers = (csr..).step_by(8).take(csr_len / 8);
        if !registers.all(|register| ELAPSED_TIME.contains(&register)) {
            return Err(Errno::OPNOTSUPP);
        }
        let elapsed = device.opened.elapsed();
        let time = elapsed.as_secs() << 30 | u64::from(elapsed.subsec_nanos());
        for word in 0..csr_len / 8 {
            let to = value.cast::<u64>().wrapping_add(word);
            // SAFETY: the caller passes `csr_len` writable bytes at `value`, of which these are 8.
            unsafe { to.write_unaligned(time) };
        }
        Ok(())
    })
}

/// Fails with EOPNOTSUPP: no register of this NIC can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_write_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    value: *const c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        check(device, value, csr, csr_len, 8)?;
        Err(Errno::OPNOTSUPP)
    })
}

/// Fails with EOPNOTSUPP as [`cxil_write_csr`] does; `offset` is in bytes from the register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_write8_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    offset: c_uint,
    value: *const c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        let place = csr.checked_add(offset).ok_or(Errno::INVAL)?;
        check(device, value, place, csr_len, 1)?;
        Err(Errno::OPNOTSUPP)
    })
}
