//! The map of all pairs of a test, which a script draws (`map.js`), and what it shows as a sentence
//! and as a table.

use maud::{Markup, PreEscaped, html};

use super::matrix;
use super::parts::{cell, first_rows, table};
use super::quantity::Quantity;
use campaign::quiet::findings::{Matrix, Statistic};
use campaign::quiet::roster::NicId;
use facts::robust::upper_median;
use survey::result::{Survey, words};

/// Rows of the table of NICs.
const MOST_ROWS: usize = 50;

/// What a matrix says about one NIC.
struct MatrixNic {
    nic: NicId,
    /// Pairs that were measured or failed.
    pairs: usize,
    failed: usize,
    /// Median factor between its pairs and the median of their class: in all pairs, as initiator,
    /// as target.
    factors: [Option<f64>; 3],
}

pub fn map(survey: &Survey, matrix: &Matrix, id: &str) -> Markup {
    let title = matrix::title(survey, matrix);
    let Some(map) = matrix::map(survey, matrix) else {
        return html! {
            p.note {
                (title) ": no map of pairs, which is drawn for 1 to "
                (words::grouped(matrix::MOST_NICS as u64)) " NICs"
            }
        };
    };
    let facts = nics(survey, matrix);
    let nics = words::grouped(map.nics() as u64);
    // `<` could end the element; in JSON it stands in strings alone.
    let data = serde_json::to_string(&map).unwrap_or_default().replace('<', "\\u003c");
    html! {
        figure.map id=(id) data-summary=(summary(survey, matrix, &facts)) {
            figcaption {
                (title) ": each pair of " (nics) " NICs"
                @if map.is_one_way() {
                    ", measured in one direction; both cells of a pair show it"
                } @else {
                    "; rows are initiators, columns are targets; a pale cell shows the other direction"
                }
            }
            @if let Some(note) = other_figure(survey, matrix) { p.note { (note) } }
            noscript { p.note { "The map needs JavaScript. The tables have the same verdict." } }
            script type="application/json" { (PreEscaped(data)) }
            details {
                summary { "The same as a table: NICs, the worst first" }
                (nic_table(survey, &title, &facts))
            }
        }
    }
}

/// Returns by which figure the verdict judges pairs, if the map shows another one.
fn other_figure(survey: &Survey, matrix: &Matrix) -> Option<&'static str> {
    let mut all = survey.verdict.populations.iter();
    let test_population = all.find(|population| {
        population.test == matrix.test && population.figure != Statistic::Median
    })?;
    Some(match test_population.figure {
        Statistic::Median | Statistic::Unaffected => return None,
        Statistic::P5 => {
            "The map shows medians. CPUs were busy, so the verdict judges 5th percentiles, which \
             waiting hardly raises: a pair may look slow here and be good."
        }
        Statistic::Min => {
            "The map shows medians. CPUs were busy, so the verdict judges minima, which waiting \
             hardly raises: a pair may look slow here and be good."
        }
        Statistic::Bound => {
            "CPUs were busy, so bandwidths are lower bounds: a pair may look slow here and be good."
        }
    })
}

/// Returns what the matrix says about each of its NICs, the worst first as in the map.
fn nics(survey: &Survey, matrix: &Matrix) -> Vec<MatrixNic> {
    let factors = matrix::factors(survey, matrix);
    let mut ids: Vec<NicId> = factors.iter().flat_map(|(pair, _)| pair.nics()).collect();
    ids.sort_unstable();
    ids.dedup();
    let place = |nic: NicId| ids.binary_search(&nic).unwrap_or_default();
    type Roles = [Vec<f64>; 2];
    let mut roles: Vec<Roles> = ids.iter().map(|_| Default::default()).collect();
    let mut counts = vec![(0, 0); ids.len()];
    for ((pair, factor), (_, _, figure)) in factors.into_iter().zip(&matrix.cells) {
        for (role, nic) in pair.nics().into_iter().enumerate() {
            let at = place(nic);
            counts[at].0 += 1;
            counts[at].1 += usize::from(figure.is_none());
            roles[at][role].extend(factor);
        }
    }
    let facts = |((nic, [initiator, target]), (pairs, failed)): ((NicId, Roles), _)| MatrixNic {
        nic,
        pairs,
        failed,
        factors: [[initiator.clone(), target.clone()].concat(), initiator, target]
            .map(|factors| upper_median(&factors)),
    };
    let mut facts: Vec<MatrixNic> = ids.iter().copied().zip(roles).zip(counts).map(facts).collect();
    let badness = matrix::badness(survey, matrix);
    facts.sort_by(|one, other| badness[other.nic.index()].total_cmp(&badness[one.nic.index()]));
    facts
}

/// The map in a few sentences, for readers who do not see it.
fn summary(survey: &Survey, matrix: &Matrix, facts: &[MatrixNic]) -> String {
    let test = &survey.setup.tests[matrix.test.index()];
    let quantity = if test.of_bandwidth { Quantity::Bandwidth } else { Quantity::Latency };
    let figures = || matrix.cells.iter().filter_map(|(_, _, figure)| *figure);
    let failed = matrix.cells.len() - figures().count();
    let mut text = format!(
        "Map of {}: {} of {}, {}",
        words::test(test),
        words::counted(matrix.cells.len() as u64, "pair"),
        words::counted(facts.len() as u64, "NIC"),
        if failed == 0 {
            "none failed".into()
        } else {
            format!("{} failed", words::grouped(failed as u64))
        }
    );
    let low = figures().fold(f64::INFINITY, f64::min);
    let high = figures().fold(0.0, f64::max);
    if low <= high {
        text += &format!("; figures from {} to {}", quantity.text(low), quantity.text(high));
    }
    if let Some(worst) = facts.first() {
        text += &format!(". Worst NIC: {}", survey.roster.name(worst.nic));
        if let Some(factor) = worst.factors[0] {
            text += &format!(", {factor:.2} times worse than the median of its class");
        }
        if worst.failed > 0 {
            text += &format!(", {} of {} pairs failed", worst.failed, worst.pairs);
        }
    }
    text + "."
}

/// The table of the worst NICs.
fn nic_table(survey: &Survey, title: &str, facts: &[MatrixNic]) -> Markup {
    let factor = |value: Option<f64>| cell(value.map_or("-".into(), |value| format!("{value:.2}")));
    let row = |facts: &MatrixNic| {
        let [all, initiator, target] = facts.factors.map(factor);
        vec![
            cell(survey.roster.name(facts.nic)),
            all,
            initiator,
            target,
            cell(words::grouped(facts.pairs as u64)),
            cell(words::grouped(facts.failed as u64)),
        ]
    };
    let columns = ["NIC", ">Factor", ">As initiator", ">As target", ">Pairs", ">Failed"];
    let caption =
        format!("{title}: how many times worse than the median of the class, median of the pairs");
    first_rows(table, &caption, &columns, (facts, MOST_ROWS), row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::roster::TestId;
    use survey::result::testing;

    /// The page of a map in which NIC 5 takes 6 us, others 1.9 us, and a pair of NIC 7 failed if
    /// `has_failed`.
    fn page(has_failed: bool) -> String {
        let mut survey = testing::survey(testing::good(), Ok(()));
        let figure = |one, other| match (one, other) {
            (7, 6) if has_failed => None,
            (5, _) | (_, 5) => Some(5700.0),
            _ => Some(1900.0),
        };
        let pairs = (0..8).flat_map(|one| (0..one).map(move |other| (one, other)));
        survey.verdict.matrices = vec![Matrix {
            test: TestId(0),
            cells: pairs
                .map(|(one, other)| (NicId(one), NicId(other), figure(one, other)))
                .collect(),
        }];
        map(&survey, &survey.verdict.matrices[0], "map").into_string()
    }

    #[test]
    fn says_if_the_verdict_uses_another_figure() {
        let note = |figure| {
            let mut survey = testing::survey(testing::good(), Ok(()));
            survey.verdict.populations[0].figure = figure;
            let test = survey.verdict.populations[0].test;
            let cells = Vec::new();
            other_figure(&survey, &Matrix { test, cells })
        };
        assert_eq!(note(Statistic::Median), None);
        assert!(note(Statistic::Min).is_some_and(|note| note.contains("judges minima")));
    }

    #[test]
    fn says_what_the_map_shows() {
        let words = "Map of write-lat 8: 28 pairs of 8 NICs, none failed; figures from 1.90 us to \
                     5.70 us. Worst NIC: nid000418 cxi1, 3.00 times worse than the median of its \
                     class.";
        let page_without = page(false);
        assert!(page_without.contains(words), "{page_without}");
        assert!(page_without.contains("measured in one direction"));
        let first = page_without.split("<tbody>").nth(1).unwrap();
        let row = r#"<tr><th scope="row" class="words">nid000418 cxi1</th><td class="number">3.00"#;
        assert!(first.starts_with(row), "{first}");
        assert!(page(true).contains("1 failed; figures"));
    }
}
