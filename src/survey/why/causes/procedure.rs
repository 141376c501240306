//! The tests of a diagnosis (diagnosis.md 1), how the members of a survey measure them, and the
//! columns that they fill in the matrix of causes and tests (diagnosis.md 5). Each test measures
//! the culprit and good NICs in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use campaign::quiet::findings::Test;
use campaign::quiet::roster::{NicId, Roster, TestId};
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

/// The test with this code; `None` for [`TestCode::S`].
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
    /// The tests of a survey, and its `own` tests. A NIC is measured for the time `pair`. `planted`
    /// are the names of the software NICs to which the user has given links of their own.
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

    /// The place of a test of the diagnosis.
    pub fn place(&self, code: TestCode) -> TestId {
        self.places[&code]
    }

    /// Whether hops show the NIC and its link rather than its CPUs.
    pub fn has_hops(&self, roster: &Roster, nic: NicId) -> bool {
        !roster.runs_on_cpus(nic) || self.planted.contains(&roster.nic(nic).device)
    }

    /// Whether a test measures a bandwidth.
    pub fn is_of_bandwidth(&self, test: TestId) -> bool {
        self.course.tests[test.index()].of_bandwidth
    }
}

facts::named_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Column {
        /// The test of the survey.
        Survey = "the test of the survey",
        /// Latency of small writes in loopback.
        Write = "small writes in loopback",
        /// 99th percentile of the latency of small writes in loopback.
        Tail = "p99 of small writes in loopback",
        /// Latency of small writes in loopback by a process that waited for its CPU.
        Waiting = "small writes in loopback while waiting for a CPU",
        /// How much longer a write takes whose data the NIC reads from memory.
        HostRead = "reading the data of a write from memory",
        /// How much longer a write takes whose command the NIC reads from memory.
        CommandRead = "reading a command from memory",
        /// How much longer a write takes after a pause of 1 ms.
        Pause = "a pause of 1 ms before a write",
        /// Latency of small reads in loopback.
        Read = "small reads in loopback",
        /// Bandwidth of writes in loopback.
        WriteBandwidth = "large writes in loopback",
        /// Bandwidth of reads in loopback.
        ReadBandwidth = "large reads in loopback",
        /// Bandwidth of writes that the culprit sends.
        Sent = "large writes sent",
        /// Bandwidth of writes that the culprit receives.
        Received = "large writes received",
        /// Latency of writes that the culprit sends.
        WriteTo = "small writes sent",
        /// Latency of writes that the culprit receives.
        WriteFrom = "small writes received",
        /// Bandwidth of copies of the memory of the node.
        Memory = "copies of memory",
        /// Bandwidth of writes in loopback with huge pages.
        HugePages = "large writes in loopback with huge pages",
        /// Bandwidth of writes in loopback in another traffic class.
        OtherClass = "large writes in loopback in another traffic class",
        /// Latency of writes that the culprit sends in another traffic class.
        WriteToInOtherClass = "small writes sent in another traffic class",
        /// Latency of a hop between the culprit and another NIC, without a CPU.
        Hop = "hops without a CPU",
        /// Bandwidth of the fast ones of ordered flows between two groups: of all, unless they fall
        /// into two heaps.
        FastFlows = "fast ordered flows",
        /// Bandwidth of the slow ones.
        SlowFlows = "slow ordered flows",
    }
    /// Its name in sentences.
    pub fn name(self);
}

impl Column {
    /// Returns its test, and the test whose latency is subtracted.
    pub fn tests(self) -> (TestCode, Option<TestCode>) {
        match self {
            Self::Survey => (TestCode::S, None),
            Self::Write | Self::Tail | Self::Waiting => (TestCode::L1, None),
            Self::HostRead => (TestCode::L2, Some(TestCode::L1)),
            Self::CommandRead => (TestCode::L3, Some(TestCode::L1)),
            Self::Pause => (TestCode::L5, Some(TestCode::L1)),
            Self::Read => (TestCode::L4, None),
            Self::WriteBandwidth => (TestCode::B1, None),
            Self::ReadBandwidth => (TestCode::B3, None),
            Self::Sent => (TestCode::B4, None),
            Self::Received => (TestCode::B5, None),
            Self::WriteTo => (TestCode::P1, None),
            Self::WriteFrom => (TestCode::P2, None),
            Self::Memory => (TestCode::M, None),
            Self::HugePages => (TestCode::H, None),
            Self::OtherClass => (TestCode::Q, None),
            Self::WriteToInOtherClass => (TestCode::QP, None),
            Self::Hop => (TestCode::T, None),
            Self::FastFlows | Self::SlowFlows => (TestCode::O, None),
        }
    }

    /// The column whose test it repeats in another way, if it does.
    pub fn repeats(self) -> Option<Self> {
        let base = test(self.tests().0)?.repeats?;
        Self::ALL.into_iter().find(|column: &Self| column.tests() == (base, None))
    }

    /// Returns its code in documents: `L1`, `L2-L1`.
    pub fn code(self) -> String {
        match (self, self.tests()) {
            (Self::Tail, (test, _)) => format!("{test:?} p99"),
            (Self::Waiting, (test, _)) => format!("{test:?} waiting"),
            (Self::FastFlows, (test, _)) => format!("{test:?} fast"),
            (Self::SlowFlows, (test, _)) => format!("{test:?} slow"),
            (_, (test, None)) => format!("{test:?}"),
            (_, (test, Some(other))) => format!("{test:?}-{other:?}"),
        }
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
