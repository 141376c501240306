//! The address of the server among the arguments of a tool.
//!
//! `--json out.json`, with a blank instead of `=`, would make the file the address: a client would
//! try to connect to it, and a server would become a client. A word is therefore refused if it is
//! clearly a file: it contains a slash, ends in the suffix of an output, or follows an option whose
//! value was omitted and names an existing file. Elsewhere a file may have the name of a host. The
//! name of a NIC is refused, too.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::options;
use crate::tool::Tool;
use crate::typed::Typed;
use cli::parser::{device_hint, hint_before, meant};
use facts::error::Failure;

/// Suffixes of the files that results are written to, and the options that write them.
const SUFFIXES: [(&str, &str); 4] =
    [("json", "json"), ("jsonl", "jsonl"), ("csv", "csv"), ("hlog", "hdr-log")];

/// Reads the address, if there is one; `words` are the arguments that are no options, in order.
///
/// # Errors
///
/// A word that is no host name, or more than one word.
pub(super) fn read<'a>(
    tool: &Tool,
    mut words: impl Iterator<Item = &'a OsString>,
    arguments: &[OsString],
    typed: &mut Typed,
) -> Result<(), Failure> {
    let Some(word) = words.next() else {
        return Ok(());
    };
    let hint = |word: &OsStr| {
        let entries = options::of(tool).map(|(_, definition)| definition.entry);
        let optional = entries.filter(|entry| entry.value.is_some_and(|value| value.is_optional));
        hint_before(word, arguments, optional.map(|entry| entry.long))
    };
    if !tool.has_peer() {
        let message =
            format!("unexpected argument '{}': {} has no server", word.display(), tool.name);
        return Err(Failure::usage(message).with_hint_if(hint(word).or_else(|| device_hint(word))));
    }
    if let Some(surplus) = words.next() {
        let failure = Failure::usage(format!(
            "unexpected argument '{}': one server address at most (see --help)",
            surplus.display()
        ));
        let hints = hint(surplus).or_else(|| hint(word));
        let hints = hints.or_else(|| device_hint(surplus)).or_else(|| device_hint(word));
        return Err(failure.with_hint_if(hints));
    }
    let host = match word.to_str() {
        Some(host) if !host.is_empty() => host,
        _ => return Err(refused(word, "expected a host name or an IP address")),
    };
    if let Some(hint) = device_hint(word) {
        let allowed = "expected a host name or an IP address, not a NIC";
        return Err(refused(word, allowed).with_hint(hint));
    }
    let suffix = option_of_suffix(host);
    let hint = hint(word);
    if host.contains(['/', ',']) || suffix.is_some() || hint.is_some() && Path::new(host).exists() {
        let writer =
            suffix.filter(|long| options::of(tool).any(|(_, own)| own.entry.long == *long));
        let failure = refused(word, "expected a host name or an IP address, not a file or a list");
        return Err(failure.with_hint_if(hint.or_else(|| Some(meant(writer?, word)))));
    }
    typed.address = Some(host.to_owned());
    typed.address_hint = hint;
    Ok(())
}

fn refused(word: &OsStr, what: &str) -> Failure {
    Failure::usage(format!("invalid address '{}': {what}", word.display()))
}

/// Returns the option that writes files with the suffix of `name`.
fn option_of_suffix(name: &str) -> Option<&'static str> {
    let (_, suffix) = name.rsplit_once('.')?;
    let mut suffixes = SUFFIXES.iter();
    let (_, option) = suffixes.find(|(own, _)| own.eq_ignore_ascii_case(suffix))?;
    Some(option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use crate::command_line::Request;
    use crate::tools::TOOLS;

    /// Returns the address in the arguments of `tool`, or the message and the hint.
    fn address(tool: &str, arguments: &[&str]) -> Result<Option<String>, (String, Option<String>)> {
        let tool = TOOLS.iter().find(|own| own.name == tool).unwrap();
        match command_line::parse(tool, arguments.iter().map(OsString::from).collect()) {
            Ok(Request::Run(typed)) => Ok(typed.address),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err((refusal.failure.message(), refusal.failure.hint)),
        }
    }

    #[test]
    fn refuses_files_and_suggests_the_option_that_writes_them() {
        for (arguments, file, option) in [
            (&["--json", "out.json"][..], "out.json", Some("json")),
            (&["--csv", "OUT.JSON"], "OUT.JSON", Some("csv")),
            (&["out.Csv", "--json"], "out.Csv", Some("csv")),
            (&["--cs", "-d", "soft0", "a.hlog"], "a.hlog", Some("hdr-log")),
            (&["--json", "results/out"], "results/out", Some("json")),
            (&["-n", "5", "/tmp/x"], "/tmp/x", None),
            // This file exists.
            (&["--json", "Cargo.toml"], "Cargo.toml", Some("json")),
        ] {
            let (message, hint) = address("write-lat", arguments).unwrap_err();
            let expected = format!(
                "invalid address '{file}': expected a host name or an IP address, not a file or a list"
            );
            assert_eq!(message, expected);
            let expected = option.map(|long| format!("did you mean --{long}={file}?"));
            assert_eq!(hint, expected, "{arguments:?}");
        }
        // Bandwidth tools write no such file.
        let (_, hint) = address("send-bw", &["a.hlog"]).unwrap_err();
        assert_eq!(hint, None);
    }

    #[test]
    fn refuses_nics_and_suggests_the_option_that_names_them() {
        for arguments in [&["cxi0"][..], &["cxi0", "node1"], &["node1", "cxi0"]] {
            let (_, hint) = address("write-lat", arguments).unwrap_err();
            assert_eq!(hint.as_deref(), Some("an option names the NIC: -d cxi0"));
        }
        assert_eq!(address("write-lat", &["cxi0.x"]), Ok(Some("cxi0.x".into())));
    }

    #[test]
    fn accepts_hosts() {
        for arguments in [
            &["node1"][..],
            &["--json", "node1"],
            &["fe80::1%eth0"],
            &["json"],
            &["node1.example.com", "--json"],
            // A file in the current directory may have the name of a host.
            &["Cargo.toml"],
            &["--json=out", "Cargo.toml"],
        ] {
            let found = address("write-lat", arguments).unwrap();
            assert!(found.is_some(), "{arguments:?}");
        }
        assert_eq!(address("write-lat", &["--json=out.json"]), Ok(None));
    }

    #[test]
    fn suggests_value_if_there_are_two_words() {
        for arguments in [["--json", "out", "node1"], ["node1", "--json", "out"]] {
            let (message, hint) = address("write-lat", &arguments).unwrap_err();
            assert!(message.starts_with("unexpected argument '"), "{message}");
            assert_eq!(hint.as_deref(), Some("did you mean --json=out?"));
        }
    }
}
