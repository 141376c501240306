//! What is unusual about a curve over the sizes, in a sentence: usually a larger operation takes
//! longer, and carries more bytes in a second.

use super::quantity::Quantity;

/// Smallest difference between two sizes that is worth a sentence, as a part of the better one.
const LEAST: f64 = 0.1;

/// The fall of a bandwidth ends at the first size that is at most this part above the lowest one.
const ABOUT: f64 = 0.02;

/// Returns the sentence about latencies or bandwidths of sizes in ascending order, if they are
/// unusual.
pub fn remark(points: &[(u64, f64)], quantity: Quantity) -> Option<String> {
    let text = |(size, value): (u64, f64)| (Quantity::Size.text(size as f64), quantity.text(value));
    if quantity == Quantity::Bandwidth {
        let (peak, low) = fall(points)?;
        let percent = 100.0 * (1.0 - low.1 / peak.1);
        let ((from, most), (to, least)) = (text(peak), text(low));
        return Some(format!(
            "The bandwidth falls by {percent:.0} % from {from} ({most}) to {to} ({least})."
        ));
    }
    let (slow, fast) = step(points)?;
    let ((small, long), (large, short)) = (text(slow), text(fast));
    Some(format!("Operations of {small} take longer ({long}) than of {large} ({short})."))
}

/// Returns the beginning and the end of the largest fall.
fn fall(points: &[(u64, f64)]) -> Option<((u64, f64), (u64, f64))> {
    let mut peak = *points.first()?;
    let mut largest: Option<((u64, f64), f64)> = None;
    for &(size, value) in points {
        if value > peak.1 {
            peak = (size, value);
        }
        if value < largest.map_or(1.0 - LEAST, |(peak, low)| low / peak.1) * peak.1 {
            largest = Some((peak, value));
        }
    }
    let (peak, low) = largest?;
    let after = points.iter().filter(|(size, _)| *size > peak.0);
    let end = after.copied().find(|(_, value)| *value <= (1.0 + ABOUT) * low)?;
    Some((peak, end))
}

/// Returns the largest size that takes longer than a larger one, and the fastest larger one.
fn step(points: &[(u64, f64)]) -> Option<((u64, f64), (u64, f64))> {
    points.iter().enumerate().rev().find_map(|(at, &slow)| {
        let larger = points[at + 1..].iter().copied();
        let fast = larger.min_by(|one, other| one.1.total_cmp(&other.1))?;
        (fast.1 <= (1.0 - LEAST) * slow.1).then_some((slow, fast))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_largest_fall_of_a_bandwidth() {
        // A fall of 7 % that recovers, and one of a third that stays.
        let points = [(1, 14e6), (64, 13e6), (4096, 20e9), (32_768, 23.5e9), (262_144, 16.2e9)];
        let points = [&points[..], &[(524_288, 15.73e9), (1_048_576, 15.7e9)]].concat();
        let expected =
            "The bandwidth falls by 33 % from 32 KiB (23.5 GB/s) to 512 KiB (15.7 GB/s).";
        assert_eq!(remark(&points, Quantity::Bandwidth).as_deref(), Some(expected));
        let expected = "The bandwidth falls by 14 % from 1 B (14.0 GB/s) to 64 B (12.0 GB/s).";
        let points = [(1, 14e9), (64, 12e9), (4096, 20e9), (32_768, 23.5e9)];
        assert_eq!(remark(&points, Quantity::Bandwidth).as_deref(), Some(expected));
        assert_eq!(remark(&[(1, 1e9), (2, 0.91e9), (4, 2e9)], Quantity::Bandwidth), None);
        assert_eq!(remark(&[], Quantity::Bandwidth), None);
    }

    #[test]
    fn tells_sizes_that_are_slower_than_larger_ones() {
        let points = [(1, 3460.0), (8, 3490.0), (16, 1650.0), (32, 1630.0), (128, 2230.0)];
        let expected = "Operations of 8 B take longer (3.49 us) than of 32 B (1.63 us).";
        assert_eq!(remark(&points, Quantity::Latency).as_deref(), Some(expected));
        assert_eq!(remark(&points[2..], Quantity::Latency), None);
    }
}
