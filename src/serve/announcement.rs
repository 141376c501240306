//! What the server prints at its start: where it listens, whom it serves, and what is wrong.

use super::limits::ClientLimits;
use super::log::{Log, Priority};
use node::backend;
use plan::Plan;
use session::LISTENING;

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
