//! The clock of the measurements.

/// Nanoseconds of CLOCK_MONOTONIC_RAW: no steps, and not slewed by time synchronisation.
///
/// Ordering: the C library reads the time stamp counter behind a barrier that waits for
/// the loads before it (`lfence` or `rdtscp`; `isb` on aarch64), so a time taken after
/// an event was seen is not earlier than the event. Stores are not waited for: a time
/// taken before a doorbell does not include the commit of earlier stores, and one taken
/// after it does not say that the doorbell has reached the NIC.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // It cannot fail: the clock exists since Linux 2.6.28.
    // SAFETY: the place is there to be filled.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn time_does_not_run_backwards() {
        let times: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(times.is_sorted());
        assert!(times[0] > 0);
    }
}
