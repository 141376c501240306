//! The parsed command line, before rules across options are checked.
//!
//! Typed options without effect beside the others are named, not refused: scripts for the legacy
//! tools may give them.

use std::path::PathBuf;
use std::time::Duration;

use facts::atomic::AtomicOp;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::token::Token;
use measure::{ClockChoice, Until};
use node::gpu::OnGpus;
use node::machine::placement::Cpus;
use node::service::ServiceOptions;

use crate::outputs::Outputs;
use crate::role::{DEFAULT_UNTIL_DURATION, Role};
use crate::run_options::RunOptions;

/// The NIC of the server that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerDevice {
    /// The one with the name of the client's NIC.
    Auto,
    Named(DeviceName),
}

/// What a tool without a peer measures one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Each NIC of this machine.
    Nic,
    /// Each NIC with each GPU.
    NicAndGpu,
}

/// The command line of one tool, option by option.
#[derive(Clone, Debug)]
pub struct Typed {
    /// ADDR: the server to connect to.
    pub address: Option<String>,
    /// What ADDR may have been meant as, if it follows an option whose value was omitted.
    pub address_hint: Option<String>,
    pub loopback: bool,
    pub device: Option<DeviceName>,
    /// `--all-nics`, `--all-gpus`.
    pub every: Option<Every>,
    /// `--svc-id`, `--vni`, `--traffic-class`.
    pub service: ServiceOptions,
    pub port: Option<u16>,
    pub bind: Option<String>,
    pub persist: bool,
    /// `--timeout`; zero for no limit.
    pub timeout: Option<Duration>,
    pub port_file: Option<PathBuf>,
    pub any_job: bool,
    /// `--token`, or the variable of the environment.
    pub token: Option<Token>,
    /// `--token=auto`: the token is a new one.
    pub is_token_new: bool,
    pub connect_timeout: Option<Duration>,
    pub wait: Option<Duration>,
    pub peer_device: Option<PeerDevice>,
    pub ignore_link: bool,
    pub libcxi: Option<PathBuf>,
    /// `--tx-gpu`, `--rx-gpu`, `--gpu-type`.
    pub gpus: OnGpus,
    pub cpus: Cpus,
    pub clock: ClockChoice,
    pub until: Option<Until>,
    /// The tool's defaults with the typed run options.
    pub run: RunOptions,
    /// Output formats and expectations.
    pub outputs: Outputs,
    /// Long names of the typed options that apply to clients only, in the order of the help text.
    pub run_given: Vec<&'static str>,
}

impl Typed {
    /// An empty command line.
    pub fn nothing(defaults: RunOptions) -> Self {
        Self {
            address: None,
            address_hint: None,
            loopback: false,
            device: None,
            every: None,
            service: ServiceOptions::default(),
            port: None,
            bind: None,
            persist: false,
            timeout: None,
            port_file: None,
            any_job: false,
            token: None,
            is_token_new: false,
            connect_timeout: None,
            wait: None,
            peer_device: None,
            ignore_link: false,
            libcxi: None,
            gpus: OnGpus::default(),
            cpus: Cpus::Any,
            clock: ClockChoice::Auto,
            until: None,
            run: defaults,
            outputs: Outputs::default(),
            run_given: Vec::new(),
        }
    }

    /// Checks that at most one option sets the sizes, one the form of a chain, and one the end of a
    /// run that a signal ends.
    ///
    /// # Errors
    ///
    /// Options that exclude each other.
    pub fn check_exclusions(&self) -> Result<(), Failure> {
        const RULES: [(&str, &[&str]); 3] = [
            ("all-sizes", &["size"]),
            ("until-stopped", &["iters", "duration", "until"]),
            ("fan", &["hops"]),
        ];
        let given = |long: &str| self.run_given.contains(&long);
        for (option, others) in RULES.iter().filter(|(option, _)| given(option)) {
            if let Some(other) = others.iter().find(|other| given(other)) {
                return Err(Failure::usage(format!("--{option} and --{other} exclude each other")));
            }
        }
        Ok(())
    }

    /// Limits the time of a run with `--until`, which replaces the number of iterations.
    ///
    /// # Errors
    ///
    /// Options that exclude `--until`.
    pub fn limit_until(&mut self) -> Result<(), Failure> {
        if self.until.is_none() {
            return Ok(());
        }
        let given = |long| self.run_given.contains(&long);
        if given("iters") {
            return Err(Failure::usage(
                "--until replaces --iters: use --duration for the longest time",
            ));
        }
        if given("report-all") {
            return Err(Failure::usage(
                "--until and --report-all exclude each other: the number of samples is not known",
            ));
        }
        if self.run.duration().is_none() {
            self.run.set_duration(DEFAULT_UNTIL_DURATION);
        }
        Ok(())
    }

    /// Gives each thread a pair unless `--pairs` is given.
    ///
    /// # Errors
    ///
    /// Options that exclude `--reverse`.
    pub fn extend(&mut self) -> Result<(), Failure> {
        let extensions = &mut self.run.extensions;
        if !self.run_given.contains(&"pairs") {
            extensions.pairs = extensions.threads;
        }
        if extensions.reverse && self.run.lists.is_some_and(|lists| lists.bidirectional) {
            return Err(Failure::usage(
                "--reverse and --bidirectional exclude each other: both sides issue operations already",
            ));
        }
        if extensions.reverse && self.outputs.interval.is_some() {
            return Err(Failure::usage(
                "--reverse and --interval exclude each other: intervals show what the client issues",
            ));
        }
        Ok(())
    }

    /// Checks the options beside `--all-nics` and `--all-gpus`.
    ///
    /// # Errors
    ///
    /// An option that these exclude.
    pub fn check_every(&self) -> Result<(), Failure> {
        let option = match self.every {
            None => return Ok(()),
            Some(Every::Nic) => "--all-nics",
            Some(Every::NicAndGpu) => "--all-gpus",
        };
        let is_each_nic = self.every == Some(Every::Nic);
        let other = [
            ("--device", is_each_nic && self.device.is_some()),
            ("--tx-gpu", !is_each_nic && self.gpus.tx.is_some()),
            ("--rx-gpu", !is_each_nic && self.gpus.rx.is_some()),
            ("--interval", self.outputs.interval.is_some()),
            ("--until-stopped", self.run.extensions.until_stopped),
        ];
        match other.into_iter().find(|(_, is_given)| *is_given) {
            Some((other, _)) => {
                Err(Failure::usage(format!("{option} and {other} exclude each other")))
            }
            None => Ok(()),
        }
    }

    /// Lets all operations of a list read and write the same bytes, at the start of the buffers.
    pub fn use_one_place(&mut self) {
        let largest = self.run.max_size;
        if let Some(lists) = &mut self.run.lists {
            lists.max_buffer = largest;
            lists.alignment = largest;
        }
    }

    /// Leaves out the pause after each iteration if a rate determines the starts.
    ///
    /// # Errors
    ///
    /// Both a rate and a pause.
    pub fn replace_gap(&mut self) -> Result<(), Failure> {
        if self.run.extensions.rate.is_none() {
            return Ok(());
        }
        if self.run_given.contains(&"latency-gap") {
            return Err(Failure::usage(
                "--rate and --latency-gap exclude each other: the rate determines when operations start",
            ));
        }
        self.run.gap_us = 0;
        Ok(())
    }

    /// The message about a typed option that does not apply to this role, if there is one.
    pub fn misplaced(&self, role: &Role) -> Option<String> {
        let serves = *role == Role::Server;
        let connects = matches!(role, Role::Client { .. });
        let server = "is for a server: leave it out where an address or --loopback is given";
        let client = "is for a client: it needs the address of a server";
        [
            ("--bind", self.bind.is_some() && !serves, server),
            ("--persist", self.persist && !serves, server),
            ("--timeout", self.timeout.is_some() && !serves, server),
            ("--port-file", self.port_file.is_some() && !serves, server),
            ("--connect-timeout", self.connect_timeout.is_some() && !connects, client),
            ("--wait", self.wait.is_some() && !connects, client),
            ("--peer-device", self.peer_device.is_some() && !connects, client),
        ]
        .into_iter()
        .find_map(|(option, wrong, why)| wrong.then(|| format!("{option} {why}")))
    }
}

/// An option without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ineffective {
    /// Its long form.
    pub option: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

/// A line that names these options. `None` without any.
pub fn ineffective_note(options: &[Ineffective]) -> Option<String> {
    let named =
        options.iter().map(|Ineffective { option, reason }| format!("--{option} ({reason})"));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("without effect: {}", named.join(", ")))
}

/// The options of `typed` that have no effect.
pub fn find_ineffective(typed: &Typed) -> Vec<Ineffective> {
    let given = |long| typed.run_given.contains(&long);
    let is_timed = typed.run.duration_s.is_some();
    let atomic = typed.run.atomic;
    let has_gpus = typed.gpus.any() || typed.every == Some(Every::NicAndGpu);
    let rules = [
        ("iters", given("iters") && is_timed, "--duration replaces it"),
        ("report-all", given("report-all") && is_timed, "not with --duration"),
        (
            "cswap-op",
            given("cswap-op") && atomic.is_some_and(|atomic| atomic.op != AtomicOp::Cswap),
            "only with --atomic-op=CSWAP",
        ),
        ("gpu-type", typed.gpus.kind.is_some() && !has_gpus, "only with --tx-gpu or --rx-gpu"),
        ("gpu-map", typed.gpus.map.is_some() && !has_gpus, "only with --tx-gpu or --rx-gpu"),
    ];
    rules
        .into_iter()
        .filter_map(|(option, applies, reason)| applies.then_some(Ineffective { option, reason }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::Plan;
    use crate::command_line::{self, Request};
    use crate::tools::TOOLS;

    #[test]
    fn names_options_without_effect() {
        let note = |tool: &str, arguments: &[&str]| {
            let tool = TOOLS.iter().find(|own| own.name == tool).unwrap();
            let arguments = arguments.iter().map(OsString::from).collect();
            let Ok(Request::Run(typed)) = command_line::parse(tool, arguments) else {
                panic!("a run was asked for");
            };
            Plan::new(tool, String::new(), *typed, None).unwrap().note()
        };
        let iters = "--iters (--duration replaces it)";
        let report_all = "--report-all (not with --duration)";
        let cswap = "--cswap-op (only with --atomic-op=CSWAP)";
        let gpu = "--gpu-type (only with --tx-gpu or --rx-gpu)";
        for (tool, arguments, options) in [
            ("write-bw", &["h", "-n5", "-D1"][..], iters),
            (
                "write-lat",
                &["h", "-n5", "-D1", "--report-all", "-gAMD"],
                &[iters, report_all, gpu].join(", "),
            ),
            ("atomic-lat", &["h", "-CEQ"], cswap),
            ("send-lat", &["-gAMD"], gpu),
        ] {
            let expected = format!("without effect: {options}");
            assert_eq!(note(tool, arguments), Some(expected), "{arguments:?}");
            let quiet = [&["h", "--quiet"], arguments.strip_prefix(&["h"]).unwrap_or(arguments)];
            assert_eq!(note(tool, &quiet.concat()), None);
        }
        for (tool, arguments) in [
            ("write-lat", &["h", "-D1"][..]),
            ("write-lat", &["h", "-n5", "--report-all"]),
            ("write-lat", &["h", "--until=1%"]),
            ("atomic-lat", &["h", "-CEQ", "-ACSWAP"]),
            ("write-lat", &["h", "-gAMD", "-t0"]),
        ] {
            assert_eq!(note(tool, arguments), None, "{arguments:?}");
        }
        let ignored = "ignored on a server (the client's options apply): --iters --duration";
        let both = format!("{ignored}; without effect: {gpu}");
        assert_eq!(note("write-lat", &["-n5", "-D1", "-gAMD"]), Some(both));
    }
}
