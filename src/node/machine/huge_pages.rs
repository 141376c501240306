//! The kernel's pools of huge pages.

use cxi::HugePage;

use super::groups::{ControlGroup, GroupVersion};
use super::{Machine, MemoryBound};

/// The available huge pages of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Number of pages.
    pub free: u64,
    /// What limits the number.
    pub bound: MemoryBound,
}

impl Machine {
    /// Returns the huge pages of this size that this process can allocate: of the machine, of
    /// `node` if buffers are to lie there, and within the limits of the control groups. `None` if
    /// the kernel has no pages of this size.
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

    /// Returns the number of pages that a group may still use or reserve; `None` without a limit.
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

/// Returns the file in which the administrator sets the number of pages of this size.
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
