//! The figures of all pairs of a test as data for the heat map, which a script draws (`map.js`).

use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::location::Class;
use crate::report::survey::{Survey, words};
use crate::survey::roster::Roster;
use crate::survey::verdict::{Matrix, Population};

/// Most NICs of a map: more make a page that browsers open too slowly.
pub const MOST_NICS: usize = 4096;

/// Cell of a pair that was not measured.
const UNTESTED: u16 = 0;

/// Cell of a pair that failed.
const FAILED: u16 = 1;

/// Cell of the smallest figure. Larger ones follow at equal ratios up to the largest one.
const SMALLEST: u16 = 2;

/// Least ratio of the ends of the colours, so that a map without differences has one colour.
const LEAST_RANGE: f64 = 1.5;

/// What the script draws. Rows are initiators, columns are targets.
#[derive(Debug, Serialize)]
pub struct Map {
    /// Whether a figure is a bandwidth in bytes per second, and not a latency in nanoseconds.
    of_bandwidth: bool,
    /// Names of the NICs.
    names: Vec<String>,
    /// Nodes of the NICs, which tell the class of a pair.
    nodes: Vec<u32>,
    /// Group and switch of each NIC; null if unknown.
    locations: Vec<Option<(u16, u16)>>,
    /// The NICs by location.
    by_location: Vec<u32>,
    /// The NICs, the worst first.
    by_badness: Vec<u32>,
    /// Smallest and largest figure, which cells are measured in.
    range: (f64, f64),
    /// Figures at the ends of the colours. Others beyond have the same colour.
    colors: (f64, f64),
    /// Name, median and limit of each class.
    classes: Vec<ClassFacts>,
    /// Cells by row: little-endian numbers of 16 bits, in base64.
    cells: String,
}

#[derive(Debug, Serialize)]
struct ClassFacts {
    name: &'static str,
    median: f64,
    limit: Option<f64>,
}

/// Returns the map of a matrix, without NICs that have no pair. `None` without pairs, or with too
/// many NICs.
pub fn map(survey: &Survey, matrix: &Matrix) -> Option<Map> {
    let roster = &survey.roster;
    let mut place: Vec<Option<u32>> = vec![None; roster.nics.len()];
    for (initiator, target, _) in &matrix.cells {
        place[*initiator as usize] = Some(0);
        place[*target as usize] = Some(0);
    }
    let nics: Vec<u32> = (0..)
        .zip(&place)
        .filter_map(|(nic, of)| of.map(|_| nic))
        .collect();
    if nics.is_empty() || nics.len() > MOST_NICS {
        return None;
    }
    for (at, nic) in (0..).zip(&nics) {
        place[*nic as usize] = Some(at);
    }
    let figures = || matrix.cells.iter().filter_map(|(_, _, figure)| *figure);
    let positive = || figures().filter(|figure| figure.is_finite() && *figure > 0.0);
    let low = positive().fold(f64::INFINITY, f64::min);
    let high = positive().fold(0.0, f64::max);
    let range = if high > 0.0 { (low, high) } else { (1.0, 1.0) };
    let mut cells = vec![UNTESTED; nics.len() * nics.len()];
    for (initiator, target, figure) in &matrix.cells {
        let row = place[*initiator as usize]? as usize;
        let column = place[*target as usize]? as usize;
        cells[row * nics.len() + column] = figure.map_or(FAILED, |figure| cell(figure, range));
    }
    let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    let of_bandwidth = survey.setup.tests[matrix.test as usize].of_bandwidth;
    let populations: Vec<&Population> = survey
        .verdict
        .populations
        .iter()
        .filter(|of| of.test == matrix.test)
        .collect();
    let badness = badness(roster, matrix, &populations, of_bandwidth);
    let location = |nic: u32| {
        let location = roster.nics[nic as usize].location;
        location.map_or((u16::MAX, u16::MAX, None), |of| {
            (of.group, of.switch, of.port)
        })
    };
    let mut by_location: Vec<u32> = (0..nics.len() as u32).collect();
    by_location.sort_by_key(|at| location(nics[*at as usize]));
    let mut by_badness = by_location.clone();
    by_badness.sort_by(|one, other| {
        let of = |at: &u32| badness[nics[*at as usize] as usize];
        of(other).partial_cmp(&of(one)).unwrap_or(Ordering::Equal)
    });
    let nic = |nic: &u32| &roster.nics[*nic as usize];
    Some(Map {
        of_bandwidth,
        names: nics.iter().map(|nic| roster.name(*nic)).collect(),
        nodes: nics.iter().map(|of| nic(of).node).collect(),
        locations: nics
            .iter()
            .map(|of| nic(of).location.map(|at| (at.group, at.switch)))
            .collect(),
        by_location,
        by_badness,
        range,
        colors: colors(&populations, range, of_bandwidth),
        classes: populations
            .iter()
            .map(|of| ClassFacts {
                name: of.class.name(),
                median: of.percentiles[3],
                limit: of.expected.or(of.limit),
            })
            .collect(),
        cells: STANDARD.encode(bytes),
    })
}

impl Map {
    /// Returns the number of NICs.
    pub fn nics(&self) -> usize {
        self.names.len()
    }
}

/// Returns the cell of a figure.
fn cell(figure: f64, (low, high): (f64, f64)) -> u16 {
    if high <= low {
        return SMALLEST;
    }
    let share = ((figure / low).ln() / (high / low).ln()).clamp(0.0, 1.0);
    SMALLEST + (share * f64::from(u16::MAX - SMALLEST)).round() as u16
}

/// Returns the figures at the ends of the colours: single outliers do not take the colours of all
/// others.
fn colors(populations: &[&Population], range: (f64, f64), of_bandwidth: bool) -> (f64, f64) {
    let of = |at: usize| populations.iter().map(move |of| of.percentiles[at]);
    let low = of(0).fold(f64::INFINITY, f64::min).max(range.0);
    let high = of(6).fold(0.0, f64::max).min(range.1);
    if low >= high || !low.is_finite() {
        return (range.0, range.1.max(range.0 * LEAST_RANGE));
    }
    let limits = populations.iter().filter_map(|of| of.expected.or(of.limit));
    if of_bandwidth {
        let least = limits.fold(low, f64::min) / LEAST_RANGE;
        (least.max(range.0).min(high / LEAST_RANGE), high)
    } else {
        let most = limits.fold(high, f64::max) * LEAST_RANGE;
        (low, most.min(range.1).max(low * LEAST_RANGE))
    }
}

/// Returns how bad each NIC of the roster is: the mean, over its pairs, of the factor between figure
/// and median of the class. Failed pairs count as ten times the median.
fn badness(
    roster: &Roster,
    matrix: &Matrix,
    populations: &[&Population],
    of_bandwidth: bool,
) -> Vec<f64> {
    let median = |class: Class| {
        let of = populations.iter().find(|of| of.class == class);
        of.map(|of| of.percentiles[3])
            .filter(|median| *median > 0.0)
    };
    let mut sums = vec![(0.0, 0u32); roster.nics.len()];
    for &(initiator, target, figure) in &matrix.cells {
        let factor = match (figure, median(roster.class(initiator, target))) {
            (None, _) => 10.0,
            (Some(_), None) => 1.0,
            (Some(figure), Some(median)) if of_bandwidth => median / figure.max(median / 10.0),
            (Some(figure), Some(median)) => (figure / median).min(10.0),
        };
        for nic in [initiator, target] {
            let (sum, count) = &mut sums[nic as usize];
            *sum += factor;
            *count += 1;
        }
    }
    sums.into_iter()
        .map(|(sum, count)| sum / f64::from(count.max(1)))
        .collect()
}

/// Returns the title of the map of a test.
pub fn title(survey: &Survey, matrix: &Matrix) -> String {
    words::test(&survey.setup.tests[matrix.test as usize])
}
