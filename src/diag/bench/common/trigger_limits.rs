//! Whether a service has the triggered operations that a chain needs.

use cxi::RESOURCES;
use cxi::sys::C_NUM_TLES;

use crate::bench::api::Peer;
use crate::endpoint::Endpoint;
use facts::error::Failure;
use plan::extensions::Extensions;
use plan::run_options::RunOptions;

/// Triggered operations of a side beside the puts of its hops: the event of the last hop, and the
/// message to the peer, until the NIC has launched it.
const FURTHER_OPERATIONS: u32 = 2;

/// Checks that the service has the triggered operations of a chain. What a NIC without any does is
/// not known (nic.md 9.3): probably its trigger queue stalls (libcxi.md 8.4).
///
/// # Errors
///
/// More hops than the service has triggered operations for.
pub fn check(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<(), Failure> {
    let device = endpoint.device();
    let svc_id = endpoint.access().svc_id.value;
    // The limits of a library that reads no services are not known.
    let Ok(service) = device.service(svc_id) else {
        return Ok(());
    };
    let Some(place) = RESOURCES.iter().position(|name| *name == "TLE") else {
        return Ok(());
    };
    let most = if service.limited { service.limits[place].max.into() } else { C_NUM_TLES };
    let counts = device.in_use(svc_id).ok().flatten();
    let in_use = counts.and_then(|counts| counts[place]).unwrap_or(0);
    let available = most.saturating_sub(in_use.into());
    // One NIC is both sides, which share the operations of the service.
    let is_shared = peer.address.nic == endpoint.address().address.nic;
    let sides = if is_shared { 2 } else { 1 };
    let Extensions { hops, fan, .. } = run.extensions;
    let (option, puts, needed, possible) = if fan > 0 {
        // The client has the event of the first arrival, and the put that starts.
        let others = FURTHER_OPERATIONS + if is_shared { FURTHER_OPERATIONS + 2 } else { 0 };
        ("fan", fan, u32::from(fan) + others, available.saturating_sub(others))
    } else {
        let needed = sides * (u32::from(hops) / 2 + FURTHER_OPERATIONS);
        ("hops", hops, needed, 2 * (available / sides).saturating_sub(FURTHER_OPERATIONS))
    };
    if needed <= available {
        return Ok(());
    }
    let name = &device.info().name;
    let whose = if is_shared { "both sides on one NIC need" } else { "each side needs" };
    Err(Failure::environment(format!(
        "--{option}={puts}: {whose} {needed} triggered operations, and service {svc_id} of {name} \
         has {available} available"
    ))
    .with_hint(if possible >= 2 {
        format!("at most --{option}={possible} is possible here")
    } else {
        "end the other users of the service, or use one with more TLEs (--svc-id)".into()
    }))
}
