//! What this node says about possible causes: items of `check`, counters, services and their use,
//! kernel modules, and settings as `check --job` reads them.

use check::document::Check;
use check::job::document::JobCheck;
use cxi::RESOURCES;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::host::host_name;
use facts::severity::Severity;
use node::machine::Machine;
use node::nic::files::Files;
use node::{backend, reading};

use crate::document::{Confidence, ExplainedCause, Explanation, PossibleCause};

/// The readings of this node.
pub struct Node {
    check: Check,
    job: Option<JobCheck>,
    nics: Vec<Nic>,
    /// Text of /proc/modules.
    modules: Option<String>,
}

struct Nic {
    name: String,
    /// Its address.
    nid: Option<u32>,
    files: Option<Files>,
    /// Services that have used up a resource: its name, and the service.
    full: Vec<(&'static str, u32)>,
}

/// Causes with such a key are settings of this environment.
const SETTING: &str = "job:";

/// Whether a cause is there, and the reading that says so.
type Answer = Option<(bool, String)>;

impl Node {
    /// Reads this node, without traffic: these NICs, or all hardware if there are none.
    ///
    /// # Errors
    ///
    /// Settings of the site that are invalid, and an interruption.
    pub fn read(devices: &[DeviceName]) -> Result<Self, Failure> {
        let machine = Machine::this();
        let check = check::check_node_quickly(devices)?;
        let names = check.devices.iter().filter_map(|device| device.name.parse().ok());
        let nics = names.map(|name| nic(name, &machine)).collect();
        let modules = reading::text(&machine.root().join("proc/modules")).ok();
        Ok(Self { check, job: check::job::check_own_settings().ok(), nics, modules })
    }

    /// Puts the causes that this node has first, and leaves out those that it does not have.
    pub fn weigh(&self, explanation: &mut Explanation) {
        let Some(cause) = &mut explanation.cause else { return };
        let has_part = self.has_part(cause);
        if self.nics.is_empty() {
            let text =
                "readings of this node: it has no Cassini NIC (--device names a software NIC)";
            explanation.missing.push(text.into());
        } else if !has_part {
            let host = cause.host.as_deref().unwrap_or("the node of this NIC");
            explanation.missing.push(format!("readings of {host}: run --here there"));
        }
        for possible in &mut cause.possible_causes {
            let key = possible.key.filter(|key| has_part || key.starts_with(SETTING));
            if let Some((is_here, reading)) = key.and_then(|key| self.answer(key)) {
                possible.is_here = Some(is_here);
                possible.reading = Some(reading);
            }
        }
        let is_known = cause.possible_causes.iter().any(|possible| possible.is_here == Some(true));
        // With each cause contradicted, the list is still what the message can mean.
        if cause.possible_causes.iter().any(|possible| possible.is_here != Some(false)) {
            cause.possible_causes.retain(|possible| possible.is_here != Some(false));
        }
        cause
            .possible_causes
            .sort_by_key(|possible: &PossibleCause| possible.is_here != Some(true));
        if is_known && explanation.confidence == Confidence::Probably {
            explanation.confidence = Confidence::Known;
            let probably = Confidence::Probably.name();
            if let Some(rest) = explanation.summary.strip_prefix(probably) {
                explanation.summary = format!("{}{rest}", Confidence::Known.name());
            }
        }
    }

    /// Whether the part at fault is of this node, as far as the logs say which one it is.
    fn has_part(&self, cause: &ExplainedCause) -> bool {
        let own = host_name();
        let first_label = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
        match (cause.nid, &cause.host) {
            (Some(nid), _) => self.nics.iter().any(|nic| nic.nid == Some(nid)),
            (None, Some(host)) => first_label(host) == first_label(&own),
            (None, None) => !cause.is_unknown_peer,
        }
    }

    fn answer(&self, key: &str) -> Answer {
        let (kind, name) = key.split_once(':')?;
        match kind {
            "check" => self.item(name),
            "counter" => self.counter(name),
            "full" => self.full(name),
            "module" => {
                let modules = self.modules.as_deref()?;
                let is_loaded = modules.lines().any(|line| line.split(' ').next() == Some(name));
                let state = if is_loaded { "is loaded" } else { "is not loaded" };
                Some((!is_loaded, format!("{name} {state}")))
            }
            "job" => {
                let findings = &self.job.as_ref()?.findings;
                let found = findings.iter().find(|finding| finding.code == name)?;
                Some((true, found.subject()))
            }
            _ => None,
        }
    }

    /// The worst finding of an item of `check`.
    fn item(&self, code: &str) -> Answer {
        let nic_items = self.check.devices.iter().flat_map(|device| {
            device.items.iter().map(move |item| (Some(device.name.as_str()), item))
        });
        let items = nic_items.chain(self.check.host.iter().map(|item| (None, item)));
        let judged = items.filter(|(_, item)| item.code == code && item.verdict >= Severity::Good);
        let (device, item) = judged.max_by_key(|(_, item)| item.verdict)?;
        let place = device.map_or_else(String::new, |name| format!("{name} "));
        let value = item.value.as_deref().unwrap_or("-");
        Some((item.verdict.is_wrong(), format!("{place}{} {value}", item.name)))
    }

    /// Counters contradict a cause if all of them are 0 since the driver was loaded. A count does
    /// not say when it counted, so it proves nothing. `*` in the name stands for any text.
    fn counter(&self, pattern: &str) -> Answer {
        let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let is_meant = |name: &String| {
            name.starts_with(start) && name.ends_with(end) && (name == pattern || start != pattern)
        };
        let values = self.nics.iter().filter_map(|nic| nic.files.as_ref()).flat_map(|files| {
            let names = files.entries("telemetry").into_iter().filter(is_meant);
            names.filter_map(|name| Some(files.counter(&name)?.value)).collect::<Vec<_>>()
        });
        (values.max()? == 0).then(|| (false, format!("{pattern} 0")))
    }

    fn full(&self, name: &str) -> Answer {
        let mut full = self.nics.iter().flat_map(|nic| {
            nic.full.iter().map(move |(resource, service)| (nic, *resource, *service))
        });
        let (nic, _, service) =
            full.find(|(_, resource, _)| resource.eq_ignore_ascii_case(name))?;
        Some((true, format!("{} service {service} has used up its {name}", nic.name)))
    }
}

/// Reads a NIC; what cannot be read says nothing.
fn nic(name: DeviceName, machine: &Machine) -> Nic {
    let services = backend::open(name, None).ok().and_then(|device| {
        let services = device.services().ok()?.into_iter().flatten();
        let with_use =
            services.filter_map(|service| Some((device.in_use(service.id).ok()??, service)));
        let full = with_use.flat_map(|(in_use, service)| {
            let is_full = |number: usize| {
                service.is_limited(number)
                    && in_use[number].is_some_and(|count| count >= service.limit(number).max)
            };
            let full = (0..RESOURCES.len()).filter(|number| is_full(*number));
            full.map(|number| (RESOURCES[number], service.id)).collect::<Vec<_>>()
        });
        Some(full.collect())
    });
    let files = backend::files(name, machine).ok();
    Nic {
        name: name.to_string(),
        nid: files.as_ref().and_then(Files::nid),
        files,
        full: services.unwrap_or_default(),
    }
}
