//! What clients may ask for: the limits of the server, and the NICs of the machine; and what the
//! server prints about it at its start.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;

use super::log::{Log, Priority};
use facts::device::DeviceName;
use facts::number::{bytes_within, time, time_text, within};
use node::backend;
use node::machine::Machine;
use plan::Plan;
use session::LISTENING;
use session::control_line::Ready;

/// Bounds of `--max-run`: at most a week.
const RUNS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);

/// What clients may ask for.
#[derive(Clone, Copy, Debug, Args)]
pub struct ClientLimits {
    /// Largest number of clients, including those that wait
    ///
    /// Further clients are refused. One host has half of them at most, and 8 in any case.
    #[arg(long = "max-clients", value_name = "COUNT", default_value = "64")]
    #[arg(value_parser = |typed: &str| within(typed, 1..=1024).map(|count| count as usize))]
    pub clients: usize,

    /// Longest run, such as 90s or 10m
    ///
    /// A client that asks for a longer duration is refused. A run with a duration is ended 10 s
    /// after this time, any other one at this time. TIME is in seconds without a unit.
    #[arg(long = "max-run", value_name = "TIME", default_value = "60m")]
    #[arg(value_parser = |typed: &str| time(typed, RUNS))]
    pub run: Duration,

    /// Most memory for the buffers of all runs
    ///
    /// A run that needs more is refused; one that needs more than the others leave waits for them.
    /// Queues and threads take some more. SIZE is in bytes, or has one of the units K, M and G.
    #[arg(long = "max-buffers", value_name = "SIZE", default_value = "4GiB")]
    #[arg(value_parser = |typed: &str| bytes_within(typed, 4096..=1 << 50))]
    pub buffers: u64,

    /// Take part in the surveys of all hosts that reach the port
    ///
    /// Neither --token nor --allow need say who these hosts are. A coordinator of
    /// cxidiag-survey(1) chooses with which NICs, of any host, a process of this server measures.
    #[arg(long = "allow-survey")]
    pub surveys: bool,

    /// The token was made by this process, which prints it.
    #[arg(skip)]
    pub shows_token: bool,
}

impl ClientLimits {
    /// Returns why a client may not run, if its run needs more than the limits.
    pub fn excess(&self, ready: &Ready) -> Option<String> {
        let asked = Duration::from_millis(ready.asked_ms.unwrap_or_default());
        if ready.buffer_bytes > self.buffers {
            let (needed, most) = (mebibytes(ready.buffer_bytes), mebibytes(self.buffers));
            Some(format!(
                "the run needs buffers of {needed} here; --max-buffers of the server is {most}"
            ))
        } else if asked > self.run {
            let (asked, run) = (time_text(asked), time_text(self.run));
            Some(format!("the run takes {asked}; --max-run of the server is {run}"))
        } else {
            None
        }
    }
}

/// A size for messages.
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Returns why clients cannot measure with `device`, if they cannot; `own` is the NIC that they get
/// by default. A NIC of software exists once it is opened.
pub fn lacks(device: DeviceName, own: DeviceName) -> Option<String> {
    if device == own {
        return None;
    }
    if device.kind != own.kind {
        return Some(format!("this server has no {device}: it measures with NICs such as {own}"));
    }
    if !device.platform().is_listed {
        return None;
    }
    let names = Machine::this().cxi_devices();
    let exists = names.contains(&device.to_string());
    (!exists).then(|| format!("this machine has no {device}; its NICs are {}", names.join(" ")))
}

/// Bits of a token that nobody can guess from its proofs.
const ENOUGH_BITS: u32 = 80;

/// Prints where a server with this `plan` listens and whom it serves; `is_open` if it has no
/// allowed networks.
pub fn print(log: &Log, plan: &Plan, port: u16, is_open: bool, limits: ClientLimits) {
    log.line(
        Priority::Info,
        format!(
            "{LISTENING}{port} for clients of all tools; NIC without --peer-device: {}",
            plan.device
        ),
    );
    if is_open {
        let served = match plan.admission.token {
            None if limits.surveys => {
                "everybody who reaches the port is served (see --allow, --token and --bind)"
            }
            None => {
                "everybody who reaches the port is served, but surveys of other hosts are not (see \
                 --allow, --token, --bind and --allow-survey)"
            }
            Some(_) => {
                "everybody who has the token is served; a token does not stop attackers (see \
                 --allow and --bind)"
            }
        };
        log.line(Priority::Info, served);
    }
    if let Some(token) = &plan.admission.token {
        if limits.shows_token {
            let text = token.text().to_string_lossy();
            log.line(Priority::Info, format!("token for clients, in CXIDIAG_TOKEN: {text}"));
        }
        if token.bits() < ENOUGH_BITS {
            let line = format!(
                "the token can be guessed from what passes on the network: it has at most {} bits, \
                 and {ENOUGH_BITS} are enough (--token=auto makes such a token)",
                token.bits()
            );
            log.line(Priority::Warning, line);
        }
    }
    if let Some(problem) = problem(plan) {
        let device = plan.device;
        let line = format!("clients cannot measure with {device} at present: {problem}");
        log.line(Priority::Warning, line);
    }
}

/// Returns why no client can measure with the default NIC, if it is seen at once.
fn problem(plan: &Plan) -> Option<String> {
    match backend::open(plan.device, plan.libcxi.as_ref()) {
        Ok(device) if device.info().is_link_down() => Some("its link is down".into()),
        Ok(_) => None,
        Err(failure) => Some(failure.message()),
    }
}
