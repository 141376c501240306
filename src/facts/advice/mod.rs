//! Causes and remedies of failed calls, error events and other problems (libcxi.md 12).
//!
//! [`EXPLANATIONS`] holds all of them: hints of messages come from it, and docs/troubleshooting.md
//! is generated from it.

mod explanation;
mod table;

use std::{fs, io};

pub use crate::error::Situation;
use crate::error::{Failure, Kind, Step, cause};
pub use explanation::{Advice, What};
pub use table::EXPLANATIONS;

/// Returns the explanation of a libcxi call (or mmap) that failed with an errno (libcxi.md 12.1).
pub fn call_explanation(call: &str, errno: i32) -> Option<&'static Advice> {
    EXPLANATIONS.iter().find(|row| match &row.what {
        What::Call(calls, errnos) => {
            (calls.is_empty() || calls.contains(&call)) && errnos.contains(&errno)
        }
        _ => false,
    })
}

/// Returns the explanation of a return code of the NIC, named without `C_RC_` (libcxi.md 12.3).
pub fn code_explanation(name: &str) -> Option<&'static Advice> {
    EXPLANATIONS.iter().find(|row| matches!(&row.what, What::Code(names) if names.contains(&name)))
}

fn of(situation: Situation) -> &'static Advice {
    let explained = |row: &&Advice| matches!(row.what, What::Found(found) if found == situation);
    let row = EXPLANATIONS.iter().find(explained);
    row.expect("every situation has its row; a test counts them")
}

/// Returns the remedy in a situation, for messages that name the cause already.
pub fn remedy(situation: Situation) -> &'static str {
    of(situation).remedy
}

pub fn hint(situation: Situation) -> String {
    of(situation).hint()
}

/// Returns the situation with this hint or remedy. The server of a loopback run is another process,
/// which reports a failure as text only.
pub fn situation_with(hint: &str) -> Option<Situation> {
    EXPLANATIONS.iter().find_map(|row| match row.what {
        What::Found(situation) if row.remedy == hint || row.hint() == hint => Some(situation),
        _ => None,
    })
}

/// Advice on failures in a situation that the program has detected.
pub trait Advise {
    /// Adds the remedy: the message names the cause already.
    fn advised(self, situation: Situation) -> Self;

    /// Adds the cause and the remedy.
    fn explained(self, situation: Situation) -> Self;
}

impl Advise for Failure {
    fn advised(self, situation: Situation) -> Self {
        self.with_hint(remedy(situation)).in_situation(situation)
    }

    fn explained(self, situation: Situation) -> Self {
        self.with_hint(hint(situation)).in_situation(situation)
    }
}

/// Returns the failure for a situation that the program has detected; `message` describes it.
pub fn found(situation: Situation, message: impl Into<String>) -> Failure {
    let failure = Failure::environment(message).explained(situation);
    match situation {
        Situation::LinkDown => failure.in_step(Step::Link),
        Situation::ServiceDisabled => failure.in_step(Step::Service),
        Situation::ServiceWithoutVni => failure.in_step(Step::Vni),
        _ => failure,
    }
}

/// Adds to a failure the filter of system calls that may explain it, if one is in force.
pub fn name_filter(failure: Failure) -> Failure {
    if may_be_filter(&failure) && has_filter() {
        failure.with_further_hint(hint(Situation::CallFiltered))
    } else {
        failure
    }
}

/// Returns whether a filter of system calls may explain a failure: filters refuse with EPERM or
/// ENOSYS.
fn may_be_filter(failure: &Failure) -> bool {
    let message = failure.message();
    let text = |errno| cause(&io::Error::from_raw_os_error(errno));
    let is_refused = [libc::EPERM, libc::ENOSYS].map(text);
    failure.kind == Kind::Environment && is_refused.iter().any(|text| message.contains(text))
}

/// Returns whether a filter of system calls is in force for this process.
pub fn has_filter() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_reachable() {
        for (at, row) in EXPLANATIONS.iter().enumerate() {
            let found = match &row.what {
                What::Call(calls, errnos) => {
                    call_explanation(calls.first().unwrap_or(&"any"), errnos[0])
                }
                What::Code(names) => code_explanation(names[0]),
                What::Found(situation) => Some(of(*situation)),
            };
            let first = found.is_some_and(|found| std::ptr::eq(found, &EXPLANATIONS[at]));
            assert!(first, "{}", row.what);
        }
    }

    #[test]
    fn filter_may_explain_refused_calls_only() {
        let failure = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            Failure::new(Kind::Environment, error).context("cannot wait")
        };
        for (errno, may_be) in [
            (libc::EPERM, true),
            (libc::ENOSYS, true),
            (libc::ENOENT, false),
            (libc::EACCES, false),
        ] {
            assert_eq!(may_be_filter(&failure(errno)), may_be, "{errno}");
        }
        assert!(!may_be_filter(&Failure::peer("Operation not permitted")));
    }

    #[test]
    fn hints_and_remedies_tell_situations_apart() {
        for row in EXPLANATIONS {
            if let What::Found(situation) = row.what {
                assert_eq!(situation_with(row.remedy), Some(situation));
                assert_eq!(situation_with(&row.hint()), Some(situation));
            }
        }
    }

    #[test]
    fn hints_are_one_line() {
        for row in EXPLANATIONS {
            assert!(!row.hint().contains('\n') && !row.remedy.is_empty(), "{}", row.what);
        }
    }

    #[test]
    fn prefers_row_of_call_to_row_of_any_call() {
        let domain = call_explanation("cxil_alloc_domain", libc::ENOSPC).unwrap();
        assert!(domain.cause.contains("PIDs"));
        let queue = call_explanation("cxil_alloc_evtq", libc::ENOSPC).unwrap();
        assert!(queue.cause.contains("limit"));
        assert!(call_explanation("cxil_alloc_evtq", libc::EINVAL).is_none());
    }
}
