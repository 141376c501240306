//! The time limits of a wait for a message, the line for the user about a long wait, and the ticks
//! of a side: a length that no message has, every few seconds from the handshake to the end of the
//! run.
//!
//! The kernel answers for a process that is stopped, so a side that waits for the set-up or the
//! measurement of its peer could not tell a stopped peer from a busy one. Client and server
//! announce with their versions that they know ticks: two words, because older releases know only
//! the ticks of clients. A thread sends them: the measuring loop may be in a wait, or has no check
//! of its own while the NIC is fast. The thread sleeps in between and runs on other CPUs than the
//! measuring threads, if there are any. Its priority is not lower than theirs: a process ends when
//! all its threads have had a CPU, which takes seconds at the lowest priority beside busy programs.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use cxi::placement::{self, Confined};
use facts::limit::{self, NOTICE};

use super::link_error::LinkError;
use super::wire::TICK;

/// Interval of ticks.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// The thread that sends the ticks. It ends soon after this value is dropped, which does not wait
/// for it.
#[derive(Debug)]
pub struct Ticker {
    _running: Sender<()>,
}

impl Ticker {
    /// Starts to send ticks on `stream`, apart from the `measuring` CPUs. Without the thread, the
    /// peer takes this side for a stopped process after a minute.
    pub fn start(mut stream: TcpStream, measuring: &[u32]) -> Option<Self> {
        let mut cpus = placement::cpus().unwrap_or_default();
        cpus.retain(|cpu| !measuring.contains(cpu));
        let (running, end) = bounded(0);
        let tick = move || {
            let _confined = Confined::to(&cpus);
            while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&TICK.to_le_bytes()).is_ok()
            {}
        };
        thread::Builder::new().name("ticks".into()).spawn(tick).ok()?;
        Some(Self { _running: running })
    }
}

/// How long a peer that sends ticks may send nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Longest limit that is shown: a year.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);

/// A wait for a message of the peer.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The purpose of the message, in messages for the user.
    pub doing: &'a str,
    /// Ends the wait.
    pub limit: Duration,
    /// Time that the peer needs before it sends the message, as far as it is known; `None` if it
    /// has nothing else to do. The user is informed of a longer wait: of a peer that sends ticks
    /// only if these are missing.
    pub needed: Option<Duration>,
}

impl<'a> Wait<'a> {
    /// The wait for a peer that has nothing else to do.
    pub const fn for_answer(doing: &'a str, limit: Duration) -> Self {
        Self { doing, limit, needed: None }
    }
}

/// The time limits of a wait that has begun.
#[derive(Debug)]
pub struct Deadline {
    since: Instant,
    limit: Duration,
    needed: Option<Duration>,
    /// When the last tick came, of a peer that sends them.
    ticked: Option<Instant>,
    is_noticed: bool,
}

impl Deadline {
    /// Begins a wait for a peer that sends ticks or not.
    pub fn new(wait: &Wait<'_>, has_ticks: bool, now: Instant) -> Self {
        Self {
            since: now,
            limit: limit::in_effect(wait.limit),
            needed: wait.needed,
            ticked: has_ticks.then_some(now),
            is_noticed: false,
        }
    }

    /// Notes a tick.
    pub fn tick(&mut self, now: Instant) {
        if let Some(ticked) = &mut self.ticked {
            *ticked = now;
        }
    }

    /// The time that is left.
    ///
    /// # Errors
    ///
    /// The limit that is exceeded.
    pub fn left(&self, now: Instant) -> Result<Duration, LinkError> {
        let left = |since: Instant, limit: Duration| {
            let left = limit.saturating_sub(now.saturating_duration_since(since));
            Some(left).filter(|left| !left.is_zero())
        };
        let whole = left(self.since, self.limit).ok_or(LinkError::Late(self.limit))?;
        let Some(ticked) = self.ticked else {
            return Ok(whole);
        };
        let silence = silence();
        let quiet = left(ticked, silence).ok_or(LinkError::Stopped(silence))?;
        Ok(whole.min(quiet))
    }

    /// A line for the user about a wait that has become long, once.
    pub fn notice(&mut self, now: Instant) -> Option<LongWait> {
        let (since, allowed) = match (self.needed, self.ticked) {
            (Some(_), Some(ticked)) => (ticked, INTERVAL),
            (needed, _) => (self.since, needed.unwrap_or_default()),
        };
        let waited = now.saturating_duration_since(since);
        if self.is_noticed || waited < NOTICE.saturating_add(allowed) {
            return None;
        }
        self.is_noticed = true;
        Some(LongWait {
            waited,
            limit: Some(self.limit).filter(|limit| *limit < UNLIMITED),
            silence: (self.ticked).and(Some(silence()).filter(|silence| *silence < self.limit)),
        })
    }
}

/// A wait that has become long.
#[derive(Debug)]
pub struct LongWait {
    waited: Duration,
    limit: Option<Duration>,
    /// The limit for the silence of a peer that sends ticks.
    silence: Option<Duration>,
}

impl LongWait {
    /// The line about the wait for `peer`.
    pub fn text(&self, peer: &str, doing: &str) -> String {
        let limit = self.limit.map(|limit| format!("{} s", limit.as_secs()));
        let silence =
            (self.silence).map(|silence| format!("{} s without a tick", silence.as_secs()));
        let limits: Vec<String> = limit.into_iter().chain(silence).collect();
        let limits = if limits.is_empty() {
            String::new()
        } else {
            format!(" (limit: {})", limits.join(", "))
        };
        let waited = self.waited.as_secs();
        format!("no answer from {peer} {doing} for {waited} s{limits}")
    }
}

/// The limit in effect for the silence of a peer that sends ticks. The interval of ticks is not
/// shortened.
fn silence() -> Duration {
    limit::in_effect(SILENCE).max(3 * INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PEER: &str = "the server (10.1.1.8:49194)";

    /// The line about a wait, and after how many seconds it comes, of a peer that sends ticks in
    /// the first `ticks` seconds.
    fn noticed(wait: Wait<'_>, ticks: Option<u32>) -> Option<(u32, String)> {
        let begin = Instant::now();
        let mut deadline = Deadline::new(&wait, ticks.is_some(), begin);
        let lines: Vec<(u32, String)> = (0..=1000)
            .filter_map(|second| {
                let now = begin + second * SECOND;
                if ticks.is_some_and(|ticks| second <= ticks) {
                    deadline.tick(now);
                }
                let line = deadline.notice(now)?.text(PEER, wait.doing);
                Some((second, line))
            })
            .collect();
        assert!(lines.len() < 2, "{lines:?}");
        lines.into_iter().next()
    }

    fn line(waited: u32, limits: &str) -> Option<(u32, String)> {
        Some((waited, format!("no answer from {PEER} here for 2 s{limits}")))
    }

    #[test]
    fn informs_once_of_a_missing_answer() {
        let wait = Wait::for_answer("here", 600 * SECOND);
        assert_eq!(noticed(wait, None), line(2, " (limit: 600 s)"));
        let both = " (limit: 600 s, 60 s without a tick)";
        assert_eq!(noticed(wait, Some(1000)), line(2, both));
        let unlimited = Wait::for_answer("here", Duration::MAX);
        assert_eq!(noticed(unlimited, None), line(2, ""));
    }

    #[test]
    fn informs_of_missing_ticks_of_a_peer_that_measures() {
        let wait = Wait { needed: Some(Duration::ZERO), ..Wait::for_answer("here", 600 * SECOND) };
        assert_eq!(noticed(wait, Some(1000)), None);
        let (second, text) = noticed(wait, Some(100)).unwrap();
        assert_eq!(second, 104);
        assert!(text.contains(" here for 4 s (limit: 600 s, 60 s without "), "{text}");
    }

    #[test]
    fn allows_a_peer_without_ticks_its_known_time() {
        let wait = Wait { needed: Some(60 * SECOND), ..Wait::for_answer("here", 600 * SECOND) };
        let (second, text) = noticed(wait, None).unwrap();
        assert_eq!(second, 62);
        assert!(text.contains(" here for 62 s (limit: 600 s)"), "{text}");
        let unknown = Wait { needed: Some(Duration::MAX), ..wait };
        assert_eq!(noticed(unknown, None), None);
    }

    #[test]
    fn ticks_extend_a_wait_within_its_limit() {
        let begin = Instant::now();
        let wait = Wait::for_answer("here", 600 * SECOND);
        let mut deadline = Deadline::new(&wait, true, begin);
        let left = |deadline: &Deadline, second: u32| deadline.left(begin + second * SECOND);
        assert!(matches!(left(&deadline, 60), Err(LinkError::Stopped(_))));
        deadline.tick(begin + 59 * SECOND);
        assert_eq!(left(&deadline, 60).unwrap(), 59 * SECOND);
        deadline.tick(begin + 599 * SECOND);
        assert_eq!(left(&deadline, 599).unwrap(), SECOND);
        assert!(matches!(left(&deadline, 600), Err(LinkError::Late(_))));
        let silent = Deadline::new(&wait, false, begin);
        assert_eq!(left(&silent, 599).unwrap(), SECOND);
    }
}
