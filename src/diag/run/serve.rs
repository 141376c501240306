//! The clients of a server: one, or one after another.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use super::driver::{self, RunSession, open};
use super::port_file::PortFile;
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::job::Job;
use facts::number::time_text;
use node::explain::Explain;
use plan::run_options::Side;
use plan::{LIMIT_IN_A_JOB, Listening, Plan};
use report::Reporter;
use session::{Agreed, Server};

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
