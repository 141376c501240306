//! The clients of a server: one, or one after another.

use std::io::{self, Write};

use super::course::open;
use super::loopback;
use crate::bench::common::Endpoint;
use crate::error::{Failure, Kind};
use crate::plan::Plan;
use crate::report::Reporter;
use crate::session::{self, Agreed, Session};

/// A server's meeting with one client.
pub struct Meeting<'a> {
    /// What this process was asked to do.
    pub plan: &'a Plan,
    /// Its place on the fabric.
    pub endpoint: Endpoint,
    /// The connection to the client.
    pub session: Session,
    /// What the client wants.
    pub agreed: Agreed,
    /// Takes what the run finds out.
    pub reporter: &'a mut Reporter,
}

/// Listens for a client and carries the server's part, `run`, out with it. With `--persist` that is
/// repeated, on the same port, and a failed run does not end it.
pub fn serve(
    plan: &Plan,
    reporter: &mut Reporter,
    run: impl Fn(Meeting) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loopback::end_with_parent()?;
    let mut plan = plan.clone();
    loop {
        // Opened for each client: what a failed run has left to the NIC ends with it.
        let endpoint = open(&plan)?;
        let (session, agreed) = session::serve(
            &plan,
            endpoint.address(),
            loopback::reach(),
            reporter.text(),
        )?;
        plan.port = session.own_port()?;
        if plan.listening.persist {
            writeln!(reporter.text(), "Serving client {}", session.peer())
                .map_err(Failure::output)?;
        }
        let outcome = run(Meeting {
            plan: &plan,
            endpoint,
            session,
            agreed,
            reporter,
        });
        if !plan.listening.persist {
            return outcome;
        }
        match outcome {
            Ok(()) => {}
            Err(failure) if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) => {
                return Err(failure);
            }
            Err(failure) => failure.report(&plan.program, &mut io::stderr()),
        }
    }
}
