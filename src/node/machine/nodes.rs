//! CPUs, NUMA nodes, the NUMA node of a NIC, and the cores near a NIC, shared out among the NICs of
//! a socket (node-tools.md 5.4).

use std::cmp::Reverse;

use super::memory::kilobytes;
use super::{Machine, list};
use crate::reading;
use facts::device::DeviceName;
use facts::number::decimal;

/// Directory of the NUMA nodes in the kernel, with one directory each.
const NODES: &str = "sys/devices/system/node";

impl Machine {
    /// The NUMA node of a NIC; `None` if the kernel reports -1, for no node, or if there is no such
    /// hardware (libcxi.md 12.4).
    pub fn node_of_device(&self, device: &str) -> Option<u32> {
        let path = format!("sys/class/cxi/{device}/device/numa_node");
        u32::try_from(self.number(path)?).ok()
    }

    /// The names of the NICs that the driver shows.
    pub fn cxi_devices(&self) -> Vec<String> {
        let names = reading::names(&self.root.join("sys/class/cxi")).unwrap_or_default();
        let names = names.into_iter();
        names.filter_map(|name| name.into_string().ok()).collect()
    }

    /// The NICs that the driver shows, in the order of their numbers.
    pub fn nics(&self) -> Vec<DeviceName> {
        let names = self.cxi_devices().into_iter();
        let mut nics: Vec<DeviceName> = names.filter_map(|name| name.parse().ok()).collect();
        nics.sort_by_key(|nic| nic.index);
        nics
    }

    /// Returns which of these PCI devices is nearest to a NIC: the one that shares most of the path
    /// of bridges with it, or else its NUMA node; the first of several. `None` if none shares
    /// anything.
    pub fn nearest(&self, nic: &str, addresses: &[Option<String>]) -> Option<usize> {
        let path = |name: String| reading::resolved(&self.root.join(name)).ok();
        let nic_path = path(format!("sys/class/cxi/{nic}/device"));
        let node = self.node_of_device(nic);
        let closeness = |address: &Option<String>| {
            let directory = format!("sys/bus/pci/devices/{}", address.as_ref()?);
            let device_node = self.number(format!("{directory}/numa_node"));
            let has_same_node = node.is_some_and(|node| device_node == Some(node.into()));
            let device_path = path(directory);
            let parts = nic_path.iter().flatten().zip(device_path.iter().flatten());
            let shared = parts.take_while(|(nic_part, device_part)| nic_part == device_part);
            let bridges = shared.filter(|(part, _)| part.to_string_lossy().contains(':')).count();
            Some((bridges, has_same_node)).filter(|closeness| *closeness > (0, false))
        };
        let devices = addresses.iter().enumerate();
        let close =
            devices.filter_map(|(index, address)| Some((closeness(address)?, Reverse(index))));
        close.max().map(|(_, Reverse(index))| index)
    }

    /// The MAC address of a NIC, of its last network interface by name; `None` without one.
    pub fn mac_of_device(&self, device: &str) -> Option<String> {
        let interfaces = self.root.join(format!("sys/class/cxi/{device}/device/net"));
        let names = reading::names(&interfaces).ok()?;
        let address = reading::text(&interfaces.join(names.iter().max()?).join("address")).ok()?;
        Some(address.trim().to_owned())
    }

    /// The revision of the driver of a NIC, if the driver shows it (health.md 2.1).
    pub fn driver_revision(&self, device: &str) -> Option<String> {
        self.line(format!("sys/class/cxi/{device}/device/properties/driver_rev"))
    }

    /// The version of the firmware of a NIC, if the driver shows it (health.md 2.1).
    pub fn firmware_version(&self, device: &str) -> Option<String> {
        self.line(format!("sys/class/cxi/{device}/device/uc/qspi_blob_version"))
    }

    /// The text of a file without spaces at its ends, unless it is empty.
    pub(super) fn line(&self, path: String) -> Option<String> {
        let text = self.read(path)?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The CPUs of a NUMA node, in order.
    pub fn cpus_of_node(&self, node: u32) -> Vec<u32> {
        let text = self.read(format!("{NODES}/node{node}/cpulist"));
        text.and_then(|text| list(text.trim())).unwrap_or_default()
    }

    /// The NUMA node of a CPU.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<u32> {
        self.nodes().into_iter().find(|node: &u32| self.cpus_of_node(*node).contains(&cpu))
    }

    /// Whether a NUMA node has memory.
    pub fn has_memory(&self, node: u32) -> bool {
        let text = self.read(format!("{NODES}/node{node}/meminfo"));
        text.and_then(|text| kilobytes(&text, "MemTotal:")) != Some(0)
    }

    /// The online CPUs, in order; empty if the kernel does not report them.
    pub fn online_cpus(&self) -> Vec<u32> {
        let text = self.read("sys/devices/system/cpu/online");
        text.and_then(|text| list(text.trim())).unwrap_or_default()
    }

    /// Returns how the kernel chooses the frequency of a CPU, such as `performance`.
    pub fn governor(&self, cpu: u32) -> Option<String> {
        self.line(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
    }

    /// The numbers of the NUMA nodes, in order.
    pub fn nodes(&self) -> Vec<u32> {
        let names = self.names(NODES);
        let number = |name: &str| decimal(name.strip_prefix("node")?);
        let mut nodes: Vec<u32> =
            names.iter().filter_map(|name| number(name.to_str()?)?.try_into().ok()).collect();
        nodes.sort_unstable();
        nodes
    }
}

impl Machine {
    /// Returns up to `count` CPUs among `allowed` for threads that load `device`: CPUs of the
    /// socket of the NIC, one of each core, in turn of each NUMA node. Other NICs of the socket get
    /// other cores.
    pub fn load_cpus(&self, device: &str, count: usize, allowed: &[u32]) -> Vec<u32> {
        let socket = self.socket_of(device);
        let mut nodes: Vec<Vec<u32>> = self
            .nodes()
            .into_iter()
            .map(|node| self.cpus_of_node(node))
            .filter(|cpus| {
                socket.is_none() || cpus.first().and_then(|cpu| self.socket(*cpu)) == socket
            })
            .collect();
        if nodes.is_empty() {
            nodes.push(allowed.to_vec());
        }
        for cpus in &mut nodes {
            cpus.retain(|cpu| allowed.contains(cpu) && self.is_first_of_core(*cpu));
        }
        let mut nics = self.cxi_devices();
        nics.retain(|nic| self.socket_of(nic) == socket);
        nics.sort_unstable();
        let first = nics.iter().position(|nic| nic == device).unwrap_or(0);
        let longest = nodes.iter().map(Vec::len).max().unwrap_or(0);
        let places = (first..longest).step_by(nics.len().max(1));
        let in_turn = places.flat_map(|place| nodes.iter().filter_map(move |cpus| cpus.get(place)));
        let mut cpus: Vec<u32> = in_turn.take(count).copied().collect();
        cpus.sort_unstable();
        cpus
    }

    /// The socket of a NIC, if it is on the NUMA node of one.
    fn socket_of(&self, device: &str) -> Option<u64> {
        let node = self.node_of_device(device)?;
        self.socket(*self.cpus_of_node(node).first()?)
    }

    fn socket(&self, cpu: u32) -> Option<u64> {
        self.number(format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"))
    }

    /// Whether no CPU of a lower number is a thread of the same core.
    fn is_first_of_core(&self, cpu: u32) -> bool {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let threads = self.read(path).and_then(|text| list(text.trim()));
        threads.is_none_or(|threads| threads.first() == Some(&cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::MadeUp;

    #[test]
    fn reads_cpus_and_nodes() {
        let made_up = MadeUp::new(&[
            ("sys/class/cxi/cxi0/device/numa_node", "1\n"),
            ("sys/class/cxi/cxi1/device/numa_node", "-1\n"),
            ("sys/class/cxi/cxi0/device/net/hsn0/address", "02:00:00:00:00:11\n"),
            ("sys/class/cxi/cxi0/device/net/hsn1/address", "02:00:00:00:00:12\n"),
            ("sys/class/cxi/cxi0/device/net/hsn00/address", "02:00:00:00:00:10\n"),
            ("sys/class/cxi/cxi0/device/properties/driver_rev", "1a2b3c\n"),
            ("sys/class/cxi/cxi0/device/uc/qspi_blob_version", "1.5.53\n"),
            ("sys/class/cxi/cxi1/device/uc/qspi_blob_version", "\n"),
            ("sys/devices/system/node/node0/cpulist", "0-3,8-11\n"),
            ("sys/devices/system/node/node1/cpulist", "4-7\n"),
            // A node with memory and without CPUs.
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/possible", "0-2\n"),
            ("sys/devices/system/cpu/online", "0-11\n"),
        ]);
        let machine = made_up.machine();
        assert_eq!(machine.node_of_device("cxi0"), Some(1));
        assert_eq!(machine.node_of_device("cxi1"), None);
        assert_eq!(machine.node_of_device("cxi2"), None);
        assert_eq!(machine.cpus_of_node(1), [4, 5, 6, 7]);
        assert!(machine.cpus_of_node(2).is_empty() && machine.cpus_of_node(3).is_empty());
        assert_eq!(machine.node_of_cpu(9), Some(0));
        assert_eq!(machine.node_of_cpu(4), Some(1));
        assert_eq!(machine.node_of_cpu(12), None);
        assert_eq!(machine.online_cpus().len(), 12);
        assert_eq!(machine.driver_revision("cxi0").as_deref(), Some("1a2b3c"));
        assert_eq!(machine.firmware_version("cxi0").as_deref(), Some("1.5.53"));
        assert_eq!(machine.driver_revision("cxi1"), None);
        assert_eq!(machine.firmware_version("cxi1"), None);
        let mut names = machine.cxi_devices();
        names.sort_unstable();
        assert_eq!(names, ["cxi0", "cxi1"]);
        assert_eq!(machine.mac_of_device("cxi0").as_deref(), Some("02:00:00:00:00:12"));
        assert_eq!(machine.mac_of_device("cxi1"), None);
        let meminfo = |node: u32| format!("sys/devices/system/node/node{node}/meminfo");
        made_up.write(&meminfo(0), "Node 0 MemTotal:  64 kB\n");
        made_up.write(&meminfo(1), "Node 1 MemTotal:  0 kB\n");
        assert_eq!([0, 1, 2].map(|node| machine.has_memory(node)), [true, false, true]);
    }

    /// Two sockets with two NUMA nodes each, of two cores with two threads.
    fn two_sockets() -> MadeUp {
        let made_up = MadeUp::new(&[]);
        for node in 0..4 {
            let (first, second) = (2 * node, 8 + 2 * node);
            let cpus = format!("{first}-{},{second}-{}\n", first + 1, second + 1);
            made_up.write(&format!("sys/devices/system/node/node{node}/cpulist"), &cpus);
        }
        for cpu in 0..16 {
            let (core, package) = (cpu % 8, cpu % 8 / 4);
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            made_up.write(&format!("{topology}/physical_package_id"), &format!("{package}\n"));
            let threads = format!("{core},{}\n", core + 8);
            made_up.write(&format!("{topology}/thread_siblings_list"), &threads);
        }
        for (nic, node) in [("cxi0", 1), ("cxi1", 0), ("cxi2", 3), ("cxi3", -1)] {
            let path = format!("sys/class/cxi/{nic}/device/numa_node");
            made_up.write(&path, &format!("{node}\n"));
        }
        made_up
    }

    #[test]
    fn shares_cores_of_the_socket_among_its_nics() {
        let (made_up, all) = (two_sockets(), (0..16).collect::<Vec<u32>>());
        let machine = made_up.machine();
        for (nic, count, expected) in [
            ("cxi0", 16, &[0, 2][..]),
            ("cxi1", 16, &[1, 3]),
            ("cxi2", 16, &[4, 5, 6, 7]),
            ("cxi2", 3, &[4, 5, 6]),
            ("cxi2", 2, &[4, 6]),
            ("cxi3", 16, &[0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            assert_eq!(machine.load_cpus(nic, count, &all), expected, "{nic} {count}");
        }
        assert_eq!(machine.load_cpus("cxi2", 16, &[5, 6, 12]), [5, 6], "12 is the thread of 4");
    }

    #[test]
    fn allowed_cpus_are_used_where_the_kernel_shows_no_nodes() {
        let machine = MadeUp::new(&[]);
        assert_eq!(machine.machine().load_cpus("soft0", 2, &[3, 4, 5]), [3, 4]);
    }
}
