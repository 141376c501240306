//! What was typed + tool defaults (+ the peer's wishes) -> one validated, immutable plan.
//!
//! Every rule that concerns more than one option is here. No input or output: a plan says what
//! will be done, and nothing has been opened when it stands.

use std::ffi::OsString;
use std::iter;
use std::path::PathBuf;

use crate::cli::typed::Typed;
use crate::device::{DEFAULT_DEVICE, DeviceKind, DeviceName};
use crate::error::Failure;
use crate::tool::Tool;

/// Service that a NIC offers to everybody, unless its administrator says otherwise (libcxi.md 3.2).
pub const DEFAULT_SVC_ID: u32 = 1;

/// TCP port of the control connection (wire.md 1).
pub const DEFAULT_PORT: u16 = 49194;

/// Largest size of one operation in bytes (tools.md 2.2).
pub const MAX_SIZE: u64 = u32::MAX as u64;

/// Longest pause after an iteration in microseconds: as nanoseconds it still fits 64 bits.
pub const MAX_GAP_US: u64 = u64::MAX / 1000;

/// Most iterations whose latencies can be reported one by one: 8 GB of samples.
pub const MAX_REPORT_ALL: u64 = 1_000_000_000;

/// What a size may be, for messages.
pub const SIZES: &str =
    "expected MIN or MIN:MAX in bytes, 1 to 4294967295, MIN <= MAX, both powers of 2 in a range";

/// Which part this process plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a client and is its target.
    Server,
    /// Connects to the server at this address and measures.
    Client {
        /// Host name or IPv4 address, as typed.
        address: String,
    },
    /// Starts a server of its own as a second process, and measures.
    Loopback,
}

/// What the client decides for both sides (tools.md 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Measured iterations per size, where no duration is set: at least 1.
    pub iters: u64,
    /// Seconds per size, at least 1; takes the place of `iters`.
    pub duration_s: Option<u32>,
    /// Unmeasured iterations before each size.
    pub warmup: u64,
    /// Pause after each iteration in microseconds: 0 to [`MAX_GAP_US`].
    pub gap_us: u64,
    /// First size in bytes: 1 to [`MAX_SIZE`].
    pub min_size: u64,
    /// Upper end of the sizes in bytes: `min_size` to [`MAX_SIZE`].
    pub max_size: u64,
    /// Unrestricted (ordered) operations.
    pub unrestricted: bool,
    /// Immediate data commands for the sizes that fit one.
    pub use_idc: bool,
    /// Low-latency command issue, where the command fits it.
    pub use_ll: bool,
    /// Every latency is reported; never together with a duration (defect T8 of tools.md).
    pub report_all: bool,
}

impl RunOptions {
    /// These options if they can be carried out, else the reason why not.
    ///
    /// Typed options and those of a client are held against the same rules (defect T27 of
    /// tools.md).
    pub fn checked(mut self) -> Result<Self, String> {
        if self.duration_s.is_some() {
            self.report_all = false;
        } else if self.iters == 0 {
            return Err(invalid("iters", "0", "at least 1 without --duration"));
        }
        if self.duration_s == Some(0) {
            return Err(invalid("duration", "0", "at least 1 second"));
        }
        if self.gap_us > MAX_GAP_US {
            return Err(invalid(
                "latency-gap",
                self.gap_us,
                format!("at most {MAX_GAP_US} microseconds"),
            ));
        }
        let (min, max) = (self.min_size, self.max_size);
        let ordered = 1 <= min && min <= max && max <= MAX_SIZE;
        let doubling = min == max || (min.is_power_of_two() && max.is_power_of_two());
        if !ordered || !doubling {
            return Err(invalid("size", format!("{min}:{max}"), SIZES));
        }
        if self.report_all && self.iters > MAX_REPORT_ALL {
            return Err(format!(
                "--report-all cannot keep {} latencies: at most {MAX_REPORT_ALL} with --iters",
                self.iters
            ));
        }
        Ok(self)
    }

    /// The sizes to run, in bytes, in order: doubling from `min_size` while not above `max_size`.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let max = self.max_size;
        iter::successors(Some(self.min_size), |size| size.checked_mul(2))
            .take_while(move |size| *size <= max)
    }
}

/// What this process will do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The benchmark.
    pub tool: &'static Tool,
    /// What the user started, for messages: `cxidiag write-lat` or `cxi_write_lat`.
    pub program: String,
    /// Server, client or both.
    pub role: Role,
    /// The NIC.
    pub device: DeviceName,
    /// CXI service: 1 to 2^31 - 1.
    pub svc_id: u32,
    /// TCP port to listen on (0: any free one) or to connect to.
    pub port: u16,
    /// Library to load for a hardware device, where not the system's `libcxi.so.1`.
    pub libcxi: Option<PathBuf>,
    /// What the client decides. In a server these are the tool's defaults until the client has
    /// said what it wants.
    pub run: RunOptions,
    /// Run options that a server was given: long names, in the order of the help text.
    pub ignored: Vec<&'static str>,
}

impl Plan {
    /// The plan for what was typed; `libcxi` is the library named by the environment.
    pub fn new(
        tool: &'static Tool,
        program: String,
        typed: Typed,
        libcxi: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let role = match (typed.address, typed.loopback) {
            (None, false) => Role::Server,
            (Some(address), false) => Role::Client { address },
            (None, true) => Role::Loopback,
            (Some(address), true) => {
                return Err(Failure::usage(format!(
                    "--loopback starts its own server: leave out the address '{address}'"
                )));
            }
        };
        // A server of our own listens wherever there is room.
        let default_port = if role == Role::Loopback {
            0
        } else {
            DEFAULT_PORT
        };
        let port = typed.port.unwrap_or(default_port);
        if port == 0 && matches!(role, Role::Client { .. }) {
            let allowed = "a client needs the port of its server, 1 to 65535";
            return Err(Failure::usage(invalid("port", "0", allowed)));
        }
        let device = typed.device.unwrap_or(DEFAULT_DEVICE);
        if let (Some(path), DeviceKind::Software) = (&typed.libcxi, device.kind) {
            return Err(Failure::usage(format!(
                "--libcxi={} is of no use: {device} is the built-in software NIC, only cxiN devices need a library",
                path.display()
            )));
        }
        let (run, ignored) = match role {
            Role::Server => (tool.defaults, typed.run_given),
            _ => (typed.run.checked().map_err(Failure::usage)?, Vec::new()),
        };
        Ok(Self {
            tool,
            program,
            role,
            device,
            svc_id: typed.svc_id.unwrap_or(DEFAULT_SVC_ID),
            port,
            libcxi: typed.libcxi.or(libcxi),
            run,
            ignored,
        })
    }

    /// One line about the options that are without effect, if there are any.
    pub fn note(&self) -> Option<String> {
        if self.ignored.is_empty() {
            return None;
        }
        let options: Vec<String> = self
            .ignored
            .iter()
            .map(|long| format!("--{long}"))
            .collect();
        Some(format!(
            "ignored on a server, the client decides: {}",
            options.join(" ")
        ))
    }

    /// Arguments (after the program name `cxidiag`) that start the server for a loopback run.
    pub fn server_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            self.tool.name.into(),
            format!("--device={}", self.device).into(),
            format!("--svc-id={}", self.svc_id).into(),
            format!("--port={}", self.port).into(),
        ];
        if let (Some(path), DeviceKind::Hardware) = (&self.libcxi, self.device.kind) {
            let mut argument = OsString::from("--libcxi=");
            argument.push(path);
            arguments.push(argument);
        }
        arguments
    }
}

/// The sentence for a value that an option does not take.
pub fn invalid(
    long: &str,
    value: impl std::fmt::Display,
    allowed: impl std::fmt::Display,
) -> String {
    format!("invalid value '{value}' for --{long}: {allowed}")
}
