//! The options of the control connection that both sides have: its port, and who the peer may be.

use super::tool_option::{Def, PEER, ToolOption, process};
use crate::DEFAULT_PORT;
use cli::usage::{Completion, Value};
use facts::number::within;
use facts::token::Token;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    process(PEER, |_| {
        Def::text("port", "PORT", |typed, value| {
            let port = within(value, 0..=65535)
                .map_err(|_| "expected a decimal number from 1 to 65535, or 0 on a server")?;
            typed.port = Some(port as u16);
            Ok(())
        })
        .letter('p')
        .explained(format!(
            "TCP port of the server (default: {DEFAULT_PORT}); 0 on a server: any free port\n\n\
                 The server listens there for the control connection. If it takes any free port, \
                 it prints the number."
        ))
    })
    .legacy()
    .frequent(),
    process(PEER, |_| {
        Def::switch("any-job", |typed| typed.any_job = true).explained(
            "Measure with a peer in another batch job; one side is enough\n\n\
             The jobs are those of Slurm, PBS or Flux. Without this option, two processes in \
             different jobs refuse each other, so that a client cannot meet a server that an \
             earlier job has left behind. A process outside of a job, or a legacy tool, is never \
             refused for its job.",
        )
    }),
    process(PEER, |_| {
        Def::new("token", Some(Value::new("TEXT", Completion::Nothing)), |typed, value| {
            typed.is_token_new = value == "auto";
            let token = Token::new(value).ok_or("expected at least one character")?;
            typed.token = Some(if typed.is_token_new { Token::random() } else { token });
            Ok(())
        })
        .explained(
            "Measure only with a peer that has the same token; other users see options, but not \
             the environment (default: CXIDIAG_TOKEN)\n\n\
             If one side has a token, both must have it; legacy tools have none. The sides \
             exchange salted hashes (HMAC-SHA256), never the token itself. A token prevents \
             mistakes; it does not encrypt or authenticate what follows. cxidiag-serve(1) makes a \
             token with --token=auto, and prints it.",
        )
    }),
];
