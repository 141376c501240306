//! The health of NICs, as JSON and as the line that callers read (docs/check.md). The doc comments
//! of the types are the descriptions in their schema, docs/check.schema.json.

use serde::{Deserialize, Serialize};

use facts::error::{Failure, UNDECIDED};
use facts::host::host_name;
use facts::severity::Severity;
use facts::time_of_day::{Clocks, milliseconds};
use health::{Finding, Item, NONE_OF_ITS_OWN, link};
use page::problem::Problem;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The code of what could not be checked.
pub(super) const UNTESTED: &str = "untested";

/// What is untested on a machine without NICs.
pub(super) const MISSING: &str = "no Cassini NIC on this machine";

/// Why nothing is known of a link.
pub const UNKNOWN_LINK: &str = "the driver does not show the link";

/// Suspect items that the first line names.
const NAMED_SUSPECTS: usize = 3;

/// The health of the NICs of a machine, as `cxidiag check --json` writes it. A value that is
/// unknown is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Check {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    pub(super) cxidiag_version: String,
    /// Name of the host.
    pub host_name: String,
    /// Start of the check, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// Duration of the check, in milliseconds.
    pub(super) elapsed_ms: u64,
    /// By how many seconds the clock of the host was stepped meanwhile; null if it was not. Rates
    /// do not follow it.
    pub(super) clock_step_s: Option<f64>,
    /// Exit status of the program: 0 if nothing is bad, 3 if an item is, 4 if a NIC could not be
    /// checked and no item is bad.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// Settings of the host.
    pub host: Vec<Finding>,
    /// The NICs, in the order of the arguments.
    pub devices: Vec<DeviceResult>,
    #[serde(skip)]
    is_without_hardware: bool,
}

/// One NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct DeviceResult {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub name: String,
    /// Whether it is a software NIC, so that no Cassini hardware is involved.
    pub is_software: bool,
    /// Why the NIC, or a part of it, could not be checked; null if it could.
    pub error: Option<Problem>,
    /// The items, in order of importance; empty if none could be checked.
    pub items: Vec<Finding>,
}

impl DeviceResult {
    /// The item with this code, if there is one.
    pub(super) fn item(&self, code: &str) -> Option<&Finding> {
        self.items.iter().find(|item| item.code == code)
    }

    /// The value of the item with this code, if there is one.
    pub fn value(&self, code: &str) -> Option<&str> {
        self.item(code)?.value.as_deref()
    }

    /// Whether the item has a limit and a value.
    pub fn has_verdict(&self, item: &Item) -> bool {
        self.item(item.code).is_some_and(|found| found.verdict >= Severity::Good)
    }

    /// Whether the state of the link was examined but is not known, although the NIC has a link.
    pub fn has_unknown_link(&self) -> bool {
        let is_unknown = |state: &Finding| {
            state.verdict < Severity::Good && state.note.as_deref() != Some(NONE_OF_ITS_OWN)
        };
        self.item(link::STATE.code).is_some_and(is_unknown)
    }
}

impl Check {
    /// The health of NICs and their `host`, of a check that `began` and `ended` at these times.
    pub fn new(
        [began, ended]: [Clocks; 2],
        host: Vec<Finding>,
        devices: Vec<DeviceResult>,
    ) -> Self {
        let mut check = Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION").to_owned(),
            host_name: host_name(),
            started_unix_ms: milliseconds(began.of_day),
            elapsed_ms: milliseconds(ended.since(began)),
            clock_step_s: ended.step_since(began),
            exit_status: 0,
            summary: String::new(),
            host,
            devices,
            is_without_hardware: false,
        };
        (check.exit_status, check.summary) = check.conclusion();
        check
    }

    /// The check of software NICs that nobody has named, on a machine that may have lost its
    /// hardware: if it is not bad, it is undecided.
    pub fn without_hardware(mut self) -> Self {
        if self.exit_status == 0 {
            self.exit_status = UNDECIDED;
            self.summary = format!("UNDECIDED {UNTESTED} host: {MISSING}");
        }
        self.is_without_hardware = true;
        self
    }

    /// Whether the NICs are software NICs that nobody has named.
    pub fn is_without_hardware(&self) -> bool {
        self.is_without_hardware
    }

    /// The exit status, and the first line.
    fn conclusion(&self) -> (u8, String) {
        let bad: Vec<_> = self.with_verdict(Severity::Bad).collect();
        if let [(name, item), others @ ..] = bad.as_slice() {
            let line = format!("FAIL {} {name}: {}", item.code, item.described());
            return match others.len() {
                0 => (3, line),
                others => (3, format!("{line} (and {others} more)")),
            };
        }
        let mut errors =
            self.devices.iter().filter_map(|device| Some((&device.name, device.error.as_ref()?)));
        if let Some((name, error)) = errors.next() {
            let line = format!("UNDECIDED {UNTESTED} {name}: {}", error.message);
            return (UNDECIDED, line);
        }
        if let Some(device) = self.devices.iter().find(|device| device.has_unknown_link()) {
            let line = format!("UNDECIDED {UNTESTED} {}: {UNKNOWN_LINK}", device.name);
            return (UNDECIDED, line);
        }
        if self.devices.is_empty() {
            let line = format!(
                "UNDECIDED {UNTESTED} host: {MISSING} \
                 ('cxidiag check soft0' checks a software NIC)"
            );
            return (UNDECIDED, line);
        }
        let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
        let suspect = self.with_verdict(Severity::Suspect);
        let mut suspect: Vec<String> =
            suspect.map(|(name, item)| format!("{} {name}", item.code)).collect();
        if let more @ 1.. = suspect.len().saturating_sub(NAMED_SUSPECTS) {
            suspect.truncate(NAMED_SUSPECTS);
            suspect.push(format!("{more} more"));
        }
        let suspect = match suspect.as_slice() {
            [] => String::new(),
            suspect => format!(" (suspect: {})", suspect.join(", ")),
        };
        (0, format!("OK {}{suspect}", names.join(" ")))
    }

    /// The items with this verdict, each with the name of its device or `host`.
    pub(super) fn with_verdict(&self, verdict: Severity) -> impl Iterator<Item = (&str, &Finding)> {
        self.blocks()
            .flat_map(|(name, items)| items.iter().map(move |item| (name, item)))
            .filter(move |(_, item)| item.verdict == verdict)
    }

    /// The items of each device and of the host, with its name.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&str, &[Finding])> {
        self.devices
            .iter()
            .map(|device| (device.name.as_str(), device.items.as_slice()))
            .chain([("host", self.host.as_slice())])
    }

    /// The NIC of this name.
    pub fn device(&self, name: &str) -> Option<&DeviceResult> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// Whether all NICs passed.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Checks with known findings.

    use std::time::Duration;

    use super::*;
    use health::{host, link, pcie};

    /// Returns what a check concludes from these findings of cxi0, and of the host.
    pub fn check(
        nic_findings: Vec<Finding>,
        host_findings: Vec<Finding>,
        failure: Option<Failure>,
    ) -> Check {
        let device = DeviceResult {
            name: "cxi0".into(),
            is_software: false,
            error: failure.as_ref().map(Problem::from),
            items: nic_findings,
        };
        let clocks = |ms| Clocks {
            monotonic: Duration::from_millis(ms),
            of_day: Duration::from_secs(1_700_000_000) + Duration::from_millis(ms),
        };
        Check::new([clocks(0), clocks(2100)], host_findings, vec![device])
    }

    /// An item that is good.
    pub fn good() -> Finding {
        Finding::compared(&link::STATE, "up", "up", Severity::Good)
    }

    /// An item that is bad.
    pub fn bad() -> Finding {
        Finding::compared(&pcie::WIDTH, "x8", "x16", Severity::Bad)
    }

    /// An item of the host that is suspect.
    pub fn suspect() -> Finding {
        Finding::compared(&host::GOVERNOR, "powersave", "performance", Severity::Suspect)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{bad, check, good, suspect};
    use super::*;

    #[test]
    fn concludes_from_the_worst() {
        let failure = || Some(Failure::environment("no device"));
        for (check, status, line) in [
            (check(vec![good()], vec![], None), 0, "OK cxi0"),
            (check(vec![good()], vec![suspect()], None), 0, "OK cxi0 (suspect: governor host)"),
            (
                check(vec![Finding::absent(&link::STATE)], vec![], None),
                UNDECIDED,
                "UNDECIDED untested cxi0: the driver does not show the link",
            ),
            (
                check(vec![Finding::untested(&link::STATE, NONE_OF_ITS_OWN)], vec![], None),
                0,
                "OK cxi0",
            ),
            (
                check(vec![good(), bad(), bad()], vec![suspect()], failure()),
                3,
                "FAIL pcie-width cxi0: PCIe width x8, expected x16 (and 1 more)",
            ),
            (
                check(vec![good()], vec![], failure()),
                UNDECIDED,
                "UNDECIDED untested cxi0: no device",
            ),
        ] {
            assert_eq!((check.exit_status, check.summary.as_str()), (status, line));
            let result = check.result().map_err(|failure| failure.status());
            assert_eq!(result.err().unwrap_or(0), status);
        }
    }

    #[test]
    fn names_some_of_many_suspects() {
        let many = vec![suspect(), suspect(), suspect(), suspect(), suspect()];
        let check = check(vec![good()], many, None);
        let line = "OK cxi0 (suspect: governor host, governor host, governor host, 2 more)";
        assert_eq!(check.summary, line);
    }
}
