//! `selftest`: what the command takes, and its course (docs/hardware.md).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bench::CheckedNic;
use crate::checks::GROUPS;
use crate::document::{Fact, SelfTest, TestedNic};
use crate::effects::{column, effect_name, effects, flags};
use crate::peer::{PEER, PeerRuns};
use crate::run::CheckSelection;
use crate::table::CheckEffect;
use crate::text;
use cli::definition::OptionDef;
use cli::usage::{Completion, Usage};
use cli::{arguments, output};
use facts::child::PROGRAM;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::Failure;
use facts::interrupt;
use facts::number::time_text;
use node::backend;
use page::destination::Destination;
use page::destination::Place;
use page::documents::Documents;
use page::page::Page;
use page::table;
use page::table::TextStyle;
use plan::command_line;
use plan::command_line::Request;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan};

/// Default of `--time-limit`: on hardware all checks take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(50);

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
        options: arguments::entries(options()),
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
    let end = Instant::now() + request.time_limit.unwrap_or(TIME_LIMIT);
    if request.has_local() {
        let ended = crate::run::run(&nic, &request.selection, end, request.with_names, |result| {
            results.add(result);
        });
        results.aftermath = output::or_failure(&documents, ended)?;
    }
    drop(nic);
    if let Some(host) = request.peer.as_deref() {
        let runs = PeerRuns {
            host,
            plan: &plan,
            passed_on: [request.passed_on, request.peer_texts].concat(),
            with_names: request.with_names,
        };
        let ended = runs.execute(&request.peer_names, end, |result| results.add(result));
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

/// What the arguments ask for.
#[derive(Debug, Default)]
struct SelfTestRequest {
    device: Option<DeviceName>,
    peer: Option<String>,
    selection: CheckSelection,
    /// Names of checks of the peer that are selected; `peer` itself selects all.
    peer_names: Vec<String>,
    has_only: bool,
    lists: bool,
    /// Says what the checks do, and does nothing.
    is_dry: bool,
    is_risky: bool,
    /// Time in which checks begin.
    time_limit: Option<Duration>,
    with_names: bool,
    is_quiet: bool,
    report: Option<PathBuf>,
    json: Option<Place>,
    /// Options of service, VNI, traffic class and library, as the tools take them.
    passed_on: Vec<String>,
    /// Options of runs with the peer.
    peer_texts: Vec<String>,
}

impl SelfTestRequest {
    /// Returns whether checks without a peer are selected.
    fn has_local(&self) -> bool {
        !self.has_only || !self.selection.is_empty()
    }

    /// Returns the plan of a run on this NIC: its service is chosen by the rules of the tools.
    fn plan(&self) -> Result<Plan, Failure> {
        let tool = &TOOLS[0];
        let device = self.device.unwrap_or(DEFAULT_DEVICE);
        let own = ["--loopback".to_owned(), format!("--device={device}")];
        let arguments = own.iter().chain(&self.passed_on).map(OsString::from);
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
        let arguments = self.peer_texts.iter().map(OsString::from).chain(["--".into()]).chain(host);
        match command_line::parse(tool, arguments.collect()).map_err(|refusal| refusal.failure)? {
            Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(drop),
            _ => Ok(()),
        }
    }

    fn add(&mut self, name: &str) -> Result<(), String> {
        self.has_only = true;
        if name == PEER || crate::peer::exists(name) {
            self.peer_names.push(name.to_owned());
            return Ok(());
        }
        if self.selection.add(name) {
            return Ok(());
        }
        let groups = groups().join(", ");
        Err(format!("expected a group ({groups}) or a check of --list"))
    }
}

fn options() -> Vec<OptionDef<SelfTestRequest>> {
    type Def = OptionDef<SelfTestRequest>;
    let peer_def = |option: OptionDef<Vec<String>>| -> Def {
        option.within(|request| &mut request.peer_texts)
    };
    let only = Def::text("only", "GROUP|CHECK", |request, typed| {
        typed.split(',').try_for_each(|name| request.add(name))
    })
    .completed_by(Completion::Words(groups))
    .explained(
        "Run this group or check only, such as queues or queues/wrap (default: all); may be \
         repeated\n\n\
         A list with commas names several.",
    )
    .repeated();
    let mut options = vec![
        Def::value("device", "DEV", str::parse::<DeviceName>, |request| &mut request.device)
        .letter('d')
        .completed_by(Completion::Devices)
        .explained(format!("NIC to check (default: {DEFAULT_DEVICE})")),
        Def::text("peer", "HOST", |request, typed| {
            request.peer = Some(typed.to_owned());
            Ok(())
        })
        .completed_by(Completion::Hosts)
        .explained(
            "Also run the tools against 'cxidiag serve' on HOST (default: no peer)\n\n\
             These checks need a second NIC and are the group 'peer': the eight tools, with a few \
             operations each.",
        ),
        peer_def(
            arguments::passed_on("port", "PORT")
                .letter('p')
                .explained(format!("TCP port of the server of --peer (default: {DEFAULT_PORT})")),
        ),
        peer_def(
            arguments::passed_on("peer-device", "DEV|auto")
                .completed_by(Completion::Devices)
                .explained(
                    "NIC of the server of --peer (default: as for the tools)\n\n\
                     DEV is a name, or 'auto' for the NIC with the name of the NIC of this machine.",
                ),
        ),
        only,
        Def::switch("list", |request| request.lists = true).explained(
            "List the checks with their facts, and check nothing\n\n\
             The list also has the sections that state the facts, and how certain these are.",
        ),
        Def::switch("dry-run", |request| request.is_dry = true).explained(
            "Say what the checks would do to the NIC, and check nothing\n\n\
             The text has the effects of the selected checks and the error flags that they would set. No NIC is opened.",
        ),
        Def::switch("risky", |request| {
            request.is_risky = true;
            request.selection.allow_risk();
        })
        .explained(
            "Also run the checks that stop a queue in a way that no other program does\n\n\
             If the driver cannot release such a queue, its service cannot be destroyed before \
             the node is rebooted. Not in the service of a job. The check of SWAP runs too, which \
             raises PCIe (AER) errors on some nodes.",
        ),
        Def::time("time-limit", Duration::ZERO..=LONGEST, |request| &mut request.time_limit)
        .explained(format!(
            "Begin no check after TIME (default: {})\n\n\
             Checks that have not begun by then are not examined: exit status 4.",
            time_text(TIME_LIMIT)
        )),
        Def::file("report", |request| &mut request.report).explained(
            "Write all results to FILE, as text for an issue (default: no file)\n\n\
             The text has the NIC, its software and the result of each check. Without --with-names the text \
             has no names of hosts and no addresses.",
        ),
        Def::switch("with-names", |request| request.with_names = true).explained(
            "Leave the names of hosts and the addresses of NICs in the results\n\n\
             Without this option, addresses in the bytes of commands and events are 0.",
        ),
    ];
    let service = arguments::service();
    let passed_on =
        service.map(|option| -> Def { option.within(|request| &mut request.passed_on) });
    options.extend(passed_on);
    options.push(output::quiet().within(|request| &mut request.is_quiet));
    options.push(output::json().within(|request| &mut request.json));
    let library = arguments::passed_on("libcxi", "PATH").completed_by(Completion::Files);
    let library = library.explained("Library to load for hardware (default: as for the tools)");
    options.push(library.within(|request| &mut request.passed_on));
    options
}

/// Returns the names of the groups.
fn groups() -> Vec<String> {
    let names = GROUPS.iter().map(|group| group.name);
    names.chain([PEER]).map(str::to_owned).collect()
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<SelfTestRequest>, Failure> {
    let mut request = SelfTestRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    let mut devices: Vec<DeviceName> = request.device.into_iter().collect();
    arguments::add_devices(&mut devices, words, arguments)?;
    request.device = arguments::one_device(&devices)?;
    if request.peer.is_none() {
        if !request.peer_names.is_empty() {
            let message = format!("--only={PEER} needs --peer=HOST");
            return Err(Failure::usage(message));
        }
        if let Some(option) = request.peer_texts.first() {
            let message = format!("{option} has no effect without --peer");
            return Err(Failure::usage(message));
        }
    } else {
        request.check_peer()?;
    }
    if request.peer.is_some() && request.has_only && request.peer_names.is_empty() {
        let message = format!("--peer has no effect without --only={PEER}");
        return Err(Failure::usage(message));
    }
    Ok(Some(request))
}

/// Returns the text of `--dry-run`.
fn dry_run(request: &SelfTestRequest) -> String {
    let mut text = String::new();
    if request.has_local() {
        text += "Each check allocates an LNI, a PID, a profile, an event queue, two command queues and\n\
                 512 KiB of memory in the service, and releases them.\n\n";
        let titles = ["Effect", ">Checks", "What they do"];
        text += &(table::lines(&titles, effects(&request.selection)).join("\n") + "\n");
        let flags = flags(&request.selection);
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

/// Returns the table of `--list`.
fn list() -> String {
    let row = |group: &str, fact: &Fact, effect| {
        let [sections, certainty, effect] =
            [fact.sections, fact.certainty.name(), effect_name(effect)].map(str::to_owned);
        vec![format!("{group}/{}", fact.name), sections, certainty, effect, column(fact.statement)]
    };
    let local = CheckSelection::default();
    let local = local.checks().map(|(group, check)| row(group.name, &check.fact, check.effect));
    let peer = crate::peer::CHECKS.iter();
    let peer = peer.map(|check| row(PEER, &check.fact, CheckEffect::OwnResources));
    let titles = ["Check", "Fact", "Certainty", "Effect", "Statement"];
    table::lines(&titles, local.chain(peer).collect()).join("\n") + "\n"
}
