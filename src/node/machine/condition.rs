//! What the CPUs of this machine do, and what makes CPUs and memory slower: idle states,
//! throttling, missing memory, memory errors (diagnosis.md 3.2).

use std::collections::{BTreeMap, HashMap};
use std::{fs, thread};

use super::Machine;
use super::memory::kilobytes;

/// Where the kernel shows the CPUs, and the controllers of the memory.
const CPUS: &str = "sys/devices/system/cpu";
const CONTROLLERS: &str = "sys/devices/system/edac/mc";

/// A state in which an idle CPU sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Time in which the CPU wakes up, in microseconds.
    pub latency_us: u64,
}

/// Errors that the memory controllers have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryErrors {
    pub corrected: u64,
    /// Errors that were not.
    pub uncorrected: u64,
}

impl Machine {
    /// The idle state from which CPUs take longest to wake up, among the states that are not
    /// disabled; `None` if the kernel shows none.
    pub fn deepest_idle_state(&self) -> Option<IdleState> {
        let states = self.online_cpus().into_iter().flat_map(|cpu| {
            let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
            self.numbered(&directory, "state").into_iter()
        });
        let enabled = states.filter(|state| self.number(format!("{state}/disable")) == Some(0));
        let state = |path: String| {
            Some(IdleState {
                latency_us: self.number(format!("{path}/latency"))?,
                name: self.line(format!("{path}/name"))?,
            })
        };
        enabled.filter_map(state).max_by_key(|state| state.latency_us)
    }

    /// Returns how often cores and packages were throttled since the last boot; `None` if the
    /// kernel does not count it. Each CPU of a core or package shows the same count.
    pub fn throttlings(&self) -> Option<u64> {
        let mut counts = BTreeMap::new();
        for cpu in self.online_cpus() {
            let number = |name: &str| self.number(format!("{CPUS}/cpu{cpu}/{name}"));
            let package = number("topology/physical_package_id").unwrap_or(cpu.into());
            let core = number("topology/core_id").unwrap_or(cpu.into());
            let core_count = number("thermal_throttle/core_throttle_count");
            let package_count = number("thermal_throttle/package_throttle_count");
            counts.extend(core_count.map(|count| ((package, Some(core)), count)));
            counts.extend(package_count.map(|count| ((package, None), count)));
        }
        counts.into_values().reduce(u64::saturating_add)
    }

    /// The memory of each NUMA node that has any: its number, and bytes.
    pub fn memory_of_nodes(&self) -> Vec<(u32, u64)> {
        let memory = |node: u32| {
            let text = self.read(format!("sys/devices/system/node/node{node}/meminfo"))?;
            let bytes = kilobytes(&text, "MemTotal:").filter(|bytes| *bytes > 0)?;
            Some((node, bytes))
        };
        self.nodes().into_iter().filter_map(memory).collect()
    }

    /// The errors of the memory since the last boot; `None` if no controller counts them.
    pub fn memory_errors(&self) -> Option<MemoryErrors> {
        let controllers = self.numbered(CONTROLLERS, "mc").into_iter();
        let errors = controllers.filter_map(|controller| {
            Some(MemoryErrors {
                corrected: self.number(format!("{controller}/ce_count"))?,
                uncorrected: self.number(format!("{controller}/ue_count"))?,
            })
        });
        errors.reduce(|one, other| MemoryErrors {
            corrected: one.corrected.saturating_add(other.corrected),
            uncorrected: one.uncorrected.saturating_add(other.uncorrected),
        })
    }

    /// The entries of a directory whose names are `name` and a number.
    fn numbered(&self, directory: &str, name: &str) -> Vec<String> {
        let names = self.names(directory);
        let names = names.iter().filter_map(|name| name.to_str());
        let is_numbered = |text: &&str| {
            let number = text.strip_prefix(name);
            number.is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        };
        let numbered = names.filter(is_numbered);
        numbered.map(|name| format!("{directory}/{name}")).collect()
    }
}

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
    /// The load of the CPUs, if the kernel tells it.
    pub fn load(&self) -> Option<CpuLoad> {
        let text = self.read("proc/loadavg")?;
        Some(CpuLoad { mean: text.split_whitespace().next()?.parse().ok()?, cpus: usable_cpus() })
    }

    /// The CPU times of the processes that this user may see.
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

/// The number of CPUs that this process may use, at least 1: of those in its affinity mask, as many
/// as its control group has time for.
pub fn usable_cpus() -> u32 {
    // The standard library sees no mask on a machine with more than 1,024 CPUs.
    let by_group = thread::available_parallelism().map_or(1, usize::from);
    let by_mask = cxi::placement::cpus().map_or(by_group, |cpus| cpus.len());
    by_group.min(by_mask).max(1) as u32
}

/// The name of a process, and its CPU time in ticks, from its file `stat`.
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
    /// The names of the processes that used the CPUs most since `earlier`, which was `elapsed`
    /// seconds ago, each with the number of CPUs that it used. Processes of one name count
    /// together; processes of this program do not count.
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
    use super::super::testing::MadeUp;
    use super::*;

    #[test]
    fn reads_idle_states_and_throttling_of_online_cpus() {
        let made_up = MadeUp::new(&[("sys/devices/system/cpu/online", "0-1\n")]);
        let bare = made_up.machine();
        assert_eq!((bare.deepest_idle_state(), bare.throttlings()), (None, None));
        for (cpu, state, name, latency, disable) in [
            (0, 0, "POLL", "0", "0"),
            (0, 1, "C1", "2", "0"),
            (1, 2, "C6", "133", "0"),
            (1, 3, "C8", "400", "1"),
            (2, 3, "C8", "400", "0"),
        ] {
            let directory = format!("{CPUS}/cpu{cpu}/cpuidle/state{state}");
            let other = format!("{CPUS}/cpu{cpu}/cpuidle/state");
            for (file, content) in [("name", name), ("latency", latency), ("disable", disable)] {
                made_up.write(&format!("{directory}/{file}"), &format!("{content}\n"));
            }
            for (file, content) in [("name", "C9"), ("latency", "900"), ("disable", "0")] {
                made_up.write(&format!("{other}/{file}"), content);
            }
        }
        let deepest = made_up.machine().deepest_idle_state();
        let expected = IdleState { name: "C6".into(), latency_us: 133 };
        assert_eq!(deepest, Some(expected));
        for (cpu, id, count) in [(0, "core", 3), (1, "package", 4), (2, "core", 100)] {
            let file = format!("{CPUS}/cpu{cpu}/thermal_throttle/{id}_throttle_count");
            made_up.write(&file, &format!("{count}\n"));
        }
        assert_eq!(made_up.machine().throttlings(), Some(7));
    }

    #[test]
    fn counts_throttling_once_for_each_core_and_package() {
        let made_up = MadeUp::new(&[("sys/devices/system/cpu/online", "0-7\n")]);
        for cpu in 0..8 {
            // Two packages of two cores with two CPUs each.
            let (package, core) = (cpu / 4, cpu / 2 % 2);
            for (file, number) in [
                ("topology/physical_package_id", package),
                ("topology/core_id", core),
                ("thermal_throttle/core_throttle_count", 1 + core),
                ("thermal_throttle/package_throttle_count", 10 + package),
            ] {
                made_up.write(&format!("{CPUS}/cpu{cpu}/{file}"), &format!("{number}\n"));
            }
        }
        assert_eq!(made_up.machine().throttlings(), Some(2 * (1 + 2) + 10 + 11));
    }

    #[test]
    fn reads_memory_and_its_errors() {
        let meminfo = |node: u32, kilobytes: u64| {
            (
                format!("sys/devices/system/node/node{node}/meminfo"),
                format!("Node {node} MemTotal:  {kilobytes} kB\nNode {node} MemFree: 1 kB\n"),
            )
        };
        let made_up = MadeUp::new(&[]);
        assert_eq!(made_up.machine().memory_errors(), None);
        for (path, text) in [meminfo(0, 1024), meminfo(1, 0), meminfo(2, 4)] {
            made_up.write(&path, &text);
        }
        let memory = made_up.machine().memory_of_nodes();
        assert_eq!(memory, [(0, 1 << 20), (2, 4096)]);
        for (controller, corrected, uncorrected) in [(0, 5, 0), (1, 2, 1)] {
            for (file, count) in [("ce_count", corrected), ("ue_count", uncorrected)] {
                let path = format!("{CONTROLLERS}/mc{controller}/{file}");
                made_up.write(&path, &format!("{count}\n"));
            }
        }
        let expected = MemoryErrors { corrected: 7, uncorrected: 1 };
        assert_eq!(made_up.machine().memory_errors(), Some(expected));
    }

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
