//! The tests of a diagnosis (diagnosis.md 1), and how the members of a survey measure them. Each
//! test measures the culprit and good NICs in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use campaign::quiet::findings::Test;
use campaign::quiet::ids::{NicId, TestId};
use campaign::quiet::roster::Roster;
use campaign::timetable::TestSetup;

/// A test, by its code in the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub enum TestCode {
    /// The test of the survey with which the culprit was found.
    S,
    /// Small writes in loopback.
    L1,
    /// Small writes in loopback whose data the NIC reads from memory.
    L2,
    /// Small writes in loopback whose commands the NIC reads from memory.
    L3,
    /// Small reads in loopback.
    L4,
    /// Small writes in loopback with pauses of 1 ms.
    L5,
    /// Large writes in loopback.
    B1,
    /// Large reads in loopback.
    B3,
    /// Large writes that the culprit sends.
    B4,
    /// Large writes that the culprit receives.
    B5,
    /// Small writes that the culprit sends.
    P1,
    /// Small writes that the culprit receives.
    P2,
    /// Copies of the memory of the node, without the NIC.
    M,
    /// B1 with huge pages.
    H,
    /// B1 in another traffic class.
    Q,
    /// P1 in another traffic class.
    QP,
    /// Hops to the partner of P1 and back, which NICs launch without a CPU.
    T,
    /// B4 over ordered flows between two groups, each of which is measured alone.
    O,
}

/// Between which NICs a test measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestRoute {
    /// Each NIC with itself.
    Loopback,
    /// From the culprit to a good NIC, beside two good NICs.
    From,
    /// From a good NIC to the culprit, beside two good NICs.
    To,
}

/// When a test is measured: a later step only if the earlier ones leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStep {
    /// The tests that separate the own node from what is beyond it.
    First,
    /// The tests that separate the causes.
    Second,
    /// The tests that may cure what is slow.
    Third,
    /// The tests of links between two groups, and of nothing else.
    OfLinks,
}

/// The traffic class of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassChoice {
    /// As in the survey.
    OfSurvey,
    /// Another one without a limit of its bandwidth.
    OtherBulk,
    /// Another one for small operations, which switches prefer.
    OtherFast,
}

/// A test, and how its tool is run.
#[derive(Debug)]
pub struct TestProcedure {
    /// Its code.
    pub code: TestCode,
    /// The tool.
    pub tool: &'static str,
    /// Size of its operations in bytes.
    pub size_bytes: u64,
    /// Its other arguments.
    pub arguments: &'static [&'static str],
    /// Between which NICs it measures.
    pub route: TestRoute,
    /// When it is measured.
    pub step: TestStep,
    /// The test that it repeats in another way. It is measured only if the culprit is slower in
    /// that test.
    pub repeats: Option<TestCode>,
    /// Whether its buffers need huge pages.
    pub needs_huge_pages: bool,
    /// Whether it uses another traffic class than the survey.
    pub class: ClassChoice,
    /// Its name in sentences.
    pub name: &'static str,
}

/// Hops of a chain of [`TestCode::T`], as in its arguments. Each service has the triggered
/// operations for so few, also a service without limits (libcxi.md 3.3).
pub const HOPS: u16 = 12;

const NO_GAP: &str = "--latency-gap=0";
const LIST: &str = "--list-size=32";

/// Operations of a list of large writes or reads, as in `LIST`.
pub const LIST_SIZE: u16 = 32;

const SMALL: u64 = 8;

/// Bytes of a large operation.
pub const LARGE: u64 = 1 << 16;

/// What most tests of small writes have in common.
const SMALL_WRITES: TestProcedure = TestProcedure {
    code: TestCode::S,
    tool: "write-lat",
    size_bytes: SMALL,
    arguments: &[NO_GAP],
    route: TestRoute::Loopback,
    step: TestStep::First,
    repeats: None,
    needs_huge_pages: false,
    class: ClassChoice::OfSurvey,
    name: "",
};

/// What most tests of large writes have in common.
const LARGE_WRITES: TestProcedure =
    TestProcedure { tool: "write-bw", size_bytes: LARGE, arguments: &[LIST], ..SMALL_WRITES };

/// The tests, in the order in which they are measured. [`TestCode::S`] comes from the survey.
pub const TESTS: [TestProcedure; 16] = [
    TestProcedure { code: TestCode::L1, name: "small writes in loopback", ..SMALL_WRITES },
    TestProcedure {
        code: TestCode::L2,
        arguments: &[NO_GAP, "--no-idc"],
        name: "small writes in loopback, data read from memory",
        ..SMALL_WRITES
    },
    TestProcedure { code: TestCode::B1, name: "large writes in loopback", ..LARGE_WRITES },
    TestProcedure {
        code: TestCode::L3,
        arguments: &[NO_GAP, "--no-ll"],
        step: TestStep::Second,
        name: "small writes in loopback, commands read from memory",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::L4,
        tool: "read-lat",
        step: TestStep::Second,
        name: "small reads in loopback",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::L5,
        arguments: &["--latency-gap=1000"],
        step: TestStep::Second,
        name: "small writes in loopback after pauses of 1 ms",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::B3,
        tool: "read-bw",
        step: TestStep::Second,
        name: "large reads in loopback",
        ..LARGE_WRITES
    },
    TestProcedure {
        code: TestCode::B4,
        route: TestRoute::From,
        step: TestStep::Second,
        name: "large writes that it sends",
        ..LARGE_WRITES
    },
    TestProcedure {
        code: TestCode::B5,
        route: TestRoute::To,
        step: TestStep::Second,
        name: "large writes that it receives",
        ..LARGE_WRITES
    },
    TestProcedure {
        code: TestCode::P1,
        route: TestRoute::From,
        step: TestStep::Second,
        name: "small writes that it sends",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::P2,
        route: TestRoute::To,
        step: TestStep::Second,
        name: "small writes that it receives",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::H,
        arguments: &[LIST, "--use-hp=2M"],
        step: TestStep::Third,
        repeats: Some(TestCode::B1),
        needs_huge_pages: true,
        name: "large writes in loopback with huge pages",
        ..LARGE_WRITES
    },
    TestProcedure {
        code: TestCode::Q,
        step: TestStep::Third,
        repeats: Some(TestCode::B1),
        class: ClassChoice::OtherBulk,
        name: "large writes in loopback in another traffic class",
        ..LARGE_WRITES
    },
    TestProcedure {
        code: TestCode::QP,
        route: TestRoute::From,
        step: TestStep::Third,
        repeats: Some(TestCode::P1),
        class: ClassChoice::OtherFast,
        name: "small writes that it sends in another traffic class",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::T,
        tool: "trig-lat",
        arguments: &[NO_GAP, "--hops=12"],
        route: TestRoute::From,
        step: TestStep::Third,
        repeats: Some(TestCode::P1),
        name: "hops of small puts to another NIC and back, without a CPU in between",
        ..SMALL_WRITES
    },
    TestProcedure {
        code: TestCode::O,
        // Short lists: a flow over a slow link ends in time.
        arguments: &["--list-size=8", "--unrestricted"],
        route: TestRoute::From,
        step: TestStep::OfLinks,
        name: "large ordered writes between two groups, 16 flows each way",
        ..LARGE_WRITES
    },
];

/// Returns the test with this code; `None` for [`TestCode::S`].
pub fn test(code: TestCode) -> Option<&'static TestProcedure> {
    TESTS.iter().find(|test| test.code == code)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_the_number_of_hops_that_is_reckoned_with() {
        let hops = format!("--hops={HOPS}");
        assert!(test(TestCode::T).unwrap().arguments.contains(&hops.as_str()));
    }
}
