//! The clock of the measurements.

/// Returns the nanoseconds of CLOCK_MONOTONIC_RAW, which time synchronisation neither steps nor
/// slews.
///
/// The C library reads the time stamp counter after a barrier that waits for earlier loads
/// (`lfence` or `rdtscp`; `isb` on aarch64), so a time taken after an event was polled is not
/// earlier than the event. The barrier does not wait for stores: a time taken after a doorbell may
/// be earlier than the arrival of the doorbell at the NIC.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // The call cannot fail: Linux has this clock since version 2.6.28.
    // SAFETY: `time` is a valid out pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn returns_monotonic_times() {
        let times: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(times.is_sorted());
        assert!(times[0] > 0);
    }
}
