//! The checks of other hosts through `cxidiag serve`: the client, and the process that the server
//! has started there.

use super::document::Check;
use super::fleet::Answers;
use super::of_node;
use super::request::{CheckRequest, SiteSettings};
use diag::run::served::{Taken, take_client};
use facts::device::DeviceName;
use facts::error::Failure;
use page::json;
use session::requests::{CheckOrder, Question};

/// Why a host was not asked before a survey.
const NOT_ASKED: &str = "not asked: a quarter of --time-limit was over";

/// Asks the server on each host for a check, until the time of the checks is over.
pub fn ask_all(hosts: &[String], request: &CheckRequest) -> Result<Answers, Failure> {
    let order = CheckOrder {
        devices: request.devices.iter().map(DeviceName::to_string).collect(),
        expected_nics: request.site.expected_nics,
        link_gigabits: request.site.link_gigabits,
    };
    let last = request.until.map(|until| (until, NOT_ASKED));
    Question::check(&order, last).ask_all(hosts, request.port, Check::read)
}

/// Checks this node for the client of this process. `own` has the NIC of the server, which is
/// checked if the client names none and the NIC is a software NIC.
///
/// # Errors
///
/// A client that ends or sends no order, a check that is not possible, and an interruption.
pub fn run(own: CheckRequest) -> Result<(), Failure> {
    let Taken { caller, .. } = take_client()?;
    let order = caller.order()?;
    let checked = request(own, order).and_then(of_node::check);
    match checked.and_then(|check| json::line(&check)) {
        Ok(document) => caller.send_document(&document),
        Err(failure) => Err(caller.refuse(failure)),
    }
}

/// Returns what the client may ask for: a quick check without traffic, of NICs of the kind that the
/// server has.
fn request(own: CheckRequest, order: CheckOrder) -> Result<CheckRequest, Failure> {
    let named = order.devices.iter().map(|name| name.parse());
    let named = named.collect::<Result<Vec<DeviceName>, _>>();
    let named = named.map_err(|why| Failure::environment(format!("invalid device: {why}")))?;
    let is_software = |device: &DeviceName| device.platform().is_simulated;
    let serves_software = own.devices.iter().any(is_software);
    if let Some(other) = named.iter().find(|device| is_software(device) != serves_software) {
        let own = own.devices.first().map_or(String::new(), DeviceName::to_string);
        let message = format!("this server has no {other}: it has NICs such as {own}");
        return Err(Failure::environment(message));
    }
    Ok(CheckRequest {
        devices: if named.is_empty() && serves_software { own.devices } else { named },
        is_quick: true,
        site: SiteSettings {
            expected_nics: order.expected_nics,
            link_gigabits: order.link_gigabits,
        },
        ..CheckRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(own: &str, order: &str) -> Result<CheckRequest, String> {
        let own = CheckRequest { devices: vec![own.parse().unwrap()], ..CheckRequest::default() };
        let order = serde_json::from_str(order).unwrap();
        request(own, order).map_err(|failure| failure.message())
    }

    #[test]
    fn client_chooses_nics_and_what_they_must_have() {
        let order =
            r#"{"devices": [], "expected_nics": 4, "link_gigabits": 100.0, "quick": false}"#;
        let found = requested("soft1", order).unwrap();
        assert_eq!(found.devices, [DeviceName::software(1)]);
        assert!(!found.has_traffic() && !found.has_window());
        assert_eq!((found.site.expected_nics, found.site.link_gigabits), (Some(4), Some(100.0)));
        assert_eq!(requested("cxi0", order).unwrap().devices, []);
        let named = r#"{"devices": ["cxi1"], "expected_nics": null, "link_gigabits": null}"#;
        assert_eq!(requested("cxi0", named).unwrap().devices.len(), 1);
        let refusal = "this server has no cxi1: it has NICs such as soft1";
        assert_eq!(requested("soft1", named).unwrap_err(), refusal);
    }
}
