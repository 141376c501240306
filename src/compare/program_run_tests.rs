//! Tests of the readers of other programs, on texts in their forms (tests/fixtures/programs).

use facts::expect::Metric;
use proptest::prelude::*;
use report::outcome::{Outcome, Status};

use crate::printed::runs;

macro_rules! text {
    ($name:literal) => {
        ($name, include_str!(concat!("../../tests/fixtures/programs/", $name, ".txt")))
    };
}

/// A text with its name, the programs in it, and a figure: size, metric, value.
type ProgramText = ((&'static str, &'static str), &'static [&'static str], (u64, Metric, f64));

const TEXTS: [ProgramText; 16] = [
    (text!("osu-latency-5"), &["osu_latency"], (8, Metric::Mean, 2050.0)),
    (text!("osu-latency-7-device"), &["osu_latency"], (256, Metric::Min, 3660.0)),
    (text!("osu-bw-6"), &["osu_bw"], (4_194_304, Metric::Bandwidth, 24_013.40e6)),
    (text!("osu-bibw-7"), &["osu_bibw"], (65_536, Metric::Bandwidth, 42_301.08e6)),
    (text!("osu-mbw_mr-7"), &["osu_mbw_mr"], (8, Metric::PacketRate, 12_920_040.11)),
    (text!("osu-put-latency-5"), &["osu_put_latency"], (4096, Metric::Mean, 3200.0)),
    (text!("osu-get-bw-7"), &["osu_get_bw"], (8, Metric::Bandwidth, 27.93e6)),
    (text!("fi_pingpong"), &["fi_pingpong"], (65_536, Metric::Mean, 7890.0)),
    (text!("fi_rdm_tagged_pingpong"), &["fi_rdm_tagged_pingpong"], (8, Metric::Mean, 1950.0)),
    (text!("fi_rma_bw"), &["fi_rma_bw"], (1_048_576, Metric::Bandwidth, 24_008.61e6)),
    (text!("imb-pingpong-2021"), &["IMB PingPong"], (256, Metric::Mean, 2360.0)),
    (text!("imb-pingpong-2018"), &["IMB PingPong", "IMB Sendrecv"], (8, Metric::Mean, 2120.0)),
    (text!("imb-pingpong-labelled"), &["IMB PingPong"], (8, Metric::Mean, 1990.0)),
    (
        text!("nccl-all_reduce"),
        &["all_reduce_perf busbw", "all_reduce_perf algbw"],
        (1_073_741_824, Metric::Bandwidth, 122.60e9),
    ),
    (
        text!("nccl-all_gather-labelled"),
        &["all_gather_perf busbw", "all_gather_perf algbw"],
        (134_217_728, Metric::Bandwidth, 69.48e9),
    ),
    (
        text!("nccl-old"),
        &["nccl-tests busbw", "nccl-tests algbw"],
        (67_108_864, Metric::Bandwidth, 100.42e9),
    ),
];

fn figure(run: &Outcome, size: u64, metric: Metric) -> Option<f64> {
    let result = run.results.iter().find(|result| result.size_bytes == size);
    result.unwrap_or_else(|| panic!("{run:?}")).figure(metric)
}

/// A program, and its sizes with the deciding metric.
type RunFigures<'a> = (&'a str, Vec<(u64, Option<f64>)>);

fn figures(runs: &[Outcome]) -> Vec<RunFigures<'_>> {
    let rows = |run: &'_ Outcome| {
        let metric = |result: &report::outcome::SizeResult| {
            result.figure(Metric::Mean).or(result.figure(Metric::Bandwidth))
        };
        run.results.iter().map(|result| (result.size_bytes, metric(result))).collect()
    };
    runs.iter().map(|run| (run.tool.as_str(), rows(run))).collect()
}

#[test]
fn reads_each_program() {
    for ((name, text), programs, (size, metric, value)) in TEXTS {
        let (runs, notes) = runs(text).unwrap();
        assert_eq!(notes, [""; 0], "{name}");
        let names: Vec<&str> = runs.iter().map(|run| run.tool.as_str()).collect();
        assert_eq!(names, programs, "{name}");
        assert_eq!(figure(&runs[0], size, metric), Some(value), "{name}");
        assert!(runs.iter().all(|run| run.status == Status::Complete && run.is_printed()));
        let rows = text.lines().filter(|line| {
            let mut words = line.split_whitespace().skip_while(|word| word.ends_with(':'));
            let first = words.next().unwrap_or_default();
            first.starts_with(|c: char| c.is_ascii_digit())
                && words.count() > 0
                && !line.contains("INFO")
        });
        let tables = if programs[0].ends_with("busbw") { 2 } else { 1 };
        let read: usize = runs.iter().map(|run| run.results.len()).sum();
        assert_eq!(read, rows.count() * tables, "{name}");
    }
}

#[test]
fn figures_that_are_not_printed_are_missing() {
    let latency = runs(text!("osu-latency-5").1).unwrap().0;
    for metric in [Metric::Min, Metric::Max, Metric::Deviation, "p50".parse().unwrap()] {
        assert_eq!(figure(&latency[0], 8, metric), None, "{metric}");
    }
    let bandwidth = runs(text!("osu-bw-6").1).unwrap().0;
    assert_eq!(figure(&bandwidth[0], 8, Metric::PacketRate), None);
    assert_eq!(figure(&bandwidth[0], 8, Metric::Mean), None);
    let device = runs(text!("osu-latency-7-device").1).unwrap().0;
    assert_eq!(
        (device[0].results[0].count, figure(&device[0], 1, Metric::Max)),
        (10_000, Some(4440.0))
    );
}

/// usec/xfer of a bandwidth test is the time between two messages; a ping-pong has one message
/// under way; a message of 1 MiB is 512 packets; busbw is not algbw.
#[test]
fn takes_no_figure_for_another() {
    let rma = runs(text!("fi_rma_bw").1).unwrap().0;
    assert_eq!(figure(&rma[0], 64, Metric::Mean), None);
    assert_eq!(figure(&rma[0], 1_048_576, Metric::PacketRate), Some(0.02 * 1e6 * 512.0));
    for text in [text!("fi_rdm_tagged_pingpong").1, text!("imb-pingpong-2021").1] {
        assert_eq!(figure(&runs(text).unwrap().0[0], 256, Metric::Bandwidth), None);
    }
    // Nothing says which of the programs of fabtests it was.
    let (_, unnamed) = text!("fi_rdm_tagged_pingpong").1.split_once('\n').unwrap();
    let (unknown, notes) = runs(unnamed).unwrap();
    assert_eq!(
        (unknown[0].tool.as_str(), figure(&unknown[0], 8, Metric::Mean)),
        ("fabtests", None)
    );
    assert!(notes[0].contains("is of an unknown program"), "{notes:?}");
    let nccl = runs(text!("nccl-all_reduce").1).unwrap().0;
    assert_eq!(figure(&nccl[1], 1_073_741_824, Metric::Bandwidth), Some(81.74e9));
}

/// The figure in place stands behind the one that is no number.
#[test]
fn unreadable_figure_is_not_replaced_by_another_column() {
    let text = text!("nccl-all_reduce").1.replacen("16.35", "inf", 1);
    let (runs, notes) = runs(&text).unwrap();
    assert_eq!(figure(&runs[0], 1_048_576, Metric::Bandwidth), None);
    assert_eq!(figure(&runs[1], 1_048_576, Metric::Bandwidth), Some(10.90e9));
    assert_eq!(notes, ["line 13: bw 'inf' is no number of a NIC"]);
}

#[test]
fn reads_settings_that_a_text_shows() {
    for (text, label, value) in [
        (text!("osu-latency-5").1, "memory", "host to host"),
        (text!("osu-latency-7-device").1, "memory", "device to device"),
        (text!("osu-latency-7-device").1, "version", "7.4"),
        (text!("osu-mbw_mr-7").1, "pairs", "4"),
        (text!("osu-mbw_mr-7").1, "window size", "64"),
        (text!("osu-put-latency-5").1, "synchronization", "MPI_Win_flush"),
    ] {
        assert_eq!(runs(text).unwrap().0[0].labels[label], value);
    }
    assert_eq!(runs(text!("osu-bibw-7").1).unwrap().0[0].host.name, "0");
}

#[test]
fn refuses_rows_of_two_processes_without_names() {
    for (_, text) in [text!("osu-latency-5"), text!("fi_pingpong"), text!("nccl-all_reduce")] {
        let twice: String = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
        assert!(runs(&twice).is_err(), "{twice}");
    }
}

/// The titles of an unknown test end the run before them.
#[test]
fn rows_of_other_tests_do_not_join_a_run() {
    let (first, _) = text!("osu-latency-5").1.split_at(150);
    let first = first.rsplit_once('\n').unwrap().0;
    let text = format!(
        "{first}\n\n# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n\
         1048576               150.10\n"
    );
    let (runs, notes) = runs(&text).unwrap();
    let expected: Vec<(u64, Option<f64>)> = vec![(1_048_576, Some(150_100.0))];
    assert_eq!(figures(&runs)[1], ("OSU mpi allreduce latency", expected));
    assert_eq!((runs.len(), notes.len()), (2, 0));
}

fn any_text() -> impl Strategy<Value = &'static str> {
    (0..TEXTS.len()).prop_map(|index| TEXTS[index].0.1)
}

proptest! {
    /// A text that is cut anywhere has the figures of its whole lines, and no other ones.
    #[test]
    fn cut_texts_have_no_wrong_figures(text in any_text(), end in 0.0..1.0) {
        let end = (text.len() as f64 * end) as usize;
        let (all, _) = runs(text).unwrap();
        let (cut, notes) = runs(&text[..end]).unwrap();
        for ((program, whole), (cut_program, part)) in figures(&all).iter().zip(figures(&cut)) {
            // The line with the command stays.
            prop_assert_eq!(*program, cut_program);
            prop_assert!(whole.starts_with(&part), "{:?}", part);
        }
        let is_in_row = !text[..end].ends_with('\n') && cut.len() == all.len();
        if is_in_row && !text[..end].contains("Avg bus bandwidth") && end < text.len() {
            prop_assert_eq!(cut.last().unwrap().status, Status::Interrupted);
            prop_assert!(!notes.is_empty());
        }
    }

    /// A launcher's prefixes separate processes whose lines are mixed in any order.
    #[test]
    fn labelled_texts_may_be_mixed(one in any_text(), other in any_text(), order in any::<u64>()) {
        let mut lines = [("3: ", one.lines()), ("nid1: ", other.lines())];
        let mut mixed = String::new();
        for step in 0.. {
            let first = usize::from(order >> (step % 64) & 1 == 1);
            let Some((prefix, line)) = [first, 1 - first]
                .into_iter()
                .find_map(|writer| Some((lines[writer].0, lines[writer].1.next()?)))
            else {
                break;
            };
            mixed += &format!("{prefix}{line}\n");
        }
        let (mixed_runs, _) = runs(&mixed).unwrap();
        let (mut both, mut read) = (runs(one).unwrap().0, mixed_runs);
        both.extend(runs(other).unwrap().0);
        let key = |run: &Outcome| (run.results.len(), run.results[0].size_bytes, format!("{:?}", run.results));
        both.sort_by_key(key);
        read.sort_by_key(key);
        let rows = |runs: &[Outcome]| figures(runs).into_iter().map(|(_, rows)| rows).collect::<Vec<_>>();
        prop_assert_eq!(rows(&both), rows(&read));
    }

    #[test]
    fn survives_damaged_texts(text in any_text(), end in 0.0..1.0, damage in "[ -~\n]{0,40}") {
        let end = (text.len() as f64 * end) as usize;
        let _ = runs(&format!("{}{damage}{}", &text[..end], &text[end..]));
    }
}
