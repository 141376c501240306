//! What was typed, read but not yet judged as a whole.

use std::path::PathBuf;

use crate::device::DeviceName;
use crate::outputs::Outputs;
use crate::plan::RunOptions;

/// The command line of one tool, option by option.
#[derive(Clone, Debug)]
pub struct Typed {
    /// ADDR: the server to connect to.
    pub address: Option<String>,
    /// `--loopback`.
    pub loopback: bool,
    /// `--device`.
    pub device: Option<DeviceName>,
    /// `--svc-id`.
    pub svc_id: Option<u32>,
    /// `--port`.
    pub port: Option<u16>,
    /// `--libcxi`.
    pub libcxi: Option<PathBuf>,
    /// The tool's defaults, changed by what was typed.
    pub run: RunOptions,
    /// What is made of the results.
    pub outputs: Outputs,
    /// Long names of the options that were typed and are a client's, in the order of the help text.
    pub run_given: Vec<&'static str>,
}

impl Typed {
    /// Nothing typed at all.
    pub fn nothing(defaults: RunOptions) -> Self {
        Self {
            address: None,
            loopback: false,
            device: None,
            svc_id: None,
            port: None,
            libcxi: None,
            run: defaults,
            outputs: Outputs::default(),
            run_given: Vec::new(),
        }
    }
}
