//! What happened when the list entries of a NIC ran out, as `cxidiag check --exhaust` prints it and
//! writes it with `--json` (docs/check.md). The doc comments of the types are the descriptions in
//! their schema, docs/exhaust.schema.json.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::page::Page;
use facts::device::DeviceName;
use facts::error::{Failure, UNDECIDED};
use facts::host::host_name;
use facts::time_of_day::{milliseconds, unix_ms};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// The return code of an append for which there is no list entry.
const NO_SPACE: &str = "NO_SPACE";

/// The return code of a message that is received.
const RECEIVED: &str = "OK";

/// Code of the item that can be bad.
const CODE: &str = "list-entries";

/// The list entries of a service.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListEntryLimits {
    /// Number of the service.
    pub service: u32,
    /// Entries that only users of the service get.
    pub reserved: u16,
    /// Most entries that its users get; null if only the NIC limits them.
    pub maximum: Option<u16>,
    /// Whether others may take entries that its users can get.
    pub is_shared: bool,
}

/// What happened when one portal took all list entries that were left.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Exhaustion {
    /// Whether the NIC is a software NIC, so that no Cassini hardware is involved.
    pub is_software: bool,
    /// List entries that the portal got. All are of one processing element of the NIC.
    pub entries: u32,
    /// Return code of the append after them; null if no append failed.
    pub append: Option<String>,
    /// What happened to a message then; null if no append failed.
    pub message: Option<RefusedMessage>,
    /// Seconds from each append that failed until its portal was released, together. Others got no
    /// entry meanwhile, except what the recovery freed.
    pub exhausted_s: f64,
    /// Most list entries that a portal got within 2 s after the first one was released.
    pub entries_again: u32,
}

/// What happened to a message for which there was no list entry.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusedMessage {
    /// Return code that its sender received.
    pub return_code: String,
    /// Why the NIC disabled the portal; null if it did not.
    pub reason: Option<String>,
    /// Seconds from the first command that frees list entries until a message is answered OK; null
    /// if none was within 2 s, or if the message was received.
    pub recovery_s: Option<f64>,
}

/// What happened when the list entries of a NIC ran out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExhaustReport {
    /// Version of this layout.
    schema_version: u32,
    /// Name of what was done.
    command: &'static str,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Name of the host.
    host_name: String,
    /// Start, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// Duration with set-up, in milliseconds.
    elapsed_ms: u64,
    /// Exit status of the program: 0 if a new portal got no fewer list entries and the first one
    /// recovered, 3 if not and nobody else can have the entries, 4 otherwise.
    exit_status: u8,
    /// The first line of the text.
    summary: String,
    /// Name of the device: cxiN, or softN for a software NIC.
    device: String,
    /// What the service allows.
    limits: ListEntryLimits,
    /// What happened.
    exhaustion: Exhaustion,
}

impl ExhaustReport {
    /// Returns the report about a test that began at `started` and took `elapsed`.
    pub fn new(
        started: SystemTime,
        elapsed: Duration,
        device: DeviceName,
        limits: ListEntryLimits,
        exhaustion: Exhaustion,
    ) -> Self {
        let device = device.to_string();
        let (exit_status, summary) = conclusion(&device, limits, &exhaustion);
        Self {
            schema_version: SCHEMA_VERSION,
            command: "exhaust",
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            host_name: host_name(),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            exit_status,
            summary,
            device,
            limits,
            exhaustion,
        }
    }

    /// Returns the line that callers read.
    pub fn headline(&self) -> Page {
        Page::headline(&self.summary, self.exit_status)
    }

    /// Returns the text.
    pub fn page(&self) -> Page {
        let ListEntryLimits { service, reserved, maximum, is_shared } = self.limits;
        let found = &self.exhaustion;
        let maximum = maximum.map_or("no maximum".into(), |maximum| format!("at most {maximum}"));
        let shared = if is_shared { "shared with others" } else { "of this service alone" };
        let append = match &found.append {
            Some(code) => format!("then LINK reports {code}"),
            None => "and no append failed".into(),
        };
        let mut page = self.headline();
        if found.is_software {
            page.line(format!("{} (software NIC: no Cassini hardware involved)", self.device));
        }
        let entries = format!("{service}: {reserved} list entries reserved, {maximum}, {shared}");
        page.fact("Service", entries);
        page.fact("One portal gets", format!("{}, {append}", found.entries));
        if let Some(RefusedMessage { return_code, reason, recovery_s }) = &found.message {
            let disabled = reason.as_ref().map_or("the portal stays enabled".into(), |reason| {
                format!("the NIC disables the portal ({reason})")
            });
            page.fact("A message then", format!("answered {return_code}; {disabled}"));
            let recovery = match recovery_s {
                Some(seconds) => {
                    format!("{:.1} us, from UNLINK to a message answered OK", seconds * 1e6)
                }
                None if return_code == RECEIVED => "not needed".into(),
                None => "none within 2 s".into(),
            };
            page.fact("Recovery", recovery);
            page.fact("Exhausted for", format!("{:.3} ms", found.exhausted_s * 1e3));
        }
        page.fact("A new portal gets", found.entries_again);
        page
    }

    /// Returns whether all list entries came back.
    ///
    /// # Errors
    ///
    /// The summary, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

/// Returns the exit status, and the line that callers read.
fn conclusion(device: &str, limits: ListEntryLimits, found: &Exhaustion) -> (u8, String) {
    let Exhaustion { entries, entries_again, .. } = found;
    let Some(message) = &found.message else {
        let what = format!("{entries} list entries, and no append failed");
        return (UNDECIDED, format!("UNDECIDED untested {device}: {what}"));
    };
    if let Some(code) = found.append.as_ref().filter(|code| *code != NO_SPACE) {
        let what = format!("the append after {entries} list entries failed with {code}");
        return (UNDECIDED, format!("UNDECIDED untested {device}: {what}"));
    }
    if message.return_code != RECEIVED && message.recovery_s.is_none() {
        let what = "the portal did not recover within 2 s";
        return if limits.is_shared {
            let why = "or others took the list entries that were freed";
            (UNDECIDED, format!("UNDECIDED {CODE} {device}: {what}, {why}"))
        } else {
            (3, format!("FAIL {CODE} {device}: {what}"))
        };
    }
    if !limits.is_shared && *entries < limits.reserved.into() {
        let what = format!("{entries} of {} reserved list entries", limits.reserved);
        return (UNDECIDED, format!("UNDECIDED {CODE} {device}: a portal gets {what}"));
    }
    let lost = entries.saturating_sub(*entries_again);
    match lost {
        0 => (
            0,
            format!("OK {device}: a portal gets {entries} list entries, and a new one no fewer"),
        ),
        _ if limits.is_shared => {
            let what = format!("{lost} of {entries} list entries did not come back");
            (UNDECIDED, format!("UNDECIDED {CODE} {device}: {what}, or others have taken them"))
        }
        _ => {
            let what = format!("{lost} of {entries} list entries did not come back");
            (3, format!("FAIL {CODE} {device}: {what}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextStyle;

    fn found(entries_again: u32) -> Exhaustion {
        Exhaustion {
            is_software: false,
            entries: 1024,
            append: Some("NO_SPACE".into()),
            message: Some(RefusedMessage {
                return_code: "PT_DISABLED".into(),
                reason: Some("FC_UNEXPECTED_FAIL".into()),
                recovery_s: Some(12.34e-6),
            }),
            exhausted_s: 0.000_2,
            entries_again,
        }
    }

    fn limits(is_shared: bool) -> ListEntryLimits {
        ListEntryLimits { service: 7, reserved: 1024, maximum: Some(1024), is_shared }
    }

    #[test]
    fn lost_entries_are_bad_where_no_one_else_can_have_them() {
        let conclusion = |is_shared, found| conclusion("cxi0", limits(is_shared), &found);
        let back =
            (0, "OK cxi0: a portal gets 1024 list entries, and a new one no fewer".to_owned());
        assert_eq!(conclusion(false, found(1024)), back);
        // Another process has released some of a shared pool.
        assert_eq!(conclusion(true, found(1030)).1, back.1);
        let (status, line) = conclusion(false, found(1000));
        let lost = "list-entries cxi0: 24 of 1024 list entries did not come back";
        assert_eq!((status, line), (3, format!("FAIL {lost}")));
        let (status, line) = conclusion(true, found(1000));
        let shared = format!("UNDECIDED {lost}, or others have taken them");
        assert_eq!((status, line), (4, shared));
        let endless = Exhaustion { append: None, message: None, ..found(1024) };
        assert_eq!(conclusion(false, endless).0, 4);
        let mut stuck = found(1024);
        let message = stuck.message.as_mut().unwrap();
        message.recovery_s = None;
        assert_eq!(conclusion(false, stuck.clone()).0, 3);
        // Others may have taken what was freed.
        assert_eq!(conclusion(true, stuck.clone()).0, 4);
        stuck.message.as_mut().unwrap().return_code = "OK".into();
        assert_eq!(conclusion(true, stuck).0, 0);
        let other = Exhaustion { append: Some("PERM_VIOLATION".into()), ..found(1024) };
        assert_eq!(conclusion(false, other).0, 4);
        let few = Exhaustion { entries: 1000, ..found(1000) };
        let line = "UNDECIDED list-entries cxi0: a portal gets 1000 of 1024 reserved list entries";
        assert_eq!(conclusion(false, few.clone()), (4, line.to_owned()));
        assert_eq!(conclusion(true, few).0, 0);
    }

    #[test]
    fn text_says_what_happened_in_its_order() {
        let device = "cxi0".parse().unwrap();
        let (start, took) = (SystemTime::UNIX_EPOCH, Duration::ZERO);
        let report = ExhaustReport::new(start, took, device, limits(false), found(1024));
        let text = report.page().text(TextStyle::Plain);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "OK cxi0: a portal gets 1024 list entries, and a new one no fewer",
                "Service : 7: 1024 list entries reserved, at most 1024, of this service alone",
                "One portal gets : 1024, then LINK reports NO_SPACE",
                "A message then : answered PT_DISABLED; the NIC disables the portal \
                 (FC_UNEXPECTED_FAIL)",
                "Recovery : 12.3 us, from UNLINK to a message answered OK",
                "Exhausted for : 0.200 ms",
                "A new portal gets: 1024",
            ]
        );
    }
}
