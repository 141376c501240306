//! The check of one NIC, from its first reading to its findings: who uses it, and who may.

use std::io;

use cxi::TRIGGERED;
use rustix::io::Errno;

use super::document::DeviceResult;
use super::lock::Lock;
use super::options::CheckRequest;
use super::traffic::{self, Runs};
use facts::device::DeviceName;
use facts::error::Failure;
use health::code_words::{self, CodeWords};
use health::pcie::{self, Monitor};
use health::services::{self, ResourceUse};
use health::traffic::Octets;
use health::{Finding, address, host, identity, link, presence, temperature_power};
use node::backend;
use node::explain::Explain;
use node::machine::Machine;
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::link_speed::LinkSpeed;
use node::nic::pcie_path::PciePath;
use node::service::{Chosen, Rights, ServiceOptions, ServiceRequest};
use node::slingshot::Grant;
use page::problem::Problem;

/// Free isolation groups below which processes use a NIC whose library cannot count them: of 256
/// groups, the driver takes a few (health.md 2.1).
const IDLE_GROUPS: u64 = 240;

/// The check of one NIC.
pub struct Examination {
    device: DeviceName,
    /// The files, or why they cannot be read; `None` if the NIC does not exist.
    first: Result<Option<First>, Failure>,
    is_software: bool,
    services: Finding,
    /// For how many ranks there is room, with `--ranks`.
    ranks: Option<Finding>,
    /// Whether other processes use the NIC; `None` if that is unknown.
    is_busy: Option<bool>,
    /// Whether no process has resources of a service, according to the library.
    is_unused: bool,
    traffic: Vec<Finding>,
    failure: Option<Failure>,
}

/// The first reading.
struct First {
    files: Files,
    code_words: CodeWords,
    octets: Octets,
    monitor: Monitor,
    resources: ResourceUse,
}

impl Examination {
    /// Reads the files of a NIC for the first time, and its services.
    pub fn begin(
        device: DeviceName,
        request: &CheckRequest,
        grant: Option<&Grant>,
        machine: &Machine,
    ) -> Self {
        let first = files(device, machine).map(|files| {
            files.map(|files| First {
                code_words: CodeWords::read(&files),
                octets: Octets::read(&files),
                monitor: Monitor::read(&files),
                resources: ResourceUse::read(&files),
                files,
            })
        });
        let mut is_busy = None;
        let mut is_unused = false;
        let mut ranks =
            request.ranks.map(|_| services::unknown_ranks("the device cannot be opened"));
        let mut is_software = device.platform().is_simulated;
        let services = match &first {
            Err(_) | Ok(None) => Finding::absent(&services::USABLE),
            Ok(Some(first)) => {
                let opened = backend::open(device, request.libcxi.as_ref());
                let found = opened.and_then(|opened| {
                    ranks = request.ranks.map(|count| room(device, &opened, count));
                    Uses::of(&opened)
                });
                match found {
                    Err(failure) => services::unknown(failure.message()),
                    Ok(uses) => {
                        is_software |= uses.is_software;
                        is_unused = uses.is_in_use == Some(false);
                        is_busy = uses.is_in_use.or_else(|| {
                            let free = first.files.number("properties/rgids_avail")?;
                            Some(free < IDLE_GROUPS)
                        });
                        services::usable(
                            &uses.usable,
                            grant.and_then(|grant| grant.on(&device.to_string())?.svc_id),
                        )
                    }
                }
            }
        };
        Self {
            device,
            first,
            is_software,
            services,
            ranks,
            is_busy,
            is_unused,
            traffic: traffic::left_out(if request.is_quick { "--quick" } else { "--no-traffic" }),
            failure: None,
        }
    }

    /// The NIC.
    pub fn device(&self) -> DeviceName {
        self.device
    }

    /// The files of a software NIC: they include files of the host that faults plant.
    pub fn planted(&self) -> Option<&Files> {
        let first = self.first.as_ref().ok()?.as_ref()?;
        (!self.device.platform().is_listed).then_some(&first.files)
    }

    /// Whether the NIC has files.
    pub fn has_files(&self) -> bool {
        matches!(self.first, Ok(Some(_)))
    }

    /// Writes and reads through the NIC, unless others use it.
    pub fn traffic(
        &mut self,
        lock: &Result<Option<Lock>, Failure>,
        runs: &mut Runs,
        request: &CheckRequest,
    ) -> Result<(), Failure> {
        let Ok(Some(first)) = &self.first else {
            return Ok(());
        };
        if self.is_busy == Some(true) && !request.busy_ok {
            self.traffic = traffic::left_out("other processes use the NIC; --busy-ok measures");
            return Ok(());
        }
        if link::is_up(&first.files) == Some(false) {
            self.traffic = traffic::left_out("the link is down");
            return Ok(());
        }
        if let Err(failure) = lock {
            self.failure = Some(Failure::environment(failure.message()));
            self.traffic = traffic::left_out("another check runs");
            return Ok(());
        }
        let speed = link::speed_text(&first.files).and_then(|text| LinkSpeed::of(&text));
        (self.traffic, self.failure) = runs.measure(self.device, self.is_software, speed)?;
        Ok(())
    }

    /// Reads the files again and returns what was found.
    pub fn end(self, request: &CheckRequest, machine: &Machine) -> DeviceResult {
        let (device, is_software) = (self.device, self.is_software);
        let result = |items, failure: Option<&Failure>| DeviceResult {
            name: device.to_string(),
            is_software,
            error: failure.map(Problem::from),
            items,
        };
        let first = match self.first {
            Ok(Some(first)) => first,
            Ok(None) => {
                return result(vec![presence::absent(others(device, machine))], None);
            }
            Err(failure) => return result(Vec::new(), Some(&failure)),
        };
        let second = request.has_window().then(|| files(device, machine));
        let files = match second {
            Some(Ok(Some(second))) => second,
            _ => first.files,
        };
        let after = CodeWords::read(&files);
        // A software NIC has no generation; the one in its files is for other programs.
        let generation = Generation::of(&files).filter(|_| !is_software);
        let mut findings = vec![presence::present()];
        findings.extend(link::all(&files, generation, request.site.link_gigabits));
        findings.extend(if request.has_window() {
            code_words::evaluate(&files, &first.code_words, &after)
        } else {
            code_words::left_out("--quick")
        });
        findings.push(match request.own_traffic() {
            Some(why) => health::traffic::left_out(why),
            None => Octets::read(&files).since(first.octets),
        });
        findings.extend(pcie_findings(&files, generation));
        findings.extend(Monitor::read(&files).evaluate(first.monitor, &files));
        findings.push(identity::memory_errors(&files));
        findings.extend(temperature_power::temperatures(&files));
        findings.extend([
            address::algorithmic(&files),
            address::retry_handler(&files),
            address::parked(&files),
            ResourceUse::read(&files).since(&first.resources, self.is_unused),
            self.services,
        ]);
        findings.extend(self.ranks);
        findings.extend([
            iommu(&files, is_software, machine),
            host::locality(&files, &cxi::placement::cpus().unwrap_or_default()),
            link::mtu(&files),
            identity::qos_profile(&files),
            identity::class_ceiling(&files),
        ]);
        findings.extend(identity::versions(&files, generation, is_software));
        findings.push(identity::extended_speed(&files));
        findings.extend(temperature_power::supplies(&files));
        findings.extend(self.traffic);
        result(findings, self.failure.as_ref())
    }
}

fn iommu(files: &Files, is_software: bool, machine: &Machine) -> Finding {
    // A software NIC has the file only if a fault plants it.
    if is_software && files.text("iommu_group/type").is_none() {
        Finding::untested(&host::IOMMU, "software NIC")
    } else {
        host::iommu(files, machine)
    }
}

/// Returns for how many ranks of a job with this number of ranks the service of this user has
/// resources.
fn room(name: DeviceName, device: &cxi::Device, count: u32) -> Finding {
    let request = ServiceRequest::from_environment(ServiceOptions::default(), name);
    match request.and_then(|request| request.find(device, name)) {
        Err(failure) => services::unknown_ranks(failure.message()),
        Ok(Chosen { value: service, .. }) => {
            let mut in_use = device.in_use(service.id).ok().flatten().unwrap_or_default();
            let mut limits = std::array::from_fn(|place| service.limit(place));
            if let Ok(triggered) = device.triggered(&service) {
                (limits[TRIGGERED], in_use[TRIGGERED]) = triggered;
            }
            services::room_for(service.id, limits, in_use, count)
        }
    }
}

fn pcie_findings(files: &Files, generation: Option<Generation>) -> Vec<Finding> {
    let path = PciePath::read(files);
    let mut findings = vec![
        pcie::width(files, &path),
        pcie::speed(files, &path, generation),
        pcie::upstream(&path),
    ];
    findings.extend(pcie::aer(files));
    findings.push(pcie::aer_of_bridges(files, &path));
    findings
}

/// Checks that a device exists.
///
/// # Errors
///
/// The NICs that exist in its place.
pub fn require(device: DeviceName, machine: &Machine) -> Result<(), Failure> {
    match files(device, machine)? {
        Some(_) => Ok(()),
        None => {
            Err(Failure::environment(format!("there is no {device}: {}", others(device, machine))))
        }
    }
}

/// The files of a device; `None` if it does not exist.
fn files(device: DeviceName, machine: &Machine) -> Result<Option<Files>, Failure> {
    files_with(device, machine, |_| true)
}

/// The files of a device with the `wanted` counters; `None` if it does not exist.
pub fn files_with(
    device: DeviceName,
    machine: &Machine,
    wanted: fn(&str) -> bool,
) -> Result<Option<Files>, Failure> {
    match backend::files_of_counters(device, machine, wanted) {
        Ok(files) => Ok(files.exist().then_some(files)),
        Err(failure) if is_of_no_device(&failure) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether the software NIC is none of those that the fabric has.
fn is_of_no_device(failure: &Failure) -> bool {
    let cause = failure.error.root_cause().downcast_ref::<io::Error>();
    let code = cause.and_then(io::Error::raw_os_error);
    code == Some(Errno::NODEV.raw_os_error())
}

/// Returns which NICs there are in place of a device that does not exist.
pub fn others(device: DeviceName, machine: &Machine) -> String {
    if device.platform().is_simulated {
        return "CXIDIAG_NICS does not include it".into();
    }
    let mut names = machine.cxi_devices();
    names.sort_unstable();
    match names.as_slice() {
        [] => "this machine has no Cassini NIC, or its driver is not loaded".into(),
        names => format!("devices of this machine: {}", names.join(" ")),
    }
}

/// Who may use a NIC, and who does.
#[derive(Debug)]
pub struct Uses {
    /// Whether it is a software NIC, also behind a library that shows it as hardware.
    pub is_software: bool,
    /// Numbers of the services that this process may use.
    pub usable: Vec<u32>,
    /// Whether users of a service that the driver has not made hold resources; `None` from a libcxi
    /// that cannot report it.
    pub is_in_use: Option<bool>,
}

impl Uses {
    /// Returns who may use `device`, and whether it is in use.
    ///
    /// # Errors
    ///
    /// Services that cannot be listed.
    pub fn of(device: &cxi::Device) -> Result<Self, Failure> {
        let mut found =
            Self { is_software: device.info().is_simulated(), usable: Vec::new(), is_in_use: None };
        let rights = Rights::from_this_process();
        let services = device.services().explain("cannot list the services")?;
        for service in services.into_iter().flatten() {
            let in_use = device.in_use(service.id).explain("cannot read the use of a service")?;
            if let Some(in_use) = in_use.filter(|_| !service.system) {
                let is_held = in_use.iter().flatten().any(|count| *count > 0);
                found.is_in_use = Some(found.is_in_use == Some(true) || is_held);
            }
            if rights.can_use(&service) {
                found.usable.push(service.id);
            }
        }
        Ok(found)
    }
}
