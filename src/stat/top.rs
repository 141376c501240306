//! `stat --top`: what the NICs of this node do, once a second, in place on the terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::nics::RecordedNics;
use super::note::note;
use super::options::StatRequest;
use crate::job_findings::JobNic;
use crate::top_screen::screen;
use facts::error::{Context, Failure};
use facts::interrupt;
use node::machine::Machine;
use node::nic::counters::CounterChanges;
use page::progress_line::has_cursor;

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_secs(1);

/// The size of a terminal that does not say its own: lines and columns.
const USUAL_SIZE: (usize, usize) = (24, 80);

/// Other screen without a cursor, and back.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";

/// To the first line, and what deletes the rest of a line and of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

/// Shows the NICs until a key ends it.
///
/// # Errors
///
/// Standard input or output that is no terminal, no NIC that can be read, and an interruption.
pub fn run(request: &StatRequest) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let why = "--top needs a terminal for standard input and output";
        return Err(Failure::usage(why));
    }
    if !has_cursor() {
        let why = "--top needs a terminal that can erase lines (TERM=dumb)";
        return Err(Failure::usage(why));
    }
    interrupt::watch()?;
    let machine = Machine::this();
    let mut nics = RecordedNics::begin(&request.devices, &request.set, &machine);
    for line in nics.notes.drain(..) {
        note(&line);
    }
    if nics.is_empty() {
        return Err(Failure::environment("no NIC can be read"));
    }
    let terminal = Terminal::take()?;
    let (mut before, mut read_at) = (nics.read_again(&machine), Instant::now());
    terminal.show(&[], Duration::ZERO)?;
    while !is_ended_within(read_at + INTERVAL)? {
        let (after, now) = (nics.read_again(&machine), Instant::now());
        let changed = before.iter().zip(&after).map(|((facts, before), (_, after))| JobNic {
            name: facts.device.clone(),
            host: String::new(),
            changes: CounterChanges::between(facts.clone(), before, after),
        });
        terminal.show(&changed.collect::<Vec<_>>(), now - read_at)?;
        (before, read_at) = (after, now);
    }
    Ok(())
}

/// Waits until this time, or for the key `q` or the end of the input. Returns whether these came.
fn is_ended_within(until: Instant) -> Result<bool, Failure> {
    let mut stdin = io::stdin();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !interrupt::wait(&stdin, PollFlags::IN, Some(left))? {
            return Ok(false);
        }
        let mut keys = [0; 64];
        let count = stdin.read(&mut keys).environment("cannot read keys")?;
        if count == 0 || keys[..count].contains(&b'q') {
            return Ok(true);
        }
    }
}

/// The terminal, on another screen and without lines of input. Dropping it restores both.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn take() -> Result<Self, Failure> {
        const WHAT: &str = "cannot set up the terminal";
        let before = tcgetattr(io::stdin()).environment(WHAT)?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        let terminal = Self { before };
        tcsetattr(io::stdin(), OptionalActions::Now, &keys).environment(WHAT)?;
        terminal.write(BEGIN)?;
        Ok(terminal)
    }

    /// Shows what the NICs did within this time.
    fn show(&self, nics: &[JobNic], within: Duration) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) =
            size.map_or(USUAL_SIZE, |size| (size.ws_row.into(), size.ws_col.into()));
        // The cursor stays below the last line.
        let text = if nics.is_empty() {
            "reading the counters for a second (q ends)\n".to_owned()
        } else {
            screen(nics, within, rows - 1, columns)
        };
        let lines = text.replace('\n', &format!("{CLEAR_LINE}\r\n"));
        self.write(&format!("{HOME}{lines}{CLEAR_REST}"))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        written.and_then(|()| stdout.flush()).map_err(interrupt::output_failed)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = self.write(END);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
