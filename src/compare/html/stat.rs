//! What the NICs of a job did while a command ran, on the page: the sentences, a table of the NICs,
//! and what some counters did over time.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve};
use super::parts::{Badge, badge, cell, charts, facts, figure, table, time};
use super::quantity::Quantity;
use facts::severity::Severity;
use stat::job::JobStat;
use stat::series::NodeSeries;
use stat::text::{TITLES, nic_row};

/// NICs of the table that are shown at once, and curves of a picture.
const MOST_NICS: usize = 64;
const MOST_CURVES: usize = 6;

/// What a picture over time shows.
struct TimeLine {
    title: &'static str,
    /// Counters of which the sum is shown: each whole, or the beginning of its name.
    counters: &'static [&'static str],
    quantity: Quantity,
    /// What a value is multiplied by.
    scale: f64,
}

const TIME_LINES: [TimeLine; 4] = [
    TimeLine {
        title: "Sent",
        counters: &["hni_sts_tx_ok_octets"],
        quantity: Quantity::Bandwidth,
        scale: 1.0,
    },
    TimeLine {
        title: "Timeouts",
        counters: &["retry_handler/spt_timeouts", "retry_handler/sct_timeouts"],
        quantity: Quantity::Rate,
        scale: 1.0,
    },
    TimeLine {
        title: "Held back by the fabric, of each second",
        counters: &[
            "oxe_stall_fgfc_blk_0",
            "oxe_stall_fgfc_blk_1",
            "oxe_stall_fgfc_blk_2",
            "oxe_stall_fgfc_blk_3",
        ],
        quantity: Quantity::Seconds,
        scale: 1e-9,
    },
    TimeLine {
        title: "Lost code words and replays",
        counters: &["hni_pcs_uncorrected_cw", "hni_llr_tx_replay_event", "hni_llr_rx_replay_event"],
        quantity: Quantity::Rate,
        scale: 1.0,
    },
];

/// The verdict on a job.
pub fn status(stat: &JobStat) -> Badge {
    if stat.unusual().next().is_some() {
        (Severity::Bad, "unusual")
    } else if !stat.missing_nodes.is_empty() || stat.without_end().next().is_some() {
        // The node that is missing may be the slow one.
        (Severity::Suspect, "readings missing")
    } else {
        (Severity::Good, "nothing unusual")
    }
}

/// The most important sentence.
pub fn finding(stat: &JobStat) -> String {
    let first = stat.findings.first();
    first.map_or(String::new(), |finding| finding.text.clone())
}

/// Returns where the command ran.
pub fn place(stat: &JobStat) -> String {
    match &*stat.nodes {
        [node] => node.host.clone(),
        nodes => format!("{} nodes", nodes.len()),
    }
}

/// The section below its title.
pub fn section(stat: &JobStat) -> Markup {
    let without: Vec<&str> = stat.without_end().collect();
    let peaks: Vec<String> = stat.series.iter().flat_map(NodeSeries::peaks).collect();
    let pictures: Vec<Markup> =
        (TIME_LINES.iter()).filter_map(|line| over_time(line, stat)).collect();
    html! {
        p { (badge(status(stat))) " " (finding(stat)) }
        ul {
            @for finding in stat.findings.iter().skip(1) { li { (finding.text) } }
            @for peak in &peaks { li { (peak) } }
            @if !stat.missing_nodes.is_empty() {
                li {
                    "nothing from " (stat.missing_nodes.join(", "))
                    ": cxidiag stat --merge reports all nodes when they have ended"
                }
            }
            @if !without.is_empty() { li { "no end reading: " (without.join(", ")) } }
        }
        (nics(stat))
        @if !pictures.is_empty() { (charts(&pictures)) }
    }
}

/// Returns what was run.
pub fn circumstances(file: &str, stat: &JobStat) -> Markup {
    facts(&[
        ("Command", Some(stat.program.join(" ")).filter(|text| !text.is_empty())),
        ("File", Some(file.to_owned())),
        ("Job", stat.job.clone()),
        ("Nodes", Some(stat.nodes.len().to_string())),
        ("Started", Some(time(stat.started_unix_ms))),
        ("Time", stat.seconds.map(|seconds| format!("{seconds:.1} s"))),
        ("End", stat.end()),
        ("Counters", Some(stat.set.clone())),
        ("cxidiag", Some(stat.cxidiag_version.clone())),
    ])
}

/// The table of NICs. More than a screen of them unfold.
fn nics(stat: &JobStat) -> Markup {
    let nics = stat.changes();
    let rows: Vec<Vec<Markup>> =
        (nics.iter()).map(|nic| nic_row(nic).iter().map(cell).collect()).collect();
    let (shown, folded) = rows.split_at(rows.len().min(MOST_NICS));
    html! {
        (table("NICs", &TITLES, shown))
        @if !folded.is_empty() {
            details {
                summary { (folded.len()) " more NICs" }
                (table("Other NICs", &TITLES, folded))
            }
        }
    }
}

/// A picture of some counters over time, of the NICs on which they have counted most. `None` if
/// they have not counted.
fn over_time(line: &TimeLine, stat: &JobStat) -> Option<Markup> {
    let start = stat.series.iter().map(|series| series.started_unix_ms).min()?;
    let mut curves: Vec<(f64, Curve)> = Vec::new();
    for node_series in &stat.series {
        for (nic, device) in node_series.devices.iter().enumerate() {
            let points = node_series.rates(nic, line.counters, start);
            let points: Vec<(f64, f64)> =
                (points.into_iter()).map(|(at, rate)| (at, rate * line.scale)).collect();
            let largest = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            if largest > 0.0 {
                let curve = Curve {
                    name: stat.name(&node_series.host, device),
                    is_main: true,
                    points,
                    ..Curve::default()
                };
                curves.push((largest, curve));
            }
        }
    }
    curves.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    curves.truncate(MOST_CURVES);
    let curves: Vec<Curve> = (curves.into_iter().enumerate())
        .map(|(color, (_, curve))| Curve { color, ..curve })
        .collect();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::from_zero("Time", Quantity::Seconds, &mut points().map(|(at, _)| *at))?;
    let y = Axis::from_zero(line.title, line.quantity, &mut points().map(|(_, rate)| *rate))?;
    let what = format!("{} over time, of the NICs with most", line.title);
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}
