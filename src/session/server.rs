//! A server: its socket, and how it gets from client to client.

use std::io::Write;
use std::time::Instant;

use super::admission::Serving;
use super::agreed::Agreed;
use super::busy;
use super::first_client::first_client;
use super::introduction::{HandshakeIntroduction, machine};
use super::open::Session;
use super::refusal_log::RefusalLog;
use facts::error::Failure;
use facts::interrupt;
use facts::net::listener::{Listener, Reach};
use facts::number::time_text;
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;

/// Beginning of the line in which a server prints its port.
pub const LISTENING: &str = "Listening on port ";

/// A server's listening socket.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Listens on the plan's port.
    ///
    /// # Errors
    ///
    /// A port or address that cannot be used.
    pub fn listen(plan: &Plan, reach: Reach) -> Result<Self, Failure> {
        enter(Phase::Listening);
        let listener = Listener::bind(plan.listening.bind.as_deref(), plan.port, reach)?;
        Ok(Self { listener })
    }

    /// Prints the port to `out`.
    pub fn announce(&self, out: &mut impl Write) -> Result<(), Failure> {
        let port = self.port();
        writeln!(out, "{LISTENING}{port} for client to connect...")
            .and_then(|()| out.flush())
            .map_err(interrupt::output_failed)
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for a client of the plan's tool, for the plan's time limit at most. Other connections
    /// are logged to `err` and ignored (defect T16 of tools.md). The socket stays open: the next
    /// call finds the next client.
    ///
    /// # Errors
    ///
    /// The end of the time limit, an interruption, and a process that has no file descriptors left.
    pub fn find_client(
        &self,
        plan: &Plan,
        own: LocalAddress,
        err: &mut impl Write,
    ) -> Result<(Session, Agreed), Failure> {
        let us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        let refusals = RefusalLog::new(&plan.program, err);
        let limit = plan.listening.timeout.filter(|limit| !limit.is_zero());
        let found = first_client(&self.listener, &us, refusals, limit)?;
        let (connection, agreed) = found.ok_or_else(|| {
            let limit = time_text(limit.unwrap_or_default());
            let port = self.port();
            Failure::environment(format!("no client came to TCP port {port} within {limit}"))
        })?;
        let connection = connection.with_program(&plan.program);
        Ok((Session::new(connection, &agreed, plan), agreed))
    }

    /// Calls `serve` with the session of a client. Until the run is over, a thread tells other
    /// clients that the server is busy; later ones wait for the next [`Self::find_client`], and all
    /// do if the thread cannot be started. It runs on `cpus`, if there are any, and the scheduler
    /// prefers other threads to it.
    ///
    /// # Errors
    ///
    /// The errors of `serve`.
    pub fn serve_alone(
        &self,
        plan: &Plan,
        own: LocalAddress,
        cpus: &[u32],
        session: Session,
        serve: impl FnOnce(Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        us.serving = Some(Serving { client: session.peer().ip(), since: Instant::now() });
        busy::turn_away_during(&self.listener, &us, cpus, |running| {
            session.running.replace(running);
            serve(session)
        })
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
