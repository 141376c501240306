//! The NICs of this machine and the parameters of their driver, from environment variables.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `CXIDIAG_NICS` | number of NICs, 1 to 100 | 100, of which lists show the first 4 |
//! | `CXIDIAG_NIDS` | their addresses, separated by commas | 0x12 for the first |
//! | `CXIDIAG_TOPOLOGY` | the fabric between them, which decides number and addresses | none |
//! | `CXIDIAG_SERVICES` | `enabled` or `disabled`: service 1 alone, in this state | four services |
//! | `CXIDIAG_QOS` | QoS profile: `HPC`, `LL_BE_BD_ET` or `LL_BE_BD_ET1_ET2` | `LL_BE_BD_ET` |
//! | `CXIDIAG_SHS` | release of the driver: `12`, `13`, `14`, `14.0.1`, or `next` for the one after | `14.0.1` |
//!
//! NICs without a given address get the addresses after the last given one. With
//! `CXIDIAG_SHS=next`, an address plus (number + 1) << 20 belongs to a virtual function of the NIC
//! with the address.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;

use cxi_sys::C_NID_ANY;
use topology::Topology;

/// The most NICs of one machine: more than tests need, with two digits in their names.
const MOST: u32 = 100;

/// Number of NICs in lists by default, enough for two pairs. A hundred lines would hide the
/// hardware of the machine.
const LISTED: u32 = 4;

/// Default address of the first NIC. The examples in the documents of the tools use it too.
const FIRST_NID: u32 = 0x12;

/// The most virtual functions of a NIC [I: no page says how many hardware has].
pub const MOST_FUNCTIONS: u32 = 63;

/// The last address: of the last virtual function.
const LAST_NID: u32 = ((MOST_FUNCTIONS + 1) << 20) - 1;

/// The NICs of this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Nics {
    /// Number of NICs that can be opened.
    pub count: u32,
    /// Number of NICs in lists.
    pub listed: u32,
    addresses: Vec<u32>,
}

impl Nics {
    /// Reads the environment.
    ///
    /// # Errors
    /// One line that names the variable.
    pub fn from_environment() -> Result<Self, String> {
        let topology = topology()?;
        let variables = ["CXIDIAG_NICS", "CXIDIAG_NIDS"].map(env::var_os);
        let nics = Self::new(variables, topology.as_ref())?;
        let release = Driver::from_environment()?.release;
        match nics.addresses.iter().find(|nid| **nid > C_NID_ANY) {
            Some(nid) if release < Release::Next => Err(format!(
                "CXIDIAG_NIDS={nid:#x}: a virtual function, which has an address of its own only \
                 with CXIDIAG_SHS=next"
            )),
            _ => Ok(nics),
        }
    }

    fn new(
        [nics, nids]: [Option<OsString>; 2],
        topology: Option<&Topology>,
    ) -> Result<Self, String> {
        let mut found = Self { count: MOST, listed: LISTED, addresses: vec![FIRST_NID] };
        if let Some(topology) = topology {
            let numbers = 0..topology.nics.len();
            found.addresses = numbers.filter_map(|nic| topology.address(nic)).collect();
            found.count = topology.nics.len() as u32;
            found.listed = found.count;
            if let Some(nids) = nids.filter(|value| !value.is_empty()) {
                return Err(format!(
                    "CXIDIAG_NIDS={}: not allowed with {}, which decides the addresses",
                    nids.display(),
                    topology::VARIABLE
                ));
            }
            return match nics.filter(|value| !value.is_empty()) {
                Some(nics) => Err(format!(
                    "CXIDIAG_NICS={}: not allowed with {}, which has {} NICs",
                    nics.display(),
                    topology::VARIABLE,
                    found.count
                )),
                None => Ok(found),
            };
        }
        if let Some(nics) = nics.filter(|value| !value.is_empty()) {
            let count = nics.to_str().and_then(number);
            let count = count.filter(|count| (1..=MOST).contains(count));
            found.count = count.ok_or_else(|| {
                format!("CXIDIAG_NICS={}: expected a number from 1 to {MOST}", nics.display())
            })?;
            found.listed = found.count;
        }
        if let Some(nids) = nids.filter(|value| !value.is_empty()) {
            found.addresses = addresses(&nids.to_string_lossy(), found.count).ok_or_else(|| {
                format!(
                    "CXIDIAG_NIDS={}: expected different addresses from 1 to {:#x}, of virtual functions {:#x} higher for each number and one, separated by commas, with room for all NICs behind the last",
                    nids.display(),
                    C_NID_ANY - 1,
                    C_NID_ANY + 1
                )
            })?;
        }
        Ok(found)
    }

    /// The address at which packets reach a NIC, 20 bits; `None` if there is no such NIC. A virtual
    /// function shares the address of its NIC.
    pub fn address(&self, number: u32) -> Option<u32> {
        self.nid(number).map(|nid| nid & C_NID_ANY)
    }

    /// The address that the driver shows, with the number of a virtual function above the 20 bits
    /// of [`Self::address`] (libcxi.md 2.2); `None` if there is no such NIC.
    pub fn nid(&self, number: u32) -> Option<u32> {
        if number >= self.count {
            return None;
        }
        let given = self.addresses.get(number as usize).copied();
        let last = self.addresses.len() as u32 - 1;
        Some(given.unwrap_or_else(|| self.addresses[last as usize] + number - last))
    }
}

/// The fabric between the NICs, if the environment describes one.
///
/// # Errors
/// One line that names the variable.
pub fn topology() -> Result<Option<Topology>, String> {
    let value = env::var_os(topology::VARIABLE).filter(|value| !value.is_empty());
    let value = value.map(|value| value.to_string_lossy().into_owned());
    let topology = value.map(|value| Topology::from_variable(&value)).transpose();
    topology.map_err(|error| format!("{}={error}", topology::VARIABLE))
}

/// The services that a NIC has until an administrator changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialServices {
    /// The default service, and further ones for cases that programs meet.
    Examples,
    /// The default service alone, as the driver makes it.
    DefaultOnly { enabled: bool },
    /// The disabled default service, and the service that a launcher makes for a step of a job.
    Job,
}

/// The QoS profiles of the driver (jobs.md 1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosProfile {
    Hpc,
    LlBeBdEt,
    LlBeBdEt1Et2,
}

impl QosProfile {
    const NAMES: [(&str, Self); 3] = [
        ("HPC", Self::Hpc),
        ("LL_BE_BD_ET", Self::LlBeBdEt),
        ("LL_BE_BD_ET1_ET2", Self::LlBeBdEt1Et2),
    ];

    /// The traffic classes by the names of their directories, with the share of the NIC that each
    /// is assured and its limit, in percent (jobs.md 1.7).
    pub fn shares(self) -> &'static [(&'static str, u32, u32)] {
        match self {
            Self::Hpc => &[
                ("dedicated_access", 50, 100),
                ("low_latency", 15, 30),
                ("bulk_data", 15, 100),
                ("best_effort", 10, 100),
                ("ethernet/ethernet_shared", 10, 100),
            ],
            Self::LlBeBdEt => &[
                ("low_latency", 2, 5),
                ("bulk_data", 10, 100),
                ("best_effort", 10, 100),
                ("ethernet/ethernet_shared", 10, 100),
            ],
            Self::LlBeBdEt1Et2 => &[
                ("low_latency", 2, 5),
                ("bulk_data", 10, 100),
                ("best_effort", 10, 100),
                ("ethernet/ethernet1", 10, 100),
                ("ethernet/ethernet2", 10, 100),
            ],
        }
    }

    /// The name that the driver uses.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, profile)| *profile == self);
        named.map_or("", |(name, _)| *name)
    }
}

/// Releases of the Slingshot Host Software whose drivers behave differently, oldest first, so that
/// `release >= Release::Shs13` reads "since 13.0" (docs/reference/releases.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// SHS 12.0: without receive profiles (libcxi.md 6).
    Shs12,
    /// SHS 13.0 and 13.1: an equal communication profile is found again at any LCID.
    Shs13,
    /// SHS 14.0.0: an equal communication profile is found again at LCID 0 only (libcxi.md 5).
    Shs14,
    /// SHS 14.0.1: two services may list a VNI (libcxi.md 3.3).
    Shs14_0_1,
    /// The driver after 14.0.1, as of July 2026.
    Next,
}

impl Release {
    /// The names that `CXIDIAG_SHS` accepts.
    pub const NAMES: [(&str, Self); 5] = [
        ("12", Self::Shs12),
        ("13", Self::Shs13),
        ("14", Self::Shs14),
        ("14.0.1", Self::Shs14_0_1),
        ("next", Self::Next),
    ];
}

/// Settings of the driver and its parameters on hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    pub services: InitialServices,
    pub qos: QosProfile,
    pub release: Release,
}

impl Driver {
    /// Reads the environment.
    ///
    /// # Errors
    /// One line that names the variable.
    pub fn from_environment() -> Result<Self, String> {
        Self::new(
            env::var_os("CXIDIAG_SERVICES"),
            env::var_os("CXIDIAG_QOS"),
            env::var_os("CXIDIAG_SHS"),
        )
    }

    fn new(
        services: Option<OsString>,
        qos: Option<OsString>,
        release: Option<OsString>,
    ) -> Result<Self, String> {
        let services = choice(
            "CXIDIAG_SERVICES",
            services,
            InitialServices::Examples,
            &[
                ("enabled", InitialServices::DefaultOnly { enabled: true }),
                ("disabled", InitialServices::DefaultOnly { enabled: false }),
                ("job", InitialServices::Job),
            ],
        )?;
        let qos = choice("CXIDIAG_QOS", qos, QosProfile::LlBeBdEt, &QosProfile::NAMES)?;
        let release = choice("CXIDIAG_SHS", release, Release::Shs14_0_1, &Release::NAMES)?;
        Ok(Self { services, qos, release })
    }
}

/// The choice that a variable names; `default` if it is not set or empty.
fn choice<T: Copy>(
    variable: &str,
    value: Option<OsString>,
    default: T,
    choices: &[(&str, T)],
) -> Result<T, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(default);
    };
    let named = choices.iter().find(|(name, _)| value == *name);
    named.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let value = value.display();
        format!("{variable}={value}: expected {}", names.join(" or "))
    })
}

/// Parses the addresses of `count` NICs.
fn addresses(text: &str, count: u32) -> Option<Vec<u32>> {
    let given: Option<Vec<u32>> = text.split(',').map(number).collect();
    let nics = Nics { count, listed: count, addresses: given? };
    let all: Vec<u32> = (0..count).filter_map(|nic| nics.nid(nic)).collect();
    let is_valid = |nid: &u32| *nid <= LAST_NID && (1..C_NID_ANY).contains(&(nid & C_NID_ANY));
    let valid = all.iter().all(is_valid);
    let distinct = all.iter().collect::<HashSet<_>>().len() == all.len();
    (valid && distinct).then_some(nics.addresses)
}

/// Parses a decimal number, or a hexadecimal one after `0x`, of at most 7 digits.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = digits.chars().all(|digit| digit.is_digit(radix)) && digits.len() <= 7;
    let value = plain.then(|| u32::from_str_radix(digits, radix).ok());
    value.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nics(nics: &str, nids: &str) -> Result<Nics, String> {
        Nics::new([Some(nics.into()), Some(nids.into())], None)
    }

    #[test]
    fn fabric_decides_number_and_addresses() {
        let fabric = Topology::from_variable("dragonfly:groups=2,switches=2,nics=1").unwrap();
        let nics = |nics: &str, nids: &str| {
            Nics::new([nics, nids].map(|value| Some(value.into())), Some(&fabric))
        };
        let found = nics("", "").unwrap();
        let addresses: Vec<_> = (0..5).map(|nic| found.address(nic)).collect();
        let expected = [Some(0x001), Some(0x041), Some(0x801), Some(0x841), None];
        assert_eq!((addresses, found.listed), (expected.to_vec(), 4));
        assert_eq!(
            nics("3", "").unwrap_err(),
            "CXIDIAG_NICS=3: not allowed with CXIDIAG_TOPOLOGY, which has 4 NICs"
        );
        assert_eq!(
            nics("", "5").unwrap_err(),
            "CXIDIAG_NIDS=5: not allowed with CXIDIAG_TOPOLOGY, which decides the addresses"
        );
    }

    #[test]
    fn has_defaults() {
        let nics = Nics::new([None, None], None).unwrap();
        assert_eq!((nics.count, nics.listed), (100, 4));
        assert_eq!(nics.address(0), Some(0x12));
        assert_eq!(nics.address(99), Some(0x12 + 99));
        assert_eq!(nics.address(100), None);
        assert_eq!(super::Nics::new([Some("".into()), Some("".into())], None), Ok(nics));
    }

    #[test]
    fn continues_addresses_after_last_given() {
        let nics = nics("4", "0x100,7").unwrap();
        let found: Vec<_> = (0..5).map(|nic| nics.address(nic)).collect();
        assert_eq!(found, [Some(0x100), Some(7), Some(8), Some(9), None]);
        assert_eq!(nics.listed, 4);
    }

    #[test]
    fn virtual_function_shares_the_address_of_its_nic() {
        let nics = nics("2", "0x12,0x200012").unwrap();
        let shown: Vec<_> = (0..2).map(|nic| nics.nid(nic)).collect();
        assert_eq!(shown, [Some(0x12), Some(0x20_0012)]);
        let found: Vec<_> = (0..2).map(|nic| nics.address(nic)).collect();
        assert_eq!(found, [Some(0x12), Some(0x12)]);
    }

    #[test]
    fn reads_driver_parameters() {
        let driver = |services: &str, qos: &str| {
            let found = Driver::new(Some(services.into()), Some(qos.into()), None)?;
            Ok::<_, String>((found.services, found.qos))
        };
        let default = (InitialServices::Examples, QosProfile::LlBeBdEt);
        assert_eq!(driver("", ""), Ok(default));
        let disabled = InitialServices::DefaultOnly { enabled: false };
        assert_eq!(driver("disabled", "HPC"), Ok((disabled, QosProfile::Hpc)));
        let enabled = InitialServices::DefaultOnly { enabled: true };
        let wide = QosProfile::LlBeBdEt1Et2;
        assert_eq!(driver("enabled", "LL_BE_BD_ET1_ET2"), Ok((enabled, wide)));
        let job = (InitialServices::Job, QosProfile::LlBeBdEt);
        assert_eq!(driver("job", ""), Ok(job));
        assert_eq!(
            driver("1", ""),
            Err("CXIDIAG_SERVICES=1: expected enabled or disabled or job".into())
        );
        let message = driver("", "hpc").unwrap_err();
        assert!(message.starts_with("CXIDIAG_QOS=hpc: "), "{message}");
    }

    #[test]
    fn reads_release_of_driver() {
        let release = |text: &str| {
            let found = Driver::new(None, None, Some(text.into()));
            found.map(|driver| driver.release)
        };
        for (text, expected) in [
            ("", Ok(Release::Shs14_0_1)),
            ("14.0.1", Ok(Release::Shs14_0_1)),
            ("14", Ok(Release::Shs14)),
            ("13", Ok(Release::Shs13)),
            ("12", Ok(Release::Shs12)),
            ("next", Ok(Release::Next)),
            ("11", Err("CXIDIAG_SHS=11: expected 12 or 13 or 14 or 14.0.1 or next".to_owned())),
        ] {
            assert_eq!(release(text), expected, "{text}");
        }
    }

    #[test]
    fn rejects_invalid_values_by_variable() {
        for count in ["0", "101", "-1", "four", "+4", "4 ", "0x", "99999999999"] {
            let message = nics(count, "").unwrap_err();
            assert!(message.starts_with(&format!("CXIDIAG_NICS={count}: ")));
        }
        // Zero, the wildcard, a duplicate, no room for the second, nothing, and no numbers.
        // A virtual function of the wildcard, and one with a number that is too large.
        for nids in
            ["0", "0xfffff", "5,5", "6,5", "0xffffe", ",", "1;2", "x", "0x1fffff", "0x4000001"]
        {
            let message = nics("2", nids);
            let refused = matches!(&message, Err(message) if message.starts_with("CXIDIAG_NIDS="));
            assert_eq!(refused, nids != "6,5", "{nids}: {message:?}");
        }
        // The address after the last is the first.
        assert!(nics("3", "7,6").is_err());
    }
}
