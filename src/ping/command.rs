//! `ping`: whether the NICs of other hosts answer, and how fast (docs/manual/ping.md).

use std::ffi::OsString;

use crate::document::{Ping, PingPair};
use crate::options::{self, PingRequest};
use crate::text;
use cli::output;
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::host::host_name;
use facts::interrupt;
use node::backend;
use node::machine::Machine;
use page::destination::Place;
use page::documents::Documents;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, and operations without an answer.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(request) = output::or_refusal(&arguments, options::parse(&arguments))? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let devices = output::or_failure(&documents, devices(&request))?;
    output::or_failure(&documents, interrupt::watch())?;
    let mut report = Ping::new(pairs(&request, &devices));
    let has_text = !request.is_quiet && request.json != Some(Place::Stdout);
    let ended = request.run(&mut report, has_text);
    // Ctrl-C is the regular end, as of ping(8).
    if let Err(failure) = ended
        && failure.kind != Kind::Interrupted
    {
        return output::or_failure(&documents, Err(failure));
    }
    report.end();
    output::write(&documents, &report, false, text::summary)?;
    report.result()
}

/// Returns the NICs of this machine to use.
fn devices(request: &PingRequest) -> Result<Vec<DeviceName>, Failure> {
    if !request.all_nics {
        backend::check(request.device)?;
        return Ok(vec![request.device]);
    }
    let (found, failure) = backend::devices(&[], None, &Machine::this());
    if let Some(failure) = failure {
        return Err(failure);
    }
    let names: Vec<DeviceName> = found.iter().map(|found| found.name).collect();
    let hardware: Vec<DeviceName> =
        names.iter().copied().filter(|name| name.platform().is_listed).collect();
    Ok(if hardware.is_empty() { names } else { hardware })
}

fn pairs(request: &PingRequest, devices: &[DeviceName]) -> Vec<PingPair> {
    let own = [host_name()];
    let hosts = if request.hosts.is_empty() { &own[..] } else { &request.hosts };
    let pairs =
        hosts.iter().flat_map(|host| devices.iter().map(|device| PingPair::new(host, *device)));
    pairs.collect()
}
