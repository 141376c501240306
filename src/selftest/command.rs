//! `selftest`: what the command takes, and its course (docs/hardware.md).

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use clap::{Args, Command};

use super::text::{column, effect_name, effects, flags};
use crate::bench::CheckedNic;
use crate::checks::GROUPS;
use crate::document::{Fact, SelfTest, TestedNic};
use crate::peer::{CHECKS, PEER, PeerRuns};
use crate::run::CheckSelection;
use crate::table::CheckEffect;
use crate::text;
use cli::arguments::{ServiceArguments, TypedArguments, passed_on};
use cli::usage::{Completion, Usage};
use cli::{arguments, derived, output};
use facts::child::PROGRAM;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::Failure;
use facts::interrupt;
use facts::number::time;
use node::backend;
use page::destination::{Destination, Place};
use page::documents::Documents;
use page::page::Page;
use page::table::{self, TextStyle};
use plan::command_line::Request;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan, command_line};

/// The longest `--time-limit`.
const LONGEST: Duration = Duration::from_secs(3600);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag selftest".into(),
        about: "Compare a NIC with what the documents say about it",
        synopsis: vec![("cxidiag selftest [DEVICE] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "Each check observes one fact of docs/reference on the NIC DEVICE (as with\n\
                          --device), which addresses itself. It takes seconds, and releases everything.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "The last line says how many facts hold. Exit status: 0 all that could be\n\
             checked hold, 3 one differs, 4 the time limit left some out, 1 nothing\n\
             could be checked, 2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a NIC that cannot be opened, facts that differ, and a file that cannot be
/// written.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    if request.lists {
        return page::print(&list());
    }
    if request.is_dry {
        return page::print(&dry_run(&request));
    }
    let documents = Documents::open_json(request.json.as_ref())?;
    let file = request.report.as_deref().map(Destination::file);
    let file = output::or_failure(&documents, file.transpose())?;
    let (plan, nic, facts) = output::or_failure(&documents, begin(&request))?;
    let mut results = SelfTest::new(facts);
    let end = Instant::now() + request.time_limit;
    if request.has_local() {
        let selection = request.selection();
        let ended = crate::run::run(&nic, &selection, end, request.with_names, |result| {
            results.add(result);
        });
        results.aftermath = output::or_failure(&documents, ended)?;
    }
    drop(nic);
    if let Some(host) = request.peer.as_deref() {
        let runs = PeerRuns {
            host,
            plan: &plan,
            passed_on: [request.passed_on(), request.peer_texts()].concat(),
            with_names: request.with_names,
        };
        let ended = runs.execute(&request.peer_names(), end, |result| results.add(result));
        output::or_failure(&documents, ended)?;
    }
    if let Some(file) = file {
        file.write(text::report_page(&results).text(TextStyle::Plain).as_bytes())?;
    }
    output::write(&documents, &results, false, |results| {
        if request.is_quiet {
            let mut page = Page::default();
            page.line(results.summary());
            page
        } else {
            text::page(results)
        }
    })?;
    documents.conclude(results.result())
}

/// Opens the NIC. Returns the plan, the NIC, and what is known of it.
fn begin(request: &SelfTestRequest) -> Result<(Plan, CheckedNic, TestedNic), Failure> {
    let plan = request.plan()?;
    let variable = |name: &str| std::env::var(name).ok();
    if request.is_risky && plan.service.is_of_job(plan.device, variable) {
        let message = format!(
            "--risky: service {} belongs to this job (SLINGSHOT_SVC_IDS), which could not end if the \
             driver does not release a stopped queue; choose another service with --svc-id",
            plan.service.svc_id()
        );
        return Err(Failure::usage(message));
    }
    backend::check(plan.device)?;
    interrupt::watch()?;
    let (nic, facts) = crate::nic::open(&plan, request.with_names)?;
    Ok((plan, nic, facts))
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<SelfTestRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
struct SelfTestRequest {
    /// NIC to check (default: cxi0)
    #[arg(short, long, value_name = "DEV", add = Completion::Devices)]
    device: Option<DeviceName>,

    /// Also run the tools against 'cxidiag serve' on HOST (default: no peer)
    ///
    /// These checks need a second NIC and are the group 'peer': the eight tools, with a few
    /// operations each.
    #[arg(long, value_name = "HOST", add = Completion::Hosts)]
    peer: Option<String>,

    #[arg(short, long, help = format!("TCP port of the server of --peer (default: {DEFAULT_PORT})"))]
    #[arg(value_name = "PORT", value_parser = passed_on("port"))]
    port: Option<String>,

    /// NIC of the server of --peer (default: as for the tools)
    ///
    /// DEV is a name, or 'auto' for the NIC with the name of the NIC of this machine.
    #[arg(long, value_name = "DEV|auto")]
    #[arg(value_parser = passed_on("peer-device"), add = Completion::Devices)]
    peer_device: Option<String>,

    /// Run this group or check only, such as queues or queues/wrap (default: all); may be repeated
    ///
    /// A list with commas names several.
    #[arg(long, value_name = "GROUP|CHECK", value_delimiter = ',')]
    #[arg(value_parser = known, add = Completion::Words(groups))]
    only: Vec<String>,

    /// List the checks with their facts, and check nothing
    ///
    /// The list also has the sections that state the facts, and how certain these are.
    #[arg(long = "list")]
    lists: bool,

    /// Say what the checks would do to the NIC, and check nothing
    ///
    /// The text has the effects of the selected checks and the error flags that they would set. No
    /// NIC is opened.
    #[arg(long = "dry-run")]
    is_dry: bool,

    /// Also run the checks that stop a queue in a way that no other program does
    ///
    /// If the driver cannot release such a queue, its service cannot be destroyed before the node
    /// is rebooted. Not in the service of a job. The check of SWAP runs too, which raises PCIe
    /// (AER) errors on some nodes.
    #[arg(long = "risky")]
    is_risky: bool,

    /// Begin no check after TIME
    ///
    /// Checks that have not begun by then are not examined: exit status 4.
    // On hardware all checks take seconds.
    #[arg(long, value_name = "TIME", default_value = "50s")]
    #[arg(value_parser = |typed: &str| time(typed, Duration::ZERO..=LONGEST))]
    time_limit: Duration,

    /// Write all results to FILE, as text for an issue (default: no file)
    ///
    /// The text has the NIC, its software and the result of each check. Without --with-names the
    /// text has no names of hosts and no addresses.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    report: Option<PathBuf>,

    /// Leave the names of hosts and the addresses of NICs in the results
    ///
    /// Without this option, addresses in the bytes of commands and events are 0.
    #[arg(long)]
    with_names: bool,

    #[command(flatten)]
    service: ServiceArguments,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    json: Option<Place>,

    /// Library to load for hardware (default: as for the tools)
    #[arg(long, value_name = "PATH", value_parser = passed_on("libcxi"), add = Completion::Files)]
    libcxi: Option<String>,
}

impl SelfTestRequest {
    /// Whether checks without a peer are selected.
    fn has_local(&self) -> bool {
        self.only.is_empty() || !self.selection().names.is_empty()
    }

    /// The selected checks without a peer.
    fn selection(&self) -> CheckSelection {
        let names = self.only.iter().filter(|name| !crate::peer::exists(name));
        CheckSelection { names: names.cloned().collect(), allows_risk: self.is_risky }
    }

    /// The names of checks of the peer that are selected; `peer` itself selects all.
    fn peer_names(&self) -> Vec<String> {
        self.only.iter().filter(|name| crate::peer::exists(name)).cloned().collect()
    }

    /// The options of service, VNI, traffic class and library, as the tools take them.
    fn passed_on(&self) -> Vec<String> {
        self.service.arguments().into_iter().chain(self.libcxi.clone()).collect()
    }

    /// The options of runs with the peer.
    fn peer_texts(&self) -> Vec<String> {
        [&self.port, &self.peer_device].into_iter().flatten().cloned().collect()
    }

    /// The plan of a run on this NIC: its service is chosen by the rules of the tools.
    fn plan(&self) -> Result<Plan, Failure> {
        let tool = &TOOLS[0];
        let device = self.device.unwrap_or(DEFAULT_DEVICE);
        let own = ["--loopback".to_owned(), format!("--device={device}")];
        let arguments = own.into_iter().chain(self.passed_on()).map(OsString::from);
        let parsed =
            command_line::parse(tool, arguments.collect()).map_err(|refusal| refusal.failure)?;
        let Request::Run(typed) = parsed else {
            return Err(Failure::usage("--help and --version stand alone"));
        };
        let library = arguments::library_of_environment().map(|library| library.path);
        Plan::new(tool, PROGRAM.into(), *typed, library)
    }

    /// Checks the options of the runs with the peer by the rules of the tools.
    fn check_peer(&self) -> Result<(), Failure> {
        let tool = &TOOLS[0];
        let host = self.peer.iter().map(OsString::from);
        let texts = self.peer_texts().into_iter().map(OsString::from);
        let arguments = texts.chain(["--".into()]).chain(host);
        match command_line::parse(tool, arguments.collect()).map_err(|refusal| refusal.failure)? {
            Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(drop),
            _ => Ok(()),
        }
    }
}

/// The name of a group or of a check.
fn known(name: &str) -> Result<String, String> {
    if crate::peer::exists(name) || crate::run::exists(name) {
        return Ok(name.to_owned());
    }
    Err(format!("expected a group ({}) or a check of --list", groups().join(", ")))
}

/// The names of the groups.
fn groups() -> Vec<String> {
    let names = GROUPS.iter().map(|group| group.name);
    names.chain([PEER]).map(str::to_owned).collect()
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<SelfTestRequest>, Failure> {
    let typed = TypedArguments::<SelfTestRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { mut request, words, .. }) = typed else { return Ok(None) };
    let mut devices: Vec<DeviceName> = request.device.into_iter().collect();
    arguments::add_devices(&mut devices, words, arguments)?;
    request.device = arguments::one_device(&devices)?;
    let names_peer = !request.peer_names().is_empty();
    if request.peer.is_none() {
        if names_peer {
            let message = format!("--only={PEER} needs --peer=HOST");
            return Err(Failure::usage(message));
        }
        if let Some(option) = request.peer_texts().first() {
            let message = format!("{option} has no effect without --peer");
            return Err(Failure::usage(message));
        }
    } else {
        request.check_peer()?;
    }
    if request.peer.is_some() && !request.only.is_empty() && !names_peer {
        let message = format!("--peer has no effect without --only={PEER}");
        return Err(Failure::usage(message));
    }
    Ok(Some(request))
}

/// The text of `--dry-run`.
fn dry_run(request: &SelfTestRequest) -> String {
    let mut text = String::new();
    if request.has_local() {
        text += "Each check allocates an LNI, a PID, a profile, an event queue, two command queues and\n\
                 512 KiB of memory in the service, and releases them.\n\n";
        let titles = ["Effect", ">Checks", "What they do"];
        text += &(table::lines(&titles, effects(&request.selection())).join("\n") + "\n");
        let flags = flags(&request.selection());
        if !flags.is_empty() {
            let titles = ["Error flag", ">At most", "Set by"];
            text += "\nError flags interrupt the driver, which logs them. The driver switches a\n\
                     flag off at the 11th interrupt within 5 s: runs end 2 s after their last error.\n\n";
            text += &(table::lines(&titles, flags).join("\n") + "\n");
        }
    }
    if let Some(host) = &request.peer {
        text += &format!(
            "\nThe tools run against 'cxidiag serve' on {host}, with few operations each.\n"
        );
    }
    text
}

/// The table of `--list`.
fn list() -> String {
    let row = |group: &str, fact: &Fact, effect| {
        let [sections, certainty, effect] =
            [fact.sections, fact.certainty.name(), effect_name(effect)].map(str::to_owned);
        vec![format!("{group}/{}", fact.name), sections, certainty, effect, column(fact.statement)]
    };
    let local = CheckSelection::default();
    let local = local.checks().map(|(group, check)| row(group.name, &check.fact, check.effect));
    let peer = CHECKS.iter();
    let peer = peer.map(|check| row(PEER, &check.fact, CheckEffect::OwnResources));
    let titles = ["Check", "Fact", "Certainty", "Effect", "Statement"];
    table::lines(&titles, local.chain(peer).collect()).join("\n") + "\n"
}
