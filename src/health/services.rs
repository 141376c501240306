//! Which services of a NIC this user and job may use.

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;

/// Whether this process may use the NIC.
pub static USABLE: Item = Item {
    code: "service",
    name: "services",
    source: "libcxi",
    remedy: "no service for this user: start the check in a job, or enable one (cxi_service); \
             'cxidiag devices --verbose' lists them",
};

/// Returns the finding for a device that cannot be opened. The NIC may be healthy, so it is
/// suspect, not bad.
pub fn unknown(why: impl Into<String>) -> Finding {
    Finding { verdict: Severity::Suspect, ..Finding::untested(&USABLE, why) }
}

/// Evaluates the numbers of the services that this process may use. In a job that has a service on
/// this NIC, that one must be among them.
pub fn usable(services: &[u32], job_service: Option<u32>) -> Finding {
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(", ")
    };
    let value = if services.is_empty() { "none for this user".to_owned() } else { list(services) };
    match job_service {
        Some(service) => {
            let verdict = unless_good(!services.contains(&service), Severity::Bad);
            Finding::compared(&USABLE, value, format!("{service} (of the job)"), verdict)
        }
        None => {
            let verdict = unless_good(services.is_empty(), Severity::Suspect);
            Finding::compared(&USABLE, value, "any", verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_needs_its_service_and_others_need_any() {
        for (services, job_service, verdict) in [
            (&[1, 5][..], Some(5), Severity::Good),
            (&[1], Some(5), Severity::Bad),
            (&[1], None, Severity::Good),
            (&[], None, Severity::Suspect),
        ] {
            assert_eq!(usable(services, job_service).verdict, verdict, "{services:?}");
        }
    }
}
