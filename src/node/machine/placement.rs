//! The CPUs of the measuring thread, and the NUMA node of its memory.
//!
//! A NIC belongs to one NUMA node. Events and data arrive later on other nodes, and CPU 0 serves
//! interrupts and other work (libcxi.md 12.4).

use std::str::FromStr;

use cxi::placement::{self as thread, Confined, Preferred};

use super::{Machine, list, shown};
use crate::explain::Explain;
use facts::advice;
use facts::device::DeviceName;
use facts::error::{Failure, invalid};

/// The CPUs that `--cpu` requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cpus {
    #[default]
    Any,
    /// One near the NIC.
    Auto,
    /// These, in order.
    List(Vec<u32>),
}

/// Description of valid values of `--cpu`, for messages.
const CPUS: &str = "expected auto, or CPU numbers from 0 to 8191, such as 2 or 0-3,8";

impl FromStr for Cpus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => list(text).map(Self::List).ok_or(CPUS),
        }
    }
}

/// Writes the value as typed; nothing for the default.
impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Auto => f.write_str("auto"),
            Self::List(cpus) => f.write_str(&shown(cpus)),
        }
    }
}

/// The chosen CPUs of the measuring threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs, in order; empty for any CPU.
    pub cpus: Vec<u32>,
    /// The NUMA node that all CPUs share, for the memory, if there is one and it has memory.
    pub node: Option<u32>,
    /// The CPUs that several threads share out among themselves, the best first: the listed ones,
    /// or those near the NIC.
    pub for_threads: Vec<u32>,
}

impl Placement {
    /// Chooses CPUs for a thread that measures with `device`, as `cpus` requests. The `second` of
    /// two processes of a loopback run gets another CPU, if there is one.
    ///
    /// # Errors
    ///
    /// CPUs that are not online, and an error of the kernel.
    pub fn choose(
        cpus: &Cpus,
        device: DeviceName,
        machine: &Machine,
        second: bool,
    ) -> Result<Self, Failure> {
        let by_preference = || {
            let allowed = thread::cpus().explain(ASK)?;
            let node = machine.node_of_device(&device.to_string());
            let near = node.map_or(Vec::new(), |node| machine.cpus_of_node(node));
            Ok::<_, Failure>(by_preference(&near, &allowed))
        };
        let (cpus, for_threads) = match cpus {
            Cpus::Any => {
                return Ok(Self { for_threads: by_preference()?, ..Self::default() });
            }
            Cpus::Auto => {
                let choice = by_preference()?;
                (vec![best(&choice, second)], choice)
            }
            Cpus::List(list) => {
                let online = machine.online_cpus();
                let missing = |cpu: &&u32| !online.is_empty() && !online.contains(cpu);
                if let Some(cpu) = list.iter().find(missing) {
                    let allowed = format!("CPU {cpu} is not online (online: {})", shown(&online));
                    let rule = invalid("cpu", cpus, allowed);
                    return Err(Failure::usage(rule.to_string()));
                }
                (list.clone(), list.clone())
            }
        };
        let mut nodes = cpus.iter().map(|cpu| machine.node_of_cpu(*cpu));
        let first = nodes.next().flatten();
        Ok(Self {
            node: first
                .filter(|_| nodes.all(|node| node == first))
                .filter(|node| machine.has_memory(*node)),
            cpus,
            for_threads,
        })
    }

    /// A CPU for each of `count` threads. Threads share CPUs if there are too few. The `second` of
    /// two processes of a loopback run begins with the CPUs that the first has left.
    pub fn thread_cpus(&self, count: usize, second: bool) -> Vec<u32> {
        let first = if second { count } else { 0 };
        let choice = self.for_threads.iter().cycle().skip(first);
        choice.take(count).copied().collect()
    }

    /// Moves the calling thread to the CPUs and its memory to their node.
    ///
    /// # Errors
    ///
    /// CPUs that this process may not use.
    pub fn take(&self) -> Result<ActivePlacement, Failure> {
        if self.cpus.is_empty() {
            return Ok(ActivePlacement::default());
        }
        let what = format!("run on {}", self.name());
        let confined = Confined::to(&self.cpus).explain(format_args!("cannot {what}"))?;
        // The kernel silently omits CPUs that the control group excludes.
        let granted = thread::cpus().explain(ASK)?;
        if granted != self.cpus {
            return Err(advice::found(
                advice::Situation::CpuForbidden,
                format!("cannot {what}: this process may use only {}", shown(&granted)),
            ));
        }
        let (preferred, complaint) = match self.node.map(Preferred::node) {
            None => (None, None),
            Some(Ok(preferred)) => (Some(preferred), None),
            // Without a policy, the kernel prefers the node of the CPU anyway.
            Some(Err(error)) => (
                None,
                Some(format!(
                    "warning: cannot allocate buffers on the NUMA node of {}: {error}",
                    self.name()
                )),
            ),
        };
        Ok(ActivePlacement { complaint, _confined: Some(confined), _preferred: preferred })
    }

    fn name(&self) -> String {
        let one = self.cpus.len() == 1;
        format!("CPU{} {}", if one { "" } else { "s" }, shown(&self.cpus))
    }
}

/// Begins the message of a failed query.
const ASK: &str = "cannot read the CPUs that this process may use";

/// The CPU of a single thread from `choice`, the best first.
fn best(choice: &[u32], second: bool) -> u32 {
    let place = if second && choice.len() > 1 { 1 } else { 0 };
    choice.get(place).copied().unwrap_or(0)
}

/// The CPUs `near` the NIC that are allowed, or else all that are allowed; CPU 0 last.
fn by_preference(near: &[u32], allowed: &[u32]) -> Vec<u32> {
    let usable: Vec<u32> = near.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    let mut choice = if usable.is_empty() { allowed.to_vec() } else { usable };
    choice.sort_unstable_by_key(|cpu| (*cpu == 0, *cpu));
    choice
}

/// CPUs and memory node in use. Dropping it restores the previous ones.
#[derive(Debug, Default)]
pub struct ActivePlacement {
    /// A warning about them, one line.
    pub complaint: Option<String>,
    _preferred: Option<Preferred>,
    _confined: Option<Confined>,
}

/// A hint if the measuring thread runs on another NUMA node than the NIC.
pub fn hint(cpus: &Cpus, device: DeviceName, machine: &Machine) -> Option<String> {
    let remedy = match cpus {
        Cpus::Any => "use --cpu=auto",
        Cpus::Auto => "this process may use no CPU of that node",
        Cpus::List(_) => return None,
    };
    let cpu = thread::current_cpu()?;
    across(&device.to_string(), machine, cpu, remedy)
}

fn across(device: &str, machine: &Machine, cpu: u32, remedy: &str) -> Option<String> {
    let (near, own) = (machine.node_of_device(device)?, machine.node_of_cpu(cpu)?);
    (near != own).then(|| {
        format!(
            "hint: the measuring thread runs on CPU {cpu} (NUMA node {own}), but {device} is on NUMA node {near}: {remedy}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::MadeUp;
    use facts::error::Kind;

    #[test]
    fn parses_cpus() {
        assert_eq!("auto".parse(), Ok(Cpus::Auto));
        assert_eq!("3".parse(), Ok(Cpus::List(vec![3])));
        let list: Cpus = "4,0-2".parse().unwrap();
        assert_eq!((list.to_string().as_str(), list), ("0-2,4", Cpus::List(vec![0, 1, 2, 4])));
        for wrong in ["", "Auto", "auto,1", "-1", "3-1", "1;2", "8192"] {
            assert_eq!(wrong.parse::<Cpus>(), Err(CPUS), "{wrong:?}");
        }
    }

    #[test]
    fn auto_prefers_cpu_near_nic_other_than_0() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(best(&by_preference(&[0, 1, 2, 3], &all), false), 1);
        assert_eq!(best(&by_preference(&[4, 5], &all), false), 4);
        assert_eq!(best(&by_preference(&[0], &all), false), 0, "no choice");
        assert_eq!(best(&by_preference(&[], &all), false), 1, "a NIC without a node");
        assert_eq!(best(&by_preference(&[4, 5], &[0, 1, 5]), false), 5);
        assert_eq!(best(&by_preference(&[4, 5], &[0, 1]), false), 1, "none near is allowed");
    }

    #[test]
    fn second_process_gets_another_cpu() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(best(&by_preference(&[0, 1, 2], &all), true), 2);
        assert_eq!(best(&by_preference(&[0, 1], &all), true), 0);
        assert_eq!(best(&by_preference(&[5], &all), true), 5, "no choice");
    }

    fn two_nodes() -> MadeUp {
        MadeUp::new(&[
            ("sys/class/cxi/soft0/device/numa_node", "0\n"),
            ("sys/devices/system/node/node0/cpulist", "1-3\n"),
            ("sys/devices/system/node/node1/cpulist", "0,4-7\n"),
            ("sys/devices/system/node/node2/cpulist", "8-9\n"),
            ("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 0 kB\n"),
            ("sys/devices/system/cpu/online", "0-9\n"),
        ])
    }

    fn chosen(cpus: Cpus) -> Result<Placement, Failure> {
        Placement::choose(&cpus, "soft0".parse().unwrap(), &two_nodes().machine(), false)
    }

    fn listed(cpus: &str) -> Cpus {
        cpus.parse().unwrap()
    }

    #[test]
    fn memory_follows_common_node_of_cpus() {
        let chosen = |cpus: Cpus| {
            let Placement { cpus, node, .. } = chosen(cpus).unwrap();
            (cpus, node)
        };
        assert_eq!(chosen(Cpus::Any), (vec![], None));
        assert_eq!(chosen(listed("2-3")), (vec![2, 3], Some(0)));
        assert_eq!(chosen(listed("0,5")), (vec![0, 5], Some(1)));
        assert_eq!(chosen(listed("3-4")), (vec![3, 4], None));
        assert_eq!(chosen(listed("8")), (vec![8], None), "a node without memory");
    }

    #[test]
    fn threads_share_out_the_listed_cpus() {
        let placement = chosen(listed("5-7")).unwrap();
        assert_eq!(placement.thread_cpus(2, false), [5, 6]);
        assert_eq!(placement.thread_cpus(2, true), [7, 5]);
        assert_eq!(placement.thread_cpus(4, false), [5, 6, 7, 5]);
    }

    #[test]
    fn refuses_offline_cpu_as_usage_error() {
        let failure = chosen(listed("9-10")).unwrap_err();
        assert_eq!(failure.kind, Kind::Usage);
        assert_eq!(
            failure.message(),
            "invalid value '9-10' for --cpu: CPU 10 is not online (online: 0-9)"
        );
    }

    #[test]
    fn hints_at_measurement_across_nodes() {
        let (made_up, here) = (two_nodes(), "soft0");
        let hint = across(here, &made_up.machine(), 5, "go there").unwrap();
        assert!(hint.contains("CPU 5 (NUMA node 1), but soft0 is on NUMA node 0"), "{hint}");
        assert_eq!(across(here, &made_up.machine(), 2, "go there"), None);
        assert_eq!(across("soft1", &made_up.machine(), 5, "go there"), None, "no node");
    }
}
