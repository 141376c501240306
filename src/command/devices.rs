//! `devices`: lists the NICs and who may use them (docs/devices.md).

use std::ffi::OsString;

use clap::{Arg, ArgAction};

use super::output::{Destinations, json_entry, json_place};
use facts::device::{DeviceName, LibraryFile};
use facts::error::Failure;
use node::backend;
use node::machine::Machine;
use plan::cli::parser::with_optional_value;
use plan::cli::usage::{Completion, Entry, Usage};
use plan::outputs::Place;
use report::devices::{self, Inventory};

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
            super::libcxi_entry(),
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
    let verbose = Arg::new("verbose")
        .long("verbose")
        .action(ArgAction::SetTrue);
    let declared = [
        verbose,
        json,
        super::libcxi(),
        Arg::new("DEVICE").num_args(0..),
    ];
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let devices = super::devices_named(&matches, arguments)?;
    let json = json_place(matches.get_one("json"))?;
    Ok(Some(Asked {
        devices,
        verbose: matches.get_flag("verbose"),
        json,
        libcxi: super::library(&matches)?,
    }))
}
