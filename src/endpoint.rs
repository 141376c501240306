//! A process's place on the fabric: device, service, VNI, interface, address.

use cxi::gpu::Gpus;
use cxi::sys::C_PID_ANY;
use cxi::{Device, Domain, Lni, Service};

use crate::advice::{self, Explain, Situation};
use crate::device::{DeviceName, FabricAddress};
use crate::error::Failure;
use crate::gpu::{OnGpus, Use};
use crate::machine::Machine;
use crate::machine::placement::{self, Cpus, Placement, Taken};

/// Where a process is to get its endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The NIC.
    pub device: DeviceName,
    /// CXI service.
    pub svc_id: u32,
    /// The CPUs that the user asks for.
    pub cpus: &'a Cpus,
    /// Where the measuring thread runs, as chosen on this machine.
    pub placement: &'a Placement,
    /// The buffers that lie on GPUs.
    pub gpus: OnGpus,
}

/// What this side announces about itself: its address on the fabric, and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// NIC address and PID.
    pub address: FabricAddress,
    /// VNI of the domain.
    pub vni: u32,
    /// The NIC is a software NIC, which reaches only its own machine.
    pub simulated: bool,
    /// The buffers that lie on GPUs, with the type of these GPUs as it was found.
    pub gpus: OnGpus,
}

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
    /// Takes an address on the opened `device`, in the service of `site`. `gpus` is the runtime of the
    /// GPUs that `site` names, if it names any.
    pub fn new(site: Site, gpus: Option<Gpus>, device: Device) -> Result<Self, Failure> {
        let place = site.placement.take()?;
        let hint = placement::hint(site.cpus, site.device, &Machine::this());
        if !device.info().link_up {
            let message = format!("the link of {} is down", site.device);
            return Err(advice::found(Situation::LinkDown, message));
        }
        let service = device.service(site.svc_id).explain(format_args!(
            "cannot use service {} of {}",
            site.svc_id, site.device
        ))?;
        if !service.enabled {
            let message = format!("service {} of {} is disabled", site.svc_id, site.device);
            return Err(advice::found(Situation::ServiceDisabled, message));
        }
        let vni = vni(&service)?;
        let lni = Lni::new(&device, site.svc_id).explain(format_args!(
            "cannot allocate an LNI in service {} of {}",
            site.svc_id, site.device
        ))?;
        let domain = Domain::new(&lni, vni.into(), C_PID_ANY).explain(format_args!(
            "cannot get a PID on VNI {vni} in service {} of {}",
            site.svc_id, site.device
        ))?;
        Ok(Self {
            device,
            lni,
            domain,
            gpus,
            on_gpus: site.gpus,
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
    pub fn address(&self) -> LocalAddress {
        LocalAddress {
            address: FabricAddress {
                nic: self.device.info().nid,
                pid: self.domain.pid(),
            },
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
                "warning: the retry handler of {0} is not running (service cxi_rh@{0}): lost packets are not sent again",
                info.name
            ));
        }
        warnings.extend(self.place.complaint.clone());
        warnings.extend(self.hint.clone());
        warnings
    }

    /// Gives the address back and closes the device.
    pub fn close(self) -> Result<(), Failure> {
        const WHAT: &str = "cannot release the NIC";
        self.domain.close().explain(WHAT)?;
        self.lni.close().explain(WHAT)?;
        self.device.close().explain(WHAT)
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
        .explain("cannot read the VNI range of the service")?;
    match range {
        None => Err(none("this libcxi is too old to report its range")),
        Some(range) if *range.start() == 0 => Err(none("its range is not set")),
        Some(range) => Ok(*range.start()),
    }
}
