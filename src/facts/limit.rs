//! Time limits of waits. Debug builds divide those above one second by
//! `CXIDIAG_TEST_SHORTEN_LIMITS_BY`, so that tests reach the ends of long waits.

use std::time::Duration;

/// Time limit for a message of a peer that has nothing else to do (wire.md 6).
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Time after which the user is informed of an answer that has not come.
pub const NOTICE: Duration = Duration::from_secs(2);

/// Minimum of a shortened limit, enough for a busy machine to answer.
#[cfg(debug_assertions)]
const SHORTEST: Duration = Duration::from_secs(1);

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
