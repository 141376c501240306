//! Slow links among parts that are linked each with each: the switches of a group, or the groups.

use std::collections::{BTreeMap, BTreeSet};

use super::culprit::{Culprit, direction};
use super::findings::LoadUnit;
use super::limits::{EqualParts, SET};
use super::pattern::{Pattern, Set};
use super::rates::SlotRates;
use crate::blame::count::{Share, Shares};
use crate::blame::limits::{EQUAL_FLOWS, FALSE_ALARM, KINDS, LEAST_EQUAL, LEAST_PARTNERS};
use crate::survey::ids::{NicId, Role};
use facts::robust::{median, quantile, sorted};

/// Fewest slots of a cell that can be slow: in a single one, its flows may be slow for a reason
/// outside of it.
const LEAST_SLOTS: usize = 3;

/// Part of the cells of a part from which on its slow cells may have one cause that hides in the
/// others: then no link is named.
const MANY: f64 = 0.5;

/// The links from one part to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The group of both parts, two switches; `None` if the parts are groups.
    pub group: Option<u16>,
    /// The switch or the group at which the links begin.
    pub from: u16,
    /// The switch or the group at which they end.
    pub to: u16,
}

impl Cell {
    /// Returns the other direction.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }

    /// Returns the parts at both ends, in both roles and in their role.
    fn parts(self) -> [(u16, Option<Role>); 4] {
        let (initiator, target) = (Some(Role::Initiator), Some(Role::Target));
        [(self.from, None), (self.from, initiator), (self.to, None), (self.to, target)]
    }

    fn touches(self, part: u16) -> bool {
        self.from == part || self.to == part
    }
}

/// The rates of the cells in the slots of a pattern: number of flows, rate of the fastest flow, and
/// cell; sorted by the number of flows.
type Observed = Vec<(u32, f64, Cell)>;

/// Returns the cells with the ratios of their flows to flows of equal cells.
///
/// The fastest flow of all slots counts: slow links slow all of their flows, other causes only some
/// of them. A cell without a fast flow may have met other causes in all of its slots. It is left
/// out if such a cell exists with a probability of more than 1 %, by the slots of good cells.
///
/// `cell_of` returns the cell of a flow. Flows of NICs in `left_out` do not count, but use the
/// links. `most_slow` is the part of all cells that one slow part may slow.
pub fn ratios(
    patterns: &[&[SlotRates]],
    cell_of: impl Fn(NicId, NicId) -> Option<Cell>,
    left_out: &BTreeSet<NicId>,
    most_slow: f64,
) -> BTreeMap<Cell, f64> {
    // Half of the cells that are good if this part is slow.
    let usual = (1.0 + most_slow) / 2.0;
    let mut cell_lists: BTreeMap<Cell, Vec<f64>> = BTreeMap::new();
    for slots in patterns {
        let observed = observe(slots, &cell_of, left_out);
        let numbers: BTreeSet<u32> = observed.iter().map(|(flows, ..)| *flows).collect();
        let fast_of: BTreeMap<u32, f64> = numbers
            .into_iter()
            .filter_map(|flows| Some((flows, fast_rate(&observed, flows, usual)?)))
            .collect();
        for (flows, rate, cell) in observed {
            if let Some(fast) = fast_of.get(&flows) {
                cell_lists.entry(cell).or_default().push(rate / fast);
            }
        }
    }
    let best = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let good = cell_lists.values().filter(|ratios| best(ratios) >= SET.good);
    let good_values: Vec<f64> = good.flatten().copied().collect();
    let slow_of_good = good_values.iter().filter(|ratio| **ratio < SET.good).count();
    let chance = (slow_of_good as f64 + 0.5) / (good_values.len() as f64 + 1.0);
    let count = cell_lists.len() as f64;
    let is_known = |values: &[f64]| {
        let by_chance = count * chance.powi(values.len() as i32);
        best(values) >= SET.good || values.len() >= LEAST_SLOTS && by_chance < FALSE_ALARM / KINDS
    };
    let known = cell_lists.into_iter().filter(|(_, ratios)| is_known(ratios));
    known.map(|(cell, values)| (cell, best(&values))).collect()
}

/// Returns what each cell carried in each slot.
fn observe(
    slots: &[SlotRates],
    cell_of: impl Fn(NicId, NicId) -> Option<Cell>,
    left_out: &BTreeSet<NicId>,
) -> Observed {
    let mut observed = Observed::new();
    for slot in slots {
        let mut in_slot: BTreeMap<Cell, (u32, Option<f64>)> = BTreeMap::new();
        for (source, target) in slot.unknown_flows() {
            if let Some(cell) = cell_of(source, target) {
                in_slot.entry(cell).or_default().0 += 1;
            }
        }
        for (source, target, rate) in slot.flows() {
            let Some(cell) = cell_of(source, target) else {
                continue;
            };
            let (flows, best) = in_slot.entry(cell).or_default();
            *flows += 1;
            if !left_out.contains(&source) && !left_out.contains(&target) {
                *best = Some(best.unwrap_or(0.0).max(rate));
            }
        }
        let known = in_slot.into_iter();
        observed.extend(known.filter_map(|(cell, (flows, best))| Some((flows, best?, cell))));
    }
    observed.sort_by_key(|(flows, ..)| *flows);
    observed
}

/// Returns this quantile of the fastest flows of the cells, in the slots in which they had about
/// this number of flows; `None` for fewer than three cells.
fn fast_rate(observed: &Observed, flows: u32, usual: f64) -> Option<f64> {
    let flows = f64::from(flows);
    let first = observed.partition_point(|entry| f64::from(entry.0) < (1.0 - EQUAL_FLOWS) * flows);
    let end = observed.partition_point(|entry| f64::from(entry.0) <= (1.0 + EQUAL_FLOWS) * flows);
    let mut fastest: BTreeMap<Cell, f64> = BTreeMap::new();
    for (_, rate, cell) in &observed[first..end] {
        let best = fastest.entry(*cell).or_default();
        *best = best.max(*rate);
    }
    let rates: Vec<f64> = fastest.into_values().collect();
    let fast = quantile(&sorted(&rates), usual);
    (rates.len() >= LEAST_EQUAL && fast > 0.0).then_some(fast)
}

/// Returns what explains the slow ones of these cells. Nobody is named rather than an innocent
/// part.
pub fn explain(cells: &BTreeMap<Cell, f64>) -> Vec<Culprit> {
    let is_good = |ratio: f64| ratio >= SET.good;
    let good: Vec<f64> = cells.values().copied().filter(|ratio| is_good(*ratio)).collect();
    let usual = EqualParts::new(&good);
    let slow: BTreeSet<Cell> = cells
        .iter()
        .filter(|(_, ratio)| !is_good(**ratio) && usual.is_far_below(**ratio))
        .map(|(cell, _)| *cell)
        .collect();
    let groups: BTreeSet<Option<u16>> = cells.keys().map(|cell| cell.group).collect();
    let mut culprits = Vec::new();
    let mut remaining: BTreeSet<Cell> = BTreeSet::new();
    for group in groups {
        let group_cells = cells.iter().filter(|(cell, _)| cell.group == group);
        let mut open: BTreeMap<Cell, f64> =
            group_cells.map(|(cell, ratio)| (*cell, *ratio)).collect();
        while let Some((part, role)) = slow_part(&open, &slow) {
            let ratio = median_of(&open, |cell| {
                cell.parts().contains(&(part, role)) && slow.contains(&cell)
            });
            let unit = match group {
                Some(group) => LoadUnit::Switch { group, switch: part },
                None => LoadUnit::Group(part),
            };
            culprits.push(culprit(group, unit, ratio, vec![direction(role)]));
            open.retain(|cell, _| !cell.touches(part));
        }
        let is_slow = |cell: &Cell| slow.contains(cell);
        let slow_here = open.keys().filter(|cell| is_slow(cell)).count();
        let parts: BTreeSet<u16> = open.keys().map(|cell| cell.from).collect();
        if parts.len() >= LEAST_EQUAL && slow_here as f64 >= 0.9 * open.len() as f64 {
            // If all links between groups are slow, there are no others to compare them with.
            culprits.extend(group.map(|number| {
                let ratio = median_of(&open, |cell| slow.contains(&cell));
                let evidence = vec!["The links between its switches are slow.".into()];
                culprit(group, LoadUnit::Group(number), ratio, evidence)
            }));
            continue;
        }
        let shares = shares(&open, &slow);
        let named = open.keys().filter(|cell| is_slow(cell) && !hides_cause(&shares, **cell));
        remaining.extend(named);
    }
    // Where a third of all cells is slow, the pattern is uneven, not the links.
    if 3 * remaining.len() > cells.len() {
        return culprits;
    }
    for cell in &remaining {
        let other = cell.reversed();
        let both = remaining.contains(&other);
        if both && cell.from > cell.to {
            continue;
        }
        let ratio = if both { cells[cell].min(cells[&other]) } else { cells[cell] };
        let Cell { group, from, to } = *cell;
        let unit = match group {
            Some(group) => LoadUnit::SwitchLinks { group, from, to, both },
            None => LoadUnit::GroupLinks { from, to, both },
        };
        culprits.push(culprit(group, unit, ratio, Vec::new()));
    }
    culprits
}

/// Returns a culprit among the links of a group, or among the links between groups.
fn culprit(group: Option<u16>, unit: LoadUnit, ratio: f64, evidence: Vec<String>) -> Culprit {
    let set = if group.is_some() { Set::Group } else { Set::System };
    let pattern = Pattern::Bisect { of: set, both_ways: false };
    Culprit { unit, pattern, ratio, limits: SET, evidence }
}

fn median_of(cells: &BTreeMap<Cell, f64>, is_counted: impl Fn(Cell) -> bool) -> f64 {
    let counted = cells.iter().filter(|(cell, _)| is_counted(**cell));
    let ratios: Vec<f64> = counted.map(|(_, ratio)| *ratio).collect();
    median(&ratios).unwrap_or(f64::NAN)
}

/// Counts the slow cells of each part in each role.
fn shares(cells: &BTreeMap<Cell, f64>, slow: &BTreeSet<Cell>) -> Shares<(u16, Option<Role>)> {
    Shares::new(cells.keys().map(|cell| (cell.parts(), slow.contains(cell))))
}

/// Returns the part that explains most slow cells: at least two thirds of its own, with at least
/// two others, while the cells without it are good.
fn slow_part(cells: &BTreeMap<Cell, f64>, slow: &BTreeSet<Cell>) -> Option<(u16, Option<Role>)> {
    let shares = shares(cells, slow);
    let rows: Vec<&Cell> = cells.keys().collect();
    let all_slow = rows.iter().filter(|cell| slow.contains(cell)).count();
    let best = shares.best(|(part, role), share| {
        let partners: BTreeSet<u16> = share
            .outside
            .iter()
            .map(|row| if rows[*row].from == part { rows[*row].to } else { rows[*row].from })
            .collect();
        let are_others_good = shares.get((part, None)).is_some_and(|touched| {
            3 * (all_slow - touched.outside.len()) < rows.len() - touched.rows.len()
        });
        // Both roles only if each of them is slow.
        let is_whole = role.is_some()
            || Role::BOTH
                .into_iter()
                .all(|role| shares.get((part, Some(role))).is_none_or(Share::is_of_larger));
        share.is_of_larger() && partners.len() >= LEAST_PARTNERS && are_others_good && is_whole
    });
    best.map(|(part, _)| part)
}

/// Returns whether the slow cells of an end of this one may have one cause that hides in others: a
/// link of it would be an innocent part.
fn hides_cause(shares: &Shares<(u16, Option<Role>)>, cell: Cell) -> bool {
    cell.parts().into_iter().filter(|(_, role)| role.is_some()).any(|end| {
        let share = shares.get(end);
        share.is_some_and(|share| share.outside.len() >= LEAST_PARTNERS && share.is_at_least(MANY))
    })
}
