//! The batch job that this process runs in (jobs.md 2.1). Two `flux run` of one allocation are two
//! jobs, and so are two components of a heterogeneous job of Slurm.

use std::borrow::Cow;
use std::{env, fmt};

use serde::{Deserialize, Serialize};

/// A workload manager, its name in messages, and the environment variable that has the number of
/// its job. The innermost comes first: Flux may run many jobs inside one job of Slurm or PBS.
const MANAGERS: [(&str, &str, &str); 3] = [
    ("flux", "Flux", "FLUX_JOB_ID"),
    ("slurm", "Slurm", "SLURM_JOB_ID"),
    ("pbs", "PBS", "PBS_JOBID"),
];

/// A batch job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Job {
    /// Name of the workload manager: slurm, pbs or flux.
    pub manager: Cow<'static, str>,
    /// Number or name of the job, as the manager writes it.
    pub id: String,
}

impl Job {
    /// The job that the environment of this process names; `None` outside a job.
    pub fn from_environment() -> Option<Self> {
        Self::find(|variable| env::var_os(variable).map(|id| id.to_string_lossy().into_owned()))
    }

    /// The job that the variables name which `value` returns; `None` outside a job.
    pub fn find(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        MANAGERS.into_iter().find_map(|(manager, _, variable)| {
            let id = value(variable)?.trim().to_owned();
            (!id.is_empty()).then_some(Self { manager: manager.into(), id })
        })
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} job {}", label(&self.manager), self.id)
    }
}

/// The name of a manager in messages.
pub fn label(manager: &str) -> &str {
    let named = MANAGERS.iter().find(|(name, ..)| *name == manager);
    named.map_or(manager, |(_, label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(environment: &[(&str, &str)]) -> Option<String> {
        let value = |variable: &str| {
            let (_, id) = environment.iter().find(|(name, _)| *name == variable)?;
            Some((*id).to_owned())
        };
        Job::find(value).map(|job| job.to_string())
    }

    #[test]
    fn finds_job_of_each_manager() {
        for (variable, id, expected) in [
            ("SLURM_JOB_ID", "4711", "Slurm job 4711"),
            ("PBS_JOBID", "17[3].head", "PBS job 17[3].head"),
            ("FLUX_JOB_ID", "\u{192}2Xa", "Flux job \u{192}2Xa"),
        ] {
            assert_eq!(job(&[(variable, id)]).as_deref(), Some(expected));
        }
        let nested = [("FLUX_JOB_ID", "1"), ("SLURM_JOB_ID", "2")];
        assert_eq!(job(&nested).as_deref(), Some("Flux job 1"));
    }

    #[test]
    fn finds_no_job_without_its_number() {
        assert_eq!(job(&[]), None);
        assert_eq!(job(&[("SLURM_JOB_ID", " "), ("PBS_JOBID", "")]), None);
    }
}
