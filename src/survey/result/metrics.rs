//! A survey as metrics: the file of a fleet, with a sample for each of its NICs (jobs.md 2.5), and
//! what was found under load.

use super::load_words::{self, certainty};
use super::nics::all_states;
use super::{Scope, Survey, words};
use campaign::quiet::findings::{Certainty, Population, State, Test};
use crew::location::Class;
use load::findings::{BandwidthFigures, Compared, ImpactFigures, LoadFindings, LoadJudgement};
use page::openmetrics::{self, Family, Sample};

/// A series without labels that all files of a survey have.
pub const SERIES: &str = "cxidiag_survey_exit_status";

/// The percentiles of the figures of a class: the ends, and what [`Population::percentiles`] holds.
/// The label `quantile` belongs to summaries.
const PERCENTILES: [&str; 9] = ["0", "1", "5", "25", "50", "75", "95", "99", "100"];

/// The metrics of a survey.
pub fn families(survey: &Survey) -> Vec<Family> {
    let verdict = &survey.verdict;
    let status =
        "Exit status of the survey: 0 good, 3 bad, 4 undecided, 1 failed, 130 interrupted.";
    let times = [survey.started_unix_ms, survey.elapsed_ms];
    let mut families = vec![openmetrics::build("survey")];
    families.extend(Family::times((SERIES, status), survey.exit_status, "survey", times));
    families.extend([
        Family::new(
            "cxidiag_survey_planned_pairs",
            "Pairs of NICs that were to be measured, with all pairs of --resume.",
            [(verdict.planned as f64).into()],
        ),
        Family::new(
            "cxidiag_survey_answered_pairs",
            "Pairs of NICs that were measured or failed, with all pairs of --resume.",
            [(verdict.answered as f64).into()],
        ),
        scope(survey),
    ]);
    families.extend(nic_families(survey));
    families.push(causes(survey));
    families.extend(why(survey));
    families.extend(population_families(survey));
    families.extend(load_families(survey));
    families
}

/// Returns what the verdict is about.
fn scope(survey: &Survey) -> Family {
    let kinds = [("latency", Scope::Bandwidth), ("bandwidth", Scope::Latency)];
    let samples =
        kinds.map(|(kind, without)| Sample::new([("kind", kind.into())], survey.scope != without));
    Family::new(
        "cxidiag_survey_scope",
        "Whether the verdict is about latencies, and about bandwidths: 1 if it is.",
        samples,
    )
}

/// The number of NICs in each state, and the state of each NIC.
fn nic_families(survey: &Survey) -> [Family; 4] {
    let roster = &survey.roster;
    let states = all_states(survey);
    let counts = State::ALL.map(|state| {
        let count = states.iter().filter(|candidate| **candidate == state).count();
        Sample::new([("state", state.name().into())], count as f64)
    });
    let each = |value: fn(State) -> Option<bool>| {
        let with_value = roster.nics.iter().zip(&states).filter_map(|(nic, state)| {
            let labels =
                [("host", roster.node(nic.node).host.clone()), ("device", nic.device.clone())];
            Some(Sample::new(labels, value(*state)?))
        });
        with_value.collect::<Vec<_>>()
    };
    [
        Family::new("cxidiag_survey_nics", "Number of NICs by state.", counts),
        Family::new(
            "cxidiag_survey_nic_ok",
            "Whether the NIC is good or suspect (1), or belongs to a bad part (0); no sample if it is \
             untested or in no pair.",
            each(|state| {
                let is_known = !matches!(state, State::Untested | State::Unpaired);
                is_known.then_some(state != State::Bad)
            }),
        ),
        Family::new(
            "cxidiag_survey_nic_suspect",
            "NICs of suspect parts, and the ends of bad paths: 1, and no sample for other NICs.",
            each(|state| (state == State::Suspect).then_some(true)),
        ),
        Family::new(
            "cxidiag_survey_nic_untested",
            "NICs that were not tested, or not with all of their partners: 1, and no sample for other \
             NICs.",
            each(|state| (state == State::Untested).then_some(true)),
        ),
    ]
}

/// The parts that are bad or suspect.
fn causes(survey: &Survey) -> Family {
    let causes = survey.verdict.causes.iter();
    let parts = causes.filter(|cause| cause.certainty != Certainty::Transient).map(|cause| {
        let labels = [
            ("kind", words::kind(&cause.unit).into()),
            ("name", words::name(&survey.roster, &cause.unit)),
            ("verdict", cause.certainty.name().into()),
        ];
        Sample::new(labels, true)
    });
    Family::new(
        "cxidiag_survey_culprit",
        "NICs, nodes, switches, groups and paths that are bad or suspect, always 1.",
        parts,
    )
}

/// The causes of culprits; nothing without a diagnosis.
fn why(survey: &Survey) -> Option<Family> {
    let causes = survey.why.iter().flat_map(|explanation| {
        let name = words::name(&survey.roster, &explanation.culprit);
        let mut all = survey.why.iter();
        let same = all.find(|other| explanation.same_as == Some(other.culprit));
        same.unwrap_or(explanation).causes.iter().filter_map(move |why| {
            let labels = [
                ("name", name.clone()),
                ("cause", why.cause.clone()?),
                ("confidence", why.confidence.name().into()),
            ];
            Some(Sample::new(labels, true))
        })
    });
    (!survey.why.is_empty()).then(|| {
        Family::new(
            "cxidiag_survey_cause",
            "Causes of bad and suspect parts, and what files say about untested NICs, always 1.",
            causes,
        )
    })
}

/// The figures by test and class.
fn population_families(survey: &Survey) -> [Family; 5] {
    let populations = || {
        let all = survey.verdict.populations.iter();
        all.map(|population| (population, &survey.setup.tests[population.test.index()]))
    };
    let counts = |count: fn(&Population) -> u64| {
        populations().map(move |(population, test)| {
            Sample::new(labels(population, test), count(population) as f64)
        })
    };
    let figures = |is_bandwidth: bool| {
        let kind_pairs = populations().filter(move |(population, test)| {
            let has_figures = population.count > 0;
            has_figures && test.of_bandwidth == is_bandwidth
        });
        // Latencies are in nanoseconds. A whole number of picoseconds has no digits of rounding
        // errors.
        let value = move |value: f64| {
            if is_bandwidth { value } else { (value * 1e3).round() / 1e12 }
        };
        kind_pairs.flat_map(move |(population, test)| {
            let inner = population.percentiles;
            let figures = [population.min].into_iter().chain(inner).chain([population.max]);
            PERCENTILES.into_iter().zip(figures).map(move |(name, figure)| {
                let mut labels = labels(population, test).to_vec();
                labels.push(("percentile", name.into()));
                Sample::new(labels, value(figure))
            })
        })
    };
    [
        Family::new(
            "cxidiag_survey_measured_pairs",
            "Measured pairs by test and class.",
            counts(|population| population.count),
        ),
        Family::new(
            "cxidiag_survey_outside_pairs",
            "Measured pairs outside the limits by test and class.",
            counts(|population| population.outside),
        ),
        Family::new(
            "cxidiag_survey_failed_pairs",
            "Pairs that failed by test and class.",
            counts(|population| population.failed),
        ),
        Family::new(
            "cxidiag_survey_latency_seconds",
            "Percentiles over pairs of their median latencies.",
            figures(false),
        ),
        Family::new(
            "cxidiag_survey_bandwidth_bytes_per_second",
            "Percentiles over pairs of their bandwidths.",
            figures(true),
        ),
    ]
}

fn labels(population: &Population, test: &Test) -> [(&'static str, String); 3] {
    [
        ("tool", test.tool.clone()),
        ("size", test.size_bytes.to_string()),
        ("class", population.class.name().into()),
    ]
}

/// The metrics of a survey under load; nothing without load.
fn load_families(survey: &Survey) -> Vec<Family> {
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

/// The impact factors of the median and of the 99th percentile.
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

/// The judgements that retests have confirmed.
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
    use super::super::testing::{cause, explanation, good, loaded, mixed, mixed_load, survey};
    use super::*;
    use campaign::quiet::roster::{NicId, Unit};
    use page::openmetrics::{Dialect, text};
    use why::culprits::Explanation;

    #[test]
    fn writes_a_sample_for_each_nic_and_class() {
        let mut verdict = mixed();
        verdict.populations[1].failed = 2;
        verdict.populations[1].percentiles[3] = 121_312.6;
        let switch = Unit::Switch { group: 3, switch: 12 };
        verdict.causes.push(cause(switch, Certainty::Suspect));
        let mut survey = survey(verdict, Ok(()));
        let same = Explanation {
            culprit: Unit::Nic(NicId(5)),
            causes: Vec::new(),
            same_as: Some(Unit::Nic(NicId(3))),
            ..explanation()
        };
        survey.why = vec![explanation(), same];
        let text = text(&families(&survey), Dialect::NodeExporter);
        for line in [
            "cxidiag_build_info{command=\"survey\",version=\"0.1.0\"} 1",
            "cxidiag_survey_exit_status 3",
            "cxidiag_survey_timestamp_seconds 1700000000",
            "cxidiag_survey_duration_seconds 12.345",
            "cxidiag_survey_planned_pairs 84",
            "cxidiag_survey_answered_pairs 66",
            "cxidiag_survey_scope{kind=\"bandwidth\"} 1",
            "cxidiag_survey_nics{state=\"good\"} 0",
            "cxidiag_survey_nics{state=\"suspect\"} 5",
            "cxidiag_survey_nic_ok{host=\"nid000417\",device=\"cxi1\"} 0",
            "cxidiag_survey_nic_ok{host=\"nid000418\",device=\"cxi0\"} 1",
            "cxidiag_survey_nic_suspect{host=\"nid000416\",device=\"cxi0\"} 1",
            "cxidiag_survey_nic_untested{host=\"nid000418\",device=\"cxi1\"} 1",
            "cxidiag_survey_culprit{kind=\"switch\",name=\"switch 003.12\",verdict=\"suspect\"} 1",
            "cxidiag_survey_culprit{kind=\"NIC\",name=\"nid000417 cxi1\",verdict=\"bad\"} 1",
            "cxidiag_survey_cause{name=\"nid000417 cxi1\",cause=\"pcie-narrow\",\
             confidence=\"because\"} 1",
            "cxidiag_survey_cause{name=\"nid000418 cxi1\",cause=\"pcie-narrow\",\
             confidence=\"because\"} 1",
            "cxidiag_survey_measured_pairs{tool=\"write-lat\",size=\"8\",class=\"same group\"} 24",
            "cxidiag_survey_failed_pairs{tool=\"write-lat\",size=\"8\",class=\"same group\"} 2",
            "cxidiag_survey_outside_pairs{tool=\"write-lat\",size=\"8\",class=\"same switch\"} 6",
            "cxidiag_survey_latency_seconds{tool=\"write-lat\",size=\"8\",class=\"same group\",\
             percentile=\"99\"} 0.00000201",
            "cxidiag_survey_latency_seconds{tool=\"write-lat\",size=\"8\",class=\"same group\",\
             percentile=\"50\"} 0.0001213126",
            "cxidiag_survey_bandwidth_bytes_per_second{tool=\"write-bw\",size=\"1048576\",\
             class=\"same switch\",percentile=\"1\"} 18100000000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Untested NICs are neither good nor bad.
        assert_eq!(text.matches("cxidiag_survey_nic_ok{").count(), 6);
    }

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
        let all = super::families(&survey);
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
        assert!(load_families(&survey(good(), Ok(()))).is_empty());
    }
}
