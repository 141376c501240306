//! A tool as plain data: names, texts, options, defaults. Each benchmark owns one.

use crate::run_options::{RunOptions, Side};
use facts::bandwidth_unit::BandwidthUnit;

/// The definition of a tool, without its measurement.
#[derive(Debug)]
pub struct Tool {
    /// Name as a subcommand of `cxidiag`: `write-lat`.
    pub name: &'static str,
    /// Name of the legacy program: `cxi_write_lat`. Also the program name on the control
    /// connection (wire.md 4.1).
    pub legacy_name: &'static str,
    /// Version announced on the control connection (wire.md 4.1): `2.4.0`.
    pub wire_version: &'static str,
    /// First line of the summary block: `CXI RDMA Write Latency Test`.
    pub title: &'static str,
    /// Description of the measurement, in one line.
    pub about: &'static str,
    /// Name of one operation: `Write`.
    pub operation: &'static str,
    /// Plural of that name, the title of the second column: `Writes`.
    pub operations: &'static str,
    /// Title of the first column, which has the width of this title: `RDMA Size[B]`.
    pub size_column: &'static str,
    pub defaults: RunOptions,
    /// The full data buffers that each side holds.
    pub buffers: FullBuffers,
}

impl Tool {
    /// Whether the tool measures between two processes. Otherwise one process is both sides,
    /// without a control connection.
    pub fn has_peer(&self) -> bool {
        self.buffers != FullBuffers::OneProcess
    }

    /// The title of the column with the rate of packets, in millions per second.
    pub fn rate_column(&self) -> &'static str {
        if self.measures_atomic_rate() { "OpRate[M/s]" } else { "PktRate[Mpkt/s]" }
    }

    /// The default unit of bandwidths in the text.
    pub fn unit(&self) -> BandwidthUnit {
        if self.has_peer() { BandwidthUnit::default() } else { BandwidthUnit::Gigabits }
    }

    /// The width of the labels of the summary (tools.md 9.1).
    pub fn label_width(&self) -> usize {
        if self.measures_atomic_rate() { 16 } else { 17 }
    }

    fn measures_atomic_rate(&self) -> bool {
        self.measures_bandwidth() && !self.has_data()
    }

    /// Whether the server issues operations in `run`: lists, replies to messages, or the gets of
    /// rendezvous.
    pub fn server_issues(&self, run: &RunOptions) -> bool {
        let replies = self.buffers == FullBuffers::Both;
        let lists = self.measures_bandwidth() && run.issues(Side::Server);
        replies || lists || run.rdzv
    }

    /// Whether the tool measures bandwidth. Other tools measure latency.
    pub fn measures_bandwidth(&self) -> bool {
        self.defaults.lists.is_some()
    }

    /// Whether operations have data of a size that is chosen. The types of atomic operations have
    /// sizes of their own.
    pub fn has_data(&self) -> bool {
        self.defaults.atomic.is_none()
    }

    /// Whether operations are messages.
    pub fn sends(&self) -> bool {
        self.operation == "Send"
    }

    /// Whether operations address memory of the other side.
    pub fn is_one_sided(&self) -> bool {
        self.has_peer() && !self.sends()
    }

    /// Whether operations are chains of triggered puts.
    pub fn has_chains(&self) -> bool {
        self.defaults.extensions.hops > 0
    }
}

/// The sides of a run that hold full data buffers, of the largest size or a whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullBuffers {
    /// None: all operations are small.
    None,
    /// The client one for the operations that it issues, the server one as their target.
    OneEach,
    /// Each side one of both kinds.
    Both,
    /// As [`Self::OneEach`] in one direction, as [`Self::Both`] in a bidirectional run.
    ByDirection,
    /// As [`Self::OneEach`], in one process that is both sides.
    OneProcess,
}

/// The full data buffers of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The buffer that its own operations read from or write to.
    pub initiator: bool,
    /// The buffer that the operations of the peer read from or write to.
    pub target: bool,
}

impl FullBuffers {
    /// The full buffers that `side` holds in `run`.
    pub fn held(self, run: &RunOptions, side: Side) -> Held {
        let one = Held { initiator: side == Side::Client, target: side == Side::Server };
        let both = Held { initiator: true, target: true };
        match self {
            Self::None => Held { initiator: false, target: false },
            Self::OneEach | Self::OneProcess => one,
            Self::Both => both,
            Self::ByDirection => Held { initiator: run.issues(side), target: run.is_target(side) },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plan;

    #[test]
    fn server_issues_replies_lists_and_gets() {
        for (tool, options, expected) in [
            ("send-lat", &[][..], true),
            ("write-lat", &[], false),
            ("atomic-lat", &[], false),
            ("read-bw", &[], false),
            ("write-bw", &["-b"], true),
            ("atomic-bw", &["--reverse"], true),
            ("send-bw", &[], false),
            ("send-bw", &["--rdzv"], true),
        ] {
            let plan = plan(tool, options);
            assert_eq!(plan.tool.server_issues(&plan.run), expected, "{tool} {options:?}");
        }
    }
}
