//! Selects checks and executes them.

use std::time::Instant;

use crate::bench::{Bench, CheckEnd, Checked, CheckedNic, Trace};
use crate::checks::GROUPS;
use crate::checks::atomics::fetch_add_opcode;
use crate::document::{Aftermath, FactResult, FactVerdict, MaskedFlag};
use crate::table::{CheckEffect, CheckGroup, FactCheck};
use facts::atomic::AtomicOp;
use facts::error::Failure;
use facts::error_flag::ErrorFlag;
use facts::interrupt;
use node::backend;
use node::machine::Machine;
use node::nic::error_masks::ErrorMasks;

/// Bytes of commands that a result has: the last ones, in one command of the largest size.
const LONGEST: usize = 256;

/// The checks to execute.
#[derive(Clone, Debug, Default)]
pub struct CheckSelection {
    /// Names of groups (`queues`) and of checks (`queues/wrap`); none selects all checks.
    pub names: Vec<String>,
    /// Whether checks run that stop a queue in a way that no other program does, or may raise PCIe
    /// errors.
    pub allows_risk: bool,
}

/// Why a check that stops a queue is skipped.
const NEEDS_RISKY: &str = "it stops a queue as no other program does (--risky)";

/// Why a check that may raise PCIe errors is skipped.
const MAY_RAISE_PCIE_ERRORS: &str = "amo_remap_to_pcie_fadd is SWAP or unknown: where nothing \
     completes AtomicOps of PCIe, it raises AER errors (--risky)";

impl CheckSelection {
    fn has(&self, group: &CheckGroup, check: &FactCheck) -> bool {
        let is_it = |name: &String| *name == group.name || *name == full_name(group, check);
        self.names.is_empty() || self.names.iter().any(is_it)
    }

    /// The selected checks with their groups.
    pub fn checks(&self) -> impl Iterator<Item = (&'static CheckGroup, &'static FactCheck)> {
        let all =
            GROUPS.iter().flat_map(|group| group.checks.iter().map(move |check| (*group, check)));
        all.filter(|(group, check)| self.has(group, check))
    }
}

/// Whether there is a group or a check of this name.
pub fn exists(name: &str) -> bool {
    let selection = CheckSelection { names: vec![name.to_owned()], ..CheckSelection::default() };
    selection.checks().next().is_some()
}

/// The name with which --only selects a check.
pub fn full_name(group: &CheckGroup, check: &FactCheck) -> String {
    format!("{}/{}", group.name, check.fact.name)
}

/// Executes the selected checks, hands each result to `add`, and returns what they have changed for
/// other users. Checks that have not begun at `end` are not examined. With `with_names`, the bytes
/// of commands and events have the address of the NIC.
pub fn run(
    nic: &CheckedNic,
    selection: &CheckSelection,
    end: Instant,
    with_names: bool,
    mut add: impl FnMut(FactResult),
) -> Result<Aftermath, Failure> {
    let before = SharedState::read(nic);
    let swaps = fetch_add_opcode(nic).is_some_and(|opcode| opcode != AtomicOp::Swap as i32);
    for (group, check) in selection.checks() {
        interrupt::check()?;
        let since = Instant::now();
        let mut result = FactResult::holding(group.name, check.fact);
        if since > end {
            add(result.not_examined());
            continue;
        }
        let risk = match check.effect {
            CheckEffect::Risky => Some(NEEDS_RISKY),
            CheckEffect::PcieAtomic(_) if !swaps => Some(MAY_RAISE_PCIE_ERRORS),
            _ => None,
        };
        let (ended, trace) = match risk.filter(|_| !selection.allows_risk) {
            Some(why) => (Err(CheckEnd::Skipped(why.into())), Trace::default()),
            None => execute(nic, check),
        };
        interrupt::check()?;
        let shown = |bytes: &[u8]| {
            let last = &bytes[bytes.len().saturating_sub(LONGEST)..];
            let bytes = if with_names { last.to_vec() } else { without_address(last, nic) };
            (!bytes.is_empty()).then(|| hexadecimal(&bytes))
        };
        result.elapsed_us = since.elapsed().as_micros() as u64;
        match ended {
            Ok(()) => {}
            Err(CheckEnd::Differs { expected, seen }) => {
                result.verdict = FactVerdict::Differs;
                result.expected = Some(expected);
                result.seen = Some(seen);
                result.command = shown(&trace.command);
                result.event = shown(&trace.event);
            }
            Err(CheckEnd::Refused(why)) => {
                result.verdict = FactVerdict::Refused;
                result.reason = Some(why);
            }
            Err(CheckEnd::Skipped(why)) => {
                result.verdict = FactVerdict::Skipped;
                result.reason = Some(why);
            }
        }
        add(result);
    }
    nic.provoked.settle();
    interrupt::check()?;
    Ok(before.changes_to(&SharedState::read(nic), selection.allows_risk))
}

/// State of the NIC that all its users share.
struct SharedState {
    masks: ErrorMasks,
    /// Isolation groups without an interface.
    rgids: Option<u64>,
}

impl SharedState {
    fn read(nic: &CheckedNic) -> Self {
        let files = backend::files_of_counters(nic.name, &Machine::this(), |_| false).ok();
        Self {
            masks: files.as_ref().map(ErrorMasks::read).unwrap_or_default(),
            rgids: files.and_then(|files| files.number("properties/rgids_avail")),
        }
    }

    fn changes_to(&self, later: &Self, compares_rgids: bool) -> Aftermath {
        let masked = self.masks.masked_since(&later.masks).into_iter();
        let lost = self.rgids.zip(later.rgids).filter(|_| compares_rgids);
        Aftermath {
            masked_error_flags: masked
                .map(|(block, bit)| MaskedFlag {
                    name: ErrorFlag::name_of(&block, bit),
                    block,
                    bit,
                })
                .collect(),
            lost_rgids: lost.map_or(0, |(before, after)| before.saturating_sub(after)),
        }
    }
}

/// Executes a check on objects of its own and releases them.
fn execute(nic: &CheckedNic, check: &FactCheck) -> (Checked, Trace) {
    let mut bench = match Bench::new(nic) {
        Ok(bench) => bench,
        Err(error) => return (Err(error.into()), Trace::default()),
    };
    let ended = (check.run)(&mut bench);
    let trace = std::mem::take(&mut bench.trace);
    let released = bench.close().map_err(|error| CheckEnd::Differs {
        expected: "objects that can be released".into(),
        seen: error.to_string(),
    });
    (ended.and(released), trace)
}

/// Returns `bytes` with the address of the NIC replaced by 0, wherever an aligned word may hold it:
/// in the upper 20 bits of a fabric address, in the lower 20 of a match id and of the user pointer
/// of a get by the NIC (nic.md 4.1, 4.2, 10.3).
fn without_address(bytes: &[u8], nic: &CheckedNic) -> Vec<u8> {
    const NODE: u32 = 0xf_ffff;
    let nid = cxi::address::sent_nid(nic.device.info().nid);
    let (words, rest) = bytes.as_chunks::<4>();
    let words = words.iter().flat_map(|word| {
        let word = u32::from_le_bytes(*word);
        let word = if word >> 12 == nid {
            word & 0xfff
        } else if word & NODE == nid {
            word & !NODE
        } else {
            word
        };
        word.to_le_bytes()
    });
    words.chain(rest.iter().copied()).collect()
}

/// Bytes as pairs of hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use cxi::sys::C_CMD_PUT;

    use super::super::bench::MOST;
    use super::*;
    use crate::testing::{nic, numbered};

    fn results(nic: &CheckedNic, names: &[&str], with_names: bool) -> Vec<FactResult> {
        let mut results = Vec::new();
        run(nic, &selection(names), later(), with_names, |result| results.push(result)).unwrap();
        results
    }

    /// The end of a time limit that no test reaches.
    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// Returns these checks; all without names.
    fn selection(names: &[&str]) -> CheckSelection {
        assert!(names.iter().all(|name| exists(name)));
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        CheckSelection { names, allows_risk: true }
    }

    /// Returns how often each flag was set that the driver does not mask from the start.
    fn raised(nic: &CheckedNic) -> BTreeMap<(&'static str, u32), u64> {
        let raised = softnic::raised_errors(nic.name.index).unwrap().into_iter();
        let interrupts = raised.filter(|(block, bit, _)| ErrorFlag::name_of(block, *bit).is_some());
        interrupts.map(|(block, bit, times)| ((block, bit), times)).collect()
    }

    /// The software NIC was built from the pages that the checks cite. It sets error flags as
    /// hardware does, so that each check provokes what it says, and a run stays far below the
    /// interrupts that mask a flag.
    #[test]
    fn all_facts_hold_on_a_software_nic_without_masking_a_flag() {
        let nic = numbered(79);
        let mut results = Vec::new();
        let mut before = raised(&nic);
        let aftermath = run(&nic, &selection(&[]), later(), false, |result| {
            let after = raised(&nic);
            let all = CheckSelection::default();
            let mut checks = all.checks();
            let check = checks.find(|(group, check)| full_name(group, check) == result.full_name());
            let declared = check.unwrap().1.effect.flags();
            for ((block, bit), times) in &after {
                let more = times - before.get(&(*block, *bit)).unwrap_or(&0);
                let mut flags = declared.iter();
                let flag = flags.find(|(flag, _)| (flag.block, flag.bit) == (*block, *bit));
                let allowed = flag.map_or(0, |(_, times)| *times);
                let name = result.full_name();
                assert!(more <= allowed.into(), "{name}: {more} times {block} bit {bit}");
            }
            before = after;
            results.push(result);
        });
        assert!(before.len() > 6, "{before:?}");
        assert!(before.values().all(|times| *times <= MOST as u64), "{before:?}");
        assert!(results.len() > 150, "{} checks", results.len());
        let others = results.iter().filter(|result| result.verdict != FactVerdict::Holds);
        let others: Vec<_> = others
            // Root may do what these two need the refusal of.
            .filter(|result| {
                result.verdict != FactVerdict::Skipped || result.group != "queue-calls"
            })
            .collect();
        // A check that failed may have left something: its reason comes first.
        assert!(others.is_empty(), "{others:#?}");
        assert_eq!(aftermath.unwrap(), Aftermath::default());
    }

    /// Another process may use the NIC meanwhile, or an earlier run has ended just before.
    #[test]
    fn names_flag_that_was_masked_during_the_run() {
        let nic = numbered(80);
        let selection = selection(&["calls/device-numbers"]);
        let aftermath = run(&nic, &selection, later(), false, |_| {
            let mut bench = Bench::new(&nic).unwrap();
            let mut portal = bench.portal(0, crate::bench::matching).unwrap();
            bench.append(&mut portal, crate::bench::silent).unwrap();
            let mut put = bench.dma(C_CMD_PUT, 8);
            put.set_restricted(true);
            // The driver counts for 5 s: on a busy machine it may begin anew.
            let masks = SharedState::read(&nic).masks;
            while masks.masked_since(&SharedState::read(&nic).masks).is_empty() {
                bench.send(|batch| batch.emit_dma(&put)).unwrap();
                bench.event().unwrap();
            }
        });
        let masked = MaskedFlag { block: "lpe".into(), bit: 17, name: Some("invalid_endpoint") };
        assert_eq!(aftermath.unwrap().masked_error_flags, [masked]);
    }

    /// PIDs are numbered for each VNI: the PID of a check may belong to another process on the
    /// second VNI of the service (libcxi.md 6).
    #[test]
    fn spares_memory_of_process_with_equal_pid_on_other_vni() {
        let nic = numbered(81);
        let pid = Bench::new(&nic).unwrap().domain.pid();
        let other = CheckedNic { vni: 10, ..numbered(81) };
        let mut victim = Bench::new(&other).unwrap();
        assert_eq!(victim.domain.pid(), pid);
        let _portal = victim.plain().unwrap();
        victim.remote.fill(0x77).unwrap();
        let results = results(&nic, &["errors/other-vni", "queues/profile-switch"], false);
        let len = victim.remote.len();
        let memory = crate::bench::bytes_of(&victim.remote, 0, len).unwrap();
        assert!(memory == vec![0x77; len]);
        for result in results {
            assert_eq!(result.verdict, FactVerdict::Skipped, "{result:?}");
            let reason = result.reason.unwrap();
            assert!(reason.starts_with(&format!("no PID {pid} on VNI 10: ")), "{reason}");
        }
    }

    /// `Bench::dfa` alone makes addresses of targets, and `Bench` alone profiles with which a check
    /// sends: for VNIs on which it holds its PID.
    #[test]
    fn checks_make_no_addresses() {
        let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/checks")).unwrap();
        for source in sources {
            let path = source.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("address::dfa"), "{}", path.display());
            let sends = text.contains("emit_lcid");
            assert!(!sends || !text.contains("CommunicationProfile::new"), "{}", path.display());
        }
    }

    #[test]
    fn skips_checks_that_stop_a_queue_unless_they_are_allowed() {
        let nic = nic();
        let selection =
            CheckSelection { allows_risk: false, ..selection(&["queues/refused-opcode"]) };
        let mut reasons = Vec::new();
        run(&nic, &selection, later(), false, |result| reasons.push(result.reason)).unwrap();
        assert_eq!(reasons, [Some(NEEDS_RISKY.to_owned())]);
    }

    #[test]
    fn names_are_unique_and_statements_fit() {
        let mut names = BTreeSet::new();
        for (group, check) in CheckSelection::default().checks() {
            let name = full_name(group, check);
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-/".contains(c);
            assert!(name.chars().all(is_plain), "{name}");
            assert!(check.fact.sections.contains(".md "), "{name}");
            let ends = [check.fact.statement.ends_with('.'), check.fact.statement.contains("  ")];
            assert_eq!(ends, [false; 2], "{name}: {}", check.fact.statement);
            assert!(names.insert(name));
        }
    }

    /// docs/hardware.md names no check that does not exist.
    #[test]
    fn page_names_existing_checks() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hardware.md");
        let page = std::fs::read_to_string(page).unwrap();
        let groups: BTreeSet<&str> = GROUPS.iter().map(|group| group.name).collect();
        let named: BTreeSet<&str> = page
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.split_once('/').is_some_and(|(name, _)| groups.contains(name)))
            .collect();
        let selection = CheckSelection::default();
        let known: BTreeSet<String> =
            selection.checks().map(|(group, check)| full_name(group, check)).collect();
        for name in named {
            assert!(known.contains(name), "there is no {name}");
        }
    }

    #[test]
    fn selects_groups_and_checks() {
        assert!(!exists("queues/nothing"));
        let selection = selection(&["rendezvous", "queues/wrap"]);
        let names: Vec<String> =
            selection.checks().map(|(group, check)| full_name(group, check)).collect();
        assert_eq!(names[0], "queues/wrap");
        assert!(names[1..].iter().all(|name| name.starts_with("rendezvous/")));
        assert!(names.len() > 2);
    }

    /// Service 3 of a software NIC is disabled.
    #[test]
    fn refused_calls_are_no_differences() {
        let nic = CheckedNic { service: 3, ..nic() };
        let results = results(&nic, &["portals"], false);
        assert!(results.iter().all(|result| result.verdict == FactVerdict::Refused));
        let reason = results[0].reason.as_deref().unwrap();
        assert!(reason.contains("cxil_alloc_lni: Key has been revoked"), "{reason}");
    }

    #[test]
    fn replaces_address_in_fabric_addresses_and_match_ids() {
        let nic = nic();
        let info = nic.device.info();
        let dfa = cxi::address::dfa(info.nid, 5, 37, info.pid_bits).to_le_bytes();
        let id = cxi::address::match_id(info.pid_bits, 5, info.nid).to_le_bytes();
        let other = 0x1234_5678_u32.to_le_bytes();
        let pointer = (info.nid | 1 << 20).to_le_bytes();
        let bytes = [dfa, id, other, pointer].concat();
        let shown = without_address(&bytes, &nic);
        let dfa = cxi::address::dfa(0, 5, 37, info.pid_bits).to_le_bytes();
        let id = cxi::address::match_id(info.pid_bits, 5, 0).to_le_bytes();
        let pointer = (1_u32 << 20).to_le_bytes();
        assert_eq!(shown, [dfa, id, other, pointer].concat());
    }
}
