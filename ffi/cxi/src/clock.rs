//! The clocks of the measurements: the clock of the kernel, and the counter of the CPUs.

/// The nanoseconds of CLOCK_MONOTONIC_RAW, which time synchronisation neither steps nor slews.
///
/// The C library reads the time stamp counter after a barrier that waits for earlier loads
/// (`lfence` or `rdtscp`; `isb` on aarch64), so a time taken after an event was polled is not
/// earlier than the event. The barrier does not wait for stores: a time taken after a doorbell may
/// be earlier than the arrival of the doorbell at the NIC.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The call cannot fail: Linux has this clock since version 2.6.28.
    // SAFETY: `time` is a valid out pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The counter of the CPUs, which counts at a constant rate: the time stamp counter on x86-64, the
/// virtual count of the generic timer on aarch64.
///
/// # What may move across a reading
///
/// An interval begins with a reading that is followed by stores into the ring, a fence and the
/// launch store. It ends with a reading that follows the load of an event. Two things must hold:
/// the commands become visible after the first reading, and the second reading is taken after the
/// event was seen. In addition, work before the first reading must not extend the interval.
///
/// On x86-64, `rdtscp` waits until all earlier instructions have been executed and all earlier
/// loads have returned their values. So the last reading follows the load of the event, and the
/// first one follows the work before it (`rdtsc` does not wait: it added up to 40 ns of earlier
/// divisions to an interval). Later instructions may be executed before `rdtscp` has read the
/// counter, but a store leaves the core only after all instructions before it have retired: no
/// command becomes visible before the first reading. Only the loads and the arithmetic that place a
/// command in the ring may overlap with the reading. An `lfence` after `rdtscp` would prevent that
/// and adds its own cost, 3 to 5 ns, to each interval. `lfence` before `rdtsc` orders as `rdtscp`
/// does and costs about the same, but on some AMD processors it orders only if the kernel has set
/// it up. Earlier stores are not waited for, which is as intended: the second reading does not
/// depend on them, and those before the first one belong to the previous operation.
///
/// On aarch64, the counter is a system register, which the core may read early. `isb` lets no later
/// instruction begin before all earlier ones have completed. The poll loop branches on the event,
/// and a load, a branch that depends on it and an `isb` order the reading after the load. No
/// barrier follows the reading: stores leave the core after they have retired, in program order
/// after the reading.
#[derive(Clone, Copy, Debug)]
pub struct CpuCounter {
    _found: (),
}

#[cfg(target_arch = "x86_64")]
impl CpuCounter {
    /// Name of the counter.
    pub const NAME: &str = "TSC";

    /// Clock source of Linux that reads this counter.
    pub const CLOCK_SOURCE: &str = "tsc";

    /// The counter if the processor has `rdtscp` and states that the rate is constant in all power
    /// states.
    pub fn find() -> Option<Self> {
        const POWER: u32 = 0x8000_0007;
        const RDTSCP: u32 = 1 << 27;
        const INVARIANT: u32 = 1 << 8;
        let is_known = cpuid(0x8000_0000).eax >= POWER;
        let is_usable =
            is_known && cpuid(0x8000_0001).edx & RDTSCP != 0 && cpuid(POWER).edx & INVARIANT != 0;
        is_usable.then_some(Self { _found: () })
    }

    /// The count of the clock.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let mut cpu = 0;
        // The compiler assumes that the intrinsic accesses memory, and moves no access across it.
        // SAFETY: `find` has found the instruction; `cpu` is a valid out pointer.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut cpu) }
    }

    /// `None`: the processor does not state the counts per second.
    pub fn frequency(self) -> Option<u64> {
        None
    }
}

/// The properties of the processor that the instruction `cpuid` lists under `leaf`.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "only older releases of Rust require the block")]
fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { std::arch::x86_64::__cpuid(leaf) }
}

#[cfg(target_arch = "aarch64")]
impl CpuCounter {
    /// Name of the counter.
    pub const NAME: &str = "CNTVCT";

    /// Clock source of Linux that reads this counter.
    pub const CLOCK_SOURCE: &str = "arch_sys_counter";

    /// The counter, which every processor of this architecture has.
    pub fn find() -> Option<Self> {
        Some(Self { _found: () })
    }

    /// The count at this moment.
    #[inline(always)]
    pub fn read(self) -> u64 {
        let count;
        // SAFETY: the instructions change only `count`; Linux lets programs read the register.
        // Without the option `nomem` the compiler does not move memory accesses across them.
        unsafe {
            std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags))
        };
        count
    }

    /// The counts per second that the firmware has stated.
    pub fn frequency(self) -> Option<u64> {
        let frequency: u64;
        // SAFETY: the instruction changes only `frequency`; Linux lets programs read the register.
        unsafe {
            std::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags))
        };
        Some(frequency).filter(|frequency| *frequency > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_monotonic_times() {
        let times: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(times.is_sorted());
        assert!(times[0] > 0);
    }

    #[test]
    fn counter_advances() {
        let Some(counter) = CpuCounter::find() else {
            return;
        };
        let first = counter.read();
        let counts = std::iter::repeat_with(|| counter.read());
        assert!(counts.take(1_000_000).any(|count| count > first));
    }
}
