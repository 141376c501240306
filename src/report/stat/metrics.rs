//! The report as metrics.

use super::document::nics;
use super::job::JobStat;
use super::record::EndStatus;
use crate::openmetrics::{Family, Kind, Sample};
use node::nic::counter::Change;
use node::nic::counter_table::Row;

/// What a shell adds to a signal.
const SIGNAL: i32 = 128;

/// Returns the metrics: only counters of the set, and only those that the NICs have.
pub fn families(job: &JobStat) -> Vec<Family> {
    let gauge = |name, unit, help, samples| Family {
        name,
        kind: Kind::Gauge,
        unit,
        help,
        samples,
    };
    let single = |value: Option<f64>| {
        let sample = |value| Sample {
            labels: Vec::new(),
            value,
        };
        value.map(sample).into_iter().collect()
    };
    let status = job.status().map(|status| match status {
        EndStatus::Exit(code) => code,
        EndStatus::Signal(signal) => SIGNAL + signal,
    });
    vec![
        Family {
            name: "cxidiag_stat_counter",
            kind: Kind::Counter,
            unit: "",
            help: "What a counter of a NIC has counted while the command ran.",
            samples: counters(job),
        },
        gauge(
            "cxidiag_stat_seconds",
            "seconds",
            "Time between the readings of the counters.",
            single(job.elapsed.map(|time| time.as_secs_f64())),
        ),
        gauge(
            "cxidiag_stat_exit_status",
            "",
            "Exit status of the command, 128 more than the signal that ended it.",
            single(status.map(f64::from)),
        ),
        gauge(
            "cxidiag_stat_nics",
            "",
            "NICs that were read.",
            single(Some(job.nics.len() as f64)),
        ),
        gauge(
            "cxidiag_stat_outlier",
            "",
            "NICs that stand out from the others of the job, with the value of the counter.",
            outliers(job),
        ),
    ]
}

fn counters(job: &JobStat) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (node, nic) in nics(job) {
        for (position, name) in node.counters.iter().enumerate() {
            let is_gauge = Row::of(name).is_some_and(|row| row.is_gauge);
            if let Some(count) = nic
                .change(position)
                .and_then(Change::count)
                .filter(|_| !is_gauge)
            {
                samples.push(Sample {
                    labels: vec![
                        ("host", node.node.clone()),
                        ("device", nic.device.clone()),
                        ("name", name.clone()),
                    ],
                    value: count as f64,
                });
            }
        }
    }
    samples
}

fn outliers(job: &JobStat) -> Vec<Sample> {
    let places: Vec<_> = nics(job).collect();
    let found = job
        .findings
        .iter()
        .filter(|finding| finding.code == "outlier");
    let samples = found.flat_map(|finding| {
        let place = |index: &usize| places.get(*index).copied();
        let nics = finding.nics.iter().filter_map(place);
        nics.map(|(node, nic)| Sample {
            labels: vec![("host", node.node.clone()), ("device", nic.device.clone())],
            value: finding.value,
        })
    });
    samples.collect()
}
