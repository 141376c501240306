//! The options of a client only.

use super::{Governs, OptionDef};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::text;
use crate::number::within;
use crate::plan::DEFAULT_CONNECT_LIMIT;
use crate::tool::Opt;

/// Longest wait that a user can ask for, in seconds: a week.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
        id: Opt::Wait,
        short: None,
        long: "wait",
        value: Some(Value::new("SEC", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Client: seconds to keep trying if no server listens\n\
             or the server is busy (default: 0)"
                .into()
        },
        manual: |_| {
            "For a client: the number of seconds to keep trying if no server listens yet or the \
             server is busy with another client."
        },
        set: |typed, value| {
            typed.wait = Some(within(text(value)?, 0..=MAX_SECONDS)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::ConnectTimeout,
        short: None,
        long: "connect-timeout",
        value: Some(Value::new("SEC", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            let default = DEFAULT_CONNECT_LIMIT.as_secs();
            format!(
                "Client: seconds to wait for a connection to each\n\
                 address of the server (default: {default})"
            )
        },
        manual: |_| {
            "For a client: the number of seconds to wait for each address of the server to accept \
             the connection."
        },
        set: |typed, value| {
            typed.connect_timeout = Some(within(text(value)?, 1..=MAX_SECONDS)? as u32);
            Ok(())
        },
    },
];
