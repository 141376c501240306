//! The options of a server only.

use std::time::Duration;

use super::tool_option::{Def, PEER, ToolOption, process};
use crate::LIMIT_IN_A_JOB;
use cli::usage::{Completion, Value};
use cli::values::file;
use facts::number::{self, time_text};

/// Longest `--timeout`: a week.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    process(PEER, |_| {
        Def::text("bind", "ADDR", |typed, host| {
            if host.is_empty() {
                return Err("expected an address or a name of this machine".into());
            }
            typed.bind = Some(host.to_owned());
            Ok(())
        })
        .explained(
            "Address or name of this machine to listen on (default: all, IPv4 and IPv6)\n\n\
             For a server.",
        )
    }),
    process(PEER, |_| {
        Def::switch("persist", |typed| typed.persist = true).explained(
            "Serve one client after another, until interrupted\n\n\
             For a server. SIGTERM, which service managers send, is the regular end: exit status \
             0. A failed run is reported and does not end the server. Clients that come during a \
             run are told that the server is busy.",
        )
    }),
    process(PEER, |_| {
        let in_a_job = time_text(LIMIT_IN_A_JOB);
        let text = format!(
            "Fail if no client comes within this time, such as 90 (seconds) or 10m; 0: no \
             limit (default: {in_a_job} in a batch job, otherwise no limit)\n\n\
             For a server. With --persist this holds for each wait between two clients. TIME \
             is in seconds, or has one of the units ms, s and m. The limit in a batch job of \
             Slurm, PBS or Flux keeps a server without a client from holding the nodes of the \
             job."
        );
        Def::text("timeout", "TIME", |typed, value| {
            let timeout = number::time(value, Duration::ZERO..=MAX_TIMEOUT)?;
            typed.timeout = Some(timeout);
            Ok(())
        })
        .explained(text)
    }),
    process(PEER, |_| {
        Def::new("port-file", Some(Value::new("FILE", Completion::Files)), |typed, value| {
            typed.port_file = Some(file(value)?);
            Ok(())
        })
        .explained(
            "Write the port to FILE, which exists while clients can connect\n\n\
             For a server, mainly with '-p 0'. The file appears complete or not at all, so that a \
             script may wait for it. A file of an earlier server is removed at the start. The \
             server removes its own when it closes the port: without --persist when it has found \
             its client, with it at the end; not if another server has replaced it since. On a \
             shared file system, a client on another node can read it.",
        )
    }),
];
