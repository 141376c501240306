//! A hint that moves a cache line to this processor before it is accessed.
//!
//! The lines of a ring between two processors are in the cache of the other one. Without the hint
//! the stores to each line wait for it; with the hint, several lines move at the same time. It
//! changes nothing but time. Architectures other than x86-64 do without it.

/// Requests the line of `place` for writing.
#[inline(always)]
pub fn to_write<T>(place: *const T) {
    // The intrinsic of the standard library requests the line for reading on processors without
    // PREFETCHW. All of 64 bits have the instruction; some of them ignore it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses no memory, whatever the address, and changes no register or flag.
    unsafe {
        std::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
