//! Counters over time as a trace: JSON trace events, which Perfetto and chrome://tracing open.
//!
//! A node is a process. Each counter of a NIC that has counted is a track with its rate.

use serde_json::{Value, json};

use super::job::JobStat;
use crate::series::NodeSeries;
use facts::error::Failure;
use page::json;

/// Returns the trace of a job.
///
/// # Errors
///
/// None in practice: the trace is made in memory.
pub fn trace(job: &JobStat) -> Result<Vec<u8>, Failure> {
    let program = job.program.first().map_or("the command", String::as_str);
    let whole = job.seconds.map(|seconds| {
        json!({
            "ph": "X", "pid": 0, "tid": 0, "name": program,
            "ts": micros(job.started_unix_ms), "dur": (seconds * 1e6).round(),
        })
    });
    let name = |pid: usize, name: &str| json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}});
    let software = if job.is_software() { " (software NICs)" } else { "" };
    let own = name(0, &format!("cxidiag stat{software}"));
    let mut events: Vec<Value> = [own].into_iter().chain(whole).collect();
    for (pid, series) in (1..).zip(&job.series) {
        events.push(name(pid, &series.host));
        for (nic, device) in series.devices.iter().enumerate() {
            add_gaps(&mut events, series, pid, nic, device);
            for (column, counter) in series.counters.iter().enumerate() {
                let track = format!("{device} {counter} per s");
                add_track(&mut events, series, pid, [nic, column], &track);
            }
        }
    }
    json::line(&json!({"displayTimeUnit": "ms", "traceEvents": events}))
}

fn micros(unix_ms: u64) -> u64 {
    unix_ms.saturating_mul(1000)
}

/// Adds the rate of a counter in each interval, from its start on. Nothing is added if it has not
/// counted. An interval without a reading shows 0, and a mark says why.
fn add_track(
    events: &mut Vec<Value>,
    series: &NodeSeries,
    pid: usize,
    [nic, column]: [usize; 2],
    track: &str,
) {
    let counts = || series.intervals.iter().map(|interval| interval.counts[nic][column]);
    if counts().all(|count| count.unwrap_or(0) == 0) {
        return;
    }
    let mut event = |unix_ms: u64, rate: f64| {
        events.push(json!({
            "ph": "C", "pid": pid, "name": track, "ts": micros(unix_ms), "args": {"per s": rate},
        }));
    };
    let mut began = series.started_unix_ms;
    for (interval, count) in series.intervals.iter().zip(counts()) {
        let ms = interval.unix_ms.saturating_sub(began);
        if ms > 0 {
            event(began, count.unwrap_or(0) as f64 * 1e3 / ms as f64);
        }
        began = interval.unix_ms;
    }
    event(began, 0.0);
}

/// Marks the intervals without any reading of a NIC.
fn add_gaps(events: &mut Vec<Value>, series: &NodeSeries, pid: usize, nic: usize, device: &str) {
    let empty = series.intervals.iter().filter(|interval| {
        let counts = &interval.counts[nic];
        counts.iter().all(Option::is_none)
    });
    events.extend(empty.map(|interval| {
        json!({
            "ph": "i", "s": "p", "pid": pid, "tid": 0, "ts": micros(interval.unix_ms),
            "name": format!("{device}: no readings"),
        })
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::SeriesInterval;
    use crate::testing::node;

    #[test]
    fn tracks_have_rates_from_the_start_of_each_interval() {
        let interval = |ms: u64, counts: [Option<u64>; 2]| SeriesInterval {
            unix_ms: 1_700_000_000_000 + ms,
            counts: vec![counts.to_vec()],
        };
        let series = NodeSeries {
            host: "nid1".into(),
            counters: vec!["hni_sts_tx_ok_octets".into(), "pct_retry_srb_requests".into()],
            devices: vec!["cxi0".into()],
            started_unix_ms: 1_700_000_000_000,
            intervals: vec![
                interval(500, [Some(1000), Some(0)]),
                interval(1500, [None, None]),
                interval(1500, [Some(5), Some(0)]),
                interval(2500, [Some(300), Some(0)]),
            ],
        };
        let job = JobStat::of(vec![node("nid1", &[("cxi0", &[("a", 1)])])], Vec::new());
        let trace: Value =
            serde_json::from_slice(&trace(&job.with_series(vec![series])).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let by_kind = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["ph"] == kind).collect()
        };
        let tracks: Vec<(u64, f64)> = by_kind("C")
            .into_iter()
            .map(|event| {
                assert_eq!(
                    (&event["pid"], &event["name"]),
                    (&json!(1), &json!("cxi0 hni_sts_tx_ok_octets per s"))
                );
                let ms = event["ts"].as_u64().unwrap() / 1000 - 1_700_000_000_000;
                (ms, event["args"]["per s"].as_f64().unwrap())
            })
            .collect();
        assert_eq!(tracks, [(0, 2000.0), (500, 0.0), (1500, 300.0), (2500, 0.0)]);
        let names: Vec<&Value> = by_kind("M").iter().map(|event| &event["args"]["name"]).collect();
        assert_eq!(names, [&json!("cxidiag stat"), &json!("nid1")]);
        let [gap] = by_kind("i")[..] else { panic!("{trace}") };
        assert_eq!(gap["name"], "cxi0: no readings");
        let [command] = by_kind("X")[..] else { panic!("{trace}") };
        assert_eq!((&command["name"], command["dur"].as_f64()), (&json!("./app"), Some(10e6)));
    }
}
