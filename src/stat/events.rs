//! The signals of the leader, as a stream that its waits read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{io, thread};

use cxi::signals::{ReceivedSignal, Signals};

use super::forwarding;

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
        let mut signals = Signals::watch(&forwarding::watched())?;
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

    /// Returns the first ending signal that has arrived, if there is one. Drops the signals before
    /// it.
    pub fn ending(&self) -> Option<i32> {
        let mut signals = self.received.try_iter().map(|received| received.signal);
        signals.find(|signal| forwarding::is_ending(*signal))
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
                    self.is_over = is_later && forwarding::is_ending(received.signal);
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

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::process::Signal;

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
}
