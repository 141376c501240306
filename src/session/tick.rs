//! The ticks of a side: a length that no message has, every few seconds from the handshake to the
//! end of the run.
//!
//! The kernel answers for a process that is stopped, so a side that waits for the set-up or the
//! measurement of its peer could not tell a stopped peer from a busy one. Client and server
//! announce with their versions that they know ticks: two words, because older releases know only
//! the ticks of clients. A thread sends them: the measuring loop may be in a wait, or has no check
//! of its own while the NIC is fast. The thread sleeps in between and runs on other CPUs than the
//! measuring threads, if there are any. Its priority is not lower than theirs: a process ends when
//! all its threads have had a CPU, which takes seconds at the lowest priority beside busy programs.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use cxi::placement::{self, Confined};

use super::wire::TICK;

/// Interval of ticks.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// The thread that sends the ticks. It ends soon after this value is dropped, which does not wait
/// for it.
#[derive(Debug)]
pub struct Ticker {
    _running: Sender<()>,
}

impl Ticker {
    /// Starts to send ticks on `stream`, apart from the `measuring` CPUs. Without the thread, the
    /// peer takes this side for a stopped process after a minute.
    pub fn start(mut stream: TcpStream, measuring: &[u32]) -> Option<Self> {
        let mut cpus = placement::cpus().unwrap_or_default();
        cpus.retain(|cpu| !measuring.contains(cpu));
        let (running, end) = bounded(0);
        let tick = move || {
            let _confined = Confined::to(&cpus);
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&TICK.to_le_bytes()).is_ok()
            {}
        };
        thread::Builder::new().name("ticks".into()).spawn(tick).ok()?;
        Some(Self { _running: running })
    }
}
