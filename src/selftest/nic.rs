//! The NIC that is checked, and what is known of it and its software.

use cxi::DeviceInfo;
use rustix::process::geteuid;
use rustix::system::uname;

use crate::bench::{CheckedNic, Provoked};
use crate::document::TestedNic;
use facts::advice::{self, Situation};
use facts::error::Failure;
use facts::host::host_name;
use node::backend;
use node::machine::{Machine, loaded_library};
use node::service::{Access, ServiceRequest};
use plan::Plan;

/// Opens the NIC of `plan` and chooses its service. With `with_names`, the facts have the name of
/// the host and the addresses of the NIC.
///
/// # Errors
///
/// A NIC that cannot be opened, a link that is down, and a NIC without a service for this process.
pub fn open(plan: &Plan, with_names: bool) -> Result<(CheckedNic, TestedNic), Failure> {
    let name = plan.device;
    let device = backend::open(name, plan.libcxi.as_ref())?;
    if device.info().is_link_down() {
        let message = format!("the link of {name} is down");
        return Err(advice::found(Situation::LinkDown, message));
    }
    let request = ServiceRequest::from_environment(plan.service_options, name)?;
    let service = request.find(&device, name)?;
    let access = request.access(&service);
    let access = access.map_err(|failure| failure.context(name))?;
    let facts = facts_of(plan, device.info(), &access, with_names);
    let nic = CheckedNic {
        device,
        name,
        service: access.svc_id.value,
        vni: access.vni.value.into(),
        class: access.class.value.number(),
        provoked: Provoked::default(),
    };
    Ok((nic, facts))
}

fn facts_of(plan: &Plan, info: &DeviceInfo, access: &Access, with_names: bool) -> TestedNic {
    let (name, machine) = (plan.device.to_string(), Machine::this());
    let kernel = uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    TestedNic {
        is_software: info.is_simulated(),
        generation: generation(info),
        driver: info.driver.clone(),
        driver_version: machine.driver_revision(&name),
        firmware: machine.firmware_version(&name),
        library: loaded_library(),
        board: info.board.clone(),
        kernel: Some(text(kernel.release())),
        architecture: std::env::consts::ARCH,
        page_bytes: cxi::page_size(),
        pid_bits: info.pid_bits,
        has_retry_handler: !info.lacks_retry_handler(),
        is_virtual_function: info.is_virtual_function,
        is_root: geteuid().is_root(),
        svc_id: access.svc_id.value,
        vni: access.vni.value.into(),
        traffic_class: access.class.value.to_string(),
        host: with_names.then(host_name),
        nic_address: with_names.then_some(info.nid),
        pci_address: with_names.then(|| info.pci_address.clone()),
        device: name,
    }
}

/// The generation by the PCI ids (libcxi.md 2.2), with these and the revision.
fn generation(info: &DeviceInfo) -> String {
    let name = match (info.vendor_id, info.device_id) {
        (0x17db, 0x0501) => "Cassini 1",
        (0x1590, 0x0371 | 0x0372) => "Cassini 2",
        _ => "unknown",
    };
    format!(
        "{name} ({:04x}:{:04x} revision {}, platform {})",
        info.vendor_id, info.device_id, info.revision, info.platform
    )
}
