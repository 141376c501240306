//! The names of patterns in texts and documents.

use super::pattern::{Distance, Pattern, Set};
use crate::slot::LoadMeasurement;

/// Returns the name of a pattern with its variant: `bisect:system, both ways`.
pub fn pattern_name(pattern: Pattern) -> String {
    match pattern {
        Pattern::Quiet => "quiet".into(),
        Pattern::Bisect { of, both_ways } => {
            let name = match of {
                Set::All => "bisect",
                Set::Switch => "bisect:switch",
                Set::Group => "bisect:group",
                Set::System => "bisect:system",
            };
            let variant = if both_ways { ", both ways" } else { "" };
            format!("{name}{variant}")
        }
        Pattern::Shift(distance) => {
            let to = match distance {
                Distance::One => "next NIC",
                Distance::Switch => "next switch",
                Distance::Group => "next group",
                Distance::Random => "random",
            };
            format!("shift, {to}")
        }
        Pattern::AllToAll => "all2all".into(),
        Pattern::Incast(sources) => format!("incast:{sources}"),
    }
}

/// Returns the name of the pattern of load slots with this purpose.
pub fn purpose_name(purpose: LoadMeasurement) -> String {
    match purpose {
        LoadMeasurement::Ramp => "ramp".into(),
        LoadMeasurement::Bandwidth(pattern) => pattern_name(pattern),
        LoadMeasurement::Victims(key) => under_name(key.under, key.at_target),
    }
}

/// Returns the name of the pattern of aggressors, as victims see it: `incast-same:8` if the victims
/// measure at the target of the incast.
pub fn under_name(pattern: Pattern, at_target: bool) -> String {
    match pattern {
        Pattern::Incast(sources) if at_target => format!("incast-same:{sources}"),
        _ => pattern_name(pattern),
    }
}
