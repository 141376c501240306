//! What judgements under load mean for the conclusion and for NICs.

use campaign::quiet::findings::{Certainty, Unit};
use load::findings::{Grade, LoadFindings, LoadJudgement, LoadUnit};

/// Returns how certain it is that a figure is bad. `None` if it is not. A bad figure without
/// retests is not confirmed.
pub fn certainty(judgement: &LoadJudgement) -> Option<Certainty> {
    (judgement.grade == Grade::Bad).then(|| judgement.certainty.unwrap_or(Certainty::Suspect))
}

/// Returns the parts with bad figures, and how certain each figure is.
pub fn certainties(
    load: Option<&LoadFindings>,
) -> impl Iterator<Item = (LoadUnit, Certainty)> + '_ {
    let judgements = load.into_iter().flat_map(|findings| &findings.judgements);
    judgements.filter_map(|judgement| Some((judgement.unit, certainty(judgement)?)))
}

/// Returns the parts whose most certain bad figure has this certainty, each once.
pub fn units(load: Option<&LoadFindings>, word: Certainty) -> Vec<LoadUnit> {
    let mut units = Vec::new();
    for (unit, _) in certainties(load).filter(|(_, certainty)| *certainty == word) {
        let is_worse =
            |(candidate, certainty): (LoadUnit, Certainty)| candidate == unit && certainty > word;
        if !units.contains(&unit) && !certainties(load).any(is_worse) {
            units.push(unit);
        }
    }
    units
}

/// Returns the part without load that a part under load is. `None` for links in one direction, the
/// fabric and a traffic class, to which no NIC belongs.
pub fn unit_of(unit: &LoadUnit) -> Option<Unit> {
    match *unit {
        LoadUnit::Nic(nic) => Some(Unit::Nic(nic)),
        LoadUnit::Switch { group, switch } => Some(Unit::Switch { group, switch }),
        LoadUnit::Group(group) => Some(Unit::Group(group)),
        LoadUnit::System
        | LoadUnit::SwitchLinks { .. }
        | LoadUnit::GroupLinks { .. }
        | LoadUnit::TrafficClass => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::load_testing::{SWITCH, good_load, judgement};
    use super::*;
    use load::findings::LoadFigure;

    #[test]
    fn part_counts_once_with_its_most_certain_figure() {
        let judgement_for =
            |unit, figure, certainty| judgement(unit, figure, Grade::Bad, Some(certainty));
        let load = LoadFindings {
            judgements: vec![
                judgement_for(SWITCH, LoadFigure::Bandwidth, Certainty::Suspect),
                judgement_for(SWITCH, LoadFigure::Impact, Certainty::Bad),
                judgement_for(SWITCH, LoadFigure::Fairness, Certainty::Bad),
                judgement_for(LoadUnit::System, LoadFigure::Impact, Certainty::Suspect),
            ],
            ..good_load()
        };
        assert_eq!(units(Some(&load), Certainty::Bad), [SWITCH]);
        assert_eq!(units(Some(&load), Certainty::Suspect), [LoadUnit::System]);
        assert_eq!(units(None, Certainty::Bad), []);
    }
}
