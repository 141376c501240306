//! What the launcher of a job step has granted on the NICs of this node: the variables
//! `SLINGSHOT_*` (jobs.md 1.1).

use std::collections::HashSet;

use crate::traffic_class::TrafficClass;
use facts::number::within;

const DEVICES: &str = "SLINGSHOT_DEVICES";
const SVC_IDS: &str = "SLINGSHOT_SVC_IDS";
const VNIS: &str = "SLINGSHOT_VNIS";
const TCS: &str = "SLINGSHOT_TCS";

/// The most VNIs that a launcher grants (jobs.md 1.1).
const MAX_VNIS: usize = 4;

/// The number of nodes of a step of Slurm.
const STEP_NODES: &str = "SLURM_STEP_NUM_NODES";

/// What a process finds in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// None of the variables is set.
    Absent,
    /// Variables that belong together are missing or empty: their names.
    Incomplete(Vec<&'static str>),
    /// All of them are set.
    Granted(Grant),
}

/// What a launcher has granted. Its VNIs and traffic classes are judged only where they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    nics: Vec<ListedNic>,
    /// The VNIs of all NICs: of the step, and of the whole job if the launcher has granted one.
    vnis: Result<Vec<u16>, String>,
    classes: Result<Classes, String>,
}

/// A NIC that a launcher has listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNic {
    device: String,
    /// The service; `None` if the job has none on this NIC.
    pub svc_id: Option<u32>,
}

/// The traffic classes that a launcher names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Classes {
    /// It names none.
    Unnamed,
    /// All NICs have these.
    OfAll(Vec<TrafficClass>),
    /// A list for each NIC.
    OfEach(Vec<Vec<TrafficClass>>),
    /// The list has more entries than there are NICs, because a script has shortened the other
    /// lists: why it is not used.
    Surplus(String),
}

impl Launcher {
    /// Reads the variables that `value` returns.
    ///
    /// # Errors
    ///
    /// A variable with an invalid value, and lists of different lengths.
    pub fn find(value: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let lists = [DEVICES, SVC_IDS, VNIS].map(|name| (name, set(&value, name)));
        let classes = set(&value, TCS);
        match lists {
            [(_, Some(devices)), (_, Some(svc_ids)), (_, Some(vnis))] => {
                Grant::parse(&devices, &svc_ids, &vnis, classes.as_deref()).map(Self::Granted)
            }
            [(_, None), (_, None), (_, None)] if classes.is_none() => Ok(Self::Absent),
            lists => {
                let missing = lists.into_iter().filter(|(_, text)| text.is_none());
                Ok(Self::Incomplete(missing.map(|(name, _)| name).collect()))
            }
        }
    }
}

/// Whether a launcher has listed `device`, whatever its other variables say.
pub fn is_listed(value: impl Fn(&str) -> Option<String>, device: &str) -> bool {
    set(value, DEVICES).is_some_and(|names| names.split(',').any(|name| name.trim() == device))
}

/// Whether the process belongs to a step of Slurm on one node without a VNI: such a step gets one
/// only if the user or the site asks for it (jobs.md 1.2).
pub fn is_one_node_step(value: impl Fn(&str) -> Option<String>) -> bool {
    set(&value, STEP_NODES).as_deref() == Some("1") && set(&value, VNIS).is_none()
}

/// The value of a variable that is set and not empty.
fn set(value: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let text = value(name)?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

impl Grant {
    fn parse(
        devices: &str,
        svc_ids: &str,
        vnis: &str,
        classes: Option<&str>,
    ) -> Result<Self, String> {
        let names: Vec<&str> = devices.split(',').map(str::trim).collect();
        if names.contains(&"") {
            return Err(format!("{DEVICES}={devices}: one of the names is empty"));
        }
        let svc_ids_of_nics = list(SVC_IDS, svc_ids, svc_id)?;
        if svc_ids_of_nics.len() != names.len() {
            let counts = [names.len(), svc_ids_of_nics.len()];
            return Err(different_lengths(devices, (SVC_IDS, svc_ids), counts));
        }
        if let Some(name) = repeated(&names) {
            return Err(format!("{DEVICES}={devices}: '{name}' is listed twice"));
        }
        let nics = names.iter().zip(svc_ids_of_nics);
        Ok(Self {
            nics: nics
                .map(|(device, svc_id)| ListedNic { device: (*device).to_owned(), svc_id })
                .collect(),
            vnis: list(VNIS, vnis, vni).and_then(|list| {
                if list.len() > MAX_VNIS {
                    return Err(format!("{VNIS}={vnis}: expected at most {MAX_VNIS} VNIs"));
                }
                Ok(list)
            }),
            classes: classes_of_nics(classes, devices, names.len()),
        })
    }

    /// The VNI of the step.
    ///
    /// # Errors
    ///
    /// An invalid list of VNIs.
    pub fn step_vni(&self) -> Result<u16, String> {
        self.vnis.clone().map(|vnis| vnis[0])
    }

    /// The VNI of the whole job, if the launcher has granted one.
    ///
    /// # Errors
    ///
    /// An invalid list of VNIs.
    pub fn job_vni(&self) -> Result<Option<u16>, String> {
        self.vnis.clone().map(|vnis| vnis.get(1).copied())
    }

    /// The traffic classes on a NIC, if the launcher names them.
    ///
    /// # Errors
    ///
    /// An invalid list of classes.
    pub fn classes(&self, device: &str) -> Result<Option<&[TrafficClass]>, String> {
        Ok(match self.classes.as_ref().map_err(String::clone)? {
            Classes::Unnamed | Classes::Surplus(_) => None,
            Classes::OfAll(classes) => Some(classes),
            Classes::OfEach(classes) => {
                let mut nics = self.nics.iter();
                let place = nics.position(|nic| nic.device == device);
                place.map(|place| classes[place].as_slice())
            }
        })
    }

    /// Returns why the traffic classes that the launcher names are not used, if they are not.
    pub fn unused_classes(&self) -> Option<&str> {
        match &self.classes {
            Ok(Classes::Surplus(why)) => Some(why),
            _ => None,
        }
    }

    /// The names of the NICs that the launcher has listed.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.nics.iter().map(|nic| nic.device.as_str())
    }

    /// Returns what is granted on a NIC; `None` for a NIC that the launcher has not listed.
    pub fn on(&self, device: &str) -> Option<&ListedNic> {
        self.nics.iter().find(|nic| nic.device == device)
    }
}

/// Reads the traffic classes of `count` NICs.
fn classes_of_nics(classes: Option<&str>, devices: &str, count: usize) -> Result<Classes, String> {
    let Some(text) = classes else {
        return Ok(Classes::Unnamed);
    };
    let mut sets = list(TCS, text, class_set)?;
    Ok(match sets.len() {
        1 => Classes::OfAll(sets.remove(0)),
        length if length == count => Classes::OfEach(sets),
        length => {
            let why = different_lengths(devices, (TCS, text), [count, length]);
            if length < count {
                return Err(why);
            }
            Classes::Surplus(format!("{why}: its traffic classes are not used"))
        }
    })
}

fn different_lengths(devices: &str, (name, text): (&str, &str), counts: [usize; 2]) -> String {
    let [nics, others] = counts;
    format!("{DEVICES}={devices} and {name}={text} have different lengths ({nics} and {others})")
}

/// The first name that is listed again.
fn repeated<'n>(names: &[&'n str]) -> Option<&'n str> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(**name)).copied()
}

/// Reads each element of a list; `item` returns an error that names what is allowed.
fn list<T>(
    name: &str,
    text: &str,
    item: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let items = |part: &str| {
        let part = part.trim();
        item(part).map_err(|allowed| format!("{name}={text}: '{part}': {allowed}"))
    };
    text.split(',').map(items).collect()
}

/// Reads the number of a service. Flux prints -1 where a NIC has none.
fn svc_id(text: &str) -> Result<Option<u32>, String> {
    if text == "-1" {
        return Ok(None);
    }
    let number = within(text, 0..=i32::MAX as u64)?;
    Ok((number > 0).then_some(number as u32))
}

fn vni(text: &str) -> Result<u16, String> {
    Ok(within(text, 1..=u16::MAX.into())? as u16)
}

/// Reads a set of traffic classes: a hexadecimal number with a bit for each.
fn class_set(text: &str) -> Result<Vec<TrafficClass>, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bits = u32::from_str_radix(digits, 16).ok();
    let granted = |bits: u32| {
        let is_set = |class: &TrafficClass| bits & (1 << class.number()) != 0;
        TrafficClass::ALL.into_iter().filter(is_set).collect()
    };
    let bits = bits
        .filter(|&bits| is_hexadecimal && bits <= LARGEST_SET)
        .ok_or("expected traffic classes as a hexadecimal number, such as 0xa")?;
    let classes: Vec<_> = granted(bits);
    if classes.is_empty() {
        return Err("no traffic class for RDMA is granted".into());
    }
    Ok(classes)
}

/// The set of all classes. Its highest bit stands for Ethernet, which no tool uses.
const LARGEST_SET: u32 = 0x1f;

#[cfg(test)]
mod tests {
    use super::TrafficClass::{BestEffort, BulkData, LowLatency};
    use super::*;

    /// Returns what is found in the variables DEVICES, SVC_IDS, VNIS and TCS; `-` for one that is
    /// absent.
    fn find(values: [&str; 4]) -> Result<Launcher, String> {
        Launcher::find(|name| {
            let known = [DEVICES, SVC_IDS, VNIS, TCS];
            let index = known.iter().position(|known| *known == name)?;
            (values[index] != "-").then(|| values[index].to_owned())
        })
    }

    fn grant(values: [&str; 4]) -> Grant {
        match find(values) {
            Ok(Launcher::Granted(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }

    /// The error of the first variable that is invalid when it is used.
    fn refusal(values: [&str; 4]) -> String {
        let grant = match find(values) {
            Ok(Launcher::Granted(grant)) => grant,
            other => return other.unwrap_err(),
        };
        let classes = || grant.classes("cxi0").map(drop);
        grant.step_vni().map(drop).and_then(|()| classes()).unwrap_err()
    }

    /// jobs.md 1.8
    #[test]
    fn reads_services_by_position_and_vnis_for_all_nics() {
        let grant = grant(["cxi0,cxi1", "5,6", "1358,1214", "0xa"]);
        let nic = grant.on("cxi1").unwrap();
        assert_eq!((nic.svc_id, grant.step_vni()), (Some(6), Ok(1358)));
        assert_eq!(grant.job_vni(), Ok(Some(1214)));
        let classes = grant.classes("cxi1").unwrap();
        assert_eq!(classes, Some(&[LowLatency, BestEffort][..]));
        assert_eq!(grant.on("cxi0").unwrap().svc_id, Some(5));
        assert_eq!(grant.on("cxi2"), None);
    }

    /// jobs.md 1.8
    #[test]
    fn finds_no_service_where_flux_prints_minus_one() {
        let grant = grant(["cxi0,cxi1", "5,-1", "1358", "0x0a"]);
        assert_eq!(grant.on("cxi1").unwrap().svc_id, None);
        assert_eq!(grant.job_vni(), Ok(None));
    }

    /// jobs.md 1.8
    #[test]
    fn refuses_lists_of_different_lengths_and_names_both() {
        let message = refusal(["cxi0,cxi1", "5", "1358", "-"]);
        assert_eq!(
            message,
            "SLINGSHOT_DEVICES=cxi0,cxi1 and SLINGSHOT_SVC_IDS=5 have different lengths (2 and 1)"
        );
        let message = refusal(["cxi0,cxi1,cxi2", "5,6,7", "1358", "0xa,0x8"]);
        assert!(message.contains("SLINGSHOT_TCS=0xa,0x8"), "{message}");
    }

    #[test]
    fn says_that_classes_of_a_longer_list_are_not_used() {
        let shortened = grant(["cxi0", "5", "1358", "0xa,0x8"]);
        assert_eq!(shortened.classes("cxi0"), Ok(None));
        assert_eq!(
            shortened.unused_classes(),
            Some(
                "SLINGSHOT_DEVICES=cxi0 and SLINGSHOT_TCS=0xa,0x8 have different lengths (1 and \
                 2): its traffic classes are not used"
            )
        );
        assert_eq!(grant(["cxi0", "5", "1358", "0xa"]).unused_classes(), None);
    }

    /// jobs.md 1.8
    #[test]
    fn names_missing_and_empty_variables() {
        let incomplete = |values| match find(values) {
            Ok(Launcher::Incomplete(missing)) => missing,
            other => panic!("{other:?}"),
        };
        assert_eq!(incomplete(["cxi0", "5", "", "0xa"]), [VNIS]);
        assert_eq!(incomplete(["-", "-", "1358", "-"]), [DEVICES, SVC_IDS]);
        assert_eq!(incomplete(["-", "-", "-", "8"]), [DEVICES, SVC_IDS, VNIS]);
        assert_eq!(find(["-"; 4]), Ok(Launcher::Absent));
        assert_eq!(find(["", " ", "-", "-"]), Ok(Launcher::Absent));
    }

    /// jobs.md 1.8 and 1.1
    #[test]
    fn refuses_invalid_numbers_with_their_range() {
        let message = refusal(["cxi0", "5", "70000", "0xa"]);
        assert_eq!(
            message,
            "SLINGSHOT_VNIS=70000: '70000': expected a decimal number from 1 to 65535"
        );
        for (values, word) in [
            (["cxi0", "5", "0", "-"], VNIS),
            (["cxi0", "5", "1358,", "-"], VNIS),
            (["cxi0", "2147483648", "1358", "-"], SVC_IDS),
            (["cxi0", "-2", "1358", "-"], SVC_IDS),
            (["cxi0", "0x5", "1358", "-"], SVC_IDS),
            (["cxi0,", "5,6", "1358", "-"], DEVICES),
            (["cxi0,cxi1,cxi0", "5,6,7", "1358", "-"], DEVICES),
            (["cxi0", "5", "1,2,3,4,5", "-"], VNIS),
            (["cxi0", "5", "1358", "+a"], TCS),
            (["cxi0", "5", "1358", "0x"], TCS),
            (["cxi0", "5", "1358", "0x10"], TCS),
            (["cxi0", "5", "1358", "0x20"], TCS),
        ] {
            let message = refusal(values);
            assert!(message.starts_with(word), "{message}");
        }
        assert_eq!(grant(["cxi0", "0", "1358", "-"]).on("cxi0").unwrap().svc_id, None);
    }

    /// jobs.md 1.1
    #[test]
    fn reads_traffic_classes_of_all_nics_or_of_each() {
        let classes = |text, device| {
            let grant = grant(["cxi0,cxi1", "5,6", "1358", text]);
            grant.classes(device).unwrap().map(<[_]>::to_vec)
        };
        assert_eq!(classes("-", "cxi0"), None);
        assert_eq!(classes("0x0a", "cxi0"), classes("a", "cxi1"));
        assert_eq!(classes("0x2,0xC", "cxi0"), Some(vec![LowLatency]));
        assert_eq!(classes("0x2,0xC", "cxi1"), Some(vec![BulkData, BestEffort]));
    }

    /// jobs.md 1.3
    #[test]
    fn recognizes_one_node_step_without_vni() {
        let is_one_node_step = |variables: &[(&str, &str)]| {
            super::is_one_node_step(|name| {
                let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            })
        };
        assert!(is_one_node_step(&[(STEP_NODES, "1")]));
        assert!(!is_one_node_step(&[(STEP_NODES, "2")]));
        assert!(!is_one_node_step(&[(STEP_NODES, "1"), (VNIS, "1358")]));
        assert!(!is_one_node_step(&[]));
    }
}
