//! Tests of the part of the page about load.

use super::*;
use campaign::quiet::roster::NicId;
use load::findings::{LoadFigure, LoadUnit};
use survey::result::testing::{good, good_load, judgement, loaded, mixed_load, star, survey};

fn page(load: LoadFindings) -> String {
    let survey = loaded(load);
    let load = survey.load.as_ref().unwrap();
    section(&survey, load).into_string()
}

#[test]
fn shows_each_kind_of_figure() {
    let page = page(mixed_load());
    for text in [
        "at most 8 of 8 NICs sent at once",
        "8 of 8 flows at this switch are slow, 0 of 24 at others",
        r#"<td class="number">5.40 GB/s</td>"#,
        "bisect:system, both ways: bandwidth from group (row) to group (column)",
        "incast:8: targets, the worst first",
        r#"<rect class="bar" width="62" height="10"></rect></svg> 0.62"#,
        "write-lat 8 under incast-same:8, groups, in LOW_LATENCY",
        "1.06-1.15",
        "under all2all, mixed, same switch: Far above its class: nid000416 cxi0 (003.12) to ",
        "nothing to isolate from",
        "paused by the switch for 1.20 s",
        "only 8 NICs",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
}

#[test]
fn leaves_out_what_was_not_measured() {
    let page = page(LoadFindings { bandwidths: Vec::new(), impacts: Vec::new(), ..good_load() });
    assert!(!page.contains("<table") && !page.contains("<svg"), "{page}");
}

#[test]
fn limits_rows_and_says_how_many_are_missing() {
    let bad = |nic| {
        let unit = LoadUnit::Nic(NicId(nic));
        judgement(unit, LoadFigure::Bandwidth, Grade::Slow, None)
    };
    let mut load = good_load();
    load.judgements = (0..8).cycle().take(MOST_ROWS + 7).map(bad).collect();
    load.bandwidths[0].stars =
        (0..8).cycle().take(MOST_STARS + 3).map(|nic| star(nic, 0.3)).collect();
    let far = &mut load.impacts[0].far_above;
    let victim = mixed_load().impacts[0].far_above[0];
    far.resize(MOST_FAR + 2, victim);
    let page = page(load);
    for more in [7, 3, 2] {
        assert!(page.contains(&format!("and {more} more")), "{more}");
    }
    assert_eq!(page.matches("Far above its class").count(), MOST_FAR);
    assert_eq!(page.matches("bar low").count(), MOST_STARS);
}

#[test]
fn verdict_names_bad_parts() {
    let names = |load| bad_parts(&loaded(load)).into_string();
    let line = "<br>Bad under load: <strong>switch 003.12 (4 NICs)</strong>";
    assert_eq!(names(mixed_load()), line);
    assert_eq!(names(good_load()), "");
}

#[test]
fn is_a_part_of_the_page_of_a_survey() {
    let title = "<h3>Under load</h3>";
    let page = |load| {
        let survey = loaded(load);
        [
            super::super::survey::section(&survey, 1).into_string(),
            super::super::survey::circumstances("a.json", &survey).into_string(),
        ]
    };
    let [section, circumstances] = page(mixed_load());
    assert!(section.contains(title) && section.contains("Bad under load: "));
    assert!(circumstances.contains("<dd>standard</dd>"));
    let without = super::super::survey::section(&survey(good(), Ok(())), 1);
    assert!(!without.into_string().contains(title));
}
