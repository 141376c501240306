//! The locations of hosts, from the user's file or from their launcher.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use cluster::host_locations::{of_file, of_topology};
use cluster::location::Location;
use cluster::survey::timetable::Introduction;
use facts::error::{Failure, cause, invalid};

/// The locations of hosts.
#[derive(Debug, Default)]
pub struct Locations {
    /// The locations in the user's file.
    named: HashMap<String, Location>,
    /// The locations from the topology that the launcher knows.
    topology: HashMap<String, Location>,
}

impl Locations {
    /// Reads the file at `path`, if there is one.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no file of locations.
    pub fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let refused = |why| Failure::usage(invalid("locations", path.display(), why));
        let text = fs::read_to_string(path).map_err(|error| refused(cause(&error)))?;
        Ok(Self {
            named: of_file(&text).map_err(refused)?,
            ..Self::default()
        })
    }

    /// Adds the topology from the launcher of these processes, if it knows all of them.
    pub fn add_topology(&mut self, joined: &BTreeMap<u32, Introduction>) {
        let topology = |of: &Introduction| Some((of.host.clone(), of.topology.clone()?));
        let known: Option<Vec<(String, String)>> = joined.values().map(topology).collect();
        let known = known.unwrap_or_default();
        let known = known
            .iter()
            .map(|(host, switches)| (host.as_str(), switches.as_str()));
        self.topology = of_topology(known);
    }

    /// Returns the location of a NIC of `host`, from the first source that has it: the file, the
    /// `address` of the NIC, the topology.
    pub fn of(&self, host: &str, address: Option<Location>) -> Option<Location> {
        let named = self.named.get(host).copied();
        named
            .or(address)
            .or_else(|| self.topology.get(host).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut locations = Locations::read(Some(&path)).unwrap();
        let joined = ["n1", "n2"].map(|host| introduction(host, Some("s4.s5")));
        locations.add_topology(&(0..).zip(joined).collect());
        let text = |location: Option<Location>| location.map(|of| of.to_string());
        let address = Some(Location::of_nid(0x007ea));
        assert_eq!(text(locations.of("n1", address)).as_deref(), Some("003.07"));
        assert_eq!(
            text(locations.of("n2", address)).as_deref(),
            Some("000.31.42")
        );
        assert!(locations.of("n2", None).is_some());
        assert_eq!(locations.of("n3", None), None);
    }

    #[test]
    fn ignores_topology_of_some_hosts() {
        let mut locations = Locations::read(None).unwrap();
        let joined = [introduction("n1", Some("s0.s1")), introduction("n2", None)];
        locations.add_topology(&(0..).zip(joined).collect());
        assert_eq!(locations.of("n1", None), None);
    }
}
