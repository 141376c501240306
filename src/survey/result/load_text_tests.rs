//! Tests of the section about load.

use super::*;
use crate::result::load_testing::{SWITCH, good_load, judgement, links, mixed_load};
use crate::result::testing::{good, loaded, survey};
use campaign::quiet::ids::NicId;
use load::findings::{BandwidthFigures, LinkCoverage, LinkKind, LoadFigure, LoadUnit};
use page::table::TextStyle;

/// Returns the lines of the section.
fn section(survey: &Survey) -> String {
    let mut page = Page::default();
    add(&mut page, survey);
    page.text(TextStyle::Plain).trim().to_owned()
}

#[test]
fn is_empty_without_load() {
    assert_eq!(section(&survey(good(), Ok(()))), "");
}

#[test]
fn shows_good_load_in_one_screen() {
    let expected = "\
Under load
standard: at most 8 of 8 NICs sent at once, operations of 64K, window 1M; 408
  slots of 0.25 s, seed 7
Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.

Pattern (GB/s)  NICs  Mean   Min  Sum     Share of  Grade
bisect:switch      8  21.5  20.9  172  theory 0.94  good
Mean and Min: of a NIC that sends. Without load a NIC reaches 21.9 GB/s.

write-lat 8 (us) under all2all
Spread  Class  Pairs  Quiet  Load  Ratio       95 %   p99  p99.9  Grade
mixed   all       24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9.
    Quiet medians repeat within a ratio of 1.04.";
    assert_eq!(section(&loaded(good_load())), expected);
}

#[test]
fn colors_figures_without_a_verdict_as_suspect() {
    let mut page = Page::default();
    add(&mut page, &loaded(mixed_load()));
    let text = page.text(TextStyle::Colored);
    assert!(text.contains("\x1b[33mnot judged\x1b[0m"), "{text}");
}

#[test]
fn says_how_much_of_the_links_was_seen() {
    let links = LinkCoverage {
        kind: LinkKind::Switches,
        links: 56,
        crossed: 54,
        least: 20.1e9,
        median: 49.8e9,
    };
    let text = section(&loaded(LoadFindings { crossed: vec![links], ..good_load() }));
    let expected = "
Links between switches of a group: flows crossed 54 of 56, with up to 49.8 GB/s
  in the median and 20.1 GB/s at least. A slow link that carries as much looks
  good.
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn shows_judgements_first() {
    let expected = "\
Under load
standard: at most 8 of 8 NICs sent at once, operations of 64K, window 1M; 408
  slots of 0.25 s, seed 7
Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.
NICs cannot see one bad cable of a bundle while adaptive routing has room on the
  others: the counters of the switches show it.

Bad under load
switch 003.12 (4 NICs): bandwidth 0.44 times the median of equal parts under
    bisect:switch (good: at least 0.90)
  8 of 8 flows at this switch are slow, 0 of 24 at others
  no pauses, no timeouts
  do: have the fabric manager list rate, width and errors of all links of switch
    003.12

Suspect under load: not confirmed by retests with other roles
links from group 000 to group 002: bandwidth 0.25 times the median of equal
    parts under bisect:system (good: at least 0.90)
  do: have the fabric manager list the links from group 000 to group 002: which
    are down, slow, or have errors

Transient under load: inside the limits in retests
nid000417 cxi0: bandwidth 0.44 times the median of equal parts under
    bisect:switch (good: at least 0.90)

Slow under load, no fault
nid000418 cxi1: targets paused the switch 12 % of the time under incast:8 (good:
    at most 1.0 %)

Pattern (GB/s)            NICs  Mean   Min   Sum     Share of  Grade
bisect:switch                8  21.5  20.9   172  theory 0.94  good
bisect:system, both ways     8  21.5  5.40   172  theory 0.94  good
incast:8                     8  2.65  2.60  21.2   quiet 0.98  slow
shift                        8  21.5  20.9   172            -  not judged
Mean and Min: of a NIC that sends. Without load a NIC reaches 21.9 GB/s.
bisect:system, both ways: 1 measurement left out: processes waited for CPUs
incast:8: worst target nid000418 cxi1: 8 sources, sum 0.96 times quiet, fairness
    0.99, smallest share 0.62 of an equal one

write-lat 8 (us) under all2all
Spread    Class        Pairs  Quiet  Load  Ratio       95 %   p99  p99.9  Grade
mixed     same switch     24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
switches  all             24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
Far above its class: nid000416 cxi0 (003.12) to nid000416 cxi1 (003.12): impact
    factor 3.00, quiet latency 1.02 times the median of the class.

write-lat 8 (us) under incast-same:8; victims in LOW_LATENCY
Spread  Class  Pairs  Quiet  Load  Ratio  95 %  p99  p99.9  Grade
groups  all        4   1.90   249    131     -    -      -  not judged
Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9.
    Quiet medians repeat within a ratio of 1.04.

LOW_LATENCY under incast:32: latency x1.10, in the class of the load x3.00:
    keeps 0.95 of the load away (good)
LOW_LATENCY under incast:32: latency x1.10, in the class of the load x1.10:
    nothing to isolate from

Counters, summed over NICs and slots
incast:8: senders and targets paused by the switch for 1.20 s, 1,204 requests
    refused: tables full, 3.0 % of the packets marked as congested; victims
    paused by the switch for 2.10 ms, lost 3 answers, sent 3 packets again

Left out
incast:32: only 8 NICs";
    let text = section(&loaded(mixed_load()));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.join("\n"), expected);
    assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
}

#[test]
fn says_what_limits_the_figures() {
    let mut load = good_load();
    load.settings.is_partial = true;
    load.unjudged = Some("traffic of others at 3 of 8 NICs".into());
    load.aborted = Some("cxi0 of nid000417 is down".into());
    let remarks = remarks(&load).join("\n");
    for text in [
        "The load ended early: cxi0 of nid000417 is down.",
        "No verdict under load: traffic of others at 3 of 8 NICs.",
        "Partial load: ",
        "Closed loop: ",
    ] {
        assert!(remarks.contains(text), "{remarks}");
    }
    // Without a bisection of the system nothing is said about bundles.
    assert!(!remarks.contains("bundle"), "{remarks}");
}

#[test]
fn limits_the_number_of_judgements() {
    let bad = Some(Certainty::Bad);
    let judgement_for =
        |nic| judgement(LoadUnit::Nic(NicId(nic)), LoadFigure::Bandwidth, Grade::Bad, bad);
    let mut load = good_load();
    load.judgements = (0..8).cycle().take(23).map(judgement_for).collect();
    load.judgements.push(judgement(SWITCH, LoadFigure::Impact, Grade::Slow, None));
    let text = section(&loaded(load));
    assert_eq!(text.matches("times the median of equal parts").count(), MOST);
    assert!(text.contains("\nand 3 more\n\nSlow under load"), "{text}");
}

#[test]
fn ends_the_text_of_a_survey() {
    let survey = loaded(mixed_load());
    let text = crate::result::text::page(&survey).text(TextStyle::Plain);
    assert!(text.ends_with(&format!("\n\n{}\n", section(&survey))), "{text}");
}

#[test]
fn shows_figures_of_slow_fabrics_in_their_unit() {
    let mut load = good_load();
    for bandwidth in &mut load.bandwidths {
        (bandwidth.mean, bandwidth.min, bandwidth.sum) = (24.24e6, 6.06e6, 193.9e6);
    }
    load.quiet_bandwidth = Some(48.48e6);
    let text = section(&loaded(load));
    let row = "bisect:switch      8  24.2  6.06  194  theory 0.94  good";
    assert!(text.contains("Pattern (MB/s)") && text.contains(row), "{text}");
    assert!(text.contains("reaches 48.5 MB/s."), "{text}");
}

#[test]
fn shows_no_figures_where_nothing_counts() {
    let mut load = good_load();
    let counted = load.bandwidths[0].clone();
    let none = BandwidthFigures { pattern: "quiet".into(), nics: 0, mean: 0.0, ..counted };
    load.bandwidths.push(none);
    let text = section(&loaded(load));
    let row = "quiet              0     -     -    -";
    assert!(text.contains("Pattern (GB/s)") && text.contains(row), "{text}");
}

#[test]
fn names_slowest_part_only_if_it_is_not_good() {
    let mut load = good_load();
    let has_part = |load| section(&loaded(load)).contains(": slowest links");
    load.bandwidths[0].sets = vec![links(0, 1, 0.95)];
    assert!(!has_part(load.clone()));
    load.bandwidths[0].sets = vec![links(0, 1, 0.85)];
    assert!(!has_part(load.clone()));
    load.bandwidths[0].grade = Grade::Slow;
    assert!(has_part(load));
}
