//! The sources that this program was built from. `build.rs` of the program finds them; a package
//! that recorded them itself would be compiled anew for each commit.

use std::sync::OnceLock;

/// Revision and date of the sources.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceRevision {
    /// The commit, if the program was built in a checkout.
    pub revision: Option<&'static str>,
    /// The date of the commit, such as 2026-11-22.
    pub date: Option<&'static str>,
}

static SOURCES: OnceLock<SourceRevision> = OnceLock::new();

/// Records the sources of the program. The first call counts.
pub fn record(sources: SourceRevision) {
    let _ = SOURCES.set(sources);
}

/// The sources of the program, or nothing before [`record`].
pub fn sources() -> SourceRevision {
    SOURCES.get().copied().unwrap_or_default()
}
