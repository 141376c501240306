//! Hardware library or software NIC: the only file that knows both.

use std::ffi::OsStr;
use std::path::Path;

use cxi::{Device, Library};

use crate::advice::{self, Situation};
use crate::device::{DEFAULT_DEVICE, DeviceKind, DeviceName, LibraryFile};
use crate::error::{Failure, Kind};
use crate::machine::Machine;

/// The library of the first libcxi release and of all that followed.
const LIBCXI: &str = "libcxi.so.1";

/// Where the driver shows its NICs.
const SYSFS: &str = "/sys/class/cxi";

/// Checks the environment variables that configure `device`.
pub fn check(device: DeviceName) -> Result<(), Failure> {
    match device.kind {
        DeviceKind::Software => softnic::check_environment().map_err(Failure::usage),
        DeviceKind::Hardware => Ok(()),
    }
}

/// Opens a device; `libcxi` is the library that the user has named.
pub fn open(device: DeviceName, libcxi: Option<&LibraryFile>) -> Result<Device, Failure> {
    let library = match device.kind {
        DeviceKind::Software => Library::from_api(softnic::api()),
        DeviceKind::Hardware => load(device, libcxi)?,
    };
    Device::open(&library, device.index).map_err(|error| cannot_open(&library, device, error))
}

/// A device that is there, or was asked for.
pub struct Found {
    /// Its name.
    pub name: DeviceName,
    /// The device, or why it cannot be opened.
    pub opened: Result<Device, Failure>,
}

/// The devices of this machine, opened, hardware first; or those with these `names`. Beside them, what
/// kept others from being found.
pub fn devices(
    names: &[DeviceName],
    libcxi: Option<&LibraryFile>,
    machine: &Machine,
) -> (Vec<Found>, Option<Failure>) {
    if let Err(message) = softnic::check_environment() {
        return (Vec::new(), Some(Failure::usage(message)));
    }
    let (names, failure) = match names {
        [] => {
            let (hardware, failure) = hardware(libcxi, machine);
            ([hardware, software()].concat(), failure)
        }
        names => (names.to_vec(), None),
    };
    let open = |name: DeviceName| Found {
        name,
        opened: self::open(name, libcxi),
    };
    (names.into_iter().map(open).collect(), failure)
}

/// What the driver shows, and what the library knows: it leaves out what it cannot open
/// (libcxi.md 2.3).
fn hardware(libcxi: Option<&LibraryFile>, machine: &Machine) -> (Vec<DeviceName>, Option<Failure>) {
    let mut names: Vec<DeviceName> = machine
        .cxi_devices()
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let failure = match load(DEFAULT_DEVICE, libcxi) {
        Ok(library) => {
            names.extend(listed(&library, DeviceKind::Hardware));
            None
        }
        // Each device will say so, if there is any.
        Err(failure) => Some(failure).filter(|_| libcxi.is_some() && names.is_empty()),
    };
    names.sort_by_key(|name| name.index);
    names.dedup();
    (names, failure)
}

fn software() -> Vec<DeviceName> {
    listed(&Library::from_api(softnic::api()), DeviceKind::Software)
}

fn listed(library: &Library, kind: DeviceKind) -> Vec<DeviceName> {
    let infos = cxi::devices(library).into_iter().flatten();
    infos
        .map(|info| DeviceName {
            kind,
            index: info.id,
        })
        .collect()
}

fn load(device: DeviceName, libcxi: Option<&LibraryFile>) -> Result<Library, Failure> {
    let path = libcxi.map_or(OsStr::new(LIBCXI), |library| library.path.as_os_str());
    Library::load(path).map_err(|error| {
        let failure = Failure::new(Kind::Environment, error);
        let failure = match libcxi {
            // The user's choice of a library is to be corrected, whatever this machine has.
            Some(library) => failure
                .context(library.to_os_string().display())
                .with_hint("the library must be a libcxi.so.1 for this machine's architecture"),
            None => {
                let situation = if hardware_is_missing() {
                    Situation::NoHardware
                } else {
                    Situation::NoLibrary
                };
                failure
                    .context("no libcxi")
                    .with_hint(advice::hint(situation))
            }
        };
        failure.context(format_args!("cannot open device {device}"))
    })
}

fn cannot_open(library: &Library, device: DeviceName, error: cxi::Error) -> Failure {
    let what = format!("cannot open device {device}");
    let failure = |hint| {
        Failure::new(Kind::Environment, error)
            .context(&what)
            .with_hint(hint)
    };
    if device.kind == DeviceKind::Software {
        return failure(advice::hint(Situation::NoFabric));
    }
    if error.errno() != libc::ENOENT {
        return advice::explained(error, &what);
    }
    if hardware_is_missing() {
        return failure(advice::hint(Situation::NoHardware));
    }
    let names: Vec<String> = cxi::devices(library)
        .into_iter()
        .flatten()
        .map(|info| info.name)
        .collect();
    if names.is_empty() {
        return advice::explained(error, &what);
    }
    failure(format!("devices of this machine: {}", names.join(" ")))
}

/// Whether the driver shows no NIC at all.
fn hardware_is_missing() -> bool {
    !Path::new(SYSFS).exists()
}
