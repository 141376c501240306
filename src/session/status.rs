//! The question for the state of a server of all tools, which processes of its machine may ask:
//! the server answers the name [`STATUS`] with lines of text.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rustix::event::PollFlags;

use super::connect::ServerSearch;
use super::wire;
use facts::error::{Context, Failure};
use facts::limit::ANSWER_LIMIT;
use facts::net::framing::message;
use facts::number::time_text;
use facts::{interrupt, text};
use plan::Plan;

/// The name that asks for the state, in place of the name of a tool.
pub const STATUS: &str = "cxi_status";

/// Longest answer, in bytes.
const MOST: usize = 1 << 20;

/// Asks the server at `host` on the plan's port, and returns its answer.
///
/// # Errors
///
/// A server that cannot be reached or does not answer, and an interruption.
pub fn ask(plan: &Plan, host: &str) -> Result<String, Failure> {
    let connection = ServerSearch::new(plan, host)?.connect().map_err(|failure| {
        let place = format!("at {host} port {}", plan.port);
        failure.with_hint(format!(
            "only the server {place} was asked: --bind and --port name another one"
        ))
    })?;
    let end = Instant::now() + ANSWER_LIMIT;
    let mut stream = connection.into_stream();
    let what = format!("the server ({host}) did not answer");
    let asked = stream.write_all(&message(&wire::string(STATUS)));
    asked.environment(&what)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() < MOST {
        let left = end.saturating_duration_since(Instant::now());
        if !interrupt::wait(&stream, PollFlags::IN, Some(left))? {
            let limit = time_text(ANSWER_LIMIT);
            return Err(Failure::environment(format!("{what} within {limit}")));
        }
        match stream.read(&mut part).environment(&what)? {
            0 => break,
            length => answer.extend(&part[..length]),
        }
    }
    if answer.is_empty() {
        return Err(Failure::environment(what).with_hint("only `cxidiag serve` reports its state"));
    }
    Ok(text::shown_lines(&String::from_utf8_lossy(&answer)).into_owned())
}

/// Answers the question with `text`.
pub fn answer(mut stream: TcpStream, text: &str) {
    // A process that has ended does not need the status. The socket's buffer has room for all
    // lines.
    let _ = stream.write_all(text.as_bytes());
}
