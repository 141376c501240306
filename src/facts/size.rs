//! Sizes of operations, in bytes.

/// Largest size of one operation in bytes (tools.md 2.2).
pub const MAX_SIZE: u64 = u32::MAX as u64;

/// Returns whether an operation can have `size` bytes.
pub fn is_size(size: u64) -> bool {
    (1..=MAX_SIZE).contains(&size)
}

/// Returns whether sizes can double from `min` to `max`.
pub fn is_range(min: u64, max: u64) -> bool {
    let is_end = |size: u64| is_size(size) && size.is_power_of_two();
    is_end(min) && is_end(max) && min <= max
}
