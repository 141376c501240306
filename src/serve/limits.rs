//! What clients may ask for: the limits of the server, and the NICs of the machine.

use std::time::Duration;

use facts::device::DeviceName;
use facts::number::time_text;
use node::machine::Machine;
use session::control_line::Ready;

/// What clients may ask for.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Clients at a time, those that wait included.
    pub clients: usize,
    /// Length of a run.
    pub run: Duration,
    /// Bytes of the buffers of all runs.
    pub buffers: u64,
    /// Coordinators of surveys may be on any host, also without a token and allowed networks.
    pub surveys: bool,
    /// The token was made by this process, which prints it.
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
