//! The options of a client only.

use std::time::Duration;

use super::tool_option::{Def, PEER, ToolOption, process};
use crate::role::DEFAULT_CONNECT_LIMIT;
use crate::typed::PeerDevice;
use cli::usage::Completion;
use facts::number::time_text;

/// Longest wait that a user can ask for: a week.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Description of valid values of `--peer-device`, for messages.
const ALLOWED: &str = "expected auto, cxiN (hardware) or soft0 to soft99 (software NIC)";

/// Shortest time limit for a connection.
const SHORTEST_LIMIT: Duration = Duration::from_millis(1);

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
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
