//! Typed options + tool defaults -> one validated, immutable plan.
//!
//! All rules that concern more than one option are here. No input or output: a plan is complete
//! before anything is opened.
//!
//! <!-- From tests/tidy/houses.rs: src/plan -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  9 | command_line   arguments of tools -> what was typed; help                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | options        the options of tools, each declared once                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | lib            options and defaults -> one valid, immutable `Plan`                        |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | typed          the parsed command line; typed options without effect                      |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | role           the role of a process, and how it meets its peer                           |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | buffers        the data buffers of a run: number, lengths, pages                          |
//!    | outputs        the outputs beside the text: formats, files                                |
//!    | tools          the registry of the tools                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | tool           a tool as plain data                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | run_options    the options on which both sides agree                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | extensions     the options of a run that legacy tools lack                                |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | depths         what stands before the entry or message that matches                       |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod buffers;
pub mod command_line;
pub mod depths;
pub mod extensions;
pub mod options;
pub mod outputs;
mod role;
pub mod run_options;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tool;
pub mod tools;
pub mod typed;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use facts::device::{DEFAULT_DEVICE, DeviceName, LIBCXI_VARIABLE, LibraryFile};
use facts::error::{Failure, invalid};
use measure::{ClockChoice, Until};
use node::gpu::OnGpus;
use node::machine::placement::{Cpus, Placement};
use node::service::{ServiceOptions, ServiceRequest};
use outputs::Outputs;
pub use role::{Admission, DEFAULT_UNTIL_DURATION, Listening, Reaching, Role};
use run_options::RunOptions;
use tool::Tool;
use typed::{Every, Ineffective, PeerDevice, Typed};

/// TCP port of the control connection (wire.md 1).
pub const DEFAULT_PORT: u16 = 49194;

/// How long a server in a batch job waits for a client by default: it holds the nodes of the job.
pub const LIMIT_IN_A_JOB: Duration = Duration::from_secs(300);

/// The place of an endpoint: device, service, CPUs, GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The NIC.
    pub device: DeviceName,
    /// The chosen service, VNI and traffic class.
    pub service: &'a ServiceRequest,
    /// The CPUs that the user has requested.
    pub cpus: &'a Cpus,
    /// The chosen CPUs of the measuring thread.
    pub placement: &'a Placement,
    /// Whether the NIC is used although its link is down.
    pub ignore_link: bool,
    /// The buffers that lie on GPUs.
    pub gpus: OnGpus,
}

/// What this process does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tool.
    pub tool: &'static Tool,
    /// Name of the program for messages: `cxidiag write-lat` or `cxi_write_lat`.
    pub program: String,
    /// Server, client or both.
    pub role: Role,
    /// The NIC.
    pub device: DeviceName,
    /// What is measured one after the other, if not one NIC only.
    pub every: Option<Every>,
    /// Whether the user has named the NIC.
    pub is_device_given: bool,
    /// The options about service, VNI and traffic class.
    pub service_options: ServiceOptions,
    /// The chosen service, VNI and traffic class: from these options, else from the job.
    pub service: ServiceRequest,
    /// TCP port to listen on (0: any free one) or to connect to.
    pub port: u16,
    /// Whether the NIC is used although its link is down.
    pub ignore_link: bool,
    /// Library to load for a hardware device; `None` for the system's `libcxi.so.1`.
    pub libcxi: Option<LibraryFile>,
    /// This side's buffers that lie on GPUs.
    pub gpus: OnGpus,
    /// The CPUs that `--cpu` requests.
    pub cpus: Cpus,
    /// Where the measuring thread is to run, as chosen on this machine.
    pub placement: Placement,
    /// The clock that measures latencies.
    pub clock: ClockChoice,
    /// The limit at which the median of a size is known well enough, if the run ends there.
    pub until: Option<Until>,
    /// How a server listens.
    pub listening: Listening,
    /// How a client reaches its server.
    pub reaching: Reaching,
    /// The NIC of the server that a client asks for.
    pub peer_device: Option<DeviceName>,
    /// What the address of the server may have been meant as, if it stands after an option without
    /// its value.
    pub address_hint: Option<String>,
    /// Which peers this process measures with.
    pub admission: Admission,
    /// The options on which both sides agree. In a server these are the tool's defaults; the
    /// client's options replace them.
    pub run: RunOptions,
    /// Whether a chain has as many hops as the service has triggered operations for, up to the
    /// hops of `run`.
    pub has_default_hops: bool,
    /// Output formats and expectations; in a server its documents.
    pub outputs: Outputs,
    /// Long names of client options that were given to a server, in the order of the help text.
    pub ignored: Vec<&'static str>,
    /// Other options without effect.
    pub ineffective: Vec<Ineffective>,
}

impl Plan {
    /// The plan for the typed options; `libcxi` is the library that the environment names.
    ///
    /// # Errors
    ///
    /// Options that are invalid for the tool or the role, or that exclude each other.
    pub fn new(
        tool: &'static Tool,
        program: String,
        mut typed: Typed,
        libcxi: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let role = role(tool, &mut typed)?;
        let port = port(&role, typed.port)?;
        let device = typed.device.unwrap_or(DEFAULT_DEVICE);
        check_options(&typed, &role, device)?;
        let mut ineffective = typed::find_ineffective(&typed);
        let has_default_hops = tool.has_chains()
            && !typed.run_given.iter().any(|long| matches!(*long, "hops" | "fan"));
        let (run, outputs, ignored) = match role {
            Role::Server => (tool.defaults, typed.outputs.server(), typed.run_given),
            _ => (run_options(&mut typed, &role)?, typed.outputs, Vec::new()),
        };
        let outputs = outputs.checked(tool, &run).map_err(Failure::usage)?;
        ineffective.retain(|ineffective| !ignored.contains(&ineffective.option));
        Ok(Self {
            tool,
            program,
            role,
            device,
            every: typed.every,
            is_device_given: typed.device.is_some(),
            service_options: typed.service,
            service: ServiceRequest::default(),
            port,
            libcxi: typed
                .libcxi
                .map(|path| LibraryFile::new(path, "--libcxi"))
                .or_else(|| Some(LibraryFile::new(libcxi?, LIBCXI_VARIABLE))),
            ignore_link: typed.ignore_link,
            gpus: typed.gpus,
            cpus: typed.cpus,
            placement: Placement::default(),
            clock: typed.clock,
            until: typed.until,
            listening: Listening {
                bind: typed.bind,
                persist: typed.persist,
                timeout: typed.timeout,
                port_file: typed.port_file,
            },
            reaching: Reaching::new(typed.connect_timeout, typed.wait),
            peer_device: typed.peer_device.map(|peer| match peer {
                PeerDevice::Named(device) => device,
                PeerDevice::Auto => device,
            }),
            address_hint: typed.address_hint,
            admission: Admission { any_job: typed.any_job, token: typed.token },
            run,
            has_default_hops,
            outputs,
            ignored,
            ineffective,
        })
    }

    /// The place of the endpoint of this process.
    pub fn site(&self) -> Site<'_> {
        Site {
            device: self.device,
            service: &self.service,
            cpus: &self.cpus,
            placement: &self.placement,
            ignore_link: self.ignore_link,
            gpus: self.gpus,
        }
    }

    /// One line about the options without effect, if there are any and `--quiet` is not given.
    pub fn note(&self) -> Option<String> {
        if self.outputs.quiet {
            return None;
        }
        let ignored: Vec<String> = self.ignored.iter().map(|long| format!("--{long}")).collect();
        let mut notes = Vec::new();
        if !ignored.is_empty() {
            let options = ignored.join(" ");
            notes.push(format!("ignored on a server (the client's options apply): {options}"));
        }
        notes.extend(typed::ineffective_note(&self.ineffective));
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// One line for a user whose options on a server show that a measurement was wanted, if
    /// `--quiet` is not given.
    pub fn advice(&self) -> Option<&'static str> {
        let is_wanted = !self.ignored.is_empty() && !self.outputs.quiet;
        is_wanted.then_some("this is a server; to measure, give ADDR, or --loopback")
    }

    /// The arguments, without the program name, that start the server of a loopback run.
    pub fn server_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            self.tool.name.into(),
            format!("--device={}", self.device).into(),
            format!("--port={}", self.port).into(),
        ];
        // The values of the job are in the environment, which the server inherits.
        let ServiceOptions { svc_id, vni, class } = self.service_options;
        arguments.extend(svc_id.map(|id| format!("--svc-id={id}").into()));
        arguments.extend(vni.map(|vni| format!("--vni={vni}").into()));
        arguments.extend(class.map(|class| format!("--traffic-class={class}").into()));
        if self.ignore_link {
            arguments.push("--ignore-link".into());
        }
        // The server inherits the environment.
        if let Some(library) = &self.libcxi
            && self.device.platform().loads_library
            && library.named_by != LIBCXI_VARIABLE
        {
            arguments.push(library.to_os_string());
        }
        let OnGpus { kind, tx, rx, map } = self.gpus;
        for (long, index) in [("tx-gpu", tx), ("rx-gpu", rx)] {
            arguments.extend(index.map(|index| format!("--{long}={index}").into()));
        }
        let kind = kind.filter(|_| self.gpus.any());
        arguments.extend(kind.map(|kind| format!("--gpu-type={kind}").into()));
        let map = map.filter(|_| self.gpus.any());
        arguments.extend(map.map(|way| format!("--gpu-map={way}").into()));
        if self.cpus != Cpus::Any {
            arguments.push(format!("--cpu={}", self.cpus).into());
        }
        arguments
    }
}

/// Returns the role of a process with these options, and takes the address out of them.
fn role(tool: &Tool, typed: &mut Typed) -> Result<Role, Failure> {
    match (typed.address.take(), typed.loopback) {
        (None, _) if !tool.has_peer() => Ok(Role::Alone),
        (None, false) => Ok(Role::Server),
        (Some(address), false) => Ok(Role::Client { address }),
        (None, true) => Ok(Role::Loopback),
        (Some(address), true) => {
            let failure = Failure::usage(format!(
                "--loopback starts its own server: leave out the address '{address}'"
            ));
            Err(failure.with_hint_if(typed.address_hint.take()))
        }
    }
}

/// Checks which of the typed options a process with this role on this device may have.
fn check_options(typed: &Typed, role: &Role, device: DeviceName) -> Result<(), Failure> {
    if typed.is_token_new {
        return Err(Failure::usage(
            "--token=auto is for 'cxidiag serve', which prints the token for its clients",
        ));
    }
    if let Some(option) = typed.misplaced(role) {
        return Err(Failure::usage(option));
    }
    typed.check_every()?;
    match &typed.libcxi {
        Some(path) if !device.platform().loads_library => Err(Failure::usage(format!(
            "--libcxi={}: {device} is a built-in software NIC and needs no library; only cxiN devices do",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// The port of a process with this role, if `typed` was.
fn port(role: &Role, typed: Option<u16>) -> Result<u16, Failure> {
    // The server of a loopback run listens on any free port.
    let listens = matches!(role, Role::Server | Role::Client { .. });
    let port = typed.unwrap_or(if listens { DEFAULT_PORT } else { 0 });
    if port == 0 && matches!(role, Role::Client { .. }) {
        let allowed = "expected the server's port, 1 to 65535";
        return Err(Failure::usage(invalid("port", "0", allowed)));
    }
    Ok(port)
}

/// The options of a run that a process with this role begins.
fn run_options(typed: &mut Typed, role: &Role) -> Result<RunOptions, Failure> {
    typed.check_exclusions()?;
    typed.limit_until()?;
    typed.extend()?;
    typed.replace_gap()?;
    if *role == Role::Alone {
        typed.use_one_place();
    }
    typed.run.extensions.counters = typed.outputs.counters;
    typed.run.checked().and_then(RunOptions::kept).map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command_line;
    use crate::command_line::Request;
    use crate::run_options::MAX_REPORT_ALL;
    use crate::tools::TOOLS;
    use facts::number::MAX_SIZE;

    fn planned(arguments: &[&str]) -> Result<Plan, Failure> {
        let tool = &TOOLS[0];
        let arguments = arguments.iter().map(OsString::from).collect();
        let Request::Run(typed) = command_line::parse(tool, arguments)? else {
            panic!("a run was asked for");
        };
        Plan::new(tool, format!("cxidiag {}", tool.name), *typed, None)
    }

    fn refusal(arguments: &[&str]) -> String {
        planned(arguments).unwrap_err().message()
    }

    #[test]
    fn selects_role() {
        assert_eq!(planned(&[]).unwrap().role, Role::Server);
        assert_eq!(planned(&["--loopback"]).unwrap().role, Role::Loopback);
        let client = Role::Client { address: "cxi-nid0".into() };
        assert_eq!(planned(&["cxi-nid0"]).unwrap().role, client);
        assert!(refusal(&["cxi-nid0", "--loopback"]).contains("'cxi-nid0'"));
        let failure = planned(&["--loopback", "--json", "out"]).unwrap_err();
        assert_eq!(failure.hint.as_deref(), Some("did you mean --json=out?"));
    }

    #[test]
    fn uses_defaults() {
        let plan = planned(&["h"]).unwrap();
        assert_eq!(plan.device.to_string(), "cxi0");
        assert_eq!(plan.service_options, ServiceOptions::default());
        assert_eq!(plan.port, 49194);
        assert_eq!(plan.run, plan.tool.defaults);
        assert_eq!(plan.libcxi, None);
    }

    #[test]
    fn accepts_port_0_only_in_servers() {
        assert_eq!(planned(&["-p", "0"]).unwrap().port, 0);
        assert_eq!(planned(&["--loopback"]).unwrap().port, 0);
        assert!(refusal(&["h", "-p", "0"]).contains("'0' for --port"));
    }

    #[test]
    fn server_ignores_run_options_and_names_them() {
        let plan = planned(&["-d", "soft0", "--report-all", "-s", "1:64", "-n", "7"]).unwrap();
        assert_eq!(plan.run, plan.tool.defaults);
        let note = "ignored on a server (the client's options apply): --size --iters --report-all";
        assert_eq!(plan.note().as_deref(), Some(note));
        let advice = "this is a server; to measure, give ADDR, or --loopback";
        assert_eq!(plan.advice(), Some(advice));
        let server = planned(&["-d", "soft0", "-p", "5000"]).unwrap();
        assert_eq!((server.note(), server.advice()), (None, None));
        assert_eq!(planned(&["-n", "7", "--quiet"]).unwrap().advice(), None);
        assert_eq!(planned(&["h", "-n", "7"]).unwrap().note(), None);
    }

    #[test]
    fn t8_duration_excludes_report_all() {
        let run = planned(&["h", "-D", "1", "--report-all"]).unwrap().run;
        assert_eq!((run.duration_s, run.report_all), (Some(1), false));
        assert!(planned(&["h", "-n", "5", "--report-all"]).unwrap().run.report_all);
    }

    #[test]
    fn until_limits_time_and_excludes_number_of_iterations() {
        let plan = planned(&["h", "--until=1%"]).unwrap();
        assert_eq!(plan.until, Some(Until { percent: 1.0 }));
        assert_eq!(plan.run.duration(), Some(DEFAULT_UNTIL_DURATION));
        let plan = planned(&["h", "-D", "3", "--until", "0.5"]).unwrap();
        assert_eq!(plan.run.duration_s, Some(3));
        for excluded in ["-n5", "--report-all"] {
            let message = refusal(&["h", "--until=1%", excluded]);
            assert!(message.starts_with("--until"), "{message}");
        }
        for wrong in ["0", "0%", "-1%", "x", "%", "1e3"] {
            assert!(refusal(&["h", "--until", wrong]).contains("for --until"));
        }
    }

    #[test]
    fn t32_limits_reported_samples() {
        assert!(planned(&["h", "-n", "1000000000", "--report-all"]).is_ok());
        for iters in ["1000000001", "18446744073709551615"] {
            let message = refusal(&["h", "-n", iters, "--report-all"]);
            assert!(message.contains(iters) && message.contains("1000000000"), "{message}");
            assert!(planned(&["h", "-n", iters]).is_ok());
            assert!(planned(&["h", "-n", iters, "--report-all", "-D", "1"]).is_ok());
        }
    }

    /// Only the client keeps samples: a server accepts more from a client that has memory for them.
    #[test]
    fn t32_limits_reported_samples_only_in_client() {
        let wanted =
            RunOptions { iters: MAX_REPORT_ALL + 1, report_all: true, ..TOOLS[0].defaults };
        assert!(wanted.checked().is_ok());
        assert!(wanted.kept().is_err());
    }

    #[test]
    fn refuses_options_of_other_role() {
        for (arguments, word) in [
            (&["h", "--bind=::1"][..], "--bind"),
            (&["h", "--persist"], "--persist"),
            (&["h", "--timeout=1"], "--timeout"),
            (&["--loopback", "--port-file=x"], "--port-file"),
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
        let turn = Some(wait);
        assert_eq!(client.reaching, Reaching { limit, wait, turn });
    }

    #[test]
    fn accepts_library_only_for_hardware() {
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
        assert_eq!(written(named("cxi0", Some("/typed")).unwrap()), Some("--libcxi=/typed".into()));
        assert!(named("soft0", None).is_ok());
        let message = named("soft0", Some("/typed")).unwrap_err().message();
        assert!(message.contains("/typed") && message.contains("soft0"), "{message}");
    }

    #[test]
    fn doubles_sizes() {
        let sizes = |text| planned(&["h", "-s", text]).unwrap().run.sizes().collect::<Vec<_>>();
        assert_eq!(sizes("7"), [7]);
        assert_eq!(sizes("1:8"), [1, 2, 4, 8]);
        assert_eq!(sizes("4294967295"), [4294967295]);
        assert_eq!(sizes("1:2147483648").len(), 32);
    }

    #[test]
    fn passes_local_options_to_loopback_server() {
        let typed = [
            "--loopback",
            "-d",
            "cxi3",
            "-v",
            "7",
            "--vni=job",
            "--traffic-class=low-latency",
            "--libcxi",
            "/a b",
            "--cpu",
            "4,0-2",
            "-n",
            "9",
            "--token=secret",
        ];
        let plan = planned(&typed).unwrap();
        let arguments = plan.server_arguments();
        assert_eq!(arguments[0], plan.tool.name);
        let words: Vec<&str> = arguments[1..].iter().map(|word| word.to_str().unwrap()).collect();
        let server = planned(&words).unwrap();
        assert_eq!(server.role, Role::Server);
        assert_eq!(
            (server.device, server.service_options, server.port),
            (plan.device, plan.service_options, 0)
        );
        assert_eq!(server.libcxi, plan.libcxi);
        assert_eq!(server.cpus, plan.cpus);
        // Other users see arguments.
        assert_eq!(server.admission.token, None);
        assert_eq!(server.note(), None);
    }

    /// The errors of the server would begin with a line about it.
    #[test]
    fn passes_no_gpu_type_without_effect_to_loopback_server() {
        let passes = |arguments: &[&str]| {
            let arguments = planned(arguments).unwrap().server_arguments();
            arguments.contains(&"--gpu-type=AMD".into())
        };
        assert!(!passes(&["--loopback", "-gAMD"]));
        assert!(passes(&["--loopback", "-gAMD", "-r0"]));
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
