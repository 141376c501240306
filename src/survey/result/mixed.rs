//! Classes without a limit.

use campaign::blame::LEAST_FIGURES;
use campaign::quiet::findings::Population;

/// Returns whether a class has too few pairs whose figures say something.
pub fn has_few_figures(population: &Population) -> bool {
    population.count < population.unjudged + LEAST_FIGURES as u64
}

/// Returns whether the pairs of a class have nothing to be compared with, and no limit of
/// `--expect`.
pub fn is_incomparable(population: &Population) -> bool {
    population.incomparable && population.expected.is_none()
}

/// Returns whether pairs of a class differ too much for a limit. The survey cannot say then which
/// of them are good.
pub fn is_mixed(population: &Population) -> bool {
    let has_no_limit = population.limit.is_none() && population.expected.is_none();
    has_no_limit && !has_few_figures(population)
}
