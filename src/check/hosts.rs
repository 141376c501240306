//! The checks of other hosts, through `cxidiag serve`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fleet::Answers;
use super::request::CheckRequest;
use crate::document::Check;
use facts::child::PROGRAM;
use facts::device::DeviceName;
use facts::error::{Failure, Step};
use facts::token::Token;
use facts::{interrupt, threads};
use plan::tools::TOOLS;
use plan::typed::Typed;
use plan::{DEFAULT_PORT, Plan};
use session::check_order::CheckOrder;

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
}
