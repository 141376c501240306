//! A member on a host without a launcher: a process of `cxidiag serve`, which a coordinator on
//! another host has invited.

use super::member::{self, MemberGrant, ProcessIdentity};
use super::request::SurveyRequest;
use crew::meeting_point::Coordinator;
use crew::star::JOIN_LIMIT;
use diag::run::serve::{LOST, Taken, next, take_client};
use facts::device::DeviceName;
use facts::error::{Context, Failure};
use facts::token::Token;
use members::nics::NicPlan;
use plan::tools::TOOLS;
use session::AcceptedClient;
use session::control_line::{Called, ControlLine, Ready, ServerOrder};
use session::requests::Invitation;

/// Joins the survey of the client of this process, when it is the client's turn. `own` has the NIC
/// of the server, with which the process measures if the coordinator names none and the NIC is a
/// software NIC.
///
/// # Errors
///
/// A coordinator that ends or refuses this process, and an interruption.
pub fn run(own: SurveyRequest) -> Result<(), Failure> {
    let Taken { mut line, peer, caller } = take_client()?;
    let invitation = caller.invitation()?;
    let accepted = AcceptedInvitation::check(&invitation, own);
    let accepted = accepted.map_err(|failure| caller.refuse(failure))?;
    caller.accept_invitation()?;
    let AcceptedInvitation { plans, buffer_bytes, token } = accepted;
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
    let grant = MemberGrant { buffer_bytes: Some(buffer_bytes) };
    let identity = ProcessIdentity::new(invitation.rank, invitation.size, None);
    member::run(plans, identity, JOIN_LIMIT, &grant, |_| Ok(coordinator.clone()))
}

/// What a process does for its coordinator.
struct AcceptedInvitation {
    plans: Vec<NicPlan>,
    buffer_bytes: u64,
    token: Token,
}

impl AcceptedInvitation {
    /// Returns what an invitation of a coordinator asks for, if the server permits it.
    fn check(invitation: &Invitation, own: SurveyRequest) -> Result<Self, Failure> {
        let plans = plans(&invitation.devices, &invitation.service, own)?;
        let tests = invitation.tests.iter();
        let tests = member::tests(tests.map(|(tool, arguments)| (tool.as_str(), arguments)))?;
        let token = invitation.token.as_ref().and_then(|text| Token::new(text.as_ref()));
        let token = token.or_else(Token::from_environment);
        let no_token = || Failure::environment("the coordinator has sent no token");
        Ok(Self {
            buffer_bytes: member::needed_bytes(&tests, plans.len()),
            plans,
            token: token.ok_or_else(no_token)?,
        })
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
        [] if own.devices().iter().any(is_software) => own.devices().to_vec(),
        _ => named,
    };
    member::plans(devices, &TOOLS[0], service)
}

fn is_software(device: &DeviceName) -> bool {
    device.platform().is_simulated
}

/// Waits until other clients of the NICs have measured, or the coordinator ends.
fn wait_for_turn(line: &mut ControlLine, caller: &AcceptedClient) -> Result<(), Failure> {
    loop {
        match next(line, |line| caller.wait_beside(line))? {
            ServerOrder::Begin => {
                caller.send_place(0)?;
                return line.send(&Called::Answered).environment(LOST);
            }
            ServerOrder::Refuse(reason) => return Err(caller.refuse(Failure::environment(reason))),
            ServerOrder::Place(place) => caller.send_place(place)?,
            ServerOrder::Serve { .. } => {}
        }
    }
}
