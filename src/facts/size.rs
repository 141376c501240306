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

/// Returns the least and the greatest power of two from `min` to `max`, if there is one.
pub fn powers_within(min: u64, max: u64) -> Option<(u64, u64)> {
    if !is_size(min) || !is_size(max) {
        return None;
    }
    let (least, greatest) = (min.next_power_of_two(), 1 << max.ilog2());
    (least <= greatest).then_some((least, greatest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_powers_of_two_in_a_range() {
        for (min, max, found) in [
            (3, 20, Some((4, 16))),
            (1, 8, Some((1, 8))),
            (5, 8, Some((8, 8))),
            (5, 7, None),
            (8, 4, None),
            (0, 4, None),
            (1, MAX_SIZE, Some((1, 1 << 31))),
            (MAX_SIZE, MAX_SIZE, None),
            (1, MAX_SIZE + 1, None),
        ] {
            assert_eq!(powers_within(min, max), found, "{min}:{max}");
        }
    }
}
