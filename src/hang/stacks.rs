//! Stacks of a process, read by a stack tool of the machine: `eu-stack`, else `gdb` (hangs.md 4.1).
//! The tool attaches to the process, and always to one process alone.
//!
//! A tool attaches with SIGSTOP. If the tool is killed before the process has met this signal, the
//! process stays stopped (tried on Linux 6.18); by ptrace(2), this may happen later, too. So:
//!
//! * The tool is not started for a process that cannot answer it (a thread in state D), or that is
//!   stopped or traced already.
//! * Nothing ends the tool by chance: it writes to memory and not to a pipe, signals of the
//!   terminal do not reach it, and it goes on if this process is killed.
//! * At its time limit it gets SIGTERM, for which gdb detaches, and SIGKILL only later.
//! * After an end that was not its own, or if the process is stopped now, the process gets SIGCONT.
//!   This also takes back a SIGSTOP that is still pending, and a process that runs ignores it.
//! * No other process is attached to after a tool that was late.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

use crate::process;
use facts::number::decimal;
use facts::token::TOKEN_VARIABLE;

/// How long a tool may take to end after SIGTERM, and after SIGKILL.
const GRACE: Duration = Duration::from_millis(300);

/// Interval at which the end of a tool is awaited.
const SLICE: Duration = Duration::from_millis(2);

/// How often the state of threads is looked at that changes soon.
const LOOKS: u32 = 25;

/// Largest exit status of a tool that has come to its own end: `eu-stack` has 1 if a frame is
/// missing, `gdb` if a command has failed.
const OWN_ENDS: i32 = 1;

/// A stack tool that is installed.
#[derive(Clone, Debug)]
pub struct StackTool {
    program: PathBuf,
    is_gdb: bool,
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its function; `None` if the file has no name for it.
    pub function: Option<String>,
    /// Path of the program or library; `None` if it is unknown.
    pub file: Option<String>,
}

/// The frames of a thread, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    pub tid: u32,
    pub frames: Vec<Frame>,
}

/// Why a stack was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackFailure {
    /// The process is stopped, or a debugger holds it.
    Stopped,
    /// A thread is in the kernel, in a sleep that no signal ends.
    InKernel,
    /// This user may not attach.
    Denied,
    /// The time was over before.
    NoTime,
    /// The tool says so.
    Failed(String),
    /// The tool was late; no further process may be attached to.
    Late(String),
}

impl StackTool {
    /// The tool in the directories of PATH.
    pub fn find(path: Option<&OsStr>) -> Option<Self> {
        let directories: Vec<PathBuf> = env::split_paths(path?).collect();
        let tools = [("eu-stack", false), ("gdb", true)].into_iter();
        let mut found = tools.filter_map(|(name, is_gdb)| {
            let mut programs = directories.iter().map(|directory| directory.join(name));
            Some(Self { program: programs.find(|program| program.is_file())?, is_gdb })
        });
        found.next()
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        if self.is_gdb { "gdb" } else { "eu-stack" }
    }

    /// Reads the stacks of all threads of a process. The process goes on when this returns, unless
    /// the failure is [`StackFailure::Late`] and says otherwise.
    ///
    /// # Errors
    ///
    /// Why there is no stack.
    pub fn read(
        &self,
        directory: &Path,
        pid: u32,
        limit: Duration,
    ) -> Result<Vec<ThreadStack>, StackFailure> {
        check(directory)?;
        let before = process::states(directory);
        let maps = process::maps(directory).ok_or(StackFailure::Denied)?;
        let failed = |error: io::Error| StackFailure::Failed(format!("{}: {error}", self.name()));
        let (mut output, mut errors) =
            (memory_file().map_err(failed)?, memory_file().map_err(failed)?);
        let mut command = Command::new(&self.program);
        let number = pid.to_string();
        if self.is_gdb {
            command.args(["-nx", "-batch", "-iex", "set auto-load off"]);
            command.args(["-iex", "set print frame-arguments none", "-p", &number]);
            command.args(["-ex", "thread apply all bt"]);
        } else {
            command.args(["-p", &number]);
        }
        // Files of the debugger would come over the network.
        command.env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS").env_remove(TOKEN_VARIABLE);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(failed)?);
        command.stderr(errors.try_clone().map_err(failed)?);
        let start = process::stat(directory).map(|stat| stat.start);
        let mut child = command.spawn().map_err(failed)?;
        let (status, is_late) = end(&mut child, limit);
        let is_own_end = |status: ExitStatus| status.code().is_some_and(|code| code <= OWN_ENDS);
        if is_late || !status.is_some_and(is_own_end) || is_stopped(directory) {
            let stat = process::stat(directory);
            let target = Pid::from_raw(pid as i32).filter(|_| stat.map(|stat| stat.start) == start);
            // A process that has ended needs nothing.
            let _ = target.map(|target| kill_process(target, Signal::CONT));
        }
        settle(directory, &before);
        if is_late {
            let still = match status {
                Some(_) => String::new(),
                None => format!(", and process {} still holds it", child.id()),
            };
            let seconds = limit.as_secs_f64();
            let text = format!("{} did not end in {seconds:.1} s{still}", self.name());
            return Err(StackFailure::Late(text));
        }
        let stacks = parse(&text(&mut output), &maps);
        if stacks.is_empty() {
            let errors = text(&mut errors);
            let why = errors.lines().map(str::trim).rfind(|line| !line.is_empty());
            let why = why.unwrap_or("no stack in its output").trim_start_matches("eu-stack: ");
            return Err(StackFailure::Failed(format!("{}: {why}", self.name())));
        }
        Ok(stacks)
    }
}

/// Fails if a tool could not attach, or would wait for a thread.
fn check(directory: &Path) -> Result<(), StackFailure> {
    let is_stopped = |state: &char| matches!(state, 'T' | 't');
    if process::states(directory).iter().any(is_stopped)
        || process::status_field(directory, "TracerPid").is_none_or(|tracer| tracer != "0")
    {
        return Err(StackFailure::Stopped);
    }
    // Each page fault is a short state D.
    let is_in_kernel = |_| {
        let found = process::states(directory).contains(&'D');
        found.then(|| sleep(SLICE)).is_some()
    };
    if (0..LOOKS).all(is_in_kernel) {
        return Err(StackFailure::InKernel);
    }
    // The kernel asks for the same right as for attaching (hangs.md 2.3).
    std::fs::read(directory.join("personality")).map_err(|_| StackFailure::Denied)?;
    Ok(())
}

/// Whether a signal has stopped a process that nobody traces.
fn is_stopped(directory: &Path) -> bool {
    process::states(directory).contains(&'T')
}

/// Waits until threads sleep again that slept before: the tool has woken them.
fn settle(directory: &Path, before: &[char]) {
    let running = |states: &[char]| states.iter().filter(|state| **state == 'R').count();
    let mut looks = 0..LOOKS;
    while running(&process::states(directory)) > running(before) && looks.next().is_some() {
        sleep(SLICE);
    }
}

/// Waits for the end of a tool, and ends it if it is late. Returns its status, if it has ended, and
/// whether it was late.
fn end(child: &mut Child, limit: Duration) -> (Option<ExitStatus>, bool) {
    let tool = Pid::from_child(child);
    let mut is_late = false;
    for (time, signal) in [(limit, Some(Signal::TERM)), (GRACE, Some(Signal::KILL)), (GRACE, None)]
    {
        let end = Instant::now() + time;
        loop {
            // An error means that somebody else has waited for it.
            match child.try_wait() {
                Ok(Some(status)) => return (Some(status), is_late),
                Ok(None) if Instant::now() < end => sleep(SLICE),
                Ok(None) | Err(_) => break,
            }
        }
        is_late = true;
        let _ = signal.map(|signal| kill_process(tool, signal));
    }
    (None, true)
}

fn memory_file() -> io::Result<File> {
    Ok(File::from(memfd_create("stacks", MemfdFlags::CLOEXEC)?))
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What was read until an error is enough.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the output of a tool: `TID 812:` or `Thread 1 (Thread 0x7f5 (LWP 812) "name"):`, then
/// frames. Addresses lead to files by the memory map of the process.
fn parse(output: &str, maps: &str) -> Vec<ThreadStack> {
    let mut stacks: Vec<ThreadStack> = Vec::new();
    let mut is_thread = false;
    for line in output.lines() {
        if let Some(tid) = thread_of(line) {
            stacks.push(ThreadStack { tid, frames: Vec::new() });
            is_thread = true;
        } else if let (Some(rest), true) = (line.strip_prefix('#'), is_thread) {
            stacks.last_mut().into_iter().for_each(|stack| stack.frames.extend(frame(rest, maps)));
        }
    }
    stacks.retain(|stack| !stack.frames.is_empty());
    stacks
}

fn thread_of(line: &str) -> Option<u32> {
    let number = match line.strip_prefix("TID ") {
        Some(rest) => rest.strip_suffix(':')?,
        None => {
            let rest = line.strip_prefix("Thread ")?;
            // gdb without its library of threads: `Thread 1 (process 812):`.
            let start = ["(LWP ", "(process "].iter().find_map(|word| rest.split_once(word))?.1;
            start.split(')').next()?
        }
    };
    u32::try_from(decimal(number)?).ok()
}

/// Reads `0  0x00007f5932e93017 __sched_yield` or `1  0x5601d78041ac in solve (n=5) at a.c:3`.
fn frame(line: &str, maps: &str) -> Option<Frame> {
    let rest = line.split_once(' ')?.1.trim_start();
    let (address, rest) = match rest.strip_prefix("0x") {
        Some(hex) => {
            let (hex, rest) = hex.split_once(' ').unwrap_or((hex, ""));
            (u64::from_str_radix(hex, 16).ok(), rest.strip_prefix("in ").unwrap_or(rest))
        }
        None => (None, rest),
    };
    // Arguments, and what a linker has added. A C++ namespace may begin with a parenthesis.
    let end = rest.find(" (").unwrap_or(rest.len());
    let name = rest[..end].split('@').next().unwrap_or_default().trim();
    let function = (!name.is_empty() && name != "??").then(|| name.to_owned());
    Some(Frame { function, file: address.and_then(|address| file_at(maps, address)) })
}

/// The file that is mapped at an address.
fn file_at(maps: &str, address: u64) -> Option<String> {
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bounds = range.and_then(|(start, end)| {
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        });
        bounds.is_some_and(|bounds| bounds.contains(&address))
    })?;
    line.find('/').and_then(|start| line.get(start..)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use node::machine::testing::MadeUp;

    use super::*;

    /// Memory map of a process of both outputs below.
    const MAPS: &str = "5601d7804000-5601d7805000 r-xp 00001000 08:01 11 /home/u/a\n\
                        7f5932da4000-7f5932f00000 r-xp 00026000 08:01 12 /usr/lib/libc.so.6\n\
                        7f5940000000-7f5940010000 rw-p 00000000 00:00 0 \n";

    fn shown(stacks: &[ThreadStack]) -> Vec<(u32, String)> {
        let frame = |frame: &Frame| {
            let file = frame.file.as_deref().unwrap_or("-").rsplit('/').next().unwrap();
            format!("{}@{file}", frame.function.as_deref().unwrap_or("?"))
        };
        let frames = |stack: &ThreadStack| stack.frames.iter().map(frame).collect::<Vec<_>>();
        stacks.iter().map(|stack| (stack.tid, frames(stack).join(" "))).collect()
    }

    #[test]
    fn reads_what_eu_stack_prints() {
        let output = "PID 18297 - process\nTID 18297:\n\
                      #0  0x00007f5932e93017 __sched_yield\n\
                      #1  0x00005601d78041b9 MPI_Send\n\
                      #2  0x00005601d78041c0\n\
                      #3  0x00007f5932dcc305 __libc_start_main@@GLIBC_2.34\n\
                      TID 18298:\n\
                      #0  0x00007f5940000001 (anonymous namespace)::wait(int)\n\
                      TID 18299:\n";
        assert_eq!(
            shown(&parse(output, MAPS)),
            [
                (
                    18297,
                    "__sched_yield@libc.so.6 MPI_Send@a ?@a __libc_start_main@libc.so.6".into()
                ),
                (18298, "(anonymous namespace)::wait(int)@-".into())
            ]
        );
    }

    #[test]
    fn reads_what_gdb_prints() {
        let output = "[New LWP 18298]\n\
                      0x00007f5932e93017 in __GI_sched_yield () at ../sysdeps/x.S:120\n\n\
                      #7  0x1 in early ()\n\
                      Thread 2 (Thread 0x7f5932da16c0 (LWP 18298) \"a (x)\"):\n\
                      #0  0x00007f5932e78df2 in __libc_pause () at ../sysdeps/pause.c:29\n\
                      #1  0x00005601d7804189 in ?? ()\n\n\
                      Thread 1 (process 18297):\n\
                      #0  solve (n=5) at a.c:12\n\
                      #1  0x00005601d780408e in std::vector<int, std::less<int> >::at (this=...)\n\
                      [Inferior 1 (process 18297) detached]\n";
        assert_eq!(
            shown(&parse(output, MAPS)),
            [
                (18298, "__libc_pause@libc.so.6 ?@a".into()),
                (18297, "solve@- std::vector<int, std::less<int> >::at@a".into())
            ]
        );
        assert!(parse("ptrace: Operation not permitted.", MAPS).is_empty());
    }

    #[test]
    fn leaves_out_processes_that_no_tool_may_hold() {
        for (state, tracer, right, expected) in [
            ('S', "0", true, Ok(())),
            ('R', "0", true, Ok(())),
            ('T', "0", true, Err(StackFailure::Stopped)),
            ('t', "77", true, Err(StackFailure::Stopped)),
            ('S', "77", true, Err(StackFailure::Stopped)),
            ('D', "0", true, Err(StackFailure::InKernel)),
            ('S', "0", false, Err(StackFailure::Denied)),
        ] {
            let stat = format!("5 (a) {state} 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 9 1");
            let made_up = MadeUp::new(&[
                ("proc/5/task/5/stat", &stat),
                ("proc/5/status", &format!("TracerPid:\t{tracer}\n")),
            ]);
            if right {
                made_up.write("proc/5/personality", "00000000\n");
            }
            let directory = process::directory(&made_up.machine(), 5);
            assert_eq!(check(&directory), expected, "{state} {tracer} {right}");
        }
    }

    #[test]
    fn prefers_eu_stack() {
        let made_up = MadeUp::new(&[("b/gdb", ""), ("b/eu-stack/x", ""), ("c/x", "")]);
        let root = made_up.machine().root().to_owned();
        let found = |names: &[&str]| {
            let path = env::join_paths(names.iter().map(|name| root.join(name))).unwrap();
            StackTool::find(Some(&path)).map(|tool| tool.name())
        };
        assert_eq!(found(&["c"]), None);
        assert_eq!(found(&["c", "b"]), Some("gdb"));
        made_up.write("c/eu-stack", "");
        assert_eq!(found(&["b", "c"]), Some("eu-stack"));
        assert!(StackTool::find(None).is_none());
    }
}
