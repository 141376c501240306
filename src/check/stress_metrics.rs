//! NICs under load as metrics (docs/metrics.md lists them).

use crate::stress_document::{StressReport, StressedNic};
use page::openmetrics::{self, Family, Sample};

/// A series without labels that all files of a load have.
pub const SERIES: &str = "cxidiag_stress_exit_status";

/// Returns a value of a NIC with one more label.
fn sample(nic: &StressedNic, label: &'static str, text: &str, value: impl Into<f64>) -> Sample {
    Sample::new([("device", nic.name.clone()), (label, text.to_owned())], value)
}

/// Returns the metrics of NICs under load.
pub fn families(report: &StressReport) -> Vec<Family> {
    let judged = report.devices.iter().flat_map(|nic| {
        let judged = nic.judged().into_iter();
        judged.map(move |(code, is_good)| sample(nic, "check", code, is_good))
    });
    let highest = |is_temperature| {
        let nics = report.devices.iter();
        let results = nics.flat_map(|nic| nic.sensors.iter().map(move |result| (nic, result)));
        let own =
            results.filter(move |(_, result)| result.sensor.limits().is_some() == is_temperature);
        own.filter_map(|(nic, result)| {
            Some(sample(nic, "sensor", result.sensor.column, result.max?))
        })
    };
    let measured = report.devices.iter().filter(|nic| !nic.samples.is_empty());
    let rates = measured.map(|nic| Sample::new([("device", nic.name.clone())], nic.mean_rate()));
    let status =
        "Exit status of the load: 0 all criteria are met, 3 one is not, 4 one could not be judged.";
    let times = [report.started_unix_ms, report.elapsed_ms];
    let mut families = vec![openmetrics::build("stress")];
    let status = (SERIES, status);
    families.extend(Family::times(status, report.exit_status, "load with set-up", times));
    families.extend([
        Family::new(
            "cxidiag_stress_ok",
            "Whether the criterion is met under load (1) or not (0); no sample if it could not be judged.",
            judged,
        ),
        Family::new(
            "cxidiag_stress_temperature_celsius",
            "Highest temperature under load.",
            highest(true),
        ),
        Family::new("cxidiag_stress_power_watts", "Highest power under load.", highest(false)),
        Family::new(
            "cxidiag_stress_bandwidth_bytes_per_second",
            "Bandwidth at which the NIC wrote to itself under load.",
            rates,
        ),
    ]);
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress_document::testing::{add, nic, report};
    use page::openmetrics::{Dialect, text};

    #[test]
    fn has_verdicts_and_highest_values_of_each_nic() {
        let mut nics = vec![nic("P52930-001"), nic("P52930-001")];
        nics[1].name = "cxi1".into();
        add(&mut nics[0], 21.0, &[Some(16.5), None, Some(2.5), Some(84.0), Some(70.0)]);
        add(&mut nics[0], 20.0, &[Some(16.0), None, Some(2.5), Some(86.5), Some(60.0)]);
        let text = text(&families(&report(nics)), Dialect::NodeExporter);
        let expected = "\
cxidiag_stress_exit_status 3
cxidiag_stress_timestamp_seconds 0
cxidiag_stress_duration_seconds 0
cxidiag_stress_ok{device=\"cxi0\",check=\"asic-temperature\"} 0
cxidiag_stress_ok{device=\"cxi0\",check=\"media-temperature\"} 0
cxidiag_stress_ok{device=\"cxi0\",check=\"stress-rate\"} 1
cxidiag_stress_ok{device=\"cxi0\",check=\"stress-load\"} 1
cxidiag_stress_temperature_celsius{device=\"cxi0\",sensor=\"ASIC_0\"} 86.5
cxidiag_stress_temperature_celsius{device=\"cxi0\",sensor=\"QSFP_INT\"} 70
cxidiag_stress_power_watts{device=\"cxi0\",sensor=\"VDD\"} 16.5
cxidiag_stress_power_watts{device=\"cxi0\",sensor=\"TRVDD\"} 2.5
cxidiag_stress_bandwidth_bytes_per_second{device=\"cxi0\"} 20500000000
";
        let found = text.lines().filter(|line| line.starts_with("cxidiag_stress_"));
        assert_eq!(found.map(|line| format!("{line}\n")).collect::<String>(), expected);
    }

    /// Two chips of a card have one criterion: it is met if both are cool.
    #[test]
    fn sensors_with_the_same_limits_have_one_verdict() {
        for (chips, good) in [([60.0, 86.0], 0), ([60.0, 61.0], 1), ([f64::NAN, 61.0], 2)] {
            let mut dual = nic("P48765-001");
            let [one, two] = chips.map(|celsius| Some(celsius).filter(|celsius| !celsius.is_nan()));
            add(&mut dual, 21.0, &[None, None, None, one, two]);
            let judged = dual.judged();
            let found = judged.iter().find(|(code, _)| *code == "asic-temperature");
            assert_eq!(found.map_or(2, |(_, is_good)| u8::from(*is_good)), good);
        }
    }
}
