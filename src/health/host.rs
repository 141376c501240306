//! Settings of the host that change results (health.md 2.3).

use std::collections::BTreeMap;

use cxi::HugePage;

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::machine::{Machine, list, shown};
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
