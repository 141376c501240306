//! A member on a host without a launcher: a process of `cxidiag serve`, which a coordinator on
//! another host has invited.

use std::net::SocketAddr;

use ipnet::IpNet;

use super::member::{self, Grant, ProcessIdentity};
use super::request::SurveyRequest;
use cluster::meeting_point::Coordinator;
use cluster::tree::{Bounds, JOIN_LIMIT};
use diag::run::served::{LOST, Taken, next, take_client};
use diag::run::survey::NicPlan;
use diag::session::Caller;
use diag::session::control_line::{Called, ControlLine, Order, Ready, ServerReach};
use diag::session::invitation::Invitation;
use facts::device::DeviceName;
use facts::error::{Context, Failure};
use facts::token::Token;
use plan::tools::TOOLS;

/// Joins the survey of the client of this process, when it is the client's turn. `own` has the NIC
/// of the server, with which the process measures if the coordinator names none and the NIC is a
/// software NIC.
///
/// # Errors
///
/// A coordinator that ends or refuses this process, and an interruption.
pub fn run(own: SurveyRequest) -> Result<(), Failure> {
    let Taken { mut line, peer, server, caller } = take_client()?;
    let invitation = caller.invitation()?;
    let accepted = Accepted::check(&invitation, own, &server, peer);
    let accepted = accepted.map_err(|failure| caller.refuse(failure))?;
    caller.accept_invitation()?;
    let Accepted { plans, buffer_bytes, parents, token } = accepted;
    line.send(&Ready {
        devices: plans.iter().map(|plan| plan.device).collect(),
        buffer_bytes,
        asked_ms: None,
    })
    .environment(LOST)?;
    wait_for_turn(&mut line, &caller)?;
    let coordinator = Coordinator {
        host: peer.ip().to_string(),
        addresses: vec![(peer.ip(), invitation.port).into()],
        token,
    };
    let grant = Grant {
        bounds: Bounds { parents: Some(parents), bind: server.bind },
        buffer_bytes: Some(buffer_bytes),
    };
    let identity = ProcessIdentity::new(invitation.rank, invitation.size, None);
    member::run(plans, identity, JOIN_LIMIT, &grant, |_| Ok(coordinator.clone()))
}

/// What a process does for its coordinator.
struct Accepted {
    plans: Vec<NicPlan>,
    buffer_bytes: u64,
    /// The networks of the hosts of the survey.
    parents: Vec<IpNet>,
    token: Token,
}

impl Accepted {
    /// Returns what an invitation of the coordinator `peer` asks for, if the server permits it.
    fn check(
        invitation: &Invitation,
        own: SurveyRequest,
        server: &ServerReach,
        peer: SocketAddr,
    ) -> Result<Self, Failure> {
        let mut parents = networks(&invitation.hosts)?;
        check_hosts(&parents, &networks(&server.allowed)?)?;
        // Processes on the host of the coordinator are found at its address.
        parents.push(peer.ip().to_canonical().into());
        let plans = plans(&invitation.devices, &invitation.service, own)?;
        let tests = invitation.tests.iter();
        let tests = member::tests(tests.map(|(tool, arguments)| (tool.as_str(), arguments)))?;
        let token = invitation.token.as_ref().and_then(|text| Token::new(text.as_ref()));
        let token = token.or_else(Token::from_environment);
        let no_token = || Failure::environment("the coordinator has sent no token");
        Ok(Self {
            buffer_bytes: member::needed_bytes(&tests, plans.len()),
            plans,
            parents,
            token: token.ok_or_else(no_token)?,
        })
    }
}

/// Returns the networks with these names.
fn networks(names: &[String]) -> Result<Vec<IpNet>, Failure> {
    let parsed = names.iter().map(|name| name.parse()).collect::<Result<_, _>>();
    parsed.map_err(|_| Failure::environment("the coordinator has sent an invalid network"))
}

/// Checks that the server may connect to all `hosts`, where its clients are `allowed`.
fn check_hosts(hosts: &[IpNet], allowed: &[IpNet]) -> Result<(), Failure> {
    // Of the networks that cover the same addresses, these are the largest.
    let largest = IpNet::aggregate(&allowed.to_vec());
    let is_allowed = |host: &&IpNet| largest.iter().any(|network| network.contains(*host));
    match hosts.iter().find(|host| !is_allowed(host)) {
        Some(host) if !allowed.is_empty() => Err(Failure::environment(format!(
            "--allow of the server does not list {host}, which the survey includes"
        ))),
        _ => Ok(()),
    }
}

/// Returns how the NICs are opened: the NICs that the coordinator names, or the NIC of the server
/// if it is a software NIC, or all hardware NICs. The server, not the coordinator, chooses
/// libraries and files.
fn plans(
    devices: &[String],
    service: &[String],
    own: SurveyRequest,
) -> Result<Vec<NicPlan>, Failure> {
    let allowed = ["--svc-id=", "--vni=", "--traffic-class="];
    let is_allowed = |option: &String| allowed.iter().any(|start| option.starts_with(start));
    if let Some(option) = service.iter().find(|option| !is_allowed(option)) {
        let message = format!("the coordinator may not choose '{option}'");
        return Err(Failure::environment(message));
    }
    let named = devices.iter().map(|name| name.parse()).collect::<Result<Vec<DeviceName>, _>>();
    let named = named.map_err(|why| Failure::environment(format!("invalid device: {why}")))?;
    let devices = match named.as_slice() {
        [] if own.devices.iter().any(is_software) => own.devices,
        _ => named,
    };
    member::plans(devices, &TOOLS[0], service)
}

fn is_software(device: &DeviceName) -> bool {
    device.platform().is_simulated
}

/// Waits until other clients of the NICs have measured, or the coordinator ends.
fn wait_for_turn(line: &mut ControlLine, caller: &Caller) -> Result<(), Failure> {
    loop {
        match next(line, |line| caller.wait_beside(line))? {
            Order::Begin => {
                caller.send_place(0)?;
                return line.send(&Called::Answered).environment(LOST);
            }
            Order::Refuse(reason) => return Err(caller.refuse(Failure::environment(reason))),
            Order::Place(place) => caller.send_place(place)?,
            Order::Serve { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_the_survey_are_allowed_networks() {
        let named = |names: &str| {
            let names = names.split_whitespace().map(str::to_owned);
            networks(&names.collect::<Vec<_>>()).unwrap()
        };
        for (allowed, hosts, refused) in [
            ("", "10.1.0.1/32 192.168.1.7/32", None),
            ("10.1.0.0/16", "10.1.0.0/30 10.1.9.9/32", None),
            // Neither alone, but both together.
            ("10.1.0.2/32 10.1.0.3/32", "10.1.0.2/31", None),
            ("10.1.0.0/16", "10.1.0.0/30 10.2.0.1/32", Some("10.2.0.1/32")),
            ("10.1.0.0/16", "0.0.0.0/0", Some("0.0.0.0/0")),
            ("10.1.0.0/16", "fe80::1/128", Some("fe80::1/128")),
        ] {
            let checked = check_hosts(&named(hosts), &named(allowed));
            let failure = checked.err().map(|failure| failure.message());
            let expected = refused.map(|host| {
                format!("--allow of the server does not list {host}, which the survey includes")
            });
            assert_eq!(failure, expected, "{allowed}: {hosts}");
        }
    }
}
