//! The NICs of a machine, as text and as JSON (docs/devices.md, docs/devices.schema.json).

use std::io::{self, Write};

use cxi::{Member, RESOURCES, Service};
use serde::Serialize;

use super::outcome::Problem;
use super::text::line;
use crate::advice::Explain;
use crate::backend::Found;
use crate::device::DeviceKind;
use crate::error::Failure;
use crate::machine::{Machine, shown};

/// Changes when a field goes away or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// What was found. Null is what cannot be known.
#[derive(Debug, Serialize)]
pub struct Inventory {
    schema_version: u32,
    cxidiag_version: &'static str,
    /// Why devices could not be looked for.
    error: Option<Problem>,
    devices: Vec<Entry>,
    #[serde(skip)]
    failed: Vec<Failure>,
}

/// One NIC.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    /// Made of software: no Cassini hardware is involved.
    is_software: bool,
    /// Why it cannot be opened; then nothing else is known but its place.
    error: Option<Problem>,
    nic: Option<Nic>,
    mac_address: Option<String>,
    numa_node: Option<u32>,
    numa_cpus: Vec<u32>,
    services: Vec<ServiceEntry>,
}

/// What a NIC says about itself.
#[derive(Debug, Serialize)]
struct Nic {
    address: u32,
    pid_bits: u32,
    pid_count: u32,
    link_is_up: bool,
    /// As the driver reports it; null without a port.
    link_speed: Option<usize>,
    link_mtu_bytes: usize,
    /// Lost packets are repeated.
    retry_handler_runs: bool,
    board: Option<String>,
    pci_address: String,
    driver: String,
    is_virtual_function: bool,
}

/// One service of a NIC.
#[derive(Debug, Serialize)]
struct ServiceEntry {
    id: u32,
    enabled: bool,
    is_system: bool,
    /// VNIs of its list; empty if it has a range, or none.
    vnis: Vec<u16>,
    /// First and last VNI of its range.
    vni_range: Option<[u16; 2]>,
    /// Who may use it; null for anyone.
    members: Option<Vec<MemberEntry>>,
    /// This user may use it now.
    is_usable: bool,
    resources: Vec<Resource>,
}

/// Who may use a service.
#[derive(Debug, Serialize)]
struct MemberEntry {
    kind: &'static str,
    id: u32,
}

/// How much of something the users of a service may have together.
#[derive(Debug, Serialize)]
struct Resource {
    name: &'static str,
    /// Null where the limit is that of the NIC.
    max: Option<u16>,
    reserved: Option<u16>,
    in_use: Option<u16>,
}

impl Inventory {
    /// What there is to say about `found`.
    pub fn of(found: Vec<Found>, failure: Option<Failure>, machine: &Machine) -> Self {
        let error = failure.as_ref().map(Problem::from);
        let mut failed: Vec<Failure> = failure.into_iter().collect();
        let devices = found
            .into_iter()
            .map(|found| entry(found, machine, &mut failed))
            .collect();
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            error,
            devices,
            failed,
        }
    }

    /// Whether there is no hardware, as far as that could be found out.
    pub fn has_software_alone(&self) -> bool {
        let is_hardware = |entry: &Entry| entry.name.starts_with("cxi");
        self.error.is_none() && !self.devices.iter().any(is_hardware)
    }

    /// Fails with the first failure, if there is one.
    pub fn result(mut self) -> Result<(), Failure> {
        match self.failed.is_empty() {
            true => Ok(()),
            false => Err(self.failed.remove(0)),
        }
    }
}

fn entry(found: Found, machine: &Machine, failed: &mut Vec<Failure>) -> Entry {
    let name = found.name.to_string();
    let numa_node = machine.node_of_device(&name);
    let mut entry = Entry {
        is_software: found.name.kind == DeviceKind::Software,
        error: None,
        nic: None,
        mac_address: machine.mac_of_device(&name),
        numa_node,
        numa_cpus: numa_node.map_or(Vec::new(), |node| machine.cpus_of_node(node)),
        services: Vec::new(),
        name,
    };
    let filled = found
        .opened
        .and_then(|device| fill(&mut entry, &device, &rights()));
    if let Err(failure) = filled {
        entry.error = Some(Problem::from(&failure));
        failed.push(failure);
    }
    entry
}

fn fill(entry: &mut Entry, device: &cxi::Device, rights: &Rights) -> Result<(), Failure> {
    let info = device.info();
    entry.is_software = info.is_simulated();
    entry.nic = Some(Nic {
        address: info.nid,
        pid_bits: info.pid_bits,
        pid_count: info.pid_count,
        link_is_up: info.link_up,
        link_speed: Some(info.link_speed).filter(|speed| *speed > 0),
        link_mtu_bytes: info.link_mtu,
        retry_handler_runs: info.retry_handler_eq != 0,
        board: Some(info.board.trim().to_owned()).filter(|board| !board.is_empty()),
        pci_address: info.pci_address.clone(),
        driver: info.driver.clone(),
        is_virtual_function: info.is_virtual_function,
    });
    let services = device.services().explain("cannot list the services")?;
    for service in services.into_iter().flatten() {
        let in_use = device
            .in_use(service.id)
            .explain("cannot read the use of a service")?;
        entry.services.push(service_entry(&service, in_use, rights));
    }
    Ok(())
}

fn service_entry(service: &Service, in_use: Option<[u16; 8]>, rights: &Rights) -> ServiceEntry {
    let members = service.restricted_members.then(|| {
        service
            .members
            .iter()
            .map(|member| {
                let (kind, id) = match *member {
                    Member::User(id) => ("user", id),
                    Member::Group(id) => ("group", id),
                    Member::NetworkNamespace(id) => ("network_namespace", id),
                    Member::Other(kind) => ("other", kind),
                };
                MemberEntry { kind, id }
            })
            .collect::<Vec<_>>()
    });
    let is_member = |members: &Vec<MemberEntry>| members.iter().any(|member| rights.has(member));
    ServiceEntry {
        id: service.id,
        enabled: service.enabled,
        is_system: service.system,
        vnis: match service.restricted_vnis {
            true => service.vnis.clone(),
            false => Vec::new(),
        },
        vni_range: match service.vni_range() {
            Ok(Some(range)) if *range.start() > 0 => Some([*range.start(), *range.end()]),
            _ => None,
        },
        is_usable: service.enabled && members.as_ref().is_none_or(is_member),
        members,
        resources: RESOURCES
            .iter()
            .zip(service.limits)
            .enumerate()
            .map(|(number, (name, limit))| Resource {
                name,
                max: service.limited.then_some(limit.max),
                reserved: service.limited.then_some(limit.reserved),
                in_use: in_use.map(|in_use| in_use[number]),
            })
            .collect(),
    }
}

/// What membership is held against: the effective user and group, and the network namespace
/// (libcxi.md 4). Root has no other rights.
struct Rights {
    user: u32,
    group: u32,
    network_namespace: Option<u64>,
}

fn rights() -> Rights {
    use std::os::unix::fs::MetadataExt;
    let namespace = std::fs::metadata("/proc/self/ns/net");
    Rights {
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        network_namespace: namespace.ok().map(|namespace| namespace.ino()),
    }
}

impl Rights {
    fn has(&self, member: &MemberEntry) -> bool {
        match member.kind {
            "user" => member.id == self.user,
            "group" => member.id == self.group,
            "network_namespace" => self.network_namespace == Some(member.id.into()),
            _ => false,
        }
    }
}

/// The document.
pub fn document(inventory: &Inventory) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(inventory)
        .map_err(|error| Failure::environment(format!("cannot make JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes the text: a block for each NIC.
pub fn write(out: &mut impl Write, inventory: &Inventory) -> io::Result<()> {
    for (number, entry) in inventory.devices.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        block(out, entry)?;
    }
    Ok(())
}

fn block(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    line(out, "Device", &entry.name)?;
    if entry.is_software {
        line(
            out,
            "Platform",
            "software NIC (no Cassini hardware involved)",
        )?;
    }
    if let Some(error) = &entry.error {
        line(out, "Error", &error.message)?;
        if let Some(hint) = &error.hint {
            line(out, "Hint", hint)?;
        }
    }
    if let Some(nic) = &entry.nic {
        line(out, "NIC Address", format_args!("{:#x}", nic.address))?;
        line(
            out,
            "PID Bits",
            format_args!("{} ({} PIDs)", nic.pid_bits, nic.pid_count),
        )?;
        let speed = nic
            .link_speed
            .map_or(String::new(), |speed| format!(", speed {speed}"));
        let state = if nic.link_is_up { "up" } else { "DOWN" };
        line(out, "Link", format_args!("{state}{speed}"))?;
        line(
            out,
            "Link MTU",
            format_args!("{} bytes", nic.link_mtu_bytes),
        )?;
        let handler = match nic.retry_handler_runs {
            true => "running".to_owned(),
            false => format!("NOT running (service cxi_rh@{})", entry.name),
        };
        line(out, "Retry Handler", handler)?;
        if !entry.is_software {
            let kind = if nic.is_virtual_function {
                ", virtual function"
            } else {
                ""
            };
            line(
                out,
                "PCI Address",
                format_args!("{}{kind}", nic.pci_address),
            )?;
        }
        if let Some(board) = &nic.board {
            line(out, "Board", board)?;
        }
    }
    if let Some(mac) = &entry.mac_address {
        let is_algorithmic = mac.starts_with("02:");
        let note = if is_algorithmic {
            ""
        } else {
            " (NOT algorithmic: no routing)"
        };
        line(out, "MAC Address", format_args!("{mac}{note}"))?;
    }
    if let Some(node) = entry.numa_node {
        let cpus = match entry.numa_cpus.as_slice() {
            [] => "no CPUs".to_owned(),
            cpus => format!("CPUs {}", shown(cpus)),
        };
        line(out, "NUMA Node", format_args!("{node} ({cpus})"))?;
    }
    for service in &entry.services {
        line(out, &format!("Service {}", service.id), summary(service))?;
        for (number, four) in resources(service).iter().enumerate() {
            line(out, if number == 0 { "  In Use/Limit" } else { "" }, four)?;
        }
    }
    Ok(())
}

fn summary(service: &ServiceEntry) -> String {
    let state = match (service.enabled, service.is_usable) {
        (false, _) => "DISABLED",
        (true, true) => "enabled",
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
    numbers
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// Each as `in use/limit`, four to a line.
fn resources(service: &ServiceEntry) -> Vec<String> {
    let of = |resource: &Resource| {
        let in_use = resource
            .in_use
            .map_or("?".into(), |count| count.to_string());
        let max = resource.max.map_or("-".into(), |max| max.to_string());
        format!("{} {in_use}/{max}", resource.name)
    };
    let all: Vec<String> = service.resources.iter().map(of).collect();
    all.chunks(4).map(|four| four.join("  ")).collect()
}
