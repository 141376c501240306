//! The endpoint of a process on the fabric: device, service, VNI, interface, address.

use cxi::gpu::Gpus;
use cxi::sys::C_PID_ANY;
use cxi::{Device, Domain, Lni, Service};

use crate::advice::{self, Explain, Situation};
use crate::atomic::AtomicType;
use crate::device::{DeviceName, FabricAddress};
use crate::error::Failure;
use crate::gpu::{OnGpus, Use};
use crate::machine::Machine;
use crate::machine::placement::{self, Cpus, Placement, Taken};
use crate::run_options::{RunOptions, Setting};

/// The place of an endpoint: device, service, CPUs, GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The NIC.
    pub device: DeviceName,
    /// CXI service.
    pub svc_id: u32,
    /// The CPUs that the user has requested.
    pub cpus: &'a Cpus,
    /// The chosen CPUs of the measuring thread.
    pub placement: &'a Placement,
    /// The buffers that lie on GPUs.
    pub gpus: OnGpus,
}

/// This side's address on the fabric and its memory, which it sends to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// NIC address and PID.
    pub address: FabricAddress,
    /// VNI of the domain.
    pub vni: u32,
    /// The NIC is a software NIC, which reaches only its own machine.
    pub simulated: bool,
    /// The buffers that lie on GPUs, with the detected type of these GPUs.
    pub gpus: OnGpus,
}

/// An address on the fabric, with its device and interface. The resources of a benchmark keep the
/// interface alive; the address is released with this value.
pub struct Endpoint {
    device: Device,
    lni: Lni,
    domain: Domain,
    /// The runtime of the GPUs with buffers, and these buffers.
    gpus: Option<Gpus>,
    on_gpus: OnGpus,
    /// The CPUs of this thread, taken before any allocation.
    place: Taken,
    /// A hint about these CPUs.
    hint: Option<String>,
    /// The loopback mode of the link, if it is in one.
    loopback_mode: Option<String>,
}

impl Endpoint {
    /// Allocates an address on `device`, in the service of `site`. `gpus` is the runtime of the
    /// GPUs that `site` names, if any.
    ///
    /// # Errors
    ///
    /// CPUs that cannot be used, a link that is down, a service that is disabled or has no VNI, and
    /// a call that the library refuses.
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
            loopback_mode: Machine::this().loopback_mode(&site.device.to_string()),
        })
    }

    /// Returns the NIC.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the interface.
    pub fn lni(&self) -> &Lni {
        &self.lni
    }

    /// Returns the domain, which has the address on the fabric.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the GPUs of this machine, if buffers of this side lie on any.
    pub fn gpus(&self) -> Option<&Gpus> {
        self.gpus.as_ref()
    }

    /// Returns the GPU on which a buffer for this `use_` lies, if it lies on one.
    pub fn gpu_for(&self, use_: Use) -> Option<(&Gpus, u8)> {
        self.gpus.as_ref().zip(self.on_gpus.of(use_))
    }

    /// Returns this side's address on the fabric and its memory.
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

    /// Returns whether high-rate puts are used: not if this NIC cannot issue those of `run`, nor if no
    /// switch acknowledges them (tools.md 4.3).
    pub fn hrp(&self, run: &RunOptions) -> Setting {
        let info = self.device.info();
        let is_excluded = lacks_hrp(info.device_id, info.revision, run);
        match run.hrp() {
            Setting::Enabled if is_excluded || self.loopback_mode.is_some() => {
                Setting::NotApplicable
            }
            setting => setting,
        }
    }

    /// Returns the warnings to print before the run, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let info = self.device.info();
        let mut warnings = Vec::new();
        if info.retry_handler_eq == 0 {
            warnings.push(format!(
                "warning: the retry handler of {0} is not running (service cxi_rh@{0}): lost packets are not sent again",
                info.name
            ));
        }
        if let Some(mode) = &self.loopback_mode {
            warnings.push(format!(
                "warning: the link of {} is in loopback mode ({mode}): it reaches no switch, and High Rate Puts are off",
                info.name
            ));
        }
        warnings.extend(self.place.complaint.clone());
        warnings.extend(self.hint.clone());
        warnings
    }

    /// Releases the address and closes the device.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        const WHAT: &str = "cannot release the NIC";
        self.domain.close().explain(WHAT)?;
        self.lni.close().explain(WHAT)?;
        self.device.close().explain(WHAT)
    }
}

/// PCI device id of Cassini 1 (libcxi.md 2.2).
const CASSINI_1: u32 = 0x0501;

/// Last revision of Cassini 1 without high-rate atomic operations on UINT32 (tools.md 4.3).
const LAST_EARLY_REVISION: u32 = 2;

/// Returns whether a NIC cannot issue the operations of `run` as high-rate puts.
fn lacks_hrp(device_id: u32, revision: u32, run: &RunOptions) -> bool {
    let is_early = device_id == CASSINI_1 && revision <= LAST_EARLY_REVISION;
    is_early
        && run
            .atomic
            .is_some_and(|atomic| atomic.ty == AtomicType::Uint32)
}

/// Returns the VNI to use with a service: the first one of its list or range. For a service with a
/// range, the legacy tools use the VNI of service 1 (defect T26 of tools.md).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{endpoint, plan};

    #[test]
    fn early_cassini_1_has_no_high_rate_operations_on_uint32() {
        const CASSINI_2: u32 = 0x0371;
        for (device, revision, ty, expected) in [
            (CASSINI_1, 2, "UINT32", true),
            (CASSINI_1, 3, "UINT32", false),
            (CASSINI_1, 2, "UINT64", false),
            (CASSINI_1, 2, "INT32", false),
            (CASSINI_2, 0, "UINT32", false),
        ] {
            let run = plan("atomic-bw", &["-T", ty]).run;
            assert_eq!(lacks_hrp(device, revision, &run), expected, "{ty}");
        }
        assert!(!lacks_hrp(
            CASSINI_1,
            0,
            &plan("write-bw", &["-s", "8"]).run
        ));
    }

    #[test]
    fn link_in_loopback_mode_has_no_high_rate_puts() {
        let plan = plan("write-bw", &["-s", "8"]);
        let mut endpoint = endpoint(&plan);
        assert_eq!(endpoint.hrp(&plan.run), Setting::Enabled);
        assert!(endpoint.warnings().is_empty());
        endpoint.loopback_mode = Some("internal".into());
        assert_eq!(endpoint.hrp(&plan.run), Setting::NotApplicable);
        assert!(endpoint.warnings()[0].contains("loopback mode (internal)"));
        endpoint.close().unwrap();
    }
}
