//! A side of a run that stops at a phase by name (debug builds; src/facts/phase.rs), so that a test
//! can end it there.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, ChildStdout, ExitStatus, Output, Stdio};
use std::thread;

use super::{Command, Pipe, Process, port_in, read_all};

/// A process of a test with pipes to its output. It ends with its test.
pub struct Side {
    process: Process,
    stdout: Option<BufReader<Pipe<ChildStdout>>>,
    stderr: Option<BufReader<Pipe<ChildStderr>>>,
    /// Lines of stderr before the pause.
    said: String,
}

impl Side {
    /// Starts `command`; it stops at `pause`, a phase with or without a number.
    pub fn start(mut command: Command, pause: Option<&str>) -> Self {
        if let Some(pause) = pause {
            command.env("CXIDIAG_TEST_PAUSE_AT", pause);
        }
        let process = command.stdin(Stdio::piped()).spawn();
        let mut process = process.expect("cxidiag starts");
        Self {
            stdout: process.stdout.take().map(BufReader::new),
            stderr: process.stderr.take().map(BufReader::new),
            said: String::new(),
            process,
        }
    }

    /// Waits until the process has stopped at its phase.
    #[track_caller]
    pub fn wait_for_pause(&mut self) {
        assert!(self.pauses(), "no pause: {:?}", self.said);
    }

    /// Waits until the process has stopped at its phase. Returns false if it has ended before, or
    /// has refused its client, which was too slow: a server waits for another one then.
    #[track_caller]
    pub fn pauses(&mut self) -> bool {
        let stderr = self.stderr.as_mut().expect("a pipe");
        loop {
            let mut line = String::new();
            if stderr.read_line(&mut line).expect("a pipe") == 0 {
                return false;
            }
            if line.starts_with("paused at ") {
                return true;
            }
            self.said += &line;
            if line.contains(": refused a client: ") {
                return false;
            }
        }
    }

    /// Continues a paused process.
    pub fn go_on(&mut self) {
        drop(self.process.stdin.take());
    }

    /// The next line on standard output; empty at the end.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("a pipe");
        stdout.read_line(&mut line).expect("a pipe");
        line
    }

    /// Closes the pipe that the process prints to.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Sends two signals, the second at once after the first.
    pub fn signals_at_once(&self, names: [&str; 2]) {
        let id = self.id();
        let [first, second] = names;
        let script = format!("kill -s {first} {id}; kill -s {second} {id}");
        let status = Command::new("sh").args(["-c", &script]).status();
        assert!(status.expect("sh starts").success());
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Repeats a signal until the process has ended, without reading its output.
    pub fn signal_until_it_ends(&mut self, name: &str) -> ExitStatus {
        loop {
            if let Some(status) = self.process.try_wait() {
                return status;
            }
            self.signal(name);
        }
    }

    /// Waits for the end of the process; the output is what has not been read before.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        // The end of its input would continue a paused process: the input stays open.
        let _input = self.process.stdin.take();
        let rest = self.stderr.take();
        let rest = thread::spawn(move || read_all(rest));
        let stdout = read_all(self.stdout.take());
        let mut stderr = self.said.into_bytes();
        stderr.extend(rest.join().expect("output"));
        Output { stdout, stderr, ..self.process.finish() }
    }
}

/// The port in the next line of a server.
#[track_caller]
pub fn port(server: &mut Side) -> String {
    port_in(&server.next_line()).expect("a port")
}
