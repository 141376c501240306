//! From a culprit to its cause: which tests measure it beside a good NIC, which causes there are,
//! and what figures and files prove, suggest and exclude (diagnosis.md 1 to 6).

pub mod assessment;
pub mod cause;
pub mod columns;
pub mod comparison;
pub mod counters;
pub mod evaluation;
pub mod flows;
pub mod procedure;
pub mod shared;
pub mod table;
