//! Which signals the leader passes on to its command (monitoring.md 1.3).

use std::fs;

use cxi::signals::ReceivedSignal;
use facts::interrupt;
use rustix::process::Signal;

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

/// Returns the signals that the leader watches: those that it forwards and that were not ignored
/// when it started, and SIGCHLD.
pub fn watched() -> Vec<i32> {
    let ignored = interrupt::ignored();
    let signals = ENDING.into_iter().chain(OTHERS).map(Signal::as_raw);
    let active = signals.filter(|signal| ignored >> (signal - 1) & 1 == 0);
    active.chain([Signal::CHILD.as_raw()]).collect()
}

/// Returns whether a signal is one of those that end a program.
pub fn is_ending(signal: i32) -> bool {
    ENDING.into_iter().any(|ending| ending.as_raw() == signal)
}

/// Returns whether this process leads its session: then a terminal that is closed signals this
/// process alone. A session of another PID namespace is 0 here, which rustix's `getsid` does not
/// permit.
pub fn leads_session() -> bool {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    numbers(&status).is_some_and(|numbers| numbers.session == numbers.process)
}

impl Forwarding {
    /// Returns the signal to pass on for one that has arrived; `None` if the command gets none.
    /// What the kernel sends for a key of the terminal reaches the command anyway, and so does the
    /// end of the terminal unless this process `leads_session`.
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

/// Returns the numbers in a line such as `17 (name) S 1 16 15 ...`. The name may have any
/// characters.
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
    use super::*;

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
