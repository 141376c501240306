//! The state of each NIC under load as well, and the list of bad nodes.

use std::collections::BTreeSet;

use super::Survey;
use super::load_words::{certainties, unit_of};
use campaign::quiet::findings::{Certainty, State, members, state_of, states};
use campaign::quiet::roster::Unit;
use crew::host_list::compress;

/// The state of each NIC of a survey, under load as well.
pub fn all_states(survey: &Survey) -> Vec<State> {
    let mut states = states(&survey.roster, &survey.verdict);
    for (unit, certainty) in certainties(survey.load.as_ref()) {
        let Some(state) = state_of(certainty) else {
            continue;
        };
        let nics = unit_of(&unit).map_or(Vec::new(), |unit| members(&survey.roster, &unit));
        for nic in nics {
            let known = &mut states[nic.index()];
            *known = state.max(*known);
        }
    }
    states
}

/// The hosts that are bad themselves, or that have a NIC that is bad without load or under load, in
/// order. A bad switch or group is not the fault of its hosts.
pub fn bad_hosts(survey: &Survey) -> Vec<&str> {
    let Survey { roster, verdict, .. } = survey;
    let bad = verdict.causes.iter().filter(|cause| cause.certainty == Certainty::Bad);
    let bad = bad.map(|cause| cause.unit);
    let under_load = certainties(survey.load.as_ref())
        .filter(|(_, certainty)| *certainty == Certainty::Bad)
        .filter_map(|(unit, _)| unit_of(&unit));
    let nodes = bad.chain(under_load).filter_map(|unit| match unit {
        Unit::Nic(nic) => Some(roster.nic(nic).node),
        Unit::Node(node) => Some(node),
        _ => None,
    });
    let hosts: BTreeSet<&str> = nodes.map(|node| roster.node(node).host.as_str()).collect();
    hosts.into_iter().collect()
}

/// The text of `--bad-nodes`: a line with the bad hosts, as scontrol reads it. It is empty if no
/// host is bad. The nodes of `--loopback` have invented names, which a node of the cluster may
/// have.
pub fn bad_nodes(survey: &Survey) -> String {
    match bad_hosts(survey).as_slice() {
        _ if survey.setup.launcher == "loopback" => String::new(),
        [] => String::new(),
        hosts => format!("{}\n", compress(hosts.iter().copied())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        SWITCH, cause, evidence, good, good_load, judgement, loaded, mixed, roster, survey,
    };
    use super::*;
    use campaign::quiet::findings::{self, Cause, Findings};
    use campaign::quiet::roster::{NicId, NodeId, Pair, TestId};
    use load::findings::{Grade, LoadFigure, LoadFindings, LoadUnit};

    #[test]
    fn lists_nodes_that_are_bad_themselves() {
        let with = |units: Vec<Unit>| {
            let causes = units.into_iter().map(|unit| cause(unit, Certainty::Bad));
            let verdict = Findings { causes: causes.collect(), ..good() };
            bad_nodes(&survey(verdict, Ok(())))
        };
        let units = vec![
            Unit::Nic(NicId(5)),
            Unit::Node(NodeId(0)),
            Unit::Nic(NicId(2)),
            Unit::Nic(NicId(4)),
        ];
        assert_eq!(with(units), "nid[000416-000418]\n");
        assert_eq!(with(vec![Unit::Group(3), Unit::GroupPair(3, 4)]), "");
        let mut loopback_survey = survey(mixed(), Ok(()));
        loopback_survey.setup.launcher = "loopback".into();
        assert_eq!(bad_nodes(&loopback_survey), "");
        // Suspects are not bad.
        assert_eq!(bad_nodes(&survey(mixed(), Ok(()))), "nid000417\n");
    }

    #[test]
    fn counts_nics_that_are_bad_under_load() {
        use State::{Bad, Good, Suspect};
        let judgement_for =
            |unit, certainty| judgement(unit, LoadFigure::Bandwidth, Grade::Bad, Some(certainty));
        let nic = |nic| LoadUnit::Nic(NicId(nic));
        let survey = loaded(LoadFindings {
            judgements: vec![
                judgement_for(nic(5), Certainty::Bad),
                judgement_for(nic(6), Certainty::Suspect),
                judgement_for(nic(7), Certainty::Transient),
                judgement_for(SWITCH, Certainty::Suspect),
                judgement_for(LoadUnit::System, Certainty::Bad),
            ],
            ..good_load()
        });
        assert_eq!(
            all_states(&survey),
            [Suspect, Suspect, Suspect, Suspect, Good, Bad, Suspect, Good]
        );
        assert_eq!(bad_nodes(&survey), "nid000418\n");
    }

    /// NIC 3 has twice the latency. Test 1 judges no other NIC, test 0 not all of them.
    #[test]
    fn nics_without_the_fault_of_a_bad_part_are_good_beside_it() {
        use State::{Bad, Good, Untested};
        let part = |nic, test, is_coarse| findings::UntestedPart {
            tests: vec![TestId(test)],
            is_coarse,
            ..findings::UntestedPart::new(Unit::Nic(NicId(nic)), "busy CPUs")
        };
        let slow = Cause {
            evidence: vec![evidence(TestId(0))],
            ..cause(Unit::Nic(NicId(3)), Certainty::Bad)
        };
        let mut verdict = Findings { causes: vec![slow], ..good() };
        verdict.untested = vec![part(0, 1, false), part(1, 0, false), part(2, 0, true)];
        let states =
            |verdict: &Findings| findings::states_beside_bad(&roster(), verdict)[..4].to_vec();
        assert_eq!(states(&verdict), [Good, Untested, Good, Bad]);
        // A class that would have shown only larger faults says nothing about this one.
        verdict.populations.iter_mut().for_each(|one| one.sensitivity = Some(2.5));
        assert_eq!(states(&verdict), [Good, Untested, Untested, Bad]);
    }

    #[test]
    fn gives_nics_the_state_of_their_worst_part() {
        use State::{Bad, Good, Suspect, Untested};
        let states = |verdict: &Findings| findings::states(&roster(), verdict);
        assert_eq!(states(&good()), [Good; 8]);
        let mut verdict = mixed();
        let expected = [Good, Good, Good, Bad, Suspect, Untested, Suspect, Untested];
        assert_eq!(states(&verdict), expected);
        verdict.causes.push(cause(Unit::Group(3), Certainty::Suspect));
        let expected = [Suspect, Suspect, Suspect, Bad, Suspect, Suspect, Suspect, Suspect];
        assert_eq!(states(&verdict), expected);
        // The ends of a path that was left out are tested with other partners.
        let mut left_out = good();
        let pair = Pair { initiator: NicId(0), target: NicId(2) };
        left_out.untested = vec![findings::UntestedPart {
            pairs: 1,
            ..findings::UntestedPart::new(Unit::Path(pair), "late")
        }];
        assert_eq!(states(&left_out), [Good; 8]);
        left_out.unpaired = vec![NicId(6)];
        assert_eq!(states(&left_out)[5..], [Good, State::Unpaired, Good]);
        verdict.answered = 0;
        verdict.causes.clear();
        assert_eq!(states(&verdict), [Untested; 8]);
    }
}
