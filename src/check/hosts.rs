//! The checks of other hosts through `cxidiag serve`: the client, and the process that the server
//! has started there.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::document::Check;
use super::fleet::Answers;
use super::of_node;
use super::request::{CheckRequest, SiteSettings};
use diag::run::served::{Taken, take_client};
use facts::child::PROGRAM;
use facts::device::DeviceName;
use facts::error::{Failure, Step};
use facts::token::Token;
use facts::{interrupt, threads};
use page::json;
use plan::tools::TOOLS;
use plan::typed::Typed;
use plan::{DEFAULT_PORT, Plan};
use session::invitation::CheckOrder;

/// Number of servers that are asked at the same time.
const MOST_AT_ONCE: usize = 128;

/// Time limit of a connection: a host that is down costs the others no more.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Why a host was not asked before a survey.
const NOT_ASKED: &str = "not asked: a quarter of --time-limit was over";

/// Asks the server on each host for a check, until the time of the checks is over.
pub fn ask_all(hosts: &[String], request: &CheckRequest) -> Result<Answers, Failure> {
    let mut typed = Typed::nothing(TOOLS[0].defaults);
    // Each order names its host.
    typed.address = Some("peer".into());
    typed.port = Some(request.port.unwrap_or(DEFAULT_PORT));
    typed.connect_timeout = Some(CONNECT_LIMIT);
    typed.token = Token::from_environment();
    let plan = Plan::new(&TOOLS[0], PROGRAM.into(), typed, None)?;
    let order = CheckOrder {
        devices: request.devices.iter().map(DeviceName::to_string).collect(),
        expected_nics: request.site.expected_nics,
        link_gigabits: request.site.link_gigabits,
    };
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    threads::share(MOST_AT_ONCE.min(hosts.len()), || {
        while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let document = if request.until.is_some_and(|until| Instant::now() >= until) {
                Err(Failure::environment(NOT_ASKED))
            } else {
                order.ask(&plan, host, request.until)
            };
            let check = document.and_then(|document| Check::read(&document));
            let check = check.map_err(|failure| unanswered(&failure, host));
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push((host.clone(), check));
        }
    })?;
    interrupt::check()?;
    Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns why a host has sent no check, without its name and address: hosts with the same reason
/// make one group.
fn unanswered(failure: &Failure, host: &str) -> String {
    let message = failure.message().replace(&format!(" {host} "), " ");
    let words = message.split(' ').filter(|word| {
        let address = word.trim_start_matches('(').trim_end_matches([')', ',', ':']);
        address.parse::<SocketAddr>().is_err()
    });
    let message = words.collect::<Vec<_>>().join(" ");
    if failure.step() == Some(Step::Tcp) {
        message + " (does 'cxidiag serve' run there?)"
    } else {
        message
    }
}

/// Checks this node for the client of this process. `own` has the NIC of the server, which is
/// checked if the client names none and the NIC is a software NIC.
///
/// # Errors
///
/// A client that ends or sends no order, a check that is not possible, and an interruption.
pub fn run(own: CheckRequest) -> Result<(), Failure> {
    let Taken { caller, .. } = take_client()?;
    let order = caller.check_order()?;
    let checked = request(own, order).and_then(of_node::check);
    match checked.and_then(|check| json::line(&check)) {
        Ok(document) => caller.send_check(&document),
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

    #[test]
    fn asks_no_host_after_the_time_of_the_checks() {
        let request = CheckRequest { until: Some(Instant::now()), ..CheckRequest::default() };
        let answers = ask_all(&["host.invalid".to_owned()], &request).unwrap();
        assert_eq!(answers[0].1.as_ref().err().map(String::as_str), Some(NOT_ASKED));
    }

    #[test]
    fn reasons_of_hosts_differ_only_in_what_happened() {
        for (message, host, expected) in [
            (
                "cannot connect to nid1 port 49194: connection refused",
                "nid1",
                "cannot connect to port 49194: connection refused",
            ),
            (
                "the peer (10.1.0.1:49194) did not answer during the check within 10 s",
                "nid1",
                "the peer did not answer during the check within 10 s",
            ),
        ] {
            assert_eq!(unanswered(&Failure::environment(message), host), expected);
        }
    }

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
