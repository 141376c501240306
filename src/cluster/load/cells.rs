//! Slow links among parts that are linked each with each: the switches of a group, or the groups.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::{EqualParts, LEAST_SETS, SET};
use super::rates::SlotRates;
use crate::survey::ids::{NicId, Role};
use facts::robust::{median, quantile, sorted};

/// Slots have equal flows in two cells if their numbers differ by at most this part.
const TOLERANCE: f64 = 0.25;

/// Fewest slots of a cell that can be slow: in a single one, its flows may be slow for a reason
/// outside of it.
const LEAST_SLOTS: usize = 3;

/// Probability with which slots that are slow by chance make any cell slow.
const FALSE_ALARM: f64 = 0.01;

/// Part of the cells of a part that are slow if it is the cause.
const MOST: f64 = 2.0 / 3.0;

/// Part of the cells of a part from which on its slow cells may have one cause that hides in the
/// others: then no link is named.
const MANY: f64 = 0.5;

/// The links from one part to another one, with the group of both parts; groups are in group 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The group of both switches.
    pub group: u16,
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

    /// Returns the part at the end with this role.
    fn end(self, role: Role) -> u16 {
        match role {
            Role::Initiator => self.from,
            Role::Target => self.to,
        }
    }

    fn touches(self, part: u16) -> bool {
        self.from == part || self.to == part
    }
}

/// What explains slow cells.
#[derive(Clone, Debug, PartialEq)]
pub enum CellCause {
    /// A switch or a group, slow in this role, or in both.
    Part {
        /// Its group; 0 for a group.
        group: u16,
        /// Its number.
        part: u16,
        role: Option<Role>,
        /// Median ratio of its cells.
        ratio: f64,
    },
    /// All links of a group of at least three switches.
    All {
        group: u16,
        /// Median ratio of the cells.
        ratio: f64,
    },
    Links {
        /// The links; the smaller number first if both directions are slow.
        cell: Cell,
        /// Whether both directions are slow.
        both: bool,
        /// Ratio of the slower direction.
        ratio: f64,
    },
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
        best(values) >= SET.good || values.len() >= LEAST_SLOTS && by_chance < FALSE_ALARM
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
    let first = observed.partition_point(|entry| f64::from(entry.0) < (1.0 - TOLERANCE) * flows);
    let end = observed.partition_point(|entry| f64::from(entry.0) <= (1.0 + TOLERANCE) * flows);
    let mut fastest: BTreeMap<Cell, f64> = BTreeMap::new();
    for (_, rate, cell) in &observed[first..end] {
        let best = fastest.entry(*cell).or_default();
        *best = best.max(*rate);
    }
    let rates: Vec<f64> = fastest.into_values().collect();
    let fast = quantile(&sorted(&rates), usual);
    (rates.len() >= LEAST_SETS && fast > 0.0).then_some(fast)
}

/// Returns what explains the slow ones of these cells. Nobody is named rather than an innocent
/// part.
pub fn explain(cells: &BTreeMap<Cell, f64>) -> Vec<CellCause> {
    let is_good = |ratio: f64| ratio >= SET.good;
    let good: Vec<f64> = cells.values().copied().filter(|ratio| is_good(*ratio)).collect();
    let usual = EqualParts::new(&good);
    let slow: BTreeSet<Cell> = cells
        .iter()
        .filter(|(_, ratio)| !is_good(**ratio) && usual.is_far_below(**ratio))
        .map(|(cell, _)| *cell)
        .collect();
    let groups: BTreeSet<u16> = cells.keys().map(|cell| cell.group).collect();
    let mut causes = Vec::new();
    let mut remaining: BTreeSet<Cell> = BTreeSet::new();
    for group in groups {
        let group_cells = cells.iter().filter(|(cell, _)| cell.group == group);
        let mut open: BTreeMap<Cell, f64> =
            group_cells.map(|(cell, ratio)| (*cell, *ratio)).collect();
        while let Some((part, role)) = slow_part(&open, &slow) {
            let ratio = median_of(&open, |cell| is_of(cell, part, role) && slow.contains(&cell));
            causes.push(CellCause::Part { group, part, role, ratio });
            open.retain(|cell, _| !cell.touches(part));
        }
        let is_slow = |cell: &Cell| slow.contains(cell);
        let slow_here = open.keys().filter(|cell| is_slow(cell)).count();
        let parts: BTreeSet<u16> = open.keys().map(|cell| cell.from).collect();
        if parts.len() >= LEAST_SETS && slow_here as f64 >= 0.9 * open.len() as f64 {
            let ratio = median_of(&open, |cell| slow.contains(&cell));
            causes.push(CellCause::All { group, ratio });
            continue;
        }
        let named = open.keys().filter(|cell| is_slow(cell) && !hides_cause(&open, &slow, **cell));
        remaining.extend(named);
    }
    // Where a third of all cells is slow, the pattern is uneven, not the links.
    if 3 * remaining.len() > cells.len() {
        return causes;
    }
    for cell in &remaining {
        let other = cell.reversed();
        let both = remaining.contains(&other);
        if both && cell.from > cell.to {
            continue;
        }
        let ratio = if both { cells[cell].min(cells[&other]) } else { cells[cell] };
        causes.push(CellCause::Links { cell: *cell, both, ratio });
    }
    causes
}

fn is_of(cell: Cell, part: u16, role: Option<Role>) -> bool {
    role.map_or(cell.touches(part), |role| cell.end(role) == part)
}

fn median_of(cells: &BTreeMap<Cell, f64>, is_counted: impl Fn(Cell) -> bool) -> f64 {
    let counted = cells.iter().filter(|(cell, _)| is_counted(**cell));
    let ratios: Vec<f64> = counted.map(|(_, ratio)| *ratio).collect();
    median(&ratios).unwrap_or(f64::NAN)
}

/// Returns the part that explains most slow cells: at least two thirds of its own, with at least
/// two others, while the cells without it are good.
fn slow_part(cells: &BTreeMap<Cell, f64>, slow: &BTreeSet<Cell>) -> Option<(u16, Option<Role>)> {
    let parts: BTreeSet<u16> = cells.keys().flat_map(|cell| [cell.from, cell.to]).collect();
    let mut found: Option<(usize, u16, Option<Role>)> = None;
    for part in parts {
        for role in [None, Some(Role::Initiator), Some(Role::Target)] {
            let own = || cells.keys().filter(|cell| is_of(**cell, part, role));
            let own_slow: Vec<&Cell> = own().filter(|cell| slow.contains(cell)).collect();
            let partners: BTreeSet<u16> = own_slow
                .iter()
                .map(|cell| if cell.from == part { cell.to } else { cell.from })
                .collect();
            let others = || cells.keys().filter(|cell| !cell.touches(part));
            let slow_others = others().filter(|cell| slow.contains(cell)).count();
            let explains = own_slow.len() as f64 >= MOST * own().count() as f64
                && partners.len() >= 2
                && 3 * slow_others < others().count();
            // Both roles only if each of them is slow.
            let is_whole = role.is_some()
                || Role::BOTH.into_iter().all(|role| {
                    let role_cells = || own().filter(|cell| cell.end(role) == part);
                    let slow_ones = role_cells().filter(|cell| slow.contains(cell)).count();
                    slow_ones as f64 >= MOST * role_cells().count() as f64
                });
            let is_more = found.is_none_or(|(most, ..)| own_slow.len() > most);
            if explains && is_whole && is_more {
                found = Some((own_slow.len(), part, role));
            }
        }
    }
    found.map(|(_, part, role)| (part, role))
}

/// Returns whether the slow cells of an end of this one may have one cause that hides in others: a
/// link of it would be an innocent part.
fn hides_cause(cells: &BTreeMap<Cell, f64>, slow: &BTreeSet<Cell>, cell: Cell) -> bool {
    Role::BOTH.into_iter().any(|role| {
        let part = cell.end(role);
        let own = || cells.keys().filter(|cell| cell.end(role) == part);
        let slow_ones = own().filter(|cell| slow.contains(cell)).count();
        slow_ones >= 2 && slow_ones as f64 >= MANY * own().count() as f64
    })
}
