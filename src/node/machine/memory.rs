//! The memory that a process can allocate.

use std::fmt;

use super::Machine;
use super::groups::{ControlGroup, GroupVersion};
use facts::number::decimal;

/// The available memory, and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes that are available without swapping.
    pub bytes: u64,
    /// What limits them.
    pub bound: MemoryBound,
}

/// The limit of the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// The memory of the machine.
    Machine,
    /// The memory of one NUMA node.
    Node(u32),
    /// The limit of the control group of this name.
    Group(String),
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("on this machine"),
            Self::Node(node) => write!(f, "on NUMA node {node}"),
            Self::Group(name) => write!(f, "in the control group {name}"),
        }
    }
}

impl Machine {
    /// Returns the available memory: of the machine, of `node` if buffers are to lie there, and
    /// within the limits of the control groups. `None` if the kernel does not report it.
    pub fn available_memory(&self, node: Option<u32>) -> Option<Available> {
        let machine_available = self
            .available_on_machine()
            .map(|bytes| Available { bytes, bound: MemoryBound::Machine });
        let node_available = node.and_then(|node| {
            Some(Available { bytes: self.available_on_node(node)?, bound: MemoryBound::Node(node) })
        });
        let groups = self.groups("memory");
        let group_memories = groups.iter().filter_map(|group| {
            Some(Available {
                bytes: self.available_in(group)?,
                bound: MemoryBound::Group(group.name.clone()),
            })
        });
        let all = machine_available.into_iter().chain(node_available).chain(group_memories);
        all.min_by_key(|available| available.bytes)
    }

    fn available_on_machine(&self) -> Option<u64> {
        let text = self.read("proc/meminfo")?;
        kilobytes(&text, "MemAvailable:")
    }

    /// Returns the free memory and the reclaimable page cache of a node: what MemAvailable is for
    /// the machine. The kernel does not report MemAvailable for a node.
    fn available_on_node(&self, node: u32) -> Option<u64> {
        let text = self.read(format!("sys/devices/system/node/node{node}/meminfo"))?;
        let free = kilobytes(&text, "MemFree:")?;
        let reclaimable = ["Active(file):", "Inactive(file):", "SReclaimable:"]
            .map(|name| kilobytes(&text, name).unwrap_or(0));
        Some(free + reclaimable.iter().sum::<u64>())
    }

    /// Returns the memory that a group may still use, reclaimable page cache included; `None`
    /// without a limit.
    fn available_in(&self, group: &ControlGroup) -> Option<u64> {
        let (limit, usage, cached) = match group.version {
            GroupVersion::V1 => (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                ["total_active_file ", "total_inactive_file "],
            ),
            GroupVersion::V2 => {
                ("memory.max", "memory.current", ["active_file ", "inactive_file "])
            }
        };
        let file = |name| group.directory.join(name);
        let limit = self.number(file(limit))?;
        let used = self.number(file(usage))?;
        let stat = self.read(file("memory.stat")).unwrap_or_default();
        let cached = cached.map(|name| number_behind(&stat, name).unwrap_or(0));
        let used = used.saturating_sub(cached.iter().sum());
        Some(limit.saturating_sub(used))
    }
}

/// Returns the bytes of a line of meminfo, which is in kB.
pub(super) fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| {
        let (_, value) = line.split_once(name)?;
        // The meminfo of a node has its number before the name.
        Some(value)
    })?;
    decimal(line.trim().strip_suffix("kB")?.trim())?.checked_mul(1024)
}

/// Returns the number on the line that begins with `name`.
fn number_behind(text: &str, name: &str) -> Option<u64> {
    decimal(text.lines().find_map(|line| line.strip_prefix(name))?.trim())
}

#[cfg(test)]
mod tests {
    use super::super::testing::MadeUp;
    use super::*;

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  300 kB\nMemAvailable:  600 kB\n");

    fn available(made_up: &MadeUp, node: Option<u32>) -> Option<(u64, MemoryBound)> {
        let available = made_up.machine().available_memory(node)?;
        Some((available.bytes, available.bound))
    }

    #[test]
    fn reads_memory_of_machine_and_node() {
        let made_up = MadeUp::new(&[MEMINFO]);
        assert_eq!(available(&made_up, None), Some((600 << 10, MemoryBound::Machine)));
        made_up.write(
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemFree:   100 kB\nNode 1 Active(file): 20 kB\nNode 1 Inactive(file): 3 kB\n\
             Node 1 Active(anon): 7 kB\nNode 1 SReclaimable: 1 kB\n",
        );
        assert_eq!(available(&made_up, None), Some((600 << 10, MemoryBound::Machine)));
        assert_eq!(available(&made_up, Some(1)), Some((124 << 10, MemoryBound::Node(1))));
        assert_eq!(available(&made_up, Some(0)), Some((600 << 10, MemoryBound::Machine)));
        assert_eq!(available(&MadeUp::new(&[]), Some(0)), None);
    }

    #[test]
    fn applies_tightest_group() {
        let made_up = MadeUp::new(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/batch/job7\n"),
            ("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/batch/job7/memory.max", "max\n"),
            ("sys/fs/cgroup/batch/job7/memory.current", "1000\n"),
            ("sys/fs/cgroup/batch/memory.max", "5000\n"),
            ("sys/fs/cgroup/batch/memory.current", "4000\n"),
        ]);
        let group = |bytes| Some((bytes, MemoryBound::Group("/batch".into())));
        assert_eq!(available(&made_up, None), group(1000));
        made_up.write(
            "sys/fs/cgroup/batch/memory.stat",
            "anon 7\nfile 900\nactive_file 300\ninactive_file 400\n",
        );
        assert_eq!(available(&made_up, None), group(1700));
        made_up.write("sys/fs/cgroup/batch/memory.current", "9000\n");
        assert_eq!(available(&made_up, None), group(0));
    }

    #[test]
    fn reads_groups_of_version_1() {
        let made_up = MadeUp::new(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/job\n"),
            (
                "proc/self/mountinfo",
                "14 32 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8000\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000\n"),
            (
                "sys/fs/cgroup/memory/job/memory.stat",
                "inactive_file 50\ntotal_inactive_file 500\ntotal_active_file 100\n",
            ),
            // Without a limit, the file holds a number above the memory of any machine.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n"),
        ]);
        let expected = Some((2600, MemoryBound::Group("/job".into())));
        assert_eq!(available(&made_up, None), expected);
    }
}
