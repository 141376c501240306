//! What makes CPUs and memory of the host slower (diagnosis.md 3.2).

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::machine::{Machine, MemoryErrors};

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
