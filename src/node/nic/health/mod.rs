//! The health of a NIC and its host, as far as any user can read it (health.md 2; docs/check.md).
//!
//! Each file has the items of one subject, and a function for each that returns a [`Finding`]. What
//! cannot be read is [`Verdict::NotAvailable`]: an older driver, the other generation of hardware
//! or a virtual function does not have every file.
//!
//! * `link`: state, speed, mode and flaps of the link; `code_words`: its error rates.
//! * `pcie`: the connection to the host.
//! * `address`: fabric address and retry handler.
//! * `identity`: what is shown without a limit: generation, firmware, driver, QoS profile.
//! * `services`: who may use the NIC.
//! * `host`: settings of the host.
//! * `traffic`: a loopback write and read.

pub mod address;
pub mod code_words;
pub mod host;
pub mod identity;
pub mod link;
pub mod pcie;
pub mod services;
pub mod traffic;

use super::files::Files;

/// Something that is checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// What scripts recognize a failure by. It never changes.
    pub code: &'static str,
    /// Its name in tables.
    pub name: &'static str,
    /// Where the limit comes from: a tool of HPE, the driver, `cxidiag` itself; `-` without limit.
    pub source: &'static str,
    /// What to do about hardware that fails.
    pub remedy: &'static str,
}

/// All items, in the order of the report: the most important first.
pub static ITEMS: [&Item; 41] = [
    &link::STATE,
    &link::SPEED,
    &link::LANES,
    &link::LAYER_RETRY,
    &link::LOOPBACK,
    &link::PAUSE,
    &link::FLAPS,
    &link::WARNINGS,
    &link::MEDIA,
    &code_words::FLOW,
    &code_words::UNCORRECTED,
    &code_words::CORRECTED,
    &code_words::LANES,
    &code_words::REPLAYS,
    &pcie::WIDTH,
    &pcie::SPEED,
    &pcie::AER_FATAL,
    &pcie::AER_NONFATAL,
    &pcie::AER_CORRECTABLE,
    &pcie::UNCORRECTED,
    &pcie::CORRECTED,
    &identity::MEMORY_ERRORS,
    &address::ALGORITHMIC,
    &address::RETRY_HANDLER,
    &services::USABLE,
    &host::IOMMU,
    &host::LOCALITY,
    &link::MTU,
    &identity::QOS_PROFILE,
    &identity::GENERATION,
    &identity::SERIAL,
    &identity::FIRMWARE,
    &identity::DRIVER,
    &traffic::WRITE,
    &traffic::READ,
    &traffic::WRITE_BANDWIDTH,
    &traffic::READ_BANDWIDTH,
    &host::GOVERNOR,
    &host::HUGE_PAGES,
    &host::KERNEL,
    &host::LIBRARY,
];

/// The result of comparing the value of an item with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// There is no limit: the value is for the reader.
    Shown,
    /// It cannot be read here.
    NotAvailable,
    /// Within its limit.
    Good,
    /// Not as it should be, but the NIC works: results may be worse.
    Suspect,
    /// The check has failed.
    Bad,
}

impl Verdict {
    /// Returns its name in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Shown => "-",
            Self::NotAvailable => "not available",
            Self::Good => "good",
            Self::Suspect => "SUSPECT",
            Self::Bad => "BAD",
        }
    }
}

/// What was found of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The item.
    pub item: &'static Item,
    /// Its value; `None` if it cannot be read.
    pub value: Option<String>,
    /// The value as a number in base units (bytes, seconds), where it has one.
    pub number: Option<f64>,
    /// What is allowed.
    pub limit: Option<String>,
    /// What follows.
    pub verdict: Verdict,
    /// Why there is no value, where that is known.
    pub note: Option<String>,
}

impl Finding {
    /// An item without a value.
    pub fn absent(item: &'static Item) -> Self {
        Self {
            item,
            value: None,
            number: None,
            limit: None,
            verdict: Verdict::NotAvailable,
            note: None,
        }
    }

    /// An item without a value, and why.
    pub fn untested(item: &'static Item, why: impl Into<String>) -> Self {
        Self {
            note: Some(why.into()),
            ..Self::absent(item)
        }
    }

    /// A value without a limit.
    pub fn shown(item: &'static Item, value: impl Into<String>) -> Self {
        Self {
            value: Some(value.into()),
            verdict: Verdict::Shown,
            ..Self::absent(item)
        }
    }

    /// A value without a limit, if there is one.
    fn shown_if(item: &'static Item, value: Option<String>) -> Self {
        value.map_or_else(|| Self::absent(item), |value| Self::shown(item, value))
    }

    /// A value that was compared with `limit`.
    pub fn compared(
        item: &'static Item,
        value: impl Into<String>,
        limit: impl Into<String>,
        verdict: Verdict,
    ) -> Self {
        Self {
            value: Some(value.into()),
            limit: Some(limit.into()),
            verdict,
            ..Self::absent(item)
        }
    }

    /// Adds the value as a number in base units.
    fn with_number(self, number: f64) -> Self {
        Self {
            number: Some(number),
            ..self
        }
    }
}

/// Returns `verdict` if `holds`, else good.
fn unless_good(holds: bool, verdict: Verdict) -> Verdict {
    if holds { verdict } else { Verdict::Good }
}

/// The generation of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 200 Gb/s.
    Cassini1,
    /// 400 Gb/s.
    Cassini2,
}

impl Generation {
    /// Returns the generation of a NIC by its version, its PCI device, or the layout of its link
    /// files (health.md 2.1, 2.3). `None` if none of them exists.
    pub fn of(files: &Files) -> Option<Self> {
        let version = files.text("properties/cassini_version");
        match version.as_deref().and_then(|text| text.chars().next()) {
            Some('1') => return Some(Self::Cassini1),
            Some('2') => return Some(Self::Cassini2),
            _ => {}
        }
        match files.text("device").as_deref() {
            Some("0x0501") => return Some(Self::Cassini1),
            Some("0x0371") => return Some(Self::Cassini2),
            _ => {}
        }
        if files.text("port/0/link/state").is_some() {
            Some(Self::Cassini2)
        } else {
            files.text("port/link").map(|_| Self::Cassini1)
        }
    }

    /// Returns the speed of its link, in Gb/s.
    pub fn link_gigabits(self) -> f64 {
        match self {
            Self::Cassini1 => 200.0,
            Self::Cassini2 => 400.0,
        }
    }

    /// Returns the speed of each lane of its connection to the host, in 10^9 transfers per second.
    pub fn pcie_gt_per_s(self) -> f64 {
        match self {
            Self::Cassini1 => 16.0,
            Self::Cassini2 => 32.0,
        }
    }
}

#[cfg(test)]
pub mod testing {
    //! Files of made-up NICs.

    use std::fs;

    use super::*;

    /// The files of `cxi0`, which are deleted on drop.
    pub struct MadeUp {
        directory: tempfile::TempDir,
        /// The files.
        pub files: Files,
    }

    impl MadeUp {
        /// Writes files of the device: path below it, and content.
        pub fn new(of_device: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let files = Files::new(directory.path(), "cxi0");
            let made_up = Self { directory, files };
            for (name, content) in of_device {
                made_up.write(name, content);
            }
            made_up
        }

        /// Writes a file of the device.
        pub fn write(&self, name: &str, content: &str) {
            put(&self.files.path(name), content);
        }

        /// Writes a file of the host, named without the leading slash.
        pub fn write_of_host(&self, path: &str, content: &str) {
            put(&self.directory.path().join(path), content);
        }
    }

    fn put(path: &std::path::Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Asserts the verdict that `evaluate` returns for each content of a file.
    #[track_caller]
    pub fn assert_verdicts(
        name: &str,
        evaluate: impl Fn(&Files) -> Finding,
        cases: &[(&str, Verdict)],
    ) {
        for (content, verdict) in cases {
            let made_up = MadeUp::new(&[(name, content)]);
            let finding = evaluate(&made_up.files);
            assert_eq!(finding.verdict, *verdict, "{name} {content:?}: {finding:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::MadeUp;
    use super::*;

    #[test]
    fn each_item_has_its_own_code_and_name() {
        for unique in [
            ITEMS.map(|item| item.code).to_vec(),
            ITEMS.map(|item| item.name).to_vec(),
        ] {
            let mut sorted = unique.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), unique.len());
        }
    }

    #[test]
    fn finds_generation_by_version_device_or_layout() {
        for (name, content, expected) in [
            (
                "properties/cassini_version",
                "1.1\n",
                Some(Generation::Cassini1),
            ),
            (
                "properties/cassini_version",
                "2.0\n",
                Some(Generation::Cassini2),
            ),
            ("properties/cassini_version", "unknown\n", None),
            ("device", "0x0501\n", Some(Generation::Cassini1)),
            ("device", "0x0371\n", Some(Generation::Cassini2)),
            ("port/link", "up", Some(Generation::Cassini1)),
            ("port/0/link/state", "up\n", Some(Generation::Cassini2)),
        ] {
            let made_up = MadeUp::new(&[(name, content)]);
            assert_eq!(Generation::of(&made_up.files), expected, "{name} {content}");
        }
    }
}
