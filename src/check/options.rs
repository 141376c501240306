//! What `check` takes.

use std::ffi::OsString;

use super::request::{COMMAND, CheckRequest};
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived};
use facts::error::{Failure, invalid};

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
