//! Runs cxidiag as its users do: real processes, reading what they print.

#![allow(dead_code, reason = "each test program uses its own part")]

pub mod legacy;
pub mod machine;
pub mod paused;
pub mod relay;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// Names a `libcxi.so.1` made of the software NIC (`packaging/softnic/build-library`). With it, tests run the program
/// on that library: `cxi0` for `soft0`, and so on.
const LIBRARY: &str = "CXIDIAG_TEST_LIBCXI";

/// The name that device `softN` has in this run of the tests, also where a longer text has it.
pub fn named(text: &str) -> String {
    match std::env::var_os(LIBRARY) {
        Some(_) => text.replace("soft", "cxi"),
        None => text.to_owned(),
    }
}

/// The names of all tools.
pub fn tools() -> impl Iterator<Item = &'static str> {
    cxidiag::tools::TOOLS.iter().map(|tool| tool.name)
}

/// The program under test.
pub const CXIDIAG: &str = env!("CARGO_BIN_EXE_cxidiag");

/// Copies the program under test. Another process does it: if this one held the copy open for
/// writing, a process that a test starts in another thread would hold it too for a moment, and the
/// copy could not be executed.
pub fn copy_program(to: &Path) {
    let status = Command::new("cp").arg(CXIDIAG).arg(to).status();
    assert!(status.expect("cp starts").success());
}

/// A fabric of its own for one test, so that tests running at the same time share no NIC.
pub struct Fabric(tempfile::TempDir);

impl Fabric {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Where the NICs of this fabric meet. It does not exist while no NIC is open.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("fabric")
    }

    /// The program with `args`, on this fabric.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(CXIDIAG), args)
    }

    /// Another executable with `args`, on this fabric.
    pub fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        if let Some(library) = std::env::var_os(LIBRARY) {
            command.env("CXIDIAG_LIBCXI", library);
        }
        command
            .args(args.iter().map(|arg| named(arg)))
            .env("CXIDIAG_FABRIC_DIR", self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("cxidiag starts")
    }

    /// Starts a server of `tool` on a free port and waits until it listens.
    pub fn server(&self, tool: &str, args: &[&str]) -> Server {
        Server::start(self.command(&[&[tool, "-p", "0"], args].concat()))
    }

    /// Runs a client of `tool` against `server` to its end.
    pub fn client(&self, tool: &str, server: &Server, args: &[&str]) -> Output {
        self.client_command(tool, server, args)
            .output()
            .expect("cxidiag starts")
    }

    /// A client of `tool` against `server`, not started.
    pub fn client_command(&self, tool: &str, server: &Server, args: &[&str]) -> Command {
        self.command(&[&[tool, "127.0.0.1", "-p", &server.port], args].concat())
    }

    /// Fails if anything is left of the NICs of this fabric.
    pub fn assert_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path())
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        assert!(left.is_empty(), "left in the fabric directory: {left:?}");
    }
}

/// A server process that listens.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The port that it listens on.
    pub port: String,
    first_line: String,
}

impl Server {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("cxidiag starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).expect("a line");
        let Some(port) = first_line
            .strip_prefix("Listening on port ")
            .and_then(|rest| rest.split(' ').next())
        else {
            let mut stderr = String::new();
            let _ = child
                .stderr
                .take()
                .expect("a pipe")
                .read_to_string(&mut stderr);
            panic!("the server printed {first_line:?} and {stderr:?}");
        };
        let port = port.to_owned();
        Self {
            child,
            stdout,
            port,
            first_line,
        }
    }

    /// Waits for the end; the output is all that the server printed.
    pub fn finish(mut self) -> Output {
        let mut stdout = std::mem::take(&mut self.first_line).into_bytes();
        self.stdout.read_to_end(&mut stdout).expect("a pipe");
        let mut stderr = Vec::new();
        self.child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_end(&mut stderr)
            .expect("a pipe");
        let status: ExitStatus = self.child.wait().expect("an exit status");
        Output {
            status,
            stdout,
            stderr,
        }
    }

    /// The next line that the server prints.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a pipe");
        line
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("a running server");
    }
}

/// No server outlives its test.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that does not outlive its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the end of a process; one that does not end within a minute is killed, so that
/// a test of what ends it fails and does not hang.
pub fn finish_or_kill(child: Child) -> Output {
    let id = child.id().to_string();
    let (done, ended) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let output = child.wait_with_output().expect("a pipe");
        let _ = done.send(());
        output
    });
    if ended
        .recv_timeout(std::time::Duration::from_secs(60))
        .is_err()
    {
        let _ = Command::new("kill").args(["-9", &id]).status();
    }
    waiting.join().expect("output")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Fails unless the process ended with status 0 and said nothing on stderr, but that it had to wait:
/// the machine of a test may have better things to do for two seconds.
#[track_caller]
pub fn assert_success(output: &Output) {
    let said = stderr(output);
    assert!(output.status.success(), "{}: {said}", output.status);
    let said: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains(": no answer to a "))
        .collect();
    assert!(said.is_empty(), "{said:?}");
}

/// A symlink with the legacy name of `tool` is that tool, as a server for a client of ours.
#[track_caller]
pub fn assert_legacy_name_works(tool: &str, client_options: &[&str]) {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let legacy = format!("cxi_{}", tool.replace('-', "_"));
    let name = directory.path().join(legacy);
    std::os::unix::fs::symlink(CXIDIAG, &name).expect("a symlink");
    let server = Server::start(fabric.command_of(&name, &["-d", "soft0", "-p", "0"]));
    let client = fabric.client(tool, &server, &[&["-d", "soft1"], client_options].concat());
    assert_success(&client);
    assert_success(&server.finish());
}

/// `--report-all` of a latency tool prints one latency for each iteration, numbered.
#[track_caller]
pub fn assert_every_latency_is_reported(tool: &str) {
    let args = [tool, "--loopback", "-d", "soft0", "-n", "4", "--report-all"];
    let output = Fabric::new().run(&args);
    assert_success(&output);
    let text = stdout(&output);
    let (_, table) = text
        .split_once("  WriteNum  Latency[us]\n")
        .expect("a table");
    let numbers: Vec<&str> = table
        .lines()
        .take_while(|line| !line.starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
}

/// The user's document on the latency tools.
const SEED: &str = include_str!("../fixtures/seed-latency.txt");

/// What the document shows for `$ command`, without the command.
pub fn seed(command: &str) -> String {
    let (_, after) = SEED.split_once(&format!("\n$ {command}\n")).expect(command);
    let (block, _) = after.split_once("```").expect("a closed block");
    block.to_owned()
}

/// Output without the one line that a software NIC adds to the document's.
pub fn without_platform(text: &str) -> String {
    let line = "Platform         : software NIC (no Cassini hardware involved)\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    text.replace(line, "")
}

/// Output with figures and addresses masked, so that two runs can be compared line for line.
///
/// Numbers in the summary become `#`; a number in a table column becomes `#` flush right in
/// its column with its decimals kept, so that widths and decimals still count.
pub fn masked(text: &str) -> String {
    text.lines().map(|line| mask_line(line) + "\n").collect()
}

fn mask_line(line: &str) -> String {
    let is_row =
        line.starts_with(' ') && line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    if is_row {
        return mask_row(line);
    }
    let is_address = line.starts_with("Local (") || line.starts_with("Remote (");
    let is_setting =
        line.starts_with("Device ") || is_address || line.starts_with("Listening on port");
    if !is_setting {
        return line.to_owned();
    }
    line.split(' ').map(mask_word).collect::<Vec<_>>().join(" ")
}

fn mask_word(word: &str) -> &str {
    let number = word.strip_prefix("0x").unwrap_or(word);
    let device = word.starts_with("cxi") || word.starts_with("soft");
    let digits = !number.is_empty() && number.chars().all(|c| c.is_ascii_hexdigit());
    if device || digits { "#" } else { word }
}

/// A table row: the last character of each column and its number of decimals.
fn mask_row(line: &str) -> String {
    let mut masked = String::new();
    let mut previous_end = 0;
    for (start, word) in words(line) {
        let end = start + word.len();
        let decimals = word
            .split_once('.')
            .map_or(String::new(), |(_, d)| format!(".{}", "#".repeat(d.len())));
        let shown = format!("#{decimals}");
        masked += &format!("{shown:>width$}", width = end - previous_end);
        previous_end = end;
    }
    masked
}

fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}
