//! The clients of a server: one, or one after another; the file of its port for scripts
//! (`--port-file`).
//!
//! The process in which `cxidiag serve` measures with one client is a server whose client has come:
//! its connection is the standard input, and the standard output leads to `cxidiag serve`
//! (`session::control_line`), which starts a process for each client and decides when it begins.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use facts::child::Duty;
use facts::error::{Context, Failure, Kind, invalid};
use facts::job::Job;
use facts::number::time_text;
use facts::time_of_day::milliseconds;
use facts::{interrupt, user_file};
use node::explain::Explain;
use page::destination::Destination;
use plan::buffers::Need;
use plan::run_options::Side;
use plan::{LIMIT_IN_A_JOB, Listening, Plan};
use report::Reporter;
use rustix::event::PollFlags;
use rustix::net::sockopt;
use session::control_line::{Called, ControlLine, Ready, ServerOrder};
use session::{AcceptedClient, Agreed, Server, Session, TurnSignal};

use crate::run::driver::{self, RunSession, open};

/// Listens for a client and serves it. With `--persist`, serves one client after another on the
/// same port, also after a failed run; SIGTERM is the regular end of such a server.
///
/// # Errors
///
/// A port that cannot be used, no client within the time limit, an interruption, and, without
/// `--persist`, the failure of the run.
pub fn clients(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    driver::end_with_parent()?;
    let plan = &Plan { listening: limited(plan), ..plan.clone() };
    if !plan.listening.persist {
        return one(plan, reporter);
    }
    match one_after_another(plan, reporter) {
        Err(failure) if failure.kind == Kind::Interrupted && interrupt::is_terminated() => Ok(()),
        ended => ended,
    }
}

fn one(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    let port_file = PortFile::of(plan)?;
    let endpoint = open(plan)?;
    let server = Server::listen(plan, driver::reach())?;
    let published = port_file.publish(server.port())?;
    server.announce(reporter.text())?;
    let (session, agreed) = server.find_client(plan, endpoint.address(), &mut io::stderr())?;
    // The kernel refuses further connections from here on: they cannot disturb the measurement.
    drop((published, server));
    driver::serve(RunSession { plan, side: Side::Server, endpoint, session, agreed, reporter })
}

/// Serves until the server fails, is interrupted, or has waited too long for a client.
fn one_after_another(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    let port_file = PortFile::of(plan)?;
    // Before the endpoint confines this thread, and the threads that it starts.
    let allowed = cxi::placement::cpus().explain("cannot read the CPUs of this process")?;
    let mut endpoint = open(plan)?;
    let server = Server::listen(plan, driver::reach())?;
    let _published = port_file.publish(server.port())?;
    loop {
        server.announce(reporter.text())?;
        let own = endpoint.address();
        let (session, agreed) = server.find_client(plan, own, &mut io::stderr())?;
        let peer = session.peer();
        writeln!(reporter.text(), "Serving client {peer}").map_err(interrupt::output_failed)?;
        let others = others(&allowed, plan, &agreed);
        let outcome = server.serve_alone(plan, own, &others, session, |session| {
            driver::serve(RunSession {
                plan,
                side: Side::Server,
                endpoint,
                session,
                agreed,
                reporter,
            })
        });
        match reporter.end_run(outcome) {
            Ok(()) => {}
            Err(failure) if failure.kind == Kind::OutputClosed => return Err(failure),
            Err(failure) if failure.kind == Kind::Interrupted && !interrupt::is_terminated() => {
                return Err(failure);
            }
            Err(failure) => failure.report(&plan.program, &mut io::stderr()),
        }
        // Opened anew for each client: closing releases everything that a failed run has left
        // behind.
        interrupt::check()?;
        endpoint = open(plan)?;
    }
}

/// How the server of `plan` listens, with its time limit. Prints the limit that applies in a batch
/// job by default.
fn limited(plan: &Plan) -> Listening {
    let given = plan.listening.timeout;
    let job = Job::from_environment().filter(|_| given.is_none() && !driver::is_second_process());
    if let Some(job) = &job {
        let limit = time_text(LIMIT_IN_A_JOB);
        let note =
            format!("{job}: the server ends if no client comes within {limit} (see --timeout)");
        // The run goes on if a note cannot be written.
        let _ = writeln!(io::stderr(), "{}: {note}", plan.program);
    }
    let default = job.map_or(Duration::ZERO, |_| LIMIT_IN_A_JOB);
    Listening { timeout: Some(given.unwrap_or(default)), ..plan.listening.clone() }
}

/// The CPUs of `allowed` on which no thread of a run measures.
fn others(allowed: &[u32], plan: &Plan, agreed: &Agreed) -> Vec<u32> {
    let placement = &plan.placement;
    let mut measuring: BTreeSet<u32> = placement.cpus.iter().copied().collect();
    let threads = agreed.run.extensions.threads;
    if threads > 1 {
        measuring.extend(placement.thread_cpus(threads.into(), driver::is_second_process()));
    }
    let mut others = allowed.to_vec();
    others.retain(|cpu| !measuring.contains(cpu));
    others
}

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
pub fn accepted_client(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
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

/// A file that can be written, if one is asked for.
struct PortFile(Option<Destination>);

impl PortFile {
    /// Checks that the file of `plan` can be written, and removes the one of an earlier server.
    ///
    /// # Errors
    ///
    /// The file or its directory cannot be written, or the file does not belong to a server.
    pub fn of(plan: &Plan) -> Result<Self, Failure> {
        Self::at(plan.listening.port_file.as_deref())
    }

    fn at(path: Option<&Path>) -> Result<Self, Failure> {
        let destination = path.map(Destination::file).transpose()?;
        if let Some(destination) = &destination
            && let Some(target) = destination.target()
        {
            if !holds_a_port(target) {
                let allowed =
                    "the file exists and does not hold the number of a port: name another one";
                return Err(Failure::usage(invalid("port-file", target.display(), allowed)));
            }
            // A server that was killed has left its file: a script must not read that number.
            match fs::remove_file(target) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(destination.failure(&error));
                }
                _ => {}
            }
        }
        Ok(Self(destination))
    }

    /// Writes the port. A file appears at once, with the complete line; it is removed when the
    /// returned value is dropped.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn publish(self, port: u16) -> Result<PublishedPort, Failure> {
        let Some(destination) = self.0 else {
            return Ok(PublishedPort(None));
        };
        let path = destination.target().map(PathBuf::from);
        let file = destination.replace(&mut format!("{port}\n").as_bytes())?;
        Ok(PublishedPort(path.zip(file)))
    }
}

/// Whether nothing is lost with this file: it is missing or empty, or has the number of a port.
fn holds_a_port(path: &Path) -> bool {
    match user_file::text(path) {
        Ok(text) => text.is_empty() || text.trim_end().parse::<u16>().is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// The file of a server that listens, with its name; none for a device or a pipe. The file is open,
/// so that no other one gets its inode.
struct PublishedPort(Option<(PathBuf, File)>);

impl Drop for PublishedPort {
    fn drop(&mut self) {
        let Some((path, file)) = &self.0 else {
            return;
        };
        // Another server may have replaced the file.
        if let (Ok(found), Ok(own)) = (fs::metadata(path), file.metadata())
            && identity(&found) == identity(&own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Device and inode of a file.
fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(path: &Path, port: u16) -> PublishedPort {
        PortFile::at(Some(path)).unwrap().publish(port).unwrap()
    }

    #[test]
    fn removes_file_of_a_killed_server_before_the_next_one_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        fs::write(&path, "1\n").unwrap();
        let file = PortFile::at(Some(&path)).unwrap();
        assert!(!path.exists());
        drop(file.publish(2).unwrap());
    }

    #[test]
    fn removes_own_file_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        fs::write(&path, "49193\n").unwrap();
        let published = published(&path, 49194);
        assert_eq!(fs::read_to_string(&path).unwrap(), "49194\n");
        drop(published);
        assert!(!path.exists());
    }

    #[test]
    fn keeps_file_of_another_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        let first = published(&path, 1);
        let second = published(&path, 2);
        let third = published(&path, 3);
        for earlier in [first, second] {
            drop(earlier);
            assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
        }
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn keeps_a_file_that_is_not_of_a_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "keep me\n").unwrap();
        let Err(failure) = PortFile::at(Some(&path)) else {
            panic!("the file was taken");
        };
        assert!(failure.message().contains("does not hold the number of a port"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "keep me\n");
    }
}
