//! Decides which message is the cause and which ones follow from it (messages.md 1, 4).

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{
    Confidence, ExplainedCause, Explanation, FoundMessage, LogSummary, PossibleCause,
    SCHEMA_VERSION, UnknownLine, exit_status,
};
use crate::scan::{Group, Log};
use crate::table::{Form, Role, Row, TABLE, Values};
use facts::advice::call_explanation;
use facts::number::counted;

/// Seconds by which the report of a cause may be later than a consequence: launchers report the end
/// of a process after its core dump.
const REPORT_DELAY: f64 = 120.0;

/// Seconds after which an event of a node no longer makes a job fail, unless nothing else does. [I]
const LATEST_EFFECT: f64 = 3600.0;

/// Lines that look like errors in the explanation.
const MOST_UNKNOWN: usize = 3;

/// Peers from which on one NIC that reaches none of them is the suspect itself. [I]
const FEW_PEERS: usize = 3;

/// A group of messages, with the rows that explain it.
#[derive(Clone, Copy)]
struct Evidence<'a> {
    group: &'a Group,
    row: &'static Row,
    code: Option<&'static Row>,
}

impl<'a> Evidence<'a> {
    fn new(group: &'a Group) -> Self {
        let code = group.code.map(|code| &TABLE.rows[code]);
        Self { group, row: &TABLE.rows[group.row], code }
    }

    /// The rows, the one of the return code first.
    fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.code.into_iter().chain([self.row])
    }

    fn role(&self) -> Role {
        match (self.row.role, self.code) {
            (Role::Code, Some(code)) => code.role,
            (Role::Code, None) => Role::Consequence,
            (role, _) => role,
        }
    }

    /// Whether it speaks of the peer of the process that prints it.
    fn is_about_peer(&self) -> bool {
        self.row.role == Role::Code && self.code.is_some_and(|code| code.origin == "target")
    }

    fn is_named_in(&self, follows: &[&str]) -> bool {
        self.rows().any(|row| follows.contains(&row.id))
    }

    /// Whether this message follows from another one that stands in the logs.
    fn follows(&self, other: &Self) -> bool {
        self.rows().any(|row| other.is_named_in(&row.follows)) && !other.is_at_another_time(self)
    }

    /// Whether this message is too late, or too long before, to be the cause of another.
    fn is_at_another_time(&self, consequence: &Self) -> bool {
        let delay = self.group.first.seconds_behind(&consequence.group.first);
        delay.is_some_and(|delay| {
            delay > REPORT_DELAY || (self.is_event() && -delay > LATEST_EFFECT)
        })
    }

    /// Whether this is an event of a node, which passes; not a state or an end.
    fn is_event(&self) -> bool {
        witness(self.row.origin) == "kernel"
    }

    /// Whether another message explains this one. A consequence explains another one only in logs
    /// without a cause.
    fn is_explained(&self, others: &[Self]) -> bool {
        others.iter().any(|other| {
            let may_explain = matches!(other.role(), Role::Cause | Role::Alone)
                || (self.role() == Role::Consequence && other.role() == Role::Consequence);
            may_explain && self.follows(other) && !std::ptr::eq(self.group, other.group)
        })
    }

    /// Whether this is an event of a node long before the job failed, such as a link that went down
    /// and came back.
    fn is_stale(&self, others: &[Self]) -> bool {
        let is_of_job = |other: &&Self| {
            matches!(other.role(), Role::Cause | Role::Consequence) && !other.is_event()
        };
        let others = others.iter().filter(is_of_job);
        let delays = others.filter_map(|other| other.group.first.seconds_behind(&self.group.first));
        let first = delays.reduce(f64::min);
        self.is_event() && first.is_some_and(|delay| delay > LATEST_EFFECT)
    }

    /// Whether another log or part of the system confirms this message.
    fn is_confirmed_by(&self, other: &Self) -> bool {
        let is_related = other.follows(self) || self.follows(other);
        is_related && witness(self.row.origin) != witness(other.row.origin)
    }
}

/// The part of the system that prints the messages of a producer.
fn witness(producer: &str) -> &str {
    match producer {
        "kernel" | "host" => "kernel",
        "retry-handler" | "fabric-manager" => producer,
        "slurm" | "pals" | "flux" | "launcher" => "launcher",
        _ => "process",
    }
}

/// Explains what the logs hold. `hosts` are the hosts of NICs by address.
pub fn explanation(
    log: &Log,
    logs: Vec<LogSummary>,
    hosts: &BTreeMap<u32, Option<String>>,
) -> Explanation {
    let counted = log.groups.iter().filter(|group| log.counts(group.row));
    let evidence: Vec<Evidence> = counted.map(Evidence::new).collect();
    let (roots, mut confidence) = roots(&evidence);
    let names: Vec<&str> = logs.iter().map(|log| log.name.as_str()).collect();
    let mut causes: Vec<ExplainedCause> = Vec::new();
    for root in &roots {
        let cause = explained(root, &evidence, log, &names, hosts);
        // The same return code stands in messages of several libraries.
        let is_same = |other: &ExplainedCause| {
            let is_one_event = cause.message.code.is_some() || other.host == cause.host;
            let is_one_nic = other.nid == cause.nid;
            other.message.name() == cause.message.name() && is_one_nic && is_one_event
        };
        if !causes.iter().any(is_same) {
            causes.push(cause);
        }
    }
    let mut causes = causes.into_iter();
    let cause = causes.next();
    let is_clean = cause.is_none() || confidence == Confidence::NothingFound;
    let unknown_lines = if is_clean { unknown_lines(log) } else { Vec::new() };
    if !unknown_lines.is_empty() {
        confidence = Confidence::NotKnown;
    }
    let is_root =
        |evidence: &Evidence| roots.iter().any(|root| std::ptr::eq(root.group, evidence.group));
    let further = evidence.iter().filter(|evidence| !is_root(evidence));
    let is_harmless = |evidence: &&Evidence| matches!(evidence.role(), Role::Note | Role::Alone);
    let (notes, consequences): (Vec<&Evidence>, Vec<&Evidence>) = further.partition(is_harmless);
    let messages = |list: Vec<&Evidence>| {
        list.into_iter().map(|evidence| found_message(evidence, &names)).collect()
    };
    Explanation {
        schema_version: SCHEMA_VERSION,
        cxidiag_version: env!("CARGO_PKG_VERSION"),
        exit_status: exit_status(confidence),
        summary: summary(confidence, cause.as_ref()),
        confidence,
        missing: missing(log, &evidence, cause.as_ref()),
        cause,
        other_causes: causes.collect(),
        consequences: messages(consequences),
        notes: messages(notes),
        logs,
        unknown_lines,
    }
}

/// The messages that no other one explains, the earliest first, and how sure they are.
fn roots<'a>(evidence: &[Evidence<'a>]) -> (Vec<Evidence<'a>>, Confidence) {
    let with_role = |role| evidence.iter().filter(move |evidence| evidence.role() == role).copied();
    let unexplained = |role| -> Vec<Evidence<'a>> {
        with_role(role).filter(|found| !found.is_explained(evidence)).collect()
    };
    let causes = in_order(unexplained(Role::Cause));
    let (stale, mut causes): (Vec<_>, Vec<_>) =
        causes.into_iter().partition(|cause| cause.is_stale(evidence));
    causes.extend(stale);
    if let Some(first) = causes.first() {
        let is_confirmed = evidence.iter().any(|other| first.is_confirmed_by(other));
        let confidence = if is_confirmed { Confidence::Known } else { Confidence::Probably };
        return (causes, confidence);
    }
    let mut notes = unexplained(Role::Alone);
    let consequences = unexplained(Role::Consequence);
    if consequences.is_empty() && with_role(Role::Consequence).next().is_none() {
        return (in_order(notes), Confidence::NothingFound);
    }
    notes.retain(|note| with_role(Role::Consequence).any(|other| other.follows(note)));
    let roots = if notes.is_empty() { consequences.into_iter().take(1).collect() } else { notes };
    (in_order(roots), Confidence::Possibly)
}

/// The first line of the text.
fn summary(confidence: Confidence, cause: Option<&ExplainedCause>) -> String {
    match (confidence, cause) {
        (Confidence::NothingFound | Confidence::NotKnown, Some(cause)) => format!(
            "{}: no known message of a failure; if the job hangs or is slow, possibly {}",
            confidence.name().replace('_', " "),
            cause.message.says
        ),
        (Confidence::NothingFound, None) => {
            "nothing found: no known message of a failure, and no line like an error".into()
        }
        (_, None) => "not known: no known message; these lines look like errors".into(),
        (confidence, Some(cause)) => {
            let mut text = format!("{}: {}", confidence.name(), cause.message.says);
            let rank = cause.rank.map(|rank| format!("rank {rank}"));
            let known = [&cause.device, &cause.host, &rank];
            let known = known
                .into_iter()
                .flatten()
                .filter(|name| !cause.message.says.contains(name.as_str()));
            let places: Vec<&str> = known.map(String::as_str).collect();
            if !places.is_empty() {
                text += &format!(" ({})", places.join(", "));
            }
            text
        }
    }
}

/// Returns messages with the earliest first, as far as their times and places say it.
fn in_order(mut messages: Vec<Evidence>) -> Vec<Evidence> {
    let mut ordered = Vec::new();
    loop {
        let first = |at: usize| &messages[at].group.first;
        let earlier = |one, other| {
            if first(other).is_before(first(one)) == Some(true) { other } else { one }
        };
        let Some(earliest) = (0..messages.len()).reduce(earlier) else { return ordered };
        ordered.push(messages.remove(earliest));
    }
}

/// The most frequent lines that look like errors.
fn unknown_lines(log: &Log) -> Vec<UnknownLine> {
    let lines = log.unknown.iter();
    let mut lines: Vec<UnknownLine> =
        lines.map(|(text, count)| UnknownLine { text: text.clone(), count: *count }).collect();
    lines.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.text.cmp(&other.text)));
    lines.truncate(MOST_UNKNOWN);
    lines
}

/// The longest fixed part of a message.
fn fragment(evidence: &Evidence) -> String {
    let anchors = evidence.row.forms.iter().map(Form::anchor);
    let text = &evidence.group.first.text;
    let anchor = anchors.into_iter().find(|anchor| text.contains(anchor)).unwrap_or_default();
    anchor.trim_matches([' ', '(', ':', '=', ',']).into()
}

fn found_message(evidence: &Evidence, names: &[&str]) -> FoundMessage {
    let (group, first) = (evidence.group, &evidence.group.first);
    FoundMessage {
        id: evidence.row.id.into(),
        code: first.values.get("code").cloned(),
        says: evidence.rows().find_map(|row| filled(&row.says, &first.values)).unwrap_or_default(),
        fragment: fragment(evidence),
        role: evidence.role().name().into(),
        producer: evidence.row.origin.into(),
        count: group.count,
        hosts: group.hosts.iter().cloned().collect(),
        ranks: group.ranks.len(),
        log: names.get(first.source).map_or_else(String::new, |name| (*name).into()),
        line: first.line,
        time: first.circumstances.time.as_ref().map(|time| time.text.clone()),
        printed_by_host: first.circumstances.host.clone(),
        printed_by_rank: first.circumstances.rank,
        text: first.text.clone(),
        message: first.message.clone(),
    }
}

/// The part at fault.
#[derive(Clone, Default)]
struct Suspect {
    host: Option<String>,
    device: Option<String>,
    nid: Option<u32>,
    rank: Option<u32>,
}

impl Suspect {
    /// Returns its host and rank.
    fn name(&self) -> Option<String> {
        let rank = self.rank.map(|rank| format!("rank {rank}"));
        let parts: Vec<String> = self.host.clone().into_iter().chain(rank).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The process or node that printed a message. A name that is the only one of its lines is the name
/// of each; other lines may name the host of the rank.
fn own_suspect(evidence: &Evidence, log: &Log) -> Suspect {
    let (group, own) = (evidence.group, &evidence.group.first.circumstances);
    let only_host = group.hosts.first().filter(|_| group.hosts.len() == 1);
    let only_rank = group.ranks.first().filter(|_| group.ranks.len() == 1);
    let rank = own.rank.or(only_rank.copied());
    let rank_host = rank.and_then(|rank| log.rank_hosts.get(&rank)?.as_ref());
    Suspect {
        host: own.host.as_ref().or(only_host).or(rank_host).cloned(),
        device: own.device.clone(),
        nid: None,
        rank,
    }
}

/// Who or what is at fault, and the row of the table that says so for several NICs. `values` gets
/// what its texts name.
fn suspect(
    evidence: &Evidence,
    all: &[Evidence],
    own: &Suspect,
    hosts: &BTreeMap<u32, Option<String>>,
    values: &mut BTreeMap<&'static str, String>,
) -> (Suspect, Option<usize>) {
    match unanswered(evidence, all) {
        Some(Unanswered::Nic { nid, reporters }) => {
            let host = hosts.get(&nid).cloned().flatten();
            let name = host.as_ref().map_or_else(String::new, |host| format!("{host}, "));
            values.insert("target", format!("{nid:#x} ({name}NID {nid})"));
            values.insert("reporters", counted(reporters as u64, "other"));
            (Suspect { host, nid: Some(nid), ..Suspect::default() }, None)
        }
        Some(Unanswered::Own { peers }) => {
            let nid = evidence.group.first.circumstances.nic;
            values.extend(nid.map(|nic| ("nic", format!("{nic:#x} (NID {nic})"))));
            values.insert("peers", peers.to_string());
            (Suspect { nid, ..own.clone() }, TABLE.code("OWN"))
        }
        Some(Unanswered::Fabric { peers, reporters }) => {
            values.extend([("peers", peers.to_string()), ("reporters", reporters.to_string())]);
            (Suspect::default(), TABLE.code("FABRIC"))
        }
        // Who prints a return code of a peer is no suspect.
        None if evidence.is_about_peer() => (Suspect::default(), None),
        None => (own.clone(), None),
    }
}

fn explained(
    evidence: &Evidence,
    all: &[Evidence],
    log: &Log,
    names: &[&str],
    hosts: &BTreeMap<u32, Option<String>>,
) -> ExplainedCause {
    let own = own_suspect(evidence, log);
    let mut values = evidence.group.first.values.clone();
    values.remove("target");
    let (suspect, conclusion) = suspect(evidence, all, &own, hosts, &mut values);
    for (name, value) in [("host", &suspect.host), ("device", &suspect.device)] {
        values.remove(name);
        values.extend(value.clone().map(|value| (name, value)));
    }
    let rows: Vec<&Row> = match conclusion {
        Some(row) => vec![&TABLE.rows[row]],
        None => evidence.rows().collect(),
    };
    let is_unknown_peer = suspect.nid.is_none() && conclusion.is_none() && evidence.is_about_peer();
    let filled_first = |list: fn(&Row) -> &Vec<&'static str>| {
        rows.iter().find_map(|row| filled(list(row), &values))
    };
    let advice = rows.iter().find_map(|row| row.advice());
    let says = filled_first(|row| &row.says);
    let says = says.or_else(|| advice.map(|advice| advice.cause.into())).unwrap_or_default();
    let reason = rows.iter().find_map(|row| {
        let errno: i32 = values.get("errno")?.parse().ok()?;
        call_explanation(row.call?, errno.abs())
    });
    let has_causes = rows.iter().any(|row| !row.causes.is_empty());
    let errno = values.get("errno").map(String::as_str);
    let causes = rows.iter().flat_map(|row| &row.causes);
    let causes = causes.filter(|cause| cause.errno.is_none() || cause.errno == errno);
    let mut possible_causes: Vec<PossibleCause> = match reason.or(advice.filter(|_| !has_causes)) {
        Some(advice) => vec![possible_cause(advice.cause, None)],
        None => causes.map(|cause| possible_cause(cause.text, cause.key)).collect(),
    };
    possible_causes.retain(|cause| cause.text != says);
    let says = match own.name() {
        Some(printer) if is_unknown_peer => format!("{says} (seen by {printer})"),
        _ => says,
    };
    let action = rows.iter().find_map(|row| row.action).or(advice.map(|advice| advice.remedy));
    let exclusions = rows.iter().flat_map(|row| &row.exclusions);
    ExplainedCause {
        message: FoundMessage { says, ..found_message(evidence, names) },
        is_unknown_peer,
        host: suspect.host,
        device: suspect.device,
        nid: suspect.nid,
        rank: suspect.rank,
        possible_causes,
        exclusions: exclusions.map(|text| (*text).into()).collect(),
        proof: rows.iter().find_map(|row| row.proof).map(str::to_owned),
        action: action.map(str::to_owned),
        command: filled_first(|row| &row.commands),
    }
}

fn possible_cause(text: &str, key: Option<&'static str>) -> PossibleCause {
    PossibleCause { text: text.into(), is_here: None, reading: None, key }
}

/// The first alternative whose places are all known.
fn filled(alternatives: &[&str], values: &Values) -> Option<String> {
    alternatives.iter().find_map(|text| {
        let mut filled = String::new();
        let mut rest = *text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}')?;
            filled += before;
            filled += values.get(name)?;
            rest = behind;
        }
        Some(filled + rest)
    })
}

/// Who is at fault if peers do not answer.
enum Unanswered {
    /// A NIC that others name.
    Nic { nid: u32, reporters: usize },
    /// The NIC that reaches none of its peers.
    Own { peers: usize },
    /// Neither: many NICs reach many others no more.
    Fabric { peers: usize, reporters: usize },
}

/// Returns who is at fault if peers do not answer; `None` without addresses (messages.md 1).
fn unanswered(evidence: &Evidence, all: &[Evidence]) -> Option<Unanswered> {
    if !evidence.rows().any(|row| row.says.iter().any(|text| text.contains("{target}"))) {
        return None;
    }
    let code = evidence.group.code;
    let is_retry_handlers = evidence.row.origin == "retry-handler";
    let is_about = |other: &&Evidence| {
        let has_code = code.is_some() && other.group.code == code;
        let is_given_up = other.row.origin == "retry-handler" && other.role() != Role::Note;
        has_code || (is_given_up && (is_retry_handlers || evidence.follows(other)))
    };
    let mut reporters: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for other in all.iter().filter(is_about) {
        for (target, names) in &other.group.targets {
            reporters.entry(*target).or_default().extend(names);
        }
    }
    let everybody: BTreeSet<u64> = reporters.values().flatten().copied().collect();
    let (target, names) = reporters.iter().max_by_key(|(_, names)| names.len())?;
    let is_named_by_most = names.len() > 1 && names.len() * 2 > everybody.len();
    let has_most = reporters.iter().filter(|(_, other)| other.len() == names.len()).count() == 1;
    if is_named_by_most || reporters.len() == 1 || (has_most && reporters.len() < FEW_PEERS) {
        return Some(Unanswered::Nic { nid: *target, reporters: names.len() });
    }
    if reporters.len() < FEW_PEERS {
        return None;
    }
    // Other return codes are answers.
    let is_silence =
        is_retry_handlers || evidence.code.is_some_and(|code| code.id == "UNDELIVERABLE");
    let (peers, reporters) = (reporters.len(), everybody.len());
    is_silence.then_some(if reporters == 1 {
        Unanswered::Own { peers }
    } else {
        Unanswered::Fabric { peers, reporters }
    })
}

/// Returns what the logs lack for a surer explanation.
fn missing(log: &Log, all: &[Evidence], cause: Option<&ExplainedCause>) -> Vec<String> {
    let Some(cause) = cause else {
        let text = match (log.lines, log.unknown.is_empty()) {
            (0, _) => "the output of the job: the log is empty",
            (_, false) => return Vec::new(),
            _ => {
                "messages of a failure: if the job failed, give the output of all ranks and \
                 'dmesg -T' too; if it hangs, 'cxidiag stat --top' shows its NICs"
            }
        };
        return vec![text.into()];
    };
    let message = &cause.message;
    let has = |producer: &str| all.iter().any(|evidence| evidence.row.origin == producer);
    let is_consequence = message.role == Role::Consequence.name();
    let has_codes = all.iter().any(|evidence| evidence.row.role == Role::Code);
    let is_silence = cause.nid.is_some() || message.code.as_deref() == Some("UNDELIVERABLE");
    let needs_logs = is_silence && !is_consequence;
    let reporter = message.printed_by_host.as_deref().unwrap_or("the host that reports it");
    let host = cause.host.as_deref().unwrap_or("both hosts");
    let texts = [
        (
            is_consequence && message.line == 1,
            "the beginning of the log: its first line is a consequence".to_owned(),
        ),
        (
            (has_codes || is_consequence) && !log.has_warnings,
            "warnings of libfabric: run again with FI_LOG_LEVEL=warn FI_LOG_PROV=cxi".into(),
        ),
        (is_consequence, "the log of the rank that ended first".into()),
        (needs_logs && !has("retry-handler"), format!("'journalctl -t cxi_rh' of {reporter}")),
        (needs_logs && !has("kernel"), format!("'dmesg -T' of {host}")),
    ];
    texts.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use page::table::TextStyle;

    use super::*;
    use crate::document::page;

    /// Directory of logs after public reports, with their causes.
    fn logs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/explain/logs")
    }

    fn explained_text(text: &str) -> Explanation {
        let mut log = Log::default();
        log.read(0, text.as_bytes()).unwrap();
        log.settle_times();
        let name = LogSummary { name: "job".into(), lines: log.lines };
        let hosts = log.hosts.clone();
        explanation(&log, vec![name], &hosts)
    }

    fn names(explanation: &Explanation) -> Vec<&str> {
        explanation.cause.iter().map(|cause| cause.message.name()).collect()
    }

    #[test]
    fn names_cause_of_public_logs() {
        let expected = fs::read_to_string(logs().join("expected.txt")).unwrap();
        let mut wrong = Vec::new();
        for line in expected.lines().filter(|line| !line.starts_with('#')) {
            let [name, id, subjects] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let text = fs::read(logs().join(format!("{name}.log"))).unwrap();
            let found = explained_text(&String::from_utf8_lossy(&text));
            let notes = found.notes.iter().map(|note| note.id.as_str());
            let is_named = match (&found.cause, id) {
                (None, "unknown") => found.confidence == Confidence::NotKnown,
                (None, id) => notes.into_iter().any(|note| note == id),
                (Some(cause), id) => cause.message.id == id || cause.message.name() == id,
            };
            let has_subject = subjects == "-"
                || subjects.split(',').any(|subject| {
                    let subject = subject.replace("rank:", "rank ");
                    found.summary.contains(&subject)
                        || found.cause.iter().any(|cause| cause.message.text.contains(&subject))
                });
            if !is_named || !has_subject {
                wrong.push(format!("{line}: {}", found.summary));
            }
        }
        assert_eq!(wrong, [""; 0]);
    }

    /// A line of libfabric: the time, the host and its NIC, the peer, and the return code.
    fn failed(second: u32, host: u32, target: u32, code: &str) -> String {
        format!(
            "libfabric:7:17000000{second:02}::cxi:ep_data:f():1<warn> nid{host}: TXC ({host:#x}:0): \
             Request dest_addr: 1 caddr.nic: {target:#X} caddr.pid: 0 error: 0x1 (err: 113, {code})\n"
        )
    }

    #[test]
    fn names_the_nic_that_several_others_name() {
        let lines = (1..5).map(|host| failed(10, host, 9, "UNDELIVERABLE"));
        let found = explained_text(&lines.collect::<String>());
        assert!(found.summary.starts_with("probably: NIC 0x9 (NID 9) does not answer 4 others"));
        let text = page(&found).text(TextStyle::Plain);
        assert!(text.contains("3. its node is down and 2 more"), "{text}");
        assert_eq!(found.cause.unwrap().nid, Some(9));
    }

    #[test]
    fn names_the_nic_that_reaches_nobody() {
        let lines = (1..5).map(|target| failed(10, 9, target, "UNDELIVERABLE"));
        let found = explained_text(&lines.collect::<String>());
        assert!(found.summary.starts_with("probably: NIC 0x9 (NID 9) reaches none of 4 others"));
        assert_eq!(found.cause.unwrap().host.as_deref(), Some("nid9"));
    }

    #[test]
    fn names_the_fabric_if_many_reach_many_no_more() {
        let lines = (1..9).map(|host| failed(10, host, 20 + host, "UNDELIVERABLE"));
        let twice = failed(11, 1, 22, "UNDELIVERABLE");
        let found = explained_text(&(lines.collect::<String>() + &twice));
        assert!(found.summary.starts_with("probably: 8 NICs do not answer 8 others: the fabric"));
        assert_eq!(found.cause.unwrap().nid, None);
    }

    /// One host that loses two peers may have lost its own link.
    #[test]
    fn names_no_nic_if_two_are_named_equally() {
        let found = explained_text(
            &(failed(10, 7, 1, "UNDELIVERABLE") + &failed(10, 7, 2, "UNDELIVERABLE")),
        );
        assert_eq!(found.summary, "probably: the NIC of a peer does not answer (seen by nid7)");
        assert_eq!(found.cause.unwrap().nid, None);
    }

    /// Who prints a return code of a peer is not at fault.
    #[test]
    fn names_who_saw_an_unknown_peer() {
        let line = "nid7 3: OFI poll failed (f:1:g:Input/output error - UNDELIVERABLE)\n";
        let cause = explained_text(line).cause.unwrap();
        assert_eq!((cause.host, cause.rank), (None, None));
        assert!(cause.message.says.ends_with("(seen by nid7, rank 3)"), "{}", cause.message.says);
    }

    #[test]
    fn says_where_a_command_has_to_run() {
        let shown = |text: &str| page(&explained_text(text)).text(TextStyle::Plain);
        let link = "Nov 30 10:03:12 nid3 kernel: cxi_ss1 0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n";
        assert!(shown(link).contains(": cxidiag link cxi0  # on nid3\n"), "{}", shown(link));
        let lost = failed(10, 7, 9, "UNDELIVERABLE");
        let text = shown(&lost);
        assert!(text.contains(": cxidiag check  # on the node of NIC 0x9\n"), "{text}");
        let text = shown("nid7 3: H/W Event Queue overflow detected\n");
        assert!(text.contains(": cxidiag check --job\n"), "{text}");
    }

    #[test]
    fn corrected_hardware_errors_are_no_cause() {
        for line in [
            "nid3: {1}[Hardware Error]: It has been corrected by h/w and requires no further action",
            "nid3: [Hardware Error]: Corrected error, no action required.",
            "nid3: mce: [Hardware Error]: Machine check events logged",
        ] {
            assert!(explained_text(line).cause.is_none(), "{line}");
        }
        for line in [
            "nid3: {1}[Hardware Error]: event severity: fatal",
            "nid3: mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7",
            "nid3: mce: [Hardware Error]: Machine check: Processor context corrupt",
            "nid3: pcieport 0000:00:01.0: AER: Uncorrected (Non-Fatal) error received",
        ] {
            assert_eq!(names(&explained_text(line)), ["K21"], "{line}");
        }
    }

    #[test]
    fn logs_without_messages_are_not_called_complete() {
        let missing = |text: &str| explained_text(text).missing.join("");
        assert!(missing("").contains("the log is empty"));
        assert!(missing("step 1\n").contains("if it hangs, 'cxidiag stat --top' shows its NICs"));
    }

    #[test]
    fn answers_of_many_peers_say_nothing_about_the_fabric() {
        let lines = (1..9).map(|host| failed(10, host, 20 + host, "PTLTE_NOT_FOUND"));
        let found = explained_text(&lines.collect::<String>());
        assert!(found.summary.starts_with("possibly: "), "{}", found.summary);
        assert!(!found.summary.contains("fabric"), "{}", found.summary);
    }

    #[test]
    fn consequences_follow_wherever_they_stand() {
        let crash = "srun: error: nid3: task 3: Segmentation fault\n";
        let lost = failed(10, 1, 3, "PTLTE_NOT_FOUND");
        for text in [format!("{crash}{lost}"), format!("{lost}{crash}")] {
            let found = explained_text(&text);
            assert_eq!(names(&found), ["M115"]);
            assert_eq!(found.consequences[0].name(), "PTLTE_NOT_FOUND");
            assert_eq!(found.confidence, Confidence::Known);
        }
        let found = explained_text(&lost);
        assert_eq!(
            (names(&found), found.confidence),
            (vec!["PTLTE_NOT_FOUND"], Confidence::Possibly)
        );
    }

    #[test]
    fn late_message_is_another_cause() {
        let crash = "2023-11-14T22:40:00Z srun: error: nid3: task 3: Segmentation fault\n";
        let text = format!("{crash}{}", failed(10, 1, 3, "VNI_NOT_FOUND"));
        let found = explained_text(&text);
        assert_eq!(names(&found), ["VNI_NOT_FOUND"]);
        assert_eq!(found.other_causes[0].message.id, "M115");
    }

    /// The journal of the host is seven hours ahead of UTC.
    #[test]
    fn dates_of_an_unknown_zone_are_compared_with_times_since_1970() {
        let link =
            "Nov 15 05:13:02 nid3 kernel: cxi_ss1 0000:c1:00.0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n";
        let crash = "Nov 15 05:14:40 nid4 slurmd[3]: error: nid4: task 3: Segmentation fault\n";
        let lost = failed(10, 1, 3, "VNI_NOT_FOUND");
        let found = explained_text(&format!("{lost}{crash}{link}"));
        assert_eq!(names(&found), ["K01"]);
        let others = found.other_causes.iter().map(|cause| cause.message.name());
        assert_eq!(others.collect::<Vec<_>>(), ["M115"]);
    }

    /// The crash has no time, but stands behind a line that is later than the kernel's.
    #[test]
    fn lines_without_a_time_are_later_than_the_line_before() {
        let crash = "srun: error: nid4: task 3: Segmentation fault\n";
        let link = "2023-11-14T22:13:02Z nid3 kernel: cxi_ss1 0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n";
        let note = failed(10, 1, 3, "PTLTE_NOT_FOUND");
        assert_eq!(names(&explained_text(&format!("{note}{crash}{link}"))), ["K01"]);
        assert_eq!(names(&explained_text(&format!("{crash}{link}"))), ["M115"]);
    }

    #[test]
    fn event_of_another_node_hours_before_is_another_cause() {
        let link = |time: &str, host: &str| {
            format!(
                "2023-11-14T{time}Z {host} kernel: cxi_ss1 0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n"
            )
        };
        let lost = failed(10, 1, 3, "UNDELIVERABLE");
        let text = link("12:13:02", "nid8") + &link("22:13:02", "nid3") + &lost;
        let found = explained_text(&text);
        let hosts = found.cause.iter().chain(&found.other_causes);
        let hosts: Vec<_> = hosts.map(|cause| cause.host.as_deref().unwrap()).collect();
        assert_eq!(hosts, ["nid3", "nid8"]);
        assert_eq!(names(&explained_text(&(link("12:13:02", "nid8") + &lost))), ["UNDELIVERABLE"]);
    }

    #[test]
    fn error_of_the_program_beside_notes_is_not_explained() {
        let found = explained_text("Flow control EQ full\nKeyError: 'a'\n");
        assert_eq!((found.confidence, found.exit_status), (Confidence::NotKnown, 4));
        assert_eq!(found.unknown_lines[0].text, "KeyError: 'a'");
    }

    #[test]
    fn heading_names_the_host_of_kernel_lines() {
        let line = "[Mon Nov 30 10:00:00 2026] cxi_ss1 0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n";
        let found = explained_text(&format!("--- nid7: dmesg -T | tail\n{line}"));
        assert_eq!(found.cause.unwrap().host.as_deref(), Some("nid7"));
    }

    #[test]
    fn note_that_explains_a_consequence_is_its_cause() {
        let again = "comm-ofi.c:1: OFI error: fi_recvmsg: Resource temporarily unavailable\n";
        let found = explained_text(&format!("PMI ERROR\nFlow control EQ full\n{again}"));
        assert_eq!((names(&found), found.confidence), (vec!["M55"], Confidence::Possibly));
        assert!(found.other_causes.is_empty());
    }

    #[test]
    fn text_elsewhere_in_the_log_excludes_a_message() {
        let refused = "Failed to allocate CP, ret: -22 VNI: 7 TC: LOW_LATENCY TYPE: DEFAULT\n";
        assert_eq!(names(&explained_text(refused)), ["M18"]);
        let other_class = "Remapping original TC from LOW_LATENCY to BEST_EFFORT\n";
        assert!(explained_text(&format!("{refused}{other_class}")).cause.is_none());
    }

    #[test]
    fn notes_are_no_failure() {
        let found = explained_text("MPICH Slingshot Network Summary: 3 network timeouts\n");
        assert_eq!((found.confidence, found.notes.len()), (Confidence::NothingFound, 1));
        let found = explained_text("Flow control EQ full\n");
        assert_eq!((found.confidence, names(&found)), (Confidence::NothingFound, vec!["M55"]));
    }

    #[test]
    fn unknown_errors_are_shown_and_not_explained() {
        let found = explained_text("step 1 failed\nstep 2 failed\nfatal\n");
        assert_eq!((found.confidence, found.exit_status), (Confidence::NotKnown, 4));
        let lines = found.unknown_lines.iter().map(|line| (line.text.as_str(), line.count));
        assert_eq!(lines.collect::<Vec<_>>(), [("step # failed", 2), ("fatal", 1)]);
        assert!(found.cause.is_none());
    }

    #[test]
    fn number_in_message_chooses_the_reason() {
        let causes = |text: &str| {
            let found = explained_text(text).cause.unwrap();
            found.possible_causes.into_iter().map(|cause| cause.text).collect::<Vec<_>>()
        };
        assert_eq!(causes("Failed to allocate LNI, ret: -128\n"), ["the service is disabled"]);
        assert_eq!(causes("cxil_map() failed: -14\n"), ["the buffer was freed before"]);
    }

    #[test]
    fn fills_first_alternative_with_known_places() {
        let values = Values::from([("host", "n1".to_owned())]);
        let alternatives = ["{rank} on {host}", "a rank on {host}", "a rank"];
        assert_eq!(filled(&alternatives, &values).as_deref(), Some("a rank on n1"));
        assert_eq!(filled(&alternatives, &Values::new()).as_deref(), Some("a rank"));
        assert_eq!(filled(&[], &values), None);
    }
}
