//! This machine, as the kernel shows it in `/sys` and `/proc`: CPUs and what they do, NUMA nodes,
//! huge pages, memory.
//!
//! All files are read below one directory: tests replace it by a made-up machine with
//! [`ROOT_VARIABLE`].
//!
//! Faults of software NICs plant single files in place of the machine's own
//! ([`Machine::with_files_of`]). Only what this module reads with `read` and `names` has them: not
//! [`Machine::root`], [`Machine::is_empty_directory`], and what other modules read below the root.

mod condition;
mod memory;
mod nodes;
pub mod placement;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::reading;
use facts::number::decimal;

pub use condition::{CpuTimes, usable_cpus};
pub use condition::{IdleState, MemoryErrors};
pub use memory::{Available, MemoryBound};
pub use memory::{Pool, setting};

/// Environment variable with the directory that is used instead of `/`.
pub const ROOT_VARIABLE: &str = "CXIDIAG_ROOT";

#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    /// Files that replace files below `root`.
    planted: Option<PathBuf>,
}

impl Machine {
    /// The machine below `root`, or without it the one that this program runs on.
    pub fn new(root: Option<&OsStr>) -> Self {
        let root = root.filter(|root| !root.is_empty());
        Self { root: root.map_or(Path::new("/"), Path::new).into(), planted: None }
    }

    /// The machine with the files below `directory` in place of its own, where `read` and `names`
    /// read them.
    pub fn with_files_of(self, directory: PathBuf) -> Self {
        Self { planted: Some(directory), ..self }
    }

    /// The machine that this program examines.
    pub fn this() -> Self {
        Self::new(std::env::var_os(ROOT_VARIABLE).as_deref())
    }

    /// The directory that is used instead of `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The clock source of the kernel, such as `tsc`.
    pub fn clock_source(&self) -> Option<String> {
        let name = self.read("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
        Some(name.trim().to_owned())
    }

    /// Returns what the kernel draws at each start of the machine.
    pub fn boot_id(&self) -> Option<String> {
        let id = self.read("proc/sys/kernel/random/boot_id")?;
        Some(id.trim().to_owned())
    }

    /// Whether a directory, named without the leading slash, exists and is empty.
    pub fn is_empty_directory(&self, path: &str) -> bool {
        reading::names(&self.root.join(path)).is_ok_and(|names| names.is_empty())
    }

    /// The contents of a file, named without the leading slash.
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let text_for = |root: &PathBuf| reading::text(&root.join(&path)).ok();
        self.planted.as_ref().and_then(text_for).or_else(|| text_for(&self.root))
    }

    /// The names of the entries of a directory, named without the leading slash.
    fn names(&self, path: &str) -> Vec<OsString> {
        let roots = self.planted.iter().chain([&self.root]);
        let names = roots.flat_map(|root| reading::names(&root.join(path)).unwrap_or_default());
        let mut names: Vec<OsString> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The number in a file.
    fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        decimal(self.read(path)?.trim())
    }
}

/// A limit of this process by its name in `/proc/self/limits`; `None` without a limit. getrlimit(2)
/// may be refused: services are often filtered so.
pub fn resource_limit(name: &str) -> Option<u64> {
    limit_in(&fs::read_to_string("/proc/self/limits").ok()?, name)
}

fn limit_in(limits: &str, name: &str) -> Option<u64> {
    let mut values = limits.lines().filter_map(|line| line.strip_prefix(name));
    // The soft limit, the hard limit and the unit.
    decimal(values.next()?.split_whitespace().next()?)
}

/// The file of the libcxi that this process has loaded, if it has; symbolic links such as
/// `libcxi.so.1` are resolved.
pub fn loaded_library() -> Option<String> {
    library_in(&fs::read_to_string("/proc/self/maps").ok()?)
}

/// The file of libcxi in the memory map of a process.
fn library_in(maps: &str) -> Option<String> {
    let mut files = maps.lines().filter_map(|line| {
        // Addresses, rights, offset, device and inode precede the path.
        let path = line.get(line.find('/')?..)?;
        let name = path.rsplit('/').next()?;
        name.starts_with("libcxi.so").then(|| path.to_owned())
    });
    files.next()
}

/// The numbers of a list such as `0-3,8`, in order; `None` if it is malformed.
pub fn list(text: &str) -> Option<Vec<u32>> {
    let number = |text| decimal(text).and_then(|number| u32::try_from(number).ok());
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || last > MAX_LISTED {
            return None;
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// Largest number in a list: above the numbers of CPUs and nodes in the kernel.
pub const MAX_LISTED: u32 = 8191;

/// The list of ordered numbers: `0-3,8`.
pub fn shown(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Made-up machines.

    use super::*;

    /// A made-up machine, in a directory that is deleted on drop.
    pub struct MadeUp {
        directory: tempfile::TempDir,
    }

    impl MadeUp {
        /// Creates a machine with only these files.
        pub fn new(files: &[(&str, &str)]) -> Self {
            let made_up = Self { directory: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                made_up.write(path, text);
            }
            made_up
        }

        /// Writes a file.
        pub fn write(&self, path: &str, text: &str) {
            let path = self.directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub fn machine(&self) -> Machine {
            Machine::new(Some(self.directory.path().as_os_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn planted_files_replace_own_ones() {
        let own = testing::MadeUp::new(&[("sys/a/x1", "1"), ("sys/a/x2", "2")]);
        let planted = testing::MadeUp::new(&[("sys/a/x2", "20"), ("sys/a/x3", "30")]);
        let directory = planted.machine().root().to_owned();
        let machine = own.machine().with_files_of(directory);
        let numbers = ["x1", "x2", "x3", "x4"].map(|name| machine.number(format!("sys/a/{name}")));
        assert_eq!(numbers, [Some(1), Some(20), Some(30), None]);
        assert_eq!(machine.names("sys/a"), ["x1", "x2", "x3"]);
    }

    #[test]
    fn reads_soft_limits() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max stack size            8388608              unlimited            bytes\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit_in(limits, "Max stack size"), Some(8 << 20));
        assert_eq!(limit_in(limits, "Max address space"), None);
        assert_eq!(limit_in("", "Max stack size"), None);
    }

    #[test]
    fn finds_library_in_memory_map() {
        let maps = "55d0-55d1 r--p 00000000 08:01 11                 /usr/bin/cxidiag\n\
                    7f00-7f01 r-xp 00000000 08:01 12                 /usr/lib64/libcxi.so.1.5.0\n\
                    7f02-7f03 rw-p 00000000 00:00 0\n";
        let library = library_in(maps);
        assert_eq!(library.as_deref(), Some("/usr/lib64/libcxi.so.1.5.0"));
        assert_eq!(library_in("7f02-7f03 rw-p 00000000 00:00 0 [heap]\n"), None);
    }

    #[test]
    fn parses_and_prints_lists_of_kernel() {
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(list("8,0-3,2-4"), Some(vec![0, 1, 2, 3, 4, 8]));
        assert_eq!(shown(&[0, 1, 2, 3, 8]), "0-3,8");
        let many: Vec<u32> = (0..2048).collect();
        assert_eq!(list("0-2047").as_ref(), Some(&many));
        assert_eq!(shown(&many), "0-2047");
        assert_eq!(shown(&[1, 3]), "1,3");
        assert_eq!(shown(&[]), "");
        for none in [
            "",
            ",",
            "1,",
            "3-1",
            "-1",
            "1-",
            "x",
            "1 ",
            "0x1",
            "+1",
            "8192",
            "0-99999999999",
            "1-2-3",
        ] {
            assert_eq!(list(none), None, "{none:?}");
        }
    }

    proptest! {
        #[test]
        fn a_list_comes_back(numbers in prop::collection::btree_set(0..=MAX_LISTED, 1..40)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            prop_assert_eq!(list(&shown(&numbers)), Some(numbers));
        }

        #[test]
        fn any_text_is_read(text in "[0-9,x -]{0,24}") {
            let _ = list(&text);
        }
    }
}
