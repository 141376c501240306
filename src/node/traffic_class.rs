//! Traffic classes: how the NICs and switches of a fabric share their links (jobs.md 1.7).

use std::fmt;
use std::str::FromStr;

use cxi::sys::{CXI_TC_BEST_EFFORT, CXI_TC_BULK_DATA, CXI_TC_DEDICATED_ACCESS, CXI_TC_LOW_LATENCY};

use crate::nic::files::Files;

/// A traffic class that user processes may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TrafficClass {
    /// Exists in the QoS profile HPC only.
    DedicatedAccess = CXI_TC_DEDICATED_ACCESS,
    /// For small messages: the NIC limits its bandwidth.
    LowLatency = CXI_TC_LOW_LATENCY,
    /// For large transfers.
    BulkData = CXI_TC_BULK_DATA,
    /// The class of the legacy tools, and the only one with high-rate puts.
    BestEffort = CXI_TC_BEST_EFFORT,
}

impl TrafficClass {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] =
        [Self::DedicatedAccess, Self::LowLatency, Self::BulkData, Self::BestEffort];

    /// The number of the class, `CXI_TC_*`.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The class to use if only the classes of `granted` may be used: BEST_EFFORT if it is granted,
    /// else the class with the lowest number (jobs.md 1.3).
    pub fn preferred(granted: &[Self]) -> Option<Self> {
        let best_effort = granted.iter().find(|&&class| class == Self::BestEffort);
        best_effort.or_else(|| granted.iter().min_by_key(|class| class.number())).copied()
    }

    /// The largest share of the NIC that the class may send, in percent: what the driver shows,
    /// else its default. `None` if the class is not limited.
    pub fn ceiling(self, files: Option<&Files>) -> Option<u64> {
        let directory = self.to_string().to_lowercase();
        let text = |name: &str| files?.text(&format!("traffic_classes/{name}"));
        let shown = text(&format!("{directory}/ceiling_bw")).and_then(|text| text.parse().ok());
        let percent = shown.unwrap_or_else(|| match self {
            Self::LowLatency if text("active_qos_profile").as_deref() == Some("HPC") => 30,
            Self::LowLatency => 5,
            _ => 100,
        });
        (percent < 100).then_some(percent)
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DedicatedAccess => "DEDICATED_ACCESS",
            Self::LowLatency => "LOW_LATENCY",
            Self::BulkData => "BULK_DATA",
            Self::BestEffort => "BEST_EFFORT",
        })
    }
}

impl FromStr for TrafficClass {
    type Err = String;

    /// Reads a name in any case, with or without `TC_`, with hyphens or underscores.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_uppercase().replace('-', "_");
        let name = name.strip_prefix("TC_").unwrap_or(&name);
        let found = Self::ALL.into_iter().find(|class| class.to_string() == name);
        found.ok_or_else(|| format!("expected {}", names(&Self::ALL)))
    }
}

/// The names of classes as a list.
pub fn names(classes: &[TrafficClass]) -> String {
    let names: Vec<String> = classes.iter().map(TrafficClass::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::TrafficClass::{BestEffort, BulkData, LowLatency};
    use super::*;

    #[test]
    fn reads_names_in_each_spelling() {
        for text in ["LOW_LATENCY", "low-latency", "TC_low_Latency", "tc-LOW-latency"] {
            assert_eq!(text.parse(), Ok(LowLatency), "{text}");
        }
        for class in TrafficClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        let message = "ETHERNET".parse::<TrafficClass>().unwrap_err();
        assert!(message.contains("LOW_LATENCY, BULK_DATA"), "{message}");
    }

    #[test]
    fn prefers_best_effort_then_lowest_number() {
        assert_eq!(TrafficClass::preferred(&[LowLatency, BestEffort]), Some(BestEffort));
        assert_eq!(TrafficClass::preferred(&[BulkData, LowLatency]), Some(LowLatency));
        assert_eq!(TrafficClass::preferred(&[]), None);
    }

    #[test]
    fn finds_ceiling_in_file_then_in_profile() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path(), "cxi0");
        let write = |name: &str, content: &str| {
            let path = files.path(&format!("traffic_classes/{name}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        assert_eq!(LowLatency.ceiling(None), Some(5));
        assert_eq!(LowLatency.ceiling(Some(&files)), Some(5));
        write("active_qos_profile", "HPC\n");
        assert_eq!(LowLatency.ceiling(Some(&files)), Some(30));
        write("low_latency/ceiling_bw", "12\n");
        assert_eq!(LowLatency.ceiling(Some(&files)), Some(12));
        assert_eq!(BestEffort.ceiling(Some(&files)), None);
        write("best_effort/ceiling_bw", "40\n");
        assert_eq!(BestEffort.ceiling(Some(&files)), Some(40));
    }
}
