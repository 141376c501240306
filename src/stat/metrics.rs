//! The report as metrics.

use super::document::nics;
use super::job::JobStat;
use super::record::{EndStatus, NicRecord, NodeRecord};
use node::nic::counter::CounterChange;
use node::nic::counter_table::CounterRow;
use page::openmetrics::{Family, Kind, Sample};

/// A series without labels that all files of `stat` have.
pub const SERIES: &str = "cxidiag_stat_nics";

/// What a shell adds to a signal.
const SIGNAL: i32 = 128;

/// Returns the metrics: only counters of the set, and only those that the NICs have.
pub fn families(job: &JobStat) -> Vec<Family> {
    let single = |value: Option<f64>| value.map(|value| Sample { labels: Vec::new(), value });
    let status = job.status().map(|status| match status {
        EndStatus::Exit(code) => code,
        EndStatus::Signal(signal) => SIGNAL + signal,
    });
    vec![
        Family::new(
            Kind::Counter,
            "cxidiag_stat_counter",
            "What a counter of a NIC has counted while the command ran; only counters of the set that the \
                   NIC has.",
            counters(job),
        ),
        Family::gauge(
            "cxidiag_stat_seconds",
            "Time between the readings of the counters.",
            single(job.elapsed.map(|time| time.as_secs_f64())),
        ),
        Family::gauge(
            "cxidiag_stat_exit_status",
            "Exit status of the command, 128 more than the signal that ended it.",
            single(status.map(f64::from)),
        ),
        Family::gauge(SERIES, "NICs that were read.", single(Some(job.nics.len() as f64))),
        Family::gauge(
            "cxidiag_stat_outlier",
            "NICs that stand out from the others of the job, with the value of the counter.",
            outliers(job),
        ),
    ]
}

fn counters(job: &JobStat) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (node, nic) in nics(job) {
        for (position, name) in node.counters.iter().enumerate() {
            let is_gauge = CounterRow::of(name).is_some_and(|row| row.is_gauge);
            if let Some(count) =
                nic.change(position).and_then(CounterChange::count).filter(|_| !is_gauge)
            {
                samples.push(Sample { labels: labels(node, nic, name), value: count as f64 });
            }
        }
    }
    samples
}

fn labels(node: &NodeRecord, nic: &NicRecord, counter: &str) -> Vec<(&'static str, String)> {
    vec![("host", node.node.clone()), ("device", nic.device.clone()), ("name", counter.to_owned())]
}

fn outliers(job: &JobStat) -> Vec<Sample> {
    let places: Vec<_> = nics(job).collect();
    let found = job.findings.iter().filter(|finding| finding.code == "outlier");
    let samples = found.flat_map(|finding| {
        let nics = finding.nics.iter().filter_map(|index: &usize| places.get(*index).copied());
        nics.map(|(node, nic)| Sample {
            labels: labels(node, nic, finding.counter.as_deref().unwrap_or_default()),
            value: finding.value,
        })
    });
    samples.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn names_the_counter_in_which_a_nic_stands_out() {
        let quiet: &[(&str, u64)] = &[("hni_fgfc_port", 100)];
        let loud: &[(&str, u64)] = &[("hni_fgfc_port", 90_000)];
        let mut nics = vec![("cxi0", quiet); 15];
        nics.push(("cxi1", loud));
        let job = JobStat::of(vec![testing::node("nid1", &nics)], Vec::new());
        let samples = outliers(&job);
        assert_eq!(samples.len(), 1);
        let expected = [("host", "nid1"), ("device", "cxi1"), ("name", "hni_fgfc_port")];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(samples[0].labels, expected);
        assert_eq!(samples[0].value, 9000.0);
    }
}
