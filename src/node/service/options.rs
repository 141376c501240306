//! What the user types about the service.

use std::fmt;
use std::str::FromStr;

use crate::traffic_class::TrafficClass;
use facts::number::within;

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
