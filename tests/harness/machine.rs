//! Machines described by files for `CXIDIAG_ROOT`, and real huge pages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::Command;

/// A machine described by the files of a test, which are removed with it.
pub struct MadeUp(tempfile::TempDir);

impl MadeUp {
    /// Writes these files, named without the leading slash.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().expect("a temporary directory"));
        for (path, text) in files {
            machine.write(path, text);
        }
        machine
    }

    /// A machine with the files of a text such as `tests/fixtures/nics/cassini1`.
    pub fn described_by(text: &str) -> Self {
        let machine = Self::new(&[]);
        machine.describe(text);
        machine
    }

    /// Writes the files of a text such as `tests/fixtures/nics/cassini1`. The content of
    /// `resource0` is its size, as the kernel shows BAR 0.
    pub fn describe(&self, text: &str) {
        let mut directory = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(named) = line.strip_prefix('[') {
                directory = named.trim_end_matches(']');
            } else {
                let (name, content) = line.split_once(": ").expect("a name and a content");
                let path = format!("{directory}/{name}");
                if name == "resource0" {
                    self.write(&path, "");
                    let file = File::options().write(true).open(self.path().join(path));
                    let length = content.parse().expect("a size");
                    file.and_then(|file| file.set_len(length)).expect("a file of this size");
                } else {
                    self.write(&path, &content.replace("\\n", "\n"));
                }
            }
        }
    }

    /// Writes a file, named without the leading slash.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(super::named(path));
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The content of a file, named without the leading slash.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).expect("a file")
    }

    /// A machine with this number of free huge pages of 2M and of 1G.
    pub fn with_huge_pages(free: [u64; 2]) -> Self {
        let pool = |size| format!("sys/kernel/mm/hugepages/hugepages-{size}kB/free_hugepages");
        let free = free.map(|free| format!("{free}\n"));
        Self::new(&[(&pool(2048), &free[0]), (&pool(1_048_576), &free[1])])
    }

    /// Makes `command` read the files of this machine.
    pub fn seen_by(&self, mut command: Command) -> Command {
        command.env("CXIDIAG_ROOT", self.path());
        command
    }
}

/// Real huge pages of one size, for one test at a time on this machine. Dropping it restores the
/// number of pages.
pub struct HugePages {
    /// Free pages.
    pub free: u64,
    setting: PathBuf,
    before: String,
    _one_at_a_time: File,
}

impl HugePages {
    /// Makes `count` free pages of `kilobytes`. Prints why and returns `None` if there are fewer
    /// than `least`.
    pub fn make(kilobytes: u64, count: u64, least: u64) -> Option<Self> {
        let lock = std::env::temp_dir().join("cxidiag-test-huge-pages.lock");
        let made = File::create(&lock)
            .and_then(|lock| {
                flock(&lock, FlockOperation::LockExclusive)?;
                Ok(lock)
            })
            .map_err(|error| error.to_string())
            .and_then(|lock| Self::set(kilobytes, count, least, lock));
        match made {
            Ok(pages) => Some(pages),
            Err(why) => {
                println!("not tested here, no {least} huge pages of {kilobytes} kB: {why}");
                None
            }
        }
    }

    fn set(kilobytes: u64, count: u64, least: u64, lock: File) -> Result<Self, String> {
        let pool = format!("/sys/kernel/mm/hugepages/hugepages-{kilobytes}kB");
        let pool = Path::new(&pool);
        let setting = pool.join("nr_hugepages");
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| error.to_string());
        let before = read(&setting)?;
        let number = |text: String| text.trim().parse::<u64>().map_err(|error| error.to_string());
        let there = number(before.clone())?;
        let mut pages = Self { free: 0, setting, before, _one_at_a_time: lock };
        let wanted = (there + count).to_string();
        fs::write(&pages.setting, wanted).map_err(|error| error.to_string())?;
        pages.free = number(read(&pool.join("free_hugepages"))?)?;
        if pages.free < least {
            return Err(format!("the kernel finds only {}", pages.free));
        }
        Ok(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(&self.setting, &self.before);
    }
}
