//! What was typed + tool defaults (+ the peer's wishes) -> one validated, immutable plan.
//!
//! Every rule that concerns more than one option is here. No input or output: a plan says what
//! will be done, and nothing has been opened when it stands.

use std::ffi::OsString;
use std::fmt;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use crate::atomic::{Atomic, AtomicOp};
use crate::cli::options::LIBCXI_VARIABLE;
use crate::cli::typed::Typed;
use crate::device::{DEFAULT_DEVICE, DeviceKind, DeviceName};
use crate::error::Failure;
use crate::outputs::Outputs;
use crate::tool::Tool;

/// Service that a NIC offers to everybody, unless its administrator says otherwise (libcxi.md 3.2).
pub const DEFAULT_SVC_ID: u32 = 1;

/// TCP port of the control connection (wire.md 1).
pub const DEFAULT_PORT: u16 = 49194;

/// How long an address may take to accept a connection. TCP alone would try for two minutes.
pub const DEFAULT_CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Largest size of one operation in bytes (tools.md 2.2).
pub const MAX_SIZE: u64 = u32::MAX as u64;

/// Longest pause after an iteration in microseconds: as nanoseconds it still fits 64 bits.
pub const MAX_GAP_US: u64 = u64::MAX / 1000;

/// Most iterations whose latencies can be reported one by one: 8 GB of samples.
pub const MAX_REPORT_ALL: u64 = 1_000_000_000;

/// Most operations in a list: so many commands of the largest kind fit the largest queue
/// (tools.md 2.2).
pub const MAX_LIST_SIZE: u16 = 16382;

/// Widest spacing of operations in a buffer, in bytes.
pub const MAX_ALIGNMENT: u64 = 1 << 32;

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
        /// Host name or IP address, as typed.
        address: String,
    },
    /// Starts a server of its own as a second process, and measures.
    Loopback,
}

/// One of the two processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is connected to.
    Server,
    /// The one that connects.
    Client,
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
    /// First size in bytes: 1 to [`MAX_SIZE`]. In an atomic tool both sizes are that of the type.
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
    /// The operation, in the atomic tools.
    pub atomic: Option<Atomic>,
    /// Rendezvous puts, in the send tools; never together with immediate data commands.
    pub rdzv: bool,
    /// Lists and buffers, in the bandwidth tools.
    pub bandwidth: Option<Bandwidth>,
}

/// What only bandwidth tools have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Operations per iteration: 1 to [`MAX_LIST_SIZE`].
    pub list_size: u16,
    /// Both sides initiate.
    pub bidirectional: bool,
    /// Upper limit of a buffer in bytes: at least the largest size.
    pub max_buffer: u64,
    /// Spacing of the operations of a list in a buffer, in bytes: at least 1.
    pub alignment: u64,
}

impl Bandwidth {
    /// Bytes from one operation of `size` bytes to the next in a buffer.
    pub fn step(&self, size: u64) -> u64 {
        size.next_multiple_of(self.alignment)
    }

    /// Length in bytes, before it is rounded up to pages, of a buffer for lists of up to
    /// `max_size` bytes: room for a whole list, as far as the limit allows.
    pub fn buffer(&self, max_size: u64) -> u64 {
        let whole = self.step(max_size).saturating_mul(self.list_size.into());
        whole.min(self.max_buffer)
    }
}

impl RunOptions {
    /// These options if they can be carried out, else the reason why not.
    ///
    /// Typed options and those of a client are held against the same rules (defect T27 of
    /// tools.md).
    pub fn checked(mut self) -> Result<Self, Invalid> {
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
        if let Some(atomic) = self.atomic {
            if !atomic.exists() {
                return Err(nonexistent(atomic));
            }
            self.min_size = atomic.ty.size();
            self.max_size = self.min_size;
        }
        let (min, max) = (self.min_size, self.max_size);
        let ordered = 1 <= min && min <= max && max <= MAX_SIZE;
        let doubling = min == max || (min.is_power_of_two() && max.is_power_of_two());
        if !ordered || !doubling {
            return Err(invalid("size", format!("{min}:{max}"), SIZES));
        }
        if let Some(bandwidth) = self.bandwidth {
            check_bandwidth(bandwidth, max)?;
        }
        if self.rdzv {
            self.use_idc = false;
        }
        Ok(self)
    }

    /// These options if this side can also keep the latencies that are reported one by one. Only
    /// the client keeps any.
    fn kept(self) -> Result<Self, Invalid> {
        if self.report_all && self.iters > MAX_REPORT_ALL {
            let allowed = format!("at most {MAX_REPORT_ALL} with --report-all");
            return Err(invalid("iters", self.iters, allowed));
        }
        Ok(self)
    }

    /// Lists and buffers. A plan of a bandwidth tool has them.
    pub fn lists(&self) -> Result<Bandwidth, Failure> {
        self.bandwidth
            .ok_or_else(|| Failure::environment("the run has no list size"))
    }

    /// Whether immediate data commands are used: matching entries are out of their reach
    /// (nic.md 11.6).
    pub fn idc(&self) -> Setting {
        self.unless_matching(self.use_idc)
    }

    /// Whether operations are restricted: those on matching entries are not (nic.md 11.6).
    pub fn restricted(&self) -> Setting {
        self.unless_matching(!self.unrestricted)
    }

    fn unless_matching(&self, enabled: bool) -> Setting {
        match self.atomic {
            Some(atomic) if atomic.matching => Setting::NotApplicable,
            _ => enabled.into(),
        }
    }

    /// The sizes to run, in bytes, in order: doubling from `min_size` while not above `max_size`.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let max = self.max_size;
        iter::successors(Some(self.min_size), |size| size.checked_mul(2))
            .take_while(move |size| *size <= max)
    }
}

/// What became of something that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// On.
    Enabled,
    /// Off, as asked.
    Disabled,
    /// Off, because another option excludes it.
    NotApplicable,
}

impl Setting {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Self::Enabled
    }
}

impl From<bool> for Setting {
    fn from(enabled: bool) -> Self {
        if enabled {
            Self::Enabled
        } else {
            Self::Disabled
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "Enabled",
            Self::Disabled => "Disabled",
            Self::NotApplicable => "Disabled - Not Applicable",
        })
    }
}

/// A libcxi that the user has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// The file.
    pub path: PathBuf,
    /// The option or variable that names it.
    named_by: &'static str,
}

impl LibraryFile {
    /// As the user wrote it: with the option or variable in front.
    pub fn to_os_string(&self) -> OsString {
        let mut text = OsString::from(self.named_by);
        text.push("=");
        text.push(&self.path);
        text
    }
}

/// How a server listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// Address or name of this machine to listen on; all of them where there is none.
    pub bind: Option<String>,
    /// Serves one client after another.
    pub persist: bool,
}

/// How a client reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaching {
    /// How long each address of the server may take to accept the connection.
    pub limit: Duration,
    /// How long the client goes on trying.
    pub wait: Duration,
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
    pub libcxi: Option<LibraryFile>,
    /// How a server listens.
    pub listening: Listening,
    /// How a client reaches its server.
    pub reaching: Reaching,
    /// What the client decides. In a server these are the tool's defaults until the client has
    /// said what it wants.
    pub run: RunOptions,
    /// What is made of the results; nothing in a server.
    pub outputs: Outputs,
    /// Options of a client that a server was given: long names, in the order of the help text.
    pub ignored: Vec<&'static str>,
}

impl Plan {
    /// The plan for what was typed; `libcxi` is the library named by the environment.
    pub fn new(
        tool: &'static Tool,
        program: String,
        mut typed: Typed,
        libcxi: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let role = match (typed.address.take(), typed.loopback) {
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
        if let Some(option) = typed.misplaced(&role) {
            return Err(Failure::usage(option));
        }
        let device = typed.device.unwrap_or(DEFAULT_DEVICE);
        if let (Some(path), DeviceKind::Software) = (&typed.libcxi, device.kind) {
            return Err(Failure::usage(format!(
                "--libcxi={} is of no use: {device} is the built-in software NIC, only cxiN devices need a library",
                path.display()
            )));
        }
        let (run, outputs, ignored) = match role {
            Role::Server => (tool.defaults, Outputs::default(), typed.run_given),
            _ => {
                let run = typed.run.checked().and_then(RunOptions::kept);
                let run = run.map_err(Failure::usage)?;
                let outputs = typed.outputs.checked(tool).map_err(Failure::usage)?;
                (run, outputs, Vec::new())
            }
        };
        let seconds = |typed: Option<u32>, default| {
            typed.map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        let library = |path, named_by| LibraryFile { path, named_by };
        Ok(Self {
            tool,
            program,
            role,
            device,
            svc_id: typed.svc_id.unwrap_or(DEFAULT_SVC_ID),
            port,
            libcxi: match typed.libcxi {
                Some(path) => Some(library(path, "--libcxi")),
                None => libcxi.map(|path| library(path, LIBCXI_VARIABLE)),
            },
            listening: Listening {
                bind: typed.bind,
                persist: typed.persist,
            },
            reaching: Reaching {
                limit: seconds(typed.connect_timeout, DEFAULT_CONNECT_LIMIT),
                wait: seconds(typed.wait, Duration::ZERO),
            },
            run,
            outputs,
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
        // The environment is the server's, too.
        if let (Some(library), DeviceKind::Hardware) = (&self.libcxi, self.device.kind)
            && library.named_by != LIBCXI_VARIABLE
        {
            arguments.push(library.to_os_string());
        }
        arguments
    }
}

fn check_bandwidth(bandwidth: Bandwidth, max_size: u64) -> Result<(), Invalid> {
    let Bandwidth {
        list_size,
        max_buffer,
        alignment,
        ..
    } = bandwidth;
    if !(1..=MAX_LIST_SIZE).contains(&list_size) {
        return Err(invalid(
            "list-size",
            list_size,
            format!("1 to {MAX_LIST_SIZE}"),
        ));
    }
    if !(1..=MAX_ALIGNMENT).contains(&alignment) {
        return Err(invalid(
            "buf-align",
            alignment,
            format!("1 to {MAX_ALIGNMENT} bytes"),
        ));
    }
    if max_buffer < max_size {
        let allowed = format!("at least the largest size, {max_size} bytes");
        return Err(invalid("buf-sz", max_buffer, allowed));
    }
    Ok(())
}

/// Operation and type that do not go together.
fn nonexistent(atomic: Atomic) -> Invalid {
    let (long, value) = match atomic.op {
        AtomicOp::Cswap => ("cswap-op", atomic.cswap.to_string()),
        op => ("atomic-op", op.to_string()),
    };
    let ty = atomic.ty;
    invalid(
        long,
        value,
        format!("with {ty} only {} exist", ty.operations()),
    )
}

/// A value that an option does not take, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    option: &'static str,
    value: String,
    allowed: String,
}

impl Invalid {
    /// The same of a value that nobody typed here: the other side has sent it.
    pub fn as_heard(&self) -> String {
        let Self {
            option,
            value,
            allowed,
        } = self;
        format!("{option} {value}: {allowed}")
    }
}

/// What the user is told who has typed it.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            option,
            value,
            allowed,
        } = self;
        write!(f, "invalid value '{value}' for --{option}: {allowed}")
    }
}

impl From<Invalid> for String {
    fn from(invalid: Invalid) -> Self {
        invalid.to_string()
    }
}

/// `value` is none for the option with this long name.
pub fn invalid(
    option: &'static str,
    value: impl fmt::Display,
    allowed: impl fmt::Display,
) -> Invalid {
    Invalid {
        option,
        value: value.to_string(),
        allowed: allowed.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bench::TOOLS;
    use crate::cli::{self, Request};

    fn planned(arguments: &[&str]) -> Result<Plan, Failure> {
        let tool = &TOOLS[0];
        let arguments = arguments.iter().map(OsString::from).collect();
        let Request::Run(typed) = cli::parse(tool, arguments)? else {
            panic!("a run was asked for");
        };
        Plan::new(tool, format!("cxidiag {}", tool.name), *typed, None)
    }

    fn refusal(arguments: &[&str]) -> String {
        planned(arguments).unwrap_err().message
    }

    #[test]
    fn who_is_who() {
        assert_eq!(planned(&[]).unwrap().role, Role::Server);
        assert_eq!(planned(&["--loopback"]).unwrap().role, Role::Loopback);
        let client = Role::Client {
            address: "cxi-nid0".into(),
        };
        assert_eq!(planned(&["cxi-nid0"]).unwrap().role, client);
        assert!(refusal(&["cxi-nid0", "--loopback"]).contains("'cxi-nid0'"));
    }

    #[test]
    fn defaults() {
        let plan = planned(&["h"]).unwrap();
        assert_eq!(plan.device.to_string(), "cxi0");
        assert_eq!((plan.svc_id, plan.port), (1, 49194));
        assert_eq!(plan.run, plan.tool.defaults);
        assert_eq!(plan.libcxi, None);
    }

    #[test]
    fn port_0_is_for_servers() {
        assert_eq!(planned(&["-p", "0"]).unwrap().port, 0);
        assert_eq!(planned(&["--loopback"]).unwrap().port, 0);
        assert!(refusal(&["h", "-p", "0"]).contains("'0' for --port"));
    }

    #[test]
    fn a_server_ignores_run_options_and_names_them() {
        let plan = planned(&["-d", "soft0", "--report-all", "-s", "1:64", "-n", "7"]).unwrap();
        assert_eq!(plan.run, plan.tool.defaults);
        let note = "ignored on a server, the client decides: --iters --size --report-all";
        assert_eq!(plan.note().as_deref(), Some(note));
        assert_eq!(
            planned(&["-d", "soft0", "-p", "5000"]).unwrap().note(),
            None
        );
        assert_eq!(planned(&["h", "-n", "7"]).unwrap().note(), None);
    }

    #[test]
    fn t8_a_duration_reports_no_single_latencies() {
        let run = planned(&["h", "-D", "1", "--report-all"]).unwrap().run;
        assert_eq!((run.duration_s, run.report_all), (Some(1), false));
        assert!(
            planned(&["h", "-n", "5", "--report-all"])
                .unwrap()
                .run
                .report_all
        );
    }

    #[test]
    fn t32_no_more_latencies_than_can_be_kept() {
        assert!(planned(&["h", "-n", "1000000000", "--report-all"]).is_ok());
        for iters in ["1000000001", "18446744073709551615"] {
            let message = refusal(&["h", "-n", iters, "--report-all"]);
            assert!(
                message.contains(iters) && message.contains("1000000000"),
                "{message}"
            );
            assert!(planned(&["h", "-n", iters]).is_ok());
            assert!(planned(&["h", "-n", iters, "--report-all", "-D", "1"]).is_ok());
        }
    }

    /// Nobody else keeps latencies: a server may be asked for more by a client that has room for them.
    #[test]
    fn t32_only_the_one_who_keeps_latencies_is_limited() {
        let wanted = RunOptions {
            iters: MAX_REPORT_ALL + 1,
            report_all: true,
            ..TOOLS[0].defaults
        };
        assert!(wanted.checked().is_ok());
        assert!(wanted.kept().is_err());
    }

    #[test]
    fn options_of_the_other_side_are_refused() {
        for (arguments, word) in [
            (&["h", "--bind=::1"][..], "--bind"),
            (&["h", "--persist"], "--persist"),
            (&["--loopback", "--persist"], "--persist"),
            (&["--wait=1"], "--wait"),
            (&["--connect-timeout=1"], "--connect-timeout"),
            (&["--loopback", "--wait=1"], "--wait"),
        ] {
            let message = refusal(&[&["-d", "soft0"], arguments].concat());
            assert!(message.starts_with(word), "{message}");
        }
        let server = planned(&["--bind=::1", "--persist"]).unwrap();
        assert_eq!(server.listening.bind.as_deref(), Some("::1"));
        assert!(server.listening.persist);
        let client = planned(&["h", "--wait=7", "--connect-timeout=3"]).unwrap();
        let [limit, wait] = [3, 7].map(Duration::from_secs);
        assert_eq!(client.reaching, Reaching { limit, wait });
    }

    #[test]
    fn a_library_is_for_hardware() {
        let tool = &TOOLS[0];
        let named = |device: &str, typed: Option<&str>| {
            let mut all = Typed::nothing(tool.defaults);
            all.device = device.parse().ok();
            all.libcxi = typed.map(PathBuf::from);
            Plan::new(tool, String::new(), all, Some("/of/environment".into()))
        };
        let written = |plan: Plan| plan.libcxi.map(|library| library.to_os_string());
        assert_eq!(
            written(named("cxi0", None).unwrap()),
            Some("CXIDIAG_LIBCXI=/of/environment".into())
        );
        assert_eq!(
            written(named("cxi0", Some("/typed")).unwrap()),
            Some("--libcxi=/typed".into())
        );
        assert!(named("soft0", None).is_ok());
        let message = named("soft0", Some("/typed")).unwrap_err().message;
        assert!(
            message.contains("/typed") && message.contains("soft0"),
            "{message}"
        );
    }

    #[test]
    fn sizes_double() {
        let sizes = |text| {
            planned(&["h", "-s", text])
                .unwrap()
                .run
                .sizes()
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes("7"), [7]);
        assert_eq!(sizes("1:8"), [1, 2, 4, 8]);
        assert_eq!(sizes("4294967295"), [4294967295]);
        assert_eq!(sizes("1:2147483648").len(), 32);
    }

    #[test]
    fn the_server_of_a_loopback_run_gets_this_process_part_of_the_options() {
        let typed = [
            "--loopback",
            "-d",
            "cxi3",
            "-v",
            "7",
            "--libcxi",
            "/a b",
            "-n",
            "9",
        ];
        let plan = planned(&typed).unwrap();
        let arguments = plan.server_arguments();
        assert_eq!(arguments[0], plan.tool.name);
        let words: Vec<&str> = arguments[1..]
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect();
        let server = planned(&words).unwrap();
        assert_eq!(server.role, Role::Server);
        assert_eq!(
            (server.device, server.svc_id, server.port),
            (plan.device, 7, 0)
        );
        assert_eq!(server.libcxi, plan.libcxi);
        assert_eq!(server.note(), None);
    }

    proptest! {
        #[test]
        fn checked_options_can_be_carried_out(
            iters in prop_oneof![Just(0), Just(5), any::<u64>()],
            duration_s in prop::option::of(0_u32..3),
            gap_us: u64,
            min_size in prop_oneof![(0_u32..33).prop_map(|power| 1_u64 << power), any::<u64>(), Just(0)],
            max_size in prop_oneof![(0_u32..33).prop_map(|power| 1_u64 << power), any::<u64>(), Just(7)],
            report_all: bool,
        ) {
            let wanted = RunOptions {
                iters, duration_s, gap_us, min_size, max_size, report_all, ..TOOLS[0].defaults
            };
            if let Ok(run) = wanted.checked() {
                prop_assert!(run.duration_s.is_some_and(|seconds| seconds > 0) || run.iters > 0);
                prop_assert!(run.gap_us.checked_mul(1000).is_some());
                let sizes: Vec<u64> = run.sizes().collect();
                prop_assert_eq!(sizes[0], min_size);
                prop_assert!(sizes.iter().all(|size| (1..=MAX_SIZE).contains(size)));
                prop_assert_eq!(*sizes.last().unwrap(), max_size);
            }
        }
    }
}
