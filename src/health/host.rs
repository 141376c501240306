//! The host: settings that change results (health.md 2.3), and what makes its CPUs and memory
//! slower (diagnosis.md 3.2).

use std::collections::BTreeMap;

use cxi::HugePage;

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::machine::{Machine, MemoryErrors, list, shown};
use node::nic::files::Files;

/// Whether the addresses of the NIC are translated.
pub static IOMMU: Item = Item {
    code: "iommu",
    name: "IOMMU",
    source: "HPE",
    remedy: "translation makes the NIC slower: boot with iommu.passthrough=1 (not on GH200 with kernels \
             before 6.11)",
};

/// Whether this process may run close to the NIC.
pub static LOCALITY: Item = Item {
    code: "numa",
    name: "NUMA node",
    source: "HPE",
    remedy: "none of the CPUs of this process is close to the NIC: ask the launcher for others",
};

/// How the kernel chooses the frequency of CPUs.
pub static GOVERNOR: Item = Item {
    code: "governor",
    name: "CPU governor",
    source: "HPE",
    remedy: "latencies vary with the frequency: set the governor 'performance'",
};

/// Free huge pages.
pub static HUGE_PAGES: Item = Item::shown("huge-pages", "free huge pages");

pub static KERNEL: Item = Item::compared_by_hand("kernel", "kernel");

/// The library of the NIC.
pub static LIBRARY: Item = Item::compared_by_hand("libcxi", "libcxi");

/// Directory of the groups of devices that the IOMMU translates for.
const IOMMU_GROUPS: &str = "sys/kernel/iommu_groups";

/// How the IOMMU treats the NIC.
pub fn iommu(files: &Files, machine: &Machine) -> Finding {
    let kind = files.text("iommu_group/type").or_else(|| {
        // Without groups there is no IOMMU in use.
        let is_off = machine.is_empty_directory(IOMMU_GROUPS);
        is_off.then(|| "off".to_owned())
    });
    kind.map_or_else(
        || Finding::absent(&IOMMU),
        |kind| {
            let is_free = matches!(kind.as_str(), "off" | "identity");
            let verdict = unless_good(!is_free, Severity::Suspect);
            Finding::compared(&IOMMU, kind, "off, identity", verdict)
        },
    )
}

/// Whether the CPUs `allowed` to this process include one that is close to the NIC.
pub fn locality(files: &Files, allowed: &[u32]) -> Finding {
    let local = files.text("local_cpulist").and_then(|text| list(&text));
    let Some(local) = local else {
        return Finding::absent(&LOCALITY);
    };
    let cpus = shown(&local);
    let value = match files.number("numa_node") {
        Some(node) => format!("{node} (CPUs {cpus})"),
        None => format!("none (CPUs {cpus})"),
    };
    let is_far = !allowed.is_empty() && !allowed.iter().any(|cpu| local.contains(cpu));
    let limit = format!("allowed: {}", shown(allowed));
    Finding::compared(&LOCALITY, value, limit, unless_good(is_far, Severity::Suspect))
}

/// The items of the host that do not depend on a NIC; `library` is the file of libcxi.
pub fn findings(machine: &Machine, library: Option<String>) -> Vec<Finding> {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    vec![
        governor(machine),
        huge_pages(machine),
        Finding::shown(&KERNEL, kernel),
        Finding::shown_if(&LIBRARY, library),
    ]
}

/// The governors of all CPUs.
fn governor(machine: &Machine) -> Finding {
    let mut counts = BTreeMap::new();
    for cpu in machine.online_cpus() {
        if let Some(governor) = machine.governor(cpu) {
            *counts.entry(governor).or_insert(0) += 1;
        }
    }
    let value = match counts.len() {
        0 => return Finding::absent(&GOVERNOR),
        1 => counts.keys().cloned().collect(),
        _ => {
            let each = counts.iter().map(|(name, count)| format!("{name} ({count} CPUs)"));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    let is_best = counts.keys().all(|name| name == "performance");
    let verdict = unless_good(!is_best, Severity::Suspect);
    Finding::compared(&GOVERNOR, value, "performance", verdict)
}

fn huge_pages(machine: &Machine) -> Finding {
    let sizes = [HugePage::Mib2, HugePage::Gib1].into_iter();
    let free = sizes.filter_map(|size| Some((machine.huge_pages(size, None)?.free, size)));
    let free: Vec<_> = free.collect();
    let text: Vec<String> = free.iter().map(|(count, size)| format!("{count} of {size}")).collect();
    let small = free.iter().find(|(_, size)| *size == HugePage::Mib2);
    Finding {
        number: small.map(|(count, _)| *count as f64),
        unit: small.map(|(_, size)| format!("pages of {size}")),
        ..Finding::shown_if(&HUGE_PAGES, (!text.is_empty()).then(|| text.join(", ")))
    }
}

/// How deeply idle CPUs sleep.
pub static IDLE_STATES: Item = Item::compared_by_hand("idle-states", "deepest idle state");

/// Whether CPUs are throttled.
pub static THROTTLING: Item = Item {
    code: "cpu-throttling",
    name: "CPU throttling",
    source: "kernel",
    remedy: "CPUs are throttled: look at cooling and power limits",
};

/// The memory of the NUMA nodes.
pub static MEMORY_SIZE: Item = Item::compared_by_hand("memory-size", "memory");

/// Errors of the memory of the host.
pub static MEMORY_ERRORS: Item = Item {
    code: "host-memory-errors",
    name: "host memory errors",
    source: "kernel",
    remedy: "errors of the host's memory take CPU time: look at the kernel log for the module",
};

/// What the kernel counts.
#[derive(Clone, Copy, Debug)]
pub struct HostCounts {
    throttlings: Option<u64>,
    errors: Option<MemoryErrors>,
}

impl HostCounts {
    pub fn read(machine: &Machine) -> Self {
        Self { throttlings: machine.throttlings(), errors: machine.memory_errors() }
    }

    /// Returns what has happened since `before`; without it, the counts are shown.
    pub fn since(self, before: Option<Self>) -> [Finding; 2] {
        let Some(before) = before else {
            let throttlings = self.throttlings.map(|count| format!("{count} since boot"));
            let errors = self.errors.map(|errors| format!("{} since boot", kinds(errors)));
            return [
                Finding::shown_if(&THROTTLING, throttlings),
                Finding::shown_if(&MEMORY_ERRORS, errors),
            ];
        };
        [
            throttling(before.throttlings, self.throttlings),
            memory_errors(before.errors, self.errors),
        ]
    }
}

fn throttling(before: Option<u64>, after: Option<u64>) -> Finding {
    let (Some(before), Some(after)) = (before, after) else {
        return Finding::absent(&THROTTLING);
    };
    let during = after.saturating_sub(before);
    let value = format!("{during} during the check, {after} in all");
    let verdict = unless_good(during > 0, Severity::Suspect);
    Finding::compared(&THROTTLING, value, "0 during the check", verdict)
}

fn memory_errors(before: Option<MemoryErrors>, after: Option<MemoryErrors>) -> Finding {
    let (Some(before), Some(after)) = (before, after) else {
        return Finding::absent(&MEMORY_ERRORS);
    };
    let during = MemoryErrors {
        corrected: after.corrected.saturating_sub(before.corrected),
        uncorrected: after.uncorrected.saturating_sub(before.uncorrected),
    };
    let in_all = after.corrected.saturating_add(after.uncorrected);
    let value = format!("{} during the check, {in_all} in all", kinds(during));
    let verdict = match (during.corrected, during.uncorrected) {
        (0, 0) => Severity::Good,
        (_, 0) => Severity::Suspect,
        _ => Severity::Bad,
    };
    Finding::compared(&MEMORY_ERRORS, value, "0 during the check", verdict)
}

fn kinds(errors: MemoryErrors) -> String {
    let MemoryErrors { corrected, uncorrected } = errors;
    format!("{corrected} corrected and {uncorrected} uncorrected")
}

/// The deepest idle state that is enabled.
pub fn idle_states(machine: &Machine) -> Finding {
    let deepest = machine.deepest_idle_state();
    let number = deepest.as_ref().map(|state| state.latency_us as f64 / 1e6);
    let value = deepest.map(|state| format!("{} us ({})", state.latency_us, state.name));
    Finding { number, ..Finding::shown_if(&IDLE_STATES, value) }
}

/// The memory of the smallest NUMA node, and of the others.
pub fn memory_size(machine: &Machine) -> Finding {
    let nodes = machine.memory_of_nodes();
    let text = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let smallest = nodes.iter().min_by_key(|(_, bytes)| *bytes);
    let largest = nodes.iter().max_by_key(|(_, bytes)| *bytes);
    let value = smallest.zip(largest).map(|((node, least), (_, most))| {
        let (least, most) = (text(*least), text(*most));
        match nodes.len() {
            1 => least,
            count if least == most => format!("{least} in each of {count} NUMA nodes"),
            _ => format!("{least} in NUMA node {node}, up to {most} in others"),
        }
    });
    let unit = match nodes.len() {
        1 => "B".to_owned(),
        count => format!("B in each of {count} NUMA nodes"),
    };
    let number = smallest.map(|(_, bytes)| *bytes as f64);
    Finding { number, unit: Some(unit), ..Finding::shown_if(&MEMORY_SIZE, value) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_verdicts;
    use super::*;
    use facts::severity::Severity::{Good, NotAvailable, Shown, Suspect};
    use node::machine::testing::MadeUp as MadeUpHost;
    use node::nic::testing::MadeUp;

    #[test]
    fn translation_is_suspect() {
        let host = MadeUpHost::new(&[("sys/kernel/iommu_groups/0/type", "DMA\n")]);
        let cases = [("identity\n", Good), ("DMA-FQ\n", Suspect), ("", NotAvailable)];
        assert_verdicts("iommu_group/type", |files: &Files| iommu(files, &host.machine()), &cases);
        let bare = MadeUpHost::new(&[]);
        std::fs::create_dir_all(bare.machine().root().join(IOMMU_GROUPS)).unwrap();
        let files = MadeUp::new(&[]);
        assert_eq!(iommu(&files.files, &bare.machine()).verdict, Good);
    }

    #[test]
    fn cpus_far_from_the_nic_are_suspect() {
        let made_up = MadeUp::new(&[("local_cpulist", "8-15\n"), ("numa_node", "1\n")]);
        let near = locality(&made_up.files, &[0, 8]);
        assert_eq!((near.verdict, near.value.as_deref()), (Good, Some("1 (CPUs 8-15)")));
        assert_eq!(locality(&made_up.files, &[0, 7]).verdict, Suspect);
        assert_eq!(locality(&MadeUp::new(&[]).files, &[0]).verdict, NotAvailable);
    }

    #[test]
    fn other_governors_than_performance_are_suspect() {
        let finding = |second: &str| {
            let host = MadeUpHost::new(&[
                ("sys/devices/system/cpu/online", "0-1\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", second),
            ]);
            governor(&host.machine())
        };
        assert_eq!(finding("performance\n").verdict, Good);
        let mixed = finding("powersave\n");
        let value = "performance (1 CPUs), powersave (1 CPUs)";
        assert_eq!((mixed.verdict, mixed.value.as_deref()), (Suspect, Some(value)));
        let none = MadeUpHost::new(&[("sys/devices/system/cpu/online", "0-1\n")]);
        assert_eq!(governor(&none.machine()).verdict, NotAvailable);
    }

    #[test]
    fn shows_huge_pages() {
        let free = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        let host = MadeUpHost::new(&[(free, "5\n")]);
        let found = huge_pages(&host.machine());
        assert_eq!((found.verdict, found.value.as_deref()), (Shown, Some("5 of 2M")));
        assert_eq!((found.number, found.unit.as_deref()), (Some(5.0), Some("pages of 2M")));
    }
}

#[cfg(test)]
mod host_state_tests {
    use super::*;
    use node::machine::testing::MadeUp;

    fn counts(throttlings: u64, corrected: u64, uncorrected: u64) -> HostCounts {
        HostCounts {
            throttlings: Some(throttlings),
            errors: Some(MemoryErrors { corrected, uncorrected }),
        }
    }

    #[test]
    fn what_happens_during_the_check_counts() {
        let verdicts =
            |before, after: HostCounts| after.since(before).map(|finding| finding.verdict);
        let before = counts(7, 5, 1);
        let shown = before.since(None);
        let values = shown.each_ref().map(|finding| finding.value.as_deref());
        let in_all = ["7 since boot", "5 corrected and 1 uncorrected since boot"];
        assert_eq!(values, in_all.map(Some));
        assert_eq!(verdicts(None, before), [Severity::Shown; 2]);
        assert_eq!(verdicts(Some(before), before), [Severity::Good; 2]);
        let corrected = verdicts(Some(before), counts(8, 6, 1));
        assert_eq!(corrected, [Severity::Suspect; 2]);
        let uncorrected = counts(7, 6, 2).since(Some(before))[1].clone();
        assert_eq!(uncorrected.verdict, Severity::Bad);
        let value = "1 corrected and 1 uncorrected during the check, 8 in all";
        assert_eq!(uncorrected.value.as_deref(), Some(value));
        let unknown = HostCounts::read(&MadeUp::new(&[]).machine());
        assert_eq!(verdicts(Some(unknown), before), [Severity::NotAvailable; 2]);
        assert_eq!(verdicts(None, unknown), [Severity::NotAvailable; 2]);
    }

    #[test]
    fn smallest_node_comes_first() {
        let host = MadeUp::new(&[("sys/devices/system/cpu/online", "0\n")]);
        assert_eq!(memory_size(&host.machine()).value, None);
        let write = |node: u32, gib: u64| {
            let path = format!("sys/devices/system/node/node{node}/meminfo");
            let text = format!("Node {node} MemTotal: {} kB\n", gib << 20);
            host.write(&path, &text);
            memory_size(&host.machine()).value.unwrap_or_default()
        };
        assert_eq!(write(0, 512), "512.0 GiB");
        assert_eq!(write(1, 512), "512.0 GiB in each of 2 NUMA nodes");
        let text = "448.0 GiB in NUMA node 1, up to 512.0 GiB in others";
        assert_eq!(write(1, 448), text);
        let size = memory_size(&host.machine());
        let unit = Some("B in each of 2 NUMA nodes");
        assert_eq!((size.number, size.unit.as_deref()), (Some((448_u64 << 30) as f64), unit));
        let state = "sys/devices/system/cpu/cpu0/cpuidle/state1";
        for (file, content) in [("name", "C6"), ("latency", "133"), ("disable", "0")] {
            host.write(&format!("{state}/{file}"), content);
        }
        let deepest = idle_states(&host.machine());
        assert_eq!((deepest.value.as_deref(), deepest.number), (Some("133 us (C6)"), Some(133e-6)));
    }
}
