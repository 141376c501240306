//! What the selected checks do to the NIC, as tables for `--dry-run`.

use std::collections::BTreeMap;

use facts::error_flag::ErrorFlag;
use page::wrap::wrapped;

use crate::run::{CheckSelection, full_name};
use crate::table::CheckEffect;

/// Returns a text in lines of a column.
pub fn column(text: &str) -> String {
    wrapped(text, 60, "").join("\n")
}

/// Names of the effects and what they mean, from the least to the most.
const EFFECTS: [(&str, &str); 5] = [
    ("reads", "reads what the library and the driver say"),
    ("own objects", "allocates and uses more objects; all operations succeed"),
    ("errors", "provokes failures of its own operations, which may set error flags"),
    ("PCIe atomics", "raises PCIe (AER) errors where nothing completes AtomicOps; needs --risky"),
    ("risky", "stops a queue in a way that no other program does; needs --risky"),
];

fn place(effect: CheckEffect) -> usize {
    match effect {
        CheckEffect::Reads => 0,
        CheckEffect::OwnResources => 1,
        CheckEffect::Errors(_) => 2,
        CheckEffect::PcieAtomic(_) => 3,
        CheckEffect::Risky => 4,
    }
}

pub fn effect_name(effect: CheckEffect) -> &'static str {
    EFFECTS[place(effect)].0
}

/// Returns a row for each effect that a selected check has: its name, how many have it, and which.
pub fn effects(selection: &CheckSelection) -> Vec<Vec<String>> {
    let rows = EFFECTS.into_iter().enumerate().map(|(number, (name, what))| {
        let checks = selection.checks().filter(|(_, check)| place(check.effect) == number);
        let checks: Vec<_> = checks.collect();
        let names: Vec<String> = if number == place(CheckEffect::OwnResources) {
            let groups = checks.chunk_by(|one, next| one.0.name == next.0.name);
            groups.map(|checks| format!("{} {}", checks[0].0.name, checks.len())).collect()
        } else {
            checks.iter().map(|(group, check)| full_name(group, check)).collect()
        };
        let what = format!("{what}:\n{}", column(&names.join(", ")));
        (!checks.is_empty()).then(|| vec![name.to_owned(), checks.len().to_string(), what])
    });
    rows.flatten().collect()
}

/// Returns a row for each error flag that the selected checks set: how often at most, and which
/// checks.
pub fn flags(selection: &CheckSelection) -> Vec<Vec<String>> {
    let mut found: BTreeMap<ErrorFlag, (u32, Vec<String>)> = BTreeMap::new();
    for (group, check) in selection.checks() {
        for (flag, times) in check.effect.flags() {
            let (sum, checks) = found.entry(*flag).or_default();
            *sum += times;
            checks.push(full_name(group, check));
        }
    }
    let row = |(flag, (times, checks)): (ErrorFlag, (u32, Vec<String>))| {
        vec![flag.full_name(), times.to_string(), column(&checks.join(", "))]
    };
    found.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provoked::MOST;

    /// No flag is provoked more often than a run may, by all checks together.
    #[test]
    fn checks_declare_at_most_three_errors_of_a_flag() {
        for row in flags(&CheckSelection::default()) {
            assert!(row[1].parse::<usize>().unwrap() <= MOST, "{}", row[0]);
        }
    }
}
