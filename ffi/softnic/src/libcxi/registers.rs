//! Registers of the NIC (libcxi.md 8.5).
//!
//! A NIC of software has no register file. What it has are the clocks of its blocks, which tell the time since
//! it came up; here that is when this process opened it.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use cxi_sys::*;
use rustix::io::Errno;

use super::device::Device;
use super::{answer, handle};

/// The clocks.
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

/// Bytes of the range of registers: BAR 0 of a physical function (libcxi.md 2.2, `is_vf`).
const RANGE: usize = 2 << 30;

/// EPERM without privilege, EINVAL the second time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map_csr(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        if device.registers_mapped.load(Ordering::Relaxed) {
            return Err(Errno::INVAL);
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Errno::PERM);
        }
        device.registers_mapped.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// The place of an access: EINVAL unless registers are mapped and it is aligned words in their range.
fn check(device: &Device, csr: c_uint, len: usize, word: usize) -> Result<(), Errno> {
    let inside = len <= RANGE && csr as usize <= RANGE - len;
    let aligned = len.is_multiple_of(word) && (csr as usize).is_multiple_of(word);
    if !device.registers_mapped.load(Ordering::Relaxed) || len == 0 || !aligned || !inside {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// EOPNOTSUPP where any of the registers is none of the clocks: this NIC has no others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_read_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    value: *mut c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        if value.is_null() {
            return Err(Errno::INVAL);
        }
        check(device, csr, csr_len, 8)?;
        let mut registers = (csr..).step_by(8).take(csr_len / 8);
        if !registers.all(|register| ELAPSED_TIME.contains(&register)) {
            return Err(Errno::OPNOTSUPP);
        }
        let elapsed = device.opened.elapsed();
        let time = elapsed.as_secs() << 30 | u64::from(elapsed.subsec_nanos());
        for word in 0..csr_len / 8 {
            let to = value.cast::<u64>().wrapping_add(word);
            // SAFETY: C contract: `csr_len` bytes are writable there.
            unsafe { to.write_unaligned(time) };
        }
        Ok(())
    })
}

/// EOPNOTSUPP: no register of this NIC can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_write_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    value: *const c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        if value.is_null() {
            return Err(Errno::INVAL);
        }
        check(device, csr, csr_len, 8)?;
        Err(Errno::OPNOTSUPP)
    })
}

/// EOPNOTSUPP, as [`cxil_write_csr`]; `offset` counts bytes from the register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_write8_csr(
    dev: *mut cxil_dev,
    csr: c_uint,
    offset: c_uint,
    value: *const c_void,
    csr_len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        let place = csr.checked_add(offset).ok_or(Errno::INVAL)?;
        if value.is_null() {
            return Err(Errno::INVAL);
        }
        check(device, place, csr_len, 1)?;
        Err(Errno::OPNOTSUPP)
    })
}
