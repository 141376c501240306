//! The telemetry counters of the NIC. They count for this open device; those of hardware count for
//! all its users.

use std::ffi::{c_int, c_uint};
use std::ops::RangeInclusive;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::engine::telemetry::Telemetry;
use crate::libcxi::boundary::{answer, from_c};
use crate::libcxi::device::Device;

/// The numbers of `c_cntr_type` that are counters.
const NUMBERS: [RangeInclusive<u32>; 35] = [
    96..=157,
    224..=273,
    288..=337,
    343..=415,
    480..=488,
    492..=579,
    592..=609,
    612..=618,
    626..=651,
    672..=733,
    736..=783,
    800..=925,
    932..=946,
    992..=995,
    997..=1001,
    1007..=1027,
    1033..=1033,
    1035..=1035,
    1037..=1135,
    1152..=1153,
    1156..=1165,
    1168..=1194,
    1216..=1291,
    1296..=1315,
    1320..=1328,
    1336..=1373,
    1384..=1395,
    1400..=1407,
    1416..=1416,
    1504..=1506,
    1508..=1508,
    1512..=1626,
    1628..=1723,
    1725..=1802,
    1806..=1970,
];

fn telemetry(device: &Device) -> Result<Telemetry, Errno> {
    device.nic.with(|engine| {
        let mut telemetry = engine.telemetry();
        telemetry.sent = engine.wire.sent.clone();
        telemetry.received = engine.wire.received.clone();
        telemetry.link = engine.wire.link_counts(device.opened.elapsed());
        Ok(telemetry)
    })
}

fn exists(number: u32) -> bool {
    NUMBERS.iter().any(|numbers| numbers.contains(&number))
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
        let number = |index: usize| {
            // SAFETY: the caller passes `count` numbers at `cntr`, of which this is one.
            let number = unsafe { *cntr.wrapping_add(index) };
            u32::try_from(number).ok().filter(|&number| exists(number))
        };
        let numbers: Option<Vec<u32>> = (0..count as usize).map(number).collect();
        let numbers = numbers.ok_or(Errno::INVAL)?;
        let telemetry = telemetry(device)?;
        for (index, &number) in numbers.iter().enumerate() {
            let place = value.wrapping_add(index);
            // SAFETY: the caller passes room for `count` values at `value`, of which this is one.
            unsafe { place.write(telemetry.value(number)) };
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
        let telemetry = telemetry(device)?;
        for number in 0..C1_CNTR_SIZE {
            let place = value.wrapping_add(number as usize);
            // SAFETY: the caller passes room for `C1_CNTR_SIZE` values at `value`, of which this is
            // one.
            unsafe { place.write(telemetry.value(number)) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_counters_is_that_of_the_header() {
        let count = (0..C1_CNTR_SIZE).filter(|&number| exists(number)).count();
        assert_eq!(count, C1_CNTR_COUNT as usize);
    }
}
