//! `devices`: lists the NICs and who may use them (docs/devices.md).

use std::ffi::OsString;
use std::io::Write;
use std::sync::LazyLock;

use clap::{Args, Command};

use crate::inventory::{self, Inventory};
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived, output};
use facts::device::{DeviceName, LibraryFile};
use facts::error::Failure;
use node::backend;
use node::machine::Machine;
use page::destination::Place;
use page::documents::Documents;
use page::page::Page;
use topology::Topology;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag devices".into(),
        about: "List the NICs of this machine, and who may use them",
        synopsis: vec![("cxidiag devices [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without \
                          DEVICE, all\nNICs are listed, one to a line.",
        options: derived::entries(&COMMAND),
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
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    if request.topology {
        return print_topology();
    }
    let documents = Documents::open_json(request.json.as_ref())?;
    let machine = Machine::this();
    let (found, failure) = backend::devices(&request.devices, request.libcxi.as_ref(), &machine);
    let inventory = Inventory::of(found, failure, &machine);
    let has_blocks = request.verbose || !request.devices.is_empty();
    let is_remarkable = request.devices.is_empty() && inventory.has_software_alone();
    output::write(&documents, &inventory, false, |inventory| {
        let mut page = Page::default();
        if is_remarkable {
            page.line("No Cassini hardware on this machine; software NICs:\n");
        }
        page.and(if has_blocks {
            inventory::blocks(inventory)
        } else {
            inventory::overview(inventory)
        })
    })?;
    inventory.result()
}

/// Prints the fabric of the software NICs.
fn print_topology() -> Result<(), Failure> {
    let value = std::env::var_os(topology::VARIABLE).filter(|value| !value.is_empty());
    let Some(value) = value else {
        return Err(Failure::usage(format!(
            "--topology: {} names no topology of software NICs",
            topology::VARIABLE
        )));
    };
    let topology = Topology::from_variable(&value.to_string_lossy());
    let topology =
        topology.map_err(|error| Failure::usage(format!("{}={error}", topology::VARIABLE)))?;
    Documents::default().print(|text| writeln!(text, "{topology}"))
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<DevicesRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
struct DevicesRequest {
    #[arg(short, long = "device", help = arguments::DEVICES, value_name = "DEV,...", value_delimiter = ',')]
    #[arg(add = Completion::Devices)]
    devices: Vec<DeviceName>,

    /// Print all that is known of each NIC, as for DEVICE
    #[arg(long)]
    verbose: bool,

    /// Print the fabric of CXIDIAG_TOPOLOGY
    ///
    /// It has the groups, switches, NICs and cables of the software NICs, with their rates and
    /// faults.
    #[arg(long)]
    topology: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    json: Option<Place>,

    #[arg(long, help = arguments::LIBCXI, value_name = "PATH")]
    #[arg(value_parser = arguments::library(), add = Completion::Files)]
    libcxi: Option<LibraryFile>,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<DevicesRequest>, Failure> {
    let typed = TypedArguments::<DevicesRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { mut request, words, .. }) = typed else { return Ok(None) };
    arguments::add_devices(&mut request.devices, words, arguments)?;
    if request.topology && (request.json.is_some() || !request.devices.is_empty()) {
        let other = if request.json.is_some() { "--json" } else { "DEVICE" };
        return Err(Failure::usage(format!("--topology: not allowed with {other}")));
    }
    request.libcxi = request.libcxi.or_else(arguments::library_of_environment);
    Ok(Some(request))
}
