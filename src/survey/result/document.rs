//! A survey as data and as JSON. The doc comments of the types are the descriptions in their
//! schema, docs/survey.schema.json.

use serde::{Deserialize, Serialize};

use campaign::quiet::busy::BusyNode;
use campaign::quiet::findings::{Findings, Test};
use campaign::quiet::roster::{Roster, TestId, Unit};
use crew::location::Class;
use facts::error::{Failure, INTERRUPTED, Kind, UNDECIDED};
use load::findings::LoadFindings;
use page::problem::Problem;
use why::culprits::Explanation;
use why::verdict::SharedValue;

/// Version of the document. It changes when a field is removed or changes its meaning; new fields
/// do not change it.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the command in the document.
pub(super) const COMMAND: &str = "survey";

/// What is known before the first pair is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Setup {
    /// Arguments of the command, as typed.
    pub arguments: Vec<String>,
    /// The command line that has started the processes; under Slurm, the one of a task. Empty if it
    /// is not known.
    #[serde(default)]
    pub command_line: Vec<String>,
    /// What is measured between two NICs. Results name tests by their index in this list.
    pub tests: Vec<Test>,
    /// --pairs: the pairs that are measured.
    pub pairs: String,
    /// Seed of random pairs, which makes the selection repeatable.
    pub seed: u64,
    /// Whether all NICs of a node measure at once. Otherwise they measure in turn.
    pub nics_at_once: bool,
    /// Most pairs that measure at the same time; null without a limit.
    pub max_active: Option<u32>,
    /// Time for measuring one pair, in seconds.
    pub pair_s: f64,
    /// Time for the whole survey, in seconds; null without a limit.
    pub time_limit_s: Option<f64>,
    /// --expect: the absolute limits, as typed.
    pub expectations: Vec<String>,
    /// What started the processes: slurm, pals, flux, openmpi, hydra, hosts (--hosts) or loopback
    /// (--loopback).
    pub launcher: String,
    /// The batch job; null outside a job.
    pub job: Option<SurveyJob>,
    /// Number of processes that the launcher started.
    pub processes: u32,
}

/// The batch job of a survey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SurveyJob {
    /// Name of the workload manager: slurm, pbs or flux.
    pub manager: String,
    /// Number or name of the job, as the manager writes it.
    pub id: String,
    /// Number or name of the step; null if the manager has none.
    pub step: Option<String>,
}

/// The conclusion of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Every pair was measured, and every part is good.
    Good,
    /// A part is bad, without load or under load.
    Bad,
    /// No part is bad, but one is suspect or was not measured, or the load has no verdict.
    Undecided,
    /// A signal ended the survey. The results are partial.
    Interrupted,
    /// The survey failed, or its load ended early. The results are partial.
    Failed,
}

/// What a survey has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Latencies and bandwidths.
    #[default]
    Both,
    /// Latencies only: nothing is known about bandwidths.
    Latency,
    /// Bandwidths only: nothing is known about latencies.
    Bandwidth,
}

impl Scope {
    /// Returns what these tests measure.
    pub fn from_tests(tests: &[Test]) -> Self {
        let measures = |is_bandwidth| tests.iter().any(|test| test.of_bandwidth == is_bandwidth);
        match (measures(false), measures(true)) {
            (true, false) => Self::Latency,
            (false, true) => Self::Bandwidth,
            _ => Self::Both,
        }
    }
}

/// A survey, as `cxidiag survey --json` writes it. Field names contain the units. A value that is
/// unknown, or does not apply, is null. NICs, nodes and tests are named by their index in their
/// list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Survey {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the command: survey.
    pub command: String,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// The conclusion of the survey.
    pub conclusion: Conclusion,
    /// What the conclusion is about.
    #[serde(default)]
    pub scope: Scope,
    /// The command that would decide what is undecided or untested; null if nothing is, if no
    /// command would decide it, or if the line of the launcher is not known.
    #[serde(default)]
    pub next: Option<String>,
    /// Exit status of the program: 0 good, 3 bad, 4 undecided, 1 failed, 130 interrupted.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// What ended the survey early; null if nothing did.
    pub error: Option<Problem>,
    /// Start of the survey, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// Duration of the survey, in milliseconds.
    pub elapsed_ms: u64,
    /// Whether a NIC is a software NIC, so that no Cassini hardware was involved there.
    pub is_software: bool,
    /// Largest difference between the clocks of the processes, in nanoseconds; null if unknown.
    pub clock_uncertainty_ns: Option<u64>,
    /// Nodes whose processes waited for their CPUs in half of their slots or more, the busiest
    /// first. Their latencies are upper bounds, their bandwidths lower ones.
    #[serde(default)]
    pub busy_nodes: Vec<BusyNode>,
    /// What was known before the first pair was measured.
    pub setup: Setup,
    /// The nodes and NICs.
    pub roster: Roster,
    /// What the survey has found.
    pub verdict: Findings,
    /// How far the median of a class of pairs is outside a bound for its kind of NIC, which comes
    /// from published figures; null if none is, of software NICs, and without such bounds. It is no
    /// verdict.
    #[serde(default)]
    pub shortfall: Option<Shortfall>,
    /// What the survey has found under load; null without --load.
    #[serde(default)]
    pub load: Option<LoadFindings>,
    /// Why culprits are slow; empty with --no-why.
    #[serde(default)]
    pub why: Vec<Explanation>,
    /// What several culprits share and hardly any good NIC has: they may have one cause.
    #[serde(default)]
    pub why_shared: Vec<SharedValue<Unit>>,
}

/// The median of a class of pairs that does not meet a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// Name of the profile with the published figures.
    pub profile: String,
    /// The bound in it that the median does not meet.
    pub expectation: String,
    /// Index of the test.
    pub test: TestId,
    /// The class of the pairs.
    pub class: Class,
    /// Median of the pairs, in nanoseconds or bytes per second.
    pub median: f64,
    /// The median as a part of the bound, or the bound as a part of a median latency.
    pub share: f64,
}

impl Survey {
    /// Whether every part is good.
    ///
    /// # Errors
    ///
    /// The first line, if not.
    pub fn result(&self) -> Result<(), Failure> {
        match self.conclusion {
            Conclusion::Failed => Err(Failure::environment(&self.summary)),
            Conclusion::Interrupted => {
                Err(Failure::new(Kind::Interrupted, anyhow::Error::msg(self.summary.clone())))
            }
            conclusion => Failure::concluded(conclusion.exit_status(), &self.summary),
        }
    }
}

impl Conclusion {
    /// The exit status of the program.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Bad => 3,
            Self::Failed => 1,
            Self::Undecided => UNDECIDED,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use boon::{Compiler, Schemas};

    use super::super::testing::{
        cause, explanation, good, mixed, mixed_load, result, roster, shared_value, survey,
    };
    use super::*;
    use campaign::quiet::answer::{Answer, Figures, PairResult, Stage};
    use std::time::{Duration, SystemTime};

    use campaign::quiet::findings::{Certainty, Matrix};
    use campaign::quiet::roster::{NicId, TestId};

    /// A survey with every kind of value.
    fn full() -> Survey {
        let mut verdict = mixed();
        let bandwidth = Answer::Measured(Figures::Bandwidth {
            bytes_per_second: 0.1,
            operations_per_second: 1e-7,
        });
        for (stage, answer) in [
            (Stage::Retest(2), bandwidth),
            (Stage::Swap, Answer::Failed("no answer".into())),
            (Stage::Swap, Answer::Untested("late".into())),
        ] {
            verdict.outside.push(PairResult { stage, answer, ..result() });
        }
        for unit in [Unit::Group(1), Unit::GroupPair(1, 2)] {
            verdict.causes.push(cause(unit, Certainty::Bad));
        }
        verdict.populations[0].histogram = vec![(1800.0, 4), (1900.5, 20)];
        verdict.matrices = vec![Matrix {
            test: TestId(0),
            cells: vec![(NicId(0), NicId(1), Some(1900.0)), (NicId(1), NicId(0), None)],
        }];
        let failure = Failure::environment("no space left").with_hint("free space");
        Survey {
            load: Some(mixed_load()),
            why: vec![explanation()],
            why_shared: vec![shared_value()],
            ..survey(verdict, Err(&failure))
        }
    }

    #[test]
    fn matches_its_schema() {
        let schema = include_str!("../../../docs/survey.schema.json");
        let mut compiler = Compiler::new();
        let schema = serde_json::from_str(schema).unwrap();
        compiler.add_resource("survey", schema).unwrap();
        let mut schemas = Schemas::new();
        let index = compiler.compile("survey", &mut schemas).unwrap();
        for survey in [full(), survey(good(), Ok(()))] {
            let document = serde_json::to_value(survey).unwrap();
            if let Err(error) = schemas.validate(&document, index) {
                panic!("{error:#}");
            }
        }
    }

    #[test]
    fn is_read_back_exactly() {
        let written = full();
        let text = serde_json::to_string(&written).unwrap();
        let read: Survey = serde_json::from_str(&text).unwrap();
        assert_eq!(read.verdict, written.verdict);
        assert_eq!(read.roster, written.roster);
        assert_eq!(read.load, written.load);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn names_software_nics() {
        let mut roster = roster();
        let is_software = |roster: &Roster| {
            let (setup, verdict) = (Setup::default(), Findings::default());
            let started = SystemTime::UNIX_EPOCH;
            let ended = Ok(());
            Survey::new(setup, started, Duration::ZERO, roster.clone(), verdict, None, ended)
                .is_software
        };
        assert!(!is_software(&roster));
        roster.nics[5].device = "soft5".into();
        assert!(is_software(&roster));
    }
}
