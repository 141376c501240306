//! The columns of the matrix of causes and tests (diagnosis.md 5): the figure of a test, or how
//! much longer one test takes than another.

use crate::procedure::{TestCode, test};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// The test of the survey.
    Survey,
    /// Latency of small writes in loopback.
    Write,
    /// 99th percentile of the latency of small writes in loopback.
    Tail,
    /// Latency of small writes in loopback by a process that waited for its CPU.
    Waiting,
    /// How much longer a write takes whose data the NIC reads from memory.
    HostRead,
    /// How much longer a write takes whose command the NIC reads from memory.
    CommandRead,
    /// How much longer a write takes after a pause of 1 ms.
    Pause,
    /// Latency of small reads in loopback.
    Read,
    /// Bandwidth of writes in loopback.
    WriteBandwidth,
    /// Bandwidth of reads in loopback.
    ReadBandwidth,
    /// Bandwidth of writes that the culprit sends.
    Sent,
    /// Bandwidth of writes that the culprit receives.
    Received,
    /// Latency of writes that the culprit sends.
    WriteTo,
    /// Latency of writes that the culprit receives.
    WriteFrom,
    /// Bandwidth of copies of the memory of the node.
    Memory,
    /// Bandwidth of writes in loopback with huge pages.
    HugePages,
    /// Bandwidth of writes in loopback in another traffic class.
    OtherClass,
    /// Latency of writes that the culprit sends in another traffic class.
    WriteToInOtherClass,
    /// Latency of a hop between the culprit and another NIC, without a CPU.
    Hop,
    /// Bandwidth of the fast ones of ordered flows between two groups: of all, unless they fall
    /// into two heaps.
    FastFlows,
    /// Bandwidth of the slow ones.
    SlowFlows,
}

impl Column {
    pub const ALL: [Self; 21] = [
        Self::Survey,
        Self::Write,
        Self::Tail,
        Self::Waiting,
        Self::HostRead,
        Self::CommandRead,
        Self::Pause,
        Self::Read,
        Self::WriteBandwidth,
        Self::ReadBandwidth,
        Self::Sent,
        Self::Received,
        Self::WriteTo,
        Self::WriteFrom,
        Self::Memory,
        Self::HugePages,
        Self::OtherClass,
        Self::WriteToInOtherClass,
        Self::Hop,
        Self::FastFlows,
        Self::SlowFlows,
    ];

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

    /// Returns the column whose test it repeats in another way, if it does.
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

    /// Returns its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Survey => "the test of the survey",
            Self::Write => "small writes in loopback",
            Self::Tail => "p99 of small writes in loopback",
            Self::Waiting => "small writes in loopback while waiting for a CPU",
            Self::HostRead => "reading the data of a write from memory",
            Self::CommandRead => "reading a command from memory",
            Self::Pause => "a pause of 1 ms before a write",
            Self::Read => "small reads in loopback",
            Self::WriteBandwidth => "large writes in loopback",
            Self::ReadBandwidth => "large reads in loopback",
            Self::Sent => "large writes sent",
            Self::Received => "large writes received",
            Self::WriteTo => "small writes sent",
            Self::WriteFrom => "small writes received",
            Self::Memory => "copies of memory",
            Self::HugePages => "large writes in loopback with huge pages",
            Self::OtherClass => "large writes in loopback in another traffic class",
            Self::WriteToInOtherClass => "small writes sent in another traffic class",
            Self::Hop => "hops without a CPU",
            Self::FastFlows => "fast ordered flows",
            Self::SlowFlows => "slow ordered flows",
        }
    }
}
