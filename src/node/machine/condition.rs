//! What makes CPUs and memory slower: idle states, throttling, missing memory, memory errors
//! (diagnosis.md 3.2).

use std::collections::BTreeMap;

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
    /// Errors that were corrected.
    pub corrected: u64,
    /// Errors that were not.
    pub uncorrected: u64,
}

impl Machine {
    /// Returns the idle state from which CPUs take longest to wake up, among the states that are
    /// not disabled; `None` if the kernel shows none.
    pub fn deepest_idle_state(&self) -> Option<IdleState> {
        let deepest = self.online_cpus().into_iter().filter_map(|cpu| {
            // A state with a larger number is deeper: the files of the others are not read, which
            // takes time on many CPUs.
            let mut states = self.numbered(&format!("{CPUS}/cpu{cpu}/cpuidle"), "state");
            states.sort_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
            let state = states
                .into_iter()
                .find(|state| self.number(format!("{state}/disable")) == Some(0))?;
            Some((self.number(format!("{state}/latency"))?, state))
        });
        let (latency_us, state) = deepest.max_by_key(|(latency, _)| *latency)?;
        let name = self.line(format!("{state}/name"))?;
        Some(IdleState { name, latency_us })
    }

    /// Returns how often CPUs were throttled since the last boot; `None` if the kernel does not
    /// count it.
    pub fn throttlings(&self) -> Option<u64> {
        let mut of_cores = Vec::new();
        // Each CPU of a package shows the count of the package.
        let mut of_packages: BTreeMap<Result<u64, u32>, u64> = BTreeMap::new();
        for cpu in self.online_cpus() {
            let number = |file: &str| self.number(format!("{CPUS}/cpu{cpu}/{file}"));
            of_cores.extend(number("thermal_throttle/core_throttle_count"));
            let Some(count) = number("thermal_throttle/package_throttle_count") else {
                continue;
            };
            // A CPU whose package is unknown is its own package.
            let package = number("topology/physical_package_id").ok_or(cpu);
            let of_package = of_packages.entry(package).or_default();
            *of_package = count.max(*of_package);
        }
        let counts = of_cores.into_iter().chain(of_packages.into_values());
        counts.reduce(u64::saturating_add)
    }

    /// Returns the memory of each NUMA node that has any: its number, and bytes.
    pub fn memory_of_nodes(&self) -> Vec<(u32, u64)> {
        let memory = |node: u32| {
            let text = self.read(format!("sys/devices/system/node/node{node}/meminfo"))?;
            let bytes = kilobytes(&text, "MemTotal:").filter(|bytes| *bytes > 0)?;
            Some((node, bytes))
        };
        self.nodes().into_iter().filter_map(memory).collect()
    }

    /// Returns the errors of the memory since the last boot; `None` if no controller counts them.
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

    /// Returns the entries of a directory whose names are `name` and a number.
    fn numbered(&self, directory: &str, name: &str) -> Vec<String> {
        let names = self.names(directory);
        let names = names.iter().filter_map(|of| of.to_str());
        let is_numbered = |of: &&str| {
            let number = of.strip_prefix(name);
            number.is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        };
        let numbered = names.filter(is_numbered);
        numbered.map(|of| format!("{directory}/{of}")).collect()
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
        assert_eq!(
            (bare.deepest_idle_state(), bare.throttlings()),
            (None, None)
        );
        for (cpu, state, name, latency, disable) in [
            (0, 0, "POLL", "0", "0"),
            (0, 1, "C1", "2", "0"),
            (1, 2, "C6", "133", "0"),
            (1, 3, "C8", "400", "1"),
            (2, 3, "C8", "400", "0"),
        ] {
            let directory = format!("{CPUS}/cpu{cpu}/cpuidle/state{state}");
            for (file, content) in [("name", name), ("latency", latency), ("disable", disable)] {
                made_up.write(&format!("{directory}/{file}"), &format!("{content}\n"));
            }
        }
        let deepest = made_up.machine().deepest_idle_state();
        let expected = IdleState {
            name: "C6".into(),
            latency_us: 133,
        };
        assert_eq!(deepest, Some(expected));
        for (cpu, of, count) in [(0, "core", 3), (1, "package", 4), (2, "core", 100)] {
            let file = format!("{CPUS}/cpu{cpu}/thermal_throttle/{of}_throttle_count");
            made_up.write(&file, &format!("{count}\n"));
        }
        assert_eq!(made_up.machine().throttlings(), Some(7));
    }

    #[test]
    fn counts_throttling_of_a_package_once() {
        let made_up = MadeUp::new(&[("sys/devices/system/cpu/online", "0-4\n")]);
        for (cpu, package, core, of_package) in [
            (0, "0", 1, 40),
            (1, "0", 2, 41),
            (2, "1", 0, 7),
            (3, "-1", 0, 5),
            (4, "-1", 0, 6),
        ] {
            let directory = format!("{CPUS}/cpu{cpu}");
            let write = |file: &str, content: String| {
                made_up.write(&format!("{directory}/{file}"), &format!("{content}\n"));
            };
            write("topology/physical_package_id", package.into());
            write("thermal_throttle/core_throttle_count", core.to_string());
            write(
                "thermal_throttle/package_throttle_count",
                of_package.to_string(),
            );
        }
        assert_eq!(made_up.machine().throttlings(), Some(3 + 41 + 7 + 5 + 6));
    }

    #[test]
    fn idle_state_with_the_largest_number_is_the_deepest() {
        let made_up = MadeUp::new(&[("sys/devices/system/cpu/online", "0\n")]);
        for (state, latency) in [(2, "20"), (9, "90"), (10, "100")] {
            let directory = format!("{CPUS}/cpu0/cpuidle/state{state}");
            for (file, content) in [("name", "C"), ("latency", latency), ("disable", "0")] {
                made_up.write(&format!("{directory}/{file}"), &format!("{content}\n"));
            }
        }
        let deepest = made_up.machine().deepest_idle_state();
        assert_eq!(deepest.map(|of| of.latency_us), Some(100));
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
        let expected = MemoryErrors {
            corrected: 7,
            uncorrected: 1,
        };
        assert_eq!(made_up.machine().memory_errors(), Some(expected));
    }
}
