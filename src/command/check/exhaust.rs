//! `check --exhaust`: the list entries of a NIC run out (docs/check.md).

use std::time::{Instant, SystemTime};

use cxi::{Limit, RESOURCES, Service};

use super::examine::require;
use super::request::CheckRequest;
use crate::command::output;
use diag::run::exhaust::exhaust;
use facts::device::DeviceName;
use facts::error::Failure;
use node::backend;
use node::machine::Machine;
use node::nic::health::link;
use node::service::{ServiceOptions, ServiceRequest};
use report::documents::{Documents, Places};
use report::exhaust::{ExhaustReport, ListEntryLimits};

/// Name of the program in messages.
const PROGRAM: &str = "cxidiag check";

/// Lets the list entries of `device` run out, and prints the report.
///
/// # Errors
///
/// The NIC cannot be used, others share the list entries and `--yes` is not given, a new portal
/// gets fewer entries, or the run is interrupted.
pub fn run(request: &CheckRequest, device: DeviceName) -> Result<(), Failure> {
    let documents = Documents::open(&Places { json: request.json.clone(), ..Places::default() });
    let documents = output::or_early_failure(request.json.as_ref(), documents)?;
    let report = output::or_failure(&documents, report(request, device))?;
    let page = if request.is_quiet { ExhaustReport::headline } else { ExhaustReport::page };
    output::write(&documents, &report, page)?;
    documents.conclude(report.result())
}

fn report(request: &CheckRequest, device: DeviceName) -> Result<ExhaustReport, Failure> {
    let machine = Machine::this();
    require(device, &machine)?;
    let files = backend::files_of_counters(device, &machine, |_| false)?;
    if link::is_up(&files) == Some(false) {
        return Err(Failure::undecided(format!("{device}: the link is down")));
    }
    let (started, clock) = (SystemTime::now(), Instant::now());
    let limits = limits(device, request)?;
    if limits.is_shared && !request.yes {
        let message = format!(
            "{device}: others share the list entries of service {}, of which {} are reserved",
            limits.service, limits.reserved
        );
        let hint = "--yes takes them all the same, for some ten milliseconds, or up to 4 s if they \
                    do not come back";
        return Err(Failure::undecided(message).with_hint(hint));
    }
    let found = exhaust(PROGRAM, device, request.libcxi.clone())?;
    Ok(ExhaustReport::new(started, clock.elapsed(), device, limits, found))
}

/// Returns what the service of this user allows.
fn limits(name: DeviceName, request: &CheckRequest) -> Result<ListEntryLimits, Failure> {
    let device = backend::open(name, request.libcxi.as_ref())?;
    let service = ServiceRequest::from_environment(ServiceOptions::default(), name)?;
    let service = service.find(&device, name)?.value;
    let in_use = device.in_use(service.id).ok().flatten();
    Ok(list_entries(&service, in_use))
}

/// Returns the list entries of a service whose users hold these resources.
fn list_entries(service: &Service, in_use: Option<[Option<u16>; 8]>) -> ListEntryLimits {
    let place = RESOURCES.iter().position(|resource| *resource == "LE").unwrap_or_default();
    let limit = service.limited.then_some(service.limits[place]);
    let Limit { max, reserved } = limit.unwrap_or(Limit { max: u16::MAX, reserved: 0 });
    // Other users of the service hold other resources, too.
    let is_used = in_use.is_none_or(|counts| counts.iter().flatten().any(|count| *count > 0));
    ListEntryLimits {
        service: service.id,
        reserved,
        maximum: limit.map(|limit| limit.max),
        is_shared: reserved < max || is_used,
    }
}
