//! Hardware library or software NIC: the only file that knows both.

use std::ffi::OsStr;
use std::path::Path;

use cxi::{Device, Library};

use crate::advice;
use crate::device::{DeviceKind, DeviceName};
use crate::error::Failure;
use crate::plan::Plan;

/// The library of the first libcxi release and of all that followed.
const LIBCXI: &str = "libcxi.so.1";

/// Where the driver shows its NICs.
const SYSFS: &str = "/sys/class/cxi";

/// Opens the device of the plan.
pub fn open(plan: &Plan) -> Result<Device, Failure> {
    let library = match plan.device.kind {
        DeviceKind::Software => {
            softnic::check_environment().map_err(Failure::usage)?;
            Library::from_api(softnic::api())
        }
        DeviceKind::Hardware => load(plan)?,
    };
    Device::open(&library, plan.device.index)
        .map_err(|error| cannot_open(&library, plan.device, error))
}

fn load(plan: &Plan) -> Result<Library, Failure> {
    let path = plan
        .libcxi
        .as_deref()
        .map_or(OsStr::new(LIBCXI), Path::as_os_str);
    Library::load(path).map_err(|error| {
        let failure = Failure::environment(format!(
            "cannot open device {}: no libcxi: {error}",
            plan.device
        ));
        failure.with_hint(match hardware_is_missing() {
            Some(hint) => hint,
            None => "install libcxi, or name the library with --libcxi=PATH".into(),
        })
    })
}

fn cannot_open(library: &Library, device: DeviceName, error: cxi::Error) -> Failure {
    let failure = advice::refused(&format!("open device {device}"), error);
    if device.kind == DeviceKind::Software {
        return failure.with_hint(
            "software NICs meet in the directory $CXIDIAG_FABRIC_DIR, or else /dev/shm/cxidiag-UID: it must be yours, and nobody else's to write to",
        );
    }
    if error.errno() != libc::ENOENT {
        return failure;
    }
    if let Some(hint) = hardware_is_missing() {
        return failure.with_hint(hint);
    }
    let names: Vec<String> = cxi::devices(library)
        .into_iter()
        .flatten()
        .map(|info| info.name)
        .collect();
    failure.with_hint(match names.as_slice() {
        [] => {
            "no device can be opened here: is the driver loaded (lsmod), is /dev/cxi0 there?".into()
        }
        names => format!("devices of this machine: {}", names.join(" ")),
    })
}

fn hardware_is_missing() -> Option<String> {
    let missing = !Path::new(SYSFS).exists();
    missing.then(|| {
        format!("this machine has no Slingshot NIC or its driver is not loaded (no {SYSFS}); try the built-in software NIC with --device=soft0")
    })
}
