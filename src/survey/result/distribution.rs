//! The figures of all pairs, by test and class, and the switches and groups that stand out, as
//! tables. Classes without a limit.

use super::{Survey, words};
use campaign::blame::LEAST_FIGURES;
use campaign::quiet::findings::{Aggregate, Population, Statistic, Test};
use campaign::quiet::roster::TestId;
use page::page::Page;

/// Switches and groups that the text shows.
const SHOWN_AGGREGATES: usize = 5;

/// Adds the tables of figures by test and class, one for latencies and one for bandwidths, and what
/// they can say.
pub fn add(page: &mut Page, survey: &Survey) {
    for is_bandwidth in [false, true] {
        let is_of_kind =
            |population: &&Population| tested(survey, population.test).of_bandwidth == is_bandwidth;
        let rows: Vec<&Population> = survey
            .verdict
            .populations
            .iter()
            .filter(|population| population.count > 0)
            .filter(is_of_kind)
            .collect();
        if rows.is_empty() {
            continue;
        }
        page.empty_line();
        table(page, survey, is_bandwidth, &rows);
    }
    page.lines(without_limit(survey));
    page.lines(sensitivity(survey));
    if let Some(sentence) = judged_statistics(survey) {
        page.paragraph(sentence, "    ");
    }
}

/// Returns by which figures of the pairs latencies are judged on busy CPUs, with the tests where
/// they are not the same for all.
fn judged_statistics(survey: &Survey) -> Option<String> {
    let populations = &survey.verdict.populations;
    let judged_by = |statistic| {
        let judged = populations.iter().filter(|population| population.limit.is_some());
        judged.filter(move |population| population.figure == statistic)
    };
    let (p5, min) = (Statistic::P5, Statistic::Min);
    let figures = match [p5, min].map(|statistic| judged_by(statistic).next().is_some()) {
        [false, false] => return None,
        [true, false] => "their 5th percentiles".to_owned(),
        [false, true] => "their minima".to_owned(),
        [true, true] => {
            let tests = |statistic, other| {
                let mut names: Vec<String> = Vec::new();
                for population in judged_by(statistic) {
                    let test = words::test(tested(survey, population.test));
                    let is_shared = judged_by(other).any(|other| other.test == population.test);
                    let class = population.class.name();
                    let name = if is_shared { format!("{test} {class}") } else { test };
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                names.join(", ")
            };
            format!("5th percentiles ({}) or minima ({})", tests(p5, min), tests(min, p5))
        }
    };
    Some(format!("Busy CPUs: latencies are judged by {figures}, which the limit is for."))
}

/// Returns how slow a NIC, and links between two groups, must be to be found, for each test in the
/// class that finds least.
fn sensitivity(survey: &Survey) -> Vec<String> {
    let test_text = |(test, tested): (usize, &Test)| {
        let test_populations =
            survey.verdict.populations.iter().filter(|population| population.test.index() == test);
        let (mut nics, mut links) = (Vec::new(), Vec::new());
        for population in test_populations {
            nics.extend(population.sensitivity);
            links.extend(population.links_sensitivity);
        }
        let ratio = nics.into_iter().max_by(f64::total_cmp)?;
        let links = links.into_iter().max_by(f64::total_cmp);
        let links = links.map(|ratio| format!(", links between two groups {ratio:.2} times"));
        let (name, links) = (words::test(tested), links.unwrap_or_default());
        Some(format!("{name} would have found a NIC {ratio:.2} times as slow as good ones{links}."))
    };
    let tests = survey.setup.tests.iter().enumerate();
    tests.filter_map(test_text).collect()
}

/// Returns why classes have no limit.
fn without_limit(survey: &Survey) -> Vec<String> {
    let populations = survey.verdict.populations.iter();
    let without = populations
        .filter(|population| population.limit.is_none() && population.expected.is_none());
    let (small, large): (Vec<_>, Vec<_>) =
        without.partition(|population| population.count < LEAST_FIGURES as u64);
    let mut lines = Vec::new();
    if !small.is_empty() {
        lines.push(format!(
            "A class with fewer than {LEAST_FIGURES} pairs has no limit; --expect sets an absolute one."
        ));
    }
    if let Some(class) =
        survey.verdict.populations.iter().find(|population| is_incomparable(population))
    {
        lines.push(format!(
            "Class {} has one way and nothing to compare it with; --expect judges it.",
            class.class.name()
        ));
    }
    let (biased, others): (Vec<_>, Vec<_>) =
        large.into_iter().partition(|population| population.biased);
    if !biased.is_empty() {
        lines.push("A class whose missing pairs are unevenly spread is not judged.".into());
    }
    // The centre of a class needs as many pairs with figures as the class.
    let (waiting, mixed): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|other| has_few_figures(other));
    if !waiting.is_empty() {
        lines.push("A class whose processes waited for their CPUs is not judged.".into());
    }
    if !mixed.is_empty() {
        lines.push(
            "A class whose pairs differ too much has no limit; --expect sets an absolute one."
                .into(),
        );
    }
    lines
}

/// Adds the table of the tests of one kind, with the bad end of the figures on the right.
fn table(page: &mut Page, survey: &Survey, is_bandwidth: bool, populations: &[&Population]) {
    let has_expected = populations.iter().any(|population| population.expected.is_some());
    let has_failed = populations.iter().any(|population| population.failed > 0);
    let figures = if is_bandwidth {
        ["Test (GB/s)", "Class", ">Pairs", ">Max", ">Median", ">p1", ">Min"]
    } else {
        ["Test (us)", "Class", ">Pairs", ">Min", ">Median", ">p99", ">Max"]
    };
    let mut titles = figures.to_vec();
    titles.push(">Limit");
    if has_expected {
        titles.push(">Expect");
    }
    titles.push(">Outside");
    if has_failed {
        titles.push(">Failed");
    }
    let row = |population: &&Population| {
        let test = tested(survey, population.test);
        let figure = |value| words::figure(test, value);
        let optional = |value: Option<f64>| value.map_or("-".into(), figure);
        let [p1, _, _, median, _, _, p99] = population.percentiles;
        let figures = if is_bandwidth {
            [population.max, median, p1, population.min]
        } else {
            [population.min, median, p99, population.max]
        };
        let mut cells = vec![
            words::test(test),
            population.class.name().to_owned(),
            words::grouped(population.count),
        ];
        cells.extend(figures.map(figure));
        cells.push(optional(population.limit));
        if has_expected {
            cells.push(optional(population.expected));
        }
        cells.push(population.outside.to_string());
        if has_failed {
            cells.push(population.failed.to_string());
        }
        cells
    };
    page.table(&titles, populations.iter().map(row));
}

/// Adds the table of the switches and groups with the largest shares of pairs outside the limits;
/// nothing if there are none.
pub fn worst_places(page: &mut Page, survey: &Survey) {
    let mut worst: Vec<&Aggregate> =
        survey.verdict.aggregates.iter().filter(|aggregate| aggregate.outside > 0).collect();
    let share = |aggregate: &Aggregate| aggregate.outside as f64 / aggregate.count.max(1) as f64;
    worst.sort_by(|one, other| share(other).total_cmp(&share(one)));
    if worst.is_empty() {
        return;
    }
    let columns = ["Most pairs outside", "Test", ">Pairs", ">Median", ">Worst", ">Outside"];
    let row = |aggregate: &Aggregate| {
        let test = tested(survey, aggregate.test);
        vec![
            words::unit(&survey.roster, &aggregate.unit),
            format!("{} ({})", words::test(test), words::figure_unit(test)),
            aggregate.count.to_string(),
            words::figure(test, aggregate.median),
            words::figure(test, aggregate.worst),
            aggregate.outside.to_string(),
        ]
    };
    page.empty_line();
    page.table(&columns, worst.iter().take(SHOWN_AGGREGATES).copied().map(row));
    page.and_more(worst.len(), SHOWN_AGGREGATES);
}

fn tested(survey: &Survey, test: TestId) -> &Test {
    &survey.setup.tests[test.index()]
}

/// Whether a class has too few pairs whose figures say something.
fn has_few_figures(population: &Population) -> bool {
    population.count < population.unjudged + LEAST_FIGURES as u64
}

/// Whether the pairs of a class have nothing to be compared with, and no limit of `--expect`.
pub fn is_incomparable(population: &Population) -> bool {
    population.incomparable && population.expected.is_none()
}

/// Whether pairs of a class differ too much for a limit. The survey cannot say then which of them
/// are good.
pub fn is_mixed(population: &Population) -> bool {
    let has_no_limit = population.limit.is_none() && population.expected.is_none();
    has_no_limit && !has_few_figures(population)
}
