//! The signals of the leader, as a stream that its waits read, and which of them it passes on to
//! its command (monitoring.md 1.3).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use cxi::signals::{ReceivedSignal, Signals};
use rustix::process::Signal;

use facts::interrupt;

/// Ending signals that arrive this soon after the end of the command belong to that end: a launcher
/// signals each process of a step, and the command may end before the leader gets its copy.
const SAME: Duration = Duration::from_millis(300);

/// The signals that have arrived and that nothing has read yet.
#[derive(Debug)]
pub struct Events {
    received: Receiver<ReceivedSignal>,
    /// Signals that were taken out of `received` and that nothing has read yet.
    backlog: RefCell<VecDeque<ReceivedSignal>>,
}

impl Events {
    /// Starts to watch signals. A thread receives them, whatever signals the caller blocks: the
    /// command inherits the mask of the caller, which stays as it is.
    ///
    /// # Errors
    ///
    /// A signal or a thread that the system refuses.
    pub fn watch() -> io::Result<Self> {
        let mut signals = Signals::watch(&watched())?;
        let (sender, received) = mpsc::channel();
        let pass_on = move || {
            // Signals that stay blocked are lost, but the others arrive.
            let _ = signals.unblock();
            while let Ok(received) = signals.receive() {
                if sender.send(received).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(pass_on)?;
        Ok(Self::of(received))
    }

    fn of(received: Receiver<ReceivedSignal>) -> Self {
        Self { received, backlog: RefCell::default() }
    }

    /// Drops each signal with this number that has arrived.
    pub fn drop_repeats(&self, signal: i32) {
        let mut backlog = self.backlog.borrow_mut();
        backlog.extend(self.received.try_iter());
        backlog.retain(|received| received.signal != signal);
    }

    /// Waits for the next signal, until a time if there is one.
    ///
    /// # Errors
    ///
    /// The time is over, or there are no more signals.
    pub fn next(&self, until: Option<Instant>) -> Result<ReceivedSignal, RecvTimeoutError> {
        if let Some(received) = self.backlog.borrow_mut().pop_front() {
            return Ok(received);
        }
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.received.recv_timeout(left)
            }
            None => (self.received.recv()).map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// The first ending signal that has arrived, if there is one. Drops the signals before it.
    pub fn ending(&self) -> Option<i32> {
        let mut signals = self.received.try_iter().map(|received| received.signal);
        signals.find(|signal| is_ending(*signal))
    }
}

/// The pauses of the leader after the end of its command. An ending signal ends all of them.
pub struct Pauses<'a> {
    events: Option<&'a Events>,
    /// When the command ended.
    ended: Instant,
    is_over: bool,
}

impl<'a> Pauses<'a> {
    /// Begins when the command has ended. Without `events`, no signal ends a pause.
    pub fn begin(events: Option<&'a Events>) -> Self {
        Self { events, ended: Instant::now(), is_over: false }
    }

    /// Pauses for this long. Returns whether to go on waiting.
    pub fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while let Some(events) = self.events.filter(|_| !self.is_over) {
            match events.next(Some(until)) {
                Ok(received) => {
                    let is_later = self.ended.elapsed() > SAME;
                    self.is_over = is_later && is_ending(received.signal);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => self.events = None,
            }
        }
        if !self.is_over {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        !self.is_over
    }
}

/// The signals that end a program.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Others that programs use.
const OTHERS: [Signal; 8] = [
    Signal::USR1,
    Signal::USR2,
    Signal::CONT,
    Signal::WINCH,
    Signal::ALARM,
    Signal::URG,
    Signal::IO,
    Signal::POWER,
];

/// Which signals the command gets from the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Each signal that it would not get otherwise.
    #[default]
    Needed,
    /// All that other processes send.
    All,
    /// None.
    Off,
}

/// The signals that the leader watches: those that it forwards and that were not ignored when it
/// started, and SIGCHLD.
pub fn watched() -> Vec<i32> {
    let ignored = interrupt::ignored();
    let signals = ENDING.into_iter().chain(OTHERS).map(Signal::as_raw);
    let active = signals.filter(|signal| ignored >> (signal - 1) & 1 == 0);
    active.chain([Signal::CHILD.as_raw()]).collect()
}

/// Whether a signal is one of those that end a program.
pub fn is_ending(signal: i32) -> bool {
    ENDING.into_iter().any(|ending| ending.as_raw() == signal)
}

/// Whether this process leads its session: then a terminal that is closed signals this process
/// alone. A session of another PID namespace is 0 here, which rustix's `getsid` does not permit.
pub fn leads_session() -> bool {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    numbers(&status).is_some_and(|numbers| numbers.session == numbers.process)
}

impl Forwarding {
    /// The signal to pass on for one that has arrived; `None` if the command gets none. What the
    /// kernel sends for a key of the terminal reaches the command anyway, and so does the end of
    /// the terminal unless this process `leads_session`.
    pub fn signal(self, received: ReceivedSignal, leads_session: bool) -> Option<Signal> {
        let signal = Signal::from_named_raw(received.signal)?;
        let has_reached_command = match (received.sender, signal) {
            (None, Signal::INT | Signal::QUIT | Signal::WINCH) => true,
            (None, Signal::HUP) => !leads_session,
            _ => false,
        };
        if has_reached_command {
            return None;
        }
        let is_passed_on = match self {
            Self::Off => false,
            Self::All | Self::Needed => ENDING.contains(&signal) || OTHERS.contains(&signal),
        };
        is_passed_on.then_some(signal)
    }
}

/// The numbers of a process and of its session.
#[derive(Debug, PartialEq, Eq)]
struct ProcessIds {
    process: i32,
    session: i32,
}

/// The numbers in a line such as `17 (name) S 1 16 15 ...`. The name may have any characters.
fn numbers(status: &str) -> Option<ProcessIds> {
    let (start, fields) = status.rsplit_once(')')?;
    // After the state, the parent and the group.
    let session = fields.split_whitespace().nth(3)?;
    Some(ProcessIds {
        process: start.split_whitespace().next()?.parse().ok()?,
        session: session.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    fn events(signals: &[Signal]) -> (mpsc::Sender<ReceivedSignal>, Events) {
        let (sender, received) = mpsc::channel();
        for signal in signals {
            let received = ReceivedSignal { signal: signal.as_raw(), sender: None };
            sender.send(received).unwrap();
        }
        (sender, Events::of(received))
    }

    #[test]
    fn finds_first_ending_signal() {
        let (_sender, events) = events(&[Signal::CHILD, Signal::USR1, Signal::INT, Signal::TERM]);
        assert_eq!(events.ending(), Some(Signal::INT.as_raw()));
        assert_eq!(events.ending(), Some(Signal::TERM.as_raw()));
        assert_eq!(events.ending(), None);
    }

    #[test]
    fn drops_repeats_and_keeps_the_order_of_others() {
        let (_sender, events) = events(&[Signal::TERM, Signal::INT, Signal::TERM, Signal::USR1]);
        events.drop_repeats(Signal::TERM.as_raw());
        let next = || events.next(Some(Instant::now())).map(|received| received.signal);
        assert_eq!(next(), Ok(Signal::INT.as_raw()));
        assert_eq!(next(), Ok(Signal::USR1.as_raw()));
        assert_eq!(next(), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn ending_signal_ends_all_pauses_unless_it_came_with_the_end() {
        const LONG: Duration = Duration::from_secs(3600);
        let (_sender, late) = events(&[Signal::USR1, Signal::TERM]);
        let mut pauses = Pauses::begin(Some(&late));
        pauses.ended = Instant::now() - Duration::from_secs(1);
        assert!(!pauses.pause(LONG));
        assert!(!pauses.pause(LONG));
        let (_sender, early) = events(&[Signal::TERM]);
        let mut pauses = Pauses::begin(Some(&early));
        pauses.ended = Instant::now() + Duration::from_secs(3600);
        assert!(pauses.pause(Duration::ZERO));
        assert!(pauses.pause(Duration::from_millis(1)));
    }

    #[test]
    fn pauses_without_signals() {
        let mut pauses = Pauses::begin(None);
        assert!(pauses.pause(Duration::from_millis(1)));
        let (sender, events) = events(&[]);
        drop(sender);
        assert!(Pauses::begin(Some(&events)).pause(Duration::from_millis(1)));
    }

    fn received(signal: Signal, sender: Option<i32>) -> ReceivedSignal {
        ReceivedSignal { signal: signal.as_raw(), sender }
    }

    #[test]
    fn passes_on_what_the_command_would_not_get() {
        let [kernel, other] = [None, Some(11)];
        for (signal, sender, is_passed_on) in [
            (Signal::INT, kernel, false),
            (Signal::INT, other, true),
            (Signal::TERM, other, true),
            (Signal::USR1, other, true),
            (Signal::WINCH, kernel, false),
            (Signal::WINCH, other, true),
            (Signal::QUIT, kernel, false),
            (Signal::ALARM, kernel, true),
            (Signal::CHILD, other, false),
        ] {
            let is_match = |forwarding: Forwarding| {
                let passed_on = forwarding.signal(received(signal, sender), false);
                assert!(passed_on.is_none_or(|passed_on| passed_on == signal));
                passed_on.is_some()
            };
            let found = [Forwarding::Needed, Forwarding::All, Forwarding::Off].map(is_match);
            let expected = [is_passed_on, is_passed_on, false];
            assert_eq!(found, expected, "{signal:?} {sender:?}");
        }
    }

    #[test]
    fn passes_on_the_end_of_the_terminal_that_the_leader_alone_sees() {
        let hang_up = received(Signal::HUP, None);
        let signal = |leads_session| Forwarding::Needed.signal(hang_up, leads_session);
        assert_eq!(signal(true), Some(Signal::HUP));
        assert_eq!(signal(false), None, "the kernel signals the whole group");
        let off = Forwarding::Off.signal(hang_up, true);
        assert_eq!(off, None);
    }

    #[test]
    fn finds_process_and_session() {
        let numbers_of = |process, session| Some(ProcessIds { process, session });
        assert_eq!(numbers("17 (a) b) S 4 5 6 0 -1"), numbers_of(17, 6));
        assert_eq!(numbers("17 (a) S 4 5"), None);
        assert_eq!(numbers("17"), None);
    }
}
