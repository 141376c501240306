//! The fences of the queues, as instructions (nic.md 2.7).
//!
//! Fences of the Rust language are too weak: `fence(Release)` emits nothing on x86_64, and on
//! aarch64 it orders accesses within the inner shareable domain, to which the NIC does not belong.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("no fences are defined for this architecture; supported: x86_64 and aarch64");

/// Orders stores of commands into the ring before the launch-page store that makes the NIC read
/// them (WP_FENCE of nic.md 2.7).
#[inline(always)]
pub(crate) fn before_launch() {
    store_fence();
}

/// Flushes a launch-page store from the write-combining buffer, so that the NIC sees it at once and
/// before any later one (WC_FENCE of nic.md 2.7).
#[inline(always)]
pub(crate) fn after_launch() {
    store_fence();
}

/// Orders the zeroing of consumed events before the store that lets the NIC write there again
/// (nic.md 5.4). On x86_64 the processor does not move an uncached store before ordinary ones, so
/// only the compiler is restricted.
#[inline(always)]
pub(crate) fn before_acknowledge() {
    #[cfg(target_arch = "x86_64")]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    store_fence();
}

/// Orders all earlier stores before all later ones, for every observer. Without the option `nomem`
/// the compiler does not move memory accesses across it either.
#[inline(always)]
fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no operands and changes neither registers, flags nor the stack.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction has no operands and changes neither registers, flags nor the stack.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
}

/// Tests that read machine code: on x86_64 no test of behaviour notices a missing fence.
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

    /// Whether a short function contains `sfence` or `dmb oshst`.
    pub(crate) fn has_store_fence<T>(function: fn(&mut T)) -> bool {
        let start = function as *const u8;
        let code: Vec<u8> = (0..64)
            .map(|offset| {
                // SAFETY: the code of the program is readable and continues after this function.
                unsafe { start.wrapping_add(offset).read_volatile() }
            })
            .collect();
        let find = |wanted: &[u8]| code.windows(wanted.len()).position(|bytes| bytes == wanted);
        let end = find(RETURN).expect("the function is short");
        find(STORE_FENCE).is_some_and(|fence| fence < end)
    }

    #[test]
    fn distinguishes_functions_with_and_without_fence() {
        fn with(_: &mut u8) {
            super::store_fence();
        }
        fn without(_: &mut u8) {}
        assert!(has_store_fence(with));
        assert!(!has_store_fence(without));
    }
}
