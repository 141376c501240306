//! Tests in processes of their own, each with a fabric of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Seconds after which a process of a test is killed.
const LIMIT: u32 = 60;

const FABRIC: &str = "CXIDIAG_FABRIC_DIR";
const ROLE: &str = "SOFTNIC_TEST_ROLE";

/// The role of a process that a test starts by itself.
const MAIN: &str = "main";

/// Lines between the processes of a test begin with this; the test harness prints others.
const MARK: &str = "softnic-test:";

/// Runs the body of a test in a process of its own, and checks that nothing is left of its fabric.
///
/// To be called as the only thing that a test function does, for the name of the closure tells
/// the name of the test.
pub fn alone<F: FnOnce()>(body: F) {
    if std::env::var_os(ROLE).is_some() {
        // SAFETY: alarm(2) has no requirements; nothing here catches the signal.
        unsafe { libc::alarm(LIMIT) };
        return body();
    }
    let name = test_name(std::any::type_name::<F>());
    let fabric = PathBuf::from(format!(
        "/dev/shm/softnic-test-{}-{name}",
        std::process::id()
    ));
    let output = command(&name, MAIN)
        .env(FABRIC, &fabric)
        .output()
        .expect("the test program starts");
    let left = fabric.exists();
    let _ = std::fs::remove_dir_all(&fabric);
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in printed
        .lines()
        .filter(|line| line.starts_with("not tested here"))
    {
        println!("{line}");
    }
    let ran = printed.contains("running 1 test");
    assert!(ran, "no test of the name {name}");
    assert!(!left, "the fabric directory is still there");
}

/// `program::module::test::{{closure}}` -> `module::test`
fn test_name(closure: &str) -> String {
    let path = closure.trim_end_matches("::{{closure}}");
    path.split_once("::").expect("in a crate").1.to_owned()
}

fn command(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test program has a path"));
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// The directory of this process's fabric.
pub fn fabric() -> PathBuf {
    std::env::var_os(FABRIC).expect("in a test alone").into()
}

/// What is in it; nothing if it is not there.
pub fn ports() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(fabric()) else {
        return Vec::new();
    };
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    names
}

/// The part that this process plays; `None` in the one that started the others.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok().filter(|role| role != MAIN)
}

/// Another process of the same test, which talks in lines. Killed when dropped.
pub struct Partner {
    pub child: Child,
    output: BufReader<ChildStdout>,
}

impl Partner {
    /// Starts this test once more in a role. `test` is the test's name.
    pub fn start(test: &str, role: &str) -> Self {
        let mut child = command(test, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    /// The next line that the partner says.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("readable");
            assert_ne!(read, 0, "the partner ended");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim().to_owned();
            }
        }
    }

    /// Says a line to the partner.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("the partner listens");
    }

    /// Kills the partner and waits for its end. Its input stays open, for its children.
    pub fn kill(&mut self) {
        let input = self.child.stdin.take();
        self.child.kill().expect("a child of ours");
        self.child.wait().expect("a child of ours");
        self.child.stdin = input;
    }

    /// Takes the CPU away from the partner, or gives it back. Stopped, it does nothing any more.
    pub fn stop(&self, stop: bool) {
        let pid = self.child.id() as i32;
        let signal = if stop { libc::SIGSTOP } else { libc::SIGCONT };
        // SAFETY: a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        if stop {
            let mut status = 0;
            // SAFETY: a child of ours, and a place for the answer.
            let stopped = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) };
            assert_eq!(stopped, pid);
            assert!(libc::WIFSTOPPED(status));
        }
    }

    /// Waits for its end, which must be a good one.
    pub fn end(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("a child of ours").success());
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says a line to the process that started this one.
pub fn say(line: &str) {
    println!("{MARK} {line}");
}

/// The next line that it says; `None` once it says no more.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).expect("readable");
    (read != 0).then(|| line.trim().to_owned())
}
