//! A process seen from outside, by its files in `/proc` (hangs.md 2): what it holds, and what its
//! threads do. Nothing here attaches to it or sends it a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use facts::number::decimal;
use node::machine::Machine;
use node::{backend, reading};

/// Beginnings of the names of communication libraries.
pub const LIBRARIES: [&str; 7] =
    ["libfabric.so", "libcxi.so", "libmpi", "libnccl.so", "librccl.so", "libsma", "libpmix.so"];

/// Parts of the names of kernel functions in which a thread sleeps (hangs.md 2.4).
const SLEEPS: [(Activity, &[&str]); 11] = [
    (Activity::MemoryMonitor, &["userfaultfd"]),
    (Activity::NicDriver, &["cxi", "cass_", "pin_user_pages", "mmu_notifier"]),
    (Activity::GpuDriver, &["nvidia", "amdgpu", "kfd", "i915", "xe_"]),
    (Activity::Lock, &["futex"]),
    // [I], seen on Linux 6.18
    (Activity::FileLock, &["locks_lock_inode", "fcntl_setlk"]),
    (Activity::Pipe, &["pipe_", "fifo_", "wait_for_partner"]),
    (Activity::Socket, &["unix_stream", "wait_woken", "sk_wait", "skb_wait", "inet_csk"]),
    (Activity::Descriptors, &["ep_poll", "epoll", "do_poll", "poll_schedule", "do_select"]),
    (Activity::Sleep, &["nanosleep"]),
    (Activity::Child, &["do_wait", "wait4"]),
    (Activity::Signal, &["pause", "sigsuspend", "sigtimedwait"]),
];

/// Beginnings of the names of kernel functions of file systems, behind underscores.
const FILE_SYSTEMS: [&str; 9] =
    ["nfs", "cl_", "lustre", "ll_", "osc_", "rpc_wait", "folio_wait", "fuse_", "io_schedule"];

/// System calls of x86-64 in which threads wait, where the kernel hides its functions.
const CALLS: [(&str, Activity); 13] = [
    ("0", Activity::Read),
    ("7", Activity::Descriptors),
    ("34", Activity::Signal),
    ("35", Activity::Sleep),
    ("45", Activity::Socket),
    ("47", Activity::Socket),
    ("61", Activity::Child),
    ("73", Activity::FileLock),
    ("202", Activity::Lock),
    ("230", Activity::Sleep),
    ("232", Activity::Descriptors),
    ("271", Activity::Descriptors),
    ("281", Activity::Descriptors),
];

/// The system call restart_syscall.
const RESTART: &str = if cfg!(target_arch = "x86_64") { "219" } else { "128" };

facts::named_enum! {
    /// What a thread does, as far as the kernel shows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Activity {
        /// A signal has stopped it.
        Stopped = "stopped by a signal",
        /// A debugger holds it.
        Traced = "held by a debugger",
        /// It has ended, and its parent has not noticed.
        Ended = "ended",
        /// It runs: it computes, or polls the network in user space.
        Runs = "computing or polling",
        /// It runs, mostly in the kernel: a loop that polls and yields the CPU.
        Yields = "polling and yielding",
        /// It waits for a lock, a condition or another thread.
        Lock = "waiting for another thread",
        /// It sleeps until a descriptor is ready.
        Descriptors = "sleeping until a descriptor is ready",
        /// It sleeps for a time.
        Sleep = "sleeping for a time",
        /// It waits for a signal.
        Signal = "waiting for a signal",
        /// It waits for a pipe.
        Pipe = "waiting for a pipe",
        /// It waits for a socket.
        Socket = "waiting for a socket",
        /// It reads from a descriptor.
        Read = "waiting in read()",
        /// It waits for a child process.
        Child = "waiting for a child process",
        /// It waits for a lock of a file.
        FileLock = "waiting for the lock of a file",
        /// It waits for a file system.
        Storage = "waiting for storage",
        /// It frees memory, which waits for the thread of the cache of memory regions.
        MemoryMonitor = "waiting for the monitor of registered memory",
        /// It is in the driver of the NIC.
        NicDriver = "waiting in the driver of the NIC",
        /// It is in the driver of a GPU.
        GpuDriver = "waiting in the driver of a GPU",
        /// It is in the kernel, in a sleep that no signal ends.
        Kernel = "waiting in the kernel",
        /// It sleeps, and the kernel does not show for what.
        Unknown = "sleeping",
        /// The readings differ.
        Changing = "changing between running and waiting",
    }
    /// Its name in texts.
    pub fn name(self);
}

impl Activity {
    /// Whether a thread runs, at least at times.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Runs | Self::Yields | Self::Changing)
    }
}

/// A thread at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSample {
    pub name: String,
    /// The letter of its state.
    pub state: char,
    /// Name of the kernel function in which it sleeps, if the kernel shows one.
    pub wait_channel: Option<String>,
    /// Number of its system call, if the kernel shows one.
    pub call: Option<String>,
    /// Ticks of CPU time in user space.
    pub user: u64,
    /// Ticks of CPU time in the kernel.
    pub system: u64,
}

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// When it was started, in ticks: tells processes with one number apart.
    pub start: u64,
    /// Its threads by number.
    pub threads: BTreeMap<u32, ThreadSample>,
}

/// What a process holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Holdings {
    /// The NICs that it has open.
    pub nics: Vec<String>,
    /// Whether it can sleep until a NIC has an event.
    pub has_wait_objects: bool,
    /// Estimate of its command queues: at least this number.
    pub command_queues: u32,
    /// Estimate of its event queues and counting events together: at least this number.
    pub event_queues: u32,
    /// Files of communication libraries that it has loaded.
    pub libraries: Vec<String>,
}

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Debug, Default)]
pub struct ProcessStat {
    pub name: String,
    pub state: char,
    pub parent: u32,
    user: u64,
    system: u64,
    pub start: u64,
}

/// The directory of a process.
pub fn directory(machine: &Machine, pid: u32) -> PathBuf {
    machine.root().join("proc").join(pid.to_string())
}

/// The numbers of all processes.
pub fn all(machine: &Machine) -> Vec<u32> {
    numbers(&machine.root().join("proc"))
}

fn numbers(directory: &Path) -> Vec<u32> {
    let names = reading::names(directory).unwrap_or_default().into_iter();
    let mut numbers: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads a file for which the kernel takes no lock of the process. Without the limit of
/// [`reading`], which starts a thread for each file: a job has thousands of threads.
fn kernel_text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// Reads the state of a process or thread; `None` if it has ended.
pub fn stat(directory: &Path) -> Option<ProcessStat> {
    let text = kernel_text(&directory.join("stat"))?;
    // The name may contain blanks and parentheses.
    let (name, fields) = text.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |place: usize| decimal(fields.get(place)?);
    Some(ProcessStat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(1)?).ok()?,
        user: number(11)?,
        system: number(12)?,
        start: number(19)?,
    })
}

/// The letters of the states of all threads of a process.
pub fn states(directory: &Path) -> Vec<char> {
    let tasks = directory.join("task");
    let states = numbers(&tasks).into_iter();
    states.filter_map(|tid| Some(stat(&tasks.join(tid.to_string()))?.state)).collect()
}

/// The memory map of a process; `None` if it is not readable.
pub fn maps(directory: &Path) -> Option<String> {
    reading::lossy_text(&directory.join("maps")).ok()
}

/// The value of a field of `/proc/PID/status`.
pub fn status_field(directory: &Path, name: &str) -> Option<String> {
    let text = kernel_text(&directory.join("status"))?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Some(values.next()?.trim().to_owned())
}

/// The environment with which a process was started; `None` if it is not readable.
pub fn environment(directory: &Path) -> Option<BTreeMap<String, String>> {
    let text = reading::lossy_text(&directory.join("environ")).ok()?;
    let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// A word of the command with which a process was started.
pub fn argument(directory: &Path, place: usize) -> Option<String> {
    kernel_text(&directory.join("cmdline"))?.split('\0').nth(place).map(str::to_owned)
}

/// Reads the threads of a process; `None` if the process has ended.
pub fn sample(directory: &Path) -> Option<ProcessSample> {
    let start = stat(directory)?.start;
    let tasks = directory.join("task");
    let read = |tid: u32| {
        let directory = tasks.join(tid.to_string());
        let ProcessStat { name, state, user, system, .. } = stat(&directory)?;
        // 0 stands for a thread that runs, and for a function that is hidden.
        let wait_channel = kernel_text(&directory.join("wchan"));
        let wait_channel = wait_channel.filter(|name| !name.is_empty() && name != "0");
        let call = kernel_text(&directory.join("syscall"));
        let call = call.and_then(|text| {
            let mut words = text.split_whitespace();
            words.next().filter(|word| decimal(word).is_some()).map(str::to_owned)
        });
        Some((tid, ThreadSample { name, state, wait_channel, call, user, system }))
    };
    let threads = numbers(&tasks).into_iter().filter_map(read).collect();
    Some(ProcessSample { start, threads })
}

/// Returns what a process holds; `None` if its descriptors or its memory map are not readable.
pub fn holdings(directory: &Path, page: u64) -> Option<Holdings> {
    let maps = maps(directory)?;
    let mut holdings = Holdings::default();
    let mut nics: BTreeSet<String> =
        backend::mapped_software(&maps).iter().map(ToString::to_string).collect();
    for name in reading::names(&directory.join("fd")).ok()? {
        let Ok(target) = fs::read_link(directory.join("fd").join(name)) else { continue };
        let target = target.to_string_lossy();
        nics.extend(nic(&target));
        // /sys/class/cxi_user/cxi0/clients/3/wait/1/intr
        holdings.has_wait_objects |= target.contains("/cxi_user/") && target.contains("/wait/");
    }
    let (mut small, mut large) = (0_u32, 0_u32);
    let mut libraries = BTreeSet::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').and_then(|start| line.get(start..)) else { continue };
        let name = path.rsplit('/').next().unwrap_or_default();
        if LIBRARIES.iter().any(|library| name.starts_with(library)) {
            libraries.insert(path.to_owned());
        }
        if nic(path).is_some() {
            nics.extend(nic(path));
            *(if length(line) > Some(page) { &mut large } else { &mut small }) += 1;
        }
    }
    // A command queue has a page for its control beside its commands (hangs.md 2.2).
    holdings.command_queues = large;
    holdings.event_queues = small.saturating_sub(large);
    holdings.nics = nics.into_iter().collect();
    holdings.libraries = libraries.into_iter().collect();
    Some(holdings)
}

/// The NIC whose device file has this path.
fn nic(path: &str) -> Option<String> {
    let number = path.strip_prefix("/dev/cxi")?;
    decimal(number).map(|number| format!("cxi{number}"))
}

/// The length of a mapping in bytes.
fn length(line: &str) -> Option<u64> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    address(end)?.checked_sub(address(start)?)
}

/// Returns what a thread does at one moment.
fn moment(thread: &ThreadSample) -> Activity {
    let function = thread.wait_channel.as_deref().unwrap_or_default();
    let is_in = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
    let name = function.trim_start_matches('_');
    let is_of_files = FILE_SYSTEMS.iter().any(|start| name.starts_with(start));
    let sleeps = SLEEPS.iter().find(|(_, parts)| is_in(parts)).map(|(activity, _)| *activity);
    match thread.state {
        'T' => Activity::Stopped,
        't' => Activity::Traced,
        'Z' | 'X' => Activity::Ended,
        'R' => Activity::Runs,
        'D' if is_of_files => Activity::Storage,
        'D' => sleeps.unwrap_or(Activity::Kernel),
        _ => sleeps.or_else(|| called(thread)).unwrap_or(Activity::Unknown),
    }
}

fn called(thread: &ThreadSample) -> Option<Activity> {
    let call = thread.call.as_deref()?;
    // A sleep that goes on after a tool was attached. Other calls show their functions then.
    if call == RESTART && thread.wait_channel.is_some() {
        return Some(Activity::Sleep);
    }
    let mut calls = CALLS.iter().filter(|_| std::env::consts::ARCH == "x86_64");
    calls.find(|(number, _)| *number == call).map(|(_, activity)| *activity)
}

/// Returns what a thread does in all its samples, the earliest first.
pub fn activity(samples: &[&ThreadSample]) -> Activity {
    let moments: BTreeSet<Activity> = samples.iter().map(|sample| moment(sample)).collect();
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Activity::Unknown;
    };
    let is_one = moments.len() == 1;
    match moment(last) {
        // These last until somebody ends them.
        state @ (Activity::Stopped | Activity::Traced | Activity::Ended) => state,
        Activity::Runs if is_one => {
            let user = last.user.saturating_sub(first.user);
            let system = last.system.saturating_sub(first.system);
            if system > 0 && system >= user { Activity::Yields } else { Activity::Runs }
        }
        state if is_one => state,
        _ => Activity::Changing,
    }
}

#[cfg(test)]
mod tests {
    use node::machine::testing::MadeUp;

    use super::*;

    fn thread(state: char, wait_channel: &str, call: &str) -> ThreadSample {
        let word = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ThreadSample {
            state,
            wait_channel: word(wait_channel),
            call: word(call),
            ..ThreadSample::default()
        }
    }

    #[test]
    fn states_and_kernel_functions_have_a_meaning() {
        for (state, function, call, expected) in [
            ('R', "", "", Activity::Runs),
            ('S', "futex_wait_queue", "", Activity::Lock),
            ('S', "ep_poll", "", Activity::Descriptors),
            ('S', "do_epoll_wait", "", Activity::Descriptors),
            ('S', "poll_schedule_timeout.constprop.0", "", Activity::Descriptors),
            ('S', "hrtimer_nanosleep", "", Activity::Sleep),
            ('S', "locks_lock_inode_wait", "", Activity::FileLock),
            ('S', "fcntl_setlk", "", Activity::FileLock),
            ('S', "anon_pipe_read", "", Activity::Pipe),
            ('S', "unix_stream_read_generic", "", Activity::Socket),
            ('S', "wait_woken", "", Activity::Socket),
            ('S', "sk_wait_data", "", Activity::Socket),
            ('D', "nfs_wait_bit_killable", "", Activity::Storage),
            ('D', "cl_sync_io_wait", "", Activity::Storage),
            ('D', "folio_wait_bit_common", "", Activity::Storage),
            ('D', "userfaultfd_event_wait_completion", "", Activity::MemoryMonitor),
            ('D', "cass_lpe_wait", "", Activity::NicDriver),
            ('D', "nvidia_unlocked_ioctl", "", Activity::GpuDriver),
            ('D', "", "", Activity::Kernel),
            ('T', "do_signal_stop", "", Activity::Stopped),
            ('t', "ptrace_stop", "", Activity::Traced),
            ('Z', "", "", Activity::Ended),
            ('S', "", "", Activity::Unknown),
        ] {
            assert_eq!(activity(&[&thread(state, function, call)]), expected, "{state} {function}");
        }
        if std::env::consts::ARCH == "x86_64" {
            assert_eq!(activity(&[&thread('S', "", "34")]), Activity::Signal);
            assert_eq!(activity(&[&thread('S', "", "0")]), Activity::Read);
            let again = thread('S', "do_syscall_64", "219");
            assert_eq!(activity(&[&again]), Activity::Sleep);
            assert_eq!(
                activity(&[&thread('S', "hrtimer_nanosleep", "230"), &again]),
                Activity::Sleep
            );
            assert_eq!(activity(&[&thread('S', "", "219")]), Activity::Unknown);
            assert_eq!(activity(&[&thread('S', "futex_do_wait", "219")]), Activity::Lock);
        }
    }

    #[test]
    fn compares_samples() {
        let at = |user, system| ThreadSample { user, system, ..thread('R', "", "") };
        assert_eq!(activity(&[&at(10, 10), &at(410, 10)]), Activity::Runs);
        assert_eq!(activity(&[&at(500, 10), &at(600, 110)]), Activity::Yields);
        assert_eq!(activity(&[&at(10, 10), &at(10, 10)]), Activity::Runs);
        let sleeping = thread('S', "ep_poll", "");
        assert_eq!(activity(&[&at(1, 1), &sleeping]), Activity::Changing);
        assert_eq!(activity(&[&at(1, 1), &thread('T', "", "")]), Activity::Stopped);
        assert_eq!(activity(&[]), Activity::Unknown);
    }

    #[test]
    fn reads_files_of_a_process() {
        let stat = "812 (a ) b) S 7 1 1 0 -1 4194304 1 0 0 0 40 2 0 0 20 0 2 0 99 1 1";
        let made_up = MadeUp::new(&[
            ("proc/812/stat", stat),
            ("proc/812/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nTracerPid:\t0\n"),
            ("proc/812/environ", "A=1\0B=x=y\0odd\0"),
            ("proc/812/task/812/stat", stat),
            ("proc/812/task/812/wchan", "ep_poll"),
            ("proc/812/task/812/syscall", "232 0x4 0x0"),
            ("proc/812/task/813/stat", "813 (w) R 7 1 1 0 -1 0 1 0 0 0 5 0 0 0 20 0 2 0 99 1 1"),
            ("proc/812/task/813/wchan", "0"),
            ("proc/812/task/813/syscall", "running"),
            ("proc/self/stat", ""),
        ]);
        assert_eq!(all(&made_up.machine()), [812]);
        let directory = directory(&made_up.machine(), 812);
        let read = sample(&directory).unwrap();
        let main = ThreadSample {
            name: "a ) b".into(),
            user: 40,
            system: 2,
            ..thread('S', "ep_poll", "232")
        };
        let worker = ThreadSample { name: "w".into(), user: 5, ..thread('R', "", "") };
        assert_eq!((read.start, &read.threads[&812], &read.threads[&813]), (99, &main, &worker));
        let environment = environment(&directory).unwrap();
        assert_eq!((environment["A"].as_str(), environment["B"].as_str()), ("1", "x=y"));
        assert_eq!(status_field(&directory, "TracerPid").as_deref(), Some("0"));
        assert_eq!(super::stat(&directory).unwrap().parent, 7);
        assert!(sample(&made_up.machine().root().join("proc/1")).is_none());
    }

    #[test]
    fn finds_nics_queues_and_libraries() {
        let maps = "7f00000000-7f00001000 rw-s 00000000 00:05 11 /dev/cxi0\n\
                    7f00001000-7f00011000 rw-s 00000000 00:05 11 /dev/cxi0\n\
                    7f00011000-7f00012000 rw-s 00000000 00:05 11 /dev/cxi0\n\
                    7f00012000-7f00013000 rw-s 00000000 00:05 11 /dev/cxi0\n\
                    7f00020000-7f00021000 r-xp 00000000 00:05 12 /opt/cray/libfabric.so.1.2\n\
                    7f00021000-7f00022000 rw-p 00000000 00:05 12 /opt/cray/libfabric.so.1.2\n\
                    7f00030000-7f00031000 rw-p 00000000 00:00 0 [heap]\n";
        let made_up = MadeUp::new(&[("proc/5/maps", maps)]);
        let directory = directory(&made_up.machine(), 5);
        assert_eq!(holdings(&directory, 4096), None, "no descriptors");
        fs::create_dir(directory.join("fd")).unwrap();
        for (name, target) in [
            ("3", "/dev/cxi1"),
            ("4", "/sys/class/cxi_user/cxi1/clients/3/wait/1/intr"),
            ("5", "/dev/null"),
        ] {
            std::os::unix::fs::symlink(target, directory.join("fd").join(name)).unwrap();
        }
        let expected = Holdings {
            nics: vec!["cxi0".into(), "cxi1".into()],
            has_wait_objects: true,
            command_queues: 1,
            event_queues: 2,
            libraries: vec!["/opt/cray/libfabric.so.1.2".into()],
        };
        assert_eq!(holdings(&directory, 4096), Some(expected));
    }
}
