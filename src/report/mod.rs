//! Outcome -> text as documented.

pub mod text;
