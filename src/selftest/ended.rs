//! How a check ends, and comparisons that end it.

use std::fmt::{Debug, Display};

use cxi::EmitError;

/// Why a check has not found that the fact holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckEnd {
    /// The NIC, its driver or its library does something else.
    Differs {
        /// What the fact says.
        expected: String,
        /// What was observed.
        seen: String,
    },
    /// The service or the driver does not allow what the check needs.
    Refused(String),
    /// The check does not apply here.
    Skipped(String),
}

/// The end of a check: without an error, the fact was observed.
pub type Checked<T = ()> = Result<T, CheckEnd>;

impl From<cxi::Error> for CheckEnd {
    /// A call that a check needs has failed. Its arguments are valid by the facts: errors about
    /// arguments are differences, others are limits of the service or the driver.
    fn from(error: cxi::Error) -> Self {
        match error.errno() {
            libc::EINVAL | libc::EFAULT | libc::E2BIG | libc::EEXIST => {
                differs("a call that succeeds", error)
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<EmitError> for CheckEnd {
    fn from(error: EmitError) -> Self {
        differs("a command queue that accepts the command", error)
    }
}

/// The end of a check that saw something else.
pub fn differs(expected: impl Display, seen: impl Display) -> CheckEnd {
    CheckEnd::Differs { expected: expected.to_string(), seen: seen.to_string() }
}

/// The end of a check that does not apply.
pub fn skipped<T>(why: impl Display) -> Checked<T> {
    Err(CheckEnd::Skipped(why.to_string()))
}

/// Checks that `what` has the expected value.
///
/// # Errors
///
/// Another value.
pub fn equal<T: PartialEq + Debug>(what: impl Display, seen: T, expected: T) -> Checked {
    if seen == expected {
        return Ok(());
    }
    Err(differs(format_args!("{what}: {expected:?}"), format_args!("{seen:?}")))
}

/// Checks that `holds` is true; `fact` says what it means.
///
/// # Errors
///
/// `seen`, if it is false.
pub fn ensure(holds: bool, fact: impl Display, seen: impl Display) -> Checked {
    if holds { Ok(()) } else { Err(differs(fact, seen)) }
}

/// Checks that a call is refused with this errno value.
///
/// # Errors
///
/// Another errno value, or a call that succeeds.
pub fn refused<T>(errno: i32, call: Result<T, cxi::Error>) -> Checked {
    let expected = || format!("{} (errno {errno})", cxi::error_text(errno));
    match call {
        Err(error) if error.errno() == errno => Ok(()),
        Err(error) => Err(differs(expected(), error)),
        Ok(_) => Err(differs(expected(), "the call succeeds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cxi::Pages;

    fn differs_from(expected: &str, seen: &str) -> Checked {
        Err(differs(expected, seen))
    }

    #[test]
    fn helpers_notice_other_values() {
        assert_eq!(equal("lac", 3, 3), Ok(()));
        assert_eq!(equal("lac", 4, 3), differs_from("lac: 3", "4"));
        assert_eq!(ensure(true, "1 or more", 1), Ok(()));
        assert_eq!(ensure(false, "1 or more", 0), differs_from("1 or more", "0"));
    }

    #[test]
    fn refusals_must_have_their_errno() {
        let refusal = || Pages::anonymous(0);
        assert_eq!(refused(libc::EINVAL, refusal()), Ok(()));
        let other = "Permission denied (errno 13)";
        let seen = "mmap: Invalid argument (errno 22)";
        assert_eq!(refused(libc::EACCES, refusal()), differs_from(other, seen));
        let success = differs_from(other, "the call succeeds");
        assert_eq!(refused(libc::EACCES, Pages::anonymous(1)), success);
    }

    /// EINVAL says that valid arguments are not, ENOMEM that there is no memory.
    #[test]
    fn failed_preparations_are_differences_or_refusals() {
        let error = |len| CheckEnd::from(Pages::anonymous(len).err().unwrap());
        assert!(matches!(error(0), CheckEnd::Differs { .. }));
        assert!(matches!(error(1 << 60), CheckEnd::Refused(_)));
    }
}
