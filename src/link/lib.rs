//! `link`: the links of NICs, and what their counters do (docs/link.md).
//!
//! <!-- From tests/tidy/houses.rs: src/link -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  2 | lib        arguments -> document and text                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | cxi_stat   HPE's cxi_stat: its options, its course and its text                           |
//!    | text       the links of NICs as text                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document   the links of NICs and what their counters did, as data and as JSON             |
//!    | options    what `link` takes                                                              |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod cxi_stat;
pub mod document;
pub mod options;
pub mod text;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

pub use self::options::usage;
use check::document::Check;
use cli::output;
use document::{CountedNic, LinkReport};
use facts::error::Failure;
use facts::interrupt;
use facts::time_of_day::Clocks;
use node::machine::Machine;
use node::{backend, reading};
use options::{ChosenNics, LinkRequest, WINDOW, chosen};
use page::documents::{Documents, Places};
use page::page::style_of_stdout;
use page::progress_line::has_cursor;

/// What clears a terminal and puts the cursor to its beginning.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, a link that is bad or cannot be read.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = options::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let machine = Machine::this();
    let ready = chosen(&request.devices, &machine).and_then(|found| {
        found.devices.iter().try_for_each(|device| backend::check(*device))?;
        interrupt::watch()?;
        Ok(found)
    });
    let found = output::or_early_failure(request.json.as_ref(), ready)?;
    reading::limit_waits();
    let documents = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(check::metrics::SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), documents)?;
    if request.watch.is_some() {
        interrupt::end_when_stopped();
    }
    let outcome = show(&request, &found, &machine, &documents);
    let report = output::or_failure(&documents, outcome)?;
    report.result(!documents.has_stdout())
}

/// Shows the links once, or again and again. Returns the last report whose window was not cut
/// short.
///
/// # Errors
///
/// An interruption, and what cannot be written.
fn show(
    request: &LinkRequest,
    found: &ChosenNics,
    machine: &Machine,
    documents: &Documents,
) -> Result<LinkReport, Failure> {
    let read = || -> Vec<CountedNic> {
        found.devices.iter().map(|device| CountedNic::read(*device, machine)).collect()
    };
    let mut began = Clocks::now();
    let mut before = read();
    let mut window = request.rates.unwrap_or(WINDOW);
    let mut last = None;
    loop {
        let latest = if request.is_quick {
            None
        } else {
            wait(window)?;
            // A shorter window could miss errors.
            if interrupt::is_stopped()
                && let Some(report) = last
            {
                return Ok(report);
            }
            Some(read())
        };
        // A file without an answer is not the reason then.
        interrupt::check()?;
        let after = latest.as_ref().unwrap_or(&before);
        let links = before.iter().zip(after);
        let links = links.map(|(before, after)| before.until(after, request, machine));
        let (mut examined, links): (Vec<_>, Vec<_>) = links.unzip();
        check::name_unreadable(&mut [], &mut examined, machine);
        let mut check = Check::new([began, Clocks::now()], Vec::new(), examined);
        if found.is_without_hardware {
            check = check.without_hardware();
        }
        let report = LinkReport::new(check, links);
        print(&report, request, documents)?;
        let interval = request.watch.filter(|_| !interrupt::is_stopped());
        let (Some(interval), Some(latest)) = (interval, latest) else {
            documents.write_json(&report)?;
            return Ok(report);
        };
        (before, window) = (latest, interval);
        began = Clocks::now();
        last = Some(report);
        reading::begin();
    }
}

/// Waits until the window is over, or until the user stops it.
///
/// # Errors
///
/// An interruption.
fn wait(window: Duration) -> Result<(), Failure> {
    /// Interval at which a wait looks for the user's signal.
    const SLICE: Duration = Duration::from_millis(50);
    let end = Instant::now() + window;
    while !interrupt::is_stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        interrupt::wait_for_any(&mut Vec::new(), Some(left.min(SLICE)))?;
    }
    Ok(())
}

/// Prints a report, and writes its metrics.
fn print(report: &LinkReport, request: &LinkRequest, documents: &Documents) -> Result<(), Failure> {
    documents.write_metrics(|| document::families(report))?;
    let mut page = if request.is_quiet {
        text::verdict(report)
    } else {
        text::page(report, request.is_verbose, request.rates.is_some())
    };
    if request.watch.is_some() {
        if io::stdout().is_terminal() && has_cursor() {
            io::stdout().write_all(CLEAR.as_bytes()).map_err(interrupt::output_failed)?;
        } else {
            page.empty_line();
        }
    }
    documents.print_page(style_of_stdout(), &page)
}
