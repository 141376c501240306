//! Checks that need a second NIC: each is a run of a tool against `cxidiag serve`, which checks
//! the data that it moves.

use std::ffi::OsString;
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::document::{Fact, FactCertainty, FactResult, FactVerdict};
use diag::probe::Probe;
use facts::device::LIBCXI_VARIABLE;
use facts::error::{Failure, Kind};
use facts::interrupt;
use page::problem::Problem;
use plan::Plan;

/// The group of these checks.
pub use crate::document::PEER;

/// Time limit of a run, which takes some ten milliseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// The limit of a run whose processes wait for CPUs.
const LONGEST: Duration = Duration::from_secs(30);

/// A check by a tool.
pub struct ToolCheck {
    pub fact: Fact,
    /// The tool and its options.
    command: &'static str,
}

/// The check of a stated fact by a tool and its options.
const fn by_tool(name: &'static str, sections: &'static str, command: &'static str) -> ToolCheck {
    let fact = Fact { name, sections, certainty: FactCertainty::Stated, statement: "" };
    ToolCheck { fact, command }
}

impl ToolCheck {
    /// Sets the fact in one line.
    const fn shows(mut self, statement: &'static str) -> Self {
        self.fact.statement = statement;
        self
    }
}

/// Options of all latency tools.
const FEW: [&str; 3] = ["--iters=20", "--warmup=2", "--latency-gap=0"];

pub static CHECKS: &[ToolCheck] = &[
    by_tool("write", "nic.md 3.2", "write-lat --size=1:65536")
        .shows("restricted writes from 1 byte to 64 KiB arrive"),
    by_tool("immediate-write", "nic.md 3.2", "write-lat --size=1:128")
        .shows("restricted immediate writes of up to 128 bytes arrive"),
    by_tool("unrestricted-write", "nic.md 3.2", "write-lat --size=1:65536 --unrestricted")
        .shows("unrestricted writes from 1 byte to 64 KiB arrive"),
    by_tool("read", "nic.md 3.8", "read-lat --size=1:65536")
        .shows("restricted reads from 1 byte to 64 KiB return their data"),
    by_tool("unrestricted-read", "nic.md 3.9", "read-lat --size=1:65536 --unrestricted")
        .shows("unrestricted reads, full gets to an entry without matching, return their data"),
    by_tool("atomic", "nic.md 11.2", "atomic-lat --atomic-op=SUM --atomic-type=UINT64")
        .shows("restricted atomic operations take effect"),
    by_tool(
        "fetching-atomic",
        "nic.md 11.4",
        "atomic-lat --atomic-op=SUM --atomic-type=UINT64 --fetching",
    )
    .shows("fetching atomic operations return the old value"),
    by_tool(
        "matching-atomic",
        "nic.md 11.6",
        "atomic-lat --atomic-op=CSWAP --atomic-type=INT32 --matching",
    )
    .shows("atomic operations select their entry by match bits"),
    by_tool("send", "nic.md 13", "send-lat --size=1:65536")
        .shows("messages from 1 byte to 64 KiB arrive, immediate and by DMA"),
    by_tool("rendezvous", "nic.md 10.3", "send-lat --size=1:65536 --rdzv")
        .shows("messages by rendezvous arrive"),
    by_tool("high-rate-puts", "nic.md 3.11", "write-bw --size=1:8192 --iters=50 --list-size=16")
        .shows(
            "High Rate Puts of up to 2048 bytes arrive, immediate and by DMA, and larger ones \
         without",
        ),
    by_tool(
        "write-bandwidth",
        "nic.md 9.4",
        "write-bw --size=1:65536 --iters=20 --list-size=16 --no-hrp",
    )
    .shows("lists of writes are counted, and each list ends with one TRIGGERED_OP"),
    by_tool("read-bandwidth", "nic.md 9.4", "read-bw --size=1:65536 --iters=20 --list-size=16")
        .shows("lists of reads are counted, and each list ends with one TRIGGERED_OP"),
    by_tool("atomic-bandwidth", "nic.md 9.4", "atomic-bw --iters=20 --list-size=16")
        .shows("lists of atomic operations are counted"),
    by_tool("send-bandwidth", "nic.md 9.2", "send-bw --size=1:65536 --iters=20 --list-size=16")
        .shows("messages are counted at their target"),
    by_tool(
        "rendezvous-bandwidth",
        "nic.md 10.3",
        "send-bw --size=4096:65536 --iters=20 --list-size=16 --rdzv --bidirectional",
    )
    .shows("lists of messages by rendezvous arrive in both directions"),
];

/// Whether there is a check of this name: `peer/write`.
pub fn exists(name: &str) -> bool {
    CHECKS.iter().any(|check| is_selected(check, name))
}

fn is_selected(check: &ToolCheck, name: &str) -> bool {
    name == PEER || name.strip_prefix("peer/") == Some(check.fact.name)
}

/// The runs against one server.
pub struct PeerRuns<'a> {
    /// The host of the server.
    pub host: &'a str,
    /// The NIC of this machine.
    pub plan: &'a Plan,
    /// Options of service, VNI, traffic class and library, and of the server.
    pub passed_on: Vec<String>,
    /// Whether results may name the host.
    pub with_names: bool,
}

impl PeerRuns<'_> {
    /// Executes the checks with these names, or all, and hands each result to `add`. After a run
    /// that does not reach the server, the others are refused too. Checks that have not begun at
    /// `end` are not examined.
    pub fn execute(
        &self,
        names: &[String],
        end: Instant,
        mut add: impl FnMut(FactResult),
    ) -> Result<(), Failure> {
        let mut unreached: Option<String> = None;
        let selected = CHECKS
            .iter()
            .filter(|check| names.is_empty() || names.iter().any(|name| is_selected(check, name)));
        for check in selected {
            interrupt::check()?;
            let started = Instant::now();
            let mut result = FactResult::holding(PEER, check.fact);
            if started > end {
                add(result.not_examined());
                continue;
            }
            let problem = match &unreached {
                Some(why) => Err(why.clone()),
                None => self.problem(check)?,
            };
            match problem {
                Ok(None) => {}
                Ok(Some(problem)) => {
                    result.verdict = FactVerdict::Differs;
                    result.expected = Some(format!("{} without an error", check.command));
                    result.seen = Some(self.anonymous(&problem));
                }
                Err(why) => {
                    result.verdict = FactVerdict::Refused;
                    result.reason = Some(self.anonymous(&why));
                    unreached = Some(why);
                }
            }
            result.elapsed_us = started.elapsed().as_micros() as u64;
            add(result);
        }
        Ok(())
    }

    /// Runs a tool. Returns what its NIC or the NIC of the peer has done wrong, or why the run says
    /// nothing about the NICs.
    fn problem(&self, check: &ToolCheck) -> Result<Result<Option<String>, String>, Failure> {
        let (tool, options) = check.command.split_once(' ').unwrap_or((check.command, ""));
        let probe = Probe {
            tool,
            arguments: self.arguments(tool, options),
            variables: self.variables(),
            limit: Some(LIMIT),
            longest: Some(LONGEST),
            since: Instant::now(),
        };
        let (problem, has_met) = match probe.run() {
            Ok(outcome) => (outcome.error, outcome.addresses.is_some()),
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => (Some(Problem::from(&failure)), false),
        };
        Ok(match problem {
            None => Ok(None),
            Some(problem) if is_of_nics(&problem, has_met) => Ok(Some(problem.message)),
            Some(problem) => Err(problem.message),
        })
    }

    fn arguments(&self, tool: &str, options: &str) -> Vec<OsString> {
        let device = format!("--device={}", self.plan.device);
        let few: &[&str] = if tool.ends_with("-lat") { &FEW } else { &[] };
        let own = iter::once("--verify").chain(few.iter().copied()).chain(options.split(' '));
        own.chain([&*device])
            .chain(self.passed_on.iter().map(String::as_str))
            .chain(["--", self.host])
            .map(OsString::from)
            .collect()
    }

    fn variables(&self) -> Vec<(&'static str, Option<String>)> {
        let library = self.plan.libcxi.as_ref();
        let library = library.map(|file| file.path.to_string_lossy().into_owned());
        vec![(LIBCXI_VARIABLE, library)]
    }

    /// A message without the name and address of the host, unless names are asked for.
    fn anonymous(&self, message: &str) -> String {
        if self.with_names {
            message.to_owned()
        } else {
            without_addresses(&without_place(message).replace(self.host, "the peer"))
        }
    }
}

/// Removes the place of an error of the NIC, which names both NICs and hosts.
fn without_place(message: &str) -> &str {
    let place = message.find("between NIC").unwrap_or(message.len());
    let end = message[..place].rfind("; ").filter(|_| place < message.len());
    &message[..end.unwrap_or(message.len())]
}

/// Replaces IP addresses, with or without a port.
fn without_addresses(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let bare = word.trim_matches(['(', ')', ',', ';', ':']);
        if bare.parse::<IpAddr>().is_ok() || bare.parse::<SocketAddr>().is_ok() {
            word.replace(bare, "its address")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a run has failed because of the NICs or of wrong data. Once both sides have met, a
/// failure of the peer is about the operations.
fn is_of_nics(problem: &Problem, has_met: bool) -> bool {
    let answer_values = ["answer", "operation"].map(Some);
    let is_peer = problem.kind == Kind::Peer.name() && has_met;
    is_peer || problem.kind == Kind::Nic.name() || answer_values.contains(&problem.step.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_addresses() {
        for (message, expected) in [
            ("the peer (10.1.1.8:49194) cannot run", "the peer (its address) cannot run"),
            (
                "cannot connect to 10.1.1.8 port 9: refused",
                "cannot connect to its address port 9: refused",
            ),
            ("at fe80::1, port 9", "at its address, port 9"),
            ("16 writes at 10:30", "16 writes at 10:30"),
        ] {
            assert_eq!(without_addresses(message), expected);
        }
    }

    #[test]
    fn messages_lose_places() {
        let place = "; at 8 bytes, between NIC 0x13 PID 0 on node1 and NIC 0x12 PID 7";
        for (what, place) in [("lost; 3 of 4", place), ("lost; 3 of 4", "")] {
            assert_eq!(without_place(&format!("{what}{place}")), what);
        }
    }

    #[test]
    fn names_of_checks_are_unique() {
        let mut names: Vec<&str> = CHECKS.iter().map(|check| check.fact.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
        assert!(exists("peer/write") && !exists("peer/nothing") && !exists("write"));
    }
}
