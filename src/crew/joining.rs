//! How a process of a survey or of a check joins its coordinator.

use std::time::{Duration, Instant};

use crate::introduction::Introduction;
use crate::meeting_point::{Coordinator, SIGHT_LIMIT};
use crate::star::{Meeting, Member, Work};
use facts::error::{Failure, Kind};
use facts::{interrupt, limit};

/// How long a process tries to reach one coordinator.
const ATTEMPT: Duration = Duration::from_secs(15);

/// Pause before the next attempt: a coordinator notes each process that it refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// Joins the coordinator. Looks for it again after a failure, because a killed coordinator may have
/// left its meeting point.
///
/// # Errors
///
/// A coordinator that is not found or refuses this process, and an interruption.
pub fn join<W: Work>(
    introduction: &Introduction,
    end: Instant,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<Member<W>, Failure> {
    let mut unreached: Option<Failure> = None;
    loop {
        // The next coordinator replaces what a killed one has left.
        let search_end = match unreached {
            Some(_) => end.min(Instant::now() + limit::in_effect(SIGHT_LIMIT)),
            None => end,
        };
        let Coordinator { addresses, token, .. } = match coordinator(search_end) {
            // A coordinator that could not be reached has removed its meeting point meanwhile.
            Err(failure) if failure.kind != Kind::Interrupted => {
                return Err(unreached.unwrap_or(failure));
            }
            found => found?,
        };
        let meeting = Meeting { addresses, token };
        let joined = Member::join(&meeting, introduction.clone(), ATTEMPT);
        match joined {
            Err(failure)
                if failure.kind != Kind::Interrupted
                    && !failure.is_printed()
                    && Instant::now() + PAUSE < end =>
            {
                interrupt::wait_for_any(&mut Vec::new(), Some(PAUSE))?;
                unreached = Some(failure);
            }
            joined => return joined,
        }
    }
}
