//! The NICs of a machine, as text and as JSON (docs/devices.md). The doc comments of the types are
//! the descriptions in their schema, docs/devices.schema.json.

use cxi::address::{sent_nid, virtual_function};
use cxi::{RESOURCES, Service, ServiceMember};
use serde::Serialize;

use facts::device::DeviceName;
use facts::error::Failure;
use health::address::algorithmic_bits;
use node::backend::FoundDevice;
use node::explain::Explain;
use node::machine::{Machine, shown};
use node::service::{DEFAULT_SVC_ID, Rights, ServiceOptions, ServiceRequest};
use page::page::Page;
use page::problem::Problem;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The NICs of a machine, as `cxidiag devices --json` writes them. A value that is unknown is null.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Inventory {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Why the search for devices failed; null if it did not.
    error: Option<Problem>,
    /// The NICs, hardware first.
    devices: Vec<DeviceEntry>,
    #[serde(skip)]
    failed: Vec<Failure>,
}

/// One NIC.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Entry"))]
struct DeviceEntry {
    /// Name of the device: cxiN, or softN for a software NIC.
    name: String,
    /// Whether it is a software NIC, so that no Cassini hardware is involved.
    is_software: bool,
    /// Why the NIC cannot be opened or its services cannot be listed; null if they can.
    error: Option<Problem>,
    /// What the NIC reports; null if it cannot be opened.
    nic: Option<NicReport>,
    /// MAC address of the network interface; null without an interface.
    mac_address: Option<String>,
    /// NUMA node of the NIC; null if the kernel does not report one.
    numa_node: Option<u32>,
    /// CPUs of that node.
    numa_cpus: Vec<u32>,
    /// Number of the service that tools use without --svc-id: the service of the job, else 1, else
    /// the best service for the user; null if there is none.
    default_svc_id: Option<u32>,
    /// Services of the NIC.
    services: Vec<ServiceEntry>,
}

/// What a NIC reports.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Nic"))]
struct NicReport {
    /// Address on the fabric.
    address: u32,
    /// Width of a PID, in bits.
    pid_bits: u32,
    /// Number of PIDs.
    pid_count: u32,
    /// Whether the link is up; null for a virtual function, which has none of its own.
    link_is_up: Option<bool>,
    /// Speed of the link, as the driver reports it; null without a port.
    link_speed: Option<usize>,
    /// Largest frame of the link, in bytes.
    link_mtu_bytes: usize,
    /// Whether the retry handler runs. Without it, lost packets are never sent again. Null for a
    /// virtual function: it runs on the NIC of this one.
    retry_handler_runs: Option<bool>,
    /// Name of the board; null if unknown.
    board: Option<String>,
    /// PCI address: domain:bus:device.function.
    pci_address: String,
    /// Name of the driver.
    driver: String,
    /// Whether the NIC is a virtual function.
    is_virtual_function: bool,
}

/// One service of a NIC.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct ServiceEntry {
    /// Number of the service.
    id: u32,
    /// Whether the service is enabled.
    enabled: bool,
    /// Whether the driver made the service.
    is_system: bool,
    /// VNIs of the service, if it has a list; else empty.
    vnis: Vec<u16>,
    /// First and last VNI of the service, if it has a range; else null.
    vni_range: Option<[u16; 2]>,
    /// Members that may use the service; null if anyone may.
    members: Option<Vec<MemberEntry>>,
    /// Whether the user who asked may use the service.
    is_usable: bool,
    /// Resources that the service limits.
    resources: Vec<Resource>,
}

/// A member of a service.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct MemberEntry {
    /// Kind of the member.
    kind: &'static str,
    /// Number of the user, group or network namespace.
    id: u32,
}

/// Use and limit of a resource, for all users of a service together.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct Resource {
    /// PTE, TXQ, TGQ, EQ, CT, LE, TLE or AC: portals table entries, transmit and target command
    /// queues, event queues, counting events, list entries, trigger list entries, address contexts.
    name: &'static str,
    /// Largest number in use; null if only the NIC limits it.
    max: Option<u16>,
    /// Number reserved for the users of the service.
    reserved: Option<u16>,
    /// Number in use; null from a libcxi that is too old to report it, and from a driver that
    /// counts only the resources that the service has reserved.
    in_use: Option<u16>,
}

impl Inventory {
    /// Returns what is known of the devices `found`; `failure` ended the search for others.
    pub fn of(found: Vec<FoundDevice>, failure: Option<Failure>, machine: &Machine) -> Self {
        let error = failure.as_ref().map(Problem::from);
        let mut failed: Vec<Failure> = failure.into_iter().collect();
        let devices = found.into_iter().map(|found| entry(found, machine, &mut failed)).collect();
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            error,
            devices,
            failed,
        }
    }

    /// Whether the search succeeded and found no hardware.
    pub fn has_software_alone(&self) -> bool {
        let is_hardware = |entry: &DeviceEntry| entry.name.starts_with("cxi");
        self.error.is_none() && !self.devices.iter().any(is_hardware)
    }

    /// Whether all devices could be read.
    ///
    /// # Errors
    ///
    /// The first failure of the search or of a device.
    pub fn result(mut self) -> Result<(), Failure> {
        if self.failed.is_empty() { Ok(()) } else { Err(self.failed.remove(0)) }
    }
}

fn entry(found: FoundDevice, machine: &Machine, failed: &mut Vec<Failure>) -> DeviceEntry {
    let name = found.name.to_string();
    let numa_node = machine.node_of_device(&name);
    let mut entry = DeviceEntry {
        is_software: found.name.platform().is_simulated,
        mac_address: machine.mac_of_device(&name),
        numa_node,
        numa_cpus: numa_node.map_or(Vec::new(), |node| machine.cpus_of_node(node)),
        name,
        ..DeviceEntry::default()
    };
    let rights = Rights::from_this_process();
    let filled = found.opened.and_then(|device| {
        entry.default_svc_id = default_svc_id(&device, found.name, &rights);
        fill(&mut entry, &device, &rights)
    });
    if let Err(failure) = filled {
        entry.error = Some(Problem::from(&failure));
        failed.push(failure);
    }
    entry
}

fn default_svc_id(device: &cxi::Device, name: DeviceName, rights: &Rights) -> Option<u32> {
    let request = ServiceRequest::from_environment(ServiceOptions::default(), name).ok()?;
    let service = request.find(device, name).ok()?.value;
    rights.admit(&service).then_some(service.id)
}

fn fill(entry: &mut DeviceEntry, device: &cxi::Device, rights: &Rights) -> Result<(), Failure> {
    let info = device.info();
    let has_own = !info.is_virtual_function;
    entry.is_software = info.is_simulated();
    entry.nic = Some(NicReport {
        address: info.nid,
        pid_bits: info.pid_bits,
        pid_count: info.pid_count,
        link_is_up: has_own.then_some(info.link_up),
        link_speed: Some(info.link_speed).filter(|speed| *speed > 0),
        link_mtu_bytes: info.link_mtu,
        retry_handler_runs: has_own.then_some(!info.lacks_retry_handler()),
        board: Some(info.board.trim().to_owned()).filter(|board| !board.is_empty()),
        pci_address: info.pci_address.clone(),
        driver: info.driver.clone(),
        is_virtual_function: info.is_virtual_function,
    });
    let services = device.services().explain("cannot list the services")?;
    for service in services.into_iter().flatten() {
        let in_use = device.in_use(service.id).explain("cannot read the use of a service")?;
        entry.services.push(service_entry(&service, in_use, rights));
    }
    Ok(())
}

fn service_entry(
    service: &Service,
    in_use: Option<[Option<u16>; 8]>,
    rights: &Rights,
) -> ServiceEntry {
    let members = service.restricted_members.then(|| {
        service
            .members
            .iter()
            .map(|member| {
                let (kind, id) = match *member {
                    ServiceMember::User(id) => ("user", id),
                    ServiceMember::Group(id) => ("group", id),
                    ServiceMember::NetworkNamespace(id) => ("network_namespace", id),
                    ServiceMember::Other(kind) => ("other", kind),
                };
                MemberEntry { kind, id }
            })
            .collect::<Vec<_>>()
    });
    ServiceEntry {
        id: service.id,
        enabled: service.enabled,
        is_system: service.system,
        vnis: if service.restricted_vnis { service.vnis.clone() } else { Vec::new() },
        vni_range: match service.vni_range() {
            Ok(Some(range)) if *range.start() > 0 => Some([*range.start(), *range.end()]),
            _ => None,
        },
        is_usable: rights.can_use(service),
        members,
        resources: RESOURCES
            .iter()
            .enumerate()
            .map(|(number, name)| (number, name, service.limit(number)))
            .map(|(number, name, limit)| Resource {
                name,
                max: service.is_limited(number).then_some(limit.max),
                reserved: service.is_limited(number).then_some(limit.reserved),
                in_use: in_use.and_then(|in_use| in_use[number]),
            })
            .collect(),
    }
}

/// A table with one row for each NIC: what shows at a glance whether it can be used.
pub fn overview(inventory: &Inventory) -> Page {
    let columns = ["Device", ">Address", "Link", ">Speed", ">NUMA", "Services", "Notes"];
    let mut page = Page::default();
    page.table(&columns, inventory.devices.iter().map(row));
    page
}

fn row(entry: &DeviceEntry) -> Vec<String> {
    let missing = || "-".to_owned();
    let nic = entry.nic.as_ref();
    let usable: Vec<u32> = entry
        .services
        .iter()
        .filter(|service| service.is_usable)
        .map(|service| service.id)
        .collect();
    let speed = nic.and_then(|nic| nic.link_speed);
    vec![
        entry.name.clone(),
        nic.map_or_else(missing, |nic| format!("{:#x}", nic.address)),
        nic.map_or_else(missing, |nic| link_state(nic).into()),
        speed.map_or_else(missing, |speed| speed.to_string()),
        entry.numa_node.map_or_else(missing, |node| node.to_string()),
        if usable.is_empty() { missing() } else { shown(&usable) },
        notes(entry).join("\n"),
    ]
}

/// Returns what an administrator has to know beside the numbers of the row.
fn notes(entry: &DeviceEntry) -> Vec<&'static str> {
    let nic = entry.nic.as_ref();
    let is_algorithmic =
        (entry.mac_address.as_deref()).is_none_or(|mac| algorithmic_bits(mac).is_some());
    [
        (entry.is_software, "software NIC"),
        (nic.is_some_and(|nic| nic.is_virtual_function), "virtual function"),
        (entry.error.is_some(), "ERROR (see --verbose)"),
        (nic.is_some_and(|nic| nic.retry_handler_runs == Some(false)), "retry handler NOT running"),
        (!is_algorithmic, "MAC address NOT algorithmic"),
    ]
    .into_iter()
    .filter_map(|(applies, note)| applies.then_some(note))
    .collect()
}

fn link_state(nic: &NicReport) -> &'static str {
    match nic.link_is_up {
        Some(true) => "up",
        Some(false) => "DOWN",
        None => "-",
    }
}

/// A block of lines for each NIC: all that is known of it.
pub fn blocks(inventory: &Inventory) -> Page {
    let mut page = Page::default();
    for (number, entry) in inventory.devices.iter().enumerate() {
        if number > 0 {
            page.empty_line();
        }
        block(&mut page, entry);
    }
    page
}

fn block(page: &mut Page, entry: &DeviceEntry) {
    page.fact("Device", &entry.name);
    if entry.is_software {
        page.fact("Platform", "software NIC (no Cassini hardware involved)");
    }
    if let Some(error) = &entry.error {
        page.fact("Error", &error.message);
        if let Some(hint) = &error.hint {
            page.fact("Hint", hint);
        }
    }
    if let Some(nic) = &entry.nic {
        nic_lines(page, entry, nic);
    }
    if let Some(mac) = &entry.mac_address {
        let note = if algorithmic_bits(mac).is_some() {
            ""
        } else {
            " (NOT algorithmic: switches do not route to it)"
        };
        page.fact("MAC Address", format!("{mac}{note}"));
    }
    if let Some(node) = entry.numa_node {
        let cpus = match entry.numa_cpus.as_slice() {
            [] => "no CPUs".to_owned(),
            cpus => format!("CPUs {}", shown(cpus)),
        };
        page.fact("NUMA Node", format!("{node} ({cpus})"));
    }
    for service in &entry.services {
        let mut state = summary(service);
        if entry.default_svc_id == Some(service.id) && service.id != DEFAULT_SVC_ID {
            state += "; used by default";
        }
        page.fact(&format!("Service {}", service.id), state);
        for (number, four) in resources(service).iter().enumerate() {
            page.fact(if number == 0 { "  In Use/Limit" } else { "" }, four);
        }
    }
}

/// Adds the lines about an open NIC.
fn nic_lines(page: &mut Page, entry: &DeviceEntry, nic: &NicReport) {
    let part = virtual_function(nic.address).map_or(String::new(), |number| {
        format!(" (virtual function {number} of {:#x})", sent_nid(nic.address))
    });
    page.fact("NIC Address", format!("{:#x}{part}", nic.address));
    page.fact("PID Bits", format!("{} ({} PIDs)", nic.pid_bits, nic.pid_count));
    let speed = nic.link_speed.map_or(String::new(), |speed| format!(", speed {speed}"));
    let link = if nic.link_is_up.is_some() { link_state(nic) } else { "none of its own" };
    page.fact("Link", format!("{link}{speed}"));
    page.fact("Link MTU", format!("{} bytes", nic.link_mtu_bytes));
    let handler = match nic.retry_handler_runs {
        Some(true) => "running".to_owned(),
        Some(false) => format!("NOT running (service cxi_rh@{})", entry.name),
        None => "on the NIC of this virtual function".to_owned(),
    };
    page.fact("Retry Handler", handler);
    if !entry.is_software {
        let kind = if nic.is_virtual_function { ", virtual function" } else { "" };
        page.fact("PCI Address", format!("{}{kind}", nic.pci_address));
    }
    if let Some(board) = &nic.board {
        page.fact("Board", board);
    }
}

fn summary(service: &ServiceEntry) -> String {
    let state = match (service.enabled, service.is_usable) {
        (false, _) => "DISABLED",
        (true, true) => "enabled",
        (true, false) if service.is_system => "enabled, for the driver alone",
        (true, false) => "enabled, NOT for this user",
    };
    let vnis = match (&service.vni_range, service.vnis.as_slice()) {
        (Some([first, last]), _) => format!("VNIs {first}-{last}"),
        (None, []) => "no VNIs".into(),
        (None, vnis) => {
            let vnis: Vec<u32> = vnis.iter().map(|vni| u32::from(*vni)).collect();
            format!("VNIs {}", list(&vnis))
        }
    };
    let members = match &service.members {
        None => "anyone".into(),
        Some(members) if members.is_empty() => "nobody".into(),
        Some(members) => members
            .iter()
            .map(|member| format!("{} {}", member.kind.replace('_', " "), member.id))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let system = if service.is_system { "; system" } else { "" };
    format!("{state}; {vnis}; {members}{system}")
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The resources as lines of four, each as `in use/limit`.
fn resources(service: &ServiceEntry) -> Vec<String> {
    let text = |resource: &Resource| {
        let in_use = resource.in_use.map_or("n/a".into(), |count| count.to_string());
        let max = resource.max.map_or("-".into(), |max| max.to_string());
        format!("{} {in_use}/{max}", resource.name)
    };
    let all: Vec<String> = service.resources.iter().map(text).collect();
    all.chunks(4).map(|four| four.join("  ")).collect()
}
