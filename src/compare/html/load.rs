//! What a survey has found under load on the page: judgements, bandwidths, targets with many
//! sources, latencies of victims, also as pictures, counters.

use campaign::quiet::findings::Certainty;
use crew::location::Class;
use load::findings::{
    BandwidthFigures, Grade, ImpactFigures, LeftOut, LoadFindings, LoadJudgement, SetFigures,
    StarFigures,
};
use load::limits::{FAIRNESS, INCAST_SUM, SMALLEST_SHARE};
use maud::{Markup, html};
use report::bins::{factor, merged};
use survey::result::load_words::{self, certainty, units};
use survey::result::{Survey, load_text, words};

use crate::html::chart::{self, Axis, Curve, Mark};
use crate::html::load_matrix;
use crate::html::parts::{
    Badge, badge, cell, charts, figure, first_rows, more, stacked_table, table,
};
use crate::html::quantity::Quantity;

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

/// The names of the parts that are bad under load; nothing without any.
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

/// The part of a survey under load.
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

/// The table of the slowest parts of a pattern.
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

/// The targets of a pattern, the worst first, with a bar for each figure.
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

/// A number from 0 to 1 with a bar, which looks bad below `least`.
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
            cell(name(impact_figures)),
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
            let name = name_with_class(impact);
            let far = load_text::unnamed_far_victims(impact).iter();
            far.map(move |victim| format!("{name}: {}", victim.sentence(&survey.roster)))
        })
        .collect();
    let (pictures, left) = pictures(load);
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

/// Most pictures of a survey.
const MOST_PICTURES: usize = 24;

/// Most bins with samples of a picture.
const MOST_BINS: usize = 60;

/// The bins of `Histogram` of `campaign::timetable`: the lower edge of bin 0, and the ratio of the
/// edges of a bin.
const FIRST_EDGE: f64 = 100.0;

const RATIO: f64 = 1.01;

/// A bin of a picture: its lower edge, its upper edge, and its percentage of the samples.
type Bin = (f64, f64, f64);

/// Returns what the victims measured, and what loaded the fabric.
fn name(impact: &ImpactFigures) -> String {
    let class = impact
        .traffic_class
        .as_ref()
        .map_or(String::new(), |traffic_class| format!(", in {traffic_class}"));
    format!("{} under {}, {}{class}", words::test(&impact.test), impact.under, impact.spread.name())
}

/// Returns what the victims of one class of pairs measured, and what loaded the fabric.
fn name_with_class(figures: &ImpactFigures) -> String {
    let class = figures.class.map_or(String::new(), |class: Class| format!(", {}", class.name()));
    format!("{}{class}", name(figures))
}

/// The pictures, and how many are left out. All classes of pairs together are one picture; without
/// them each class has one.
fn pictures(load: &LoadFindings) -> (Vec<Markup>, usize) {
    let has_picture_of_all = |figures: &ImpactFigures| {
        let mut all = load.impacts.iter();
        all.any(|other| other.class.is_none() && name(other) == name(figures))
    };
    let shown =
        load.impacts.iter().filter(|impact| impact.class.is_none() || !has_picture_of_all(impact));
    let mut pictures: Vec<Markup> = shown.filter_map(picture).collect();
    let left = pictures.len().saturating_sub(MOST_PICTURES);
    pictures.truncate(MOST_PICTURES);
    (pictures, left)
}

/// The picture of one kind of victims. `None` without samples.
fn picture(impact: &ImpactFigures) -> Option<Markup> {
    let [quiet, loaded] = joined([&impact.quiet_histogram, &impact.loaded_histogram]);
    let mark = |name: &str, at: f64| Mark {
        name: format!("{name} {}", Quantity::Latency.text(at)),
        at,
        is_limit: false,
    };
    let marks = [mark("quiet", impact.median.quiet), mark("loaded", impact.median.loaded)];
    let bins = || quiet.iter().chain(&loaded);
    let edges = bins().flat_map(|(from, to, _)| [*from, *to]);
    let x = Axis::log(
        "Latency",
        Quantity::Latency,
        &mut edges.chain(marks.iter().map(|mark| mark.at)),
    )?;
    let shares = bins().map(|(_, _, share)| *share);
    let y = Axis::log("Samples", Quantity::Percent, &mut { shares })?;
    let curve = |name: &str, color, is_main, bins: &[Bin]| Curve {
        name: name.into(),
        color,
        is_main,
        points: steps(bins),
        band: Vec::new(),
    };
    let curves = [curve("quiet", 0, false, &quiet), curve("under load", 1, true, &loaded)];
    let curves: Vec<Curve> = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
    let name = name_with_class(impact);
    let what = format!(
        "{name}: part of the samples by latency, both axes logarithmic; median quiet {}, under \
         load {}",
        Quantity::Latency.text(impact.median.quiet),
        Quantity::Latency.text(impact.median.loaded),
    );
    let picture = chart::distributions(&what, &x, &y, &curves, &marks);
    Some(figure(&name, &picture))
}

/// The outline of bins: bins without samples are on the floor.
fn steps(bins: &[Bin]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let tops = bins.iter().flat_map(|&(from, to, share)| [(from, share), (to, share)]);
    let begin = [(first.0, 0.0)].into_iter();
    begin.chain(tops).chain([(last.1, 0.0)]).collect()
}

/// The bins of two histograms, joined alike so that their heights can be compared. None between the
/// first and the last of a histogram is left out.
fn joined(histograms: [&[(f64, u64)]; 2]) -> [Vec<Bin>; 2] {
    let numbered = |bins: &[(f64, u64)]| -> Vec<(u32, u64)> {
        bins.iter().map(|(edge, count)| (number(*edge), *count)).collect()
    };
    let numbers = histograms.map(numbered);
    let factor = factor(numbers.iter().flatten().map(|(number, _)| *number), MOST_BINS);
    let edge = |number: u32| FIRST_EDGE * RATIO.powf(f64::from(number));
    numbers.map(|numbers| {
        let all: f64 = numbers.iter().map(|(_, count)| *count as f64).sum();
        let bins = merged(&numbers, factor).into_iter();
        bins.map(|(number, count)| {
            (edge(number), edge(number + factor), count as f64 / all * 100.0)
        })
        .collect()
    })
}

/// The number of the bin with this lower edge.
fn number(edge: f64) -> u32 {
    ((edge / FIRST_EDGE).ln() / RATIO.ln()).round().max(0.0) as u32
}

#[cfg(test)]
mod load_latency_tests {
    use super::*;
    use campaign::timetable::Histogram;
    use load::findings::Spread;
    use survey::result::testing::{good_load, impact};

    /// The bins of a histogram with as many samples of each latency as the latency has us.
    fn bins(latencies: impl Iterator<Item = u64>) -> Vec<(f64, u64)> {
        let mut histogram = Histogram::default();
        latencies.for_each(|ns| histogram.add(ns, ns / 1000));
        histogram.bins()
    }

    #[test]
    fn bins_of_documents_have_whole_numbers() {
        let edges = (0..1400).map(|bin| (120.0 * 1.01_f64.powi(bin)) as u64);
        let bins = bins(edges.map(|ns| ns.max(1000)));
        // Programs that write edges with fewer digits mean the same bins.
        let numbers: Vec<u32> = bins.iter().map(|(edge, _)| number(edge * 0.999)).collect();
        assert!(numbers.len() > 1000);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }

    #[test]
    fn joins_bins_of_both_histograms_alike() {
        let quiet = bins([2000, 2030, 2500].into_iter());
        let loaded = bins((2000..400_000).step_by(100));
        let [quiet, loaded] = joined([&quiet, &loaded]);
        for bins in [&quiet, &loaded] {
            let all: f64 = bins.iter().map(|(_, _, share)| share).sum();
            assert!((all - 100.0).abs() < 1e-6, "{all}");
            assert!(bins.len() <= MOST_BINS);
        }
        let ratio = |(from, to, _): &Bin| to / from;
        assert!((ratio(&quiet[0]) - ratio(&loaded[0])).abs() < 1e-9);
        // The outline ends on the floor at both sides.
        let outline = steps(&quiet);
        assert_eq!((outline[0].1, outline.last().unwrap().1), (0.0, 0.0));
        assert_eq!(joined([&[], &[]]), [vec![], vec![]]);
    }

    #[test]
    fn draws_all_classes_once() {
        let impact_for = |class| impact("all2all", Spread::Mixed, class);
        let mut load = good_load();
        load.impacts =
            vec![impact_for(Some(Class::Switch)), impact_for(None), impact_for(Some(Class::Group))];
        assert_eq!(pictures(&load).0.len(), 1);
        load.impacts.remove(1);
        let (both, _) = pictures(&load);
        assert_eq!(both.len(), 2);
        let first = both[0].clone().into_string();
        assert!(first.contains("write-lat 8 under all2all, mixed, same switch"), "{first}");
        assert!(first.contains("quiet 1.90 us") && first.contains("loaded 2.09 us"), "{first}");
        assert_eq!(first.matches("<path").count(), 2);
        load.impacts = vec![impact_for(Some(Class::Switch)); 30];
        assert_eq!(pictures(&load).1, 6);
        load.impacts[0].quiet_histogram.clear();
        load.impacts[0].loaded_histogram.clear();
        assert_eq!(pictures(&load).1, 5);
    }
}

#[cfg(test)]
mod tests {
    use campaign::quiet::roster::NicId;
    use load::findings::{LoadFigure, LoadUnit};

    use survey::result::testing::{good, good_load, judgement, loaded, mixed_load, star, survey};

    use super::*;

    fn page(load: LoadFindings) -> String {
        let survey = loaded(load);
        let load = survey.load.as_ref().unwrap();
        section(&survey, load).into_string()
    }

    #[test]
    fn shows_each_kind_of_figure() {
        let page = page(mixed_load());
        for text in [
            "at most 8 of 8 NICs sent at once",
            "8 of 8 flows at this switch are slow, 0 of 24 at others",
            r#"<td class="number">5.40 GB/s</td>"#,
            "bisect:system, both ways: bandwidth from group (row) to group (column)",
            "incast:8: targets, the worst first",
            r#"<rect class="bar" width="62" height="10"></rect></svg> 0.62"#,
            "write-lat 8 under incast-same:8, groups, in LOW_LATENCY",
            "1.06-1.15",
            "under all2all, mixed, same switch: Far above its class: nid000416 cxi0 (003.12) to ",
            "nothing to isolate from",
            "paused by the switch for 1.20 s",
            "only 8 NICs",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
    }

    #[test]
    fn leaves_out_what_was_not_measured() {
        let page =
            page(LoadFindings { bandwidths: Vec::new(), impacts: Vec::new(), ..good_load() });
        assert!(!page.contains("<table") && !page.contains("<svg"), "{page}");
    }

    #[test]
    fn limits_rows_and_says_how_many_are_missing() {
        let bad = |nic| {
            let unit = LoadUnit::Nic(NicId(nic));
            judgement(unit, LoadFigure::Bandwidth, Grade::Slow, None)
        };
        let mut load = good_load();
        load.judgements = (0..8).cycle().take(MOST_ROWS + 7).map(bad).collect();
        load.bandwidths[0].stars =
            (0..8).cycle().take(MOST_STARS + 3).map(|nic| star(nic, 0.3)).collect();
        let far = &mut load.impacts[0].far_above;
        let victim = mixed_load().impacts[0].far_above[0];
        far.resize(MOST_FAR + 2, victim);
        let page = page(load);
        for more in [7, 3, 2] {
            assert!(page.contains(&format!("and {more} more")), "{more}");
        }
        assert_eq!(page.matches("Far above its class").count(), MOST_FAR);
        assert_eq!(page.matches("bar low").count(), MOST_STARS);
    }

    #[test]
    fn verdict_names_bad_parts() {
        let names = |load| bad_parts(&loaded(load)).into_string();
        let line = "<br>Bad under load: <strong>switch 003.12 (4 NICs)</strong>";
        assert_eq!(names(mixed_load()), line);
        assert_eq!(names(good_load()), "");
    }

    #[test]
    fn is_a_part_of_the_page_of_a_survey() {
        let title = "<h3>Under load</h3>";
        let page = |load| {
            let survey = loaded(load);
            [
                super::super::survey::section(&survey, 1).into_string(),
                super::super::survey::circumstances("a.json", &survey).into_string(),
            ]
        };
        let [section, circumstances] = page(mixed_load());
        assert!(section.contains(title) && section.contains("Bad under load: "));
        assert!(circumstances.contains("<dd>standard</dd>"));
        let without = super::super::survey::section(&survey(good(), Ok(())), 1);
        assert!(!without.into_string().contains(title));
    }
}
