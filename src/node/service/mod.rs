//! The service, VNI and traffic class of a process: what the user and the launcher of its job have
//! chosen, whether this process may use it, and what the NIC grants (jobs.md 1.3). What a process
//! uses of a NIC has its sources with it.

use std::os::unix::fs::MetadataExt;
use std::str::FromStr;
use std::{env, fmt, fs};

use cxi::{Device, Error, Service, ServiceMember};
use facts::advice::{self, Advise, Situation};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::number::within;
use rustix::process::geteuid;

use crate::explain::{self, Explain};
use crate::slingshot::{self, Launcher};
use crate::traffic_class::{self, TrafficClass};

/// The default service, which all users may use unless the administrator has changed it (libcxi.md
/// 3.2).
pub const DEFAULT_SVC_ID: u32 = 1;

/// What user and launcher have chosen, before the NIC is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRequest {
    svc_id: Option<Chosen<u32>>,
    vni: Option<Chosen<u16>>,
    class: Option<Chosen<TrafficClass>>,
    /// Why variables of the launcher are not used.
    unused: Option<String>,
    /// The process belongs to a step on one node without a VNI.
    is_one_node_step: bool,
}

impl ServiceRequest {
    /// The request for `device`: the options, else the variables of the launcher.
    ///
    /// # Errors
    ///
    /// Invalid variables, unless the options replace all of them.
    pub fn from_environment(options: ServiceOptions, device: DeviceName) -> Result<Self, Failure> {
        let value = |name: &str| env::var_os(name).map(|text| text.to_string_lossy().into_owned());
        Self::new(options, device, value).map_err(Failure::usage)
    }

    fn new(
        options: ServiceOptions,
        device: DeviceName,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut request = Self {
            svc_id: options.svc_id.map(Chosen::by_option),
            class: options.class.map(Chosen::by_option),
            is_one_node_step: slingshot::is_one_node_step(&value),
            ..Self::default()
        };
        if let Some(VniOption::Number(vni)) = options.vni {
            request.vni = Some(Chosen::by_option(vni));
        }
        let is_of_job = options.vni == Some(VniOption::OfJob);
        if request.svc_id.is_some() && !is_of_job {
            return Ok(request);
        }
        let launcher = match Launcher::find(&value) {
            // The variables are for other NICs, such as hardware beside a software NIC.
            Err(reason) if !is_of_job && !slingshot::is_listed(&value, &device.to_string()) => {
                request.unused = Some(reason).filter(|_| device.platform().is_listed);
                return Ok(request);
            }
            found => found?,
        };
        if is_of_job {
            let vni = match &launcher {
                Launcher::Granted(grant) => grant.job_vni()?,
                Launcher::Absent | Launcher::Incomplete(_) => None,
            };
            let vni = vni.ok_or(
                "--vni=job: the launcher has granted no VNI of the job, which would be the second \
                 one in SLINGSHOT_VNIS (Slurm: --network=job_vni)",
            )?;
            request.vni = Some(Chosen::by_option(vni));
        }
        if request.svc_id.is_none() {
            request.use_grant(&launcher, device)?;
        }
        Ok(request)
    }

    /// Fills in what the options leave open, if the launcher has granted a service on `device`.
    ///
    /// # Errors
    ///
    /// An invalid variable whose value is used.
    fn use_grant(&mut self, launcher: &Launcher, device: DeviceName) -> Result<(), String> {
        let grant = match launcher {
            Launcher::Absent => return Ok(()),
            Launcher::Incomplete(missing) => {
                let plural = if missing.len() == 1 { "is" } else { "are" };
                let missing = missing.join(" and ");
                self.unused = Some(format!("{missing} {plural} missing or empty"));
                return Ok(());
            }
            Launcher::Granted(grant) => grant,
        };
        let name = device.to_string();
        let nic = grant.on(&name);
        let Some(svc_id) = nic.and_then(|nic| nic.svc_id) else {
            // Launchers list hardware only, so that a software NIC is listed by the user or not at
            // all.
            if nic.is_some() || device.platform().is_listed {
                self.unused = Some(format!("no service on {device} in this job (SLINGSHOT_*)"));
            }
            return Ok(());
        };
        self.svc_id = Some(Chosen::new(svc_id, AccessSource::Slingshot));
        if self.vni.is_none() {
            self.vni = Some(Chosen::new(grant.step_vni()?, AccessSource::Slingshot));
        }
        if self.class.is_none() {
            let class = grant.classes(&name)?.and_then(TrafficClass::preferred);
            self.class = class.map(|class| Chosen::new(class, AccessSource::Slingshot));
            self.unused = grant.unused_classes().map(str::to_owned);
        }
        Ok(())
    }

    /// The number of the service, as far as it is known before the NIC is opened.
    pub fn svc_id(&self) -> u32 {
        self.svc_id.map_or(DEFAULT_SVC_ID, |chosen| chosen.value)
    }

    /// Whether a launcher has granted this service on `device`, as the environment says.
    pub fn is_of_job(&self, device: DeviceName, value: impl Fn(&str) -> Option<String>) -> bool {
        let Ok(Launcher::Granted(grant)) = Launcher::find(value) else {
            return false;
        };
        let granted = grant.on(&device.to_string()).and_then(|nic| nic.svc_id);
        granted == Some(self.svc_id())
    }

    /// The service to use on `device`: the chosen one; else the default service, and if that is
    /// disabled, not for this user, or without the VNI or class of the options, the best one of the
    /// list.
    ///
    /// # Errors
    ///
    /// A service that does not exist or is disabled.
    pub fn find(&self, device: &Device, name: DeviceName) -> Result<Chosen<Service>, Failure> {
        let id = self.svc_id();
        let read = device.service(id);
        let source = self.svc_id.map_or(AccessSource::Default, |chosen| chosen.source);
        if source == AccessSource::Default {
            let rights = Rights::from_this_process();
            let is_usable = |service: &Service| rights.can_use(service) && self.is_met(service);
            if !read.as_ref().is_ok_and(is_usable)
                && let Some(service) = self.best(device, &rights)
            {
                return Ok(Chosen::new(service, AccessSource::ServiceList));
            }
        }
        let service = read.explain(format_args!("cannot use service {id} of {name}"));
        let service = service.map_err(|failure| self.located(failure))?;
        if service.enabled {
            return Ok(Chosen::new(service, source));
        }
        let message = format!("service {id} of {name} is disabled");
        let failure = advice::found(Situation::ServiceDisabled, message);
        Err(self.located(failure))
    }

    /// The best service of a list for this process, as libfabric chooses (jobs.md 1.4), among those
    /// that grant what the options ask for. An unreadable list counts as empty.
    fn best(&self, device: &Device, rights: &Rights) -> Option<Service> {
        let services = device.services().ok().flatten().unwrap_or_default();
        let fits = |service: &Service| rights.can_use(service) && self.is_met(service);
        services
            .into_iter()
            .filter(fits)
            .filter_map(|service| Some((rights.rank(&service)?, service)))
            .max_by_key(|(rank, service)| (*rank, service.id))
            .map(|(_, service)| service)
    }

    fn is_met(&self, service: &Service) -> bool {
        self.vni(service).is_ok() && self.class(service).is_ok()
    }

    /// Adds to a failure of the service what the launcher of the job has to do with it.
    fn located(&self, failure: Failure) -> Failure {
        match self.svc_id.map(|chosen| chosen.source) {
            Some(AccessSource::Slingshot) => {
                failure.context("the service of SLINGSHOT_*").explained(Situation::GrantUnusable)
            }
            Some(_) => failure,
            None => {
                let failure = match &self.unused {
                    Some(why) => failure.context(why),
                    None => failure,
                };
                if self.is_one_node_step {
                    failure.explained(Situation::OneNodeStep)
                } else {
                    failure
                }
            }
        }
    }

    /// The failure to allocate an interface in a service.
    pub fn refused(&self, error: Error, service: &Service, name: DeviceName) -> Failure {
        let id = service.id;
        let what = format!("cannot allocate an LNI in service {id} of {name}");
        let failure = explain::explained(error, what);
        let failure = if error.errno() == libc::EPERM && service.restricted_members {
            failure.with_hint(Rights::from_this_process().explain(service))
        } else {
            failure
        };
        self.located(failure)
    }

    /// Returns what this process uses in `service`.
    ///
    /// # Errors
    ///
    /// A service that does not grant the VNI or the traffic class.
    pub fn access(&self, service: &Chosen<Service>) -> Result<Access, Failure> {
        Ok(Access {
            svc_id: Chosen::new(service.value.id, service.source),
            vni: self.vni(&service.value)?,
            class: self.class(&service.value)?,
            unused: self.unused.clone(),
        })
    }

    fn vni(&self, service: &Service) -> Result<Chosen<u16>, Failure> {
        let Some(chosen) = self.vni else {
            return first_vni(service);
        };
        let vni = chosen.value;
        let range = service.vni_range().ok().flatten();
        let (is_granted, granted) = if service.restricted_vnis {
            (service.vnis.contains(&vni), listed(&service.vnis))
        } else if let Some(range) = range {
            let shown = format!("{} to {}", range.start(), range.end());
            // The kernel grants root any VNI. A service that the user has not named is chosen for
            // the VNIs that it grants.
            let is_named = self.svc_id.is_some();
            let is_granted = range.contains(&vni) || is_named && geteuid().is_root();
            (is_granted, shown)
        } else {
            // An older libcxi does not report ranges: the kernel decides.
            (true, String::new())
        };
        if is_granted {
            return Ok(chosen);
        }
        let message =
            format!("service {} does not grant VNI {vni}; it grants {granted}", service.id);
        Err(misfit(Situation::VniNotGranted, chosen.source, message))
    }

    fn class(&self, service: &Service) -> Result<Chosen<TrafficClass>, Failure> {
        let granted: Vec<TrafficClass> = TrafficClass::ALL
            .into_iter()
            .filter(|class| {
                !service.restricted_traffic_classes
                    || service.traffic_classes[class.number() as usize]
            })
            .collect();
        let default = TrafficClass::preferred(&granted);
        let default = default.map(|class| Chosen::new(class, AccessSource::Default));
        match self.class.or(default) {
            Some(chosen) if granted.contains(&chosen.value) => Ok(chosen),
            chosen => {
                let class = chosen.map_or("any traffic class".into(), |chosen| {
                    format!("the traffic class {}", chosen.value)
                });
                let granted = match granted.as_slice() {
                    [] => "none".to_owned(),
                    granted => traffic_class::names(granted),
                };
                let message =
                    format!("service {} does not grant {class}; it grants {granted}", service.id);
                let source = chosen.map_or(AccessSource::Default, |chosen| chosen.source);
                Err(misfit(Situation::ClassNotGranted, source, message))
            }
        }
    }
}

/// The failure for a value from `source` that the service does not grant.
fn misfit(situation: Situation, source: AccessSource, message: String) -> Failure {
    if source == AccessSource::Slingshot {
        advice::found(Situation::GrantUnusable, message).context("SLINGSHOT_*")
    } else {
        advice::found(situation, message)
    }
}

fn listed(vnis: &[u16]) -> String {
    let vnis: Vec<String> = vnis.iter().map(u16::to_string).collect();
    if vnis.is_empty() { "none".into() } else { vnis.join(", ") }
}

/// The VNI to use with a service by default: the first one of its list or range. For a service with
/// a range, the legacy tools use the VNI of service 1 (defect T26 of tools.md).
fn first_vni(service: &Service) -> Result<Chosen<u16>, Failure> {
    let none = |why: &str| {
        let message = format!("service {} has no VNI: {why}", service.id);
        advice::found(Situation::ServiceWithoutVni, message)
    };
    if service.restricted_vnis {
        return match service.vnis.first() {
            None | Some(0) => Err(none("its list is empty")),
            Some(vni) => Ok(Chosen::new(*vni, AccessSource::Default)),
        };
    }
    let range = service.vni_range().explain("cannot read the VNI range of the service")?;
    match range {
        Some(range) if *range.start() > 0 => Ok(Chosen::new(*range.start(), AccessSource::Range)),
        _ => Err(none("its range is not set")),
    }
}

/// What the user types about the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceOptions {
    /// `--svc-id`: 1 to 2^31 - 1.
    pub svc_id: Option<u32>,
    pub vni: Option<VniOption>,
    pub class: Option<TrafficClass>,
}

/// The value of `--vni`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VniOption {
    Number(u16),
    /// The VNI that all steps of a job share.
    OfJob,
}

impl FromStr for VniOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "job" {
            return Ok(Self::OfJob);
        }
        let number = within(text, 1..=u16::MAX.into());
        let number = number.map_err(|allowed| format!("{allowed}, or job"))?;
        Ok(Self::Number(number as u16))
    }
}

impl fmt::Display for VniOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::OfJob => f.write_str("job"),
        }
    }
}

/// What decides whether this process is a member of a service: the effective user and group, and
/// the network namespace (libcxi.md 4). Root has no other rights.
pub struct Rights {
    user: u32,
    group: u32,
    network_namespace: Option<u64>,
}

impl Rights {
    pub fn from_this_process() -> Self {
        let namespace = fs::metadata("/proc/self/ns/net");
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            network_namespace: namespace.ok().map(|namespace| namespace.ino()),
        }
    }

    /// Whether the process can use the service. A system service is the driver's own, also where
    /// root is its member.
    pub fn can_use(&self, service: &Service) -> bool {
        service.enabled && !service.system && self.admit(service)
    }

    /// Whether the process is a member of the service.
    pub fn admit(&self, service: &Service) -> bool {
        self.rank(service).is_some()
    }

    /// Returns how closely a service belongs to this process: 3 for its network namespace, 2 for
    /// its user, 1 for its group, 0 for anyone; `None` if the service is for others.
    pub fn rank(&self, service: &Service) -> Option<u8> {
        if !service.restricted_members {
            return Some(0);
        }
        let rank = |member: &ServiceMember| match *member {
            ServiceMember::NetworkNamespace(id) if self.network_namespace == Some(id.into()) => {
                Some(3)
            }
            ServiceMember::User(id) if id == self.user => Some(2),
            ServiceMember::Group(id) if id == self.group => Some(1),
            _ => None,
        };
        service.members.iter().filter_map(rank).max()
    }

    /// The hint for a service that is for others.
    pub fn explain(&self, service: &Service) -> String {
        let members: Vec<String> = service.members.iter().map(name).collect();
        let members = if members.is_empty() { "no user".into() } else { members.join(", ") };
        format!(
            "user {} of group {} is not a member of the service, which is for {members}; choose \
             another service with --svc-id",
            self.user, self.group
        )
    }
}

fn name(member: &ServiceMember) -> String {
    match member {
        ServiceMember::User(id) => format!("user {id}"),
        ServiceMember::Group(id) => format!("group {id}"),
        ServiceMember::NetworkNamespace(id) => format!("network namespace {id}"),
        ServiceMember::Other(kind) => format!("members of kind {kind}"),
    }
}

facts::named_enum! {
    /// Where a service, VNI or traffic class comes from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AccessSource {
        /// The default: service 1, the first VNI of the service, and BEST_EFFORT, or the first
        /// class of a service without it.
        Default = "default",
        /// The default of a service with a range of VNIs: the first one.
        Range = "default",
        Option = "option",
        /// The variables `SLINGSHOT_*` of the job.
        Slingshot = "slingshot",
        /// The list of services of the NIC.
        ServiceList = "service_list",
    }
    /// The name of the source in documents.
    pub fn name(self);
}

impl fmt::Display for AccessSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default | Self::Range => self.name(),
            Self::Option => "options",
            Self::Slingshot => "SLINGSHOT_*",
            Self::ServiceList => "service list",
        })
    }
}

/// A value with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    pub value: T,
    /// Where it comes from.
    pub source: AccessSource,
}

impl<T> Chosen<T> {
    /// A value that comes from `source`.
    pub fn new(value: T, source: AccessSource) -> Self {
        Self { value, source }
    }

    fn by_option(value: T) -> Self {
        Self::new(value, AccessSource::Option)
    }
}

/// The service, VNI and traffic class that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The service.
    pub svc_id: Chosen<u32>,
    pub vni: Chosen<u16>,
    pub class: Chosen<TrafficClass>,
    /// Why variables of the launcher are not used.
    pub unused: Option<String>,
}

/// The class of the legacy tools.
const USUAL_CLASS: Chosen<TrafficClass> =
    Chosen { value: TrafficClass::BestEffort, source: AccessSource::Default };

impl Access {
    /// One line about what is used and where it comes from; `None` if that is what the legacy tools
    /// would use with the same options.
    pub fn note(&self) -> Option<String> {
        let is_usual = matches!(self.svc_id.source, AccessSource::Default | AccessSource::Option)
            && matches!(self.vni.source, AccessSource::Default | AccessSource::Range)
            && self.class == USUAL_CLASS
            && self.unused.is_none();
        if is_usual {
            return None;
        }
        let vni_source = match self.vni.source {
            // It follows from the service.
            AccessSource::Default | AccessSource::Range => self.svc_id.source,
            source => source,
        };
        let mut items = vec![
            (format!("service {}", self.svc_id.value), self.svc_id.source),
            (format!("VNI {}", self.vni.value), vni_source),
        ];
        if self.class != USUAL_CLASS {
            items.push((self.class.value.to_string(), self.class.source));
        }
        let groups = items.chunk_by(|(_, source), (_, next)| source == next);
        let groups = groups.map(|group| {
            let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
            format!("{} ({})", names.join(", "), group[0].1)
        });
        let used = groups.collect::<Vec<_>>().join("; ");
        Some(match &self.unused {
            Some(why) => format!("{why}; using {used}"),
            None => format!("using {used}"),
        })
    }
}

#[cfg(test)]
mod tests;
