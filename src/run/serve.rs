//! The clients of a server: one, or one after another.

use std::io::{self, Write};

use super::driver::{self, ClientSession, open};
use super::loopback;
use crate::error::{Failure, Kind};
use crate::interrupt;
use crate::plan::Plan;
use crate::report::Reporter;
use crate::run_options::Side;
use crate::session::Server;

/// Listens for a client and serves it. With `--persist`, serves one client after another on the
/// same port, also after a failed run.
///
/// # Errors
///
/// A port that cannot be used, an interruption, and, without `--persist`, the failure of the run.
pub fn clients(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    loopback::end_with_parent()?;
    let mut plan = plan.clone();
    loop {
        // Opened anew for each client: closing releases everything that a failed run has left
        // behind.
        let endpoint = open(&plan)?;
        let server = Server::listen(&plan, loopback::reach(), reporter.text())?;
        let (session, agreed) = server.find_client(&plan, endpoint.address(), &mut io::stderr())?;
        plan.port = server.port();
        // The kernel refuses further connections from here on: they cannot disturb the measurement.
        drop(server);
        if plan.listening.persist {
            writeln!(reporter.text(), "Serving client {}", session.peer())
                .map_err(interrupt::output_failed)?;
        }
        let outcome = driver::serve(ClientSession {
            plan: &plan,
            side: Side::Server,
            endpoint,
            session,
            agreed,
            reporter,
        });
        if !plan.listening.persist {
            return outcome;
        }
        match reporter.end_run(outcome) {
            Ok(()) => {}
            Err(failure) if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) => {
                return Err(failure);
            }
            Err(failure) => failure.report(&plan.program, &mut io::stderr()),
        }
    }
}
