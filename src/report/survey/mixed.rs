//! Classes without a limit.

use cluster::survey::findings::{Findings, Population};
use cluster::survey::population::LEAST_FIGURES;

/// Returns whether pairs of a class differ too much for a limit. The survey cannot say then which
/// of them are good.
pub fn is_mixed(verdict: &Findings) -> bool {
    let has_no_limit = |of: &Population| of.limit.is_none() && of.expected.is_none();
    let mut populations = verdict.populations.iter();
    populations.any(|of| of.count >= LEAST_FIGURES as u64 && has_no_limit(of))
}
