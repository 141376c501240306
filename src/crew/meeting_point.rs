//! The meeting point of a survey: where its processes find the address and the token of their
//! coordinator, and how they join it. A launcher starts them on many nodes, and connects none of
//! them to another one.
//!
//! * Usually it is a file, readable by its owner only, in a directory that all nodes share. The
//!   coordinator writes it, and removes it at the end.
//! * Where the user has set a token in the environment of all processes, they need no file: the
//!   coordinator runs on the first host of the launcher's list, and its port follows from the
//!   numbers of job and step.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::time::{Duration, Instant};

use facts::error::{Failure, Kind, cause, invalid};
use facts::host::host_name;
use facts::number::time_text;
use facts::token::{TOKEN_VARIABLE, Token};
use facts::{interrupt, limit, net};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::introduction::Introduction;
use crate::launcher::LauncherTask;
use crate::star::{KnockAnswer, Meeting, Member, Work, knock};

/// Start of the name of a file, before job and step.
const FILE_NAME: &str = ".cxidiag-survey";

/// The largest file, in bytes.
const LARGEST_FILE: u64 = 64 << 10;

/// First of the ports that follow from job and step.
const FIRST_PORT: u16 = 20_000;

/// Number of these ports.
const PORTS: u64 = 10_000;

/// How long a process looks for the file of a coordinator that is there: a directory of another
/// host may change seconds later here.
pub const SIGHT_LIMIT: Duration = Duration::from_secs(5);

/// Interfaces of the high-speed network: the survey shall not depend on the links that it measures.
const HIGH_SPEED_INTERFACE: &str = "hsn";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPoint {
    File(PathBuf),
    /// The host and the port of the coordinator, and the token of the user.
    Agreed {
        /// The first host of the launcher's list.
        host: String,
        /// The port, which follows from job and step.
        port: u16,
        token: Token,
    },
}

/// What a process needs to reach its coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinator {
    /// Name of its host, for messages.
    pub host: String,
    /// Addresses to try, in this order.
    pub addresses: Vec<SocketAddr>,
    /// The token that both sides have.
    pub token: Token,
}

/// The contents of a file.
#[derive(Serialize, Deserialize)]
struct Contents {
    job: Option<String>,
    step: Option<String>,
    host: String,
    addresses: Vec<IpAddr>,
    port: u16,
    token: String,
}

impl MeetingPoint {
    /// The meeting point of the tasks of a launcher: the file `path` if the user names one; without
    /// a file if the user has set a `token`; otherwise a file in the working directory.
    ///
    /// # Errors
    ///
    /// A token, but no list of hosts of the launcher.
    pub fn of(
        task: &LauncherTask,
        path: Option<&Path>,
        token: Option<&Token>,
    ) -> Result<Self, Failure> {
        if let Some(path) = path {
            return Ok(Self::File(path.to_owned()));
        }
        let Some(token) = token else {
            return Ok(Self::File(file_name(task).into()));
        };
        let Some(host) = task.hosts.first() else {
            return Err(Failure::usage(format!(
                "{TOKEN_VARIABLE} is set, but {} has no list of hosts",
                task.launcher
            ))
            .with_hint(format!(
                "unset {TOKEN_VARIABLE}, or name a file that all nodes share with --meeting-point"
            )));
        };
        Ok(Self::Agreed { host: host.clone(), port: port(task), token: token.clone() })
    }

    pub fn is_coordinator(&self, task: &LauncherTask) -> bool {
        match (self, task.node_index, task.local_rank) {
            // Rank 0 may be on another node than the first one (jobs.md 2.1).
            (Self::Agreed { .. }, Some(node), Some(local_rank)) => node == 0 && local_rank == 0,
            _ => task.rank == 0,
        }
    }

    /// The port on which the coordinator must listen; `None` if any port will do.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::File(_) => None,
            Self::Agreed { port, .. } => Some(*port),
        }
    }

    /// The file at which the processes meet, from the root.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(absolute(path)),
            Self::Agreed { .. } => None,
        }
    }

    /// Publishes that the coordinator, `task`, listens on `port`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and one of another survey.
    pub fn publish(&self, task: &LauncherTask, port: u16) -> Result<PublishedCoordinator, Failure> {
        match self {
            Self::Agreed { token, .. } => {
                Ok(PublishedCoordinator { token: token.clone(), addresses: Vec::new(), file: None })
            }
            Self::File(path) => {
                let token = Token::random();
                let contents = Contents {
                    job: task.job.clone(),
                    step: task.step.clone(),
                    host: host_name(),
                    addresses: addresses(),
                    port,
                    token: token.text().to_string_lossy().into_owned(),
                };
                remove_left_over(path, task)?;
                let file = write(path, &contents).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => in_use(path),
                    _ => unusable(path, "write", &error),
                })?;
                Ok(PublishedCoordinator {
                    token,
                    addresses: contents.addresses,
                    file: Some((path.clone(), file)),
                })
            }
        }
    }
}

/// The name of the file of a task's job and step.
fn file_name(task: &LauncherTask) -> String {
    let ids = [&task.job, &task.step];
    let ids = ids.into_iter().flatten().map(|id| {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }
        };
        format!(".{}", id.chars().map(safe).collect::<String>())
    });
    ids.fold(FILE_NAME.to_owned(), |name, id| name + &id)
}

/// The port of a task's job and step: the FNV-1a hash of both. A coordinator listens there, if it
/// can, so that tasks which do not see its file learn why.
pub fn port(task: &LauncherTask) -> u16 {
    let ids = [&task.job, &task.step].map(|id| id.as_deref().unwrap_or_default());
    let hash = ids.join("/").bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    FIRST_PORT + (hash % PORTS) as u16
}

/// The addresses of this host that other hosts may reach, IPv4 before IPv6. Addresses of the
/// high-speed network are last. A host without other addresses returns its loopback addresses.
fn addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let mut usable: Vec<_> = interfaces
        .into_iter()
        .filter(|interface| !interface.is_loopback() && !interface.is_link_local())
        .map(|interface| {
            let is_high_speed = interface.name.starts_with(HIGH_SPEED_INTERFACE);
            (is_high_speed, interface.ip().is_ipv6(), interface.ip())
        })
        .collect();
    usable.sort();
    if usable.is_empty() {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    usable.into_iter().map(|(.., address)| address).collect()
}

/// The coordinator is published. The file is removed when this value is dropped.
#[derive(Debug)]
pub struct PublishedCoordinator {
    /// The token of the survey.
    pub token: Token,
    /// The addresses in the file.
    pub addresses: Vec<IpAddr>,
    /// The file, which is locked.
    file: Option<(PathBuf, File)>,
}

impl Drop for PublishedCoordinator {
    fn drop(&mut self) {
        if let Some((path, file)) = &self.file
            && let (Ok(found), Ok(own)) = (fs::symlink_metadata(path), file.metadata())
            && identity(&found) == identity(&own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns device and inode of a file.
fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Creates the file, which appears with its complete contents. Returns the file locked, if the file
/// system has locks: a file without a lock belongs to a coordinator that was killed.
fn write(path: &Path, contents: &Contents) -> io::Result<File> {
    let mut file = NamedTempFile::new_in(directory(path))?;
    file.write_all(serde_json::to_string(contents)?.as_bytes())?;
    let _ = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
    // Other nodes see what has reached the server of the directory.
    file.as_file().sync_all()?;
    Ok(file.persist_noclobber(path)?)
}

/// The directory of a file.
fn directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Removes the file of a coordinator that was killed.
fn remove_left_over(path: &Path, task: &LauncherTask) -> Result<(), Failure> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(path, "open", &error)),
    };
    let contents = contents(&file, path)?;
    let is_left_over = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        // Without locks: a step has one coordinator.
        Err(_) => contents.step.is_some() && contents.is_of(task),
    };
    if is_left_over {
        fs::remove_file(path).map_err(|error| unusable(path, "remove", &error))
    } else {
        Err(in_use(path))
    }
}

impl Contents {
    fn is_of(&self, task: &LauncherTask) -> bool {
        (&self.job, &self.step) == (&task.job, &task.step)
    }
}

fn in_use(path: &Path) -> Failure {
    Failure::environment(format!("{} is in use by another survey", path.display())).with_hint(
        "start this one in another directory, or with another --meeting-point; remove the file if \
         the other survey has ended",
    )
}

fn unusable(path: &Path, what: &str, error: &io::Error) -> Failure {
    Failure::environment(format!(
        "cannot {what} {}: {}",
        absolute(path).display(),
        cause(error)
    ))
    .with_hint(
        "the processes of a survey meet at this file: its directory must be writable and shared by \
         all nodes; --meeting-point names another file",
    )
}

/// A path from the root, for messages.
fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Contents>, Failure> {
    // Opening the directory makes NFS look up the names in it again.
    let _ = File::open(directory(path));
    match open(path) {
        Ok(file) => contents(&file, path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, "open", &error)),
    }
}

/// Opens a file that is not a symbolic link, without waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The contents of a file that only this user can write and read.
fn contents(file: &File, path: &Path) -> Result<Contents, Failure> {
    let refused = |why: &str| {
        let file = path.display();
        Failure::usage(invalid("meeting-point", file, why))
    };
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| unusable(path, "read", &error))?;
    if !metadata.is_file() {
        return Err(refused("expected the name of a regular file"));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(refused(&format!(
            "the file belongs to another user, with number {}",
            metadata.uid()
        )));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(refused("the file can be used by other users; its mode must be 600"));
    }
    let mut text = String::new();
    let read = file.take(LARGEST_FILE).read_to_string(&mut text);
    read.map_err(|error| unusable(path, "read", &error))?;
    serde_json::from_str(&text).map_err(|_| refused("the file is not that of a survey"))
}

impl Coordinator {
    fn of(contents: Contents, path: &Path) -> Result<Self, Failure> {
        let port = contents.port;
        let addresses = contents.addresses.into_iter();
        let token = Token::new(contents.token.as_ref()).ok_or_else(|| {
            let why = "the file has no token";
            Failure::usage(invalid("meeting-point", path.display(), why))
        })?;
        Ok(Self {
            host: contents.host,
            addresses: addresses.map(|address| (address, port).into()).collect(),
            token,
        })
    }
}

/// Shortest and longest time between two attempts to read the file.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Interval at which a process that does not see the file asks the coordinator.
const KNOCK_INTERVAL: Duration = Duration::from_millis(500);

impl MeetingPoint {
    /// Waits for the coordinator of `task` until `end`. A process that cannot connect to it calls
    /// this function again: a coordinator that was killed may have left its file, which the next
    /// one of the same job replaces.
    ///
    /// # Errors
    ///
    /// No file at `end`, a file that other users can write or read, a host without an address, and
    /// an interruption.
    pub fn find(&self, task: &LauncherTask, end: Instant) -> Result<Coordinator, Failure> {
        match self {
            Self::Agreed { host, port, token } => {
                let addresses = net::addresses(host, *port)?.map_err(|error| {
                    let reason = net::resolution(&error);
                    Failure::environment(format!("cannot resolve {host}: {reason}"))
                })?;
                Ok(Coordinator { host: host.clone(), addresses, token: token.clone() })
            }
            Self::File(path) => wait_for(path, task, end),
        }
    }
}

/// Waits until the coordinator of `task` has written its file. Without a file, asks the coordinator
/// on the first host of the launcher's list. The failure is printed by the coordinator, or else by
/// the first other task: all of them would print the same line.
///
/// # Errors
///
/// No file at `end`, one that other users can write or read, and an interruption.
fn wait_for(path: &Path, task: &LauncherTask, mut end: Instant) -> Result<Coordinator, Failure> {
    let since = Instant::now();
    let mut interval = INTERVALS.0;
    let mut next_knock = since + KNOCK_INTERVAL;
    let mut is_known = false;
    let other = loop {
        let other = match read(path)? {
            Some(contents) if contents.is_of(task) => return Coordinator::of(contents, path),
            other => other,
        };
        if !is_known && Instant::now() >= next_knock {
            match knock_at_first_host(task)? {
                Some(KnockAnswer::Failed(reason)) => {
                    return Err(Failure::environment(reason).printed());
                }
                Some(KnockAnswer::Waits) => {
                    is_known = true;
                    end = end.min(Instant::now() + limit::in_effect(SIGHT_LIMIT));
                }
                None => {}
            }
            next_knock = Instant::now() + KNOCK_INTERVAL;
        }
        let now = Instant::now();
        if now >= end {
            break other;
        }
        interrupt::wait_for_any(&mut Vec::new(), Some(interval.min(end - now)))?;
        interval = (interval * 2).min(INTERVALS.1);
    };
    let waited = time_text(Duration::from_secs(since.elapsed().as_secs()));
    let found = other.map(|contents| {
        let ids = [("job", contents.job), ("step", contents.step)];
        let ids = ids.map(|(what, id)| format!("{what} {}", id.unwrap_or("unknown".into())));
        format!("; the file is that of {}", ids.join(", "))
    });
    let failure = Failure::environment(format!(
        "the coordinator of the survey has not written {} in {waited}: the directory must be \
         shared by all nodes; --meeting-point names another file{}",
        absolute(path).display(),
        found.unwrap_or_default()
    ));
    let is_first = task.rank == 1;
    Err(if is_known || !is_first { failure.printed() } else { failure })
}

/// Asks the coordinator on the first host of the launcher's list, if it has one.
fn knock_at_first_host(task: &LauncherTask) -> Result<Option<KnockAnswer>, Failure> {
    let Some(host) = task.hosts.first() else {
        return Ok(None);
    };
    let addresses = net::addresses(host, port(task))?;
    Ok(addresses.ok().and_then(|found| knock(&found, task.rank)))
}

/// How long a process tries to reach one coordinator.
const ATTEMPT: Duration = Duration::from_secs(15);

/// Pause before the next attempt: a coordinator notes each process that it refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// Joins the coordinator. Looks for it again after a failure, because a killed coordinator may have
/// left its meeting point.
///
/// # Errors
///
/// A coordinator that is not found or refuses this process, and an interruption.
pub fn join<W: Work>(
    introduction: &Introduction,
    end: Instant,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<Member<W>, Failure> {
    let mut unreached: Option<Failure> = None;
    loop {
        // The next coordinator replaces what a killed one has left.
        let search_end = match unreached {
            Some(_) => end.min(Instant::now() + limit::in_effect(SIGHT_LIMIT)),
            None => end,
        };
        let Coordinator { addresses, token, .. } = match coordinator(search_end) {
            // A coordinator that could not be reached has removed its meeting point meanwhile.
            Err(failure) if failure.kind != Kind::Interrupted => {
                return Err(unreached.unwrap_or(failure));
            }
            found => found?,
        };
        let meeting = Meeting { addresses, token };
        let joined = Member::join(&meeting, introduction.clone(), ATTEMPT);
        match joined {
            Err(failure)
                if failure.kind != Kind::Interrupted
                    && !failure.is_printed()
                    && Instant::now() + PAUSE < end =>
            {
                interrupt::wait_for_any(&mut Vec::new(), Some(PAUSE))?;
                unreached = Some(failure);
            }
            joined => return joined,
        }
    }
}

#[cfg(test)]
#[path = "meeting_point_tests.rs"]
mod tests;
