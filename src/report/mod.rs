//! Outcome -> text as documented.

pub mod bandwidth;
pub mod text;
