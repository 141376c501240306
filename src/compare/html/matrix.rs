//! The figures of all pairs of a test as data for the heat map, which a script draws (`map.js`).

use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use campaign::quiet::findings::{Matrix, Population};
use campaign::quiet::roster::{NicId, Pair, Roster};
use crew::location::Class;
use survey::result::{Survey, words};

/// Most NICs of a map: more make a page that browsers open too slowly.
pub const MOST_NICS: usize = 4096;

/// Cell of a pair without a measurement.
const UNTESTED: u16 = 0;

/// Cell of a pair that failed.
const FAILED: u16 = 1;

/// Cell of the smallest figure. Larger ones follow at equal ratios up to the largest one.
const SMALLEST: u16 = 2;

/// Least ratio of the ends of the colours, so that a map without differences has one colour.
const LEAST_RANGE: f64 = 1.5;

/// What the script draws. Rows are initiators, columns are targets.
#[derive(Debug, Serialize)]
pub struct DrawnMatrix {
    /// Whether a figure is a bandwidth in bytes per second, and not a latency in nanoseconds.
    of_bandwidth: bool,
    /// Whether all pairs that were to be measured have a cell. Then others were not planned.
    is_complete: bool,
    /// Whether no pair was measured in both directions.
    is_one_way: bool,
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

impl ClassFacts {
    fn new(population: &Population) -> Self {
        Self {
            name: population.class.name(),
            median: population.median(),
            limit: population.expected.or(population.limit),
        }
    }
}

/// The map of a matrix, without NICs that have no pair. `None` without pairs, or with too many
/// NICs.
pub fn map(survey: &Survey, matrix: &Matrix) -> Option<DrawnMatrix> {
    let roster = &survey.roster;
    let mut place: Vec<Option<u32>> = vec![None; roster.nics.len()];
    for (initiator, target, _) in &matrix.cells {
        place[initiator.index()] = Some(0);
        place[target.index()] = Some(0);
    }
    let nics: Vec<NicId> =
        roster.nic_ids().zip(&place).filter_map(|(nic, number)| number.map(|_| nic)).collect();
    if nics.is_empty() || nics.len() > MOST_NICS {
        return None;
    }
    for (at, nic) in (0..).zip(&nics) {
        place[nic.index()] = Some(at);
    }
    let range = range(matrix);
    let mut cells = vec![UNTESTED; nics.len() * nics.len()];
    for (initiator, target, figure) in &matrix.cells {
        let row = place[initiator.index()]? as usize;
        let column = place[target.index()]? as usize;
        cells[row * nics.len() + column] = figure.map_or(FAILED, |figure| cell(figure, range));
    }
    let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    let is_bandwidth = survey.setup.tests[matrix.test.index()].of_bandwidth;
    let populations: Vec<&Population> = survey
        .verdict
        .populations
        .iter()
        .filter(|population| population.test == matrix.test)
        .collect();
    let by_location = by_location(roster, &nics);
    let mut by_badness = by_location.clone();
    let badness = badness(survey, matrix);
    by_badness.sort_by(|one, other| {
        let value = |at: &u32| badness[nics[*at as usize].index()];
        value(other).partial_cmp(&value(one)).unwrap_or(Ordering::Equal)
    });
    Some(DrawnMatrix {
        of_bandwidth: is_bandwidth,
        is_complete: survey.verdict.answered >= survey.verdict.planned,
        is_one_way: is_one_way(&cells, nics.len()),
        names: nics.iter().map(|nic| roster.name(*nic)).collect(),
        nodes: nics.iter().map(|nic| roster.nic(*nic).node.0).collect(),
        locations: nics
            .iter()
            .map(|nic| roster.location(*nic).map(|at| (at.group, at.switch)))
            .collect(),
        by_location,
        by_badness,
        range,
        colors: colors(&populations, range, is_bandwidth),
        classes: populations.iter().map(|population| ClassFacts::new(population)).collect(),
        cells: STANDARD.encode(bytes),
    })
}

/// The smallest and the largest figure.
fn range(matrix: &Matrix) -> (f64, f64) {
    let figures = matrix.cells.iter().filter_map(|(_, _, figure)| *figure);
    let positive = figures.filter(|figure| figure.is_finite() && *figure > 0.0);
    let range = positive.fold((f64::INFINITY, 0.0), |(low, high), figure| {
        (f64::min(low, figure), f64::max(high, figure))
    });
    if range.1 > 0.0 { range } else { (1.0, 1.0) }
}

/// The places of NICs, by group, switch and port; NICs without a location come last.
fn by_location(roster: &Roster, nics: &[NicId]) -> Vec<u32> {
    let location = |nic: NicId| {
        let location = roster.location(nic);
        location.map_or((u16::MAX, u16::MAX, None), |location| {
            (location.group, location.switch, location.port)
        })
    };
    let mut places: Vec<u32> = (0..nics.len() as u32).collect();
    places.sort_by_key(|at| location(nics[*at as usize]));
    places
}

impl DrawnMatrix {
    /// The number of NICs.
    pub fn nics(&self) -> usize {
        self.names.len()
    }

    /// Whether no pair was measured in both directions, so that the map shows each figure in both
    /// cells of its pair.
    pub fn is_one_way(&self) -> bool {
        self.is_one_way
    }
}

/// Whether no pair has cells in both directions.
fn is_one_way(cells: &[u16], nics: usize) -> bool {
    let has = |row: usize, column: usize| cells[row * nics + column] != UNTESTED;
    (0..nics).all(|row| (0..row).all(|column| !(has(row, column) && has(column, row))))
}

fn cell(figure: f64, (low, high): (f64, f64)) -> u16 {
    if high <= low {
        return SMALLEST;
    }
    let share = ((figure / low).ln() / (high / low).ln()).clamp(0.0, 1.0);
    SMALLEST + (share * f64::from(u16::MAX - SMALLEST)).round() as u16
}

/// The figures at the ends of the colours: single outliers do not take the colours of all others.
fn colors(populations: &[&Population], range: (f64, f64), is_bandwidth: bool) -> (f64, f64) {
    let percentiles_at =
        |at: usize| populations.iter().map(move |population| population.percentiles[at]);
    let low = percentiles_at(0).fold(f64::INFINITY, f64::min).max(range.0);
    let high = percentiles_at(6).fold(0.0, f64::max).min(range.1);
    if low >= high || !low.is_finite() {
        return (range.0, range.1.max(range.0 * LEAST_RANGE));
    }
    let limits =
        populations.iter().filter_map(|population| population.expected.or(population.limit));
    if is_bandwidth {
        let least = limits.fold(low, f64::min) / LEAST_RANGE;
        (least.max(range.0).min(high / LEAST_RANGE), high)
    } else {
        let most = limits.fold(high, f64::max) * LEAST_RANGE;
        (low, most.min(range.1).max(low * LEAST_RANGE))
    }
}

/// A measured or failed pair, and how much worse it is than the median of its class: 2 means twice
/// the latency, or half the bandwidth. `None` if it failed, or if its class has no median.
pub type PairFactor = (Pair, Option<f64>);

/// Returns how much worse each pair of a matrix is than the median of its class.
pub fn factors(survey: &Survey, matrix: &Matrix) -> Vec<PairFactor> {
    let is_bandwidth = survey.setup.tests[matrix.test.index()].of_bandwidth;
    let median = |class: Class| {
        let mut populations = survey.verdict.populations.iter();
        let population = populations
            .find(|population| population.test == matrix.test && population.class == class);
        population.map(|population| population.median()).filter(|median| *median > 0.0)
    };
    let factor = |&(initiator, target, figure): &(NicId, NicId, Option<f64>)| {
        let pair = Pair { initiator, target };
        let factor = figure.zip(median(survey.roster.class(pair)));
        let factor = factor.map(|(figure, median)| {
            if is_bandwidth { median / figure.max(f64::MIN_POSITIVE) } else { figure / median }
        });
        (pair, factor)
    };
    matrix.cells.iter().map(factor).collect()
}

/// Returns how bad each NIC of the roster is: the mean, over its pairs, of the factor between the
/// figure and the median of the class. Failed pairs count as ten times the median, which is also
/// the most of one pair.
pub fn badness(survey: &Survey, matrix: &Matrix) -> Vec<f64> {
    const MOST: f64 = 10.0;
    let mut sums = vec![(0.0, 0u32); survey.roster.nics.len()];
    for ((pair, factor), (_, _, figure)) in factors(survey, matrix).iter().zip(&matrix.cells) {
        let factor = match (figure, factor) {
            (None, _) => MOST,
            (Some(_), None) => 1.0,
            (Some(_), Some(factor)) => factor.min(MOST),
        };
        for nic in pair.nics() {
            let (sum, count) = &mut sums[nic.index()];
            *sum += factor;
            *count += 1;
        }
    }
    sums.into_iter().map(|(sum, count)| sum / f64::from(count.max(1))).collect()
}

/// The title of the map of a test.
pub fn title(survey: &Survey, matrix: &Matrix) -> String {
    words::test(&survey.setup.tests[matrix.test.index()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::roster::TestId;
    use survey::result::testing;

    /// The slow NIC, and the one without pairs.
    const SLOW: u32 = 5;
    const ABSENT: u32 = 2;

    /// A survey of 8 NICs at two switches whose pairs take 2 us, 6 us with [`SLOW`]. One pair of
    /// NIC 7 failed.
    fn survey() -> Survey {
        let mut survey = testing::survey(testing::good(), Ok(()));
        let figure = |initiator, target| match (initiator, target) {
            (7, 6) => None,
            (SLOW, _) | (_, SLOW) => Some(6e3),
            _ => Some(2e3),
        };
        let present = || (0..8).filter(|nic| *nic != ABSENT);
        let pairs = present().flat_map(|one| present().map(move |other| (one, other)));
        let cells = pairs
            .filter(|(one, other)| one != other)
            .map(|(one, other)| (NicId(one), NicId(other), figure(one, other)))
            .collect();
        survey.verdict.matrices = vec![Matrix { test: TestId(0), cells }];
        survey
    }

    #[test]
    fn encodes_figures_failures_and_missing_pairs() {
        let survey = survey();
        let map = map(&survey, &survey.verdict.matrices[0]).unwrap();
        assert_eq!(map.nics(), 7);
        let bytes = STANDARD.decode(&map.cells).unwrap();
        let cells: Vec<u16> =
            bytes.chunks(2).map(|cell| u16::from_le_bytes([cell[0], cell[1]])).collect();
        // NIC 2 is left out, so that NIC 5 is in row 4.
        let at = |row: usize, column: usize| cells[row * 7 + column];
        assert_eq!([at(0, 0), at(6, 5)], [UNTESTED, FAILED]);
        assert_eq!([at(0, 1), at(4, 0), at(0, 4)], [SMALLEST, u16::MAX, u16::MAX]);
        assert_eq!(map.range, (2e3, 6e3));
        assert!(map.is_complete && !map.is_one_way);
    }

    #[test]
    fn knows_pairs_measured_in_one_direction() {
        let mut survey = survey();
        let cells = &mut survey.verdict.matrices[0].cells;
        cells.retain(|(one, other, _)| (one.0 + other.0) % 2 == u32::from(one < other));
        let map = map(&survey, &survey.verdict.matrices[0]).unwrap();
        assert!(map.is_one_way());
        assert_eq!(survey.verdict.matrices[0].cells.len(), 7 * 6 / 2);
    }

    #[test]
    fn pairs_without_cell_may_be_planned_in_a_partial_survey() {
        let mut survey = survey();
        survey.verdict.answered -= 1;
        let map = map(&survey, &survey.verdict.matrices[0]).unwrap();
        assert!(!map.is_complete);
    }

    #[test]
    fn sorts_by_location_and_by_badness() {
        let mut survey = survey();
        survey.roster.nics.swap(0, 7);
        let map = map(&survey, &survey.verdict.matrices[0]).unwrap();
        let names = |order: &[u32]| -> Vec<&str> {
            order.iter().map(|at| map.names[*at as usize].as_str()).collect()
        };
        // The NICs of the first switch come first.
        let by_location = names(&map.by_location);
        assert!(by_location[..3].contains(&"nid000416 cxi0"), "{by_location:?}");
        let slow = survey.roster.name(NicId(SLOW));
        assert_eq!(names(&map.by_badness)[0], slow);
    }

    #[test]
    fn colors_reach_beyond_the_limit_but_not_to_single_outliers() {
        let population = testing::population(TestId(0), Class::Switch);
        // Figures from 1.8 us, 99 % below 2.01 us, a limit of 2.47 us.
        assert_eq!(colors(&[&population], (1_800.0, 1e9), false), (1_810.0, 2_470.0 * 1.5));
        let bandwidth = testing::population(TestId(1), Class::Switch);
        let (low, high) = colors(&[&bandwidth], (1.0, 21e9), true);
        assert_eq!((low, high), (17.67e9 / 1.5, 20.1e9));
        // Without populations, all figures.
        assert_eq!(colors(&[], (1.0, 8.0), false), (1.0, 8.0));
    }

    #[test]
    fn keeps_figures_to_a_hundredth_of_a_percent() {
        let range = (1e3, 1e8);
        for figure in [1e3, 1_234.5, 5e4, 9.9e7, 1e8] {
            let share = f64::from(cell(figure, range) - SMALLEST) / f64::from(u16::MAX - SMALLEST);
            let back = range.0 * (range.1 / range.0).powf(share);
            assert!((back / figure - 1.0).abs() < 1e-4, "{figure}: {back}");
        }
    }
}
