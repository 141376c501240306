//! Surveys under load compared: the mean bandwidth of each pattern, and impact factors.

use super::change::{Change, ChangeVerdict, percent};
use crew::location::Class;
use load::findings::{BandwidthFigures, ImpactFigures, LoadFindings, LoadSettings};
use survey::result::{Survey, load_words, words};

/// The changes from one survey to another under load, and remarks. Figures of different loads have
/// no verdict.
pub(super) fn changes(
    base: &Survey,
    new: &Survey,
    limit_percent: f64,
) -> (Vec<Change>, Vec<String>) {
    let (old, now) = match (&base.load, &new.load) {
        (None, None) => return (Vec::new(), Vec::new()),
        (Some(base), Some(new)) => (base, new),
        _ => {
            let remark = "Only one survey has figures under load: they are not compared.";
            return (Vec::new(), vec![remark.into()]);
        }
    };
    let is_same_load = is_same_load(&old.settings, &now.settings);
    let mut changes = bandwidth_changes(old, now, limit_percent);
    changes.extend(impact_changes(old, now, limit_percent));
    let mut remarks = Vec::new();
    if !is_same_load {
        for change in &mut changes {
            change.verdict = ChangeVerdict::Ok;
        }
        remarks.push("The loads differ: figures under load have no verdict.".into());
    }
    (changes, remarks)
}

/// Whether two loads are the same but for their patterns and seeds.
fn is_same_load(base: &LoadSettings, new: &LoadSettings) -> bool {
    let compared = |settings: &LoadSettings| {
        (settings.most_aggressors, settings.is_partial, settings.size_bytes, settings.window_bytes)
    };
    compared(base) == compared(new)
}

/// The changes of the mean bandwidths of patterns that both surveys have.
fn bandwidth_changes(base: &LoadFindings, new: &LoadFindings, limit_percent: f64) -> Vec<Change> {
    let change = |bandwidth: &BandwidthFigures| {
        let mut all = base.bandwidths.iter();
        let old = all.find(|old| old.pattern == bandwidth.pattern)?;
        let means = [old, bandwidth].map(|figures| figures.measured(figures.mean));
        let text = |mean: Option<f64>| {
            mean.map_or("not measured".into(), |mean| format!("{:.3} GB/s", mean / 1e9))
        };
        let [base, new] = means;
        let change = base.zip(new).and_then(|(base, new)| percent(base, new));
        let part = format!("load {}", bandwidth.pattern);
        let figures = means.map(text);
        let verdict = match means {
            // A lower bandwidth is worse.
            [Some(_), Some(_)] => verdict(change.map(|change| -change), limit_percent),
            _ => ChangeVerdict::Unclear,
        };
        Some(figure_change(&part, "mean of a NIC", figures, change, verdict))
    };
    new.bandwidths.iter().filter_map(change).collect()
}

/// The changes of the impact factors of victims that both surveys have. A change has a verdict only
/// if the 95 % intervals are apart.
fn impact_changes(base: &LoadFindings, new: &LoadFindings, limit_percent: f64) -> Vec<Change> {
    let change = |impact: &ImpactFigures| {
        let mut all = base.impacts.iter();
        let old = all.find(|old| key(old) == key(impact))?;
        let text = |value: f64| format!("x{}", load_words::ratio(value));
        let intervals = old.median.interval.zip(impact.median.interval);
        let are_apart = intervals.is_some_and(|(old, new)| new.0 > old.1 || new.1 < old.0);
        let change = percent(old.median.impact, impact.median.impact);
        let part = format!("{} under {}", words::test(&impact.test), impact.under);
        let traffic_class = impact
            .traffic_class
            .as_ref()
            .map_or(String::new(), |traffic_class| format!(", {traffic_class}"));
        let what = format!(
            "impact, {}, {}{traffic_class}",
            impact.spread.name(),
            impact.class.map_or("all", Class::name)
        );
        let figures = [text(old.median.impact), text(impact.median.impact)];
        let verdict = if are_apart { verdict(change, limit_percent) } else { ChangeVerdict::Ok };
        Some(figure_change(&part, &what, figures, change, verdict))
    };
    new.impacts.iter().filter_map(change).collect()
}

/// Returns what identifies the victims of a figure.
fn key(figures: &ImpactFigures) -> impl PartialEq + '_ {
    (&figures.under, figures.spread, &figures.test, &figures.traffic_class, figures.class)
}

/// The verdict on a figure that got worse by this percentage.
fn verdict(worse_percent: Option<f64>, limit_percent: f64) -> ChangeVerdict {
    match worse_percent {
        Some(worse) if worse > limit_percent => ChangeVerdict::Worse,
        Some(worse) if -worse > limit_percent => ChangeVerdict::Better,
        _ => ChangeVerdict::Ok,
    }
}

fn figure_change(
    part: &str,
    what: &str,
    [base, new]: [String; 2],
    change_percent: Option<f64>,
    verdict: ChangeVerdict,
) -> Change {
    Change { change_percent, ..Change::from_words(part, what, [Some(&base), Some(&new)], verdict) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Changes;
    use ChangeVerdict::{Better, Ok as Same, Worse};
    use survey::result::testing::{compared, good, good_load, loaded, survey};

    /// A survey whose load has this mean bandwidth and this impact factor.
    fn with(mean: f64, impact: f64) -> Survey {
        let mut load = good_load();
        load.bandwidths[0].mean = mean;
        load.impacts[0].median = compared(impact);
        loaded(load)
    }

    fn shown(base: &Survey, new: &Survey) -> Vec<(String, String, ChangeVerdict)> {
        let (changes, _) = changes(base, new, 5.0);
        let all = changes.into_iter();
        all.map(|change| (change.part, change.what, change.verdict)).collect()
    }

    #[test]
    fn compares_means_and_impact_factors() {
        let both = |bandwidth, impact| {
            let part = |part: &str, what: &str, verdict| (part.into(), what.into(), verdict);
            [
                part("load bisect:switch", "mean of a NIC", bandwidth),
                part("write-lat 8 under all2all", "impact, mixed, all", impact),
            ]
        };
        let base = with(20e9, 1.1);
        assert_eq!(shown(&base, &with(20e9, 1.1)), both(Same, Same));
        assert_eq!(shown(&base, &with(18e9, 1.1)), both(Worse, Same));
        assert_eq!(shown(&with(18e9, 2.0), &base), both(Better, Better));
        assert_eq!(shown(&base, &with(20e9, 2.0)), both(Same, Worse));
        // 1.10 [1.06, 1.15] and 1.18 [1.14, 1.23] may be the same.
        assert_eq!(shown(&base, &with(20e9, 1.18)), both(Same, Same));
        let mut unmeasured = with(0.0, 1.1);
        unmeasured.load.as_mut().expect("a load").bandwidths[0].nics = 0;
        for (base, new) in [(&base, &unmeasured), (&unmeasured, &base)] {
            assert_eq!(shown(base, new), both(ChangeVerdict::Unclear, Same));
        }
        let (changes, remarks) = changes(&base, &with(18e9, 1.1), 5.0);
        let texts = [&changes[0].base, &changes[0].new].map(|text| text.as_deref());
        assert_eq!(texts, [Some("20.000 GB/s"), Some("18.000 GB/s")]);
        assert_eq!((changes[0].change_percent, remarks.len()), (Some(-10.0), 0));
    }

    #[test]
    fn counts_for_the_result() {
        let (base, new) = (with(20e9, 1.1), with(18e9, 1.1));
        let result = |base, new| {
            let changes = Changes::from_surveys(("a", base), ("b", new), 5.0);
            changes.result().map_err(|failure| failure.message())
        };
        assert_eq!(result(&base, &base), Ok(()));
        let worse = "worse than the base: load bisect:switch";
        assert_eq!(result(&base, &new), Err(worse.into()));
    }

    #[test]
    fn compares_the_same_load_alone() {
        let base = with(20e9, 1.1);
        let mut other = with(10e9, 2.0);
        other.load.as_mut().unwrap().settings.most_aggressors = 4;
        let (changes, remarks) = changes(&base, &other, 5.0);
        assert!(changes.iter().all(|change| change.verdict == Same));
        assert_eq!(remarks, ["The loads differ: figures under load have no verdict."]);
        other.load.as_mut().unwrap().bandwidths[0].pattern = "all2all".into();
        other.load.as_mut().unwrap().impacts.clear();
        assert_eq!(shown(&base, &other), []);
    }

    #[test]
    fn says_if_one_survey_has_no_load() {
        let quiet = survey(good(), Ok(()));
        let (changes, remarks) = super::changes(&quiet, &with(20e9, 1.1), 5.0);
        assert_eq!((changes.len(), remarks.len()), (0, 1));
        assert_eq!(super::changes(&quiet, &quiet, 5.0), (vec![], vec![]));
    }
}
