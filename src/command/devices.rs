//! `devices`: lists the NICs and who may use them (docs/devices.md).

use std::ffi::OsString;

use super::arguments;
use super::output;
use facts::device::{DeviceName, LibraryFile};
use facts::error::Failure;
use node::backend;
use node::machine::Machine;
use plan::cli::definition::OptionDef;
use plan::cli::usage::{Completion, Usage};
use plan::outputs::Place;
use report::devices::{self, Inventory};
use report::documents::Documents;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag devices".into(),
        about: "List the NICs of this machine, and who may use them",
        synopsis: vec![("cxidiag devices [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without \
                          DEVICE, all\nNICs are listed, one to a line.",
        options: arguments::entries(options()),
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
    let Some(request) = parse(&arguments)? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let machine = Machine::this();
    let (found, failure) = backend::devices(&request.devices, request.libcxi.as_ref(), &machine);
    let inventory = Inventory::of(found, failure, &machine);
    output::write(&documents, &inventory, |text, inventory| {
        if request.devices.is_empty() && inventory.has_software_alone() {
            text.extend(b"No Cassini hardware on this machine; software NICs:\n\n");
        }
        if request.verbose || !request.devices.is_empty() {
            devices::blocks(text, inventory)
        } else {
            devices::overview(text, inventory)
        }
    })?;
    inventory.result()
}

/// What the arguments ask for.
#[derive(Debug, Default)]
struct DevicesRequest {
    devices: Vec<DeviceName>,
    verbose: bool,
    json: Option<Place>,
    libcxi: Option<LibraryFile>,
}

fn options() -> Vec<OptionDef<DevicesRequest>> {
    vec![
        OptionDef::switch("verbose", |request: &mut DevicesRequest| {
            request.verbose = true
        })
        .explained(
            "Print all that is known of each NIC, as for DEVICE",
            "Print all that is known of each NIC, also without *DEVICE*.",
        ),
        output::json().within(|request| &mut request.json),
        arguments::libcxi().within(|request| &mut request.libcxi),
    ]
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<DevicesRequest>, Failure> {
    let mut request = DevicesRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    request.devices = arguments::devices_named(words, arguments)?;
    request.libcxi = request.libcxi.or_else(arguments::library_of_environment);
    Ok(Some(request))
}
