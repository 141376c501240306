//! The cores near a NIC, shared out among the NICs of a socket (node-tools.md 5.4).

use super::{Machine, list};

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

    /// Returns the socket of a NIC, if it is on the NUMA node of one.
    fn socket_of(&self, device: &str) -> Option<u64> {
        let node = self.node_of_device(device)?;
        self.socket(*self.cpus_of_node(node).first()?)
    }

    fn socket(&self, cpu: u32) -> Option<u64> {
        self.number(format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"))
    }

    /// Returns whether no CPU of a lower number is a thread of the same core.
    fn is_first_of_core(&self, cpu: u32) -> bool {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let threads = self.read(path).and_then(|text| list(text.trim()));
        threads.is_none_or(|threads| threads.first() == Some(&cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::MadeUp;

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
