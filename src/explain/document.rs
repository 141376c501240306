//! The explanation of a failure, as data, JSON and text. The doc comments of the types are the
//! descriptions in their schema, docs/explain.schema.json.

use serde::Serialize;

use facts::error::{Failure, UNDECIDED};
use facts::number::{and_more, counted, listed};
use facts::severity::Severity;
use page::page::{Page, Words};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows of the text that name further messages or hosts.
const MOST_NAMES: usize = 3;

/// Columns of a message in the text.
const MESSAGE_COLUMNS: usize = 100;

/// Commands that speak of the node where they run.
const NODE_COMMANDS: [&str; 6] =
    ["cxidiag check", "cxidiag devices", "cxidiag link", "dmesg", "journalctl", "systemctl"];

/// Possible causes in the text.
const MOST_CAUSES: usize = 3;

facts::named_enum! {
    /// How sure an explanation is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Confidence {
        /// A message names the cause, and an independent log or reading confirms it.
        Known = "known",
        /// A message names the cause.
        Probably = "probably",
        /// Only consequences were found.
        Possibly = "possibly",
        /// No message says more than a note.
        NothingFound = "nothing_found",
        /// There are no known messages, but lines that look like errors.
        NotKnown = "not_known",
    }
    /// Its name in documents.
    pub fn name(self);
}

/// Why a job failed, as `cxidiag explain --json` writes it. A value that is unknown is null.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of cxidiag.
    pub cxidiag_version: &'static str,
    /// Exit status of the program: 0 if the cause was found, or no line looks like
    /// a failure; 4 if not.
    pub exit_status: u8,
    /// The first line of the text.
    pub summary: String,
    /// How sure the cause is.
    pub confidence: Confidence,
    /// The logs, in the order of the arguments.
    pub logs: Vec<LogSummary>,
    /// The first cause.
    pub cause: Option<ExplainedCause>,
    /// Causes that do not follow from it, the earliest first.
    pub other_causes: Vec<ExplainedCause>,
    /// Messages that follow from a cause.
    pub consequences: Vec<FoundMessage>,
    /// Messages that are harmless.
    pub notes: Vec<FoundMessage>,
    /// What the logs lack for a surer explanation.
    pub missing: Vec<String>,
    /// The most frequent lines that look like errors, if nothing is known.
    pub unknown_lines: Vec<UnknownLine>,
}

/// A log.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LogSummary {
    /// Name of the file; - for standard input.
    pub name: String,
    /// Number of lines.
    pub lines: u64,
}

/// A cause.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ExplainedCause {
    /// The message.
    #[serde(flatten)]
    pub message: FoundMessage,
    /// The host at fault, as far as the logs say it.
    pub host: Option<String>,
    /// The NIC at fault: its name on its host.
    pub device: Option<String>,
    /// Address of the NIC at fault (NID).
    pub nid: Option<u32>,
    /// The rank at fault.
    pub rank: Option<u32>,
    /// Whether the part at fault is a peer that the logs do not name.
    #[serde(skip)]
    pub is_unknown_peer: bool,
    /// Possible causes of the message, the most likely one first.
    pub possible_causes: Vec<PossibleCause>,
    /// What the message does not mean.
    pub exclusions: Vec<String>,
    /// What proves the cause.
    pub proof: Option<String>,
    /// What to do.
    pub action: Option<String>,
    /// The next command.
    pub command: Option<String>,
}

/// A possible cause of a message.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PossibleCause {
    /// The cause.
    pub text: String,
    /// What this node says about it, with --here: true if it is so, false if not; null if it was
    /// not asked or cannot be read.
    pub is_here: Option<bool>,
    /// The reading that says it.
    pub reading: Option<String>,
    #[serde(skip)]
    pub key: Option<&'static str>,
}

/// A message in the logs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FoundMessage {
    /// Its identifier in docs/reference/messages.md.
    pub id: String,
    /// Name of the return code in the message.
    pub code: Option<String>,
    /// What the message says.
    pub says: String,
    /// The longest fixed part of the message.
    pub fragment: String,
    /// cause, consequence, alone (a note, but the cause of a failure without any other) or note.
    pub role: String,
    /// Who prints it.
    pub producer: String,
    /// Number of lines.
    pub count: u64,
    /// Hosts that printed it.
    pub hosts: Vec<String>,
    /// Number of ranks that printed it.
    pub ranks: usize,
    /// The log with the first line.
    pub log: String,
    /// Number of this line.
    pub line: u64,
    /// Time of this line, as it stands there.
    pub time: Option<String>,
    /// Host that printed this line.
    pub printed_by_host: Option<String>,
    /// Rank that printed this line.
    pub printed_by_rank: Option<u32>,
    /// The line.
    pub text: String,
    /// The line from the message on.
    #[serde(skip)]
    pub message: String,
}

/// A line that looks like an error.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct UnknownLine {
    /// The line, with # for each number.
    pub text: String,
    /// How often it stands in the logs.
    pub count: u64,
}

impl Explanation {
    /// Fails with the summary if the cause was not found.
    ///
    /// # Errors
    ///
    /// The summary.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary).map_err(Failure::printed)
    }
}

impl FoundMessage {
    /// Returns its return code, or its identifier.
    pub fn name(&self) -> &str {
        self.code.as_deref().unwrap_or(&self.id)
    }

    /// A short name for readers: the return code, or the fixed part of the message.
    fn label(&self) -> String {
        self.code.clone().unwrap_or_else(|| format!("'{}'", self.fragment))
    }

    /// Returns where and when the first line was printed.
    fn place(&self) -> String {
        let rank = self.printed_by_rank.map(|rank| format!("rank {rank}"));
        let parts = [self.time.clone(), self.printed_by_host.clone(), rank];
        let parts = parts.into_iter().flatten().map(|part| format!(", {part}"));
        format!("{}:{}{}", self.log, self.line, parts.collect::<String>())
    }

    /// The beginning of the message.
    fn beginning(&self) -> String {
        self.message.chars().take(MESSAGE_COLUMNS).collect()
    }
}

impl ExplainedCause {
    /// A command, with the node where it has to run as a comment of the shell.
    fn with_place(&self, command: &str) -> String {
        let is_of_node = NODE_COMMANDS.iter().any(|name| command.starts_with(name));
        // The retry handler reports at the node that sends.
        let is_journal = command.starts_with("journalctl");
        let node = match (&self.host, self.nid) {
            (Some(host), _) if !is_journal => Some(host.clone()),
            (None, Some(nid)) if !is_journal => Some(format!("the node of NIC {nid:#x}")),
            _ => self.message.printed_by_host.clone(),
        };
        let node = node.filter(|_| is_of_node && !command.contains("--job"));
        node.map_or_else(|| command.to_owned(), |node| format!("{command}  # on {node}"))
    }
}

impl PossibleCause {
    fn shown(&self) -> String {
        match (self.is_here, &self.reading) {
            (Some(is_here), Some(reading)) => {
                let verdict = if is_here { "yes" } else { "no" };
                format!("{} (here: {verdict}, {reading})", self.text)
            }
            _ => self.text.clone(),
        }
    }
}

/// The text of an explanation: at most ten lines.
pub fn page(explanation: &Explanation) -> Page {
    let severity = match explanation.confidence {
        Confidence::Known | Confidence::Probably => Severity::Bad,
        Confidence::Possibly | Confidence::NotKnown => Severity::Suspect,
        Confidence::NothingFound => Severity::Good,
    };
    let mut page = Page::default();
    page.line(Words::first(severity, &explanation.summary));
    if let Some(cause) = &explanation.cause
        && explanation.confidence != Confidence::NotKnown
    {
        cause_facts(&mut page, cause);
    }
    if !explanation.consequences.is_empty() {
        page.fact("follows from it", consequences(&explanation.consequences));
    }
    if explanation.cause.is_none() {
        for note in explanation.notes.iter().take(MOST_NAMES) {
            page.fact("note", format!("{} ({})", note.says, note.place()));
        }
    }
    if let Some(other) = explanation.other_causes.first() {
        let more = and_more(explanation.other_causes.len() - 1);
        page.fact(
            "another cause",
            format!("{} ({}){more}", other.message.says, other.message.place()),
        );
    }
    for line in &explanation.unknown_lines {
        let text: String = line.text.chars().take(MESSAGE_COLUMNS).collect();
        page.fact(&counted(line.count, "line"), text);
    }
    if !explanation.unknown_lines.is_empty() {
        let advice =
            "send them to those who wrote the program that prints them, with the whole log";
        page.fact("what to do", advice);
    }
    if !explanation.missing.is_empty() {
        page.fact("missing", explanation.missing.join("; "));
    }
    page
}

fn cause_facts(page: &mut Page, cause: &ExplainedCause) {
    page.fact("first line", format!("{}: {}", cause.message.place(), cause.message.beginning()));
    match &cause.possible_causes[..] {
        [] => {}
        [only] => page.fact("because", only.shown()),
        several => {
            let texts = several.iter().take(MOST_CAUSES).enumerate();
            let texts = texts.map(|(at, cause)| format!("{}. {}", at + 1, cause.shown()));
            let more = and_more(several.len().saturating_sub(MOST_CAUSES));
            page.fact("possible causes", texts.collect::<Vec<_>>().join("; ") + &more);
        }
    }
    let exclusions = cause.exclusions.join(", or ");
    for (label, text) in [
        ("this is not", &Some(exclusions).filter(|text| !text.is_empty())),
        ("proof", &cause.proof),
        ("what to do", &cause.action),
        ("next command", &cause.command.as_ref().map(|command| cause.with_place(command))),
    ] {
        if let Some(text) = text {
            page.fact(label, text);
        }
    }
}

fn consequences(messages: &[FoundMessage]) -> String {
    let lines: u64 = messages.iter().map(|message| message.count).sum();
    let ranks = messages.iter().map(|message| message.ranks).max().unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for name in messages.iter().map(FoundMessage::label) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let printed = if ranks > 1 { format!(" of {ranks} ranks") } else { String::new() };
    format!("{}{printed}: {}", counted(lines, "line"), listed(&names, MOST_NAMES))
}

/// The text of `--all`: each message, the causes first.
pub fn all_messages(explanation: &Explanation) -> Page {
    let mut page = Page::default();
    let causes = explanation.cause.iter().chain(&explanation.other_causes);
    let messages = causes.map(|cause| &cause.message);
    let messages: Vec<&FoundMessage> =
        messages.chain(&explanation.consequences).chain(&explanation.notes).collect();
    if messages.is_empty() {
        return page;
    }
    page.empty_line();
    let rows = messages.into_iter().map(|message| {
        vec![
            message.role.clone(),
            message.name().to_owned(),
            message.count.to_string(),
            message.hosts.len().to_string(),
            message.ranks.to_string(),
            message.place(),
            message.beginning(),
        ]
    });
    page.table(&["role", "message", ">lines", ">hosts", ">ranks", "first", "line"], rows);
    page
}

/// The exit status of an explanation.
pub fn exit_status(confidence: Confidence) -> u8 {
    if confidence == Confidence::NotKnown { UNDECIDED } else { 0 }
}
