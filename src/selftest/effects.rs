//! What the selected checks do to the NIC, as tables for `--dry-run`.

use std::collections::BTreeMap;

use facts::error_flag::ErrorFlag;

use crate::run::{CheckSelection, full_name};
use crate::table::CheckEffect;

/// The checks with one effect.
pub struct EffectRow {
    pub name: &'static str,
    /// What these checks do.
    pub what: &'static str,
    /// Number of checks.
    pub count: usize,
    /// Their names, or the number in each group.
    pub checks: String,
}

/// An error flag that checks set.
pub struct FlagRow {
    pub flag: ErrorFlag,
    /// How often at most.
    pub times: u32,
    /// Names of the checks.
    pub checks: String,
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

/// Returns the checks by effect, without effects that no selected check has.
pub fn effects(selection: &CheckSelection) -> Vec<EffectRow> {
    let rows = EFFECTS.into_iter().enumerate().map(|(number, (name, what))| {
        let checks = selection.checks().filter(|(_, check)| place(check.effect) == number);
        let checks: Vec<_> = checks.collect();
        let names: Vec<String> = if number == place(CheckEffect::OwnResources) {
            let groups = checks.chunk_by(|one, next| one.0.name == next.0.name);
            groups.map(|checks| format!("{} {}", checks[0].0.name, checks.len())).collect()
        } else {
            checks.iter().map(|(group, check)| full_name(group, check)).collect()
        };
        EffectRow { name, what, count: checks.len(), checks: names.join(", ") }
    });
    rows.filter(|row| row.count > 0).collect()
}

/// Returns the error flags that the selected checks set.
pub fn flags(selection: &CheckSelection) -> Vec<FlagRow> {
    let mut found: BTreeMap<ErrorFlag, (u32, Vec<String>)> = BTreeMap::new();
    for (group, check) in selection.checks() {
        for (flag, times) in check.effect.flags() {
            let (sum, checks) = found.entry(*flag).or_default();
            *sum += times;
            checks.push(full_name(group, check));
        }
    }
    let rows = found.into_iter();
    rows.map(|(flag, (times, checks))| FlagRow { flag, times, checks: checks.join(", ") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provoked::MOST;

    /// No flag is provoked more often than a run may, by all checks together.
    #[test]
    fn checks_declare_at_most_three_errors_of_a_flag() {
        for row in flags(&CheckSelection::default()) {
            assert!(row.times <= MOST as u32, "{}", row.flag.full_name());
        }
    }
}
