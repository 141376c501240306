//! Watches the control connection while this side waits for the NIC.

use std::io::{self, Write};

use crate::advice::{Situation, remedy};
use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::interrupt;
use crate::measure::Supervisor;
use crate::plan::Plan;
use crate::session::Session;

/// The time of a failure during the measurement, in messages.
pub const MID_RUN: &str = "in the middle of the run";

/// The supervisor of all waits of one run.
pub struct Watchdog<'a> {
    session: &'a Session,
    endpoint: &'a Endpoint,
    /// Name of the program, at the beginning of each message.
    program: &'a str,
}

impl<'a> Watchdog<'a> {
    /// Creates the watchdog of a run of `plan`.
    pub fn new(session: &'a Session, endpoint: &'a Endpoint, plan: &'a Plan) -> Self {
        Self {
            session,
            endpoint,
            program: &plan.program,
        }
    }

    fn device(&self) -> &str {
        &self.endpoint.device().info().name
    }

    fn retry_handler_runs(&self) -> bool {
        self.endpoint.device().info().retry_handler_eq != 0
    }
}

impl Supervisor for Watchdog<'_> {
    fn peer_is_there(&self) -> Result<(), Failure> {
        interrupt::check()?;
        self.session.check_peer(MID_RUN)
    }

    fn slow(&self, operation: &str, waited: u64, limit: u64) {
        let handler = if self.retry_handler_runs() {
            String::new()
        } else {
            format!(" (the retry handler of {} is not running)", self.device())
        };
        let _ = writeln!(
            io::stderr(),
            "{}: no answer to a {operation} for {waited} s{handler}; the run ends after {limit} s",
            self.program
        );
    }

    fn no_answer(&self, operation: &str, waited: u64) -> Failure {
        let failure = Failure::nic(format!("no answer to a {operation} within {waited} s"));
        failure.with_hint(if self.retry_handler_runs() {
            remedy(Situation::NoAnswer).to_owned()
        } else {
            let remedy = remedy(Situation::NoRetryHandler);
            format!(
                "the retry handler of {0} is not running: {1}",
                self.device(),
                remedy.replace("cxiN", self.device())
            )
        })
    }
}
