//! How a client begins a session.

use super::agreed::Agreed;
use super::connect::ServerSearch;
use super::connection::Connection;
use super::handshake::{Handshake, Refusal};
use super::introduction::{HandshakeIntroduction, machine};
use super::link_error::LinkError;
use super::open::Session;
use super::turn;
use super::wait::Wait;
use super::wire::{BUSY, MAX_PAYLOAD, REFUSAL};
use facts::advice::{Advise, Situation};
use facts::error::{Failure, Step, cause};
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;

/// Connects to the server at `host` on the plan's port, and performs the handshake.
///
/// # Errors
///
/// A server that cannot be reached or does not agree, and an interruption.
pub fn join(plan: &Plan, host: &str, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
    let us = HandshakeIntroduction::new(plan, own, plan.port, machine());
    enter(Phase::Connecting);
    let mut search = ServerSearch::new(plan, host)?;
    loop {
        let connection = search.connect()?;
        let peer = connection.peer();
        match introduce(&connection, &us) {
            Ok(agreed) => {
                if agreed.queues {
                    connection.expect_ticks(agreed.peer_ticks);
                    turn::wait(&connection, plan, &agreed)?;
                }
                return Ok((Session::new(connection, &agreed, plan), agreed));
            }
            Err(Refusal::Failed(failure)) => return Err(failure),
            Err(Refusal::Busy(failure)) => {
                if !search.wait_for_turn(&connection, &failure)? {
                    return Err(failure);
                }
            }
            Err(Refusal::Unrelated(reason)) => {
                let tool = plan.tool.legacy_name;
                let failure = Failure::environment(format!(
                    "the peer ({peer}) did not answer as a {tool} server: {reason}"
                ))
                .advised(Situation::NoDiagnostic)
                .in_step(Step::Handshake);
                // A server that has just found another client closes this connection in the same
                // way.
                if !search.pause(&failure)? {
                    return Err(failure);
                }
            }
        }
    }
}

/// Performs the client's side of the handshake.
fn introduce(connection: &Connection, us: &HandshakeIntroduction) -> Result<Agreed, Refusal> {
    let mut handshake = Handshake::new(us, connection.peer());
    loop {
        let doing = handshake.doing();
        enter(handshake.phase());
        let payload = connection
            .exchange(&handshake.mine(), MAX_PAYLOAD, &Wait::for_answer(doing, ANSWER_LIMIT))
            .map_err(|error| match (error, handshake.is_named()) {
                (LinkError::Interrupted(failure), _) => {
                    Refusal::Failed(failure.in_step(Step::Handshake))
                }
                (LinkError::TooLong { length: REFUSAL, .. }, _) => {
                    let refusal = connection.refusal();
                    let is_full =
                        matches!(&refusal, LinkError::Refusal(reason) if reason.starts_with(BUSY));
                    let failure = refusal.into_failure(connection.peer(), doing);
                    if is_full { Refusal::Busy(failure) } else { Refusal::Failed(failure) }
                }
                (error, false) => Refusal::Unrelated(unnamed(&error)),
                (error, true) => {
                    // A server that has found another client closes the other connections.
                    let serves_another = matches!(error, LinkError::Closed);
                    let is_late = matches!(error, LinkError::Late(_));
                    let mut failure = error.into_failure(connection.peer(), doing);
                    if is_late {
                        failure = failure.in_step(Step::Handshake);
                    }
                    let failure = handshake.failure(failure);
                    if serves_another { Refusal::Busy(failure) } else { Refusal::Failed(failure) }
                }
            })?;
        if let Some(agreed) = handshake.accept(&payload)? {
            return Ok(agreed);
        }
    }
}

/// Returns why a server has not sent its name.
fn unnamed(error: &LinkError) -> String {
    match error {
        LinkError::Closed => "it closed the connection without sending the name of a tool".into(),
        LinkError::InterruptNotice => "it was interrupted".into(),
        LinkError::Refusal(reason) => reason.clone(),
        LinkError::Interrupted(failure) => failure.to_string(),
        LinkError::Silent => "its host no longer answers".into(),
        LinkError::Late(limit) | LinkError::Stopped(limit) => {
            let limit = limit.as_secs();
            format!("it sent nothing for {limit} s: frozen or another program")
        }
        LinkError::TooLong { .. } => "it speaks another protocol".into(),
        LinkError::Io(error) => cause(error),
    }
}
