//! `compare`: shows the results of two sides, runs, surveys or checks, and decides whether the
//! second is worse (docs/output-formats.md).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::LazyLock;

use clap::{Args, Command};

use crate::changes::{self, Changes};
use crate::comparison::{Comparison, MAX_REGRESS};
use crate::expected::StoredVerdicts;
use crate::layers::{self, LayerComparison};
use crate::results::{self, ComparedResult};
use crate::runs::{self, ReadRun, RunSource};
use crate::text;
use check::document::Check;
use cli::arguments::TypedArguments;
use cli::parser::hint_before;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived, output};
use facts::error::{Context, Failure, invalid};
use facts::expect::{self, Expectation, Metric};
use facts::number::percent;
use facts::percentile::Percentile;
use page::destination::Place;
use page::documents::Documents;
use page::page::{Page, style_of_stdout};
use page::table::TextStyle;
use report::columns::{COLUMNS, Column};
use survey::result::Survey;

/// Name of the command, for warnings.
const NAME: &str = "cxidiag compare";

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag compare".into(),
        about: "Compare the results of runs, surveys or checks",
        synopsis: vec![
            ("cxidiag compare BASE NEW [OPTIONS]".into(), ""),
            ("cxidiag compare BASE... -- NEW... [OPTIONS]".into(), ""),
            ("cxidiag compare --expect=LIST FILE...".into(), "Check stored runs against bounds"),
            ("cxidiag compare --layers FILE... [-- NEW...]".into(), "Show what each layer adds"),
        ],
        arguments: Completion::Files,
        about_arguments: "BASE and NEW are files that tools wrote with --json=FILE or --jsonl=FILE, with\n\
                          one run or many, or what tools printed, also the legacy ones and .gz; - is\n\
                          standard input. Give five runs a side: runs are ranked\n\
                          (test of Mann and Whitney) as soon as their numbers allow a level of 1% for\n\
                          each size, such as 5 and 5, 4 and 6, 3 and 8, or 1 and 99. With fewer runs,\n\
                          only large changes count. One run a side without --interval finds only drops\n\
                          of a bandwidth by more than a third.\n\
                          Each tool, NIC, peer and setting is compared with itself.\n\
                          Documents of survey --json (one a side) and of check --json (any number of\n\
                          hosts) are compared by NIC.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Exit status 3 if a size has regressed: its metric is worse in NEW by more than\n\
             PERCENT and by more than the noise, or NEW did not measure it completely; or if\n\
             a NIC, a class of pairs or an item of a check got worse. Exit status 4 if the\n\
             noise hides a change of PERCENT. With --expect: 3 if a bound is not met, or if a\n\
             size that it names was not measured completely. With --layers and two sets: 3 if\n\
             a layer got slower.",
        ],
        ..Usage::default()
    }
}

/// The metrics that can decide: those with a column in CSV, which leaves out the maximum as p100.
fn figures() -> Vec<String> {
    COLUMNS
        .iter()
        .filter(|column| column.csv.is_some())
        .filter_map(Column::shown_metric)
        .map(|metric| metric.to_string())
        .collect()
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be read or written, results of different tools, or a
/// regression.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    if !request.expect.is_empty() {
        return check_expectations(&request, &arguments);
    }
    if request.has_layers {
        return compare_layers(&request, &arguments);
    }
    if let Some(json) = &request.json {
        let sources: Vec<RunSource> = request.base.iter().chain(&request.new).cloned().collect();
        results::check_output(&sources, "json", json)?;
    }
    let documents = Documents::open_json(request.json.as_ref())?;
    let read = |files| output::or_failure(&documents, read(files, &arguments));
    let (base, new) = (read(&request.base)?, read(&request.new)?);
    output::or_failure(&documents, check_kinds(&base, &new))?;
    let limit = request.max_regress.unwrap_or(MAX_REGRESS);
    let changes = match (base.runs.is_empty(), &*base.surveys, &*new.surveys) {
        (false, ..) => return compare_runs(&request, &documents, &base.runs, &new.runs),
        (true, [], []) => Changes::from_checks(&base.checks, &new.checks, limit),
        (true, [(base, old)], [(new, now)]) => {
            Changes::from_surveys((base, old), (new, now), limit)
        }
        (true, ..) => {
            let hint = "'cxidiag report' draws the history of NICs over many surveys";
            let failure = Failure::usage("several surveys on a side: compare one with one");
            return output::or_failure(&documents, Err(failure.with_hint(hint)));
        }
    };
    if let Some(figure) = request.figure {
        let allowed = "surveys and checks have no metric that decides";
        let failure = Failure::usage(invalid("figure", figure, allowed));
        return output::or_failure(&documents, Err(failure));
    }
    let result = changes.result();
    let page = shown(&request, changes::page(&changes), &result);
    documents.print_page(request.form(), &page)?;
    documents.write_json(&changes)?;
    result
}

/// Checks stored runs against the expectations that were typed. A tool skips the bounds for which
/// it has no metric.
fn check_expectations(request: &ComparisonRequest, arguments: &[OsString]) -> Result<(), Failure> {
    let expectations = request.expect.concat();
    let read = read(&request.base, arguments)?;
    if let Some((kind, file)) = read.kinds().find(|(kind, _)| *kind != RUN) {
        let allowed = format!("{file} is {kind}; bounds are for runs of tools");
        return Err(Failure::usage(invalid("expect", &expectations[0].text, allowed)));
    }
    if read.runs.is_empty() {
        return Err(Failure::environment("nothing to check: no runs"));
    }
    // Lines of a profile name their tools.
    for Expectation { metric, text, .. } in expectations.iter().filter(|one| one.tool.is_none()) {
        check_metric(("expect", text), *metric, &read.runs.iter().collect::<Vec<_>>())?;
    }
    let verdicts = StoredVerdicts::new(&read.runs, &expectations);
    if verdicts.is_empty() {
        let tools: BTreeSet<&str> = read.runs.iter().map(|run| run.outcome.tool.as_str()).collect();
        let tools = tools.into_iter().collect::<Vec<_>>().join(", ");
        let why = format!("--expect has no bound for what was measured ({tools})");
        return Err(Failure::undecided(format!("nothing to check: {why}")));
    }
    let text = verdicts.page().text(request.form());
    io::stdout().write_all(text.as_bytes()).environment("cannot write the verdicts")?;
    verdicts.result()
}

/// Shows what each layer adds, and with two sets which layer changed.
fn compare_layers(request: &ComparisonRequest, arguments: &[OsString]) -> Result<(), Failure> {
    let documents = Documents::open_json(request.json.as_ref())?;
    let compare = || {
        let [base, new] = [read(&request.base, arguments)?, read(&request.new, arguments)?];
        if let Some((kind, file)) = base.kinds().chain(new.kinds()).find(|(kind, _)| *kind != RUN) {
            return Err(Failure::usage(format!("--layers is for runs: {file} is {kind}")));
        }
        LayerComparison::new(&base.runs, &new.runs)
    };
    let compared = output::or_failure(&documents, compare())?;
    let result = compared.result();
    let page = shown(request, layers::page(&compared), &result);
    documents.print_page(request.form(), &page)?;
    documents.write_json(&compared)?;
    result
}

fn compare_runs(
    request: &ComparisonRequest,
    documents: &Documents,
    base: &[ReadRun],
    new: &[ReadRun],
) -> Result<(), Failure> {
    let compare = || {
        check_tools(base, new)?;
        if let Some(metric) = request.figure {
            let runs: Vec<&ReadRun> = base.iter().chain(new).collect();
            check_metric(("figure", &metric.to_string()), metric, &runs)?;
        }
        let limit = request.max_regress.unwrap_or(MAX_REGRESS);
        Comparison::new(base, new, request.figure, limit)
    };
    let comparison = output::or_failure(documents, compare())?;
    let page = text::page(&comparison, request.is_verbose);
    let result = comparison.result();
    documents.print_page(request.form(), &shown(request, page, &result))?;
    documents.write_json(&comparison)?;
    result
}

/// The page of a comparison; of a quiet one the verdict alone, which failures print.
fn shown(request: &ComparisonRequest, page: Page, result: &Result<(), Failure>) -> Page {
    if !request.is_quiet {
        return page;
    }
    let mut verdict = Page::default();
    verdict.lines(result.is_ok().then_some("ok"));
    verdict
}

/// What a file with a run holds.
const RUN: &str = "a run of a tool";

/// The results of one side.
#[derive(Default)]
struct ReadSide {
    runs: Vec<ReadRun>,
    /// Each with the name of its file.
    surveys: Vec<(String, Box<Survey>)>,
    checks: Vec<(String, Check)>,
}

impl ReadSide {
    fn add(&mut self, result: ComparedResult) {
        match result {
            ComparedResult::Run(run) => self.runs.push(*run),
            ComparedResult::Survey(file, survey) => self.surveys.push((file, survey)),
            ComparedResult::Check(file, check) => self.checks.push((file, *check)),
        }
    }

    /// The first file of each kind of result that the side has.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let run = self.runs.first().map(|run| (RUN, run.file.as_str()));
        let survey = self.surveys.first().map(|(file, _)| ("a survey", file.as_str()));
        let check = self.checks.first().map(|(file, _)| ("a check", file.as_str()));
        [run, survey, check].into_iter().flatten()
    }
}

/// Checks that both sides have results of one kind.
fn check_kinds(base: &ReadSide, new: &ReadSide) -> Result<(), Failure> {
    let mut kinds = base.kinds().chain(new.kinds());
    let Some((first, file)) = kinds.next() else {
        return Err(Failure::environment("nothing to compare: no results"));
    };
    match kinds.find(|(kind, _)| *kind != first) {
        None => Ok(()),
        Some((other, other_file)) => Err(Failure::usage(format!(
            "cannot compare results of different kinds: {file} is {first}, {other_file} is {other}"
        ))),
    }
}

/// Checks that both sides have runs of a tool.
fn check_tools(base: &[ReadRun], new: &[ReadRun]) -> Result<(), Failure> {
    if base.iter().any(|run| new.iter().any(|other| other.outcome.tool == run.outcome.tool)) {
        return Ok(());
    }
    let ([first, ..], [other, ..]) = (base, new) else {
        return Err(Failure::environment("nothing to compare: no runs"));
    };
    let failure = Failure::usage(format!(
        "cannot compare results of different tools: {} is from {}, {} from {}",
        first.file, first.outcome.tool, other.file, other.outcome.tool
    ));
    Err(failure.with_hint("--layers compares what libcxi, libfabric and MPI add"))
}

/// Checks that the runs of a tool have the metric that an option with this name and value asks for.
/// Warns of other tools.
fn check_metric(
    (option, typed): (&'static str, &str),
    metric: Metric,
    runs: &[&ReadRun],
) -> Result<(), Failure> {
    let refused = |allowed: String| Err(Failure::usage(invalid(option, typed, allowed)));
    let has_metric = |run: &&&ReadRun| run.measures_bandwidth() == metric.is_of_bandwidth();
    let (runs, others): (Vec<&ReadRun>, Vec<&ReadRun>) =
        runs.iter().copied().partition(|run| has_metric(&run));
    if let Some(other) = others.first() {
        let measured = Metric::names(!metric.is_of_bandwidth());
        if runs.is_empty() {
            return refused(format!("{} measures {measured}", other.outcome.tool));
        }
        let tools: BTreeSet<&str> = others.iter().map(|run| run.outcome.tool.as_str()).collect();
        let tools = tools.into_iter().collect::<Vec<_>>().join(", ");
        warn(format_args!("{typed} is left out for {tools}: it has no such metric"));
    }
    let printed = runs.iter().find(|run| run.outcome.is_printed());
    if let (Metric::Percentile(_), Some(printed)) = (metric, printed) {
        let file = &printed.file;
        return refused(format!(
            "{file} is the text of a run, which has min, max, mean and stddev"
        ));
    }
    let has = |run: &ReadRun, percent| {
        let options = run.outcome.options.as_ref();
        options.is_some_and(|options| options.percentiles.contains(&percent))
    };
    if let Metric::Percentile(percentile) = metric
        && !Percentile::STANDARD.contains(&percentile)
        && let Some(without) = runs.iter().find(|run| !has(run, percentile.percent()))
    {
        let names = Percentile::STANDARD.map(|percentile| percentile.to_string());
        let percent = percentile.percent();
        return refused(format!(
            "{} has only {} (see --percentiles={percent} of the tool)",
            without.file,
            names.join(", ")
        ));
    }
    Ok(())
}

/// Reads the results of one side. Prints a warning for each line and for the documents of servers
/// that are left out.
fn read(sources: &[RunSource], arguments: &[OsString]) -> Result<ReadSide, Failure> {
    let mut all = ReadSide::default();
    for source in sources {
        let read = results::read_compared(source).map_err(|failure| match sources {
            [_] => failure,
            _ => failure.with_hint_if(meant_for_json(source, arguments)),
        });
        let (results, warnings) = read?;
        warnings.iter().for_each(warn);
        results.into_iter().for_each(|result| all.add(result));
    }
    runs::leave_out_servers(&mut all.runs, |run| Some(&run.outcome)).iter().for_each(warn);
    Ok(all)
}

/// A hint if the file stands directly after `--json`: the user probably wanted `--json=FILE`.
fn meant_for_json(source: &RunSource, arguments: &[OsString]) -> Option<String> {
    match source {
        RunSource::Stdin => None,
        RunSource::File(path) => hint_before(path.as_os_str(), arguments, ["json"].into_iter()),
    }
}

fn warn(what: impl Display) {
    results::warn(NAME, what);
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<ComparisonRequest>);

/// The bounds of one `--expect`.
type Bounds = Vec<Expectation>;

/// What the arguments ask for.
#[derive(Debug, Args)]
struct ComparisonRequest {
    #[arg(long, value_name = "PERCENT", value_parser = max_regress)]
    #[arg(help = format!(
        "Largest change for the worse (default: {MAX_REGRESS}%)\n\n\
         PERCENT is a share of the metric of BASE."
    ))]
    max_regress: Option<f64>,

    #[arg(long, value_name = "FIGURE", value_parser = figure, add = Completion::Words(figures))]
    #[arg(help = format!(
        "Metric that decides (default: p50 for latencies, mean if a file is text, bw for \
         bandwidths): {}",
        figures().join(", ")
    ))]
    figure: Option<Metric>,

    /// Check the files against bounds instead, such as "bw>=23GB/s" or "64K:mean<9us", those in
    /// @FILE, or published ones by name, such as slingshot200-same-switch; exit status 3 if any is
    /// not met
    ///
    /// LIST has the form of --expect of the tools. A line of FILE may begin with the name of a tool
    /// or program, and is then for the sizes that it measured. The files may be logs of several
    /// tools, and text that they printed, also the legacy ones. Text has no percentiles. Not with
    /// --figure, --max-regress, --layers or --json.
    #[arg(long, value_name = "LIST", value_parser = bounds, add = Completion::Words(expect::profile_names))]
    expect: Vec<Bounds>,

    /// Show what each layer adds for one pair of NICs: libcxi (cxidiag, legacy tools), libfabric
    /// (fi_pingpong, fabtests) and MPI (OSU, IMB); with NEW files, which layer changed
    ///
    /// The files may be what these programs printed. Not with --figure, --max-regress or --expect.
    #[arg(long = "layers")]
    has_layers: bool,

    /// Show the other metrics too, and the noise of several NICs
    #[arg(long = "verbose")]
    is_verbose: bool,

    /// Print the text as Markdown
    ///
    /// The text and its table suit issues, wikis and summaries of jobs.
    #[arg(long = "markdown")]
    is_markdown: bool,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    json: Option<Place>,

    #[arg(skip)]
    base: Vec<RunSource>,

    #[arg(skip)]
    new: Vec<RunSource>,
}

impl ComparisonRequest {
    fn form(&self) -> TextStyle {
        if self.is_markdown { TextStyle::Markdown } else { style_of_stdout() }
    }

    /// Adds the options after the separator. The last of several equal options counts.
    fn with(self, later: Self) -> Self {
        Self {
            max_regress: later.max_regress.or(self.max_regress),
            figure: later.figure.or(self.figure),
            expect: [self.expect, later.expect].concat(),
            has_layers: self.has_layers || later.has_layers,
            is_verbose: self.is_verbose || later.is_verbose,
            is_markdown: self.is_markdown || later.is_markdown,
            is_quiet: self.is_quiet || later.is_quiet,
            json: later.json.or(self.json),
            ..self
        }
    }
}

fn max_regress(typed: &str) -> Result<f64, &'static str> {
    percent(typed).ok_or("expected a percentage such as 5%")
}

fn figure(typed: &str) -> Result<Metric, String> {
    typed.parse().map_err(|why: String| format!("{why}: the metrics are {}", figures().join(", ")))
}

fn bounds(typed: &str) -> Result<Bounds, String> {
    match expect::profile_text(typed)? {
        Some(text) => expect::parse_lines(&text, None),
        // The metrics of bandwidth tools are bw and rate.
        None => expect::parse(typed, typed.contains("bw") || typed.contains("rate")),
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<ComparisonRequest>, Failure> {
    let (before, after) = arguments::parts(arguments);
    let Some((request, base)) = read_side(before)? else { return Ok(None) };
    let Some((later, new)) = read_side(after.unwrap_or_default())? else { return Ok(None) };
    let mut request = request.with(later);
    if !request.expect.is_empty() {
        return checked_side(request, base, after.is_some()).map(Some);
    }
    if request.has_layers {
        return layered(request, base, new, after.is_some()).map(Some);
    }
    if after.is_some() {
        (request.base, request.new) = (base, new);
    } else {
        match <[RunSource; 2]>::try_from(base) {
            Ok([base, new]) => (request.base, request.new) = (vec![base], vec![new]),
            Err(files) => {
                let hint = files.iter().find_map(|file| meant_for_json(file, arguments));
                return Err(misplaced(&format!(
                    "{} given: two are one run of the base and one new run; with more, -- stands \
                     between both sides",
                    counted(files.len())
                ))
                .with_hint_if(hint));
            }
        }
    }
    if request.base.is_empty() || request.new.is_empty() {
        return Err(misplaced("there are no files on one side of --"));
    }
    results::check_stdin(request.base.iter().chain(&request.new))?;
    Ok(Some(request))
}

/// The request to compare layers.
fn layered(
    mut request: ComparisonRequest,
    base: Vec<RunSource>,
    new: Vec<RunSource>,
    has_separator: bool,
) -> Result<ComparisonRequest, Failure> {
    let others =
        [("--max-regress", request.max_regress.is_some()), ("--figure", request.figure.is_some())];
    if let Some((other, _)) = others.iter().find(|(_, is_typed)| *is_typed) {
        return Err(misplaced(&format!("--layers has limits of its own and goes without {other}")));
    }
    if base.is_empty() || (has_separator && new.is_empty()) {
        return Err(misplaced(
            "--layers takes the files of one pair of NICs, and new ones behind --",
        ));
    }
    results::check_stdin(base.iter().chain(&new))?;
    if let Some(json) = &request.json {
        let sources: Vec<RunSource> = base.iter().chain(&new).cloned().collect();
        results::check_output(&sources, "json", json)?;
    }
    (request.base, request.new) = (base, new);
    Ok(request)
}

/// The request to check the files of the only side against bounds.
fn checked_side(
    mut request: ComparisonRequest,
    files: Vec<RunSource>,
    has_separator: bool,
) -> Result<ComparisonRequest, Failure> {
    let other_options = [
        ("--max-regress", request.max_regress.is_some()),
        ("--figure", request.figure.is_some()),
        ("--json", request.json.is_some()),
        ("--layers", request.has_layers),
    ];
    if let Some((other, _)) = other_options.iter().find(|(_, is_typed)| *is_typed) {
        return Err(misplaced(&format!("--expect compares nothing and goes without {other}")));
    }
    if has_separator || files.is_empty() {
        return Err(misplaced("--expect takes the files of one side, one or more"));
    }
    results::check_stdin(files.iter())?;
    request.base = files;
    Ok(request)
}

/// Reads the arguments on one side of the separator: its options and its files. Returns `None` if
/// they ask for help or the version.
fn read_side(
    arguments: &[OsString],
) -> Result<Option<(ComparisonRequest, Vec<RunSource>)>, Failure> {
    let typed = TypedArguments::<ComparisonRequest>::read(&usage(), &COMMAND, arguments)?;
    Ok(typed.map(|TypedArguments { request, words, .. }| {
        (request, words.iter().map(|file| RunSource::of(Path::new(file))).collect())
    }))
}

/// A failure because of the files in the arguments.
fn misplaced(what: &str) -> Failure {
    Failure::usage(format!("{what} (see {NAME} --help)"))
}

fn counted(files: usize) -> String {
    match files {
        0 => "no files are".into(),
        1 => "one file is".into(),
        files => format!("{files} files are"),
    }
}
