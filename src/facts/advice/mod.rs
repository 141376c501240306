//! Causes and remedies of failed calls, error events and other problems (libcxi.md 12).
//!
//! [`EXPLANATIONS`] holds all of them: hints of messages come from it, and docs/troubleshooting.md
//! is generated from it.

mod table;

use std::fmt;
use std::io;

use crate::error::{Failure, Step, cause};
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
                let errors: Vec<String> = errnos.iter().map(|&errno| error_text(errno)).collect();
                write!(f, "{calls}: {}", errors.join(", "))
            }
            Self::Code(names) => f.write_str(&names.join(", ")),
            Self::Found(situation) => situation.fmt(f),
        }
    }
}

fn error_text(errno: i32) -> String {
    cause(&io::Error::from_raw_os_error(errno))
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

/// Returns the explanation of a return code of the NIC, named without `C_RC_` (libcxi.md 12.3).
pub fn of_code(name: &str) -> Option<&'static Explanation> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_reachable() {
        for (at, row) in EXPLANATIONS.iter().enumerate() {
            let found = match &row.what {
                What::Call(calls, errnos) => of_call(calls.first().unwrap_or(&"any"), errnos[0]),
                What::Code(names) => of_code(names[0]),
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
