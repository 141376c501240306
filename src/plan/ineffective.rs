//! Typed options without effect beside the others. They are named, not refused: scripts for the legacy
//! tools may give them.

use crate::atomic::AtomicOp;
use crate::plan::typed::Typed;

/// An option without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ineffective {
    /// Its long form.
    pub option: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

/// Returns the options of `typed` that have no effect.
pub fn find(typed: &Typed) -> Vec<Ineffective> {
    let given = |long| typed.run_given.contains(&long);
    let is_timed = typed.run.duration_s.is_some();
    let atomic = typed.run.atomic;
    let rules = [
        (
            "iters",
            given("iters") && is_timed,
            "--duration replaces it",
        ),
        (
            "report-all",
            given("report-all") && is_timed,
            "not with --duration",
        ),
        (
            "cswap-op",
            given("cswap-op") && atomic.is_some_and(|atomic| atomic.op != AtomicOp::Cswap),
            "only with --atomic-op=CSWAP",
        ),
        (
            "gpu-type",
            typed.gpus.kind.is_some() && !typed.gpus.any(),
            "only with --tx-gpu or --rx-gpu",
        ),
    ];
    rules
        .into_iter()
        .filter_map(|(option, applies, reason)| applies.then_some(Ineffective { option, reason }))
        .collect()
}
