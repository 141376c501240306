//! The checks of facts about a NIC, as data and as JSON. The doc comments of the types are the
//! descriptions in their schema, docs/selftest.schema.json.

use std::time::{Instant, SystemTime};

use serde::Serialize;

use facts::error::Failure;
use facts::time_of_day::{milliseconds, unix_ms};

/// Name of the group of checks with a peer.
pub const PEER: &str = "peer";

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

facts::named_enum! {
    /// How certain the page of a fact is of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[cfg_attr(any(test, feature = "testing"), schemars(rename = "Certainty"))]
    #[serde(rename_all = "snake_case")]
    pub enum FactCertainty {
        /// Read in a source, or exercised by one.
        Stated = "stated",
        /// Inferred, or contradicted by another source.
        Inferred = "inferred",
        /// Not in any source: what the software NIC assumes.
        Assumed = "assumed",
    }
    /// The word for texts.
    pub fn name(self);
}

facts::named_enum! {
    /// What a check has found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum FactVerdict {
        /// The fact was observed.
        Holds = "holds",
        /// Something else was observed.
        Differs = "differs",
        /// The service or the driver does not allow what the check needs.
        Refused = "refused",
        /// The time limit was over before the check began.
        NotExamined = "not examined",
        /// The check does not apply here.
        Skipped = "skipped",
    }
    /// The word for texts.
    pub fn name(self);
}

impl FactVerdict {
    /// Whether the check has observed something.
    fn has_run(self) -> bool {
        matches!(self, Self::Holds | Self::Differs)
    }
}

/// A fact, and the name of its check.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Fact {
    /// Name of the check within its group.
    pub name: &'static str,
    /// Sections of docs/reference that state the fact.
    #[serde(rename = "fact")]
    pub sections: &'static str,
    /// How certain these sections are.
    pub certainty: FactCertainty,
    /// The fact in one line.
    pub statement: &'static str,
}

/// A check of one fact.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FactResult {
    /// Group of the check.
    pub group: &'static str,
    #[serde(flatten)]
    pub fact: Fact,
    /// What the check has found.
    pub verdict: FactVerdict,
    /// What the fact says; null unless the verdict is differs.
    pub expected: Option<String>,
    /// What was observed; null unless the verdict is differs.
    pub seen: Option<String>,
    /// Why the check was refused, skipped or not examined; null for other verdicts.
    pub reason: Option<String>,
    /// Bytes of the last commands before a difference, in hexadecimal; null if there were none.
    pub command: Option<String>,
    /// Bytes of the last event before a difference, in hexadecimal; null if there was none.
    pub event: Option<String>,
    /// Time of the check in microseconds.
    pub elapsed_us: u64,
}

impl FactResult {
    /// The result of a check that has found nothing else than the fact.
    pub fn holding(group: &'static str, fact: Fact) -> Self {
        Self {
            group,
            fact,
            verdict: FactVerdict::Holds,
            expected: None,
            seen: None,
            reason: None,
            command: None,
            event: None,
            elapsed_us: 0,
        }
    }

    /// The result of a check that the time limit has kept from beginning.
    pub fn not_examined(self) -> Self {
        let reason = "the time limit was over (--time-limit)".to_owned();
        Self { verdict: FactVerdict::NotExamined, reason: Some(reason), ..self }
    }

    /// The name with which --only selects the check.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.fact.name)
    }
}

/// The NIC and its software. A value that is unknown is null.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TestedNic {
    /// Name of the NIC.
    pub device: String,
    /// Whether it is a software NIC, so that no Cassini hardware is involved.
    pub is_software: bool,
    /// Generation of the NIC, with its PCI ids and revision.
    pub generation: String,
    /// Name of the driver.
    pub driver: String,
    /// Version of the driver.
    pub driver_version: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// File of the libcxi in use.
    pub library: Option<String>,
    /// Name of the board.
    pub board: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Architecture of the CPU.
    pub architecture: &'static str,
    /// Size of a page in bytes.
    pub page_bytes: usize,
    /// Width of a PID in bits.
    pub pid_bits: u32,
    /// Whether the retry handler runs.
    pub has_retry_handler: bool,
    /// Whether it is a virtual function.
    pub is_virtual_function: bool,
    /// Whether the effective user is root.
    pub is_root: bool,
    /// CXI service in use.
    pub svc_id: u32,
    /// VNI in use.
    pub vni: u32,
    /// Traffic class in use.
    pub traffic_class: String,
    /// Name of this host; null without --with-names.
    pub host: Option<String>,
    /// Address of the NIC; null without --with-names.
    pub nic_address: Option<u32>,
    /// PCI address; null without --with-names.
    pub pci_address: Option<String>,
}

/// An error flag of the NIC that the driver has switched off for all users of the NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct MaskedFlag {
    /// Block of the NIC: the directory below err_flgs_irqa.
    pub block: String,
    /// Bit of its mask.
    pub bit: u32,
    /// Name of the flag; null if it is not known.
    pub name: Option<&'static str>,
}

/// What the checks may have changed for other users of the NIC. Each list is empty, and each number
/// 0, if nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Aftermath {
    /// Error flags that the driver masked during the checks.
    pub masked_error_flags: Vec<MaskedFlag>,
    /// Isolation groups (RGIDs) that are available no more after checks with --risky.
    pub lost_rgids: u64,
}

impl Aftermath {
    /// A sentence for each change, with what to do.
    pub fn sentences(&self) -> Vec<String> {
        let flags = self.masked_error_flags.iter().map(|flag| {
            let name = flag.name.map_or_else(|| format!("bit {}", flag.bit), str::to_owned);
            format!(
                "error flag {}.{name} was switched off after too many interrupts: the log of the \
                 kernel shows this error no more, for any user. Only reloading the driver switches \
                 it on again: tell your administrator",
                flag.block
            )
        });
        let groups = (self.lost_rgids > 0).then(|| {
            format!(
                "RGIDs available: {} fewer than before (properties/rgids_avail). Unless another \
                 process has begun to use the NIC, the driver could not release a stopped queue, \
                 and its service cannot be destroyed. Tell your administrator",
                self.lost_rgids
            )
        });
        flags.chain(groups).collect()
    }
}

/// The checks of facts about a NIC, as `cxidiag selftest --json` writes them.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SelfTest {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Revision of its sources; null if unknown.
    revision: Option<&'static str>,
    /// Start of the first check, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// Time until the end of the last check, in milliseconds.
    elapsed_ms: u64,
    /// Number of checks that ran: those that hold and those that differ.
    pub(super) ran: usize,
    /// Number of checks that hold.
    pub(super) held: usize,
    /// The NIC.
    pub nic: TestedNic,
    /// The checks, in the order of their execution.
    pub checks: Vec<FactResult>,
    /// What the checks have changed for other users.
    pub aftermath: Aftermath,
    #[serde(skip)]
    started: Instant,
}

impl SelfTest {
    /// The report before the first check.
    pub fn new(nic: TestedNic) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            revision: facts::release::sources().revision,
            started_unix_ms: unix_ms(SystemTime::now()),
            elapsed_ms: 0,
            ran: 0,
            held: 0,
            nic,
            checks: Vec::new(),
            aftermath: Aftermath::default(),
            started: Instant::now(),
        }
    }

    /// Returns version and revision of cxidiag.
    pub(super) fn release(&self) -> String {
        match self.revision {
            Some(revision) => format!("{} ({revision})", self.cxidiag_version),
            None => self.cxidiag_version.into(),
        }
    }

    /// Adds a check.
    pub fn add(&mut self, result: FactResult) {
        let held = result.verdict == FactVerdict::Holds;
        self.held += usize::from(held);
        self.ran += usize::from(result.verdict.has_run());
        self.elapsed_ms = milliseconds(self.started.elapsed());
        self.checks.push(result);
    }

    /// The checks with this verdict.
    pub fn with(&self, verdict: FactVerdict) -> impl Iterator<Item = &FactResult> {
        self.checks.iter().filter(move |check: &&FactResult| check.verdict == verdict)
    }

    /// The last line of the text: how many facts hold.
    pub fn summary(&self) -> String {
        let mut line = format!("{} of {} facts hold", self.held, self.ran);
        for verdict in [FactVerdict::NotExamined, FactVerdict::Refused, FactVerdict::Skipped] {
            let count = self.with(verdict).count();
            if count > 0 {
                line += &format!(", {count} {}", verdict.name());
            }
        }
        line
    }

    /// Whether all facts hold whose checks ran.
    ///
    /// # Errors
    ///
    /// A fact that differs, checks that were not examined, and no check that ran.
    pub fn result(&self) -> Result<(), Failure> {
        let mut peer_results = self.checks.iter().filter(|check| check.group == PEER);
        let first = peer_results.clone().next();
        let lacks_peer = first.is_some() && !peer_results.any(|check| check.verdict.has_run());
        let not_examined = self.with(FactVerdict::NotExamined).count();
        match (self.ran, self.ran - self.held) {
            (ran, differing) if differing > 0 => {
                Err(Failure::unmet(format!("{differing} of {ran} facts differ")))
            }
            _ if not_examined > 0 => {
                Err(Failure::undecided(format!("{not_examined} not examined: time")))
            }
            (0, _) => {
                let why = self.checks.iter().find_map(|check| check.reason.as_deref());
                let why = why.unwrap_or("none was selected");
                Err(Failure::environment(format!("no check could run: {why}")))
            }
            _ if lacks_peer => {
                let why = first.and_then(|check| check.reason.as_deref()).unwrap_or_default();
                Err(Failure::environment(format!("no check with the peer could run: {why}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn check(name: &'static str, verdict: FactVerdict) -> FactResult {
        let text = |wanted| (verdict == wanted).then(|| "text".to_owned());
        let certainty = FactCertainty::Stated;
        let statement = "a put ends with one ACK";
        let fact = Fact { name, sections: "nic.md 6.4", certainty, statement };
        FactResult {
            verdict,
            expected: text(FactVerdict::Differs),
            seen: text(FactVerdict::Differs),
            reason: text(FactVerdict::Skipped)
                .or(text(FactVerdict::Refused))
                .or(text(FactVerdict::NotExamined)),
            command: (verdict == FactVerdict::Differs).then(|| "15 00".into()),
            elapsed_us: 3,
            ..FactResult::holding("moves", fact)
        }
    }

    pub fn report(verdicts: &[FactVerdict]) -> SelfTest {
        let mut report = SelfTest::new(TestedNic { device: "cxi0".into(), ..TestedNic::default() });
        for verdict in verdicts {
            report.add(check("ack", *verdict));
        }
        report
    }

    #[test]
    fn counts_checks_that_ran() {
        use FactVerdict::{Differs, Holds, NotExamined, Refused, Skipped};
        let all = report(&[Holds, Holds, Skipped, Refused, Skipped]);
        assert_eq!(all.summary(), "2 of 2 facts hold, 1 refused, 2 skipped");
        assert!(all.result().is_ok());
        let one = report(&[Holds, Differs]);
        assert_eq!(one.summary(), "1 of 2 facts hold");
        assert_eq!(one.result().unwrap_err().status(), 3);
        let none = report(&[Refused]).result().unwrap_err();
        assert_eq!(none.status(), 1);
        assert_eq!(none.message(), "no check could run: text");
        let late = report(&[Holds, NotExamined, NotExamined]);
        assert_eq!(late.summary(), "1 of 1 facts hold, 2 not examined");
        assert_eq!(late.result().unwrap_err().status(), 4);
        assert_eq!(report(&[NotExamined]).result().unwrap_err().status(), 4);
        assert_eq!(report(&[NotExamined, Differs]).result().unwrap_err().status(), 3);
    }

    /// A peer that was asked for and not reached is no success.
    #[test]
    fn fails_without_checks_of_the_peer() {
        let with_peer = |verdicts: &[FactVerdict]| {
            let mut results = report(&[FactVerdict::Holds]);
            for verdict in verdicts {
                results.add(FactResult { group: PEER, ..check("write", *verdict) });
            }
            results.result().map_err(|failure| failure.status())
        };
        assert_eq!(with_peer(&[]), Ok(()));
        assert_eq!(with_peer(&[FactVerdict::Refused; 2]), Err(1));
        assert_eq!(with_peer(&[FactVerdict::Refused, FactVerdict::Holds]), Ok(()));
        assert_eq!(with_peer(&[FactVerdict::Differs, FactVerdict::Refused]), Err(3));
    }
}
