//! Which steps follow from a request, on fabrics of different shapes.

use std::collections::BTreeSet;

use super::course::{CourseFacts, LoadCourse, course};
use super::roles::{RoleRules, VICTIMS_PERCENT};
use super::steps::CourseStep;
use super::testing::{all_placed, d4, fabric};
use crate::slot::{LoadMeasurement, LoadSlot, VictimKey};
use crate::spec::parse;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;

const RULES: RoleRules =
    RoleRules { victims_percent: VICTIMS_PERCENT, most_aggressors: usize::MAX };

fn course_of(roster: &Roster, wanted: &str, has_other_class: bool) -> LoadCourse {
    let nics = all_placed(roster);
    let facts =
        CourseFacts { nics: &nics, nics_of_victims: &nics, rules: RULES, seed: 5, has_other_class };
    course(&parse(wanted).unwrap(), facts)
}

fn titles(course: &LoadCourse) -> Vec<String> {
    course.steps.iter().map(CourseStep::title).collect()
}

fn left_out(course: &LoadCourse) -> Vec<String> {
    let left_out = course.left_out.iter();
    left_out.map(|left_out| format!("{}: {}", left_out.what, left_out.reason)).collect()
}

#[test]
fn standard_goes_from_the_smallest_shared_part_outward() {
    let course = course_of(&fabric([8, 4, 4, 1]), "standard", true);
    assert_eq!(
        titles(&course)[..12],
        [
            "quiet",
            "bisect:switch",
            "bisect:switch, both ways",
            "bisect:group",
            "bisect:group, both ways",
            "bisect:system",
            "bisect:system, both ways",
            "all2all",
            "incast:8",
            "victims under all2all, mixed",
            "victims under all2all, whole switches",
            "victims under all2all, whole groups",
        ]
    );
    assert_eq!(course.steps.len(), 9 + 5 * 3);
    assert_eq!(left_out(&course), [""; 0]);
    let victim_slots = course.steps[9..].iter().map(CourseStep::slots);
    assert_eq!(victim_slots.sum::<u32>(), 240);
    let others: Vec<u32> = course.steps[..9].iter().map(CourseStep::slots).collect();
    assert_eq!(others, [8, 16, 8, 16, 8, 16, 8, 64, 16]);
}

#[test]
fn words_are_measured_once_and_in_order() {
    let roster = fabric([8, 4, 4, 1]);
    let course =
        course_of(&roster, "incast:32,victims,standard,incast-same:8,shift,incast:8", false);
    let titles = titles(&course);
    let unique: BTreeSet<&String> = titles.iter().collect();
    assert_eq!(unique.len(), titles.len());
    let place = |title: &str| titles.iter().position(|text| text == title);
    let order = [
        "quiet",
        "shift, next NIC",
        "shift, random",
        "incast:8",
        "incast:32",
        "victims under incast:32, whole groups",
        "victims under incast-same:8, mixed",
    ]
    .map(place);
    assert!(order.is_sorted() && order[0] == Some(0), "{titles:?}");
}

#[test]
fn names_what_needs_locations() {
    let course = course_of(&fabric([0, 0, 64, 1]), "standard", false);
    assert_eq!(titles(&course).len(), 3 + 3, "{:?}", titles(&course));
    let reasons = left_out(&course);
    let without = "the locations of the NICs are not known";
    assert_eq!(reasons[0], format!("bisect:switch: {without}"));
    assert!(reasons.contains(&format!("victims, whole groups: {without}")));
    assert!(reasons.contains(&format!("victims under shift, next group, mixed: {without}")));
    assert_eq!(reasons.len(), 6 + 2 + 2);
}

#[test]
fn names_what_the_roster_is_too_small_for() {
    let one_group = course_of(&fabric([1, 4, 4, 1]), "bisect:system,shift,incast:16", false);
    assert_eq!(
        left_out(&one_group),
        [
            "bisect:system: all NICs are in one group",
            "bisect:system, both ways: all NICs are in one group",
            "shift, next group: all NICs are in one group",
            "incast:16: it needs 17 NICs, there are 16",
        ]
    );
    let one_switch = course_of(&fabric([1, 1, 4, 1]), "bisect:group,shift", false);
    let reasons = left_out(&one_switch);
    assert_eq!(reasons[0], "bisect:group: no group has NICs at two switches");
    assert!(reasons.contains(&"shift, next switch: all NICs are at one switch".into()));
    let one_node = course_of(&fabric([1, 1, 1, 4]), "bisect", false);
    assert_eq!(one_node.steps, []);
    assert_eq!(left_out(&one_node)[0], "quiet: it needs NICs of two nodes");
}

#[test]
fn incasts_beside_victims_shrink_on_small_fabrics() {
    let course = course_of(&d4(), "victims", false);
    let titles = titles(&course);
    assert!(titles.contains(&"victims under incast:7, mixed".into()), "{titles:?}");
    assert!(titles.contains(&"victims under incast:8, whole groups".into()), "{titles:?}");
    let reasons = left_out(&course);
    let expected = "victims under incast:8: too few aggressors: incast:7 instead";
    assert!(reasons.contains(&expected.into()), "{reasons:?}");
}

#[test]
fn classes_need_another_class() {
    let roster = fabric([4, 4, 4, 1]);
    let without = course_of(&roster, "classes", false);
    assert_eq!(left_out(&without), ["classes: there is no other traffic class for victims"]);
    let course = course_of(&roster, "classes", true);
    assert_eq!(
        titles(&course)[1..],
        [
            "victims under bisect:system, both ways, mixed",
            "victims under bisect:system, both ways, mixed, other traffic class",
            "victims under incast:32, mixed",
            "victims under incast:32, mixed, other traffic class",
        ]
    );
}

fn ends(slot: &LoadSlot) -> (BTreeSet<NicId>, BTreeSet<NicId>) {
    let load = slot.flows.iter().flat_map(|flow| flow.peers.iter().copied().chain([flow.source]));
    let victims = slot.victims.iter().flat_map(|pair| pair.nics());
    (load.collect(), victims.collect())
}

#[test]
fn victims_touch_no_nic_and_no_node_of_the_load() {
    for shape in [[4, 2, 2, 1], [4, 3, 3, 2], [0, 0, 24, 1]] {
        let roster = fabric(shape);
        let nics = all_placed(&roster);
        let node = |nic: &NicId| roster.nic(*nic).node;
        for step in course_of(&roster, "victims,incast-same:4", false).steps {
            let LoadMeasurement::Victims(VictimKey { at_target, .. }) = step.purpose else {
                continue;
            };
            let mut pairs = BTreeSet::new();
            for repetition in 0..step.repetitions {
                let slots = step.repetition(&nics, repetition, RULES, 5);
                let is_quiet: Vec<bool> = slots.iter().map(|slot| slot.flows.is_empty()).collect();
                assert_eq!(is_quiet, [true, false, false, true]);
                assert!(slots.iter().all(|slot| slot.victims == slots[0].victims));
                pairs.insert(slots[0].victims.clone());
                for slot in &slots[1..3] {
                    let (load, victims) = ends(slot);
                    if at_target {
                        let is_at_target = |pair: &campaign::quiet::answer::Pair| {
                            let mut peers = slot.flows.iter().flat_map(|flow| &flow.peers);
                            peers.any(|peer| *peer == pair.target)
                                && !load.contains(&pair.initiator)
                        };
                        assert!(slot.victims.iter().all(is_at_target));
                    } else {
                        let nodes: BTreeSet<_> = load.iter().map(node).collect();
                        assert!(victims.iter().all(|nic| !nodes.contains(&node(nic))));
                    }
                }
            }
            assert!(pairs.len() > 1, "{}: roles are new in each repetition", step.title());
        }
    }
}
