//! What a survey has found under load on the page: judgements, bandwidths, targets with many
//! sources, latencies of victims, counters.

use maud::{Markup, html};

use super::parts::{Badge, badge, cell, charts, first_rows, more, stacked_table, table};
use super::quantity::Quantity;
use super::{load_latency, load_matrix};
use campaign::quiet::findings::Certainty;
use crew::location::Class;
use load::findings::{
    BandwidthFigures, Grade, ImpactFigures, LeftOut, LoadFindings, LoadJudgement, SetFigures,
    StarFigures,
};
use load::limits::{FAIRNESS, INCAST_SUM, SMALLEST_SHARE};
use survey::result::load_verdict::{certainty, units};
use survey::result::{Survey, load_tables, load_text, load_words, words};

/// Rows of a table of judgements or of impact factors.
const MOST_ROWS: usize = 200;

/// Targets of a pattern, the worst first.
const MOST_STARS: usize = 50;

/// Parts of a pattern, the slowest first.
const MOST_SETS: usize = 50;

/// Victims far above their class.
const MOST_FAR: usize = 20;

/// Bad parts that the verdict names.
const MOST_NAMES: usize = 5;

/// Returns the names of the parts that are bad under load; nothing without any.
pub fn bad_parts(survey: &Survey) -> Markup {
    let units = units(survey.load.as_ref(), Certainty::Bad);
    let names: Vec<String> =
        units.iter().map(|candidate| load_words::unit(&survey.roster, candidate)).collect();
    let (first, others) = names.split_at(names.len().min(MOST_NAMES));
    html! {
        @if !first.is_empty() {
            br;
            "Bad under load: " strong { (first.join(", ")) }
            @if !others.is_empty() { " and " (words::grouped(others.len() as u64)) " more" }
        }
    }
}

/// Returns the part of a survey under load.
pub fn section(survey: &Survey, load: &LoadFindings) -> Markup {
    html! {
        h3 { "Under load" }
        @for remark in load_text::remarks(load) { p.note { (remark) } }
        @if !load.judgements.is_empty() { (judgements(survey, load)) }
        @if !load.bandwidths.is_empty() { (bandwidths(load)) }
        @for bandwidth in &load.bandwidths {
            @if let Some(matrix) = load_matrix::matrix(bandwidth) { (matrix) }
            @if !bandwidth.sets.is_empty() { (sets(survey, bandwidth)) }
            @if !bandwidth.stars.is_empty() { (stars(survey, bandwidth)) }
        }
        @if !load.impacts.is_empty() { (impacts(survey, load)) }
        @if !load.isolations.is_empty() { (isolations(load)) }
        @for line in load_text::counters(load) { p.note { (line) } }
        @if !load.left_out.is_empty() { (left_out(load)) }
    }
}

fn grade(grade: Grade) -> Badge {
    (grade.severity(), grade.name())
}

fn judgements(survey: &Survey, load: &LoadFindings) -> Markup {
    let row = |judgement: &LoadJudgement| {
        let verdict = certainty(judgement).map(|found| (found.severity(), found.name()));
        let verdict = verdict.unwrap_or_else(|| grade(judgement.grade));
        vec![
            cell(load_words::unit(&survey.roster, &judgement.unit)),
            badge(verdict),
            html! {
                p { (load_words::sentence(judgement)) }
                @for further in load_text::further(survey, judgement) { p { (further) } }
            },
        ]
    };
    let caption = "Outside the limits under load, or close to them";
    let columns = ["Part", "Verdict", "Figure and evidence"];
    first_rows(stacked_table, caption, &columns, (&load.judgements, MOST_ROWS), row)
}

fn ratio(value: Option<f64>) -> Markup {
    cell(value.map_or("-".into(), load_words::ratio))
}

fn bandwidths(load: &LoadFindings) -> Markup {
    let value = |value: f64| cell(Quantity::Bandwidth.text(value));
    let row = |figures: &BandwidthFigures| {
        let measured = |figure| figures.measured(figure).map_or(cell("-"), value);
        vec![
            cell(&figures.pattern),
            badge(grade(figures.grade)),
            cell(words::grouped(figures.nics.into())),
            measured(figures.mean),
            measured(figures.min),
            measured(figures.p1),
            measured(figures.percentiles[3]),
            measured(figures.percentiles[6]),
            measured(figures.sum),
            figures.theory.map_or(cell("-"), value),
            ratio(figures.share_of_theory),
            ratio(figures.ratio_to_quiet),
        ]
    };
    let rows: Vec<Vec<Markup>> = load.bandwidths.iter().map(row).collect();
    let columns = [
        "Pattern",
        "Verdict",
        ">NICs",
        ">Mean",
        ">Min",
        ">p1",
        ">Median",
        ">p99",
        ">Sum",
        ">Theory",
        ">Share",
        ">Of quiet",
    ];
    table("Bandwidth of a NIC, by pattern", &columns, &rows)
}

/// Returns the table of the slowest parts of a pattern.
fn sets(survey: &Survey, pattern: &BandwidthFigures) -> Markup {
    let row = |figures: &SetFigures| {
        vec![
            cell(load_words::unit(&survey.roster, &figures.unit)),
            badge(grade(figures.grade)),
            cell(words::grouped(figures.flows.into())),
            cell(Quantity::Bandwidth.text(figures.per_flow)),
            ratio(Some(figures.ratio)),
            ratio(figures.theory.map(|theory| figures.per_flow / theory)),
        ]
    };
    let columns = ["Part", "Verdict", ">Flows", ">A flow", ">Of the median", ">Of theory"];
    let caption = format!("{}: parts, the slowest first", pattern.pattern);
    html! {
        details {
            summary { (caption) }
            (first_rows(table, &caption, &columns, (&pattern.sets, MOST_SETS), row))
        }
    }
}

/// Returns the targets of a pattern, the worst first, with a bar for each figure.
fn stars(survey: &Survey, pattern: &BandwidthFigures) -> Markup {
    let row = |star: &StarFigures| {
        vec![
            cell(survey.roster.name(star.target)),
            badge(grade(star.grade)),
            cell(words::grouped(star.sources.into())),
            cell(Quantity::Bandwidth.text(star.sum)),
            star.ratio_to_quiet.map_or(cell("-"), |ratio| meter(ratio, INCAST_SUM.slow)),
            meter(star.fairness, FAIRNESS.slow),
            meter(star.smallest_share, SMALLEST_SHARE.slow),
        ]
    };
    let columns =
        ["Target", "Verdict", ">Sources", ">Sum", "Sum of quiet", "Fairness", "Smallest share"];
    let caption = format!("{}: targets, the worst first", pattern.pattern);
    first_rows(table, &caption, &columns, (&pattern.stars, MOST_STARS), row)
}

/// Returns a number from 0 to 1 with a bar, which looks bad below `least`.
fn meter(value: f64, least: f64) -> Markup {
    let class = if value < least { "bar low" } else { "bar" };
    let width = format!("{:.0}", value.clamp(0.0, 1.0) * 100.0);
    html! {
        span.metered {
            svg.meter aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none" {
                rect.ground width="100" height="10" {}
                rect class=(class) width=(width) height="10" {}
            }
            " " (load_words::ratio(value))
        }
    }
}

fn impacts(survey: &Survey, load: &LoadFindings) -> Markup {
    let latency = |value: f64| cell(Quantity::Latency.text(value));
    let row = |impact_figures: &ImpactFigures| {
        let interval = impact_figures.median.interval.map_or("-".into(), |(low, high)| {
            format!("{}-{}", load_words::ratio(low), load_words::ratio(high))
        });
        vec![
            cell(load_latency::name(impact_figures)),
            badge(grade(impact_figures.grade)),
            cell(impact_figures.class.map_or("all", Class::name)),
            cell(words::grouped(impact_figures.victims.into())),
            latency(impact_figures.median.quiet),
            latency(impact_figures.median.loaded),
            ratio(Some(impact_figures.median.impact)),
            cell(interval),
            ratio(impact_figures.p99.map(|compared| compared.impact)),
            ratio(impact_figures.p999.map(|compared| compared.impact)),
            ratio(Some(impact_figures.resolution)),
        ]
    };
    let all = &load.impacts;
    let columns = [
        "Victims",
        "Verdict",
        "Class",
        ">Pairs",
        ">Quiet",
        ">Loaded",
        ">Ratio",
        ">95 %",
        ">p99",
        ">p99.9",
        ">Resolution",
    ];
    let caption = "Latency under load as a ratio to the quiet one";
    let far: Vec<String> = all
        .iter()
        .flat_map(|impact| {
            let name = load_latency::name_with_class(impact);
            let far = load_tables::unnamed_far_victims(impact).iter();
            far.map(move |victim| format!("{name}: {}", victim.sentence(&survey.roster)))
        })
        .collect();
    let (pictures, left) = load_latency::pictures(load);
    html! {
        @if !pictures.is_empty() {
            h4 { "Latencies of victims, quiet and under load (both axes logarithmic)" }
            (charts(&pictures))
            (more(left, 0))
        }
        (first_rows(table, caption, &columns, (all, MOST_ROWS), row))
        @for line in far.iter().take(MOST_FAR) { p.note { (line) } }
        (more(far.len(), MOST_FAR))
    }
}

fn isolations(load: &LoadFindings) -> Markup {
    let rows = load.isolations.iter().map(|row| {
        vec![
            cell(format!("{} under {}", row.traffic_class, row.under)),
            badge(grade(row.grade)),
            ratio(Some(row.same)),
            ratio(Some(row.other)),
            row.isolation
                .map_or(cell("nothing to isolate from"), |isolation| meter(isolation, 0.0)),
        ]
    });
    let columns = [
        "Traffic class",
        "Verdict",
        ">Ratio in the class of the load",
        ">Ratio in this class",
        "Isolation",
    ];
    let rows: Vec<Vec<Markup>> = rows.collect();
    table("How far traffic classes keep load away", &columns, &rows)
}

fn left_out(load: &LoadFindings) -> Markup {
    let row = |out: &LeftOut| vec![cell(&out.what), cell(&out.reason)];
    let columns = ["What", "Reason"];
    first_rows(table, "Left out under load", &columns, (&load.left_out, MOST_ROWS), row)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
