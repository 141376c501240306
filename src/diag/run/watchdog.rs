//! Watches a run while a thread of it waits for the NIC.

use std::io::{self, Write};
use std::time::Duration;

use cxi::Observer;

use crate::endpoint::Endpoint;
use facts::advice::{Situation, remedy};
use facts::error::Failure;
use facts::interrupt;
use measure::Supervisor;
use node::explain;
use plan::Plan;
use session::Session;

/// The time of a failure during the measurement, in messages.
pub const MID_RUN: &str = "in the middle of the run";

/// The supervisor of all waits of a thread.
pub struct Watchdog<'a, C> {
    /// Fails if the thread is to wait no longer.
    pub check: C,
    pub notices: Notices<'a>,
}

/// The check of the thread that has the control connection.
pub fn session_check(session: &Session) -> impl Fn() -> Result<(), Failure> {
    move || {
        interrupt::check()?;
        session.check_peer(MID_RUN)
    }
}

impl<C: Fn() -> Result<(), Failure>> Supervisor for Watchdog<'_, C> {
    fn peer_is_there(&self) -> Result<(), Failure> {
        (self.check)()
    }

    fn refusal(&self) -> Option<Failure> {
        self.notices.refusal()
    }

    fn slow(&self, operation: &str, waited: u64, limit: u64) {
        self.notices.slow(operation, waited, limit);
    }

    fn no_answer(&self, operation: &str, waited: Duration) -> Failure {
        self.notices.no_answer(operation, waited)
    }
}

/// Reports long waits for the NIC.
#[derive(Clone, Copy, Default)]
pub struct Notices<'a> {
    /// Name of the program, at the beginning of each message.
    program: &'a str,
    device: &'a str,
    retry_handler_runs: bool,
    /// The observer of the objects of this side's interface.
    observer: Option<&'a Observer>,
}

impl<'a> Notices<'a> {
    /// Creates the notices of a run of `plan`.
    pub fn new(endpoint: &'a Endpoint, plan: &'a Plan) -> Self {
        let info = endpoint.device().info();
        Self {
            program: &plan.program,
            device: &info.name,
            retry_handler_runs: !info.lacks_retry_handler(),
            observer: Some(endpoint.lni().observer()),
        }
    }

    /// Prints that an operation waits.
    pub fn slow(&self, operation: &str, waited: u64, limit: u64) {
        let handler = if self.retry_handler_runs {
            String::new()
        } else {
            format!(" (the retry handler of {} is not running)", self.device)
        };
        let _ = writeln!(
            io::stderr(),
            "{}: no answer to a {operation} for {waited} s{handler}; the run ends after {limit} s",
            self.program
        );
    }

    /// The failure of a command that the NIC has refused, if there is one.
    pub fn refusal(&self) -> Option<Failure> {
        self.observer.and_then(explain::refusal)
    }

    /// The failure of an operation without an answer.
    pub fn no_answer(&self, operation: &str, waited: Duration) -> Failure {
        let waited = waited.as_secs();
        let failure = Failure::nic(format!("no answer to a {operation} within {waited} s"));
        let failure = failure.with_hint(if self.retry_handler_runs {
            remedy(Situation::NoAnswer).to_owned()
        } else {
            let remedy = remedy(Situation::NoRetryHandler);
            format!(
                "the retry handler of {0} is not running: {1}",
                self.device,
                remedy.replace("cxiN", self.device)
            )
        });
        match self.observer {
            Some(observer) => explain::explain_wait(failure, observer),
            None => failure,
        }
    }
}
