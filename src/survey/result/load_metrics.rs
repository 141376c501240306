//! What a survey has found under load, as metrics.

use super::load_words::certainty;
use super::{Survey, load_words};
use campaign::quiet::findings::Certainty;
use crew::location::Class;
use load::findings::{BandwidthFigures, Compared, ImpactFigures, LoadFindings, LoadJudgement};
use page::openmetrics::{Family, Sample};

/// Returns the metrics of a survey under load; nothing without load.
pub fn families(survey: &Survey) -> Vec<Family> {
    let Some(load) = &survey.load else {
        return Vec::new();
    };
    let mut families = Vec::from(bandwidth_families(load));
    families.push(Family::new(
        "cxidiag_survey_load_impact_ratio",
        "Latency of victims under load as a ratio to their quiet latency.",
        load.impacts.iter().flat_map(impacts),
    ));
    let isolations = load.isolations.iter().filter_map(|isolation| {
        let labels = [
            ("pattern", isolation.under.clone()),
            ("traffic_class", isolation.traffic_class.clone()),
        ];
        Some(Sample::new(labels, isolation.isolation?))
    });
    families.push(Family::new(
        "cxidiag_survey_load_isolation_ratio",
        "Part of the effect of load that another traffic class keeps away.",
        isolations,
    ));
    families.push(bad(survey, load));
    families
}

fn bandwidth_families(load: &LoadFindings) -> [Family; 4] {
    let each = |value: fn(&BandwidthFigures) -> Option<f64>| {
        let all = load.bandwidths.iter();
        let samples = all.filter_map(|bandwidth| {
            Some(Sample::new([("pattern", bandwidth.pattern.clone())], value(bandwidth)?))
        });
        samples.collect::<Vec<_>>()
    };
    [
        Family::new(
            "cxidiag_survey_load_mean_bytes_per_second",
            "Mean bandwidth of a NIC that sends, by pattern of load.",
            each(|bandwidth| bandwidth.measured(bandwidth.mean)),
        ),
        Family::new(
            "cxidiag_survey_load_min_bytes_per_second",
            "Bandwidth of the slowest NIC that sends, by pattern of load.",
            each(|bandwidth| bandwidth.measured(bandwidth.min)),
        ),
        Family::new(
            "cxidiag_survey_load_theory_ratio",
            "Mean bandwidth as a ratio to what the topology allows; no sample if that is unknown.",
            each(|bandwidth| bandwidth.share_of_theory),
        ),
        Family::new(
            "cxidiag_survey_load_quiet_ratio",
            "Mean bandwidth as a ratio to the bandwidth without load; no sample if that is unknown.",
            each(|bandwidth| bandwidth.ratio_to_quiet),
        ),
    ]
}

/// Returns the impact factors of the median and of the 99th percentile.
fn impacts(impact_figures: &ImpactFigures) -> Vec<Sample> {
    let figures = [("50", Some(impact_figures.median)), ("99", impact_figures.p99)];
    let each = |(percentile, figure): (&str, Option<Compared>)| {
        let impact = figure?.impact;
        let labels = [
            ("pattern", impact_figures.under.clone()),
            ("spread", impact_figures.spread.name().into()),
            ("tool", impact_figures.test.tool.clone()),
            ("size", impact_figures.test.size_bytes.to_string()),
            ("traffic_class", impact_figures.traffic_class.clone().unwrap_or_default()),
            ("class", impact_figures.class.map_or("all", Class::name).into()),
            ("percentile", percentile.into()),
        ];
        Some(Sample::new(labels, impact))
    };
    figures.into_iter().filter_map(each).collect()
}

/// Returns the judgements that retests have confirmed.
fn bad(survey: &Survey, load: &LoadFindings) -> Family {
    let bad =
        load.judgements.iter().filter(|judgement| certainty(judgement) == Some(Certainty::Bad));
    let sample = |judgement: &LoadJudgement| {
        let labels = [
            ("kind", load_words::kind(&judgement.unit).into()),
            ("name", load_words::name(&survey.roster, &judgement.unit)),
            ("pattern", judgement.pattern.clone()),
            ("figure", judgement.figure.name().into()),
        ];
        Sample::new(labels, true)
    };
    Family::new(
        "cxidiag_survey_load_bad",
        "Parts that are bad under load, by pattern and figure, confirmed by retests: always 1.",
        bad.map(sample),
    )
}

#[cfg(test)]
mod tests {
    use super::super::load_testing::mixed_load;
    use super::super::testing::{good, loaded, survey};
    use super::*;
    use page::openmetrics::{Dialect, text};

    #[test]
    fn writes_a_sample_for_each_figure() {
        let mut load = mixed_load();
        let unmeasured = BandwidthFigures {
            nics: 0,
            share_of_theory: None,
            ratio_to_quiet: None,
            ..load.bandwidths[0].clone()
        };
        load.bandwidths.push(unmeasured);
        let survey = loaded(load);
        let all = super::super::metrics::families(&survey);
        let text = text(&all, Dialect::NodeExporter);
        for line in [
            "cxidiag_survey_load_mean_bytes_per_second{pattern=\"bisect:switch\"} 21500000000",
            "cxidiag_survey_load_min_bytes_per_second{pattern=\"bisect:system, both ways\"} \
             5400000000",
            "cxidiag_survey_load_theory_ratio{pattern=\"bisect:switch\"} 0.94",
            "cxidiag_survey_load_quiet_ratio{pattern=\"incast:8\"} 0.98",
            "cxidiag_survey_load_impact_ratio{pattern=\"all2all\",spread=\"mixed\",\
             tool=\"write-lat\",size=\"8\",traffic_class=\"\",class=\"same switch\",\
             percentile=\"99\"} 1.3",
            "cxidiag_survey_load_impact_ratio{pattern=\"incast-same:8\",spread=\"groups\",\
             tool=\"write-lat\",size=\"8\",traffic_class=\"LOW_LATENCY\",class=\"all\",\
             percentile=\"50\"} 131",
            "cxidiag_survey_load_isolation_ratio{pattern=\"incast:32\",\
             traffic_class=\"LOW_LATENCY\"} 0.95",
            "cxidiag_survey_load_bad{kind=\"switch\",name=\"switch 003.12\",\
             pattern=\"bisect:switch\",figure=\"bandwidth\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Figures that are not known have no sample, and suspects are not bad.
        for (name, count) in [
            ("load_mean_bytes_per_second{", 4),
            ("theory_ratio{", 2),
            ("quiet_ratio{", 3),
            ("impact_ratio{", 5),
            ("isolation_ratio{", 1),
            ("load_bad{", 1),
        ] {
            assert_eq!(text.matches(name).count(), count, "{name}\n{text}");
        }
    }

    #[test]
    fn has_no_metrics_without_load() {
        assert!(families(&survey(good(), Ok(()))).is_empty());
    }
}
