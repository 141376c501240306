//! See the crate's own history.
