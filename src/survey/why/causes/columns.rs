//! The columns of the matrix of causes and tests (diagnosis.md 5): the figure of a test, or how
//! much longer one test takes than another.

use crate::causes::procedure::{TestCode, test};

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
}
