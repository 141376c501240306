//! What a process uses of a NIC, and where it comes from.

use std::fmt;

use crate::traffic_class::TrafficClass;

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
    /// Returns the name of the source in documents.
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
    /// Returns a value that comes from `source`.
    pub fn new(value: T, source: AccessSource) -> Self {
        Self { value, source }
    }

    pub fn by_option(value: T) -> Self {
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
    /// Returns one line about what is used and where it comes from; `None` if that is what the
    /// legacy tools would use with the same options.
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
