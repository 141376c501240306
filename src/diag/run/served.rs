//! The process in which `cxidiag serve` measures with one client. It is a server whose client has
//! come: its connection is the standard input, and the standard output leads to `cxidiag serve`
//! (`session::control_line`), which starts a process for each client and decides when it begins.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use rustix::net::sockopt;

use super::driver::{self, RunSession, open};
use facts::child::Duty;
use facts::error::{Context, Failure};
use facts::interrupt;
use facts::time_of_day::milliseconds;
use plan::Plan;
use plan::buffers::Need;
use plan::run_options::Side;
use report::Reporter;
use session::control_line::{Called, ControlLine, Ready, ServerOrder};
use session::{AcceptedClient, Agreed, Session, TurnSignal};

/// Whether `cxidiag serve` has started this process for a client.
pub fn is_started_for_client() -> bool {
    is_started_for(Duty::ServedClient)
}

/// Whether `cxidiag serve` has started this process for a duty: the standard output is a socket of
/// the server whose process id the environment has. A variable alone may be inherited.
pub fn is_started_for(duty: Duty) -> bool {
    let Some(server) = duty.environment_text() else {
        return false;
    };
    let maker = sockopt::socket_peercred(io::stdout());
    maker.is_ok_and(|maker| maker.pid.as_raw_nonzero().to_string() == server)
}

/// The failures of a process of `cxidiag serve`, whatever it does for its client.
pub const LOST: &str = "cannot use the connection to cxidiag serve";

/// The client of this process.
pub struct Taken {
    /// The line to `cxidiag serve`.
    pub line: ControlLine,
    /// TCP address of the client.
    pub peer: SocketAddr,
    /// Its connection.
    pub caller: AcceptedClient,
}

/// This process's end of the line to `cxidiag serve`.
///
/// # Errors
///
/// A descriptor that cannot be copied.
pub fn line_to_server() -> Result<ControlLine, Failure> {
    Ok(ControlLine::new(UnixStream::from(copy(io::stdout()).environment(LOST)?)))
}

/// Takes over the client for which `cxidiag serve` has started this process.
///
/// # Errors
///
/// A server that has ended or sends something else, and an interruption.
pub fn take_client() -> Result<Taken, Failure> {
    let mut line = line_to_server()?;
    let wait = |line: &ControlLine| interrupt::wait(line, PollFlags::IN, None).map(|_| ());
    let ServerOrder::Serve { peer, version, messages } = next(&mut line, wait)? else {
        return Err(Failure::environment("cxidiag serve has sent no client"));
    };
    let stream = TcpStream::from(copy(io::stdin()).environment(LOST)?);
    let caller = AcceptedClient::new(stream, peer, version, messages)?;
    Ok(Taken { line, peer, caller })
}

/// Serves the client of this process.
///
/// # Errors
///
/// A client that is refused or fails, a device that cannot be used, an interruption, and any other
/// failure that ends the run early.
pub fn client(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    let Taken { mut line, caller, .. } = take_client()?;
    let endpoint = open(plan).map_err(|failure| caller.refuse(failure))?;
    let (session, agreed) = caller.meet(plan, endpoint.address())?;
    line.send(&ready(plan, &agreed)).environment(LOST)?;
    wait_for_turn(&mut line, &session)?;
    driver::serve(RunSession {
        plan,
        side: Side::Server,
        endpoint,
        session: session.led_by(line),
        agreed,
        reporter,
    })
}

/// The objects that the run of a client needs.
fn ready(plan: &Plan, agreed: &Agreed) -> Ready {
    let run = &agreed.run;
    let sizes = run.rows().count() as u32;
    Ready {
        devices: vec![plan.device],
        buffer_bytes: Need::of(agreed.tool, run, &[Side::Server], plan.gpus).bytes(),
        asked_ms: run
            .duration()
            .filter(|_| !run.extensions.until_stopped)
            .map(|each| milliseconds(each.saturating_mul(sizes))),
    }
}

/// Waits until it is the client's turn and the client is there, and passes its place in the queue
/// on.
fn wait_for_turn(line: &mut ControlLine, session: &Session) -> Result<(), Failure> {
    let mut calls = TurnSignal::default();
    loop {
        match next(line, |line| session.wait_beside(line))? {
            ServerOrder::Place(place) => session.send_place(place, &calls)?,
            ServerOrder::Begin if session.call(&mut calls)? => {
                return line.send(&Called::Answered).environment(LOST);
            }
            ServerOrder::Begin => line.send(&Called::Late).environment(LOST)?,
            ServerOrder::Refuse(reason) => return Err(session.refuse(Failure::environment(reason))),
            ServerOrder::Serve { .. } => {
                return Err(Failure::environment("a process has one client"));
            }
        }
    }
}

/// The next order. `wait` waits until the line can be read.
///
/// # Errors
///
/// A server that has ended, and a failure of `wait`.
pub fn next(
    line: &mut ControlLine,
    wait: impl Fn(&ControlLine) -> Result<(), Failure>,
) -> Result<ServerOrder, Failure> {
    loop {
        if let Some(order) = line.message() {
            return Ok(order);
        }
        wait(line)?;
        if !line.read().environment("cannot read from cxidiag serve")? {
            return Err(Failure::environment("cxidiag serve has ended"));
        }
    }
}

/// Another descriptor of a socket.
fn copy(socket: impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}
