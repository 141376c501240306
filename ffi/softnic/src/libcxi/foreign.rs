//! The functions of libcxi that the tools do not use, for other programs: about the host, about
//! parts of a NIC that this one does not have, about registers and telemetry counters (libcxi.md
//! 8.5). Registers are of triggered operations and list entries (nic.md 9.5), and the clocks of the
//! blocks, which count the time since this process opened the device. Telemetry counters count for
//! all users of a NIC (health.md 1.4).
//!
//! They use the rest of the library, and nothing of it uses them. Functions about objects that the
//! tools have too are in the files of these objects.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::boundary::{answer, from_c, require_root};
use super::device::OpenDevice;
use super::service::with_services;
use crate::counter_names;
use crate::counters::CounterSnapshot;
use crate::engine::telemetry::ENTRIES_IN_USE;
use crate::engine::triggers::POOLS;
use crate::fabric::{Directory, TriggeredPools};
use crate::process_memory::kernel_page_size;

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

/// The place of a register in a row of `count` of them.
fn place(csr: u32, first: u32, count: u32) -> Option<usize> {
    let bytes = csr.checked_sub(first)?;
    (bytes < 8 * count).then_some(bytes as usize / 8)
}

/// The value of a register; EOPNOTSUPP for one that this NIC does not have.
fn value_of(device: &OpenDevice, csr: u32) -> Result<u64, Errno> {
    if ELAPSED_TIME.contains(&csr) {
        let elapsed = device.opened.elapsed();
        return Ok(elapsed.as_secs() << 30 | u64::from(elapsed.subsec_nanos()));
    }
    if let Some(place) = place(csr, LES_IN_USE, 64) {
        let counters = counters(device)?;
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

/// Reads the counters of the NIC.
pub fn counters(device: &OpenDevice) -> Result<CounterSnapshot, Errno> {
    let (place, settings) = device.nic.with(|engine| {
        let wire = &engine.wire;
        Ok((wire.place().clone(), wire.settings.clone()))
    })?;
    CounterSnapshot::read(|| Directory::lock_existing(&place), device.nic.nid, &settings)
}

/// Reads one counter, as [`cxil_read_n_cntrs`] does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_read_cntr(
    dev: *mut cxil_dev,
    cntr: c_uint,
    value: *mut u64,
    ts: *mut timespec,
) -> c_int {
    let number = cntr as c_cntr_type;
    // SAFETY: `number` is one number; the caller passes `value` with room for one value, and the
    // same `dev` and `ts` as the function asks for.
    unsafe { cxil_read_n_cntrs(dev, 1, &number, value, ts) }
}

/// Reads counters. EINVAL for a number without a counter. `ts` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_read_n_cntrs(
    dev: *mut cxil_dev,
    count: c_uint,
    cntr: *const c_cntr_type,
    value: *mut u64,
    ts: *mut timespec,
) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        if cntr.is_null() || value.is_null() || count == 0 {
            return Err(Errno::INVAL);
        }
        let place = |index: usize| {
            // SAFETY: the caller passes `count` numbers at `cntr`, of which this is one.
            let number = unsafe { *cntr.wrapping_add(index) };
            counter_names::place(u32::try_from(number).ok()?)
        };
        let places: Option<Vec<usize>> = (0..count as usize).map(place).collect();
        let places = places.ok_or(Errno::INVAL)?;
        let counters = counters(device)?;
        for (index, &place) in places.iter().enumerate() {
            let to = value.wrapping_add(index);
            // SAFETY: the caller passes room for `count` values at `value`, of which this is one.
            unsafe { to.write(counters.values()[place]) };
        }
        stamp(from_c!(optional_output(ts)));
        Ok(())
    })
}

/// Reads all counters, each to the index of its number; indices without a counter get 0. `value`
/// has room for `C1_CNTR_SIZE` values, and `ts` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_read_all_cntrs(
    dev: *mut cxil_dev,
    value: *mut u64,
    ts: *mut timespec,
) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        if value.is_null() {
            return Err(Errno::INVAL);
        }
        let counters = counters(device)?;
        for number in 0..C1_CNTR_SIZE {
            let count = counter_names::place(number).map_or(0, |place| counters.values()[place]);
            let to = value.wrapping_add(number as usize);
            // SAFETY: the caller passes room for `C1_CNTR_SIZE` values at `value`, of which this is
            // one.
            unsafe { to.write(count) };
        }
        stamp(from_c!(optional_output(ts)));
        Ok(())
    })
}

/// Writes the time of day.
fn stamp(ts: Option<&mut timespec>) {
    if let Some(ts) = ts {
        let now = clock_gettime(ClockId::Realtime);
        ts.tv_sec = now.tv_sec;
        ts.tv_nsec = now.tv_nsec;
    }
}

/// Waits until received data is in memory: has the engine handle all received packets. Packets that
/// the link model still delays are not received yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_inbound_wait(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        device.nic.with(|engine| {
            engine.settle();
            Ok(())
        })
    })
}

/// The operation that the NIC replaces by an addition, as the file of the driver says: -1 for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_amo_remap_to_pcie_fadd(
    dev: *mut cxil_dev,
    amo_remap_to_pcie_fadd: *mut c_int,
) -> c_int {
    from_c!(answer_at(amo_remap_to_pcie_fadd, || {
        let device = from_c!(handle(dev))?;
        let opcode = device.nic.with(|engine| Ok(engine.wire.fetch_add.opcode()))?;
        Ok(opcode.map_or(-1, c_int::from))
    }))
}

/// The size of the pages at `base` in bytes, huge pages included; 0 for null and where nothing is
/// mapped, because the result is unsigned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_page_size(base: *mut c_void) -> usize {
    let mut size = 0;
    answer(|| {
        size = kernel_page_size(base.addr())?;
        Ok(())
    });
    size
}

/// Whether the kernel copies pinned pages for a child at fork, so that the parent keeps its own.
/// Always true: this NIC accesses memory through the addresses of the process, which a fork does
/// not change.
#[unsafe(no_mangle)]
pub extern "C" fn cxil_is_copy_on_fork() -> bool {
    true
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op(
    dev: *mut cxil_dev,
    params: *const cxi_sbus_op_params,
    rsp_data: *mut u32,
    result_code: *mut u8,
    overrun: *mut u8,
) -> c_int {
    let complete =
        !params.is_null() && !rsp_data.is_null() && !result_code.is_null() && !overrun.is_null();
    answer(|| absent(from_c!(handle(dev))?, complete))
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_compat(
    dev: *mut cxil_dev,
    _ring: c_int,
    _req_data: u32,
    _data_addr: u8,
    _rx_addr: u8,
    _command: u8,
    rsp_data: *mut u32,
    result_code: *mut u8,
    overrun: *mut u8,
    _timeout: c_int,
    _flags: c_uint,
) -> c_int {
    let complete = !rsp_data.is_null() && !result_code.is_null() && !overrun.is_null();
    answer(|| absent(from_c!(handle(dev))?, complete))
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset(dev: *mut cxil_dev) -> c_int {
    answer(|| absent(from_c!(handle(dev))?, true))
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset_compat(dev: *mut cxil_dev, _ring: c_int) -> c_int {
    answer(|| absent(from_c!(handle(dev))?, true))
}

/// Fails with ENODEV: this NIC has no port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_serdes_op(
    dev: *mut cxil_dev,
    _port_num: c_int,
    _serdes_sel: u64,
    _op: u64,
    _data: u64,
    result: *mut u16,
    _timeout: c_int,
    _flags: c_uint,
) -> c_int {
    answer(|| absent(from_c!(handle(dev))?, !result.is_null()))
}

/// Fails as functions about an absent part do: EINVAL for bad arguments, EPERM unless the caller is
/// root, else ENODEV.
fn absent(device: &OpenDevice, arguments_complete: bool) -> Result<(), Errno> {
    if !arguments_complete {
        return Err(Errno::INVAL);
    }
    device.nic.with(|_| Ok(()))?;
    require_root()?;
    Err(Errno::NODEV)
}
