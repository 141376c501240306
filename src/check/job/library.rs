//! The libfabric of a job: which file it is, and what it says, asked in a process of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal};

use super::evidence::{LibfabricAnswer, ParameterType};
use cxi::sys::libfabric;
use facts::child::{self, Duty};
use facts::error::{Context, Failure};
use facts::number::time_text;
use facts::{interrupt, limit};
use node::reading;
use page::json;

/// The environment of a process.
pub type Environment = BTreeMap<OsString, OsString>;

/// Name of the library in each version.
pub const SONAME: &str = "libfabric.so.1";

/// Where Cray's versions lie, each in a directory of its own.
const CRAY: &str = "/opt/cray/libfabric";

/// How long the library may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Most bytes of an answer.
const MOST_BYTES: usize = 1 << 20;

/// Settings that would hide providers or NICs, or start code that the job does not need.
const LEFT_OUT: [&str; 4] = ["FI_HOOK", "FI_PROVIDER", "FI_CXI_DEVICE_NAME", "LD_PRELOAD"];

/// The file of libfabric that a program with this search path loads, below `root`, and how it was
/// found: from LD_LIBRARY_PATH, else Cray's newest; else its name, for the dynamic linker.
pub fn find(root: &Path, search_path: &str) -> (PathBuf, &'static str) {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mut directories = search_path.split(':').filter(|directory| !directory.is_empty());
    let exists = |path: PathBuf| Some(path).filter(|path| reading::exists(path));
    let own = directories.find_map(|directory| exists(below(Path::new(directory)).join(SONAME)));
    let cray = || {
        let names = reading::names(&below(Path::new(CRAY))).unwrap_or_default();
        let files = names.into_iter().filter_map(|name| {
            let numbers = name.to_string_lossy().into_owned();
            let numbers = numbers.split(|letter: char| !letter.is_ascii_digit());
            let numbers: Vec<u32> = numbers.filter_map(|part| part.parse().ok()).collect();
            let file = below(Path::new(CRAY)).join(name).join("lib64").join(SONAME);
            Some((numbers, exists(file)?))
        });
        files.max().map(|(_, path)| (path, "the newest of Cray"))
    };
    let own = own.map(|path| (path, "first in LD_LIBRARY_PATH"));
    own.or_else(cray).unwrap_or_else(|| (SONAME.into(), "of the dynamic linker"))
}

/// Asks the library at `path` in a child process with this environment.
///
/// # Errors
///
/// A library that cannot be loaded, and one that does not answer in time.
pub fn ask(path: &Path, environment: &Environment) -> Result<LibfabricAnswer, Failure> {
    let mut command = child::command();
    let is_asked = |name: &OsString| {
        let name = name.to_string_lossy();
        !name.starts_with("FI_LOG_") && !LEFT_OUT.contains(&&*name)
    };
    command.env_clear().arg("check").envs(environment.iter().filter(|(name, _)| is_asked(name)));
    command.env("FI_HMEM", "system").env(Duty::LibfabricReader.variable(), path);
    let what = path.display().to_string();
    let (text, end) = output_within_limit(&mut command, &what)?;
    // A provider may print lines of its own.
    let line = text.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"{"));
    let reason = match line.map(json::read::<Result<LibfabricAnswer, String>>) {
        Some(Ok(Ok(answer))) => return Ok(answer),
        Some(Ok(Err(reason))) => reason,
        _ => child::end_text(end),
    };
    // The dynamic linker names the file, too.
    let reason = reason.strip_prefix(&format!("{what}: ")).unwrap_or(&reason);
    Err(Failure::environment(format!("{what}: {reason}")))
}

/// Runs a child, and returns all that it prints and how it ended.
///
/// # Errors
///
/// A child that prints too much or takes too long; its end is not waited for, as it may be stuck in
/// a driver.
pub fn output_within_limit(
    command: &mut Command,
    what: &str,
) -> Result<(Vec<u8>, ExitStatus), Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut process = child::start(command)?;
    let limit = limit::in_effect(LIMIT);
    let end = Instant::now() + limit;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    let stdout = process.stdout.take();
    let mut stdout = stdout.ok_or_else(|| Failure::environment("a child has no output"))?;
    let ended = loop {
        let left = end.saturating_duration_since(Instant::now());
        match interrupt::wait(&stdout, PollFlags::IN, Some(left)) {
            Ok(true) if text.len() < MOST_BYTES && !left.is_zero() => {}
            Ok(_) => {
                let message = format!("{what} did not answer within {}", time_text(limit));
                break Err(Failure::environment(message));
            }
            Err(failure) => break Err(failure),
        }
        match stdout.read(&mut part).environment("cannot read the answer of libfabric") {
            Ok(0) => break Ok(()),
            Ok(count) => text.extend_from_slice(&part[..count]),
            Err(failure) => break Err(failure),
        }
    };
    let _ = process.kill();
    ended?;
    Ok((text, process.wait().environment("cannot wait for a child")?))
}

/// Answers the process that has started this one, if it has: loads the library and prints what it
/// says.
pub fn answer_parent() -> Option<Result<(), Failure>> {
    let path: OsString = Duty::LibfabricReader.environment_text()?.into();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let answer = libfabric::ask(&path).map(|answer| answer_of(path, answer));
    let line = json::line(&answer.map_err(|error| error.to_string()));
    let print = |line: Vec<u8>| io::stdout().write_all(&line).environment("cannot answer");
    let printed = line.and_then(print);
    if printed.is_ok() {
        // A provider may hang at the end of its process.
        let _ = kill_process(getpid(), Signal::KILL);
    }
    Some(printed)
}

fn answer_of(path: OsString, answer: libfabric::FabricAnswer) -> LibfabricAnswer {
    let (major, minor) = answer.version;
    let names = answer.parameters.into_iter().map(|(name, kind)| {
        let kind = match kind {
            1 => ParameterType::Int,
            2 => ParameterType::Bool,
            3 => ParameterType::Size,
            _ => ParameterType::Text,
        };
        (name, kind)
    });
    let mut providers: Vec<String> = Vec::new();
    for provider in answer.entries.iter().flat_map(|entry| entry.provider.split(';')) {
        if !providers.iter().any(|known| known == provider) {
            providers.push(provider.to_owned());
        }
    }
    let cxi = answer.entries.iter().find(|entry| entry.provider == "cxi");
    let maps = reading::text(Path::new("/proc/self/maps")).unwrap_or_default();
    let loaded = files_in(&maps, SONAME).into_iter().next();
    LibfabricAnswer {
        path: loaded.unwrap_or_else(|| path.to_string_lossy().into_owned()),
        version: format!("{major}.{minor}"),
        names: names.collect(),
        providers,
        tx_size: cxi.map(|entry| entry.tx_size),
        rx_size: cxi.map(|entry| entry.rx_size),
    }
}

/// The files in the memory map of a process, or in a list of its libraries, whose names begin so,
/// each once.
pub fn files_in(maps: &str, beginning: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for line in maps.lines() {
        // Addresses, rights, offset, device and inode precede the path.
        let Some(path) = line.find('/').and_then(|start| line.get(start..)) else { continue };
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with(beginning) && !files.iter().any(|file| file == path) {
            files.push(path.to_owned());
        }
    }
    files
}
