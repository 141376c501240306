//! A side of a run that stops at a phase by name (debug builds; src/phase.rs), so that a test can
//! end it there.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{finish_or_kill, port_in, read_all};

/// A process of a test with pipes to its output. It ends with its test.
pub struct Side {
    /// `None` once it has been waited for.
    child: Option<Child>,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
    /// Lines of stderr before the pause.
    said: String,
}

impl Side {
    /// Starts `command`; it stops at `pause`, a phase with or without a number.
    pub fn start(mut command: Command, pause: Option<&str>) -> Self {
        if let Some(pause) = pause {
            command.env("CXIDIAG_TEST_PAUSE_AT", pause);
        }
        let child = command.stdin(Stdio::piped()).spawn();
        let mut child = child.expect("cxidiag starts");
        Self {
            stdout: child.stdout.take().map(BufReader::new),
            stderr: child.stderr.take().map(BufReader::new),
            said: String::new(),
            child: Some(child),
        }
    }

    /// Waits until the process has stopped at its phase.
    #[track_caller]
    pub fn wait_for_pause(&mut self) {
        assert!(self.pauses(), "no pause: {:?}", self.said);
    }

    /// Waits until the process has stopped at its phase. Returns false if it has ended before.
    #[track_caller]
    pub fn pauses(&mut self) -> bool {
        let stderr = self.stderr.as_mut().expect("a pipe");
        loop {
            let has_line = !stderr.buffer().is_empty() || is_ready(stderr.get_ref());
            assert!(has_line, "no pause within a minute: {:?}", self.said);
            let mut line = String::new();
            if stderr.read_line(&mut line).expect("a pipe") == 0 {
                return false;
            }
            if line.starts_with("paused at ") {
                return true;
            }
            self.said += &line;
        }
    }

    /// Continues a paused process.
    pub fn go_on(&mut self) {
        drop(self.child.as_mut().and_then(|child| child.stdin.take()));
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
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill starts").success());
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
        self.child.as_ref().expect("a child").id()
    }

    /// Repeats a signal until the process has ended, without reading its output.
    pub fn signal_until_it_ends(&mut self, name: &str) -> ExitStatus {
        loop {
            let child = self.child.as_mut().expect("a child");
            if let Some(status) = child.try_wait().expect("a child") {
                return status;
            }
            self.signal(name);
        }
    }

    /// Waits for the end of the process; the output is what has not been read before.
    pub fn finish(mut self) -> Output {
        // The end of its input continues a paused process.
        let _input = self.child.as_mut().and_then(|child| child.stdin.take());
        let stdout = self.stdout.take();
        let stderr = self.stderr.take();
        let reading = thread::spawn(move || read_all(stdout));
        let saying = thread::spawn(move || read_all(stderr));
        let mut output = finish_or_kill(self.child.take().expect("a child"));
        output.stdout = reading.join().expect("output");
        output.stderr = std::mem::take(&mut self.said).into_bytes();
        output.stderr.extend(saying.join().expect("output"));
        output
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits up to a minute for something to read.
fn is_ready(pipe: &ChildStderr) -> bool {
    let minute = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut polled, Some(&minute)).expect("a pipe") > 0
}

/// Returns the port in the next line of a server.
#[track_caller]
pub fn port(server: &mut Side) -> String {
    port_in(&server.next_line()).expect("a port")
}
