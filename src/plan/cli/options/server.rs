//! The options of a server only.

use std::time::Duration;

use super::tool_option::{Governs, ToolOption};
use crate::LIMIT_IN_A_JOB;
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{file, text};
use crate::tool::Opt;
use facts::number::{self, time_text};

/// Longest `--timeout`: a week.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
        id: Opt::Bind,
        short: None,
        long: "bind",
        value: Some(Value::new("ADDR", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        text: |_| {
            "Address or name of this machine to listen on (default: all, IPv4 and IPv6)\n\n\
             For a server."
                .into()
        },
        set: |typed, value| {
            let host = text(value)?;
            if host.is_empty() {
                return Err("expected an address or a name of this machine".into());
            }
            typed.bind = Some(host.to_owned());
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Persist,
        short: None,
        long: "persist",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        text: |_| {
            "Serve one client after another, until interrupted\n\n\
             For a server. SIGTERM, which service managers send, is the regular end: exit status \
             0. A failed run is reported and does not end the server. Clients that come during a \
             run are told that the server is busy."
                .into()
        },
        set: |typed, _| {
            typed.persist = true;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Timeout,
        short: None,
        long: "timeout",
        value: Some(Value::new("TIME", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        text: |_| {
            let in_a_job = time_text(LIMIT_IN_A_JOB);
            format!(
                "Fail if no client comes within this time, such as 90 (seconds) or 10m; 0: no \
                 limit (default: {in_a_job} in a batch job, otherwise no limit)\n\n\
                 For a server. With --persist this holds for each wait between two clients. TIME \
                 is in seconds, or has one of the units ms, s and m. The limit in a batch job of \
                 Slurm, PBS or Flux keeps a server without a client from holding the nodes of the \
                 job."
            )
        },
        set: |typed, value| {
            let timeout = number::time(text(value)?, Duration::ZERO..=MAX_TIMEOUT)?;
            typed.timeout = Some(timeout);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::PortFile,
        short: None,
        long: "port-file",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        text: |_| {
            "Write the port to FILE, which exists while clients can connect\n\n\
             For a server, mainly with '-p 0'. The file appears complete or not at all, so that a \
             script may wait for it. A file of an earlier server is removed at the start. The \
             server removes its own when it closes the port: without --persist when it has found \
             its client, with it at the end; not if another server has replaced it since. On a \
             shared file system, a client on another node can read it."
                .into()
        },
        set: |typed, value| {
            typed.port_file = Some(file(value)?);
            Ok(())
        },
    },
];
