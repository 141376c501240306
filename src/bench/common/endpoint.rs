//! A process's place on the fabric: device, service, VNI, interface, address.

use cxi::gpu::Gpus;
use cxi::sys::C_PID_ANY;
use cxi::{Device, Domain, Lni, Service};

use crate::advice::{self, Situation};
use crate::error::Failure;
use crate::gpu::{OnGpus, Use};
use crate::machine::Machine;
use crate::placement::{self, Taken};
use crate::plan::Plan;
use crate::session::Own;

/// An address on the fabric and what hangs on it. Everything that a benchmark allocates keeps
/// the interface alive by itself; the address lasts as long as this value.
pub struct Endpoint {
    device: Device,
    lni: Lni,
    domain: Domain,
    /// The runtime of the GPUs on which buffers lie, and which buffers these are.
    gpus: Option<Gpus>,
    on_gpus: OnGpus,
    /// Where this thread runs; taken before anything is allocated.
    place: Taken,
    /// What the user should know of that place.
    hint: Option<String>,
}

impl Endpoint {
    /// Takes an address on `device`, in the service of the plan.
    /// Its GPUs, if the plan wants any, are open.
    pub fn new(plan: &Plan, gpus: Option<Gpus>, device: Device) -> Result<Self, Failure> {
        let place = plan.placement.take()?;
        let hint = placement::hint(plan, &Machine::this());
        if !device.info().link_up {
            let message = format!("the link of {} is down", plan.device);
            return Err(advice::found(Situation::LinkDown, message));
        }
        let service = device.service(plan.svc_id).map_err(|error| {
            advice::refused(
                &format!("use service {} of {}", plan.svc_id, plan.device),
                error,
            )
        })?;
        if !service.enabled {
            let message = format!("service {} of {} is disabled", plan.svc_id, plan.device);
            return Err(advice::found(Situation::ServiceDisabled, message));
        }
        let vni = vni(&service)?;
        let in_service =
            |what: &str| format!("{what} in service {} of {}", plan.svc_id, plan.device);
        let lni = Lni::new(&device, plan.svc_id)
            .map_err(|error| advice::refused(&in_service("allocate an LNI"), error))?;
        let domain = Domain::new(&lni, vni.into(), C_PID_ANY).map_err(|error| {
            advice::refused(&in_service(&format!("get a PID on VNI {vni}")), error)
        })?;
        Ok(Self {
            device,
            lni,
            domain,
            gpus,
            on_gpus: plan.gpus,
            place,
            hint,
        })
    }

    /// The NIC.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The interface.
    pub fn lni(&self) -> &Lni {
        &self.lni
    }

    /// The address on the fabric.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The GPUs of this machine, where buffers of this side lie on some.
    pub fn gpus(&self) -> Option<&Gpus> {
        self.gpus.as_ref()
    }

    /// The GPU on which a buffer for this `use_` lies, if it lies on one.
    pub fn gpu_for(&self, use_: Use) -> Option<(&Gpus, u8)> {
        self.gpus.as_ref().zip(self.on_gpus.of(use_))
    }

    /// This side's address on the fabric.
    pub fn address(&self) -> Own {
        Own {
            nic: self.device.info().nid,
            pid: self.domain.pid(),
            vni: self.domain.vni(),
            simulated: self.device.info().is_simulated(),
            gpus: OnGpus {
                kind: self.gpus.as_ref().map(Gpus::kind).or(self.on_gpus.kind),
                ..self.on_gpus
            },
        }
    }

    /// What the user should know before the run, in lines.
    pub fn warnings(&self) -> Vec<String> {
        let info = self.device.info();
        let mut warnings = Vec::new();
        if info.retry_handler_eq == 0 {
            warnings.push(format!(
                "warning: the retry handler of {0} is not running (service cxi_rh@{0}): lost packets are not repeated",
                info.name
            ));
        }
        warnings.extend(self.place.complaint.clone());
        warnings.extend(self.hint.clone());
        warnings
    }

    /// Gives the address back and closes the device.
    pub fn close(self) -> Result<(), Failure> {
        let release = |error: cxi::Error| advice::refused("release the NIC", error);
        self.domain.close().map_err(release)?;
        self.lni.close().map_err(release)?;
        self.device.close().map_err(release)
    }
}

/// The VNI to use with a service: the first of its list, or of its range (defect T26 of tools.md:
/// the legacy tools take that of service 1 for a service with a range).
fn vni(service: &Service) -> Result<u16, Failure> {
    let none = |why: &str| {
        let message = format!("service {} has no VNI: {why}", service.id);
        advice::found(Situation::ServiceWithoutVni, message)
    };
    if service.restricted_vnis {
        return match service.vnis.first() {
            None | Some(0) => Err(none("its list is empty")),
            Some(vni) => Ok(*vni),
        };
    }
    let range = service
        .vni_range()
        .map_err(|error| advice::refused("read the VNI range of the service", error))?;
    match range {
        None => Err(none("this libcxi is too old to tell its range")),
        Some(range) if *range.start() == 0 => Err(none("its range is not set")),
        Some(range) => Ok(*range.start()),
    }
}
