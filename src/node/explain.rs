//! Errors of libcxi and of the NIC -> failures with their causes and remedies. What the NIC says
//! about its queues and portals, in words, is part of the message of a failure (nic.md 2.2, 5.6,
//! 8.7).

use std::fmt;
use std::path::Path;

use cxi::records::{CmdHeader, CqStatus};
use cxi::sys::{C_CMD_TYPE_CQ, C_CMD_TYPE_CT, C_CMD_TYPE_DMA, C_CMD_TYPE_IDC, C_PTLTE_ENABLED};
use cxi::{EventType, ObjectState, Observer, QueueKind, ReturnCode};
use facts::advice::{self, Advise, Situation, call_explanation};
use facts::error::{Failure, Kind, Step};

/// The memory of this process, as the kernel describes it.
const MAPS: &str = "/proc/self/maps";

/// The step of a run that needs this call.
fn step(call: &str) -> Option<Step> {
    match call {
        "cxil_open_device" => Some(Step::Device),
        "cxil_get_svc" | "cxil_alloc_lni" => Some(Step::Service),
        "cxil_alloc_domain" | "cxil_alloc_cp" => Some(Step::Vni),
        _ => None,
    }
}

/// Names what failed where a libcxi call (or mmap) returns an error, and adds the hint for that
/// error.
pub trait Explain<T> {
    /// Turns an error into a failure of [`Kind::Environment`] whose message begins with `what`.
    ///
    /// # Errors
    ///
    /// The error of `self`, explained.
    fn explain(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Explain<T> for Result<T, cxi::Error> {
    fn explain(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| explained(error, what))
    }
}

/// The failure of a libcxi call (or mmap): `what` failed because of `error`.
#[cold]
pub fn explained(error: cxi::Error, what: impl fmt::Display) -> Failure {
    let failure = Failure::new(Kind::Environment, error).context(what);
    let failure = match step(error.call()) {
        Some(step) => failure.in_step(step),
        None => failure,
    };
    if error.is_of_gpu() && error.errno() != libc::ENOMEM {
        return failure.explained(Situation::GpuRuntimeFails);
    }
    // Software NICs look memory up there, and libcxi may do so, too [I] (libcxi.md 7.4).
    if (error.call(), error.errno()) == ("cxil_map", libc::EFAULT) && !Path::new(MAPS).exists() {
        return failure.explained(Situation::NoProc);
    }
    match call_explanation(error.call(), error.errno()) {
        Some(explanation) => failure.with_hint(explanation.hint()),
        None => failure,
    }
}

/// The step of a run that fails with this return code (libcxi.md 12.3).
fn step_of_code(code: ReturnCode) -> Step {
    match code.name() {
        Some("UNDELIVERABLE" | "CANCELED" | "HRP_RSP_DISCARD") => Step::Answer,
        Some("VNI_NOT_FOUND") => Step::Vni,
        _ => Step::Operation,
    }
}

/// The failure for an unexpected event or an event with an error code; `what` was awaited.
pub fn unexpected(
    what: &str,
    event_type: EventType,
    expected: EventType,
    code: ReturnCode,
) -> Failure {
    if code != ReturnCode::OK {
        let failure = Failure::nic(format!(
            "{what} failed: the NIC reported {code} (return code {})",
            code.0
        ))
        .in_step(step_of_code(code));
        return match code.name().and_then(advice::code_explanation) {
            Some(explanation) => failure.with_hint(explanation.hint()),
            None => failure,
        };
    }
    Failure::nic(format!("{what}: the NIC reported {event_type} instead of {expected}"))
}

/// Adds to a failure of the NIC what the NIC says about its objects: to the message what may be the
/// reason, to the documents all of it. A failure that has it stays as it is, and so do others.
pub fn explain(failure: Failure, observer: &Observer) -> Failure {
    explain_with(failure, &observer.states(), |state| {
        !matches!(text(state).1, Weight::Usual | Weight::Unfetched)
    })
}

/// Adds to the failure of a wait for the NIC what the NIC says about its objects, as [`explain`]
/// does. Commands that the NIC has not fetched may be the reason too; if it has fetched all, the
/// message says so.
pub fn explain_wait(failure: Failure, observer: &Observer) -> Failure {
    let states = observer.states();
    let failure = explain_with(failure, &states, |state| text(state).1 != Weight::Usual);
    let is_usual = |state: &ObjectState| text(state).1 == Weight::Usual;
    if !states.is_empty() && states.iter().all(is_usual) {
        return failure.at("the NIC has fetched all commands of this side and reports no error");
    }
    failure
}

/// The failure of a queue of which the NIC has refused a command, if there is one.
pub fn refusal(observer: &Observer) -> Option<Failure> {
    let state = observer.refusal()?;
    let failure = Failure::nic(text(&state).0).in_step(Step::Operation);
    Some(advise(failure, &state))
}

fn explain_with(
    failure: Failure,
    states: &[ObjectState],
    is_reason: impl Fn(&ObjectState) -> bool,
) -> Failure {
    if failure.kind != Kind::Nic || !failure.nic_states().is_empty() {
        return failure;
    }
    let mut failure = failure.with_nic_states(states.iter().map(|state| text(state).0).collect());
    for state in states.iter().filter(|state| is_reason(state)) {
        let (text, _) = text(state);
        if !failure.message().contains(&text) {
            failure = advise(failure.at(text), state);
        }
    }
    failure
}

/// Adds the remedy for a refusal.
fn advise(failure: Failure, state: &ObjectState) -> Failure {
    let ObjectState::CommandQueue { status, .. } = state else {
        return failure;
    };
    if !state.is_refusal() {
        return failure;
    }
    let failure = failure.explained(Situation::CommandRefused);
    let header = CmdHeader::from_bytes([status.fail_command()]);
    let is_immediate = u32::from(header.cmd_type()) == C_CMD_TYPE_IDC && header.opcode() != 0;
    if is_immediate {
        failure.with_further_hint("--no-idc measures without immediate commands")
    } else {
        failure
    }
}

/// What a state says about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    /// Nothing.
    Usual,
    /// The NIC has not fetched all commands: a reason only after a long wait.
    Unfetched,
    /// It may be the reason.
    Reason,
}

/// A state in words.
fn text(state: &ObjectState) -> (String, Weight) {
    match state {
        ObjectState::CommandQueue { kind, status, written } => {
            command_queue(*kind, *status, *written)
        }
        ObjectState::EventQueue { number, has_dropped: true } => (
            format!("event queue {number}: the NIC had no room for an event and dropped it"),
            Weight::Reason,
        ),
        ObjectState::EventQueue { number, .. } => {
            (format!("event queue {number}: no event dropped"), Weight::Usual)
        }
        ObjectState::Portal { number, state, dropped } => {
            let name = match state {
                0 => "RESET",
                1 => "DISABLED",
                2 => "ENABLED",
                3 => "SOFTWARE_MANAGED",
                4 => "ETHERNET",
                _ => "in an unknown state",
            };
            let dropped = match dropped {
                0 => String::new(),
                1 => ", 1 message dropped".into(),
                count => format!(", {count} messages dropped"),
            };
            let is_enabled = u32::from(*state) == C_PTLTE_ENABLED;
            (
                format!("portals table entry {number}: {name}{dropped}"),
                if is_enabled && dropped.is_empty() { Weight::Usual } else { Weight::Reason },
            )
        }
    }
}

fn command_queue(kind: QueueKind, status: CqStatus, written: u32) -> (String, Weight) {
    let queue = match kind {
        QueueKind::Transmit => "transmit queue",
        QueueKind::Trigger => "trigger queue",
        QueueKind::Target => "target queue",
    };
    let next = u32::from(status.rd_ptr());
    let code = ReturnCode(status.return_code());
    let is_refusal = ObjectState::CommandQueue { kind, status, written }.is_refusal();
    let mut text = if is_refusal {
        let half = if status.fail_loc_32() { "the upper half of " } else { "" };
        let way = if status.fail_ll() { ", a low-latency write" } else { "" };
        format!(
            "{queue}: the NIC refused the {} command in {half}slot {next}{way}: {code} (return code {})",
            command(kind, status.fail_command()),
            code.0
        )
    } else if next != written {
        format!(
            "{queue}: the NIC has not fetched all commands (next to fetch: slot {next}; next to write: slot {written})"
        )
    } else {
        format!("{queue}: all commands fetched (slot {next})")
    };
    if status.num_write_cmds_rejected() > 0 {
        text += &format!(
            ", {} low-latency writes or doorbells rejected",
            status.num_write_cmds_rejected()
        );
    }
    if status.ll_disabled() {
        text += ", low-latency writes off";
    }
    let weight = if is_refusal {
        Weight::Reason
    } else if next != written {
        Weight::Unfetched
    } else {
        Weight::Usual
    };
    (text, weight)
}

/// The name of a command by its first byte (nic.md 3.1).
fn command(kind: QueueKind, header: u8) -> String {
    const TRANSFERS: [&str; 14] = [
        "NOOP",
        "PUT",
        "GET",
        "RENDEZVOUS_PUT",
        "ATOMIC",
        "FETCHING_ATOMIC",
        "ETHERNET_TX",
        "SMALL_MESSAGE",
        "NOMATCH_PUT",
        "NOMATCH_GET",
        "CSTATE",
        "CLOSE",
        "CLEAR",
        "REDUCTION",
    ];
    const COUNTERS: [&str; 9] =
        ["NOOP", "SET", "GET", "INC", "CANCEL", "TRIG_DMA", "TRIG_SET", "TRIG_INC", "TRIG_EVENT"];
    const QUEUES: [&str; 3] = ["NOOP", "FENCE", "LCID"];
    const TARGETS: [&str; 13] = [
        "NOOP",
        "FENCE",
        "LCID",
        "",
        "",
        "",
        "",
        "",
        "APPEND",
        "SEARCH",
        "SEARCH_AND_DELETE",
        "UNLINK",
        "SETSTATE",
    ];
    let header = CmdHeader::from_bytes([header]);
    if header.opcode() == 0 {
        return "NOOP".into();
    }
    let (group, names): (&str, &[&str]) = match u32::from(header.cmd_type()) {
        C_CMD_TYPE_IDC => ("immediate ", &TRANSFERS),
        C_CMD_TYPE_DMA => ("DMA ", &TRANSFERS),
        C_CMD_TYPE_CT => ("counter ", &COUNTERS),
        C_CMD_TYPE_CQ if kind == QueueKind::Target => ("", &TARGETS),
        _ => ("", &QUEUES),
    };
    match names.get(usize::from(header.opcode())) {
        Some(name) if !name.is_empty() => format!("{group}{name}"),
        _ => format!("{group}{}", header.opcode()),
    }
}

#[cfg(test)]
mod tests {
    use cxi::sys::C_RC_OK;
    use facts::advice::{EXPLANATIONS, What};

    use super::*;

    #[test]
    fn names_return_code_with_hint() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(2));
        assert_eq!(
            failure.message(),
            "write failed: the NIC reported UNDELIVERABLE (return code 2)"
        );
        assert!(failure.hint.unwrap().contains("link"));
    }

    #[test]
    fn prints_number_of_unknown_return_code() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(63));
        assert_eq!(failure.message(), "write failed: the NIC reported 63 (return code 63)");
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn names_unexpected_event() {
        let failure = unexpected("write", EventType::LINK, EventType::ACK, ReturnCode::OK);
        assert_eq!(failure.message(), "write: the NIC reported LINK instead of ACK");
    }

    #[test]
    fn explains_each_error_code() {
        for number in 0..64 {
            let code = ReturnCode(number);
            let is_failure = !matches!(code.name(), None | Some("OK" | "NO_EVENT"));
            assert_eq!(
                code.name().and_then(advice::code_explanation).is_some(),
                is_failure,
                "{code}"
            );
        }
        for row in EXPLANATIONS {
            let What::Code(names) = row.what else {
                continue;
            };
            for name in names {
                let known = (0..64).any(|number| ReturnCode(number).name() == Some(name));
                assert!(known, "the NIC has no return code {name}");
            }
        }
    }

    fn queue(change: impl FnOnce(&mut CqStatus)) -> ObjectState {
        let mut status = CqStatus::new();
        status.set_rd_ptr(17).set_return_code(C_RC_OK as u8);
        change(&mut status);
        ObjectState::CommandQueue { kind: QueueKind::Transmit, status, written: 17 }
    }

    #[test]
    fn names_refused_command_and_where_it_was() {
        let state = queue(|status| {
            let mut header = CmdHeader::new();
            header.set_cmd_type(C_CMD_TYPE_DMA as u8).set_opcode(8);
            status
                .set_return_code(5)
                .set_fail_command(header.bytes()[0])
                .set_fail_loc_32(true)
                .set_fail_ll(true)
                .set_ll_disabled(true);
        });
        assert_eq!(
            text(&state),
            (
                "transmit queue: the NIC refused the DMA NOMATCH_PUT command in the upper half of slot 17, a low-latency write: PERM_VIOLATION (return code 5), low-latency writes off".into(),
                Weight::Reason
            )
        );
        let failure = explain_with(Failure::nic("no answer"), &[state], |_| true).at("at 8 bytes");
        assert!(failure.message().starts_with("no answer; transmit queue: the NIC refused the"));
        assert!(failure.message().ends_with("; at 8 bytes"));
        assert!(failure.hint.is_some());
    }

    #[test]
    fn distinguishes_commands_that_were_not_fetched() {
        assert_eq!(
            text(&queue(|_| {})),
            ("transmit queue: all commands fetched (slot 17)".into(), Weight::Usual)
        );
        let (words, weight) = text(&queue(|status| {
            status.set_rd_ptr(15);
        }));
        assert_eq!(
            words,
            "transmit queue: the NIC has not fetched all commands (next to fetch: slot 15; next to write: slot 17)"
        );
        assert_eq!(weight, Weight::Unfetched);
    }

    #[test]
    fn names_each_state_of_portals_and_event_queues() {
        let portal = |state, dropped| ObjectState::Portal { number: 4, state, dropped };
        assert_eq!(
            text(&portal(1, 3)),
            ("portals table entry 4: DISABLED, 3 messages dropped".into(), Weight::Reason)
        );
        assert_eq!(text(&portal(2, 0)).1, Weight::Usual);
        assert_eq!(text(&portal(2, 1)).1, Weight::Reason);
        let events = |has_dropped| ObjectState::EventQueue { number: 4, has_dropped };
        assert_eq!(text(&events(false)).1, Weight::Usual);
        assert_eq!(text(&events(true)).1, Weight::Reason);
    }

    #[test]
    fn names_commands_of_each_queue() {
        let named = |kind, cmd_type, opcode| {
            let mut header = CmdHeader::new();
            header.set_cmd_type(cmd_type as u8).set_opcode(opcode);
            command(kind, header.bytes()[0])
        };
        for (kind, cmd_type, opcode, expected) in [
            (QueueKind::Transmit, C_CMD_TYPE_IDC, 1, "immediate PUT"),
            (QueueKind::Transmit, C_CMD_TYPE_CQ, 2, "LCID"),
            (QueueKind::Trigger, C_CMD_TYPE_CT, 5, "counter TRIG_DMA"),
            (QueueKind::Target, C_CMD_TYPE_CQ, 8, "APPEND"),
            (QueueKind::Target, C_CMD_TYPE_CQ, 5, "5"),
            (QueueKind::Trigger, C_CMD_TYPE_CT, 0, "NOOP"),
            (QueueKind::Transmit, C_CMD_TYPE_DMA, 15, "DMA 15"),
        ] {
            assert_eq!(named(kind, cmd_type, opcode), expected);
        }
    }

    /// No source says whether the NIC writes the return code OK with its status.
    #[test]
    fn status_without_return_code_is_no_refusal() {
        let state = queue(|status| _ = status.set_return_code(0));
        assert_eq!(text(&state).1, Weight::Usual);
    }

    #[test]
    fn names_each_reason_once() {
        let dropped = ObjectState::EventQueue { number: 4, has_dropped: true };
        let failure = explain_with(Failure::nic("no answer"), &[dropped, dropped], |_| true);
        assert_eq!(failure.message().matches("event queue 4").count(), 1);
        assert_eq!(failure.nic_states().len(), 2);
    }

    #[test]
    fn leaves_other_failures_alone() {
        let failure = explain_with(Failure::environment("gone"), &[queue(|_| {})], |_| true);
        assert_eq!((failure.message(), failure.nic_states().len()), ("gone".into(), 0));
    }
}
