//! Errors that checks provoke. Each sets an error flag of the NIC, and the driver masks a flag at
//! its 11th interrupt within 5 s, for all users, until it is loaded again (health.md 2.5.1).

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use cxi::sys::*;
use facts::error_flag::ErrorFlag;
use facts::interrupt;

use crate::ended::{Checked, skipped};

/// Most errors of a flag in a run.
pub const MOST: usize = 3;

/// Least time between two errors of a flag: each is an interrupt and a line in the log.
const INTERVAL: Duration = Duration::from_millis(200);

/// Least time between the last error and the end of the run. Of runs that follow each other, three
/// at most provoke errors within 5 s.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a wait may take without looking for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// The errors of a run.
#[derive(Debug, Default)]
pub struct Provoked(RefCell<Vec<(ErrorFlag, Instant)>>);

impl Provoked {
    /// Waits until an error of this flag may be provoked, and counts it.
    ///
    /// # Errors
    ///
    /// `MOST` errors of the flag.
    pub fn provoke(&self, flag: ErrorFlag) -> Checked {
        if self.count(flag) == MOST {
            let name = flag.full_name();
            return skipped(format_args!("{MOST} errors of the flag {name} were provoked"));
        }
        let last = self.0.borrow().iter().rfind(|(known, _)| *known == flag).map(|last| last.1);
        wait_after(last, INTERVAL);
        self.0.borrow_mut().push((flag, Instant::now()));
        Ok(())
    }

    /// Returns how many errors of this flag were provoked.
    pub fn count(&self, flag: ErrorFlag) -> usize {
        let all = self.0.borrow();
        all.iter().filter(|(known, _)| *known == flag).count()
    }

    /// Waits until the driver has handled the last error, and another run may begin.
    pub fn settle(&self) {
        let last = self.0.borrow().last().map(|last| last.1);
        wait_after(last, PAUSE);
    }
}

/// Waits until `time` has passed since `last`, or for an interruption.
fn wait_after(last: Option<Instant>, time: Duration) {
    let Some(until) = last.map(|last| last + time) else {
        return;
    };
    while !interrupt::requested() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return;
        }
        thread::sleep(rest.min(SLICE));
    }
}

/// Returns the flag that an operation with this return code sets, unless the driver masks it from
/// the start.
pub fn flag_of(code: c_return_code) -> Option<ErrorFlag> {
    Some(match code {
        C_RC_RESTRICTED_UNICAST => ErrorFlag::RESTRICTED_UNICAST,
        C_RC_NO_SPACE => ErrorFlag::NO_SPACE,
        C_RC_INVALID_ENDPOINT => ErrorFlag::INVALID_ENDPOINT,
        C_RC_OP_VIOLATION => ErrorFlag::OP_VIOLATION,
        C_RC_AMO_ALIGN_ERROR => ErrorFlag::AMO_ALIGN,
        C_RC_AMO_INVAL_OP_ERROR => ErrorFlag::AMO_OP,
        C_RC_AMO_LENGTH_ERROR => ErrorFlag::AMO_LENGTH,
        C_RC_PAGE_PERM_ERROR => ErrorFlag::PAGE_PERMISSION,
        _ => return None,
    })
}
