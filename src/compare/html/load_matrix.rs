//! The bandwidth between groups under load, as a picture: rows send, columns receive.

use maud::{Markup, html};

use super::chart::short;
use super::parts::figure;
use load::findings::{BandwidthFigures, LoadUnit, SetFigures};
use load::limits::SET;
use survey::result::{load_words, words};

/// Most groups of a matrix: a page with more is too large.
const MOST_GROUPS: usize = 200;

/// Most groups whose cells are elements of their own, with a title. Cells of more groups are one
/// path for each level.
const MOST_WITH_TITLES: usize = 40;

/// Most groups whose cells have numbers in them.
const MOST_WITH_NUMBERS: usize = 12;

/// Most labels on each side.
const MOST_LABELS: usize = 20;

/// Widths of all cells together and of one cell, at most.
const CELLS: f64 = 560.0;
const CELL: f64 = 44.0;

/// Widths of the labels of rows and heights of the labels of columns.
const LEFT: f64 = 40.0;
const TOP: f64 = 34.0;

/// Lower ends of the levels, from the lowest; each has a colour.
const LEVELS: [f64; 5] = [0.0, 0.4, 0.6, SET.slow, SET.good];

/// A cell: row, column and figure.
struct Cell {
    row: usize,
    column: usize,
    value: f64,
}

/// The matrix of a pattern. `None` if it has no figures between groups.
pub fn matrix(pattern: &BandwidthFigures) -> Option<Markup> {
    let pairs = pattern.sets.iter().filter_map(|set| Some((ends(set)?, set)));
    let pairs: Vec<((u16, u16, bool), &SetFigures)> = pairs.collect();
    let mut groups: Vec<u16> = pairs.iter().flat_map(|((from, to, _), _)| [*from, *to]).collect();
    groups.sort_unstable();
    groups.dedup();
    if groups.len() < 2 {
        return None;
    }
    let name = &pattern.pattern;
    if groups.len() > MOST_GROUPS {
        let count = words::grouped(groups.len() as u64);
        return Some(html! {
            p.note {
                (name) ": no picture of " (count) " groups, which is drawn for 2 to " (MOST_GROUPS)
            }
        });
    }
    let has_theory = pairs.iter().all(|(_, pair)| pair.theory.is_some());
    let value = |figures: &SetFigures| match figures.theory.filter(|_| has_theory) {
        Some(theory) => figures.per_flow / theory,
        None => figures.ratio,
    };
    let place = |group: u16| groups.binary_search(&group).unwrap_or_default();
    let cells: Vec<Cell> = pairs
        .iter()
        .flat_map(|((from, to, both), pair)| {
            let cell = |from, to| Cell { row: place(from), column: place(to), value: value(pair) };
            let other = both.then(|| cell(*to, *from));
            [Some(cell(*from, *to)), other].into_iter().flatten()
        })
        .collect();
    let what = if has_theory { "share of what the topology allows" } else { "ratio to the median" };
    let caption = format!("{name}: bandwidth from group (row) to group (column), {what}");
    Some(html! {
        (figure(&caption, &picture(&caption, &groups, &cells)))
        (legend())
    })
}

/// The groups at which links begin and end, and whether the other direction is part of them. `None`
/// for other parts.
fn ends(figures: &SetFigures) -> Option<(u16, u16, bool)> {
    match figures.unit {
        LoadUnit::GroupLinks { from, to, both } => Some((from, to, both)),
        _ => None,
    }
}

/// The number of the level of a figure.
fn level(value: f64) -> usize {
    let above = LEVELS.iter().rposition(|end| value >= *end);
    above.unwrap_or(0)
}

fn picture(what: &str, groups: &[u16], cells: &[Cell]) -> Markup {
    let side = (CELLS / groups.len() as f64).min(CELL);
    let (width, height) =
        (LEFT + side * groups.len() as f64 + 1.0, TOP + side * groups.len() as f64 + 1.0);
    let every = groups.len().div_ceil(MOST_LABELS);
    let labels = || groups.iter().enumerate().step_by(every);
    let middle = |at: usize| (at as f64 + 0.5) * side;
    html! {
        svg.cells role="img" aria-label=(summary(what, groups, cells))
            viewBox={ "0 0 " (short(width)) " " (short(height)) }
            style=(format!("max-width:{width:.0}px;min-width:min({width:.0}px,24rem)")) {
            text.title x=(LEFT) y="12" { "to group" }
            text.title x="0" y="12" { "from" }
            @for (at, group) in labels() {
                text.tick x=(LEFT - 6.0) y=(short(TOP + middle(at) + 4.0)) text-anchor="end" {
                    (format!("{group:03}"))
                }
                text.tick x=(short(LEFT + middle(at))) y=(TOP - 6.0) text-anchor="middle" {
                    (format!("{group:03}"))
                }
            }
            @if groups.len() > MOST_WITH_TITLES { (paths(cells, side)) }
            @else { (titled(groups, cells, side)) }
            rect.frame x=(LEFT) y=(TOP) width=(short(width - LEFT - 1.0))
                height=(short(height - TOP - 1.0)) {}
        }
    }
}

fn titled(groups: &[u16], cells: &[Cell], side: f64) -> Markup {
    html! {
        @for cell in cells {
            @let (x, y) = corner(cell, side);
            @let level = level(cell.value);
            rect class={ "l" (level) } x=(short(x)) y=(short(y)) width=(short(side - 1.0))
                height=(short(side - 1.0)) {
                title {
                    (format!("{:03} to {:03}: ", groups[cell.row], groups[cell.column]))
                    (load_words::ratio(cell.value))
                }
            }
            @if groups.len() <= MOST_WITH_NUMBERS {
                text class={ "t" (level) } x=(short(x + side / 2.0))
                    y=(short(y + side / 2.0 + 4.0)) text-anchor="middle" {
                    (load_words::ratio(cell.value))
                }
            }
        }
    }
}

/// The cells of each level as one path.
fn paths(cells: &[Cell], side: f64) -> Markup {
    html! {
        @for number in 0..LEVELS.len() {
            @let path = cells.iter().filter(|cell| level(cell.value) == number).map(|cell| {
                let (x, y) = corner(cell, side);
                format!("M{x:.1} {y:.1}h{side:.1}v{side:.1}h-{side:.1}z")
            }).collect::<String>();
            @if !path.is_empty() { path class={ "l" (number) } d=(path) {} }
        }
    }
}

fn corner(cell: &Cell, side: f64) -> (f64, f64) {
    (LEFT + cell.column as f64 * side, TOP + cell.row as f64 * side)
}

/// The picture in a sentence, for readers who do not see it.
fn summary(what: &str, groups: &[u16], cells: &[Cell]) -> String {
    let worst = cells.iter().min_by(|one, other| one.value.total_cmp(&other.value));
    let worst = worst.map_or(String::new(), |cell| {
        let (from, to) = (groups[cell.row], groups[cell.column]);
        format!("; lowest {} from group {from:03} to group {to:03}", load_words::ratio(cell.value))
    });
    let count = words::counted(groups.len() as u64, "group");
    format!("{what}; {count}{worst}")
}

fn legend() -> Markup {
    html! {
        div.legend {
            @for (number, from) in LEVELS.iter().enumerate() {
                span {
                    span class={ "key l" (number) } {}
                    @match LEVELS.get(number + 1) {
                        Some(to) => (format!("{from:.1} to {to:.1}")),
                        None => (format!("{from:.1} and more")),
                    }
                }
            }
            span { span.key {} "not measured" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use survey::result::testing::{bandwidth, links};

    /// The page of a matrix of this many groups, of which the first has slow links to the second.
    fn page(groups: u16, has_theory: bool) -> Option<String> {
        let pairs = (0..groups).flat_map(|from| (0..groups).map(move |to| (from, to)));
        let mut pattern = bandwidth("bisect:system");
        pattern.sets = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| {
                let ratio = if (from, to) == (0, 1) { 0.25 } else { 1.0 };
                let theory = has_theory.then_some(26.875e9);
                SetFigures { theory, ..links(from, to, ratio) }
            })
            .collect();
        matrix(&pattern).map(Markup::into_string)
    }

    #[test]
    fn draws_each_direction_of_two_groups() {
        let page = page(3, false).unwrap();
        assert_eq!(page.matches("<rect").count(), 7, "{page}");
        assert!(page.contains("<title>000 to 001: 0.25</title>"), "{page}");
        assert!(page.contains("<title>001 to 000: 1.00</title>"), "{page}");
        assert!(page.contains("3 groups; lowest 0.25 from group 000 to group 001"), "{page}");
        assert!(page.contains("ratio to the median"), "{page}");
    }

    #[test]
    fn compares_with_theory_if_it_is_known() {
        let page = page(3, true).unwrap();
        assert!(page.contains("share of what the topology allows"), "{page}");
        assert!(page.contains("<title>000 to 001: 0.20</title>"), "{page}");
    }

    #[test]
    fn draws_both_directions_of_a_part_with_both() {
        let mut pattern = bandwidth("bisect:system, both ways");
        let mut both = links(0, 2, 0.7);
        both.unit = LoadUnit::GroupLinks { from: 0, to: 2, both: true };
        pattern.sets = vec![both];
        let page = matrix(&pattern).unwrap().into_string();
        assert!(page.contains("000 to 002") && page.contains("002 to 000"), "{page}");
    }

    #[test]
    fn stays_small_with_many_groups() {
        let page = |groups| page(groups, false).unwrap();
        assert!(page(40).contains("<title>"));
        let large = page(200);
        assert!(!large.contains("<title>"));
        assert_eq!(large.matches("<path").count(), 2);
        assert!(large.len() < 1_500_000, "{}", large.len());
        assert!(page(201).contains("no picture of 201 groups"));
    }

    #[test]
    fn needs_two_groups() {
        assert!(matrix(&bandwidth("bisect:switch")).is_none());
    }

    #[test]
    fn levels_begin_at_their_lower_ends() {
        for (value, expected) in [(0.1, 0), (0.4, 1), (0.79, 2), (0.8, 3), (0.9, 4), (1.2, 4)] {
            assert_eq!(level(value), expected, "{value}");
        }
    }
}
