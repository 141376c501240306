//! The options of the control connection: of both sides, its port, and who the peer may be; of a
//! client only; of a server only.

use std::time::Duration;

use cli::usage::{Completion, Value};
use cli::values::file;
use facts::number::{self, time_text, within};
use facts::token::Token;

use crate::options::tool_option::{Def, PEER, ToolOption, process};
use crate::role::DEFAULT_CONNECT_LIMIT;
use crate::typed::PeerDevice;
use crate::{DEFAULT_PORT, LIMIT_IN_A_JOB};

/// The options of both sides, in the order of the help text.
pub(super) const BOTH_SIDES: &[ToolOption] = &[
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

/// Longest wait that a user can ask for: a week.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Description of valid values of `--peer-device`, for messages.
const ALLOWED: &str = "expected auto, cxiN (hardware) or soft0 to soft99 (software NIC)";

/// Shortest time limit for a connection.
const SHORTEST_LIMIT: Duration = Duration::from_millis(1);

/// The options of a client only, in the order of the help text.
pub(super) const CLIENT: &[ToolOption] = &[
    process(PEER, |_| {
        Def::text("peer-device", "DEV|auto", |typed, value| {
            typed.peer_device = Some(match value {
                "auto" => PeerDevice::Auto,
                name => PeerDevice::Named(name.parse().map_err(|_| ALLOWED)?),
            });
            Ok(())
        })
        .completed_by(Completion::Devices)
        .explained(
            "NIC of the server, where cxidiag serve runs; auto: the one with the name of \
             --device (default: the server chooses)\n\n\
             A server of one tool has one NIC: the client fails if it is another one.",
        )
    }),
    process(PEER, |_| {
        Def::time("wait", Duration::ZERO..=LONGEST_WAIT, |typed| &mut typed.wait).explained(
            "Time to keep trying if no server listens or the server is busy, such as 30s \
             (default: 0)\n\n\
             TIME is in seconds without a unit. A client of 'cxidiag serve' waits for its turn \
             without a limit, or for TIME if it is given.",
        )
    }),
    process(PEER, |_| {
        let default = time_text(DEFAULT_CONNECT_LIMIT);
        let text = format!(
            "Time to wait for a connection to each address of the server (default: \
             {default})\n\n\
             TIME is in seconds without a unit."
        );
        Def::time("connect-timeout", SHORTEST_LIMIT..=LONGEST_WAIT, |typed| {
            &mut typed.connect_timeout
        })
        .explained(text)
    }),
];

/// Longest `--timeout`: a week.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The options of a server only, in the order of the help text.
pub(super) const SERVER: &[ToolOption] = &[
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
