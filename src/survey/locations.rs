//! The locations of NICs, from the user's file of hosts or of the fabric, or from their launcher.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use campaign::quiet::roster::{Nic, Roster};
use crew::introduction::{IntroducedNic, Introduction};
use crew::location::{Location, file_locations, topology_locations};
use facts::device::DeviceName;
use facts::error::{Failure, cause, invalid};
use facts::host::short_name;
use facts::user_file;
use load::limits::FabricShape;
use topology::{Dragonfly, MOST_NICS, Topology};

/// The locations of NICs.
#[derive(Debug, Default)]
pub struct Locations {
    /// The locations of hosts in the user's file.
    named: HashMap<String, Location>,
    /// The fabric in the user's file.
    fabric: Option<Topology>,
    /// The numbers of this fabric, if it is a regular one.
    pub shape: Option<FabricShape>,
    /// The locations from the topology that the launcher knows.
    topology: HashMap<String, Location>,
}

impl Locations {
    /// Reads the file of hosts at `path`, if there is one, and the topology `fabric`, if there is
    /// one: a file or the short form.
    ///
    /// # Errors
    ///
    /// An unreadable file, an invalid line of locations, an invalid topology.
    pub fn read(path: Option<&Path>, fabric: Option<&str>) -> Result<Self, Failure> {
        let mut locations = Self::default();
        if let Some(path) = path {
            let refused = |why| Failure::usage(invalid("locations", path.display(), why));
            let text = user_file::text(path).map_err(|error| refused(cause(&error)))?;
            let named = file_locations(&text).map_err(refused)?.into_iter();
            locations.named = named.map(|(host, at)| (short_name(&host), at)).collect();
        }
        if let Some(fabric) = fabric {
            locations.shape = shape(fabric);
            // Fabrics of this size have NICs whose addresses say where they are.
            let is_large = |dragonfly: Dragonfly| dragonfly.size() > MOST_NICS as u64;
            if !Dragonfly::from_variable(fabric).is_some_and(is_large) {
                let read = Topology::from_variable(fabric);
                let read = read.map_err(|error| Failure::usage(format!("--topology={error}")))?;
                locations.fabric = Some(read);
            }
        }
        Ok(locations)
    }

    /// Adds the topology from the launcher of these processes, if it knows all of them.
    pub fn add_topology(&mut self, joined: &BTreeMap<u32, Introduction>) {
        let names = |introduction: &Introduction| {
            Some((introduction.host.clone(), introduction.topology.clone()?))
        };
        let known: Option<Vec<(String, String)>> = joined.values().map(names).collect();
        let known = known.unwrap_or_default();
        let known = known.iter().map(|(host, switches)| (host.as_str(), switches.as_str()));
        self.topology = topology_locations(known);
    }

    /// The location of a NIC of `host`, from the first source that has it: the user's file, the
    /// address of the NIC, the launcher.
    pub fn of(&self, host: &str, nic: &IntroducedNic) -> Option<Location> {
        let named = self.named.get(&short_name(host)).copied();
        named
            .or_else(|| self.on_fabric(&nic.device, nic.address.map(|address| address.nic)))
            .or(nic.location)
            .or_else(|| self.topology.get(host).copied())
    }

    /// Returns where the user's fabric has a NIC: a software NIC by its name, because its address
    /// need not follow from its place, and hardware by its address.
    fn on_fabric(&self, device: &str, nid: Option<u32>) -> Option<Location> {
        let fabric = self.fabric.as_ref()?;
        let device = device.parse::<DeviceName>().ok();
        let software = device.filter(|device| device.platform().is_simulated);
        let address = match software {
            Some(device) => fabric.address(device.index as usize),
            None => {
                let own = nid?;
                let mut addresses = (0..fabric.nics.len()).filter_map(|nic| fabric.address(nic));
                addresses.find(|address| *address == own)
            }
        };
        address.map(Location::from_nid)
    }

    /// A line about the NICs that the user's fabric lacks, if there are any.
    pub fn note(&self, roster: &Roster) -> Option<String> {
        let fabric = self.fabric.as_ref()?;
        let is_missing = |nic: &&Nic| self.on_fabric(&nic.device, nic.nid).is_none();
        let missing: Vec<&Nic> = roster.nics.iter().filter(is_missing).collect();
        let first = missing.first()?;
        Some(format!(
            "--topology={} lacks {} of the NICs, such as {} of {}",
            fabric.name,
            missing.len(),
            first.device,
            roster.nodes[first.node.index()].host
        ))
    }
}

/// The numbers of a fabric in the short form, if it is regular.
fn shape(fabric: &str) -> Option<FabricShape> {
    let dragonfly = Dragonfly::from_variable(fabric)?;
    let mut items = fabric.split(';').map(str::trim);
    Some(FabricShape {
        groups: dragonfly.groups as u32,
        switches: dragonfly.switches as u32,
        nics: dragonfly.nics as u32,
        links: dragonfly.global as u32,
        nic_rate: dragonfly.nic,
        local_rate: dragonfly.local,
        global_rate: dragonfly.global_rate,
        is_minimal: items.any(|item| item == "route minimal"),
    })
}

#[cfg(test)]
mod tests {
    use campaign::quiet::roster::{Node, NodeId};
    use facts::device::FabricAddress;

    use std::fs;

    use super::*;

    fn nic(device: &str, address: u32, location: Option<Location>) -> IntroducedNic {
        IntroducedNic {
            device: device.into(),
            address: Some(FabricAddress { nic: address, pid: 0 }),
            vni: 1,
            class: String::new(),
            location,
            simulated: false,
            link_gbps: None,
            failure: None,
        }
    }

    fn text(location: Option<Location>) -> Option<String> {
        location.map(|location| location.to_string())
    }

    fn introduction(host: &str, topology: Option<&str>) -> Introduction {
        Introduction {
            rank: 0,
            size: 2,
            host: host.into(),
            topology: topology.map(str::to_owned),
            nics: Vec::new(),
        }
    }

    #[test]
    fn prefers_file_to_address_and_address_to_topology() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("places");
        fs::write(&path, "n1 7 3\n").unwrap();
        let mut locations = Locations::read(Some(&path), None).unwrap();
        let joined = ["n1", "n2"].map(|host| introduction(host, Some("s4.s5")));
        locations.add_topology(&(0..).zip(joined).collect());
        let known = nic("cxi0", 0x007ea, Some(Location::from_nid(0x007ea)));
        let unknown = nic("cxi0", 0x007ea, None);
        assert_eq!(text(locations.of("n1", &known)).as_deref(), Some("003.07"));
        assert_eq!(text(locations.of("n2", &known)).as_deref(), Some("000.31.42"));
        assert!(locations.of("n2", &unknown).is_some());
        assert_eq!(locations.of("n3", &unknown), None);
    }

    #[test]
    fn fabric_has_software_by_name_and_hardware_by_address() {
        let fabric = "dragonfly:groups=2,switches=2,nics=2";
        let locations = Locations::read(None, Some(fabric)).unwrap();
        let text_for = |nic: &IntroducedNic| text(locations.of("n1", nic));
        assert_eq!(text_for(&nic("soft5", 0x12, None)).as_deref(), Some("001.00.02"));
        assert_eq!(text_for(&nic("cxi5", 0x842, None)).as_deref(), Some("001.01.02"));
        let other = Some(Location::from_nid(0x12));
        assert_eq!(text_for(&nic("soft4", 0x12, other)).as_deref(), Some("001.00.01"));
        assert_eq!(text_for(&nic("cxi5", 0x12, other)).as_deref(), Some("000.00.18"));
        assert_eq!(text_for(&nic("cxi5", 0x12, None)), None);
        assert_eq!(text_for(&nic("soft8", 0x842, None)), None);
        let unopened = IntroducedNic { address: None, ..nic("cxi0", 0, None) };
        assert_eq!(text_for(&unopened), None);
    }

    #[test]
    fn numbers_of_a_large_fabric_are_enough() {
        let fabric = "dragonfly:groups=74,switches=32,nics=16,global=4,nic=25GB/s;route minimal";
        let locations = Locations::read(None, Some(fabric)).unwrap();
        let shape = locations.shape.unwrap();
        assert_eq!((shape.groups, shape.links), (74, 4));
        assert!(shape.is_minimal);
        let own = Some(Location::from_nid(0x842));
        assert_eq!(locations.of("n1", &nic("cxi0", 0x842, own)), own);
        let irregular = "dragonfly:groups=2,switches=2,nics=2;nic 0 1.1 rate=1MB/s";
        assert!(Locations::read(None, Some(irregular)).unwrap().shape.is_none());
    }

    #[test]
    fn names_a_nic_that_the_fabric_lacks() {
        let fabric = "dragonfly:groups=1,switches=1,nics=2";
        let roster = |devices: &[&str]| Roster {
            link_gbps: None,
            nodes: vec![Node { host: "n1".into(), rank: 0, absent: None }],
            nics: (devices.iter())
                .map(|device| Nic {
                    node: NodeId(0),
                    device: (*device).into(),
                    nid: Some(0x12),
                    location: None,
                    failure: None,
                })
                .collect(),
        };
        let locations = Locations::read(None, Some(fabric)).unwrap();
        assert_eq!(locations.note(&roster(&["soft0", "soft1"])), None);
        let note = locations.note(&roster(&["soft0", "soft2", "cxi0"]));
        let expected = format!("--topology={fabric} lacks 2 of the NICs, such as soft2 of n1");
        assert_eq!(note, Some(expected));
        let without = Locations::read(None, None).unwrap();
        assert_eq!(without.note(&roster(&["soft2"])), None);
    }

    #[test]
    fn refuses_invalid_fabric_by_line_and_word() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fabric");
        fs::write(&path, "dragonfly groups=2 switches=2 nics=2\nlink 0.0 0.9\n").unwrap();
        let path = path.display().to_string();
        let refused = Locations::read(None, Some(&path)).unwrap_err();
        let expected = format!("--topology={path}: line 2: '0.9'");
        assert!(refused.to_string().starts_with(&expected), "{refused}");
    }

    #[test]
    fn ignores_topology_of_some_hosts() {
        let mut locations = Locations::read(None, None).unwrap();
        let joined = [introduction("n1", Some("s0.s1")), introduction("n2", None)];
        locations.add_topology(&(0..).zip(joined).collect());
        assert_eq!(locations.of("n1", &nic("cxi0", 0, None)), None);
    }
}
