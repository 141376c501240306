//! The speed of the connection to the host, and the driver's limits of its errors (health.md 1.7,
//! 2.1).

use super::files::Files;

/// Speeds in 10^9 transfers per second of a lane, and the corrected errors of one kind in a minute
/// above which the driver reports them.
const CORRECTED_LIMITS: [(f64, u64); 7] =
    [(2.5, 5), (5.0, 10), (8.0, 15), (16.0, 31), (20.0, 40), (25.0, 48), (32.0, 61)];

/// The speed of the connection of a NIC to its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieSpeed {
    /// Transfers per second of each lane, in 10^9.
    pub gt_per_s: f64,
    /// Whether it is an extended speed, which the kernel does not show.
    pub is_extended: bool,
}

impl PcieSpeed {
    /// Returns the speed in effect: the extended one where there is one.
    pub fn read(files: &Files) -> Option<Self> {
        let speed = |name, is_extended| {
            let gt_per_s = gigatransfers(&files.text(name)?)?;
            Some(Self { gt_per_s, is_extended })
        };
        speed("properties/current_esm_link_speed", true)
            .or_else(|| speed("current_link_speed", false))
    }

    /// Returns the largest speed of the card without extension.
    pub fn max(files: &Files) -> Option<f64> {
        gigatransfers(&files.text("max_link_speed")?)
    }
}

/// Returns the corrected errors of one kind in a minute above which the driver reports them.
pub fn max_corrected_per_minute(gt_per_s: f64) -> Option<u64> {
    let limit = CORRECTED_LIMITS.iter().find(|(gt, _)| *gt == gt_per_s)?;
    Some(limit.1)
}

/// Returns the number in a speed such as `16.0 GT/s PCIe` or `16 GT/s`.
pub fn gigatransfers(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let number = number.parse().ok().filter(|number: &f64| *number > 0.0);
    number.filter(|_| unit.starts_with("GT/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_speeds_of_all_kernels() {
        for (text, expected) in [
            ("16.0 GT/s PCIe", Some(16.0)),
            ("16 GT/s", Some(16.0)),
            ("2.5 GT/s", Some(2.5)),
            ("Disabled", None),
            ("Unknown speed", None),
            ("0 GT/s", None),
            ("16 lanes", None),
        ] {
            assert_eq!(gigatransfers(text), expected, "{text}");
        }
    }
}
