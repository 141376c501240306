//! The NICs and services of the job that this process runs in (jobs.md 1.1).

use std::env;

use crate::device::DeviceName;
use crate::error::Failure;
use crate::number::decimal;

/// What the launcher has granted, in the order of `SLINGSHOT_DEVICES`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Job {
    nics: Vec<(DeviceName, Option<u32>)>,
}

impl Job {
    /// Returns the job that the environment of this process describes.
    ///
    /// # Errors
    ///
    /// A name of a device that is none, and lists of different lengths.
    pub fn of_environment() -> Result<Self, Failure> {
        Self::find(|name| env::var(name).ok()).map_err(Failure::usage)
    }

    fn find(value: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let list = |name: &str| value(name).filter(|text| !text.is_empty());
        let (Some(devices), Some(services)) =
            (list("SLINGSHOT_DEVICES"), list("SLINGSHOT_SVC_IDS"))
        else {
            return Ok(Self::default());
        };
        let devices: Vec<&str> = devices.split(',').collect();
        let services: Vec<&str> = services.split(',').collect();
        if devices.len() != services.len() {
            return Err(format!(
                "SLINGSHOT_DEVICES has {} entries and SLINGSHOT_SVC_IDS {}: they must be equally many",
                devices.len(),
                services.len()
            ));
        }
        let nic = |(device, service): (&str, &str)| {
            let device = device
                .parse()
                .map_err(|why| format!("SLINGSHOT_DEVICES: '{device}': {why}"))?;
            let service = decimal(service).and_then(|id| u32::try_from(id).ok());
            Ok((device, service.filter(|id| *id > 0)))
        };
        let nics = devices.into_iter().zip(services).map(nic);
        Ok(Self {
            nics: nics.collect::<Result<_, String>>()?,
        })
    }

    /// Returns the NICs.
    pub fn devices(&self) -> Vec<DeviceName> {
        self.nics.iter().map(|(device, _)| *device).collect()
    }

    /// Returns the service of the job on a NIC.
    pub fn service_on(&self, device: DeviceName) -> Option<u32> {
        let found = self.nics.iter().find(|(of, _)| *of == device);
        found.and_then(|(_, service)| *service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(devices: &str, services: &str) -> Result<Job, String> {
        let value = |name: &str| match name {
            "SLINGSHOT_DEVICES" => Some(devices.to_owned()),
            "SLINGSHOT_SVC_IDS" => Some(services.to_owned()),
            _ => None,
        };
        Job::find(value)
    }

    #[test]
    fn pairs_devices_with_services() {
        let job = job("cxi0,cxi1", "5,-1").unwrap();
        let name = |text: &str| text.parse::<DeviceName>().unwrap();
        assert_eq!(job.devices(), [name("cxi0"), name("cxi1")]);
        assert_eq!(job.service_on(name("cxi0")), Some(5));
        assert_eq!(job.service_on(name("cxi1")), None);
        assert_eq!(job.service_on(name("cxi2")), None);
    }

    #[test]
    fn incomplete_variables_are_no_job() {
        assert_eq!(job("", ""), Ok(Job::default()));
        assert_eq!(job("cxi0", ""), Ok(Job::default()));
    }

    #[test]
    fn refuses_lists_of_different_lengths_and_other_names() {
        assert!(job("cxi0,cxi1", "5").unwrap_err().contains("equally many"));
        assert!(job("eth0", "5").unwrap_err().contains("eth0"));
    }
}
