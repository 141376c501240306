//! The tests of a diagnosis, as the members of a survey measure them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::{RequestedTest, SurveyRequest};
use cluster::survey::findings::Test as SurveyTest;
use cluster::survey::ids::{NicId, TestId};
use cluster::timetable::Course;
use diagnosis::procedure::{Class, TESTS, Test, TestCode};
use node::traffic_class::TrafficClass;
use plan::tools::TOOLS;

/// The tests of a diagnosis, in the order of its course.
pub struct Tests {
    /// The tests of the survey, then others.
    course: Vec<(SurveyTest, Vec<String>)>,
    /// The place of each test of a diagnosis.
    places: BTreeMap<TestCode, TestId>,
    /// The traffic class of the survey.
    pub class: TrafficClass,
}

/// Returns the tests that a survey may add to find out why, as tools with their arguments.
pub fn added_tests(request: &SurveyRequest) -> impl Iterator<Item = (String, Vec<String>)> {
    let tests = TESTS.iter().filter(|_| request.explains);
    let class = class(&request.tests);
    tests.map(move |test| (test.tool.into(), arguments(test, &request.service, class)))
}

fn class(survey_tests: &[RequestedTest]) -> TrafficClass {
    let typed = survey_tests.first().and_then(|test| test.plan.class);
    typed.unwrap_or(TrafficClass::BestEffort)
}

/// Returns the arguments of a test in a survey with these options about the service.
fn arguments(test: &Test, service: &[String], class: TrafficClass) -> Vec<String> {
    let own = test.arguments.iter().map(|text| (*text).to_owned());
    let size = format!("--size={}", test.size_bytes);
    let other = other_class(test.class, class).map(|class| format!("{CLASS}={class}"));
    let is_kept = |option: &&String| other.is_none() || !option.starts_with(CLASS);
    let service = service.iter().filter(is_kept).cloned();
    own.chain([size]).chain(service).chain(other.clone()).collect()
}

/// Returns the class of a test if it is another one than the class of the survey.
fn other_class(wanted: Class, class: TrafficClass) -> Option<TrafficClass> {
    let first = match wanted {
        Class::OfSurvey => return None,
        Class::OtherBulk => TrafficClass::BulkData,
        Class::OtherFast => TrafficClass::LowLatency,
    };
    Some(if first == class { TrafficClass::BestEffort } else { first })
}

const CLASS: &str = "--traffic-class";

impl Tests {
    /// Returns the tests of a survey, and the tests of a diagnosis with these options about the
    /// service.
    pub fn new(survey_tests: &[RequestedTest], service: &[String]) -> Self {
        let known = survey_tests.iter();
        let mut tests = Self {
            course: known.map(|test| (test.test.clone(), test.arguments.clone())).collect(),
            places: BTreeMap::new(),
            class: class(survey_tests),
        };
        for test in &TESTS {
            let is_bandwidth =
                TOOLS.iter().any(|tool| tool.name == test.tool && tool.measures_bandwidth());
            let wanted = (
                SurveyTest {
                    tool: test.tool.into(),
                    size_bytes: test.size_bytes,
                    of_bandwidth: is_bandwidth,
                },
                arguments(test, service, tests.class),
            );
            let place = tests.course.iter().position(|course| *course == wanted);
            let place = place.unwrap_or_else(|| {
                tests.course.push(wanted);
                tests.course.len() - 1
            });
            tests.places.insert(test.code, TestId(place as u16));
        }
        tests
    }

    /// Returns the course of a process whose first NIC is this one.
    pub fn course(&self, first_nic: NicId, pair: Duration) -> Course {
        let (tests, arguments) = self.course.iter().cloned().unzip();
        Course { tests, arguments, pair_ns: pair.as_nanos() as u64, first_nic }
    }

    /// Returns the place of a test of the diagnosis.
    pub fn place(&self, code: TestCode) -> TestId {
        self.places[&code]
    }

    /// Returns whether a test measures a bandwidth.
    pub fn is_of_bandwidth(&self, test: TestId) -> bool {
        self.course[test.index()].0.of_bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_class_differs_from_class_of_survey() {
        use TrafficClass::{BestEffort, BulkData, LowLatency};
        for (wanted, survey_class, expected) in [
            (Class::OfSurvey, BulkData, None),
            (Class::OtherBulk, BestEffort, Some(BulkData)),
            (Class::OtherBulk, BulkData, Some(BestEffort)),
            (Class::OtherFast, BestEffort, Some(LowLatency)),
            (Class::OtherFast, LowLatency, Some(BestEffort)),
        ] {
            assert_eq!(other_class(wanted, survey_class), expected);
        }
    }
}
