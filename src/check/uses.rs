//! Who may use a NIC, and who does.

use facts::error::Failure;
use node::explain::Explain;
use node::service::Rights;

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
