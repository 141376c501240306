//! The options of a server only.

use super::{Governs, OptionDef};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::text;
use crate::tool::Opt;

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
];
