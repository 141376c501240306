//! A check for a client on another host: in a process that `cxidiag serve` has started.

use super::{CheckRequest, check};
use diag::run::served::{Taken, take_client};
use diag::session::check_order::CheckOrder;
use facts::device::DeviceName;
use facts::error::{Context, Failure};
use facts::token::Token;
use plan::Plan;
use plan::tool::PROGRAM;
use plan::tools::TOOLS;
use plan::typed::Typed;

/// Checks this node for the client of this process. `own` has the NIC of the server, which is
/// checked if the client names none and the NIC is a software NIC.
///
/// # Errors
///
/// A client that ends or sends no order, a check that is not possible, and an interruption.
pub fn run(own: CheckRequest) -> Result<(), Failure> {
    let Taken { caller, .. } = take_client()?;
    let mut typed = Typed::nothing(TOOLS[0].defaults);
    typed.token = Token::of_environment();
    let plan = Plan::new(&TOOLS[0], PROGRAM.into(), typed, None)?;
    let order = caller.check_order(&plan)?;
    let checked = request(own, order).and_then(check);
    let document = checked.and_then(|check| {
        serde_json::to_vec(&check).environment("cannot write the document of the check")
    });
    match document {
        Ok(document) => caller.send_check(&document),
        Err(failure) => Err(caller.refuse(failure)),
    }
}

/// Returns what the client may ask for: a quick check, without traffic.
fn request(own: CheckRequest, order: CheckOrder) -> Result<CheckRequest, Failure> {
    let named = order.devices.iter().map(|name| name.parse());
    let named = named.collect::<Result<Vec<DeviceName>, _>>();
    let named = named.map_err(|why| Failure::environment(format!("invalid device: {why}")))?;
    let is_software = |device: &DeviceName| device.platform().is_simulated;
    Ok(CheckRequest {
        devices: if named.is_empty() && own.devices.iter().any(is_software) {
            own.devices
        } else {
            named
        },
        is_quick: true,
        expected_nics: order.expected_nics,
        link_gigabits: order.link_gigabits,
        ..CheckRequest::default()
    })
}
