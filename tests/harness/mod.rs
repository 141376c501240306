//! Runs cxidiag as users do: real processes whose output tests read.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod c_program;
pub mod gpu_machine;
pub mod hosts;
pub mod kernel;
pub mod legacy;
pub mod machine;
pub mod metrics;
pub mod paused;
pub mod planted;
mod process;
pub mod relay;
pub mod schema;
pub mod short_runs;
pub mod shown_nics;
pub mod slurm;
pub mod terminal;

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

pub use process::{Command, Pipe, Process, read_all};

/// Names a `libcxi.so.1` made of the software NIC (`ffi/softnic/build-library`). With it,
/// tests run the program on that library: `cxi0` for `soft0`, and so on.
const LIBRARY: &str = "CXIDIAG_TEST_LIBCXI";

/// Names a directory with the software NIC as a library, which tests then do not build themselves.
const SOFTNIC: &str = "CXIDIAG_TEST_SOFTNIC";

/// Time limit of the build of the library. Beside ten busy loops on two CPUs it took 7 minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// The directory with the software NIC as a library, and with `cxi-softnic`, built once.
pub static SOFTWARE_NIC: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(directory) = std::env::var_os(SOFTNIC) {
        return directory.into();
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("softnic");
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/build-library");
    let output =
        Command::new(build).arg(&directory).limit(BUILD_LIMIT).output().expect("the build starts");
    assert!(output.status.success(), "{}", stderr(&output));
    directory
});

/// The software NIC as a `libcxi.so.1`.
pub static LIBCXI: LazyLock<PathBuf> = LazyLock::new(|| SOFTWARE_NIC.join("libcxi.so.1"));

/// Replaces the names of software devices in a text by the names of this test run.
pub fn named(text: &str) -> String {
    match std::env::var_os(LIBRARY) {
        Some(_) => text.replace("soft", "cxi"),
        None => text.to_owned(),
    }
}

/// The names of all tools.
pub fn tools() -> impl Iterator<Item = &'static str> {
    plan::tools::peer_tools().iter().map(|tool| tool.name)
}

pub fn measures_bandwidth(tool: &str) -> bool {
    tool.ends_with("-bw")
}

/// The program under test.
pub const CXIDIAG: &str = env!("CARGO_BIN_EXE_cxidiag");

/// Copies the program under test in another process: a process that a test starts in another thread
/// inherits every file that this process has open for writing, and such a copy cannot be executed.
pub fn copy_program(to: &Path) {
    let status = Command::new("cp").arg(CXIDIAG).arg(to).status();
    assert!(status.expect("cp starts").success());
}

/// Whether other users reach the program under test. The build may be in a directory that is closed
/// to them, such as the home of root; then the test is left out.
pub fn is_open_to_other_users() -> bool {
    let is_closed = |directory: &&Path| {
        let mode = std::fs::metadata(directory).expect("a directory").permissions().mode();
        mode & 0o001 == 0
    };
    let closed = Path::new(CXIDIAG).ancestors().skip(1).find(is_closed);
    if let Some(directory) = closed {
        println!("not tested: {} is closed to other users", directory.display());
    }
    closed.is_none()
}

/// Arguments of a program: a list, or a line of words.
pub trait Args {
    fn words(&self) -> Vec<&str>;
}

impl Args for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Args for &str {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}

impl Args for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

/// Where the software NIC keeps its fabrics by default, in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Free bytes in [`SHARED_MEMORY`] for the fabrics of all tests that run at the same time.
const ENOUGH_MEMORY: u64 = 2 << 30;

/// A fabric for one test: tests that run at the same time share no NIC.
pub struct Fabric(tempfile::TempDir);

impl Fabric {
    /// Creates a fabric in memory, where files cost a third of the time, or in the directory for
    /// temporary files if memory is short, as in containers.
    pub fn new() -> Self {
        let free = rustix::fs::statvfs(SHARED_MEMORY).map_or(0, |all| all.f_bavail * all.f_frsize);
        let in_memory =
            (free >= ENOUGH_MEMORY).then(|| tempfile::tempdir_in(SHARED_MEMORY).ok()).flatten();
        let directory = in_memory.map_or_else(tempfile::tempdir, Ok);
        Self(directory.expect("a temporary directory"))
    }

    /// The directory of this fabric. It does not exist while no NIC is open.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("fabric")
    }

    /// The program with `args`, on this fabric.
    pub fn command(&self, args: &(impl Args + ?Sized)) -> Command {
        self.command_of(Path::new(CXIDIAG), args)
    }

    /// Another executable with `args`, on this fabric.
    pub fn command_of(&self, program: &Path, args: &(impl Args + ?Sized)) -> Command {
        let mut command = Command::new(program);
        if let Some(library) = std::env::var_os(LIBRARY) {
            command.env("CXIDIAG_LIBCXI", library);
        }
        command
            .args(args.words().into_iter().map(named))
            .env("CXIDIAG_FABRIC_DIR", self.path())
            .env_remove("CXIDIAG_TOKEN")
            .env_remove("SLINGSHOT_DEVICES")
            .env_remove("SLINGSHOT_SVC_IDS")
            .env_remove("SLINGSHOT_VNIS")
            .env_remove("SLINGSHOT_TCS")
            .env_remove("SLURM_STEP_NUM_NODES")
            .env_remove("SLURM_JOB_ID")
            .env_remove("PBS_JOBID")
            .env_remove("FLUX_JOB_ID")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &(impl Args + ?Sized)) -> Output {
        finish(self.command(args))
    }

    /// Runs both sides of a tool in one command, and returns what it printed.
    #[track_caller]
    pub fn loopback(&self, tool: &str, options: &(impl Args + ?Sized)) -> String {
        let args = [&[tool, "--loopback", "-d", "soft0"], &options.words()[..]];
        let output = finish(self.command(&args.concat()));
        assert_success(&output);
        stdout(&output)
    }

    /// Runs a server on soft0 and a client on soft1, and returns what each printed.
    #[track_caller]
    pub fn pair(&self, tool: &str, client_options: &(impl Args + ?Sized)) -> [String; 2] {
        let server = self.server(tool, "-d soft0");
        let args = [&["-d", "soft1"], &client_options.words()[..]].concat();
        let client = self.client(tool, &server, &args);
        assert_success(&client);
        let server = server.finish();
        assert_success(&server);
        self.assert_nothing_left();
        [stdout(&client), stdout(&server)]
    }

    /// Gives the NIC with this address services, as the software NIC keeps them.
    pub fn write_services(&self, nid: u32, services: &str) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.path());
        made.expect("a directory");
        let file = self.path().join(format!("services-{nid:x}"));
        std::fs::write(file, services).expect("a file");
    }

    /// Starts a server of `tool` on a free port and waits until it listens.
    pub fn server(&self, tool: &str, args: &(impl Args + ?Sized)) -> Server {
        Server::start(self.command(&[&[tool, "-p", "0"], &args.words()[..]].concat()))
    }

    /// Runs a client of `tool` against `server` to its end.
    pub fn client(&self, tool: &str, server: &Server, args: &(impl Args + ?Sized)) -> Output {
        finish(self.client_command(tool, server, args))
    }

    /// A client of `tool` against `server`, not started.
    pub fn client_command(
        &self,
        tool: &str,
        server: &Server,
        args: &(impl Args + ?Sized),
    ) -> Command {
        let address = [tool, "127.0.0.1", "-p", &server.port];
        self.command(&[&address, &args.words()[..]].concat())
    }

    /// The files that NICs of this fabric have left.
    pub fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }

    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let left = self.left();
        assert!(left.is_empty(), "left in the fabric directory: {left:?}");
    }
}

/// A server process that listens.
pub struct Server {
    process: Process,
    stdout: BufReader<Pipe<ChildStdout>>,
    /// The port that it listens on.
    pub port: String,
    first_line: String,
}

impl Server {
    pub fn start(mut command: Command) -> Self {
        let mut process = command.spawn().expect("cxidiag starts");
        let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).expect("a line");
        let Some(port) = port_in(&first_line) else {
            let output = process.finish();
            panic!("the server printed {first_line:?} and {:?}", stderr(&output));
        };
        Self { process, stdout, port, first_line }
    }

    /// Waits for the end of the process; the output is all that the server printed.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        let mut stdout = self.first_line.into_bytes();
        self.stdout.read_to_end(&mut stdout).expect("a pipe");
        Output { stdout, ..self.process.finish() }
    }

    /// The next line that the server prints; empty at the end of its output.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a pipe");
        line
    }

    /// Waits for a line that begins with `start`.
    #[track_caller]
    pub fn wait_for_line(&mut self, start: &str) {
        loop {
            let line = self.next_line();
            assert!(!line.is_empty(), "no line begins with {start:?}");
            if line.starts_with(start) {
                return;
            }
        }
    }

    /// Waits for a line that contains `words`, and returns it.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) -> String {
        loop {
            let line = self.next_line();
            assert!(!line.is_empty(), "no line contains {words:?}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// The port in the first line of a server.
fn port_in(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Listening on port ")?;
    rest.split(' ').next().map(str::to_owned)
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Output {
    command.output().expect("the program starts")
}

pub fn stdout(output: &Output) -> String {
    without_waits(std::str::from_utf8(&output.stdout).expect("text"))
}

pub fn stderr(output: &Output) -> String {
    without_waits(&whole_stderr(output))
}

/// Returns what a process printed on stderr, with the lines about long waits.
pub fn whole_stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The text without the lines about a CPU that was taken away and about long waits for the peer,
/// which depend on what else runs on the machine.
pub fn without_waits(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !is_notice(line)).collect()
}

/// Whether a line is about a long wait for the peer or for a CPU.
pub fn is_notice(line: &str) -> bool {
    [": no answer from the ", ": CPU taken away for "].iter().any(|words| line.contains(words))
}

/// Fails unless the process ended with status 0 and printed nothing on stderr, except that it had
/// to wait: a busy machine may keep a peer waiting for two seconds. Where there are few CPUs,
/// threads share them.
#[track_caller]
pub fn assert_success(output: &Output) {
    let errors = stderr(output);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let expected = [": no answer to a ", " threads share "];
    let is_expected = |line: &&str| expected.iter().any(|words| line.contains(words));
    let unexpected = errors.lines().find(|line| !is_expected(line));
    assert_eq!(unexpected, None, "{errors}");
}

/// Fails unless the process ended with this status, and returns its stderr.
#[track_caller]
pub fn assert_status(output: &Output, status: i32) -> String {
    let errors = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    errors
}

/// Fails unless a symlink with the legacy name of `tool` serves a client of cxidiag.
#[track_caller]
pub fn assert_legacy_name_works(tool: &str, client_options: &str) {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let legacy = format!("cxi_{}", tool.replace('-', "_"));
    let name = directory.path().join(legacy);
    std::os::unix::fs::symlink(CXIDIAG, &name).expect("a symlink");
    let server = Server::start(fabric.command_of(&name, "-d soft0 -p 0"));
    let client = fabric.client(tool, &server, &format!("-d soft1 {client_options}"));
    assert_success(&client);
    assert_success(&server.finish());
}

/// Fails unless `--report-all` prints one numbered latency for each iteration.
#[track_caller]
pub fn assert_every_latency_is_reported(tool: &str) {
    let text = Fabric::new().loopback(tool, "-n 4 --report-all");
    let (_, table) = text.split_once("  WriteNum  Latency[us]\n").expect("a table");
    let numbers: Vec<&str> = table
        .lines()
        .take_while(|line| !line.starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
}

/// Fails unless `--report-all` of a duration run prints a summary and is named on standard error.
/// The legacy tools crash.
#[track_caller]
pub fn assert_report_all_is_ignored_with_a_duration(tool: &str) {
    let args = format!("{tool} --loopback -d soft0 -D 0.3 --report-all --latency-gap=0");
    let output = Fabric::new().run(&args);
    let note = assert_status(&output, 0);
    assert!(note.contains("without effect: --report-all"), "{note}");
    let text = stdout(&output);
    assert!(text.contains(&duration(0.3)), "{text}");
    assert!(text.contains("\nResults Reported : Summary\n"), "{text}");
    assert!(!text.contains("WriteNum"), "{text}");
}

/// Kills each side of a long run; the other side fails, and the next run leaves nothing.
/// The run is in progress when the server has printed a line that begins with `started`.
#[track_caller]
pub fn assert_killed_side_ends_the_other(tool: &str, options: &[&str], started: &str) {
    let fabric = Fabric::new();
    for options in options {
        for kill_server in [true, false] {
            let mut server = fabric.server(tool, "-d soft0");
            let args = format!("-d soft1 -D 600 {options}");
            let mut client =
                fabric.client_command(tool, &server, &args).spawn().expect("cxidiag starts");
            server.wait_for_line(started);
            let survivor = if kill_server {
                server.kill();
                client.finish()
            } else {
                client.kill();
                let _ = client.wait();
                server.finish()
            };
            let errors = assert_status(&survivor, 1);
            // Where there are few CPUs, a warning that threads share them comes first, or a note
            // that the peer keeps this side waiting.
            let is_note = |line: &&str| {
                [": warning: ", ": no answer to a "].iter().any(|name| line.contains(name))
            };
            let first = errors.lines().find(|line| !is_note(line));
            let start = format!("cxidiag {tool}: error: ");
            let is_error = first.is_some_and(|line| line.starts_with(&start));
            assert!(is_error, "{options:?}: {errors}");
        }
    }
    fabric.loopback(tool, "-n 3");
    fabric.assert_nothing_left();
}

/// The user's document on the latency tools.
const SEED: &str = include_str!("../fixtures/seed-latency.txt");

/// Returns what the document shows for `$ command`, without the command.
pub fn seed(command: &str) -> String {
    let (_, after) = SEED.split_once(&format!("\n$ {command}\n")).expect(command);
    let (block, _) = after.split_once("```").expect("a closed block");
    block.to_owned()
}

/// Fails unless `text` has the form of the example in a document: the same lines except for figures
/// and addresses, and the line that a software NIC adds.
#[track_caller]
pub fn assert_has_form_of(text: &str, example: &str) {
    assert_eq!(masked(&without_platform(text)), masked(example));
}

/// Compares the texts of both sides of a bandwidth run with the text of the client. The server
/// names the sides the other way round, and shows no operations of its own.
#[track_caller]
pub fn assert_both_sides_have_form_of(tool: &str, options: &str, example: &str) {
    let [client, server] = Fabric::new().pair(tool, options);
    assert_has_form_of(&client, example);
    let expected = example
        .replace("Local (client)   : NIC 0x13", "Local (server)   : NIC 0x12")
        .replace("Remote (server)  : NIC 0x12", "Remote (client)  : NIC 0x13")
        .replace("       1024  ", "          -  ");
    let listening = "Listening on port 49194 for client to connect...\n";
    assert_has_form_of(&server, &format!("{listening}{expected}"));
}

/// The rows of results as words.
pub fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("    "));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row[0].parse::<u64>().is_ok())
        .collect()
}

/// The lines of the summary of a run of this number of seconds.
pub fn duration(seconds: f64) -> String {
    format!("\nTest Type        : Duration\nDuration         : {seconds} seconds\n")
}

/// The lines of the summary of a run of this number of iterations.
pub fn iterations(count: u32) -> String {
    format!("\nTest Type        : Iteration\nIterations       : {count}\n")
}

/// The text without the one line that a software NIC adds.
pub fn without_platform(text: &str) -> String {
    let line = "Platform         : software NIC (no Cassini hardware involved)\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    text.replace(line, "")
}

/// Masks figures and addresses, so that two outputs can be compared line for line.
///
/// A number in the summary becomes `#`; a number in a table becomes `#` flush right in its column
/// with its decimals kept, so that widths and decimals still count.
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

/// Keeps the last character of each column and its number of decimals.
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
