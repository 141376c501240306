//! A survey on the page: causes with their evidence, distributions, the map of all pairs.

use maud::{Markup, html};

use super::chart::{self, Axis, Mark};
use super::parts::{
    Badge, badge, cell, charts, facts, figure, first_rows, seconds, stacked_table, table, time,
};
use super::quantity::Quantity;
use super::{load, map};
use campaign::quiet::findings::{Aggregate, Cause, Certainty, Direction, Population};
use campaign::quiet::roster::{TestId, Unit};
use facts::severity::Severity;
use survey::result::next::advice;
use survey::result::text::{UntestedGroup, untested_groups};
use survey::result::{Conclusion, Survey, why_text, words};
use why::causes::cause::Why;
use why::culprits::Explanation;

/// Rows of a table of causes, of parts that were not measured, of sums.
const MOST_ROWS: usize = 500;

/// Bad and suspect parts that the verdict names.
const MOST_NAMES: usize = 5;

/// Groups of a table of groups by groups.
const MOST_GROUPS: usize = 40;

/// Returns what a survey has come to.
pub fn status(survey: &Survey) -> Badge {
    match survey.conclusion {
        Conclusion::Good => (Severity::Good, "good"),
        Conclusion::Bad => (Severity::Bad, "bad"),
        Conclusion::Undecided => (Severity::Suspect, "undecided"),
        Conclusion::Interrupted => (Severity::Suspect, "interrupted"),
        Conclusion::Failed => (Severity::Bad, "failed"),
    }
}

/// The first line of the text, without the word of the status.
pub fn finding(survey: &Survey) -> &str {
    survey.summary.split_once(": ").map_or(survey.summary.as_str(), |(_, rest)| rest)
}

/// The job of a survey, or what started its processes.
pub fn place(survey: &Survey) -> String {
    let job = survey.setup.job.as_ref().map(|job| format!("{} {}", job.manager, job.id));
    job.unwrap_or_else(|| survey.setup.launcher.clone())
}

/// The section below its title: the verdict, the maps, the causes, then the rest. `number` makes
/// the identifiers of its maps unique.
pub fn section(survey: &Survey, number: usize) -> Markup {
    let verdict = &survey.verdict;
    html! {
        p { (badge(status(survey))) " " (finding(survey)) (load::bad_parts(survey)) }
        (blame(survey))
        @if let Some(advice) = advice(survey) {
            p { (advice) @if let Some(command) = &survey.next { ": " code { (command) } } }
        }
        div.maps {
            @for (at, matrix) in verdict.matrices.iter().enumerate() {
                (map::map(survey, matrix, &format!("map-{number}-{at}")))
            }
        }
        @if !verdict.causes.is_empty() { (causes(survey)) }
        @if !survey.why.is_empty() { (why(survey)) }
        @if !verdict.untested.is_empty() { (untested(survey)) }
        (distributions(survey))
        (populations(survey))
        @for test in 0..survey.setup.tests.len() { (sums(survey, test)) }
        @if let Some(load) = &survey.load { (load::section(survey, load)) }
    }
}

/// The names of bad and suspect parts, each with its cause and what to do; nothing without any.
fn blame(survey: &Survey) -> Markup {
    let is_named = |cause: &&Cause| cause.certainty != Certainty::Transient;
    let named: Vec<&Cause> = survey.verdict.causes.iter().filter(is_named).collect();
    let more = named.len().saturating_sub(MOST_NAMES);
    html! {
        @if !named.is_empty() {
            ul.blame {
                @for cause in named.iter().take(MOST_NAMES) {
                    li {
                        strong { (words::unit(&survey.roster, &cause.unit)) } " "
                        (badge(certainty(cause)))
                        @if let Some(why) = first_why(survey, &cause.unit) {
                            ", " (why_text::stated(why)) ". "
                            @if let Some(advice) = &why.advice { "Do: " (advice) "." }
                        }
                    }
                }
                @if more > 0 { li { "and " (words::grouped(more as u64)) " more" } }
            }
        }
    }
}

/// The surest cause of a part, or of the part with the same cause.
fn first_why<'a>(survey: &'a Survey, unit: &Unit) -> Option<&'a Why> {
    let unit_explanation =
        |unit: &Unit| survey.why.iter().find(|explanation| explanation.culprit == *unit);
    let own = unit_explanation(unit)?;
    let explained = own.same_as.as_ref().and_then(unit_explanation).unwrap_or(own);
    explained.causes.first()
}

/// The verdict on a part.
fn certainty(cause: &Cause) -> Badge {
    (cause.certainty.severity(), cause.certainty.name())
}

/// Returns what was run, where and when.
pub fn circumstances(file: &str, survey: &Survey) -> Markup {
    let setup = &survey.setup;
    let tests: Vec<String> = setup.tests.iter().map(words::test).collect();
    let job = setup.job.as_ref().map(|job| format!("{} {}", job.manager, job.id));
    facts(&[
        ("Survey", Some(setup.arguments.join(" ")).filter(|text| !text.is_empty())),
        ("File", Some(file.to_owned())),
        ("Started", Some(time(survey.started_unix_ms))),
        ("Duration", Some(seconds(survey.elapsed_ms))),
        ("Started by", Some(setup.launcher.clone())),
        ("Job", job),
        ("Processes", Some(words::grouped(setup.processes.into()))),
        ("NICs", Some(words::grouped(survey.roster.nics.len() as u64))),
        ("Tests", Some(tests.join(", "))),
        ("Load", survey.load.as_ref().map(|findings| findings.settings.patterns.clone())),
        ("Pairs", Some(setup.pairs.clone())),
        ("Time of a pair", Some(format!("{} s", setup.pair_s))),
        ("Expected", Some(setup.expectations.join(", ")).filter(|text| !text.is_empty())),
        (
            "Platform",
            survey.is_software.then(|| "software NICs (no Cassini hardware involved)".to_owned()),
        ),
        ("cxidiag", Some(survey.cxidiag_version.clone())),
    ])
}

fn quantity(survey: &Survey, test: TestId) -> Quantity {
    if survey.setup.tests[test.index()].of_bandwidth {
        Quantity::Bandwidth
    } else {
        Quantity::Latency
    }
}

/// The table of causes.
fn causes(survey: &Survey) -> Markup {
    let row = |cause: &Cause| {
        let role = match (cause.unit, cause.direction) {
            (Unit::GroupPair(one, other), Direction::Initiator) => {
                format!("from group {one:03} to {other:03}")
            }
            (Unit::GroupPair(one, other), Direction::Target) => {
                format!("from group {other:03} to {one:03}")
            }
            (Unit::GroupPair(..), Direction::Both) => "in both directions".to_owned(),
            (_, Direction::Initiator) => "as initiator".to_owned(),
            (_, Direction::Target) => "as target".to_owned(),
            (_, Direction::Both) => "in both roles".to_owned(),
        };
        vec![
            cell(words::unit(&survey.roster, &cause.unit)),
            badge(certainty(cause)),
            cell(role),
            html! {
                @for sentence in words::evidence_sentences(survey, cause) { p { (sentence) } }
            },
        ]
    };
    let columns = ["Part", "Verdict", "Where it shows", "Evidence"];
    let all = (&survey.verdict.causes[..], MOST_ROWS);
    first_rows(stacked_table, "What is to blame, the worst first", &columns, all, row)
}

/// The table of why parts are slow.
fn why(survey: &Survey) -> Markup {
    let row = |explanation: &Explanation| {
        vec![
            cell(words::unit(&survey.roster, &explanation.culprit)),
            html! {
                @for sentence in why_text::sentences(survey, explanation) { p { (sentence) } }
            },
        ]
    };
    let columns = ["Part", "Cause"];
    let all = (&survey.why[..], MOST_ROWS);
    html! {
        (first_rows(stacked_table, "Why they are slow", &columns, all, row))
        @for sentence in why_text::shared(survey) { p { (sentence) } }
    }
}

/// The table of what was not measured, by kind of part and reason.
fn untested(survey: &Survey) -> Markup {
    let row = |group: &UntestedGroup| {
        let (tests, reason) = (&group.tests, &group.reason);
        let reason = match tests.as_str() {
            "" => reason.clone(),
            tests => format!("{tests} not judged: {reason}"),
        };
        vec![cell(&group.names), cell(reason), cell(words::grouped(group.pairs))]
    };
    let columns = ["Part", "Reason", ">Pairs"];
    let all = (&untested_groups(survey)[..], MOST_ROWS);
    first_rows(table, "Untested or not judged", &columns, all, row)
}

/// The name of a population: `write-lat 8, same switch`.
fn name(survey: &Survey, population: &Population) -> String {
    let test = words::test(&survey.setup.tests[population.test.index()]);
    format!("{test}, {}", population.class.name())
}

/// The distributions of all classes.
fn distributions(survey: &Survey) -> Markup {
    let pictures = survey.verdict.populations.iter();
    let pictures: Vec<Markup> =
        pictures.filter_map(|population| distribution(survey, population)).collect();
    html! {
        @if !pictures.is_empty() {
            h3 { "How many pairs have which figure (both axes logarithmic)" }
            (charts(&pictures))
        }
    }
}

/// The distribution of the figures of a class, with its limits. `None` without figures.
fn distribution(survey: &Survey, population: &Population) -> Option<Markup> {
    let bins = &population.histogram;
    let quantity = quantity(survey, population.test);
    let ratio = match bins.as_slice() {
        [] => return None,
        [_] => 1.02,
        [..] => bins.windows(2).map(|pair| pair[1].0 / pair[0].0).fold(f64::INFINITY, f64::min),
    };
    let bars: Vec<(f64, f64, u64)> =
        bins.iter().map(|(from, count)| (*from, from * ratio, *count)).collect();
    let mark = |name: &str, at: Option<f64>, is_limit| {
        at.map(|at| Mark { name: format!("{name} {}", quantity.text(at)), at, is_limit })
    };
    let marks: Vec<Mark> = [
        mark("median", Some(population.median()), false),
        mark("limit", population.limit, true),
        mark("expected", population.expected, true),
    ]
    .into_iter()
    .flatten()
    .collect();
    let title = match quantity {
        Quantity::Bandwidth => "Bandwidth",
        _ => "Median latency",
    };
    let edges = bars.iter().flat_map(|(from, to, _)| [*from, *to]);
    let x = Axis::log(title, quantity, &mut edges.chain(marks.iter().map(|mark| mark.at)))?;
    let counts = bars.iter().map(|(_, _, count)| *count as f64);
    let y = Axis::log("Pairs", Quantity::Count, &mut counts.chain([0.6]))?;
    let name = name(survey, population);
    let what = format!("{name}: how many pairs have which figure, both axes logarithmic");
    Some(figure(&name, &chart::bars(&what, &x, &y, &bars, &marks)))
}

/// The table of all populations.
fn populations(survey: &Survey) -> Markup {
    let row = |population: &Population| {
        let quantity = quantity(survey, population.test);
        let value = |value: f64| cell(quantity.text(value));
        let limit = |limit: Option<f64>| limit.map_or(cell("-"), value);
        let mut row = vec![
            cell(name(survey, population)),
            cell(words::grouped(population.count)),
            cell(words::grouped(population.outside)),
            cell(words::grouped(population.failed)),
            value(population.min),
        ];
        row.extend([1, 3, 5].map(|at| value(population.percentiles[at])));
        row.extend([value(population.max), limit(population.limit), limit(population.expected)]);
        row
    };
    let rows: Vec<Vec<Markup>> = survey.verdict.populations.iter().map(row).collect();
    let columns = [
        "Test and class",
        ">Pairs",
        ">Outside",
        ">Failed",
        ">Min",
        ">p5",
        ">Median",
        ">p95",
        ">Max",
        ">Limit",
        ">Expected",
    ];
    html! {
        @if !rows.is_empty() {
            (table("Figures of all pairs, by test and class", &columns, &rows))
        }
    }
}

/// The sums of a test over switches and groups: a table of groups by groups, and the others by
/// rows.
fn sums(survey: &Survey, test: usize) -> Markup {
    let is_of_test = |aggregate: &&Aggregate| aggregate.test.index() == test;
    let all: Vec<&Aggregate> = survey.verdict.aggregates.iter().filter(is_of_test).collect();
    let title = survey.setup.tests.get(test).map(words::test).unwrap_or_default();
    let is_pair = |aggregate: &Aggregate| matches!(aggregate.unit, Unit::GroupPair(..));
    let groups = groups(&all);
    let has_table = groups.len() > 1 && groups.len() <= MOST_GROUPS;
    let shown = all.iter().filter(|aggregate| !(has_table && is_pair(aggregate)));
    let row = |aggregate: &&Aggregate| {
        let quantity = quantity(survey, aggregate.test);
        vec![
            cell(words::unit(&survey.roster, &aggregate.unit)),
            cell(words::grouped(aggregate.count)),
            cell(quantity.text(aggregate.median)),
            cell(quantity.text(aggregate.worst)),
            cell(words::grouped(aggregate.outside)),
        ]
    };
    let rows: Vec<Vec<Markup>> = shown.take(MOST_ROWS).map(row).collect();
    let columns = ["Part", ">Pairs", ">Median", ">Worst", ">Outside"];
    html! {
        @if has_table { (group_table(survey, &all, &groups, &title)) }
        @if !rows.is_empty() {
            details {
                summary { (title) ": sums over switches and groups" }
                (table(&title, &columns, &rows))
            }
        }
    }
}

/// The groups of the pairs of groups.
fn groups(aggregates: &[&Aggregate]) -> Vec<u16> {
    let numbers = |aggregate: &&Aggregate| match aggregate.unit {
        Unit::GroupPair(one, other) => vec![one, other],
        Unit::Group(group) => vec![group],
        _ => Vec::new(),
    };
    let mut groups: Vec<u16> = aggregates.iter().flat_map(numbers).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The medians between groups. The diagonal is within a group.
fn group_table(survey: &Survey, all: &[&Aggregate], groups: &[u16], title: &str) -> Markup {
    let between = |one: u16, other: u16| {
        let unit = if one == other {
            Unit::Group(one)
        } else {
            Unit::GroupPair(one.min(other), one.max(other))
        };
        all.iter().find(|aggregate| aggregate.unit == unit)
    };
    let caption = format!("{title}: median between groups; ✗ marks pairs outside the limits");
    html! {
        div.wide tabindex="0" role="region" aria-label=(caption) {
            table.groups {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "Group" }
                        @for group in groups { th.number scope="col" { (format!("{group:03}")) } }
                    }
                }
                tbody {
                    @for row in groups {
                        tr {
                            th scope="row" { (format!("{row:03}")) }
                            @for column in groups {
                                td.number {
                                    @if let Some(aggregate) = between(*row, *column) {
                                        (quantity(survey, aggregate.test).text(aggregate.median))
                                        @if aggregate.outside > 0 {
                                            br;
                                            span.outside { "✗ " (words::grouped(aggregate.outside)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
