//! The shell examples of docs/guide.md and README.md, run as they stand.
//!
//! | block | what becomes of it |
//! |---|---|
//! | `sh` | a script for bash, in a directory that is the page's own; one command that fails ends it. `cargo run --release -- TOOL` is `cxidiag TOOL`, and `tests/run` is what runs this test |
//! | `sh nodes` | a server at the prompt `node1$` or `shell1$`, its clients at `node2$` or `shell2$`: software NICs take the place of two nodes, a free port that of the usual one, and so many iterations that of a duration in seconds |
//! | `sh hardware` | not run |
//! | no language | what the block before it prints, but for figures |

mod harness;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use cxidiag::tools::TOOLS;
use harness::{CXIDIAG, Fabric, Server, assert_success, finish_or_kill, masked, stderr, stdout};

/// One fenced block.
struct Block {
    page: &'static str,
    language: String,
    lines: Vec<String>,
}

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
                blocks.push(Block {
                    page,
                    language: language.to_owned(),
                    lines: Vec::new(),
                });
            }
            None if is_open => blocks
                .last_mut()
                .expect("a block")
                .lines
                .push(line.to_owned()),
            None => {}
        }
    }
    assert!(!is_open, "{page}: a block without an end");
    blocks
}

/// What the program is called in the examples.
fn is_tool(command: &str, tool: &str) -> bool {
    command.contains(&format!("cxidiag {tool} "))
}

/// The examples of one page.
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
        Self {
            fabric: Fabric::new(),
            directory,
        }
    }

    /// bash with `script`, where `cxidiag` is the program under test.
    fn bash(&self, script: &str) -> Command {
        let arguments = ["-eu", "-o", "pipefail", "-c", script];
        let mut bash = self.fabric.command_of(Path::new("bash"), &arguments);
        let bin = self.directory.path().join("bin");
        let path = std::env::var("PATH").expect("a PATH");
        bash.env("PATH", format!("{}:{path}", bin.display()))
            .current_dir(self.directory.path());
        bash
    }

    /// Runs the block, if it is one to run, and returns what it printed.
    fn run(&self, block: &Block) -> Option<String> {
        match block.language.as_str() {
            "sh" => {
                let is_of_this_test = |line: &&String| !line.starts_with("tests/run");
                let lines: Vec<&str> = block
                    .lines
                    .iter()
                    .filter(is_of_this_test)
                    .map(String::as_str)
                    .collect();
                let script = lines
                    .join("\n")
                    .replace("cargo run --release -- ", "cxidiag ");
                Some(self.script(&script, script.contains("cxidiag compare")))
            }
            "sh nodes" => {
                self.nodes(block);
                None
            }
            "sh hardware" | "" | "text" | "json" => None,
            other => panic!("{}: what is a block of '{other}'?", block.page),
        }
    }

    /// `judges`: it judges figures, which are those of a busy machine here.
    fn script(&self, script: &str, judges: bool) -> String {
        let child = self.bash(script).spawn().expect("bash starts");
        let output = finish_or_kill(child);
        assert_ended(script, &output, judges);
        let printed = stdout(&output) + &stderr(&output);
        for tool in TOOLS.iter().filter(|tool| is_tool(script, tool.name)) {
            if !script.contains("--quiet") && !script.contains("--port 9") {
                assert!(printed.contains(tool.title), "{script}: {printed}");
            }
        }
        printed
    }

    /// Commands on two nodes.
    fn nodes(&self, block: &Block) {
        let mut server: Option<(bool, Server)> = None;
        for line in &block.lines {
            let (prompt, command) = line.split_once("$ ").expect("a prompt");
            let command = command.split("  #").next().unwrap_or_default();
            let command = command.replace(" -D ", " -n ");
            match prompt {
                "node1" | "shell1" => {
                    let script = format!("exec {command} --port 0 -d soft0");
                    let is_lasting = command.contains("--persist");
                    server = Some((is_lasting, Server::start(self.bash(&script))));
                }
                "node2" | "shell2" => {
                    let (_, server) = server.as_ref().expect("a server");
                    let there = format!(" 127.0.0.1 -p {} -d soft1 ", server.port);
                    let here = prompt
                        .replace("node2", "node1")
                        .replace("shell2", "localhost");
                    let script = command.replacen(&format!(" {here} "), &there, 1);
                    assert_ne!(script, command, "{line}");
                    let printed = self.script(&script, script.contains("--expect"));
                    let remote = "\nRemote (server)  : NIC 0x12 PID ";
                    assert!(printed.contains(remote), "{printed}");
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

/// Fails unless the script ended well; or with 3, where it judges figures.
#[track_caller]
fn assert_ended(script: &str, output: &Output, judges: bool) {
    let status = output.status.code();
    let is_well = status == Some(0) || (judges && status == Some(3));
    assert!(is_well, "{script}\n{}\n{}", output.status, stderr(output));
}

fn run(page: &'static str) -> (usize, usize) {
    let examples = Page::new();
    let (mut ran, mut compared) = (0, 0);
    let mut printed: Option<String> = None;
    for block in blocks(page) {
        match (block.language.is_empty(), printed.take()) {
            (true, Some(printed)) => {
                let shown = block.lines.join("\n") + "\n";
                assert_eq!(masked(&printed), masked(&shown), "{page}");
                compared += 1;
            }
            _ => printed = examples.run(&block),
        }
        ran += usize::from(matches!(block.language.as_str(), "sh" | "sh nodes"));
    }
    examples.fabric.assert_nothing_left();
    (ran, compared)
}

#[test]
fn examples_of_the_guide() {
    let (ran, compared) = run("docs/guide.md");
    assert!(ran >= 16 && compared == 1, "{ran} {compared}");
}

#[test]
fn examples_of_the_readme() {
    let (ran, compared) = run("README.md");
    assert!(ran >= 3 && compared == 1, "{ran} {compared}");
}

/// The guide quotes a message.
#[test]
fn the_message_that_the_guide_quotes() {
    let blocks = blocks("docs/guide.md");
    let quoted = blocks.iter().find(|block| block.language == "text");
    let quoted = quoted.expect("a quotation").lines.join("\n") + "\n";
    let output = Page::new()
        .bash("cxidiag write-lat 127.0.0.1 --port 9 -d soft0")
        .output()
        .expect("bash starts");
    assert_eq!(stderr(&output), quoted);
}
