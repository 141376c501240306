//! What clients may ask for: the limits of the server, and the NICs of the machine.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;

use facts::device::DeviceName;
use facts::number::{bytes_within, time, time_text, within};
use node::machine::Machine;
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

/// Returns a size for messages.
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
