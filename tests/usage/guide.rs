//! Runs the shell examples of README.md and of pages of docs/.
//!
//! The language of a fenced block decides what the test does with it:
//!
//! * `sh`: runs it as a bash script that ends at the first failing command. Each page has its own
//!   directory. `cargo run --release -- TOOL` becomes `cxidiag TOOL`; `tests/run`, which runs this
//!   test, and `cargo install` are left out. A line that ends in `# exit status N` must end with
//!   that status. `/sys/class` shows software NICs, and `tests/fixtures/launcher` stands in for
//!   batch systems, and a free port replaces port 49500.
//! * `sh file NAME`: writes it to an executable file of the page's directory. `-D` becomes `-n`.
//! * `sh nodes`: starts a server at the prompt `node1$` or `shell1$` and its clients at `node2$` or
//!   `shell2$`. Two software NICs replace the nodes, a free port replaces the default port, and
//!   `-D` becomes `-n`.
//! * `sh build`: builds the library of the software NIC and the command `cxi-softnic`.
//! * `sh libfabric`: runs it as `sh` if libfabric has the provider `cxi`.
//! * `sh hardware`, `text`, `json`, `yaml`: does nothing.
//! * no language: compares it with the output of the block before it, except for numbers.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use crate::harness::{
    CXIDIAG, Command, Fabric, SOFTWARE_NIC, Server, assert_success, masked, stderr, stdout,
};
use plan::tools::TOOLS;

/// The port of the examples. Tests that run at the same time may have been given it by the kernel.
const DOCUMENTED_PORT: &str = "49500";

/// The directory of a machine that shows its devices by class.
const SYSFS: &str = "/sys/class";

/// A fenced block of a page.
struct Block {
    page: &'static str,
    language: String,
    lines: Vec<String>,
}

/// The fenced blocks of `page`, in order.
fn blocks(page: &'static str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).expect(page);
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                blocks.push(Block { page, language: language.to_owned(), lines: Vec::new() });
            }
            None if is_open => blocks.last_mut().expect("a block").lines.push(line.to_owned()),
            None => {}
        }
    }
    assert!(!is_open, "{page}: a block is not closed");
    blocks
}

/// Whether `command` starts `tool`.
fn starts(command: &str, tool: &str) -> bool {
    command.contains(&format!("cxidiag {tool} "))
}

/// Where the examples of one page run.
struct Page {
    fabric: Fabric,
    directory: tempfile::TempDir,
}

impl Page {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        symlink(CXIDIAG, bin.join("cxidiag")).expect("a symlink");
        let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/launcher");
        for name in ["sbatch", "srun", "scontrol", "qsub", "mpiexec", "flux"] {
            symlink(&launcher, bin.join(name)).expect("a symlink");
        }
        Self { fabric: Fabric::new(), directory }
    }

    /// A bash command that runs `script`; `cxidiag` in it is the program under test.
    fn bash(&self, script: &str) -> Command {
        let arguments = ["-eu", "-o", "pipefail", "-c", script];
        let mut bash = self.fabric.command_of(Path::new("bash"), &arguments);
        let bin = self.directory.path().join("bin");
        let path = std::env::var("PATH").expect("a PATH");
        bash.env("PATH", format!("{}:{path}", bin.display())).current_dir(self.directory.path());
        bash
    }

    /// Runs the block if its language says so. Returns the output of an `sh` block.
    fn run(&self, block: &Block) -> Option<String> {
        match block.language.as_str() {
            "sh" => {
                let lines: Vec<&str> = block
                    .lines
                    .iter()
                    .map(String::as_str)
                    .filter(|line| !line.starts_with("tests/run"))
                    .filter(|line| !line.starts_with("cargo install"))
                    .collect();
                let lines: Vec<String> = lines.into_iter().map(checked).collect();
                let mut script = lines.join("\n").replace("cargo run --release -- ", "cxidiag ");
                if script.contains(DOCUMENTED_PORT) {
                    script = script.replace(DOCUMENTED_PORT, &free_port().to_string());
                }
                if script.contains(SYSFS) {
                    script = script.replace(SYSFS, &self.class_directory());
                }
                Some(self.script(&script, script.contains("cxidiag compare")))
            }
            "sh nodes" => {
                self.nodes(block);
                None
            }
            "sh build" => {
                let command = SOFTWARE_NIC.join("cxi-softnic");
                symlink(command, self.directory.path().join("bin/cxi-softnic")).expect("a symlink");
                None
            }
            "sh libfabric" => {
                let has_provider = self.bash("fi_info --list | grep '^cxi:'").output();
                if has_provider.expect("bash starts").status.success() {
                    self.script(&block.lines.join("\n"), false);
                }
                None
            }
            "sh hardware" | "" | "text" | "json" | "yaml" => None,
            language if language.starts_with("sh file ") => {
                let path = self.directory.path().join(&language["sh file ".len()..]);
                let script = block.lines.join("\n") + "\n";
                std::fs::write(&path, script.replace(" -D ", " -n ")).expect("a file");
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a file");
                None
            }
            other => panic!("{}: unknown language '{other}' of a block", block.page),
        }
    }

    /// A directory that shows what `/sys/class` shows of software NICs.
    fn class_directory(&self) -> String {
        let directory = self.directory.path().join("class");
        if !directory.exists() {
            let command = SOFTWARE_NIC.join("cxi-softnic");
            let arguments = ["--write-sys", directory.to_str().expect("text")];
            let child = self.fabric.command_of(&command, &arguments).spawn();
            assert_success(&child.expect("cxi-softnic starts").finish());
        }
        directory.display().to_string()
    }

    /// Runs `script` in bash and returns its output. With `may_regress`, exit status 3 is a success
    /// as well: this machine may be too busy to meet an expectation.
    fn script(&self, script: &str, may_regress: bool) -> String {
        let child = self.bash(script).spawn().expect("bash starts");
        let output = child.finish();
        assert_succeeded(script, &output, may_regress);
        let printed = stdout(&output) + &stderr(&output);
        for tool in TOOLS.iter().filter(|tool| starts(script, tool.name)) {
            let prints_none = ["--quiet", "--port 9", "|| status="];
            if !prints_none.iter().any(|words| script.contains(words)) {
                assert!(printed.contains(tool.title), "{script}: {printed}");
            }
        }
        printed
    }

    /// Runs the commands of two nodes.
    fn nodes(&self, block: &Block) {
        let mut server: Option<(bool, Server)> = None;
        for line in &block.lines {
            let (prompt, command) = line.split_once("$ ").expect("a prompt");
            let command = command.split("  #").next().unwrap_or_default();
            let command = command.replace(" -D ", " -n ");
            match prompt {
                "node1" | "shell1" => {
                    let script = format!("exec {command} --port 0 -d soft0");
                    let is_lasting =
                        command.contains("--persist") || command.starts_with("cxidiag serve");
                    server = Some((is_lasting, Server::start(self.bash(&script))));
                }
                "node2" | "shell2" => {
                    let (_, server) = server.as_ref().expect("a server");
                    let is_ping = command.starts_with("cxidiag ping");
                    // The default is too short for a busy machine.
                    let limit = if is_ping { "--timeout=60s " } else { "" };
                    let there = format!(" 127.0.0.1 -p {} -d soft1 {limit}", server.port);
                    let here = prompt.replace("node2", "node1").replace("shell2", "localhost");
                    let script = command.replacen(&format!(" {here} "), &there, 1);
                    assert_ne!(script, command, "{line}");
                    let printed = self.script(&script, script.contains("--expect"));
                    if is_ping {
                        assert!(!printed.contains("FAILED"), "{printed}");
                        continue;
                    }
                    let remote = printed.lines().find(|line| line.starts_with("Remote (server)"));
                    let remote = remote.expect("a remote address");
                    assert!(remote.contains(": NIC 0x12 PID "), "{printed}");
                }
                _ => panic!("{}: {line}", block.page),
            }
        }
        let (is_lasting, server) = server.expect("a server");
        if !is_lasting {
            assert_success(&server.finish());
        }
    }
}

/// The line, as a command that fails unless the exit status is the one in its comment.
fn checked(line: &str) -> String {
    match line.split_once("  # exit status ") {
        Some((command, status)) => {
            format!("status=0; {command} || status=$?; [ $status = {status} ]")
        }
        None => line.to_owned(),
    }
}

/// Fails unless the script succeeded. With `may_regress`, exit statuses 3 and 4 are successes too.
#[track_caller]
fn assert_succeeded(script: &str, output: &Output, may_regress: bool) {
    let status = output.status.code();
    let succeeded = status == Some(0) || (may_regress && matches!(status, Some(3 | 4)));
    assert!(succeeded, "{script}\n{}\n{}", output.status, stderr(output));
}

/// The parts of the output of `script` that are the same on every machine.
fn comparable(script: &str, output: &str) -> String {
    if !script.starts_with("cxidiag compare") {
        return masked(output);
    }
    // Numbers, hosts and verdicts depend on the machine, and so do the lines behind the table.
    let (summary, table) = output.split_once("\n\n").expect("a table");
    let table = table.lines().enumerate();
    let table = table.take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    summary
        .lines()
        .chain(table.map(|(_, line)| line))
        .map(|line| {
            let words = if line.starts_with(' ') { 2 } else { 4 };
            let kept: Vec<&str> = line.split_whitespace().take(words).collect();
            kept.join(" ") + "\n"
        })
        .collect()
}

/// Runs all examples of `page`. Returns how many blocks were run, and how many were compared.
fn run(page: &'static str) -> (usize, usize) {
    let examples = Page::new();
    let (mut ran, mut compared) = (0, 0);
    let mut previous: Option<(String, String)> = None;
    for block in blocks(page) {
        let lines = block.lines.join("\n") + "\n";
        match (block.language.is_empty(), previous.take()) {
            (true, Some((script, printed))) => {
                let (printed, shown) = (comparable(&script, &printed), comparable(&script, &lines));
                assert_eq!(printed, shown, "{page}");
                compared += 1;
            }
            _ => previous = examples.run(&block).map(|printed| (lines, printed)),
        }
        ran += usize::from(matches!(block.language.as_str(), "sh" | "sh nodes"));
    }
    examples.fabric.assert_nothing_left();
    (ran, compared)
}

#[test]
fn runs_examples_of_guide() {
    let (ran, compared) = run("docs/guide.md");
    assert!(ran >= 18 && compared == 2, "{ran} {compared}");
}

#[test]
fn runs_examples_of_readme() {
    let (ran, compared) = run("README.md");
    assert!(ran >= 6 && compared == 1, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_for_developers() {
    let (ran, compared) = run("docs/develop.md");
    assert!(ran >= 4 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_about_causes() {
    let (ran, compared) = run("docs/why.md");
    assert!(ran >= 5 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_about_counters() {
    let (ran, compared) = run("docs/counters.md");
    assert!(ran >= 1 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_about_commands_and_nics() {
    let (ran, compared) = run("docs/stat.md");
    assert!(ran >= 1 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_for_batch_jobs() {
    let (ran, compared) = run("docs/batch.md");
    assert!(ran >= 4 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_about_health() {
    let (ran, compared) = run("docs/check.md");
    assert!(ran >= 4 && compared == 0, "{ran} {compared}");
}

#[test]
fn runs_examples_of_page_about_links() {
    let (ran, compared) = run("docs/link.md");
    assert!(ran >= 2 && compared == 0, "{ran} {compared}");
}

/// The examples of faults end with the exit status that the page states.
#[test]
fn runs_examples_of_page_about_software_nic() {
    let (ran, compared) = run("docs/software-nic.md");
    assert!(ran >= 1 && compared == 0, "{ran} {compared}");
}

/// The commands of a recording of `docs/pictures`, and what the terminal shows below each.
fn recorded(name: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/pictures/{name}.cast"));
    let text = std::fs::read_to_string(path).expect(name);
    let events = text.lines().skip(1).map(|line| {
        let (_, kind, text): (f64, String, String) = serde_json::from_str(line).expect(line);
        assert_eq!(kind, "o", "output");
        text
    });
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in events.collect::<String>().lines() {
        // Of progress, only what follows stays on the terminal.
        let line = line.rsplit("\x1b[K").next().unwrap_or_default();
        let line = line.trim_matches('\r').replace("\x1b[31m", "").replace("\x1b[0m", "");
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => {
                let (_, shown) = commands.last_mut().expect("a command");
                *shown += &line;
                shown.push('\n');
            }
        }
    }
    commands.retain(|(command, _)| !command.is_empty());
    commands
}

/// `packaging/make-pictures` makes the recordings.
#[test]
fn first_run_is_as_in_its_recording() {
    let examples = Page::new();
    let commands = recorded("first-run");
    assert_eq!(commands.len(), 2, "{commands:?}");
    for (command, shown) in commands {
        let printed = examples.script(&command, false);
        // A machine may have hardware as well.
        let is_kept = |line: &&str| command != "cxidiag devices" || line.starts_with("soft");
        let kept = |text: &str| {
            let lines: Vec<&str> = text.lines().filter(is_kept).collect();
            masked(&lines.join("\n"))
        };
        assert_eq!(kept(&printed), kept(&shown), "{command}");
    }
}

/// On a busy machine one kind of figures may be unjudged, which the first line then says; on too
/// busy a one all NICs are undecided.
#[test]
fn survey_finds_the_slow_nic_of_its_recording() {
    let commands = recorded("survey");
    let [(survey, shown), (_, status)] = &commands[..] else {
        panic!("{commands:?}");
    };
    let survey = || Page::new().bash(survey).output().expect("bash starts");
    let output = (0..10).map(|_| survey()).find(|output: &Output| output.status.code() != Some(4));
    let output = output.expect("ten surveys are undecided");
    let printed = stdout(&output);
    for text in [&printed, shown] {
        let is_verdict = |line: &str| line.starts_with("bad: node2 soft2 (");
        assert!(text.lines().any(is_verdict), "{text}");
        assert!(text.contains("\nBad\nnode2 soft2: "), "{text}");
    }
    let code = output.status.code().expect("an exit status");
    assert_eq!(*status, format!("exit status {code}\n"));
}

#[test]
fn quotes_error_message_of_guide_exactly() {
    let blocks = blocks("docs/guide.md");
    let quoted = blocks.iter().find(|block| block.language == "text");
    let quoted = quoted.expect("a quotation").lines.join("\n") + "\n";
    let output = Page::new()
        .bash("cxidiag write-lat 127.0.0.1 --port 9 -d soft0")
        .output()
        .expect("bash starts");
    assert_eq!(stderr(&output), quoted);
}

/// A free port that the kernel gives to nobody else: by default it gives ports from 32768 on.
fn free_port() -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let mut ports = first..32_768;
    let free = ports.find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok());
    free.expect("a free port")
}
