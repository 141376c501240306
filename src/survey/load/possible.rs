//! Why a pattern is left out.

use super::findings::Spread;
use super::flows::flows;
use super::pattern::{Distance, Pattern, Set};
use crate::located::{LocatedNic, groups, switches};

/// The reason for patterns and spreads that need locations.
const NO_LOCATIONS: &str = "the locations of the NICs are not known";

/// Returns why a pattern has no flows among these NICs; `None` if it has.
pub fn why_impossible(pattern: Pattern, nics: &[LocatedNic], seed: u64) -> Option<String> {
    let needs_locations = matches!(
        pattern,
        Pattern::Bisect { of: Set::Switch | Set::Group | Set::System, .. }
            | Pattern::Shift(Distance::Switch | Distance::Group)
    );
    let is_group = matches!(pattern, Pattern::Bisect { of: Set::Group, .. });
    if needs_locations && nics.iter().all(|nic| nic.switch.is_none()) {
        return Some(NO_LOCATIONS.into());
    }
    // Then it has the same halves as bisect:switch.
    let is_repeated = is_group && groups(nics).iter().all(|group| switches(group).len() < 2);
    if !is_repeated && !flows(pattern, nics, 0, seed).is_empty() {
        return None;
    }
    Some(match pattern {
        Pattern::Incast(sources) => {
            format!("it needs {} NICs, there are {}", sources + 1, nics.len())
        }
        Pattern::Bisect { of: Set::Switch, .. } => "no switch has NICs of two nodes".into(),
        Pattern::Bisect { of: Set::Group, .. } => "no group has NICs at two switches".into(),
        Pattern::Shift(Distance::Switch) => "all NICs are at one switch".into(),
        Pattern::Bisect { of: Set::System, .. } | Pattern::Shift(Distance::Group) => {
            "all NICs are in one group".into()
        }
        _ => "it needs NICs of two nodes".into(),
    })
}

/// Returns why there are no roles.
pub fn why_no_roles(spread: Spread, nics: &[LocatedNic]) -> String {
    if spread != Spread::Mixed && nics.iter().all(|nic| nic.switch.is_none()) {
        return NO_LOCATIONS.into();
    }
    let what = match spread {
        Spread::Mixed => "nodes",
        Spread::Switches => "switches",
        Spread::Groups => "groups",
    };
    format!("there are too few {what} for victims and aggressors")
}
