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
