//! The checks of a member of a survey, for the diagnosis of culprits.

use std::time::Duration;

use super::of_node::{self, OngoingCheck};
use super::request::CheckRequest;
use facts::device::DeviceName;
use facts::error::Failure;
use node::reading;
use page::json;

/// How long a member looks for traffic of others, before it measures.
const IDLE: Duration = Duration::from_millis(50);

/// The checks of the NICs of a member. They read files only.
pub struct SurveyChecks {
    devices: Vec<DeviceName>,
    /// The check that the first one has begun.
    ongoing: Option<OngoingCheck>,
}

impl SurveyChecks {
    /// Returns the checks of these NICs.
    pub fn new(devices: Vec<DeviceName>) -> Self {
        let ongoing = None;
        Self { devices, ongoing }
    }

    /// Returns the document of a check. The first one has the traffic of others, the second one
    /// what has changed since the first one, such as errors of the link.
    ///
    /// # Errors
    ///
    /// Settings of the site or of the job that are invalid, and an interruption.
    pub fn document(&mut self) -> Result<Vec<u8>, Failure> {
        let check = match self.ongoing.take() {
            Some(ongoing) => ongoing.end(),
            None => {
                reading::limit_waits();
                let request = CheckRequest {
                    devices: self.devices.clone(),
                    no_traffic: true,
                    window: Some(Duration::ZERO),
                    ..CheckRequest::default()
                };
                let while_idle =
                    of_node::check(CheckRequest { window: Some(IDLE), ..request.clone() })?;
                self.ongoing =
                    Some(OngoingCheck::begin(CheckRequest { uses_nic: true, ..request })?);
                while_idle
            }
        };
        json::line(&check)
    }
}
