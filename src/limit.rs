//! Time limits of waits. Debug builds divide those beyond a second by `CXIDIAG_TEST_SHORTEN_LIMITS_BY`,
//! so that tests see what comes after the longest ones.

use std::time::Duration;

/// The shortest that a limit becomes: a busy machine needs as long to answer.
#[cfg(debug_assertions)]
const SHORTEST: Duration = Duration::from_secs(1);

/// How long a wait lasts at most whose limit is `limit`.
pub fn in_effect(limit: Duration) -> Duration {
    #[cfg(debug_assertions)]
    if let Some(divisor) = *DIVISOR {
        return (limit / divisor).max(limit.min(SHORTEST));
    }
    limit
}

#[cfg(debug_assertions)]
static DIVISOR: std::sync::LazyLock<Option<u32>> = std::sync::LazyLock::new(|| {
    let divisor = std::env::var("CXIDIAG_TEST_SHORTEN_LIMITS_BY").ok()?;
    divisor.parse().ok().filter(|divisor| *divisor > 0)
});
