//! Causes and remedies of failed calls, error events and other problems (libcxi.md 12).
//!
//! [`EXPLANATIONS`] holds all of them: hints of messages come from it, and docs/troubleshooting.md
//! is generated from it.

mod table;

use std::fmt;

use cxi::{EventType, ReturnCode};

use crate::error::{Failure, Kind, Step};
pub use table::{EXPLANATIONS, Situation};

/// The cause and the remedy of a problem.
pub struct Explanation {
    /// The problem.
    pub what: What,
    /// Its causes, the most likely first.
    pub cause: &'static str,
    /// What to check and do.
    pub remedy: &'static str,
}

/// A problem, as the program detects it.
#[derive(Debug)]
pub enum What {
    /// One of these C functions (any function if the list is empty) returns one of these errno
    /// values.
    Call(&'static [&'static str], &'static [i32]),
    /// The NIC reports one of these return codes in an event; names without `C_RC_`.
    Code(&'static [&'static str]),
    /// The program detects this situation.
    Found(Situation),
}

impl Explanation {
    /// Returns the hint for the user, without `hint: `.
    pub fn hint(&self) -> String {
        format!("{}; {}", self.cause, self.remedy)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(calls, errnos) => {
                let calls = match calls {
                    [] => "any other call".to_owned(),
                    calls => calls.join(", "),
                };
                let errors: Vec<String> =
                    errnos.iter().map(|&errno| cxi::error_text(errno)).collect();
                write!(f, "{calls}: {}", errors.join(", "))
            }
            Self::Code(names) => f.write_str(&names.join(", ")),
            Self::Found(situation) => situation.fmt(f),
        }
    }
}

/// Returns the explanation of a libcxi call (or mmap) that failed with an errno (libcxi.md 12.1).
pub fn of_call(call: &str, errno: i32) -> Option<&'static Explanation> {
    EXPLANATIONS.iter().find(|row| match &row.what {
        What::Call(calls, errnos) => {
            (calls.is_empty() || calls.contains(&call)) && errnos.contains(&errno)
        }
        _ => false,
    })
}

/// Returns the explanation of a return code of the NIC (libcxi.md 12.3).
pub fn of_code(code: ReturnCode) -> Option<&'static Explanation> {
    let name = code.name()?;
    EXPLANATIONS
        .iter()
        .find(|row| matches!(&row.what, What::Code(names) if names.contains(&name)))
}

/// Returns the explanation of a situation.
fn of(situation: Situation) -> &'static Explanation {
    let explained =
        |row: &&Explanation| matches!(row.what, What::Found(found) if found == situation);
    let row = EXPLANATIONS.iter().find(explained);
    row.expect("every situation has its row; a test counts them")
}

/// Returns the remedy in a situation, for messages that name the cause already.
pub fn remedy(situation: Situation) -> &'static str {
    of(situation).remedy
}

/// Returns the hint for a situation.
pub fn hint(situation: Situation) -> String {
    of(situation).hint()
}

/// Returns the failure for a situation that the program has detected; `message` describes it.
pub fn found(situation: Situation, message: impl Into<String>) -> Failure {
    let failure = Failure::environment(message).with_hint(hint(situation));
    match situation {
        Situation::LinkDown => failure.in_step(Step::Link),
        Situation::ServiceDisabled => failure.in_step(Step::Service),
        Situation::ServiceWithoutVni => failure.in_step(Step::Vni),
        _ => failure,
    }
}

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
        return failure.with_hint(hint(Situation::GpuRuntimeFails));
    }
    match of_call(error.call(), error.errno()) {
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
        return match of_code(code) {
            Some(explanation) => failure.with_hint(explanation.hint()),
            None => failure,
        };
    }
    Failure::nic(format!(
        "{what}: the NIC reported {event_type} instead of {expected}"
    ))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            failure.message(),
            "write failed: the NIC reported 63 (return code 63)"
        );
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn names_unexpected_event() {
        let failure = unexpected("write", EventType::LINK, EventType::ACK, ReturnCode::OK);
        assert_eq!(
            failure.message(),
            "write: the NIC reported LINK instead of ACK"
        );
    }

    #[test]
    fn explains_each_error_code() {
        for number in 0..64 {
            let code = ReturnCode(number);
            let is_failure = !matches!(code.name(), None | Some("OK" | "NO_EVENT"));
            assert_eq!(of_code(code).is_some(), is_failure, "{code}");
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

    #[test]
    fn each_row_is_reachable() {
        for (at, row) in EXPLANATIONS.iter().enumerate() {
            let found = match &row.what {
                What::Call(calls, errnos) => of_call(calls.first().unwrap_or(&"any"), errnos[0]),
                What::Code(names) => (0..64)
                    .map(ReturnCode)
                    .find(|code| code.name() == Some(names[0]))
                    .and_then(of_code),
                What::Found(situation) => Some(of(*situation)),
            };
            let first = found.is_some_and(|found| std::ptr::eq(found, &EXPLANATIONS[at]));
            assert!(first, "{}", row.what);
        }
    }

    #[test]
    fn hints_are_one_line() {
        for row in EXPLANATIONS {
            assert!(
                !row.hint().contains('\n') && !row.remedy.is_empty(),
                "{}",
                row.what
            );
        }
    }

    #[test]
    fn prefers_row_of_call_to_row_of_any_call() {
        let domain = of_call("cxil_alloc_domain", libc::ENOSPC).unwrap();
        assert!(domain.cause.contains("PIDs"));
        let queue = of_call("cxil_alloc_evtq", libc::ENOSPC).unwrap();
        assert!(queue.cause.contains("limit"));
        assert!(of_call("cxil_alloc_evtq", libc::EINVAL).is_none());
    }
}
