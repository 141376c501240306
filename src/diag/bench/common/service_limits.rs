//! Whether a service has the triggered operations and the list entries that a run takes.

use cxi::{LIST_ENTRIES, ResourceLimit, TRIGGERED};

use crate::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::Failure;
use plan::extensions::Extensions;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;

/// Triggered operations of a side beside the puts of its hops: the event of the last hop, and the
/// message to the peer, until the NIC has launched it.
const FURTHER_OPERATIONS: u32 = 2;

/// Triggered operations that each service has, at least (libcxi.md 3.3).
const LEAST_TRIGGERED: u32 = 8;

/// A run takes at most this part of what a service may have beyond its reservation: others need
/// the rest.
const SHARED_PART: u32 = 4;

/// Checks that the service has what `side` of a run takes, before anything is taken.
///
/// # Errors
///
/// The option that asks for more, with what is possible.
pub fn check(
    endpoint: &Endpoint,
    peer: FabricAddress,
    tool: &Tool,
    run: &RunOptions,
    side: Side,
) -> Result<(), Failure> {
    check_entries(endpoint, peer, run)?;
    check_triggered(endpoint, peer, tool, run, side)
}

/// `wanted` hops, or as many as the service has triggered operations for, but no fewer than two.
/// With `is_shared` one NIC is both sides.
pub fn fitting_hops(endpoint: &Endpoint, is_shared: bool, wanted: u16) -> u16 {
    let available = share(endpoint, TRIGGERED).map(|(limit, in_use)| available(limit, in_use));
    let possible = available.map(|available| most_hops(available, is_shared) as u16);
    possible.map_or(wanted, |possible| possible.clamp(2, wanted.max(2)))
}

/// The limit of the service, and what its users hold as far as the driver knows; `None` if the
/// library reads no services.
fn share(endpoint: &Endpoint, place: usize) -> Option<(ResourceLimit, u16)> {
    let (device, svc_id) = (endpoint.device(), endpoint.access().svc_id.value);
    let service = device.service(svc_id).ok()?;
    if place == TRIGGERED {
        let (limit, in_use) = device.triggered(&service).ok()?;
        return Some((limit, in_use.unwrap_or(0)));
    }
    let counts = device.in_use(svc_id).ok().flatten();
    Some((service.limit(place), counts.and_then(|counts| counts[place]).unwrap_or(0)))
}

fn available(limit: ResourceLimit, in_use: u16) -> u32 {
    limit.max.saturating_sub(in_use).into()
}

fn most_hops(available: u32, is_shared: bool) -> u32 {
    let each = if is_shared { available / 2 } else { available };
    2 * each.saturating_sub(FURTHER_OPERATIONS)
}

fn is_shared(endpoint: &Endpoint, peer: FabricAddress) -> bool {
    peer.nic == endpoint.address().address.nic
}

/// What a NIC without a triggered operation does is not known (nic.md 9.3): probably its trigger
/// queue stalls (libcxi.md 8.4), and what waits for it would wait for ever.
fn check_triggered(
    endpoint: &Endpoint,
    peer: FabricAddress,
    tool: &Tool,
    run: &RunOptions,
    side: Side,
) -> Result<(), Failure> {
    let is_shared = is_shared(endpoint, peer);
    let Extensions { hops, fan, pairs, .. } = run.extensions;
    let issues = if is_shared { run.issues(side) || run.is_target(side) } else { run.issues(side) };
    // Each list has an event, and of messages each side has one more or two.
    let pair_needs = match run.lists {
        Some(_) if tool.sends() => (2 + u32::from(run.rdzv)) << u32::from(is_shared),
        Some(lists) => u32::from(issues) << u32::from(is_shared && lists.bidirectional),
        None => 0,
    };
    let (option, value, needed) = if fan > 0 {
        // The client has the event of the first arrival, and the put that starts.
        let others = FURTHER_OPERATIONS + if is_shared { FURTHER_OPERATIONS + 2 } else { 0 };
        ("fan", fan, u32::from(fan) + others)
    } else if hops > 0 {
        ("hops", hops, (u32::from(hops) / 2 + FURTHER_OPERATIONS) << u32::from(is_shared))
    } else {
        ("pairs", pairs, u32::from(pairs) * pair_needs)
    };
    if option == "pairs" && needed <= LEAST_TRIGGERED {
        return Ok(());
    }
    let Some((limit, in_use)) = share(endpoint, TRIGGERED) else {
        return Ok(());
    };
    let available = available(limit, in_use);
    if needed <= available {
        return Ok(());
    }
    let (least, possible) = match option {
        "fan" => (2, available.saturating_sub(needed - u32::from(fan))),
        "hops" => (2, most_hops(available, is_shared)),
        _ => (1, available / pair_needs),
    };
    let whose = whose(is_shared);
    let service = service_name(endpoint);
    let failure = Failure::environment(format!(
        "--{option}={value}: {whose} {needed} triggered operations, and {service} has {available} \
         available: {}",
        if possible < least { "too few".into() } else { format!("at most --{option}={possible}") }
    ));
    Err(failure.with_hint("a service with more triggered operations (TLEs): --svc-id"))
}

/// Checks that `--posted` and `--unexpected` leave most list entries to others. The portals of a
/// run may lie in one processing element (libcxi.md 8.3), whose entries the service limits.
fn check_entries(
    endpoint: &Endpoint,
    peer: FabricAddress,
    run: &RunOptions,
) -> Result<(), Failure> {
    let Extensions { posted, unexpected, pairs, .. } = run.extensions;
    let (option, depth) =
        if posted.is_used() { ("posted", posted.most) } else { ("unexpected", unexpected.most) };
    let Some((limit, in_use)) = (depth > 0).then(|| share(endpoint, LIST_ENTRIES)).flatten() else {
        return Ok(());
    };
    let is_shared = is_shared(endpoint, peer);
    let copies = u32::from(pairs) << u32::from(is_shared);
    let needed = copies * u32::from(depth);
    // The other side may have taken its part already.
    let others =
        if is_shared { u32::from(in_use).saturating_sub(needed / 2) } else { in_use.into() };
    let free = u32::from(limit.max).saturating_sub(others);
    let reserved = u32::from(limit.reserved).saturating_sub(others);
    let allowed = reserved.max(free / SHARED_PART);
    if needed <= allowed {
        return Ok(());
    }
    let (whose, service) = (whose(is_shared), service_name(endpoint));
    Err(Failure::environment(format!(
        "--{option}={depth}: {whose} {needed} list entries, and {allowed} are allowed: those that \
         {service} has reserved ({reserved}), or a quarter of the {free} that are free: at most \
         --{option}={}",
        allowed / copies
    )))
}

fn whose(is_shared: bool) -> &'static str {
    if is_shared { "both sides on one NIC need" } else { "each side needs" }
}

fn service_name(endpoint: &Endpoint) -> String {
    let svc_id = endpoint.access().svc_id.value;
    format!("service {svc_id} of {}", endpoint.device().info().name)
}
