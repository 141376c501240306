//! Copies and atomic updates of memory that programs access at the same time.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Copies `len` bytes. An aligned 8-byte word is written in one store, because programs poll such
/// words.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. Other threads and
/// processes may access both at the same time.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && to.addr().is_multiple_of(8) {
        // SAFETY: the caller guarantees 8 readable bytes at `from`.
        let value = unsafe { from.cast::<u64>().read_unaligned() };
        // SAFETY: `to` is aligned, and the caller guarantees 8 writable bytes there.
        let word = unsafe { AtomicU64::from_ptr(to.cast()) };
        word.store(value, Ordering::Relaxed);
    } else {
        // SAFETY: the caller guarantees both ranges, and that they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Replaces the value of `len` bytes (1, 2, 4, 8 or 16) by the result of `compute`, and returns the
/// previous value. Up to 8 bytes the update is atomic for all accesses to the memory; with 16
/// bytes, for other updates of 16 bytes by this process. `compute` may run more than once.
///
/// # Safety
/// `place` is readable, writable and aligned for `len` bytes. Other threads and processes may
/// access it at the same time.
pub unsafe fn update(place: *mut u8, len: usize, mut compute: impl FnMut(u128) -> u128) -> u128 {
    macro_rules! exchange {
        ($atomic:ident, $int:ident) => {{
            // SAFETY: the caller guarantees an aligned place of this length.
            let word = unsafe { $atomic::from_ptr(place.cast()) };
            let mut before = word.load(Ordering::Relaxed);
            loop {
                let after = compute(u128::from($int::from_le(before))) as $int;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match word.compare_exchange_weak(before, after.to_le(), success, failure) {
                    Ok(_) => break u128::from($int::from_le(before)),
                    Err(now) => before = now,
                }
            }
        }};
    }
    match len {
        1 => exchange!(AtomicU8, u8),
        2 => exchange!(AtomicU16, u16),
        4 => exchange!(AtomicU32, u32),
        8 => exchange!(AtomicU64, u64),
        _ => {
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
            let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller guarantees 16 aligned bytes, of which these are the first 8.
            let low = unsafe { AtomicU64::from_ptr(place.cast()) };
            // SAFETY: the caller guarantees 16 aligned bytes, of which these are the last 8.
            let high = unsafe { AtomicU64::from_ptr(place.cast::<u64>().wrapping_add(1)) };
            let word = |word: &AtomicU64| u128::from(u64::from_le(word.load(Ordering::Acquire)));
            let before = word(low) | word(high) << 64;
            let after = compute(before);
            low.store((after as u64).to_le(), Ordering::Release);
            high.store(((after >> 64) as u64).to_le(), Ordering::Release);
            before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_updates_are_never_lost() {
        const TIMES: u128 = 50_000;
        for len in [1, 2, 4, 8, 16] {
            let memory = crate::pages::Pages::anonymous(crate::pages::page_size()).unwrap();
            // Carries out of the low word, so that both words of a long value change.
            let step = if len == 16 { 1 << 63 } else { 1 };
            let add = || {
                for _ in 0..TIMES {
                    // SAFETY: the first bytes of `memory`, which lives until the threads have
                    // ended.
                    unsafe { update(memory.at(0, len), len, |value| value.wrapping_add(step)) };
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(add);
                add();
            });
            // SAFETY: the first bytes of `memory`, which lives until the end of the loop body.
            let total = unsafe { update(memory.at(0, len), len, |value| value) };
            let mask = u128::MAX >> (128 - 8 * len);
            assert_eq!(total, (2 * TIMES * step) & mask, "{len} bytes");
        }
    }
}
