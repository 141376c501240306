//! The libfabric of a job: which file it is, and what it says, asked in a process of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::evidence::{LibfabricAnswer, ParameterType};
use cxi::sys::libfabric;
use facts::child::{self, Duty};
use facts::error::{Context, Failure};
use facts::interrupt;
use node::reading;
use page::json;

/// Name of the library in each version.
pub const SONAME: &str = "libfabric.so.1";

/// Where Cray's versions lie, each in a directory of its own.
const CRAY: &str = "/opt/cray/libfabric";

/// How long the library may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Most bytes of an answer.
const MOST_BYTES: usize = 1 << 20;

/// Returns the file of libfabric that a program with this search path loads, below `root`: from
/// LD_LIBRARY_PATH, else Cray's newest; else its name, which the dynamic linker finds.
pub fn find(root: &Path, search_path: &str) -> PathBuf {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let directories = search_path.split(':').filter(|directory| !directory.is_empty());
    let own = directories.map(|directory| below(Path::new(directory)).join(SONAME));
    let mut cray: Vec<(Vec<u32>, PathBuf)> = reading::names(&below(Path::new(CRAY)))
        .unwrap_or_default()
        .into_iter()
        .map(|name| {
            let version = name.to_string_lossy().into_owned();
            let parts = version.split(|letter: char| !letter.is_ascii_digit());
            let numbers = parts.filter_map(|part| part.parse().ok()).collect();
            (numbers, below(Path::new(CRAY)).join(&name).join("lib64").join(SONAME))
        })
        .collect();
    cray.sort();
    let cray = cray.into_iter().rev().map(|(_, path)| path);
    own.chain(cray).find(|path| reading::exists(path)).unwrap_or_else(|| SONAME.into())
}

/// Asks the library at `path` in a child process with this environment.
///
/// # Errors
///
/// A library that cannot be loaded, and one that does not answer in time.
pub fn ask(
    path: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<LibfabricAnswer, Failure> {
    let mut command = child::command();
    command.env_clear().arg("check").process_group(0);
    // FI_PROVIDER would hide providers.
    let is_asked = |name: &OsString| {
        let name = name.to_string_lossy();
        !name.starts_with("FI_LOG_") && !matches!(&*name, "FI_HOOK" | "FI_PROVIDER" | "LD_PRELOAD")
    };
    command.envs(environment.iter().filter(|(name, _)| is_asked(name)));
    command.env("FI_HMEM", "system").env(Duty::LibfabricReader.variable(), path);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = child::start(&mut command)?;
    let text = process.stdout.take().map_or(Ok(None), output_within_limit);
    let _ = process.kill();
    let ended = process.wait();
    let what = path.display();
    let text = text?.ok_or_else(|| {
        Failure::environment(format!("{what} did not answer within {} s", LIMIT.as_secs()))
    })?;
    // A provider may print lines of its own.
    let line = text.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"{"));
    match line.map(json::read::<Result<LibfabricAnswer, String>>) {
        Some(Ok(answer)) => {
            answer.map_err(|reason| Failure::environment(format!("{what}: {reason}")))
        }
        _ => {
            let ended = ended.map_or_else(|error| error.to_string(), child::end_text);
            Err(Failure::environment(format!("{what}: {ended}")))
        }
    }
}

/// Returns all that a process prints; `None` if it takes too long or prints too much.
fn output_within_limit(mut stdout: ChildStdout) -> Result<Option<Vec<u8>>, Failure> {
    let end = Instant::now() + LIMIT;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while text.len() < MOST_BYTES {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !interrupt::wait(&stdout, PollFlags::IN, Some(left))? {
            return Ok(None);
        }
        match stdout.read(&mut part).environment("cannot read the answer of libfabric")? {
            0 => return Ok(Some(text)),
            count => text.extend_from_slice(&part[..count]),
        }
    }
    Ok(None)
}

/// Answers the process that has started this one, if it has: loads the library and prints what it
/// says.
pub fn answer_parent() -> Option<Result<(), Failure>> {
    let path: OsString = Duty::LibfabricReader.environment_text()?.into();
    let answer = libfabric::ask(&path).map(|answer| answer_of(path, answer));
    let line = json::line(&answer.map_err(|error| error.to_string()));
    let print = |line: Vec<u8>| io::stdout().write_all(&line).environment("cannot answer");
    Some(line.and_then(print))
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
    for entry in &answer.entries {
        for provider in entry.provider.split(';') {
            if !providers.iter().any(|known| known == provider) {
                providers.push(provider.to_owned());
            }
        }
    }
    let cxi = answer.entries.iter().find(|entry| entry.provider == "cxi");
    let maps = reading::text(Path::new("/proc/self/maps")).unwrap_or_default();
    let loaded = libraries(&maps, SONAME).into_iter().next();
    LibfabricAnswer {
        path: loaded.unwrap_or_else(|| path.to_string_lossy().into_owned()),
        version: format!("{major}.{minor}"),
        names: names.collect(),
        providers,
        tx_size: cxi.map(|entry| entry.tx_size),
        rx_size: cxi.map(|entry| entry.rx_size),
    }
}

/// Returns the files in the memory map of a process whose names begin so, each once.
pub fn libraries(maps: &str, beginning: &str) -> Vec<String> {
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
