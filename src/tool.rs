//! What a tool is: the type of the entries of the registry `bench::TOOLS`.
//!
//! A room of its own because dispatch, options, plan, session and report all read it, while
//! only `bench` may know which tools there are.

use crate::cli::options::OptionDef;
use crate::error::Failure;
use crate::plan::{Plan, RunOptions};
use crate::report::Reporter;

/// One benchmark, as the rest of the program sees it.
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
    /// What it measures, in one line.
    pub about: &'static str,
    /// What one operation is called: `Write`.
    pub operation: &'static str,
    /// What several are called, the title of the second column: `Writes`.
    pub operations: &'static str,
    /// Title of the first column, which is as wide as this: `RDMA Size[B]`.
    pub size_column: &'static str,
    /// Its options, in the order of the help text.
    pub options: &'static [&'static OptionDef],
    /// Run options where the user asks for nothing else.
    pub defaults: RunOptions,
    /// Carries a plan out, and tells what it finds out.
    pub run: fn(&Plan, &mut Reporter) -> Result<(), Failure>,
}

impl Tool {
    /// Whether it takes this option.
    pub fn takes(&self, option: &OptionDef) -> bool {
        self.options.iter().any(|own| own.long == option.long)
    }
}
