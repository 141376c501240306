//! Registers of the NIC (libcxi.md 8.5): of triggered operations and list entries (nic.md 9.5), and
//! the clocks of the blocks, which count the time since this process opened the device.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::*;
use rustix::io::Errno;

use crate::counter_names;
use crate::engine::telemetry::ENTRIES_IN_USE;
use crate::engine::triggers::POOLS;
use crate::fabric::TriggeredPools;
use crate::libcxi::boundary::{answer, from_c, require_root};
use crate::libcxi::device::OpenDevice;
use crate::libcxi::service::with_services;

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

/// The first registers of triggered operations and of list entries (nic.md 9.5), and the one that
/// all pools share.
const TLE_POOLS: u32 = 0x500;
const TLES_SHARED: u32 = 0x520;
const TLES_IN_USE: u32 = 0x850;
const MOST_TLES_IN_USE: u32 = 0x870;
const LE_POOLS: u32 = 0x980_0480;
const LES_IN_USE: u32 = 0x980_0800;

/// Maps the registers. EPERM unless the caller is root, and on a virtual function; EINVAL if they
/// are mapped already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map_csr(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        if device.registers_mapped.load(Ordering::Relaxed) {
            return Err(Errno::INVAL);
        }
        require_root()?;
        if device.nic.nid > C_NID_ANY {
            return Err(Errno::PERM);
        }
        device.registers_mapped.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Checks an access: EINVAL unless the registers are mapped, `value` is not null, and the access is
/// aligned and in their range.
fn check(
    device: &OpenDevice,
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

/// Returns the place of a register in a row of `count` of them.
fn place(csr: u32, first: u32, count: u32) -> Option<usize> {
    let bytes = csr.checked_sub(first)?;
    (bytes < 8 * count).then_some(bytes as usize / 8)
}

/// Returns the value of a register; EOPNOTSUPP for one that this NIC does not have.
fn value_of(device: &OpenDevice, csr: u32) -> Result<u64, Errno> {
    if ELAPSED_TIME.contains(&csr) {
        let elapsed = device.opened.elapsed();
        return Ok(elapsed.as_secs() << 30 | u64::from(elapsed.subsec_nanos()));
    }
    if let Some(place) = place(csr, LES_IN_USE, 64) {
        let counters = super::telemetry::counters(device)?;
        return Ok(counters.values()[counter_names::places(ENTRIES_IN_USE)][place]);
    }
    with_services(device, |registry| {
        let in_use = |pool| registry.triggered.as_ref().map_or(0, |pools| pools.in_use(pool));
        let limit = |(max, reserved): (u16, u16)| u64::from(reserved) | u64::from(max) << 32;
        if let Some(pool) = place(csr, TLE_POOLS, 4) {
            // The field has no room for more.
            let used = in_use(pool).min(255);
            return Ok(limit(registry.triggered_limit(pool as u8)) | used << 16);
        }
        if let Some(pool) = place(csr, TLES_IN_USE, 4) {
            return Ok(in_use(pool));
        }
        if let Some(pool) = place(csr, MOST_TLES_IN_USE, 4) {
            let most = |pools: &Arc<TriggeredPools>| pools.most(pool).load(Ordering::Relaxed);
            return Ok(registry.triggered.as_ref().map_or(0, most));
        }
        if let Some(place) = place(csr, LE_POOLS, 64) {
            return Ok(limit(registry.entry_limit(place % 16)));
        }
        // The driver leaves none to be shared.
        (csr == TLES_SHARED)
            .then(|| (0..POOLS).map(in_use).sum::<u64>() << 48)
            .ok_or(Errno::OPNOTSUPP)
    })
}

/// Reads registers. EOPNOTSUPP for registers that this NIC does not have.
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
        for (word, register) in (csr..).step_by(8).take(csr_len / 8).enumerate() {
            let found = value_of(device, register)?;
            let to = value.cast::<u64>().wrapping_add(word);
            // SAFETY: the caller passes `csr_len` writable bytes at `value`, of which these are 8.
            unsafe { to.write_unaligned(found) };
        }
        Ok(())
    })
}

/// Writes registers. EOPNOTSUPP for all but the most triggered operations in use of a pool.
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
        for (number, register) in (csr..).step_by(8).take(csr_len / 8).enumerate() {
            let pool = place(register, MOST_TLES_IN_USE, 4).ok_or(Errno::OPNOTSUPP)?;
            let word = value.cast::<u64>().wrapping_add(number);
            // SAFETY: the caller passes `csr_len` readable bytes at `value`, of which these are 8.
            let most = unsafe { word.read_unaligned() } & 0xfff;
            let pools = device.nic.with(|engine| Ok(engine.wire.triggered.clone()))?;
            pools.ok_or(Errno::OPNOTSUPP)?.most(pool).store(most, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Fails with EOPNOTSUPP: no byte of a register is written alone. `offset` is in bytes from the
/// register.
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
