//! What the fit of a test leaves of the cost of a pair, and whether a part explains it.

use super::answer::Pair;

/// A pair and the part of its cost that its class does not explain.
#[derive(Clone, Copy, Debug)]
pub struct PairResidual {
    pub pair: Pair,
    pub value: f64,
}

/// Returns whether a residual is nearer to an effect than to 0.
pub fn has_effect(residual: f64, effect: f64) -> bool {
    residual * effect.signum() >= effect.abs() / 2.0
}
