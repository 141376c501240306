//! `devices`: lists the NICs and who may use them (docs/devices.md).

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};

use super::output::{Destinations, json_entry};
use crate::backend;
use crate::cli::parser::{hint_before, with_optional_value};
use crate::cli::usage::{Completion, Entry, Usage, Value};
use crate::cli::values::place;
use crate::device::{DeviceName, LIBCXI_VARIABLE, LibraryFile};
use crate::error::Failure;
use crate::error::invalid;
use crate::machine::Machine;
use crate::plan::outputs::Place;
use crate::report::devices::{self, Inventory};

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag devices".into(),
        about: "List the NICs of this machine, and who may use them",
        synopsis: vec![("cxidiag devices [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without \
                          DEVICE, all\nNICs are listed, one to a line.",
        options: vec![
            Entry {
                short: None,
                long: "verbose",
                value: None,
                help: "Print all that is known of each NIC, as for DEVICE".into(),
                manual: "Print all that is known of each NIC, also without *DEVICE*.",
            },
            json_entry(),
            Entry {
                short: None,
                long: "libcxi",
                value: Some(Value::new("PATH", Completion::Files)),
                help: format!(
                    "Library to load for hardware (default:\n${LIBCXI_VARIABLE}, else libcxi.so.1)"
                ),
                manual: "The library to load for cxiN devices.",
            },
            Entry::help(),
            Entry::version(),
        ],
        remarks: vec!["Exit status 1 if a NIC cannot be opened."],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, or a NIC that cannot be opened.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    let destinations = Destinations::open(asked.json.as_ref())?;
    let machine = Machine::this();
    let (found, failure) = backend::devices(&asked.devices, asked.libcxi.as_ref(), &machine);
    let inventory = Inventory::of(found, failure, &machine);
    destinations.write(&inventory, |text, inventory| {
        if asked.devices.is_empty() && inventory.has_software_alone() {
            text.extend(b"No Cassini hardware on this machine; software NICs:\n\n");
        }
        if asked.verbose || !asked.devices.is_empty() {
            devices::blocks(text, inventory)
        } else {
            devices::overview(text, inventory)
        }
    })?;
    inventory.result()
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    devices: Vec<DeviceName>,
    verbose: bool,
    json: Option<Place>,
    libcxi: Option<LibraryFile>,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let json = with_optional_value("json");
    let libcxi = Arg::new("libcxi")
        .long("libcxi")
        .value_parser(value_parser!(PathBuf));
    let verbose = Arg::new("verbose")
        .long("verbose")
        .action(ArgAction::SetTrue);
    let declared = [verbose, json, libcxi, Arg::new("DEVICE").num_args(0..)];
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let devices = matches
        .get_many::<String>("DEVICE")
        .into_iter()
        .flatten()
        .map(|name| {
            name.parse().map_err(|why: &str| {
                let hint = hint_before(name.as_ref(), arguments, ["json"].into_iter());
                Failure::usage(format!("invalid device '{name}': {why}")).with_hint_if(hint)
            })
        })
        .collect::<Result<_, _>>()?;
    let json = matches
        .get_one::<OsString>("json")
        .map(|value| {
            let told = |allowed| Failure::usage(invalid("json", value.display(), allowed));
            place(value).map_err(told)
        })
        .transpose()?;
    let libcxi = match matches.get_one::<PathBuf>("libcxi") {
        Some(path) if path.as_os_str().is_empty() => {
            return Err(Failure::usage(invalid("libcxi", "", "expected a file")));
        }
        Some(path) => Some(LibraryFile::new(path.clone(), "--libcxi")),
        None => env::var_os(LIBCXI_VARIABLE)
            .filter(|path| !path.is_empty())
            .map(|path| LibraryFile::new(path.into(), LIBCXI_VARIABLE)),
    };
    Ok(Some(Asked {
        devices,
        verbose: matches.get_flag("verbose"),
        json,
        libcxi,
    }))
}
