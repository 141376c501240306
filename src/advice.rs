//! What a refused call, a bad event or a situation means, and what to do about it (libcxi.md 12).
//!
//! [`table::EXPLANATIONS`] is the one place for all of it: messages take their hints from there, and
//! docs/troubleshooting.md is made of it.

mod table;

use std::fmt;

use cxi::{EventType, ReturnCode};

use crate::error::{Failure, Kind};
pub use table::{EXPLANATIONS, Situation};

/// Why something goes wrong, and what to do.
pub struct Explanation {
    /// What is seen.
    pub what: What,
    /// Why, the likeliest first.
    pub cause: &'static str,
    /// What to check and do.
    pub remedy: &'static str,
}

/// What is seen when something goes wrong.
#[derive(Debug)]
pub enum What {
    /// One of these C functions, or any where none is named, returns one of these errno values.
    Call(&'static [&'static str], &'static [i32]),
    /// The NIC reports one of these return codes in an event; names without `C_RC_`.
    Code(&'static [&'static str]),
    /// The program finds it out by itself.
    Found(Situation),
}

impl Explanation {
    /// The line for the user, behind `hint: `.
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

/// The explanation of a libcxi call (or mmap) that failed with an errno (libcxi.md 12.1).
pub fn of_call(call: &str, errno: i32) -> Option<&'static Explanation> {
    EXPLANATIONS.iter().find(|row| match &row.what {
        What::Call(calls, errnos) => {
            (calls.is_empty() || calls.contains(&call)) && errnos.contains(&errno)
        }
        _ => false,
    })
}

/// The explanation of a return code of the NIC (libcxi.md 12.3).
pub fn of_code(code: ReturnCode) -> Option<&'static Explanation> {
    let name = code.name()?;
    EXPLANATIONS
        .iter()
        .find(|row| matches!(&row.what, What::Code(names) if names.contains(&name)))
}

/// The explanation of a situation.
fn of(situation: Situation) -> &'static Explanation {
    let explained =
        |row: &&Explanation| matches!(row.what, What::Found(found) if found == situation);
    let row = EXPLANATIONS.iter().find(explained);
    row.expect("every situation has its row; a test counts them")
}

/// What to check and do in a situation, where the message says the cause already.
pub fn remedy(situation: Situation) -> &'static str {
    of(situation).remedy
}

/// The hint for a situation.
pub fn hint(situation: Situation) -> String {
    of(situation).hint()
}

/// A failure of the environment that the program found out by itself; `message` says what is seen.
pub fn found(situation: Situation, message: impl Into<String>) -> Failure {
    Failure::environment(message).with_hint(hint(situation))
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
    if error.is_of_gpu() && error.errno() != libc::ENOMEM {
        return failure.with_hint(hint(Situation::GpuRuntimeFails));
    }
    match of_call(error.call(), error.errno()) {
        Some(explanation) => failure.with_hint(explanation.hint()),
        None => failure,
    }
}

/// An event other than the awaited one, or with a bad return code; `what` was awaited.
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
        ));
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
    fn a_return_code_is_named_with_advice() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(2));
        assert_eq!(
            failure.message(),
            "write failed: the NIC reported UNDELIVERABLE (return code 2)"
        );
        assert!(failure.hint.unwrap().contains("link"));
    }

    #[test]
    fn an_unknown_return_code_is_a_number() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(63));
        assert_eq!(
            failure.message(),
            "write failed: the NIC reported 63 (return code 63)"
        );
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn a_wrong_event_is_named() {
        let failure = unexpected("write", EventType::LINK, EventType::ACK, ReturnCode::OK);
        assert_eq!(
            failure.message(),
            "write: the NIC reported LINK instead of ACK"
        );
    }

    #[test]
    fn every_return_code_of_a_failure_is_explained() {
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
    fn no_row_hides_another() {
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
    fn a_hint_is_one_line() {
        for row in EXPLANATIONS {
            assert!(
                !row.hint().contains('\n') && !row.remedy.is_empty(),
                "{}",
                row.what
            );
        }
    }

    #[test]
    fn the_call_at_hand_comes_before_any_call() {
        let domain = of_call("cxil_alloc_domain", libc::ENOSPC).unwrap();
        assert!(domain.cause.contains("PIDs"));
        let queue = of_call("cxil_alloc_evtq", libc::ENOSPC).unwrap();
        assert!(queue.cause.contains("limit"));
        assert!(of_call("cxil_alloc_evtq", libc::EINVAL).is_none());
    }
}
