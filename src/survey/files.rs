//! What a survey reads and writes.

use std::fs;
use std::io::BufReader;

use super::locations::Locations;
use super::request::SurveyRequest;
use crate::outputs::SurveyOutputs;
use crate::result::lines::Earlier;
use campaign::quiet::pairs::{self, Selection};
use facts::error::{Failure, cause, invalid};
use facts::user_file;

/// What a survey reads and writes, all of it open.
pub struct SurveyFiles {
    /// The selected pairs.
    pub selections: Vec<Selection>,
    pub locations: Locations,
    /// The results of the survey that goes on.
    pub earlier: Option<Earlier<BufReader<fs::File>>>,
    pub outputs: SurveyOutputs,
}

impl SurveyFiles {
    /// Opens what the `request` names.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or written.
    pub fn open(request: &SurveyRequest) -> Result<Self, Failure> {
        Ok(Self {
            selections: selections(request)?,
            locations: Locations::read(request.locations.as_deref(), request.topology.as_deref())?,
            earlier: request.resume.as_deref().map(Earlier::open).transpose()?,
            outputs: SurveyOutputs::open(&request.places()?, request.is_quiet)?,
        })
    }
}

/// Returns the selected pairs.
fn selections(request: &SurveyRequest) -> Result<Vec<Selection>, Failure> {
    let read = |path: &str| {
        user_file::text(path.as_ref())
            .map_err(|error| format!("cannot read {path}: {}", cause(&error)))
    };
    pairs::parse(&request.pairs, read)
        .map_err(|why| Failure::usage(invalid("pairs", &request.pairs, why)))
}
