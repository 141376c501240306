//! The clients of a server: one, or one after another.

use std::io::{self, Write};

use super::course::open;
use super::loopback;
use crate::bench::common::Endpoint;
use crate::error::{Failure, Kind};
use crate::plan::Plan;
use crate::session::{self, Agreed, Session};

/// A server's meeting with one client.
pub struct Meeting<'a, W> {
    /// What this process was asked to do.
    pub plan: &'a Plan,
    /// Its place on the fabric.
    pub endpoint: Endpoint,
    /// The connection to the client.
    pub session: Session,
    /// What the client wants.
    pub agreed: Agreed,
    /// Standard output.
    pub out: &'a mut W,
}

/// Listens for a client and carries the server's part, `run`, out with it. With `--persist` that is
/// repeated, on the same port, and a failed run does not end it.
pub fn serve<W: Write>(
    plan: &Plan,
    out: &mut W,
    run: impl Fn(Meeting<'_, W>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loopback::end_with_parent()?;
    let mut plan = plan.clone();
    loop {
        // Opened for each client: what a failed run has left to the NIC ends with it.
        let endpoint = open(&plan)?;
        let (session, agreed) = session::serve(&plan, endpoint.address(), loopback::reach(), out)?;
        plan.port = session.own_port()?;
        if plan.listening.persist {
            writeln!(out, "Serving client {}", session.peer()).map_err(Failure::output)?;
        }
        let outcome = run(Meeting {
            plan: &plan,
            endpoint,
            session,
            agreed,
            out,
        });
        if !plan.listening.persist {
            return outcome;
        }
        match outcome {
            Ok(()) => {}
            Err(failure) if failure.kind == Kind::OutputClosed => return Err(failure),
            Err(failure) => failure.report(&plan.program, &mut io::stderr()),
        }
    }
}
