//! The tests of a diagnosis, as the members of a survey measure them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::causes::procedure::TestCode;
use campaign::quiet::findings::Test;
use campaign::quiet::ids::{NicId, TestId};
use campaign::quiet::roster::Roster;
use campaign::timetable::TestSetup;

/// A test, and the arguments of its tool.
pub type TestAndArguments = (Test, Vec<String>);

/// The tests of a survey, then those that a diagnosis adds.
#[derive(Clone, Debug)]
pub struct DiagnosisCourse {
    /// The course of the members.
    pub course: TestSetup,
    /// The place of each test of a diagnosis.
    places: BTreeMap<TestCode, TestId>,
    /// Names of the software NICs with links of their own.
    planted: Vec<String>,
}

impl DiagnosisCourse {
    /// Returns the tests of a survey, and its `own` tests. A NIC is measured for the time `pair`.
    /// `planted` are the names of the software NICs to which the user has given links of their own.
    pub fn new(
        survey_tests: Vec<TestAndArguments>,
        own: Vec<(TestCode, TestAndArguments)>,
        pair: Duration,
        planted: Vec<String>,
    ) -> Self {
        let mut all = survey_tests;
        let mut places = BTreeMap::new();
        for (code, wanted) in own {
            let place = all.iter().position(|test| *test == wanted);
            let place = place.unwrap_or_else(|| {
                all.push(wanted);
                all.len() - 1
            });
            places.insert(code, TestId(place as u16));
        }
        let (tests, arguments) = all.into_iter().unzip();
        let pair_ns = pair.as_nanos() as u64;
        Self {
            course: TestSetup { tests, arguments, pair_ns, first_nic: NicId(0) },
            places,
            planted,
        }
    }

    /// Returns how long a test measures a NIC.
    pub fn pair(&self) -> Duration {
        Duration::from_nanos(self.course.pair_ns)
    }

    /// Returns the place of a test of the diagnosis.
    pub fn place(&self, code: TestCode) -> TestId {
        self.places[&code]
    }

    /// Returns whether hops show the NIC and its link rather than its CPUs.
    pub fn has_hops(&self, roster: &Roster, nic: NicId) -> bool {
        !roster.runs_on_cpus(nic) || self.planted.contains(&roster.nic(nic).device)
    }

    /// Returns whether a test measures a bandwidth.
    pub fn is_of_bandwidth(&self, test: TestId) -> bool {
        self.course.tests[test.index()].of_bandwidth
    }
}
