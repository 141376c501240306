//! The report as metrics.

use super::job::JobStat;
use page::openmetrics::{Family, Sample};

/// A series without labels that all files of `stat` have.
pub const SERIES: &str = "cxidiag_stat_nics";

/// The metrics: only counters of the set, and only those that the NICs have.
pub fn families(job: &JobStat) -> Vec<Family> {
    vec![
        Family::new(
            "cxidiag_stat_counter_total",
            "What a counter of a NIC has counted while the command ran; only counters of the set that the \
                   NIC has.",
            counters(job),
        ),
        Family::new(
            "cxidiag_stat_seconds",
            "Time between the readings of the counters.",
            job.seconds.map(Sample::from),
        ),
        Family::new(
            "cxidiag_stat_exit_status",
            "Exit status of the command, 128 more than the signal that ended it.",
            job.shell_status().map(Sample::from),
        ),
        Family::new(SERIES, "NICs that were read.", [(job.nics.len() as f64).into()]),
        Family::new(
            "cxidiag_stat_outlier",
            "NICs that stand out from the others of the job, with the value of the counter.",
            outliers(job),
        ),
    ]
}

fn counters(job: &JobStat) -> impl Iterator<Item = Sample> {
    job.counters().filter_map(|(nic, name, counter)| {
        Some(sample(&nic.host, &nic.device, name, counter?.delta? as f64))
    })
}

fn outliers(job: &JobStat) -> impl Iterator<Item = Sample> {
    let found = job.findings.iter().filter(|finding| finding.code == "outlier");
    found.flat_map(|finding| {
        let counter = finding.counter.as_deref().unwrap_or_default();
        finding.nics.iter().map(move |nic| sample(&nic.host, &nic.device, counter, finding.value))
    })
}

fn sample(host: &str, device: &str, counter: &str, value: f64) -> Sample {
    let labels = [("host", host), ("device", device), ("name", counter)];
    Sample::new(labels.map(|(name, text)| (name, text.to_owned())), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::EndStatus;
    use crate::testing;

    #[test]
    fn samples_are_counts_but_no_states_and_the_status_of_a_shell() {
        let counts = [("hni_tx_ok_opt", 5), ("retry_handler/sct_in_use", 3)];
        let mut node = testing::node("nid1", &[("cxi0", &counts)]);
        node.end.as_mut().unwrap().status = Some(EndStatus::Signal(9));
        let families = families(&JobStat::of(vec![node], Vec::new()));
        let values = |name| {
            let family = families.iter().find(|family| family.name == name).unwrap();
            family.samples.iter().map(|sample| sample.value).collect::<Vec<_>>()
        };
        assert_eq!(values("cxidiag_stat_counter"), [5.0]);
        assert_eq!(values("cxidiag_stat_exit_status"), [137.0]);
        assert_eq!(values("cxidiag_stat_seconds"), [10.0]);
    }

    #[test]
    fn names_the_counter_in_which_a_nic_stands_out() {
        let quiet: &[(&str, u64)] = &[("hni_fgfc_port", 100)];
        let loud: &[(&str, u64)] = &[("hni_fgfc_port", 90_000)];
        let mut nics = vec![("cxi0", quiet); 15];
        nics.push(("cxi1", loud));
        let job = JobStat::of(vec![testing::node("nid1", &nics)], Vec::new());
        let samples: Vec<Sample> = outliers(&job).collect();
        assert_eq!(samples.len(), 1);
        let expected = [("host", "nid1"), ("device", "cxi1"), ("name", "hni_fgfc_port")];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(samples[0].labels, expected);
        assert_eq!(samples[0].value, 9000.0);
    }
}
