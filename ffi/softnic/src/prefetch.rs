//! A hint that moves a cache line to this processor before it is accessed.
//!
//! The lines of a ring between two processors are in the cache of the other one. Without the hint
//! the stores to each line wait for it; with the hint, several lines move at the same time. It
//! changes nothing but time. Architectures other than x86-64 do without it.

/// Requests the line of `place` for writing.
#[inline(always)]
pub fn to_write<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch accesses no memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
