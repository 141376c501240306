//! The telemetry counters of the NIC, which count for all its users (libcxi.md 8.5, health.md 1.4).

use std::ffi::{c_int, c_uint};

use cxi_sys::*;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::counter_names;
use crate::counters::CounterSnapshot;
use crate::fabric::Directory;
use crate::libcxi::boundary::{answer, from_c};
use crate::libcxi::device::OpenDevice;

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
