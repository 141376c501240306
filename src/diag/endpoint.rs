//! The endpoint of a process on the fabric: device, service, VNI, interface, address.

use std::cell::{Cell, OnceCell};

use cxi::gpu::{GpuMap, Gpus};
use cxi::sys::{C_PID_ANY, CXI_TC_TYPE_DEFAULT, CXI_TC_TYPE_HRP, cxi_traffic_class_type};
use cxi::{CommunicationProfile, Device, Domain, Lni};

use facts::advice::{self, Situation};
use facts::atomic::AtomicType;
use facts::device::{DeviceName, FabricAddress};
use facts::error::Failure;
use health::{link, link_down};
use node::backend;
use node::explain::Explain;
use node::gpu::{OnGpus, Use};
use node::local_address::LocalAddress;
use node::machine::Machine;
use node::machine::placement::{self, ActivePlacement};
use node::nic::files::Files;
use node::service::{Access, AccessSource};
use node::traffic_class::TrafficClass;
use plan::Site;
use plan::run_options::{RunOptions, Setting};
use plan::tool::Tool;

/// An address on the fabric, with its device and interface. The resources of a benchmark keep the
/// interface alive; the address is released with this value.
pub struct Endpoint {
    device: Device,
    lni: Lni,
    domain: Domain,
    profiles: Profiles,
    access: Access,
    /// The class of the operations that are issued next.
    class: Cell<TrafficClass>,
    name: DeviceName,
    /// The runtime of the GPUs with buffers, and these buffers.
    gpus: Option<Gpus>,
    on_gpus: OnGpus,
    gpu_map: Cell<Option<GpuMap>>,
    /// The CPUs of this thread, taken before any allocation.
    place: ActivePlacement,
    /// A hint about these CPUs.
    hint: Option<String>,
    /// The loopback mode of the link, if it is in one.
    loopback_mode: Option<String>,
}

/// The communication profiles, each allocated once: all pairs of queues share them, because an
/// interface has 16 and the driver need not find an equal one again (libcxi.md 5).
#[derive(Default)]
struct Profiles {
    default: OnceCell<CommunicationProfile>,
    high_rate: OnceCell<CommunicationProfile>,
    trigger: OnceCell<CommunicationProfile>,
}

impl Endpoint {
    /// Allocates an address on `device`, in the service of `site`. `gpus` is the runtime of the
    /// GPUs that `site` names, if any.
    ///
    /// # Errors
    ///
    /// CPUs that cannot be used, a link that is down, a service that is disabled or does not grant
    /// what `site` asks for, and a call that the library refuses.
    pub fn new(site: Site, gpus: Option<Gpus>, device: Device) -> Result<Self, Failure> {
        Self::with_pid(site, gpus, device, C_PID_ANY)
    }

    /// Allocates the address with this `pid`, as [`Self::new`] does with any free one.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`], and a PID that is in use.
    pub fn with_pid(
        site: Site,
        gpus: Option<Gpus>,
        device: Device,
        pid: u32,
    ) -> Result<Self, Failure> {
        let place = site.placement.take()?;
        let hint = placement::hint(site.cpus, site.device, &Machine::this());
        if device.info().is_link_down() && !site.ignore_link {
            let files = backend::files(site.device, &Machine::this()).ok();
            let cause = files.and_then(|files| link_down::cause(&files));
            let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
            let message = format!("the link of {} is down{cause}", site.device);
            let failure = advice::found(Situation::LinkDown, message);
            return Err(failure.with_further_hint("--ignore-link measures all the same"));
        }
        let service = site.service.find(&device, site.device)?;
        let svc_id = service.value.id;
        let lni = Lni::new(&device, svc_id)
            .map_err(|error| site.service.refused(error, &service.value, site.device))?;
        let access = site.service.access(&service);
        let access = access.map_err(|failure| failure.context(site.device))?;
        let vni = access.vni.value;
        let domain = Domain::new(&lni, vni.into(), pid).explain(format_args!(
            "cannot get a PID on VNI {vni} in service {svc_id} of {}",
            site.device
        ))?;
        let endpoint = Self {
            device,
            lni,
            domain,
            profiles: Profiles::default(),
            class: Cell::new(access.class.value),
            access,
            name: site.device,
            gpus,
            on_gpus: site.gpus,
            gpu_map: Cell::new(None),
            place,
            hint,
            loopback_mode: link::loopback_mode(&Files::new(
                Machine::this().root(),
                site.device.to_string(),
            )),
        };
        if endpoint.access.class.value != TrafficClass::BestEffort {
            // Before the peer is involved: the QoS profile of the driver may lack the class.
            endpoint.default_profile()?;
        }
        Ok(endpoint)
    }

    /// The NIC.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The interface.
    pub fn lni(&self) -> &Lni {
        &self.lni
    }

    /// The domain, which has the address on the fabric.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The service, VNI and traffic class in use.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Issues operations in this traffic class from now on, or in the class of this side.
    pub fn set_class(&self, class: Option<TrafficClass>) {
        self.class.set(class.unwrap_or(self.access.class.value));
    }

    /// The communication profile of all operations but High Rate Puts.
    ///
    /// # Errors
    ///
    /// See libcxi.md 5.
    pub fn default_profile(&self) -> Result<CommunicationProfile, Failure> {
        let (vni, class) = (self.access.vni.value, self.class.get());
        let profile = || self.profile(CXI_TC_TYPE_DEFAULT);
        // The profile of another class is needed for one measurement only.
        let profile = if class == self.access.class.value {
            shared(&self.profiles.default, profile)
        } else {
            profile()
        };
        profile.explain(format_args!(
            "cannot allocate a communication profile for {class} on VNI {vni}"
        ))
    }

    /// The communication profile of High Rate Puts.
    ///
    /// # Errors
    ///
    /// See libcxi.md 5.
    pub fn high_rate_profile(&self) -> Result<CommunicationProfile, cxi::Error> {
        shared(&self.profiles.high_rate, || self.profile(CXI_TC_TYPE_HRP))
    }

    /// The communication profile for trigger queues: one with LCID 0, unless another process has
    /// LCID 0. A queue whose commands only wait for counters needs no more (libcxi.md 5).
    ///
    /// # Errors
    ///
    /// See libcxi.md 5.
    pub fn trigger_profile(&self) -> Result<CommunicationProfile, Failure> {
        let default = self.default_profile()?;
        if default.lcid() == 0 {
            return Ok(default);
        }
        let (class, ty) = (self.class.get().number(), CXI_TC_TYPE_DEFAULT);
        let vni = self.domain.vni();
        let with_lcid_0 = || CommunicationProfile::for_triggers(&self.lni, vni, class, ty);
        let profile = if self.class.get() == self.access.class.value {
            shared(&self.profiles.trigger, with_lcid_0)
        } else {
            with_lcid_0()
        };
        Ok(profile.unwrap_or(default))
    }

    /// Allocates a communication profile of this type on the VNI of this side.
    fn profile(&self, ty: cxi_traffic_class_type) -> Result<CommunicationProfile, cxi::Error> {
        let class = self.class.get().number();
        CommunicationProfile::new(&self.lni, self.domain.vni(), class, ty)
    }

    /// The GPUs of this machine, if buffers of this side lie on any.
    pub fn gpus(&self) -> Option<&Gpus> {
        self.gpus.as_ref()
    }

    /// The GPU on which a buffer for this `use_` lies, if it lies on one.
    pub fn gpu_for(&self, use_: Use) -> Option<(&Gpus, u8)> {
        self.gpus.as_ref().zip(self.on_gpus.of(use_))
    }

    /// Notes how a buffer on a GPU was mapped.
    pub fn note_gpu_map(&self, map: Option<GpuMap>) {
        self.gpu_map.set(map);
    }

    /// How the last buffer on a GPU was mapped, if there is one.
    pub fn gpu_map(&self) -> Option<GpuMap> {
        self.gpu_map.get()
    }

    /// This side's address on the fabric and its memory.
    pub fn address(&self) -> LocalAddress {
        LocalAddress {
            address: FabricAddress { nic: self.device.info().nid, pid: self.domain.pid() },
            svc_id: self.access.svc_id.value,
            vni: self.domain.vni(),
            has_vni_of_range: self.access.vni.source == AccessSource::Range,
            class: self.access.class.value,
            simulated: self.device.info().is_simulated(),
            gpus: OnGpus {
                kind: self.gpus.as_ref().map(Gpus::kind).or(self.on_gpus.kind),
                ..self.on_gpus
            },
        }
    }

    /// Whether high-rate puts are used: not if this NIC cannot issue the puts of `run`, nor if no
    /// switch acknowledges them (tools.md 4.3), nor outside their traffic class (libcxi.md 5).
    pub fn hrp(&self, run: &RunOptions) -> Setting {
        let info = self.device.info();
        let is_excluded = lacks_hrp(info.device_id, info.revision, run)
            || self.loopback_mode.is_some()
            || self.access.class.value != TrafficClass::BestEffort;
        match run.hrp() {
            Setting::Enabled if is_excluded => Setting::NotApplicable,
            setting => setting,
        }
    }

    /// The warnings to print before the run, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let info = self.device.info();
        let mut warnings = Vec::new();
        if info.is_link_down() {
            warnings.push(format!("warning: the link of {} is down", info.name));
        }
        if info.lacks_retry_handler() {
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
        warnings.extend(backend::warning(self.name).map(|warning| format!("warning: {warning}")));
        warnings.extend(self.place.complaint.clone());
        warnings.extend(self.hint.clone());
        warnings
    }

    /// The notes to print before a run of `tool`, one line each: an unusual service, VNI or traffic
    /// class, and a limit of the class.
    pub fn notes(&self, tool: &Tool) -> Vec<String> {
        let (name, class) = (self.name, self.access.class.value);
        let mut notes: Vec<String> = self.access.note().into_iter().collect();
        if tool.measures_bandwidth() && class != TrafficClass::BestEffort {
            let files = backend::files(name, &Machine::this()).ok();
            notes.extend(
                class.ceiling(files.as_ref()).map(|percent| {
                    format!("the NIC limits {class} to {percent} % of its bandwidth")
                }),
            );
        }
        notes.into_iter().map(|note| format!("{name}: {note}")).collect()
    }

    /// Releases the address and closes the device.
    pub fn close(self) -> Result<(), Failure> {
        const WHAT: &str = "cannot release the NIC";
        let Profiles { default, high_rate, trigger } = self.profiles;
        for profile in [trigger, high_rate, default].map(OnceCell::into_inner) {
            profile.map_or(Ok(()), CommunicationProfile::close).explain(WHAT)?;
        }
        self.domain.close().explain(WHAT)?;
        self.lni.close().explain(WHAT)?;
        self.device.close().explain(WHAT)
    }
}

/// The profile in `place`, allocated at the first call.
fn shared(
    place: &OnceCell<CommunicationProfile>,
    allocate: impl FnOnce() -> Result<CommunicationProfile, cxi::Error>,
) -> Result<CommunicationProfile, cxi::Error> {
    if let Some(profile) = place.get() {
        return Ok(profile.clone());
    }
    let profile = allocate()?;
    Ok(place.get_or_init(|| profile).clone())
}

/// PCI device id of Cassini 1 (libcxi.md 2.2).
const CASSINI_1: u32 = 0x0501;

/// Last revision of Cassini 1 without high-rate atomic operations on UINT32 (tools.md 4.3).
const LAST_EARLY_REVISION: u32 = 2;

/// Whether a NIC cannot issue the operations of `run` as high-rate puts.
fn lacks_hrp(device_id: u32, revision: u32, run: &RunOptions) -> bool {
    let is_early = device_id == CASSINI_1 && revision <= LAST_EARLY_REVISION;
    is_early && run.atomic.is_some_and(|atomic| atomic.ty == AtomicType::Uint32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::endpoint;
    use plan::testing::plan;

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
        assert!(!lacks_hrp(CASSINI_1, 0, &plan("write-bw", &["-s", "8"]).run));
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
