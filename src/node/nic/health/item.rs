//! Something that is checked, and what was found.

use crate::nic::files::Files;

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
    /// Where it is, such as `between 0000:40:01.1 and 0000:41:00.0`, if not in all of the NIC.
    pub place: Option<String>,
    /// What follows.
    pub verdict: Verdict,
    /// What explains the value, or why there is none, where that is known.
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
            place: None,
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
    pub(super) fn shown_if(item: &'static Item, value: Option<String>) -> Self {
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
    pub(super) fn with_number(self, number: f64) -> Self {
        Self {
            number: Some(number),
            ..self
        }
    }
}

/// Returns `verdict` if `holds`, else good.
pub(super) fn unless_good(holds: bool, verdict: Verdict) -> Verdict {
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
