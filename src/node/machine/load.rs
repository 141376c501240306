//! What the CPUs of this machine do.

use std::collections::HashMap;
use std::{fs, thread};

use super::Machine;

/// Processes that are named as users of the CPUs.
const MOST_NAMED: usize = 3;

/// Fewest CPUs that a named process uses.
const LEAST_CPUS: f64 = 0.1;

/// The load of the CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuLoad {
    /// Mean number of threads that ran or waited for a CPU, over a minute.
    pub mean: f64,
    /// Number of CPUs that this process may use.
    pub cpus: u32,
}

/// CPU times of all processes at a moment, by process.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes {
    seconds: HashMap<u32, (String, f64)>,
}

impl Machine {
    /// Returns the load of the CPUs, if the kernel tells it.
    pub fn load(&self) -> Option<CpuLoad> {
        let text = self.read("proc/loadavg")?;
        Some(CpuLoad { mean: text.split_whitespace().next()?.parse().ok()?, cpus: usable_cpus() })
    }

    /// Returns the CPU times of the processes that this user may see.
    pub fn cpu_times(&self) -> CpuTimes {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let processes = fs::read_dir(self.root.join("proc")).into_iter().flatten();
        let times = processes.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let id: u32 = name.to_str()?.parse().ok()?;
            // The process may have ended.
            let (command, ran) = times_of(&self.read(format!("proc/{id}/stat"))?)?;
            Some((id, (command, ran as f64 / ticks)))
        });
        CpuTimes { seconds: times.collect() }
    }
}

/// Returns the number of CPUs that this process may use, at least 1: of those in its affinity mask,
/// as many as its control group has time for.
pub fn usable_cpus() -> u32 {
    // The standard library sees no mask on a machine with more than 1,024 CPUs.
    let by_group = thread::available_parallelism().map_or(1, usize::from);
    let by_mask = cxi::placement::cpus().map_or(by_group, |cpus| cpus.len());
    by_group.min(by_mask).max(1) as u32
}

/// Returns the name of a process, and its CPU time in ticks, from its file `stat`.
fn times_of(stat: &str) -> Option<(String, u64)> {
    // The name is in parentheses, and may contain some.
    let (start, rest) = stat.rsplit_once(')')?;
    let (_, command) = start.split_once('(')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((command.to_owned(), user + system))
}

impl CpuTimes {
    /// Returns the names of the processes that used the CPUs most since `earlier`, which was
    /// `elapsed` seconds ago, each with the number of CPUs that it used. Processes of one name
    /// count together; processes of this program do not count.
    pub fn most_since(&self, earlier: &Self, elapsed: f64) -> Vec<(String, f64)> {
        let own = self.seconds.get(&std::process::id()).map(|(name, _)| name);
        let mut used: HashMap<&str, f64> = HashMap::new();
        for (id, (name, seconds)) in &self.seconds {
            if Some(name) != own {
                let before = earlier.seconds.get(id).map_or(0.0, |(_, before)| *before);
                *used.entry(name).or_default() += (seconds - before).max(0.0) / elapsed;
            }
        }
        let mut most: Vec<(String, f64)> = used
            .into_iter()
            .filter(|(_, cpus)| *cpus >= LEAST_CPUS)
            .map(|(name, cpus)| (name.to_owned(), cpus))
            .collect();
        most.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        most.truncate(MOST_NAMED);
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_load_and_times() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::new(Some(root.path().as_os_str()));
        assert_eq!(machine.load(), None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/loadavg", "4.25 3.00 2.00 5/300 1234\n");
        assert_eq!(machine.load().unwrap().mean, 4.25);
        let stat = |name: &str, user: u64| {
            format!("7 ({name}) R 1 7 7 0 -1 0 1 0 0 0 {user} 100 0 0 20 0 1 0 9 0 0\n")
        };
        write("proc/7/stat", &stat("a (b", 0));
        write("proc/8/stat", &stat("c", 100));
        let before = machine.cpu_times();
        write("proc/7/stat", &stat("a (b", 300));
        write("proc/8/stat", &stat("c", 100));
        write("proc/9/stat", &stat("c", 500));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let most = machine.cpu_times().most_since(&before, 2.0 / ticks * 100.0);
        assert_eq!(most, [("c".to_owned(), 3.0), ("a (b".to_owned(), 1.5)]);
    }
}
