//! Errors of libcxi and of the NIC -> failures with their causes and remedies.

use std::fmt;
use std::path::Path;

use cxi::{EventType, ReturnCode};
use facts::advice::{self, Advise, Situation, call_explanation};
use facts::error::{Failure, Kind, Step};

/// The memory of this process, as the kernel describes it.
const MAPS: &str = "/proc/self/maps";

/// Returns the step of a run that needs this call.
fn step(call: &str) -> Option<Step> {
    match call {
        "cxil_open_device" => Some(Step::Device),
        "cxil_get_svc" | "cxil_alloc_lni" => Some(Step::Service),
        "cxil_alloc_domain" | "cxil_alloc_cp" => Some(Step::Vni),
        _ => None,
    }
}

/// Names what failed where a libcxi call (or mmap) returns an error, and adds the hint for that
/// error.
pub trait Explain<T> {
    /// Turns an error into a failure of [`Kind::Environment`] whose message begins with `what`.
    ///
    /// # Errors
    ///
    /// The error of `self`, explained.
    fn explain(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Explain<T> for Result<T, cxi::Error> {
    fn explain(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| explained(error, what))
    }
}

/// Returns the failure of a libcxi call (or mmap): `what` failed because of `error`.
#[cold]
pub fn explained(error: cxi::Error, what: impl fmt::Display) -> Failure {
    let failure = Failure::new(Kind::Environment, error).context(what);
    let failure = match step(error.call()) {
        Some(step) => failure.in_step(step),
        None => failure,
    };
    if error.is_of_gpu() && error.errno() != libc::ENOMEM {
        return failure.explained(Situation::GpuRuntimeFails);
    }
    // Software NICs look memory up there, and libcxi may do so, too [I] (libcxi.md 7.4).
    if (error.call(), error.errno()) == ("cxil_map", libc::EFAULT) && !Path::new(MAPS).exists() {
        return failure.explained(Situation::NoProc);
    }
    match call_explanation(error.call(), error.errno()) {
        Some(explanation) => failure.with_hint(explanation.hint()),
        None => failure,
    }
}

/// Returns the step of a run that fails with this return code (libcxi.md 12.3).
fn step_of_code(code: ReturnCode) -> Step {
    match code.name() {
        Some("UNDELIVERABLE" | "CANCELED" | "HRP_RSP_DISCARD") => Step::Answer,
        Some("VNI_NOT_FOUND") => Step::Vni,
        _ => Step::Operation,
    }
}

/// Returns the failure for an unexpected event or an event with an error code; `what` was awaited.
pub fn unexpected(
    what: &str,
    event_type: EventType,
    expected: EventType,
    code: ReturnCode,
) -> Failure {
    if code != ReturnCode::OK {
        let failure = Failure::nic(format!(
            "{what} failed: the NIC reported {code} (return code {})",
            code.0
        ))
        .in_step(step_of_code(code));
        return match code.name().and_then(advice::code_explanation) {
            Some(explanation) => failure.with_hint(explanation.hint()),
            None => failure,
        };
    }
    Failure::nic(format!("{what}: the NIC reported {event_type} instead of {expected}"))
}

#[cfg(test)]
mod tests {
    use facts::advice::{EXPLANATIONS, What};

    use super::*;

    #[test]
    fn names_return_code_with_hint() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(2));
        assert_eq!(
            failure.message(),
            "write failed: the NIC reported UNDELIVERABLE (return code 2)"
        );
        assert!(failure.hint.unwrap().contains("link"));
    }

    #[test]
    fn prints_number_of_unknown_return_code() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(63));
        assert_eq!(failure.message(), "write failed: the NIC reported 63 (return code 63)");
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn names_unexpected_event() {
        let failure = unexpected("write", EventType::LINK, EventType::ACK, ReturnCode::OK);
        assert_eq!(failure.message(), "write: the NIC reported LINK instead of ACK");
    }

    #[test]
    fn explains_each_error_code() {
        for number in 0..64 {
            let code = ReturnCode(number);
            let is_failure = !matches!(code.name(), None | Some("OK" | "NO_EVENT"));
            assert_eq!(
                code.name().and_then(advice::code_explanation).is_some(),
                is_failure,
                "{code}"
            );
        }
        for row in EXPLANATIONS {
            let What::Code(names) = row.what else {
                continue;
            };
            for name in names {
                let known = (0..64).any(|number| ReturnCode(number).name() == Some(name));
                assert!(known, "the NIC has no return code {name}");
            }
        }
    }
}
