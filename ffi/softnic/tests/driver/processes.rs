//! Tests in processes of their own, each with its own fabric; child processes made by fork(2);
//! users and environment of this process.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Seconds after which the kernel kills a process of a test.
const LIMIT: u32 = 240;

const FABRIC: &str = "CXIDIAG_FABRIC_DIR";
const ROLE: &str = "SOFTNIC_TEST_ROLE";
const NAME: &str = "SOFTNIC_TEST_NAME";

/// The role of the process that [`alone`] starts.
const MAIN: &str = "main";

/// Begins lines between the processes of a test; the test harness prints other lines.
const MARK: &str = "softnic-test:";

/// Runs the rest of a test function in a process of its own, and checks that its fabric is gone
/// afterwards. The first statement of a test.
macro_rules! alone {
    () => {
        if {
            fn here() {}
            $crate::driver::processes::run_in_child(here)
        } {
            return;
        }
    };
}
pub(crate) use alone;

/// Runs the test in which `here` is defined in a child process. Returns false in that process.
pub fn run_in_child<F: Fn()>(_here: F) -> bool {
    if std::env::var_os(ROLE).is_some() {
        // SAFETY: alarm(2) has no requirements; nothing here catches the signal.
        unsafe { libc::alarm(LIMIT) };
        return false;
    }
    let name = test_name(std::any::type_name::<F>());
    let fabric = PathBuf::from(format!("/dev/shm/softnic-test-{}-{name}", std::process::id()));
    let output =
        command(&name, MAIN).env(FABRIC, &fabric).output().expect("the test program starts");
    let left = fabric.exists();
    let _ = std::fs::remove_dir_all(&fabric);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    let skipped = |line: &&str| line.starts_with("not tested here");
    printed.lines().filter(skipped).for_each(|line| println!("{line}"));
    assert!(printed.contains("running 1 test"), "there is no test {name}");
    assert!(!left, "the fabric directory still exists");
    true
}

/// `program::module::test::here` -> `module::test`
fn test_name(here: &str) -> String {
    let path = here.trim_end_matches("::here");
    path.split_once("::").expect("in a crate").1.to_owned()
}

fn command(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test program has a path"));
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(NAME, test)
        .env(ROLE, role);
    command
}

/// The directory of this process's fabric.
pub fn fabric() -> PathBuf {
    std::env::var_os(FABRIC).expect("in a test of its own process").into()
}

/// The sorted names of the files in the fabric's directory, without the files of counters; empty if
/// there is no directory.
pub fn ports() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(fabric()) else {
        return Vec::new();
    };
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.retain(|name| {
        !["counters-", "errors-", "triggered-"].iter().any(|start| name.starts_with(start))
    });
    names.sort();
    names
}

/// The role of this process; `None` in the process that starts the others.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok().filter(|role| role != MAIN)
}

/// Another process of the same test, which exchanges lines with this one. Dropping kills it.
pub struct Partner {
    pub child: Child,
    output: BufReader<ChildStdout>,
}

impl Partner {
    /// Starts the running test once more, in a role.
    pub fn start(role: &str) -> Self {
        let test = std::env::var(NAME).expect("in a test of its own process");
        let mut child = command(&test, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    /// Reads the next line that the partner wrote by [`say`].
    pub fn receive(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("readable");
            assert_ne!(read, 0, "the partner ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim().to_owned();
            }
        }
    }

    /// Reads the address of a target from the partner's line of NID and PID.
    pub fn receive_address(&mut self) -> u32 {
        let line = self.receive();
        let (nid, pid) = line.split_once(' ').expect("NID and PID");
        super::rig::address(nid.parse().unwrap(), pid.parse().unwrap(), 0).0
    }

    /// Writes a line for the partner's [`listen`].
    pub fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("the partner reads");
    }

    /// Kills the partner and waits for its end. Keeps its input open for its children.
    pub fn kill(&mut self) {
        let input = self.child.stdin.take();
        self.child.kill().expect("a running child");
        self.child.wait().expect("a child of this process");
        self.child.stdin = input;
    }

    /// Stops all threads of the partner, and returns once they have stopped.
    pub fn pause(&self) {
        let pid = self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: `pid` is a child of this process, and `status` lives through the call.
        let stopped = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) };
        assert!(stopped == pid && libc::WIFSTOPPED(status));
    }

    /// Lets a paused partner continue.
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) -> i32 {
        let pid = self.child.id() as i32;
        // SAFETY: `pid` is a child of this process that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        pid
    }

    /// Closes the partner's input and waits for its end, which must be successful.
    pub fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("a child of this process").success());
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a line for the `receive` of the process that started this one.
pub fn say(line: &str) {
    println!("{MARK} {line}");
}

/// Reads the next line from the process that started this one; `None` at the end of its output.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).expect("readable");
    (read != 0).then(|| line.trim().to_owned())
}

/// Forks, runs `child` in the child process and returns its process id. The child exits with
/// status 0 if `child` returns true.
pub fn fork(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the thread of the test is the only one of this process that holds locks.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: alarm(2) has no requirements; it ends a child that hangs.
        unsafe { libc::alarm(30) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: _exit(2) has no requirements.
        unsafe { libc::_exit(i32::from(!outcome.unwrap_or(false))) };
    }
    pid
}

/// Runs `child` in a child process, which must return true.
pub fn in_child(child: impl FnOnce() -> bool) {
    let pid = fork(child);
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child failed");
}

/// Whether this process has the privileges of root.
pub fn is_root() -> bool {
    // SAFETY: geteuid(2) has no requirements.
    unsafe { libc::geteuid() == 0 }
}

/// Continues as a user without privileges, who has to open devices of their own.
pub fn become_ordinary() {
    if is_root() {
        // SAFETY: setresuid(2) has no requirements.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
}

/// Sets an environment variable for devices that this process and its partners open later.
pub fn set(variable: &str, value: &str) {
    // SAFETY: this process has no other thread that reads or writes the environment.
    unsafe { std::env::set_var(variable, value) };
}
