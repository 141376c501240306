//! What `check` takes, and the settings of a site for all checks of a machine, in a file with a
//! line for each.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::sync::LazyLock;

use clap::Command;

use super::request::{COMMAND, CheckRequest, SiteSettings};
use cli::arguments::{self, TypedArguments};
use cli::derived;
use cli::parser::{self, Parsed};
use cli::usage::{Completion, Usage};
use facts::error::{Context, Failure, invalid};
use node::machine::Machine;
use node::reading;

/// Options about the NICs that are checked, and the nodes.
const OF_CHECK: [&str; 10] = [
    "no-traffic",
    "quick",
    "window",
    "link-speed",
    "expect-nics",
    "ranks",
    "hosts",
    "meeting-point",
    "bad-nodes",
    "csv",
];

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag check".into(),
        about: "Check the health of NICs, with a write and a read",
        synopsis: vec![
            ("cxidiag check [DEVICE...] [OPTIONS]".into(), ""),
            ("cxidiag check --hosts=LIST [DEVICE...] [OPTIONS]".into(), ""),
            ("cxidiag check --job[=PID] [OPTIONS] [-- COMMAND]".into(), ""),
        ],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, the\n\
                          NICs of the job (SLINGSHOT_DEVICES) are checked, else all of this machine.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "The first line is 'OK DEVICE...', 'FAIL CODE DEVICE: what' or\n\
             'UNDECIDED untested DEVICE: why'. Exit status: 0 passed, 3 an item is bad or\n\
             a NIC is missing, 4 nothing is bad but a NIC could not be tested, 1 the check\n\
             itself failed, 2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<CheckRequest>, Failure> {
    let Some(mut typed) = TypedArguments::<CheckRequest>::read(&usage(), &COMMAND, arguments)?
    else {
        return Ok(None);
    };
    let words = std::mem::take(&mut typed.words);
    if typed.request.job.is_some() {
        let refusal = excluded(&typed).map(Failure::usage);
        let request = CheckRequest { command: words, ..typed.request };
        return refusal.map_or(Ok(Some(request)), Err);
    }
    arguments::add_devices(&mut typed.request.devices, words, arguments)?;
    if let Some(why) = excluded(&typed) {
        return Err(Failure::usage(why));
    }
    let request = typed.request;
    match request.port {
        Some(port) if request.hosts.is_none() => {
            Err(Failure::usage(invalid("port", port, "it is for --hosts")))
        }
        _ => {
            let libcxi = request.libcxi.or_else(arguments::library_of_environment);
            Ok(Some(CheckRequest { libcxi, ..request }))
        }
    }
}

/// Returns what is wrong with the first option that has no effect beside others, if there is one.
fn excluded(typed: &TypedArguments<CheckRequest>) -> Option<String> {
    let request = &typed.request;
    let given = |longs: &[&'static str]| longs.iter().find(|long| typed.is_given(long)).copied();
    if request.is_quick && request.window.is_some() {
        return Some("--window has no effect with --quick, which counts no errors".into());
    }
    if request.stress.is_some() {
        let why = "has no effect with --stress, which loads the NICs of this machine";
        return given(&OF_CHECK).map(|long| format!("--{long} {why}"));
    }
    if request.job.is_some() {
        let why = "has no effect with --job, which checks settings";
        let own = ["device", "libcxi", "interval", "cpu", "busy-ok"];
        let others = OF_CHECK.into_iter().filter(|long| *long != "meeting-point");
        let others: Vec<&str> = own.into_iter().chain(others).collect();
        return given(&others).map(|long| format!("--{long} {why}"));
    }
    if let Some(long) = given(&["interval", "cpu"]) {
        return Some(format!("--{long} needs --stress"));
    }
    request.hosts.as_ref()?;
    let why = "has no effect with --hosts, whose servers check quickly";
    let found = given(&["window", "busy-ok", "no-traffic", "local", "ranks", "meeting-point"]);
    found.map(|long| format!("--{long} {why}"))
}

/// The file, named without the leading slash.
const FILE: &str = "etc/cxidiag/check.conf";

static SITE_COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<SiteSettings>);

/// Returns what the file asks for; nothing without the file.
///
/// # Errors
///
/// A file that cannot be read, and a line that is not an option with a valid value.
pub fn read(machine: &Machine) -> Result<SiteSettings, Failure> {
    let path = machine.root().join(FILE);
    let text = match reading::text(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SiteSettings::default()),
        text => text.environment(format_args!("cannot read {}", path.display()))?,
    };
    request(&text).map_err(|failure| failure.context(path.display()))
}

/// Returns the speed that links must have, in Gb/s, if the file names it.
///
/// # Errors
///
/// A file that cannot be read, and a line that is no setting.
pub fn link_speed(machine: &Machine) -> Result<Option<f64>, Failure> {
    Ok(read(machine)?.link_gigabits)
}

fn request(text: &str) -> Result<SiteSettings, Failure> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let argument = |line: &str| match line.split_once('=') {
        Some((name, value)) => format!("--{}={}", name.trim(), value.trim()).into(),
        None => format!("--{line}").into(),
    };
    let arguments: Vec<_> = lines.map(argument).collect();
    let declared = derived::options(&SITE_COMMAND).map(|option| option.declared());
    match parser::read(declared, &arguments, |_| None)? {
        Parsed::Matches(matches) => derived::read(&SITE_COMMAND, &matches),
        Parsed::Help { .. } | Parsed::Version => Ok(SiteSettings::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_for_each_setting() {
        let found = request("# of this site\n\nexpect-nics=4\n  link-speed=100\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        let found = request("\u{feff} expect-nics = 4 \r\nlink-speed =100\r\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        for wrong in ["expect-nics=0", "expect-nics", "quick", "json=/tmp/x", "cxi0", "help", "-"] {
            let failure = request(wrong).unwrap_err();
            assert_eq!(failure.status(), 2, "{wrong}: {failure}");
        }
    }
}
