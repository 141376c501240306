//! The units in which the text shows bandwidths.

crate::named_enum! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum BandwidthUnit {
        /// 10^6 bytes per second, the unit of the legacy tools.
        #[default]
        Megabytes = "MB/s",
        /// 10^9 bytes per second.
        Gigabytes = "GB/s",
        /// 2^20 bytes per second.
        Mebibytes = "MiB/s",
        /// 10^9 bits per second, the unit of link speeds.
        Gigabits = "Gb/s",
    }
    impl Display;
    // Letters differ in meaning: Gb/s are bits.
    impl FromStr or "expected MB/s, GB/s, MiB/s or Gb/s (bits)";
}

impl BandwidthUnit {
    /// The unit in bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        match self {
            Self::Megabytes => 1e6,
            Self::Gigabytes => 1e9,
            Self::Mebibytes => 1_048_576.0,
            Self::Gigabits => 125e6,
        }
    }

    /// The bandwidth as text, without the unit.
    pub fn text(self, bytes_per_s: f64) -> String {
        let decimals = match self {
            Self::Megabytes | Self::Mebibytes => 2,
            Self::Gigabytes | Self::Gigabits => 3,
        };
        format!("{:.decimals$}", bytes_per_s / self.bytes_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_a_bandwidth_in_each_unit() {
        let texts = BandwidthUnit::ALL.map(|unit| format!("{} {unit}", unit.text(25e9)));
        assert_eq!(texts, ["25000.00 MB/s", "25.000 GB/s", "23841.86 MiB/s", "200.000 Gb/s"]);
        for unit in BandwidthUnit::ALL {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
        for name in ["", "GB", "gb/s", "GiB/s", "Gb/s "] {
            assert!(name.parse::<BandwidthUnit>().is_err(), "{name}");
        }
    }
}
