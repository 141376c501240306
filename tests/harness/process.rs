//! Processes that tests start. Each has a time limit: the harness kills a process that reaches it,
//! and its test fails with the output of its processes.
//!
//! Tests start processes only through [`Command`]. A process begins with default dispositions of
//! signals, also if the tests run under `nohup` or in the background of a script.

use std::ffi::OsStr;
use std::fmt::{self, Debug, Formatter};
use std::fs;
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// Time limit of a process. Most processes of tests end within a second.
const LIMIT: Duration = Duration::from_secs(180);

/// Time in which a test must end after the harness has killed one of its processes. Otherwise the
/// whole test program ends.
const GRACE: Duration = Duration::from_secs(60);

thread_local! {
    /// Exists as long as the thread of a test.
    static TEST: Arc<()> = Arc::new(());
}

/// Gives signals that this program ignores a handler without effect: a process that it starts
/// inherits an ignored signal, but not a handler.
static DEFAULT_SIGNALS: LazyLock<()> = LazyLock::new(|| {
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.expect("a line of Linux").trim();
    let ignored = u64::from_str_radix(mask, 16).expect("a mask");
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1] {
        if ignored >> (signal - 1) & 1 == 1 {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, flag).expect("a handler");
        }
    }
});

/// A process to start, as `std::process::Command`.
pub struct Command {
    command: process::Command,
    limit: Duration,
    /// Whether stdin, stdout and stderr have been set.
    is_set: [bool; 3],
}

impl Command {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: process::Command::new(program), limit: LIMIT, is_set: [false; 3] }
    }

    /// Sets another time limit.
    pub fn limit(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(arg);
        self
    }

    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.command.args(args);
        self
    }

    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(name, value);
        self
    }

    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        self.command.envs(variables);
        self
    }

    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.command.env_remove(name);
        self
    }

    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(directory);
        self
    }

    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.is_set[0] = true;
        self.command.stdin(stdin);
        self
    }

    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.is_set[1] = true;
        self.command.stdout(stdout);
        self
    }

    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.is_set[2] = true;
        self.command.stderr(stderr);
        self
    }

    /// Sets user and group of the process.
    pub fn user(&mut self, user: u32, group: u32) -> &mut Self {
        self.command.uid(user).gid(group);
        self
    }

    /// Starts the process.
    pub fn spawn(&mut self) -> io::Result<Process> {
        LazyLock::force(&DEFAULT_SIGNALS);
        let mut child = self.command.spawn()?;
        let said = [(); 2].map(|()| Arc::default());
        let line = format!("{:?}", self.command);
        Ok(Process {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(|pipe| Pipe::new(pipe, &said[0])),
            stderr: child.stderr.take().map(|pipe| Pipe::new(pipe, &said[1])),
            watch: Watch::start(child.id(), &line, self.limit),
            line,
            said,
            child,
        })
    }

    /// Runs the process to its end. Its output is captured unless it was set otherwise.
    pub fn output(&mut self) -> io::Result<Output> {
        let [stdin, stdout, stderr] = self.is_set;
        if !stdin {
            self.stdin(Stdio::null());
        }
        if !stdout {
            self.stdout(Stdio::piped());
        }
        if !stderr {
            self.stderr(Stdio::piped());
        }
        Ok(self.spawn()?.finish())
    }

    /// Runs the process to its end.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        Ok(self.spawn()?.wait())
    }
}

/// What has been set can be read as from `std::process::Command`.
impl Deref for Command {
    type Target = process::Command;

    fn deref(&self) -> &process::Command {
        &self.command
    }
}

impl Debug for Command {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.command.fmt(formatter)
    }
}

/// A process that a test has started. Dropping it kills it.
pub struct Process {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<Pipe<ChildStdout>>,
    pub stderr: Option<Pipe<ChildStderr>>,
    child: Child,
    watch: Watch,
    /// The command line.
    line: String,
    /// What has been read of stdout and stderr.
    said: [Said; 2],
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("a running process");
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill starts").success());
    }

    /// The exit status if the process has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        drop(self.stdin.take());
        let status = self.child.wait().expect("an exit status");
        if self.watch.is_over() {
            panic!("{}", self.report());
        }
        status
    }

    /// Waits for the end of the process. The output is what has not been read before.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let stderr = thread::spawn(move || read_all(stderr));
        let stdout = read_all(stdout);
        Output { status: self.wait(), stdout, stderr: stderr.join().expect("output") }
    }

    /// Describes the process and what it has printed, of which pipes that a test has taken hold a
    /// part.
    fn report(&mut self) -> String {
        if let Some(pipe) = &mut self.stdout {
            pipe.drain();
        }
        if let Some(pipe) = &mut self.stderr {
            pipe.drain();
        }
        let [stdout, stderr] = self.said.each_ref().map(|said| {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&said).into_owned()
        });
        let end = if self.watch.is_over() {
            format!("was killed after {} s", self.watch.limit.as_secs_f64())
        } else {
            "was started".into()
        };
        format!("{}\n{end}\n--- stdout:\n{stdout}--- stderr:\n{stderr}---", self.line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("{}", self.report());
        } else if self.watch.is_over() {
            panic!("{}", self.report());
        }
    }
}

/// What has been read from a pipe.
type Said = Arc<Mutex<Vec<u8>>>;

/// An output of a process.
pub struct Pipe<R> {
    pipe: R,
    said: Said,
}

impl<R: Read + AsFd> Pipe<R> {
    fn new(pipe: R, said: &Said) -> Self {
        Self { pipe, said: Arc::clone(said) }
    }

    /// Reads what the process has printed until its end. Others may still hold the pipe.
    fn drain(&mut self) {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let is_ready = |pipe: &R| {
            let mut polled = [PollFd::new(pipe, PollFlags::IN)];
            matches!(poll(&mut polled, Some(&second)), Ok(1..))
        };
        while is_ready(&self.pipe) && matches!(self.read(&mut [0; 4096]), Ok(1..)) {}
    }
}

impl<R: Read> Read for Pipe<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.pipe.read(buffer)?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(&buffer[..count]);
        Ok(count)
    }
}

impl<R: AsFd> AsFd for Pipe<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Reads a pipe to its end.
pub fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).expect("a pipe");
    }
    bytes
}

/// A thread that kills a process at its time limit. It ends with this value.
struct Watch {
    limit: Duration,
    is_over: Arc<AtomicBool>,
    _alive: Sender<()>,
}

impl Watch {
    fn start(process: u32, line: &str, limit: Duration) -> Self {
        let (alive, ended) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let test = TEST.with(Arc::downgrade);
        let name = thread::current().name().unwrap_or("main").to_owned();
        let line = line.to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            over.store(true, Ordering::Relaxed);
            let before = states(process);
            kill_with_descendants(process);
            thread::sleep(GRACE);
            if test.strong_count() > 0 {
                // Not captured, so that tests/summary finds it.
                let _ = write!(
                    io::stderr(),
                    "\nnever ended: test {name}, also after its process was killed: {line}\n\
                     before that:\n{before}now:\n{}",
                    states(process::id())
                );
                let own = process::id();
                descendants(own).into_iter().for_each(kill_one);
                process::exit(101);
            }
        });
        Self { limit, is_over, _alive: alive }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Kills a process and those that it has started: they may hold its pipes.
fn kill_with_descendants(process: u32) {
    let descendants = descendants(process);
    kill_one(process);
    descendants.into_iter().for_each(kill_one);
}

fn kill_one(process: u32) {
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        // It may have ended.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Describes a process and those that it has started: state, where it waits, and arguments.
fn states(process: u32) -> String {
    let read = |process, name| {
        let text = fs::read_to_string(format!("/proc/{process}/{name}"));
        text.unwrap_or_default().replace('\0', " ")
    };
    let state = |process| {
        let stat = read(process, "stat");
        let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
        let [wchan, line] = ["wchan", "cmdline"].map(|name| read(process, name));
        let fields: Vec<&str> = fields.split(' ').take(3).collect();
        format!("  {process} {} {wchan} {line}\n", fields.join(" "))
    };
    let all = [process].into_iter().chain(descendants(process));
    all.map(state).collect()
}

fn descendants(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let child = child.parse().expect("a process");
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}
