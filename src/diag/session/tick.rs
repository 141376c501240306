//! The ticks of a client: a length that no message has, every few seconds from the handshake to the
//! end of the run.
//!
//! The kernel answers for a process that is stopped, so a server that waits for a long measurement
//! could not tell its client from one that measures. Client and server announce with their versions
//! that they know ticks. A thread sends them: the measuring loop may be in a wait, or has no check
//! of its own while the NIC is fast. The thread sleeps in between, has the lowest priority and runs
//! on other CPUs than the measuring threads, if there are any.

use std::io::Write;
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use cxi::placement::{self, Confined};

use super::wire::TICK;
use facts::limit;

/// Interval of ticks.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long a client that sends ticks may send nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Niceness of the thread: the lowest priority.
const NICENESS: i32 = 19;

/// The time limit of a wait for a message.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    since: Instant,
    limit: Duration,
    /// When the last tick came, of a client that sends them.
    ticked: Option<Instant>,
}

impl Deadline {
    /// Begins a wait of at most `limit` for a peer that sends ticks or not.
    pub fn new(limit: Duration, has_ticks: bool) -> Self {
        let since = Instant::now();
        Self {
            since,
            limit: limit::in_effect(limit),
            ticked: has_ticks.then_some(since),
        }
    }

    /// Notes a tick.
    pub fn tick(&mut self) {
        self.ticked = Some(Instant::now());
    }

    /// Returns the time that is left.
    ///
    /// # Errors
    ///
    /// The limit that is exceeded.
    pub fn left(&self) -> Result<Duration, Duration> {
        let left = |since: Instant, limit: Duration| {
            let left = limit.saturating_sub(since.elapsed());
            Some(left).filter(|left| !left.is_zero()).ok_or(limit)
        };
        let whole = left(self.since, self.limit)?;
        let Some(ticked) = self.ticked else {
            return Ok(whole);
        };
        // The interval is not shortened.
        let silence = limit::in_effect(SILENCE).max(3 * INTERVAL);
        Ok(whole.min(left(ticked, silence)?))
    }
}

/// The thread that sends the ticks. It ends when this value is dropped.
#[derive(Debug)]
pub struct Ticker {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts to send ticks on `stream`, apart from the `measuring` CPUs. Without the thread, the
    /// server takes this side for a stopped process after a minute.
    pub fn start(mut stream: TcpStream, measuring: &[u32]) -> Option<Self> {
        let mut cpus = placement::cpus().unwrap_or_default();
        cpus.retain(|cpu| !measuring.contains(cpu));
        let (running, end) = bounded(0);
        let tick = move || {
            let _confined = Confined::to(&cpus);
            let _ = rustix::process::nice(NICENESS);
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&TICK.to_le_bytes()).is_ok()
            {}
        };
        let thread = thread::Builder::new().name("ticks".into()).spawn(tick);
        Some(Self {
            running: Some(running),
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.running.take();
        // The thread holds the connection open until its end.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
