//! Outcome -> text as documented.

pub mod bandwidth;
pub mod output;
pub mod text;
