//! The memory that a process can allocate: the control groups that it is in, and the kernel's pools
//! of huge pages.

use std::fmt;
use std::path::{Path, PathBuf};

use cxi::HugePage;

use super::Machine;
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
    /// The available memory: of the machine, of `node` if buffers are to lie there, and within the
    /// limits of the control groups. `None` if the kernel does not report it.
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

    /// The free memory and the reclaimable page cache of a node: what MemAvailable is for the
    /// machine. The kernel does not report MemAvailable for a node.
    fn available_on_node(&self, node: u32) -> Option<u64> {
        let text = self.read(format!("sys/devices/system/node/node{node}/meminfo"))?;
        let free = kilobytes(&text, "MemFree:")?;
        let reclaimable = ["Active(file):", "Inactive(file):", "SReclaimable:"]
            .map(|name| kilobytes(&text, name).unwrap_or(0));
        Some(free + reclaimable.iter().sum::<u64>())
    }

    /// The memory that a group may still use, reclaimable page cache included; `None` without a
    /// limit.
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

/// The bytes of a line of meminfo, which is in kB.
pub(super) fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| {
        let (_, value) = line.split_once(name)?;
        // The meminfo of a node has its number before the name.
        Some(value)
    })?;
    decimal(line.trim().strip_suffix("kB")?.trim())?.checked_mul(1024)
}

/// The number on the line that begins with `name`.
fn number_behind(text: &str, name: &str) -> Option<u64> {
    decimal(text.lines().find_map(|line| line.strip_prefix(name))?.trim())
}

/// The cgroup version, which determines a group's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupVersion {
    /// Version 1: one hierarchy for each controller.
    V1,
    /// Version 2: one hierarchy for all controllers.
    V2,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    pub version: GroupVersion,
    /// Its name in the part of the hierarchy that this process sees: `/batch/job7`.
    pub name: String,
    /// Its directory, without the leading slash.
    pub directory: PathBuf,
}

impl Machine {
    /// The groups of this process that may have limits of `controller`: its own and all parents.
    pub(super) fn groups(&self, controller: &str) -> Vec<ControlGroup> {
        let own = self.read("proc/self/cgroup").unwrap_or_default();
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            let version = match controllers {
                "" => GroupVersion::V2,
                v1 if v1.split(',').any(|name| name == controller) => GroupVersion::V1,
                _ => continue,
            };
            let is_its = |mount: &&Mount| mount.holds(version, controller);
            if let Some(mount) = mounts.iter().find(is_its) {
                groups.extend(mount.groups(version, path));
            }
        }
        groups
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// The mounted part of the file system.
    root: &'a str,
    /// The mount point.
    place: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let mut fields = system.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        Some(Self { root, place, kind, options })
    }

    fn holds(&self, version: GroupVersion, controller: &str) -> bool {
        match version {
            GroupVersion::V1 => {
                self.kind == "cgroup" && self.options.split(',').any(|name| name == controller)
            }
            GroupVersion::V2 => self.kind == "cgroup2",
        }
    }

    /// The group at `path` and its parents, as far as they are mounted.
    fn groups(&self, version: GroupVersion, path: &str) -> Vec<ControlGroup> {
        // In a container, the root of the mount may be the group with its full path on the host.
        let below = Path::new(path).strip_prefix(self.root);
        let below = below.unwrap_or(Path::new("")).to_owned();
        let place = Path::new(self.place.trim_start_matches('/'));
        below
            .ancestors()
            .map(|below| ControlGroup {
                version,
                name: format!("/{}", below.display()),
                directory: place.join(below),
            })
            .collect()
    }
}

/// The available huge pages of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Number of pages.
    pub free: u64,
    /// What limits the number.
    pub bound: MemoryBound,
}

impl Machine {
    /// The huge pages of this size that this process can allocate: of the machine, of `node` if
    /// buffers are to lie there, and within the limits of the control groups. `None` if the kernel
    /// has no pages of this size.
    ///
    /// Free pages that another process has reserved are not counted (defect T33 of tools.md). Pages
    /// that the kernel creates on demand, with the administrator's permission, are counted.
    pub fn huge_pages(&self, size: HugePage, node: Option<u32>) -> Option<Pool> {
        let name = directory(size);
        let machine_count = |file| self.number(format!("sys/kernel/mm/hugepages/{name}/{file}"));
        let zero_or = |number: Option<u64>| number.unwrap_or(0);
        let free = machine_count("free_hugepages")?;
        let reserved = zero_or(machine_count("resv_hugepages"));
        let made = zero_or(machine_count("surplus_hugepages"));
        let more = zero_or(machine_count("nr_overcommit_hugepages")).saturating_sub(made);
        let machine_pool =
            Pool { free: (free + more).saturating_sub(reserved), bound: MemoryBound::Machine };
        let node_pool = node.and_then(|node| {
            let file =
                format!("sys/devices/system/node/node{node}/hugepages/{name}/free_hugepages");
            Some(Pool { free: self.number(file)? + more, bound: MemoryBound::Node(node) })
        });
        let groups = self.groups("hugetlb");
        let group_pools = groups.iter().filter_map(|group| {
            Some(Pool {
                free: self.huge_bytes_in(group, size)? / size.bytes(),
                bound: MemoryBound::Group(group.name.clone()),
            })
        });
        let all = [machine_pool].into_iter().chain(node_pool).chain(group_pools);
        all.min_by_key(|pool| pool.free)
    }

    /// The number of pages that a group may still use or reserve; `None` without a limit.
    fn huge_bytes_in(&self, group: &ControlGroup, size: HugePage) -> Option<u64> {
        let size_text = match size {
            HugePage::Mib2 => "hugetlb.2MB",
            HugePage::Gib1 => "hugetlb.1GB",
        };
        let (limit, usage) = match group.version {
            GroupVersion::V1 => ("limit_in_bytes", "usage_in_bytes"),
            GroupVersion::V2 => ("max", "current"),
        };
        let left = |kind: &str| {
            let file = |which| group.directory.join(format!("{size_text}{kind}.{which}"));
            Some(self.number(file(limit))?.saturating_sub(self.number(file(usage))?))
        };
        [left(""), left(".rsvd")].into_iter().flatten().min()
    }
}

/// The file in which the administrator sets the number of pages of this size.
pub fn setting(size: HugePage) -> String {
    format!("/sys/kernel/mm/hugepages/{}/nr_hugepages", directory(size))
}

fn directory(size: HugePage) -> String {
    format!("hugepages-{}kB", size.bytes() / 1024)
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

    fn names(groups: &[ControlGroup]) -> Vec<(GroupVersion, &str, &str)> {
        let text = |group: &ControlGroup| {
            let directory = group.directory.to_str().unwrap();
            (group.version, group.name.clone(), directory.to_owned())
        };
        let texts: Vec<_> = groups.iter().map(text).collect();
        texts
            .leak()
            .iter()
            .map(|(version, name, directory)| (*version, name.as_str(), directory.as_str()))
            .collect()
    }

    #[test]
    fn finds_groups_of_version_2() {
        let made_up = MadeUp::new(&[
            ("proc/self/cgroup", "0::/batch/job7\n"),
            (
                "proc/self/mountinfo",
                "22 1 0:20 / / rw - ext4 /dev/vda rw\n\
                 30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let groups = made_up.machine().groups("memory");
        assert_eq!(
            names(&groups),
            [
                (GroupVersion::V2, "/batch/job7", "sys/fs/cgroup/batch/job7"),
                (GroupVersion::V2, "/batch", "sys/fs/cgroup/batch"),
                (GroupVersion::V2, "/", "sys/fs/cgroup/"),
            ]
        );
    }

    #[test]
    fn finds_groups_of_version_1() {
        let made_up = MadeUp::new(&[
            ("proc/self/cgroup", "5:cpuset:/x\n4:memory,hugetlb:/docker/abc\n0::/\nnonsense\n"),
            (
                "proc/self/mountinfo",
                "14 32 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,hugetlb\n",
            ),
        ]);
        let groups = made_up.machine().groups("hugetlb");
        let root = (GroupVersion::V1, "/", "sys/fs/cgroup/memory/");
        assert_eq!(names(&groups), [root]);
        assert!(made_up.machine().groups("cpuset").is_empty());
        assert!(MadeUp::new(&[]).machine().groups("memory").is_empty());
    }

    const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

    fn pool(made_up: &MadeUp, node: Option<u32>) -> Option<(u64, MemoryBound)> {
        let pool = made_up.machine().huge_pages(HugePage::Mib2, node)?;
        Some((pool.free, pool.bound))
    }

    #[test]
    fn t33_ignores_reserved_pages_and_counts_by_node() {
        let made_up = MadeUp::new(&[
            (&format!("{POOL}/free_hugepages"), "10\n"),
            (&format!("{POOL}/resv_hugepages"), "7\n"),
        ]);
        assert_eq!(pool(&made_up, None), Some((3, MemoryBound::Machine)));
        let node = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages";
        made_up.write(node, "2\n");
        assert_eq!(pool(&made_up, None), Some((3, MemoryBound::Machine)));
        assert_eq!(pool(&made_up, Some(1)), Some((2, MemoryBound::Node(1))));
        assert_eq!(pool(&made_up, Some(0)), Some((3, MemoryBound::Machine)));
    }

    #[test]
    fn counts_pages_on_demand() {
        let made_up = MadeUp::new(&[
            (&format!("{POOL}/free_hugepages"), "1\n"),
            (&format!("{POOL}/nr_overcommit_hugepages"), "5\n"),
            (&format!("{POOL}/surplus_hugepages"), "3\n"),
        ]);
        assert_eq!(pool(&made_up, None), Some((3, MemoryBound::Machine)));
        made_up.write(&format!("{POOL}/resv_hugepages"), "9\n");
        assert_eq!(pool(&made_up, None), Some((0, MemoryBound::Machine)));
    }

    #[test]
    fn applies_limits_of_groups() {
        let made_up = MadeUp::new(&[
            (&format!("{POOL}/free_hugepages"), "10\n"),
            ("proc/self/cgroup", "0::/job\n"),
            ("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.max", "8388608\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.current", "2097152\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.rsvd.max", "max\n"),
            ("sys/fs/cgroup/job/hugetlb.1GB.max", "0\n"),
            ("sys/fs/cgroup/job/hugetlb.1GB.current", "0\n"),
        ]);
        let group = |pages| Some((pages, MemoryBound::Group("/job".into())));
        assert_eq!(pool(&made_up, None), group(3));
        made_up.write("sys/fs/cgroup/job/hugetlb.2MB.rsvd.max", "6291456\n");
        made_up.write("sys/fs/cgroup/job/hugetlb.2MB.rsvd.current", "4194304\n");
        assert_eq!(pool(&made_up, None), group(1));
    }

    #[test]
    fn returns_none_without_pages_of_size() {
        let made_up = MadeUp::new(&[(&format!("{POOL}/free_hugepages"), "1\n")]);
        assert_eq!(made_up.machine().huge_pages(HugePage::Gib1, None), None);
        assert_eq!(
            setting(HugePage::Gib1),
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
        );
    }
}
