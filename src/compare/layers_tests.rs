//! Tests of layers on models of runs, and on texts of programs.

use super::*;
use crate::printed;
use facts::error::Kind;
use report::outcome::{BandwidthResult, LatencyResult, ListOptions, Options, Outcome, PRINTED};

/// Sizes of the model, from 8 bytes to 64 KiB.
const SIZES: [u64; 14] =
    [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// Programs of the layers, for latencies and for bandwidths.
const PROGRAMS: [[&str; 3]; 2] =
    [["send-lat", "fi_pingpong", "osu_latency"], ["send-bw", "fi_rdm_tagged_bw", "osu_bw"]];

/// Numbers from 0 to 1 that look random, the same for each seed.
struct Scatter(u64);

impl Scatter {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

fn run(tool: &str, figures: &[(u64, f64)]) -> ReadRun {
    let result = |&(size_bytes, value): &(u64, f64)| SizeResult {
        size_bytes,
        extent: Extent::Complete,
        latency: (!tool.contains("bw"))
            .then(|| LatencyResult { mean_ns: value, ..LatencyResult::default() }),
        bandwidth: tool.contains("bw").then(|| BandwidthResult {
            bandwidth_bytes_per_s: value,
            ..BandwidthResult::default()
        }),
        unreadable: vec![Metric::Deviation],
        ..SizeResult::default()
    };
    let outcome = Outcome {
        schema_version: PRINTED,
        tool: tool.into(),
        results: figures.iter().map(result).collect(),
        ..Outcome::default()
    };
    ReadRun { file: format!("{tool}.txt"), outcome }
}

/// What slows the layers down: a layer, the part of its figure that it loses, sizes.
type Slowdown = (usize, f64, std::ops::RangeInclusive<u64>);

/// The runs of all layers of a model, with 1 % of noise.
fn model(is_bandwidth: bool, random: &mut Scatter, slow: Option<&Slowdown>) -> Vec<ReadRun> {
    let mut layers = Vec::new();
    for (layer, tool) in PROGRAMS[usize::from(is_bandwidth)].iter().enumerate() {
        let figure = |&size: &u64| {
            let lost = |layer: usize| match slow {
                Some((own, part, sizes)) if *own <= layer && sizes.contains(&size) => *part,
                _ => 0.0,
            };
            let wire = 1640.0 + size as f64 / 12.0;
            let latency = wire + [0.0, 310.0, 730.0][layer];
            let bandwidth =
                size as f64 / (0.4 + size as f64 / 24.0) * 1e9 * [1.0, 0.97, 0.92][layer];
            let noise = 1.0 + (random.next() - 0.5) / 50.0;
            let value = if is_bandwidth {
                bandwidth * (1.0 - lost(layer))
            } else {
                latency + wire * lost(layer)
            };
            (size, value * noise)
        };
        layers.push(run(tool, &SIZES.iter().map(figure).collect::<Vec<_>>()));
    }
    layers
}

#[test]
fn names_each_planted_slowdown_and_nothing_else() {
    for seed in 0..20 {
        let mut random = Scatter(seed);
        let is_bandwidth = seed % 2 == 1;
        let layer = (seed / 2 % 3) as usize;
        let sizes = [8..=65_536, 8..=1024, 2048..=65_536][(seed / 6 % 3) as usize].clone();
        let part = 0.15 + 0.4 * random.next();
        let before = model(is_bandwidth, &mut random, None);
        let after = model(is_bandwidth, &mut random, Some(&(layer, part, sizes.clone())));
        let compared = LayerComparison::new(&before, &after).unwrap();
        let [transfer] = compared.transfers.as_slice() else { panic!("{compared:?}") };
        let [change] = transfer.changes.as_slice() else { panic!("{seed}: {}", compared.summary) };
        assert_eq!(change.layer, ["libcxi", "libfabric", "MPI"][layer], "{seed}");
        let range = change.from_bytes..=change.to_bytes;
        assert_eq!((change.is_worse, range), (true, sizes), "{seed}");
        assert!(compared.summary.contains("unchanged within 3 %"), "{}", compared.summary);
        assert_eq!(compared.result().unwrap_err().kind, Kind::Unmet);
        // The other way round, the same layer got faster.
        let better = LayerComparison::new(&after, &before).unwrap();
        assert!(better.transfers[0].changes.iter().all(|change| !change.is_worse));
        better.result().unwrap();
    }
}

#[test]
fn names_no_layer_that_has_only_noise() {
    for seed in 0..20 {
        let mut random = Scatter(seed + 100);
        let [before, after] = [0, 1].map(|_| model(seed % 2 == 1, &mut random, None));
        let compared = LayerComparison::new(&before, &after).unwrap();
        assert_eq!(compared.transfers[0].changes, [], "{seed}: {}", compared.summary);
        assert!(compared.summary.ends_with(": libcxi, libfabric, MPI unchanged within 3 %"));
    }
}

#[test]
fn layers_of_one_set_are_not_judged() {
    let before = model(false, &mut Scatter(7), None);
    let without_mpi = LayerComparison::new(&before, &before[..2]).unwrap();
    let words =
        "send latency: libcxi, libfabric unchanged within 3 %; send latency: MPI not judged";
    assert_eq!(without_mpi.summary, words);
    assert_eq!(without_mpi.result().unwrap_err().kind, Kind::Undecided);
    let one_set = compared(&before);
    assert!(!one_set.is_judged() && one_set.result().is_ok());
}

fn compared(base: &[ReadRun]) -> LayerComparison {
    LayerComparison::new(base, &[]).unwrap()
}

fn costs(compared: &LayerComparison) -> Vec<Option<f64>> {
    compared.transfers[0].sizes[0].base.iter().map(|figure| figure.own).collect()
}

#[test]
fn shows_what_each_layer_adds() {
    let runs = [run("osu_latency", &[(8, 2370.0)]), run("send-lat", &[(8, 1640.0)])];
    let both = compared(&runs);
    assert_eq!(both.summary, "send latency, 8 B: libcxi 1.64 us, + MPI 0.73 = 2.37");
    let [first, second] = runs;
    let all = compared(&[first, run("fi_pingpong", &[(8, 1950.0)]), second]);
    let expected = "send latency, 8 B: libcxi 1.64 us, + libfabric 0.31, + MPI 0.42 = 2.37";
    assert_eq!(all.summary, expected);
    let bandwidth = [run("osu_bw", &[(8, 22e9)]), run("send-bw", &[(8, 24e9)])];
    assert_eq!(
        compared(&bandwidth).summary,
        "send bandwidth, 8 B: libcxi 24.00 GB/s, - MPI 2.00 = 22.00"
    );
    assert!(all.remarks.is_empty(), "{:?}", all.remarks);
}

/// The user who was misled by ten iterations of fi_pingpong.
#[test]
fn layer_that_is_faster_than_the_one_below_was_measured_otherwise() {
    let few =
        printed::runs(include_str!("../../tests/fixtures/programs/fi_pingpong.txt")).unwrap().0;
    let few = few.into_iter().map(|outcome| ReadRun { file: "fi.txt".into(), outcome });
    let mut runs: Vec<ReadRun> = few.collect();
    runs.extend([run("send-lat", &[(64, 1660.0)]), run("osu_latency", &[(64, 2070.0)])]);
    let three = compared(&runs);
    assert_eq!(costs(&three), [Some(1660.0), None, Some(410.0)]);
    let expected = "send latency, 64 B: libcxi 1.66 us, (libfabric 5.40 us), + MPI 0.41 = 2.07";
    assert_eq!(three.summary, expected);
    assert!(
        three.remarks[0].starts_with("fi_pingpong has 10 operations a size"),
        "{:?}",
        three.remarks
    );
    assert!(three.remarks[1].starts_with("In parentheses, at 64 bytes: measured otherwise"));
    // Nothing says which of two layers is wrong.
    let two = compared(&[run("send-lat", &[(8, 2400.0)]), run("osu_latency", &[(8, 2000.0)])]);
    assert_eq!(costs(&two), [None, None]);
    // Within 3 %, the upper layer adds nothing.
    let near = compared(&[run("send-lat", &[(8, 2000.0)]), run("osu_latency", &[(8, 1960.0)])]);
    assert_eq!(costs(&near), [Some(2000.0), Some(0.0)]);
}

#[test]
fn layers_that_were_not_measured_share_a_change() {
    let set = |value| [run("send-lat", &[(8, 1640.0)]), run("osu_latency", &[(8, value)])];
    let compared = LayerComparison::new(&set(2300.0), &set(2900.0)).unwrap();
    let expected = "libfabric or MPI is slower: send latency by up to 26 % (8 bytes); libcxi \
                    unchanged within 3 %";
    assert_eq!(compared.summary, expected);
}

#[test]
fn noise_of_several_runs_widens_what_is_unchanged() {
    let lat = |value| run("send-lat", &[(8, value)]);
    let mpi = |value| run("osu_latency", &[(8, value)]);
    let before = [lat(1600.0), lat(1680.0), mpi(2200.0), mpi(2600.0)];
    let after = [lat(1640.0), lat(1640.0), mpi(2500.0), mpi(2700.0)];
    let compared = LayerComparison::new(&before, &after).unwrap();
    assert_eq!(compared.transfers[0].changes, []);
    assert!(compared.summary.contains("unchanged within 14 %"), "{}", compared.summary);
    assert!(compared.remarks[0].contains("noise of 8 %"), "{:?}", compared.remarks);
}

#[test]
fn runs_that_measure_something_else_are_not_joined() {
    let mut device = run("osu_latency", &[(8, 3600.0)]);
    device.outcome.labels.insert("memory".into(), "device to device".into());
    let host = run("send-lat", &[(8, 1640.0)]);
    for others in [
        vec![device],
        vec![run("osu_put_latency", &[(8, 2000.0)])],
        vec![run("osu_latency", &[(16, 2000.0)])],
        vec![run("all_reduce_perf busbw", &[(8, 1e9)])],
        vec![],
    ] {
        let runs: Vec<ReadRun> =
            others.into_iter().chain([run("send-lat", &[(8, 1640.0)])]).collect();
        let failure = LayerComparison::new(&runs, &[]).unwrap_err();
        assert!(failure.to_string().contains("no transfer was measured by two layers"));
    }
    let mut pairs = run("send-bw", &[(8, 3e9)]);
    let lists = ListOptions {
        list_size: 256,
        bidirectional: false,
        buf_sz_bytes: None,
        buf_align_bytes: None,
        pairs: 4,
        threads: 1,
        reverse: false,
        both_ends: false,
    };
    pairs.outcome.options = Some(Options { lists: Some(lists), ..Options::default() });
    let several = compared(&[pairs, run("osu_mbw_mr", &[(8, 2e9)]), run("osu_bw", &[(8, 1e9)])]);
    assert_eq!(several.transfers.len(), 1);
    assert!(several.summary.starts_with("send bandwidth of several pairs"), "{}", several.summary);
    let with = compared(&[host, run("osu_latency", &[(8, 2e3)]), run("osu_bibw", &[(8, 2e9)])]);
    let expected =
        "Left out, no other layer measured the same: osu_bibw (send bandwidth in both directions).";
    assert_eq!(with.remarks, [expected]);
}
