//! Latencies of victims, quiet and under load, as pictures.

use maud::Markup;

use super::chart::{self, Axis, Curve, Mark};
use super::parts::figure;
use super::quantity::Quantity;
use crew::location::Class;
use load::findings::{ImpactFigures, LoadFindings};
use report::bins::{factor, merged};
use survey::result::words;

/// Most pictures of a survey.
const MOST_PICTURES: usize = 24;

/// Most bins with samples of a picture.
const MOST_BINS: usize = 60;

/// The bins of `campaign::timetable::histogram`: the lower edge of bin 0, and the ratio of the
/// edges of a bin.
const FIRST_EDGE: f64 = 100.0;
const RATIO: f64 = 1.01;

/// A bin of a picture: its lower edge, its upper edge, and its percentage of the samples.
type Bin = (f64, f64, f64);

/// Returns what the victims measured, and what loaded the fabric.
pub fn name(impact: &ImpactFigures) -> String {
    let class = impact
        .traffic_class
        .as_ref()
        .map_or(String::new(), |traffic_class| format!(", in {traffic_class}"));
    format!("{} under {}, {}{class}", words::test(&impact.test), impact.under, impact.spread.name())
}

/// Returns what the victims of one class of pairs measured, and what loaded the fabric.
pub fn name_with_class(figures: &ImpactFigures) -> String {
    let class = figures.class.map_or(String::new(), |class: Class| format!(", {}", class.name()));
    format!("{}{class}", name(figures))
}

/// Returns the pictures, and how many are left out. All classes of pairs together are one picture;
/// without them each class has one.
pub fn pictures(load: &LoadFindings) -> (Vec<Markup>, usize) {
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

/// Returns the picture of one kind of victims. `None` without samples.
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

/// Returns the outline of bins: bins without samples are on the floor.
fn steps(bins: &[Bin]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let tops = bins.iter().flat_map(|&(from, to, share)| [(from, share), (to, share)]);
    let begin = [(first.0, 0.0)].into_iter();
    begin.chain(tops).chain([(last.1, 0.0)]).collect()
}

/// Returns the bins of two histograms, joined alike so that their heights can be compared. None
/// between the first and the last of a histogram is left out.
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

/// Returns the number of the bin with this lower edge.
fn number(edge: f64) -> u32 {
    ((edge / FIRST_EDGE).ln() / RATIO.ln()).round().max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::timetable::histogram::Histogram;
    use load::findings::Spread;
    use survey::result::load_testing::{good_load, impact};

    /// Returns the bins of a histogram with as many samples of each latency as the latency has us.
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
