//! The question for the state of a server of all tools, which processes of its machine may ask:
//! the server answers the name [`STATUS`] with lines of text.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::ANSWER_LIMIT;
use super::connect::Search;
use super::wire;
use crate::error::{Context, Failure};
use crate::plan::Plan;

/// The name that asks for the state, in place of the name of a tool.
pub const STATUS: &str = "cxi_status";

/// Longest answer, in bytes.
const MOST: u64 = 1 << 20;

/// Asks the server at `host` on the plan's port, and returns its answer.
///
/// # Errors
///
/// A server that cannot be reached or does not answer, and an interruption.
pub fn ask(plan: &Plan, host: &str) -> Result<String, Failure> {
    let connection = Search::new(plan, host)?.connect()?;
    let mut stream = connection.into_stream();
    let what = format!("the server ({host}) did not answer");
    let mut answer = String::new();
    let asked = stream
        .set_read_timeout(Some(ANSWER_LIMIT))
        .and_then(|()| stream.write_all(&wire::message(&wire::string(STATUS))))
        .and_then(|()| stream.take(MOST).read_to_string(&mut answer));
    asked.environment(&what)?;
    if answer.is_empty() {
        return Err(Failure::environment(what).with_hint("only `cxidiag serve` reports its state"));
    }
    Ok(answer)
}

/// Answers the question with `text`.
pub fn answer(mut stream: TcpStream, text: &str) {
    // A process that has ended does not need it. The socket's buffer has room for all lines.
    let _ = stream.write_all(text.as_bytes());
}
