//! The options of a server, and those about the peer that both sides have: job and token.

use std::time::Duration;

use super::{Governs, OptionDef};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{file, text};
use crate::number::{self, time_text};
use crate::plan::LIMIT_IN_A_JOB;
use crate::token::Token;
use crate::tool::Opt;

/// Longest `--timeout`: a week.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
        id: Opt::Bind,
        short: None,
        long: "bind",
        value: Some(Value::new("ADDR", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Server: address or name of this machine to listen\non (default: all, IPv4 and IPv6)"
                .into()
        },
        manual: |_| "For a server: the address, or a name of this machine, to listen on.",
        set: |typed, value| {
            let host = text(value)?;
            if host.is_empty() {
                return Err("expected an address or a name of this machine".into());
            }
            typed.bind = Some(host.to_owned());
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Persist,
        short: None,
        long: "persist",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Server: serve one client after another, until\ninterrupted".into(),
        manual: |_| {
            "For a server: serve one client after another, until a signal ends it. A failed run \
             is reported and does not end the server."
        },
        set: |typed, _| {
            typed.persist = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Timeout,
        short: None,
        long: "timeout",
        value: Some(Value::new("TIME", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            let in_a_job = time_text(LIMIT_IN_A_JOB);
            format!(
                "Server: fail if no client comes within this time,\n\
                 such as 90 (seconds) or 10m; 0: no limit\n\
                 (default: {in_a_job} in a batch job, otherwise no limit)"
            )
        },
        manual: |_| {
            "For a server: how long to wait for a client. When the time is over, the server ends \
             with exit status 1. With `--persist` this holds for each wait between two clients. \
             TIME is in seconds, or has one of the units ms, s and m; 0 means no limit. In a \
             batch job of Slurm, PBS or Flux the default is 5 minutes, so that a server without \
             a client does not hold the nodes of the job; elsewhere there is no limit."
        },
        set: |typed, value| {
            let timeout = number::time(text(value)?, Duration::ZERO..=MAX_TIMEOUT)?;
            typed.timeout = Some(timeout);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::PortFile,
        short: None,
        long: "port-file",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Server: write the port to FILE when clients can\n\
             connect; the file is removed at the end"
                .into()
        },
        manual: |_| {
            "For a server, mainly with `-p 0`: write the port number, one line, to FILE as soon as \
             clients can connect. The file appears complete or not at all, so that a script may \
             wait for it; the server removes it when it ends, unless another server has replaced \
             it since. On a shared file system, a client on another node can read it."
        },
        set: |typed, value| {
            typed.port_file = Some(file(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::AnyJob,
        short: None,
        long: "any-job",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Measure with a peer in another batch job; one side\nis enough".into(),
        manual: |_| {
            "Measure with a peer in another batch job of Slurm, PBS or Flux. Without this option, \
             two processes in different jobs refuse each other, so that a client cannot meet a \
             server that an earlier job has left behind. It is enough on one side. A process \
             outside of a job, or a legacy tool, is never refused for its job."
        },
        set: |typed, _| {
            typed.any_job = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Token,
        short: None,
        long: "token",
        value: Some(Value::new("TEXT", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Measure only with a peer that has the same token;\n\
             other users see options, but not the environment\n\
             (default: CXIDIAG_TOKEN)"
                .into()
        },
        manual: |_| {
            "Measure only with a peer that has the same token. If one side has a token, both must \
             have it; legacy tools have none. Other users of the machine can read options in the \
             list of processes: set the environment variable **CXIDIAG_TOKEN** instead where that \
             matters. The sides exchange salted hashes (HMAC-SHA256), never the token itself. A \
             token prevents mistakes; it does not encrypt or authenticate what follows."
        },
        set: |typed, value| {
            let token = Token::new(value).ok_or("expected at least one character")?;
            typed.token = Some(token);
            Ok(())
        },
    },
];
