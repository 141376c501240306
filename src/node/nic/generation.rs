//! The generation of a NIC, and what depends on it.

use super::files::Files;

/// The generation of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 200 Gb/s.
    Cassini1,
    /// 400 Gb/s.
    Cassini2,
}

/// Counters that only Cassini 2 has (health.md 1.2). [`is_only_on_cassini_2`] adds numbered ones.
const ONLY_CASSINI_2: [&str; 9] = [
    "hni_llr_rx_ack_nack_error",
    "hni_llr_tx_bad_lossless",
    "hni_llr_tx_bad_lossless_rpt",
    "hni_llr_tx_bad_lossy",
    "hni_llr_tx_llr_blocked",
    "hni_llr_tx_llr_unblocked",
    "hni_mac_tx_ifg_adjustment_sync",
    "oxe_smt_cdt_errs",
    "oxe_spt_cdt_errs",
];

impl Generation {
    /// The generation of a NIC by its version, its PCI device, or the layout of its link files
    /// (health.md 2.1, 2.3). `None` if none of them exists.
    pub fn of(files: &Files) -> Option<Self> {
        let version = files.text("properties/cassini_version");
        match version.as_deref().and_then(|text| text.chars().next()) {
            Some('1') => return Some(Self::Cassini1),
            Some('2') => return Some(Self::Cassini2),
            _ => {}
        }
        match files.text("device").as_deref() {
            Some("0x0501") => return Some(Self::Cassini1),
            // The second is a virtual function.
            Some("0x0371" | "0x0372") => return Some(Self::Cassini2),
            _ => {}
        }
        if files.text("port/0/link/state").is_some() {
            Some(Self::Cassini2)
        } else {
            files.text("port/link").map(|_| Self::Cassini1)
        }
    }

    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Cassini1, Self::Cassini2]
            .into_iter()
            .find(|generation| generation.number() == number)
    }

    /// Returns its number: 1 or 2.
    pub fn number(self) -> u32 {
        match self {
            Self::Cassini1 => 1,
            Self::Cassini2 => 2,
        }
    }

    /// The cycles of its clock in a second, by which its counters of cycles count (health.md 1.2).
    pub fn cycles_per_s(self) -> f64 {
        match self {
            Self::Cassini1 => 1e9,
            Self::Cassini2 => 1.1e9,
        }
    }

    /// Whether its NICs have a counter that some generation has.
    pub fn has_counter(self, name: &str) -> bool {
        self == Self::Cassini2 || !is_only_on_cassini_2(name)
    }

    /// The speed of its link, in Gb/s.
    pub fn link_gigabits(self) -> f64 {
        match self {
            Self::Cassini1 => 200.0,
            Self::Cassini2 => 400.0,
        }
    }

    /// The speed of each lane of its connection to the host, in 10^9 transfers per second.
    pub fn pcie_gt_per_s(self) -> f64 {
        match self {
            Self::Cassini1 => 16.0,
            Self::Cassini2 => 32.0,
        }
    }
}

fn is_only_on_cassini_2(name: &str) -> bool {
    // Cassini 1 has lanes 0 to 7.
    let lane = name.strip_prefix("hni_pcs_fecl_errors_");
    let is_lane = lane.is_some_and(|lane| lane.parse().is_ok_and(|lane: u32| lane > 7));
    is_lane || name.starts_with("hni_pcs_corrected_cw_bin_") || ONLY_CASSINI_2.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::counter_table::CounterRow;
    use crate::nic::testing::MadeUp;

    #[test]
    fn finds_generation_by_version_device_or_layout() {
        const VERSION: &str = "properties/cassini_version";
        let [first, second] = [Some(Generation::Cassini1), Some(Generation::Cassini2)];
        for (name, content, expected) in [
            (VERSION, "1.1\n", first),
            (VERSION, "2.0\n", second),
            (VERSION, "unknown\n", None),
            ("device", "0x0501\n", first),
            ("device", "0x0371\n", second),
            ("device", "0x0372\n", second),
            ("port/link", "up", first),
            ("port/0/link/state", "up\n", second),
        ] {
            let made_up = MadeUp::new(&[(name, content)]);
            assert_eq!(Generation::of(&made_up.files), expected, "{name} {content}");
        }
        for number in [1, 2] {
            let generation = Generation::from_number(number).unwrap();
            assert_eq!(generation.number(), number);
        }
        assert_eq!(Generation::from_number(3), None);
    }

    /// health.md 1.2: 32 of 1922 counters.
    #[test]
    fn cassini_1_lacks_32_counters() {
        let names = CounterRow::all().flat_map(CounterRow::names);
        let missing = names.filter(|name| !Generation::Cassini1.has_counter(name));
        assert_eq!(missing.count(), 32);
        for name in ["hni_pcs_fecl_errors_7", "hni_sts_tx_octets_ieee"] {
            assert!(Generation::Cassini1.has_counter(name), "{name}");
        }
        assert!(Generation::Cassini2.has_counter("hni_pcs_fecl_errors_8"));
    }
}
