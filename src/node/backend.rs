//! Hardware library or software NIC: the only file that uses both.

use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, io};

use cxi::{Device, Library};

use crate::explain;
use crate::machine::{Machine, resource_limit};
use crate::nic::files::Files;
use facts::advice::{self, Advice, Advise, Situation};
use facts::device::{DEFAULT_DEVICE, DeviceKind, DeviceName, LibraryFile};
use facts::error::{Failure, Kind, Step, not_started};

/// The command that shows software NICs to a program as hardware.
pub const WRAPPER: &str = "cxi-softnic";

/// Name of the library in all releases of libcxi.
const LIBCXI: &str = "libcxi.so.1";

/// Name of the thread that is the software NICs of a process while nothing in it polls them.
pub const SOFTWARE_NIC_THREAD: &str = "softnic";

/// Directory in which the driver shows its NICs.
const SYSFS: &str = "/sys/class/cxi";

/// Checks the environment variables that configure `device`.
///
/// # Errors
///
/// An invalid variable of the software NIC.
pub fn check(device: DeviceName) -> Result<(), Failure> {
    match device.kind {
        DeviceKind::Software => softnic::check_environment().map_err(Failure::usage),
        DeviceKind::Hardware => Ok(()),
    }
}

/// Returns what a user should know about where `device` is found: others may look elsewhere.
pub fn warning(device: DeviceName) -> Option<String> {
    match device.kind {
        DeviceKind::Software => softnic::fabric_fallback(),
        DeviceKind::Hardware => None,
    }
}

/// Opens a device; `libcxi` is the library that the user has named.
///
/// # Errors
///
/// A library that cannot be loaded, and a device that cannot be opened.
pub fn open(device: DeviceName, libcxi: Option<&LibraryFile>) -> Result<Device, Failure> {
    let library = match device.kind {
        DeviceKind::Software => {
            check_address_space()?;
            Library::from_api(softnic::api())
        }
        DeviceKind::Hardware => load(device, libcxi)?,
    };
    let opened = Device::open(&library, device.index);
    let opened = opened.map_err(|error| cannot_open(&library, device, error))?;
    let files = Files::new(Machine::this().root(), device.to_string());
    let is_virtual = device.kind == DeviceKind::Hardware && files.is_virtual_function();
    Ok(if is_virtual { opened.as_virtual_function() } else { opened })
}

/// Bytes of address space for software NICs. Inboxes of peers are mapped during a run; without room
/// for an inbox, the NIC reports RESOURCE_BUSY.
const NEEDED_ADDRESS_SPACE: u64 = 512 << 20;

/// Checks that software NICs have enough address space.
///
/// # Errors
///
/// A process with a lower limit.
fn check_address_space() -> Result<(), Failure> {
    match resource_limit("Max address space") {
        Some(limit) if limit < NEEDED_ADDRESS_SPACE => {
            let (limit, needed) = (limit >> 20, NEEDED_ADDRESS_SPACE >> 20);
            Err(Failure::environment(format!(
                "the address space is limited to {limit} MiB (ulimit -v): software NICs need \
                 {needed} MiB"
            )))
        }
        _ => Ok(()),
    }
}

/// The files that the driver of `device` shows. The files of a software NIC are a snapshot: they do
/// not change, and are removed with the last clone of the result. The counters of the NIC continue
/// while a device of the fabric is open or such files exist.
///
/// # Errors
///
/// A software NIC whose files cannot be written.
pub fn files(device: DeviceName, machine: &Machine) -> Result<Files, Failure> {
    match device.kind {
        DeviceKind::Hardware => Ok(Files::new(machine.root(), device.to_string())),
        DeviceKind::Software => snapshot(device, |_| true),
    }
}

/// Whether `device` is a software NIC, by its own name or as `cxi-softnic` shows it to programs: as
/// a device whose driver is the software NIC.
pub fn is_software(device: DeviceName, machine: &Machine) -> bool {
    match device.kind {
        DeviceKind::Software => true,
        DeviceKind::Hardware => {
            let driver = Files::new(machine.root(), device.to_string()).path("driver");
            let target = fs::read_link(driver).unwrap_or_default();
            target.file_name() == Some(softnic::DRIVER.as_ref())
        }
    }
}

/// The software NICs that a process has open, from its memory map.
pub fn mapped_software(maps: &str) -> Vec<DeviceName> {
    softnic::mapped_nics(maps).into_iter().map(DeviceName::software).collect()
}

/// Returns files with the `wanted` telemetry counters, and perhaps with others: writing all
/// counters of a software NIC takes most of the time. A NIC whose files the command of software
/// NICs shows has no counters there, so its files are a snapshot, too.
///
/// # Errors
///
/// As [`files`].
pub fn files_of_counters(
    device: DeviceName,
    machine: &Machine,
    wanted: impl Fn(&str) -> bool,
) -> Result<Files, Failure> {
    if is_software(device, machine) { snapshot(device, wanted) } else { files(device, machine) }
}

/// A snapshot of the files of the software NIC with the number of `device`.
fn snapshot(device: DeviceName, wanted: impl Fn(&str) -> bool) -> Result<Files, Failure> {
    let snapshot = softnic::Snapshot::with_counters(device.index, wanted).map_err(|error| {
        let errno = error.raw_os_error();
        fabric_failure(error, errno).context(format_args!("cannot read the files of {device}"))
    })?;
    let name = DeviceName { kind: DeviceKind::Software, ..device };
    let files = Files::new(snapshot.root(), name.to_string());
    Ok(files.taken_at(snapshot.taken_at()).holding(snapshot))
}

/// Reads telemetry counters of `device`; `None` for a counter that cannot be read.
pub fn counters(device: DeviceName, names: &[&str], machine: &Machine) -> Vec<Option<u64>> {
    match device.kind {
        DeviceKind::Hardware => {
            let files = Files::new(machine.root(), device.to_string());
            let values = names.iter().map(|name| files.counter(name));
            values.map(|reading| Some(reading?.value)).collect()
        }
        DeviceKind::Software => {
            softnic::counters(device.index, names).unwrap_or_else(|_| vec![None; names.len()])
        }
    }
}

/// Time for which the engine of software NICs polls after a packet, in a process that mostly waits:
/// the next write of a burst comes within this time.
const SPIN: Duration = Duration::from_micros(300);

/// Lets the engine of software NICs in this process sleep soon after each packet: it is a target
/// all day.
pub fn let_engine_sleep() {
    softnic::rest_after(SPIN);
}

/// Whether the address of `device` tells where it is in the fabric. The address of a software NIC
/// has no meaning without switches.
pub fn has_location(device: DeviceName, machine: &Machine) -> bool {
    !is_software(device, machine) || softnic::has_switches()
}

/// The part of a measured speed of memory that counts for the node of `device`: less than 1 only if
/// a fault of a software NIC plants it.
pub fn memory_share(device: DeviceName) -> f64 {
    match device.kind {
        DeviceKind::Hardware => 1.0,
        DeviceKind::Software => softnic::memory_share(device.index),
    }
}

/// The software NICs whose packets are slower or faster than the packets of others, because a
/// variable says so.
pub fn with_own_links() -> Vec<DeviceName> {
    let last = DeviceKind::Software.platform().last_index;
    let numbers = (0..=last).filter(|number| softnic::has_own_link(*number));
    numbers.map(DeviceName::software).collect()
}

/// Returns how long the data that the software NIC with this address sent took on the slowest link
/// of its way. `None` if its fabric has no switches.
pub fn links_filled(nic: u32) -> Option<Duration> {
    softnic::links_filled(nic)
}

/// How long messages and answers were under way in the model of a fabric of software NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinksDelay {
    /// Number of puts, atomic operations and requests of gets.
    pub messages: u64,
    /// Their delays together.
    pub total: Duration,
    /// Number of acknowledgements and of data of gets.
    pub answers: u64,
    /// Their delays together.
    pub answers_total: Duration,
}

/// The delays of all messages that the software NIC with this address sent, and of the answers to
/// them, since its fabric was made. `None` if its fabric has no switches.
pub fn links_delay(nic: u32) -> Option<LinksDelay> {
    let delay = softnic::links_delay(nic)?;
    Some(LinksDelay {
        messages: delay.messages,
        total: Duration::from_nanos(delay.total),
        answers: delay.answers,
        answers_total: Duration::from_nanos(delay.answers_total),
    })
}

/// A device that was found or requested.
pub struct FoundDevice {
    pub name: DeviceName,
    /// The device, or why it cannot be opened.
    pub opened: Result<Device, Failure>,
}

/// Opens the devices with these `names`, or all devices of this machine, hardware first. The
/// failure says why others may be missing.
pub fn devices(
    names: &[DeviceName],
    libcxi: Option<&LibraryFile>,
    machine: &Machine,
) -> (Vec<FoundDevice>, Option<Failure>) {
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
    let open = |name: DeviceName| FoundDevice { name, opened: self::open(name, libcxi) };
    (names.into_iter().map(open).collect(), failure)
}

/// The fabric of the software NICs of this process as one word: what differs for each, a colon and
/// its directory.
pub fn fabric() -> Option<String> {
    softnic::fabric_identity()
}

/// Whether the user has chosen software NICs for this machine: a variable says how many there are.
pub fn has_chosen_software() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    ["CXIDIAG_NICS", "CXIDIAG_NIDS", "CXIDIAG_TOPOLOGY"].into_iter().any(is_set)
}

/// Returns why nothing is said about software NICs that the user has not chosen.
pub fn no_hardware() -> Failure {
    Failure::environment("this machine has no Cassini NIC, or its driver is not loaded")
        .with_hint("for software NICs: CXIDIAG_NICS says how many there are, -d soft0 names one")
}

/// The names of the hardware NICs of this machine, or else of its software NICs.
///
/// # Errors
///
/// A requested library that cannot be loaded, and no NIC.
pub fn names(libcxi: Option<&LibraryFile>, machine: &Machine) -> Result<Vec<DeviceName>, Failure> {
    softnic::check_environment().map_err(Failure::usage)?;
    let (hardware, failure) = hardware(libcxi, machine);
    match (hardware.is_empty(), failure) {
        (false, _) => Ok(hardware),
        (true, Some(failure)) => Err(failure),
        (true, None) => Some(software())
            .filter(|names| !names.is_empty())
            .ok_or_else(|| Failure::environment("this machine has no NIC")),
    }
}

/// The devices that the driver shows and those that the library lists. The library omits devices
/// that it cannot open (libcxi.md 2.3).
fn hardware(libcxi: Option<&LibraryFile>, machine: &Machine) -> (Vec<DeviceName>, Option<Failure>) {
    let mut names = machine.nics();
    let failure = match load(DEFAULT_DEVICE, libcxi) {
        Ok(library) => {
            names.extend(listed(&library, DeviceKind::Hardware));
            None
        }
        // If there are devices, opening each of them reports the failure.
        Err(failure) => Some(failure).filter(|_| libcxi.is_some() && names.is_empty()),
    };
    names.sort_by_key(|name| name.index);
    names.dedup();
    (names, failure)
}

/// The hardware NICs that [`devices`] finds on this machine.
pub fn all_hardware() -> Vec<DeviceName> {
    let (found, _) = devices(&[], None, &Machine::this());
    found.iter().map(|found| found.name).filter(|name| name.platform().is_listed).collect()
}

/// The software NICs that lists show.
pub fn software() -> Vec<DeviceName> {
    listed(&Library::from_api(softnic::api()), DeviceKind::Software)
}

fn listed(library: &Library, kind: DeviceKind) -> Vec<DeviceName> {
    let infos = cxi::devices(library).into_iter().flatten();
    infos.map(|info| DeviceName { kind, index: info.id }).collect()
}

fn load(device: DeviceName, libcxi: Option<&LibraryFile>) -> Result<Library, Failure> {
    let path = libcxi.map_or(OsStr::new(LIBCXI), |library| library.path.as_os_str());
    Library::load(path).map_err(|error| {
        let failure = Failure::new(Kind::Environment, error);
        let failure = match libcxi {
            // The hint is about the library that the user has named, even without hardware.
            Some(library) => failure
                .context(library.to_os_string().display())
                .with_hint("the library must be a libcxi.so.1 for this machine's architecture"),
            None => {
                let situation = if hardware_is_missing() {
                    Situation::NoHardware
                } else {
                    Situation::NoLibrary
                };
                failure.context("no libcxi").explained(situation)
            }
        };
        failure.context(format_args!("cannot open device {device}")).in_step(Step::Device)
    })
}

fn cannot_open(library: &Library, device: DeviceName, error: cxi::Error) -> Failure {
    let what = format!("cannot open device {device}");
    let failure = |hint| {
        Failure::new(Kind::Environment, error).context(&what).with_hint(hint).in_step(Step::Device)
    };
    if device.kind == DeviceKind::Software {
        return fabric_failure(error, Some(error.errno())).context(&what).in_step(Step::Device);
    }
    if error.errno() != libc::ENOENT {
        return explain::explained(error, &what);
    }
    let missing = if has_no_node(device, &Machine::this()) {
        Some(Situation::NoDeviceNode)
    } else {
        hardware_is_missing().then_some(Situation::NoHardware)
    };
    if let Some(situation) = missing {
        return failure(advice::hint(situation)).in_situation(situation);
    }
    let names: Vec<String> =
        cxi::devices(library).into_iter().flatten().map(|info| info.name).collect();
    if names.is_empty() {
        return explain::explained(error, &what);
    }
    failure(format!("devices of this machine: {}", names.join(" ")))
}

/// The failure of a software NIC that cannot use the directory of the fabric.
fn fabric_failure(error: impl Error + Send + Sync + 'static, errno: Option<i32>) -> Failure {
    if errno == Some(libc::EAGAIN) {
        // Its thread cannot be started.
        let limit = not_started(io::Error::from_raw_os_error(libc::EAGAIN));
        return Failure::new(Kind::Environment, limit);
    }
    let failure = Failure::new(Kind::Environment, error);
    if let Some(libc::EPERM | libc::ENOSYS) = errno
        && advice::has_filter()
    {
        return failure;
    }
    if let Some(errno @ (libc::EFBIG | libc::EMFILE | libc::ENOLCK)) = errno {
        let limit = advice::call_explanation("cxil_open_device", errno);
        return failure.with_hint_if(limit.map(Advice::hint));
    }
    if errno == Some(libc::ENOSPC) {
        return no_space(failure);
    }
    let holder = (errno == Some(libc::EBUSY)).then(softnic::fabric_holder);
    match holder.flatten() {
        Some(holder) => failure
            .context(format_args!("{holder} holds the fabric"))
            .explained(Situation::FabricHeld),
        None => failure.explained(Situation::NoFabric),
    }
}

/// The failure of a software NIC for which the directory of the fabric has no space.
fn no_space(failure: Failure) -> Failure {
    let Some(space) = softnic::Space::from_environment() else {
        return failure;
    };
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let what = format!(
        "no space in the fabric directory {} ({:.1} MiB, {:.1} free, needs {:.1})",
        space.path.display(),
        mebibytes(space.size),
        mebibytes(space.free),
        mebibytes(space.needed)
    );
    failure.context(what).with_hint(
        "name a larger file system with CXIDIAG_FABRIC_DIR, or make this one larger \
         (docker run --shm-size=1g)",
    )
}

/// Whether the driver shows a NIC without the file by which programs open it (libcxi.md 2.1).
fn has_no_node(device: DeviceName, machine: &Machine) -> bool {
    let name = device.to_string();
    let node = machine.root().join("dev").join(&name);
    machine.cxi_devices().contains(&name) && !is_software(device, machine) && !node.exists()
}

/// Whether the driver shows no NICs.
fn hardware_is_missing() -> bool {
    !Path::new(SYSFS).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_software_nic_exist_while_they_are_used() {
        let device = DeviceName { kind: DeviceKind::Software, index: 77 };
        let files = files(device, &Machine::new(None)).unwrap();
        assert_eq!(files.text("port/0/link/state").as_deref(), Some("up"));
        assert_eq!(files.retry_handler_text("spt_timeouts").as_deref(), Some("0"));
        assert!(files.counter("hni_pcs_good_cw").unwrap().stamp.is_some());
        let (path, others) = (files.path("port/0/link/state"), files.clone());
        drop(files);
        assert!(path.exists());
        drop(others);
        assert!(!path.exists());
    }
}
