//! A problem, its cause and its remedy.

use std::{fmt, io};

use crate::error::{Situation, cause};

/// The cause and the remedy of a problem.
pub struct Advice {
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

impl What {
    /// Returns the explanation without a remedy.
    pub(super) const fn because(self, cause: &'static str) -> Advice {
        Advice { what: self, cause, remedy: "" }
    }
}

impl Advice {
    pub(super) const fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }

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
