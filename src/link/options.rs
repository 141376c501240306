//! What `link` takes, and the NICs to show: those that the user names, or all.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Command};

use cli::arguments::{self, TypedArguments};
use cli::derived;
use cli::output::{self, MetricsRequest};
use cli::usage::{Completion, Usage};
use facts::device::DeviceName;
use facts::error::Failure;
use node::backend;
use node::machine::Machine;
use page::destination::Place;

/// How long errors are counted for the table, unless the user names a time.
pub const WINDOW: Duration = Duration::from_secs(1);

/// Bounds of `--rates` and `--watch`.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag link".into(),
        about: "Show the links of NICs: state, health, errors",
        synopsis: vec![("cxidiag link [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, all\n\
                          NICs of this machine are shown, one to a line.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Exit status: 0 no link is bad, 3 a link is bad or a NIC is missing, 4 a link\n\
             could not be read or the machine has no NIC, 1 the command itself failed,\n\
             2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<LinkRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
pub struct LinkRequest {
    #[arg(short, long = "device", help = arguments::DEVICES, value_name = "DEV,...", value_delimiter = ',')]
    #[arg(add = Completion::Devices)]
    pub devices: Vec<DeviceName>,

    /// Print a block for each NIC: all items, with their limits and sources
    #[arg(long = "verbose")]
    pub is_verbose: bool,

    /// Read files once, and count no errors
    #[arg(long = "quick")]
    pub is_quick: bool,

    /// Show rates of code words and pauses, counted on all NICs at the same time (default: 4s)
    ///
    /// Without this option, errors are counted for 1s.
    // The default is as in cxi_stat.
    #[arg(long, value_name = "TIME", require_equals = true)]
    #[arg(value_parser = derived::time_or("4s", TIMES))]
    pub rates: Option<Duration>,

    /// Show the links again and again, until Ctrl-C (default: 2s)
    #[arg(long, value_name = "TIME", require_equals = true)]
    #[arg(value_parser = derived::time_or("2s", TIMES))]
    pub watch: Option<Duration>,

    #[arg(long = "link-speed", help = check::LINK_SPEED, value_name = "GBPS")]
    #[arg(value_parser = check::gigabits)]
    pub link_gigabits: Option<f64>,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    pub is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    #[command(flatten)]
    pub metrics: MetricsRequest,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<LinkRequest>, Failure> {
    let typed = TypedArguments::<LinkRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { mut request, words, .. }) = typed else { return Ok(None) };
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

/// The NICs to show.
pub struct ChosenNics {
    pub devices: Vec<DeviceName>,
    /// They are software NICs because the machine shows no hardware.
    pub is_without_hardware: bool,
}

/// The NICs to show: those that the user names, else all hardware. A machine without hardware has
/// software NICs; the user has chosen them if a variable says how many there are.
///
/// # Errors
///
/// Invalid variables of software NICs.
pub fn chosen(named: &[DeviceName], machine: &Machine) -> Result<ChosenNics, Failure> {
    let devices = if named.is_empty() { machine.nics() } else { named.to_vec() };
    if !devices.is_empty() {
        return Ok(ChosenNics { devices, is_without_hardware: false });
    }
    backend::check(DeviceName::software(0))?;
    let is_without_hardware = !backend::has_chosen_software();
    Ok(ChosenNics { devices: backend::software(), is_without_hardware })
}
