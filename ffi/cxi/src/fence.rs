//! The fences of the queues, as instructions.
//!
//! The language's fences will not do: `fence(Release)` emits nothing on x86_64, and on
//! aarch64 it orders within the inner shareable domain, where the NIC is not. Each
//! function says which accesses it orders, and who reads them.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the fences of this architecture are not known: x86_64 and aarch64 only");

/// Orders the stores of commands into the ring before the launch-page store that makes
/// the NIC read them (WP_FENCE of nic.md 2.7).
#[inline(always)]
pub(crate) fn before_launch() {
    store_fence();
}

/// Pushes a launch-page store out of the write-combining buffer, so that the NIC sees
/// it now, and before any later one (WC_FENCE of nic.md 2.7).
#[inline(always)]
pub(crate) fn after_launch() {
    store_fence();
}

/// Orders the zeroing of consumed events before the store that lets the NIC write there
/// again (nic.md 5.4). On x86_64 an uncached store stays behind ordinary ones by itself,
/// so only the compiler is held back.
#[inline(always)]
pub(crate) fn before_acknowledge() {
    #[cfg(target_arch = "x86_64")]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    store_fence();
}

/// All earlier stores before all later ones, for every observer. Without `nomem`, so
/// that the compiler keeps memory accesses on their side as well.
#[inline(always)]
fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no operands and changes no register or flag.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction has no operands and changes no register or flag.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
}

/// Reading the machine code: on x86_64 no test of behaviour could notice that a fence is
/// missing.
#[cfg(test)]
pub(crate) mod tests {
    #[cfg(target_arch = "x86_64")]
    const STORE_FENCE: &[u8] = &[0x0f, 0xae, 0xf8];
    #[cfg(target_arch = "x86_64")]
    const RETURN: &[u8] = &[0xc3];
    #[cfg(target_arch = "aarch64")]
    const STORE_FENCE: &[u8] = &0xd503_32bf_u32.to_le_bytes();
    #[cfg(target_arch = "aarch64")]
    const RETURN: &[u8] = &0xd65f_03c0_u32.to_le_bytes();

    /// Whether a function that does nothing else contains `sfence`, or `dmb oshst`.
    pub(crate) fn has_store_fence<T>(function: fn(&mut T)) -> bool {
        let start = function as *const u8;
        let code: Vec<u8> = (0..64)
            .map(|offset| {
                // SAFETY: the program's code is readable, and goes on behind this function.
                unsafe { start.wrapping_add(offset).read_volatile() }
            })
            .collect();
        let find = |wanted: &[u8]| code.windows(wanted.len()).position(|bytes| bytes == wanted);
        let end = find(RETURN).expect("the function is short");
        find(STORE_FENCE).is_some_and(|fence| fence < end)
    }

    #[test]
    fn a_function_without_a_fence_is_recognised() {
        fn with(_: &mut u8) {
            super::store_fence();
        }
        fn without(_: &mut u8) {}
        assert!(has_store_fence(with));
        assert!(!has_store_fence(without));
    }
}
