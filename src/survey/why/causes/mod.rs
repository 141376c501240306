//! From a culprit to its cause: which tests measure it beside a good NIC, which causes there are,
//! and what figures and files prove, suggest and exclude (diagnosis.md 1 to 6).

pub mod assessment;
pub mod cause;
pub mod comparison;
pub mod evaluation;
pub mod procedure;
pub mod readings;
pub mod table;
