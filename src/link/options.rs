//! What `link` takes.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::time::Duration;

use cli::definition::OptionDef;
use cli::output::MetricsRequest;
use cli::usage::{Completion, Usage, Value};
use cli::values::{LEFT_OUT, text};
use cli::{arguments, output};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::number::{time, time_text};
use node::machine::Machine;
use page::destination::Place;

/// How long errors are counted for the table, unless the user names a time.
pub const WINDOW: Duration = Duration::from_secs(1);

/// Bounds of `--rates` and `--watch`.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Defaults of `--rates`, as in cxi_stat, and of `--watch`.
const RATES: Duration = Duration::from_secs(4);
const WATCH: Duration = Duration::from_secs(2);

/// What the arguments ask for.
#[derive(Debug, Default)]
pub struct LinkRequest {
    pub devices: Vec<DeviceName>,
    pub is_verbose: bool,
    pub is_quick: bool,
    pub is_quiet: bool,
    /// How long counters are counted whose rates are shown.
    pub rates: Option<Duration>,
    /// The interval of further reports.
    pub watch: Option<Duration>,
    /// The speed that links must have.
    pub link_gigabits: Option<f64>,
    pub json: Option<Place>,
    pub metrics: MetricsRequest,
}

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag link".into(),
        about: "Show the links of NICs: state, health, errors",
        synopsis: vec![("cxidiag link [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, all\n\
                          NICs of this machine are shown, one to a line.",
        options: arguments::entries(options()),
        remarks: vec![
            "Exit status: 0 no link is bad, 3 a link is bad or a NIC is missing, 4 a link\n\
             could not be read or the machine has no NIC, 1 the command itself failed,\n\
             2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

fn options() -> Vec<OptionDef<LinkRequest>> {
    type Def = OptionDef<LinkRequest>;
    let mut options = vec![
        arguments::devices().within(|request: &mut LinkRequest| &mut request.devices),
        Def::switch("verbose", |request| request.is_verbose = true)
            .explained("Print a block for each NIC: all items, with their limits and sources"),
        Def::switch("quick", |request| request.is_quick = true)
            .explained("Read files once, and count no errors"),
        period("rates", RATES, |request, time| request.rates = Some(time)).explained(format!(
            "Show rates of code words and pauses, counted on all NICs at the same time (default: \
             {})\n\nWithout this option, errors are counted for {}.",
            time_text(RATES),
            time_text(WINDOW)
        )),
        period("watch", WATCH, |request, time| request.watch = Some(time)).explained(format!(
            "Show the links again and again, until Ctrl-C (default: {})",
            time_text(WATCH)
        )),
        check::link_speed().within(|request| &mut request.link_gigabits),
        output::quiet().within(|request: &mut LinkRequest| &mut request.is_quiet),
        output::json().within(|request| &mut request.json),
    ];
    let metrics = output::metrics();
    options.extend(
        metrics.map(|option| option.within(|request: &mut LinkRequest| &mut request.metrics)),
    );
    options
}

/// Returns an option with a time that may be omitted.
fn period(
    long: &'static str,
    default: Duration,
    set: fn(&mut LinkRequest, Duration),
) -> OptionDef<LinkRequest> {
    let value = Value::optional("TIME", Completion::Nothing);
    OptionDef::new(long, Some(value), move |request: &mut LinkRequest, typed: &OsStr| {
        let chosen = if typed == LEFT_OUT { default } else { time(text(typed)?, TIMES)? };
        set(request, chosen);
        Ok(())
    })
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<LinkRequest>, Failure> {
    let mut request = LinkRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    arguments::add_devices(&mut request.devices, words, arguments)?;
    let refused = |option: &str, other: &str, why: &str| {
        Err(Failure::usage(format!("--{option}: not allowed with --{other}, {why}")))
    };
    match (request.is_quick, request.rates, request.watch, &request.json) {
        (true, Some(_), _, _) => refused("quick", "rates", "which counts errors for a time"),
        (true, _, Some(_), _) => {
            refused("quick", "watch", "which counts errors from one report to the next")
        }
        (_, _, Some(_), Some(_)) => refused("json", "watch", "which has many reports"),
        _ => {
            let site = check::site_link_speed(&Machine::this())?;
            request.link_gigabits = request.link_gigabits.or(site);
            Ok(Some(request))
        }
    }
}
