//! The end of a size: checks the data that has arrived, and numbers the data of the next size.

use std::time::Duration;

use super::context::LoopContext;
use crate::bench::api::{Benchmark, Issued, SizeOfRun};
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::phase::{Phase, enter};
use measure::{Supervisor, WaitPolicy};
use plan::buffers::Buffer;
use session::Session;

/// Number of times that each side goes over its buffers: for the check and for the next size, those
/// that it sends from and those that it receives to.
const PASSES: u64 = 4;

/// Checks what operations of `size` bytes have left in the buffers of this side, and, with
/// `--verify`, prepares the buffers for the next size. `issued` are the iterations of each pair.
/// Returns the number of bytes that both sides have checked; `None` without `--verify`.
///
/// With `--verify` no side begins the next size before both are done: it would change data that is
/// not checked yet, or read data that is not numbered yet. Debug builds check the data of each
/// cxidiag peer. A legacy peer sends other bytes.
///
/// # Errors
///
/// Wrong data on either side, a peer that fails, and an interruption.
pub fn after_size<B: Benchmark>(
    context: &LoopContext<'_>,
    session: &Session,
    pairs: &[B::Resources],
    size: u64,
    issued: &[Issued],
) -> Result<Option<u64>, Failure> {
    let run = context.run;
    let verifies = run.extensions.verify;
    if !context.peer_is_cxidiag || !(verifies || cfg!(debug_assertions)) {
        return Ok(None);
    }
    enter(Phase::Verifying);
    let refuse = |failure| session.refuse(failure);
    if !verifies {
        let size = SizeOfRun { run, size, supervisor: &Unwatched };
        check::<B>(pairs, size, issued).map_err(refuse)?;
        return Ok(None);
    }
    let size = SizeOfRun { run, size, supervisor: context.supervisor };
    let mut issued = issued.to_vec();
    if run.atomic.is_some() {
        // Values depend on the number of operations, which latency tools do not exchange otherwise.
        for pair in issued.iter_mut().filter(|pair| pair.peer.is_none()) {
            pair.peer = Some(session.iterations(pair.own)?);
        }
    }
    let checked = check::<B>(pairs, size, &issued)
        .and_then(|checked| number_next::<B>(pairs, size).map(|()| checked))
        .map_err(refuse)?;
    let bytes = Buffer::full(run).length.saturating_mul(pairs.len() as u64);
    let limit = WaitPolicy::longest(bytes.saturating_mul(PASSES));
    let theirs = session.checked_bytes(checked, limit)?;
    Ok(Some(checked.saturating_add(theirs)))
}

/// Checks what writes of `size` bytes from `sources` have left in `targets` of the same process,
/// and, with `--verify`, numbers the bytes of the next size. Returns the number of checked bytes;
/// `None` without `--verify`.
///
/// # Errors
///
/// Wrong data, and an interruption.
pub fn own_writes<B: Benchmark>(
    context: &LoopContext<'_>,
    sources: &[B::Resources],
    targets: &[B::Resources],
    size: u64,
    issued: &[Issued],
) -> Result<Option<u64>, Failure> {
    let LoopContext { run, supervisor, .. } = *context;
    if !run.extensions.verify && !cfg!(debug_assertions) {
        return Ok(None);
    }
    enter(Phase::Verifying);
    let arrived = issued.iter().map(|issued| Issued { own: 0, peer: Some(issued.own) });
    let size = SizeOfRun { run, size, supervisor };
    let checked = check::<B>(targets, size, &arrived.collect::<Vec<_>>())?;
    if !run.extensions.verify {
        return Ok(None);
    }
    number_next::<B>(sources, size)?;
    Ok(Some(checked))
}

/// Checks what operations of `size` bytes have left. Returns the number of bytes.
fn check<B: Benchmark>(
    pairs: &[B::Resources],
    size: SizeOfRun<'_>,
    issued: &[Issued],
) -> Result<u64, Failure> {
    let mut checked = 0;
    for (pair, (resources, issued)) in pairs.iter().zip(issued).enumerate() {
        size.supervisor.peer_is_there()?;
        checked += B::check(resources, size, *issued).map_err(|failure| {
            if pairs.len() > 1 && failure.kind == Kind::Nic {
                failure.context(format!("pair {pair}"))
            } else {
                failure
            }
        })?;
    }
    Ok(checked)
}

/// Numbers the data of the size after `size`, if there is one.
fn number_next<B: Benchmark>(pairs: &[B::Resources], size: SizeOfRun<'_>) -> Result<(), Failure> {
    let Some(next) = size.run.sizes().find(|next| *next > size.size) else {
        return Ok(());
    };
    for resources in pairs {
        size.supervisor.peer_is_there()?;
        B::fill(resources, SizeOfRun { size: next, ..size })?;
    }
    Ok(())
}

/// Supervises what no peer waits for, such as the check of a debug build: only an interruption ends
/// it.
pub struct Unwatched;

impl Supervisor for Unwatched {
    fn peer_is_there(&self) -> Result<(), Failure> {
        interrupt::check()
    }

    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, waited: Duration) -> Failure {
        let waited = waited.as_secs();
        Failure::nic(format!("no answer to a {operation} within {waited} s"))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::watchdog::{Notices, Watchdog, session_check};
    use super::*;
    use crate::bench::api::{BenchmarkTask, Peer};
    use crate::bench::testing::{ISSUED, endpoint};
    use crate::bench::write_lat;
    use facts::limit::ANSWER_LIMIT;
    use facts::net::Reach;
    use plan::run_options::{RunOptions, Side};
    use plan::testing::plan;
    use plan::tool::Tool;
    use plan::{Plan, Role};
    use session;
    use session::Server;

    /// A benchmark whose data cannot be numbered.
    struct Unnumbered;

    impl Benchmark for Unnumbered {
        const TOOL: &'static Tool = write_lat::WriteLatency::TOOL;

        type Resources = ();

        fn perform<T: BenchmarkTask>(task: T) -> T::Output {
            task.one_sided::<write_lat::WriteLatency>()
        }

        fn set_up(_: Peer<'_>, _: &RunOptions, _: Side) -> Result<(), Failure> {
            Ok(())
        }

        fn fill((): &(), _: SizeOfRun<'_>) -> Result<(), Failure> {
            Err(Failure::environment("cannot fill a buffer"))
        }

        fn close((): ()) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[test]
    fn peer_receives_reason_why_next_size_has_no_data() {
        let mut plan = plan("write-lat", &["-s", "8:16", "--verify"]);
        let endpoint = endpoint(&plan);
        let own = endpoint.address();
        let server_plan = Plan { port: 0, role: Role::Server, ..plan.clone() };
        let server = Server::listen(&server_plan, Reach::ThisMachine).unwrap();
        plan.port = server.port();
        let (client, server) = thread::scope(|scope| {
            let found = scope.spawn(|| {
                let (session, _) = server.find_client(&server_plan, own, &mut Vec::new()).unwrap();
                session.ready().unwrap();
                session
            });
            let (client, _) = session::join(&plan, "127.0.0.1", own).unwrap();
            client.ready().unwrap();
            (client, found.join().unwrap())
        });
        let notices = Notices::new(&endpoint, &plan);
        let watchdog = Watchdog { check: session_check(&client), notices };
        let context = LoopContext {
            side: Side::Client,
            barriers: &client,
            run: &plan.run,
            peer_is_cxidiag: true,
            supervisor: &watchdog,
            notices,
            cpus: &[],
        };
        let failure = after_size::<Unnumbered>(&context, &client, &[()], 8, &[ISSUED]).unwrap_err();
        assert_eq!(failure.message(), "cannot fill a buffer");
        let received = server.checked_bytes(0, ANSWER_LIMIT).unwrap_err().message();
        assert!(received.ends_with(" ended the run: cannot fill a buffer"), "{received}");
        endpoint.close().unwrap();
    }
}
