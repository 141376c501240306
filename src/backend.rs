//! Hardware library or software NIC: the only file that knows both.

use std::ffi::OsStr;
use std::path::Path;

use cxi::{Device, Library};

use crate::advice::{self, Situation};
use crate::device::{DeviceKind, DeviceName};
use crate::error::Failure;
use crate::plan::Plan;

/// The library of the first libcxi release and of all that followed.
const LIBCXI: &str = "libcxi.so.1";

/// Where the driver shows its NICs.
const SYSFS: &str = "/sys/class/cxi";

/// Checks what the user says about the device of the plan by environment variables.
pub fn check(plan: &Plan) -> Result<(), Failure> {
    match plan.device.kind {
        DeviceKind::Software => softnic::check_environment().map_err(Failure::usage),
        DeviceKind::Hardware => Ok(()),
    }
}

/// Opens the device of the plan.
pub fn open(plan: &Plan) -> Result<Device, Failure> {
    let library = match plan.device.kind {
        DeviceKind::Software => Library::from_api(softnic::api()),
        DeviceKind::Hardware => load(plan)?,
    };
    Device::open(&library, plan.device.index)
        .map_err(|error| cannot_open(&library, plan.device, error))
}

fn load(plan: &Plan) -> Result<Library, Failure> {
    let path = plan
        .libcxi
        .as_ref()
        .map_or(OsStr::new(LIBCXI), |library| library.path.as_os_str());
    Library::load(path).map_err(|error| {
        let situation = match hardware_is_missing() {
            true => Situation::NoHardware,
            false => Situation::NoLibrary,
        };
        // A library that the user has named is their choice, whatever this machine has.
        match &plan.libcxi {
            Some(library) => Failure::environment(format!(
                "cannot open device {}: {}: {error}",
                plan.device,
                library.to_os_string().display()
            ))
            .with_hint("it has to be a libcxi.so.1 of this machine's architecture"),
            None => advice::found(
                situation,
                format!("cannot open device {}: no libcxi: {error}", plan.device),
            ),
        }
    })
}

fn cannot_open(library: &Library, device: DeviceName, error: cxi::Error) -> Failure {
    let message = format!("cannot open device {device}: {error}");
    if device.kind == DeviceKind::Software {
        return advice::found(Situation::NoFabric, message);
    }
    if error.errno() != libc::ENOENT {
        return advice::refused(&format!("open device {device}"), error);
    }
    if hardware_is_missing() {
        return advice::found(Situation::NoHardware, message);
    }
    let names: Vec<String> = cxi::devices(library)
        .into_iter()
        .flatten()
        .map(|info| info.name)
        .collect();
    match names.as_slice() {
        [] => advice::refused(&format!("open device {device}"), error),
        names => Failure::environment(message)
            .with_hint(format!("devices of this machine: {}", names.join(" "))),
    }
}

/// Whether the driver shows no NIC at all.
fn hardware_is_missing() -> bool {
    !Path::new(SYSFS).exists()
}
