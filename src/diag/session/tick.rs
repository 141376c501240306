//! The ticks of a side: a length that no message has, every few seconds from the handshake to the
//! end of the run.
//!
//! The kernel answers for a process that is stopped, so a side that waits for the set-up or the
//! measurement of its peer could not tell a stopped peer from a busy one. Client and server
//! announce with their versions that they know ticks: two words, because older releases know only
//! the ticks of clients. A thread sends them: the measuring loop may be in a wait, or has no check
//! of its own while the NIC is fast. The thread sleeps in between, has the lowest priority and runs
//! on other CPUs than the measuring threads, if there are any.

use std::io::Write;
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use cxi::placement::{self, Confined};

use super::wire::TICK;

/// Interval of ticks.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Niceness of the thread: the lowest priority.
const NICENESS: i32 = 19;

/// The thread that sends the ticks. It ends when this value is dropped.
#[derive(Debug)]
pub struct Ticker {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
            let _ = rustix::process::nice(NICENESS);
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&TICK.to_le_bytes()).is_ok()
            {}
        };
        let thread = thread::Builder::new().name("ticks".into()).spawn(tick);
        Some(Self { running: Some(running), thread: Some(thread.ok()?) })
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
