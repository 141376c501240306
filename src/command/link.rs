//! `link`: shows the links of NICs, their health and their rates (docs/link.md). Under the name
//! `cxi_stat` it is that program of HPE.
//!
//! * `usage`: what the command takes. `counted`: the counters of a NIC at two moments.
//! * `cxi_stat`: the program of HPE.

mod counted;
pub mod cxi_stat;
mod usage;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use self::counted::Counted;
pub use self::usage::usage;
use self::usage::{LinkRequest, WINDOW};
use super::check;
use cli::output;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::time_of_day::Clocks;
use node::machine::Machine;
use node::{backend, reading};
use page::documents::{Documents, Places};
use page::page::style_of_stdout;
use page::progress_line::has_cursor;
use report::check::Check;
use report::link::LinkReport;
use report::{check_metrics, link_metrics, link_text};

/// What clears a terminal and puts the cursor to its beginning.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, a link that is bad or cannot be read.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = usage::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let machine = Machine::this();
    let ready = devices(&request.devices, &machine).and_then(|found| {
        found.devices.iter().try_for_each(|device| backend::check(*device))?;
        interrupt::watch()?;
        Ok(found)
    });
    let found = output::or_early_failure(request.json.as_ref(), ready)?;
    reading::limit_waits();
    let documents = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(check_metrics::SERIES)?,
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

/// The NICs to show.
struct ChosenNics {
    devices: Vec<DeviceName>,
    /// They are software NICs because the machine shows no hardware.
    is_without_hardware: bool,
}

/// Returns the NICs to show: those that the user names, else all hardware. A machine without
/// hardware has software NICs; the user has chosen them if a variable says how many there are.
///
/// # Errors
///
/// Invalid variables of software NICs.
fn devices(named: &[DeviceName], machine: &Machine) -> Result<ChosenNics, Failure> {
    let names = machine.cxi_devices();
    let mut devices: Vec<DeviceName> = match named {
        [] => names.iter().filter_map(|name| name.parse().ok()).collect(),
        named => return Ok(ChosenNics { devices: named.to_vec(), is_without_hardware: false }),
    };
    devices.sort_by_key(|device| device.index);
    if !devices.is_empty() {
        return Ok(ChosenNics { devices, is_without_hardware: false });
    }
    backend::check(DeviceName::software(0))?;
    let is_without_hardware = !backend::has_chosen_software();
    Ok(ChosenNics { devices: backend::software(), is_without_hardware })
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
    let read = || -> Vec<Counted> {
        found.devices.iter().map(|device| Counted::read(*device, machine)).collect()
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
    documents.write_metrics(|| link_metrics::families(report))?;
    let mut page = if request.is_quiet {
        link_text::verdict(report)
    } else {
        link_text::page(report, request.is_verbose, request.rates.is_some())
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
