//! The tests of a diagnosis: the tools that measure them, and their arguments.

use std::time::Duration;

use super::request::{RequestedTest, SurveyRequest};
use campaign::quiet::findings::Test as SurveyTest;
use facts::device::DeviceName;
use node::backend;
use node::traffic_class::TrafficClass;
use plan::tools::TOOLS;
use why::causes::procedure::{ClassChoice, DiagnosisCourse, TESTS, TestProcedure};

/// The tests that a survey may add to find out why, as tools with their arguments.
pub fn added_tests(request: &SurveyRequest) -> impl Iterator<Item = (String, Vec<String>)> {
    let tests = TESTS.iter().filter(|_| request.explains);
    let (class, service) = (class(&request.tests), request.service.arguments());
    tests.map(move |test| (test.tool.into(), arguments(test, &service, class)))
}

/// The traffic class of a survey with these tests.
pub fn class(survey_tests: &[RequestedTest]) -> TrafficClass {
    let typed = survey_tests.first().and_then(|test| test.plan.class);
    typed.unwrap_or(TrafficClass::BestEffort)
}

/// The arguments of a test in a survey with these options about the service.
fn arguments(test: &TestProcedure, service: &[String], class: TrafficClass) -> Vec<String> {
    let own = test.arguments.iter().map(|text| (*text).to_owned());
    let size = format!("--size={}", test.size_bytes);
    let other = other_class(test.class, class).map(|class| format!("{CLASS}={class}"));
    let is_kept = |option: &&String| other.is_none() || !option.starts_with(CLASS);
    let service = service.iter().filter(is_kept).cloned();
    own.chain([size]).chain(service).chain(other.clone()).collect()
}

/// The class of a test if it is another one than the class of the survey.
fn other_class(wanted: ClassChoice, class: TrafficClass) -> Option<TrafficClass> {
    let first = match wanted {
        ClassChoice::OfSurvey => return None,
        ClassChoice::OtherBulk => TrafficClass::BulkData,
        ClassChoice::OtherFast => TrafficClass::LowLatency,
    };
    Some(if first == class { TrafficClass::BestEffort } else { first })
}

const CLASS: &str = "--traffic-class";

/// The tests of a survey, and the tests of a diagnosis. One measures a NIC for the time `pair`.
pub fn diagnosis_course(request: &SurveyRequest, pair: Duration) -> DiagnosisCourse {
    let known = request.tests.iter();
    let known = known.map(|test| (test.test.clone(), test.arguments.clone())).collect();
    let (class, service) = (class(&request.tests), request.service.arguments());
    let own = TESTS.iter().map(|test| {
        let mut tools = TOOLS.iter();
        let survey_test = SurveyTest {
            tool: test.tool.into(),
            size_bytes: test.size_bytes,
            of_bandwidth: tools.any(|tool| tool.name == test.tool && tool.measures_bandwidth()),
        };
        (test.code, (survey_test, arguments(test, &service, class)))
    });
    let planted = backend::with_own_links().iter().map(DeviceName::to_string).collect();
    DiagnosisCourse::new(known, own.collect(), pair, planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_class_differs_from_class_of_survey() {
        use TrafficClass::{BestEffort, BulkData, LowLatency};
        for (wanted, survey_class, expected) in [
            (ClassChoice::OfSurvey, BulkData, None),
            (ClassChoice::OtherBulk, BestEffort, Some(BulkData)),
            (ClassChoice::OtherBulk, BulkData, Some(BestEffort)),
            (ClassChoice::OtherFast, BestEffort, Some(LowLatency)),
            (ClassChoice::OtherFast, LowLatency, Some(BestEffort)),
        ] {
            assert_eq!(other_class(wanted, survey_class), expected);
        }
    }
}
