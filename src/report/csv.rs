//! Outcome -> comma-separated values (RFC 4180): a header, and a row for each size of the run. With
//! `--interval`, the row of a size is followed by a row for each of its intervals.
//!
//! Every row repeats the facts about the run: who was measured, and with which options, as fields
//! of the JSON document. A run that failed before its sizes were known has one row without metrics.

use std::iter;

use serde_json::{Value, json};

use super::Outcome;
use super::columns::{COLUMNS, CsvRow};
use super::outcome::{Options, SizeResult};
use facts::error::Failure;
use plan::options;

/// A percentile of a size; nothing for an interval.
fn percentile(row: &CsvRow, percent: f64) -> String {
    let latency = row.result.latency.as_ref().filter(|_| row.interval.is_none());
    let mut values = latency.into_iter().flat_map(|latency| &latency.percentiles);
    let found = values.find(|value| value.percent == percent);
    found.map_or_else(String::new, |value| value.value_ns.to_string())
}

/// The table, with or without its header.
///
/// # Errors
///
/// None in practice: the table is made in memory.
pub fn document(outcome: &Outcome, with_header: bool) -> Result<Vec<u8>, Failure> {
    let none = [SizeResult::none(0)];
    let results = match outcome.results.as_slice() {
        [] => &none,
        results => results,
    };
    let has_intervals = |options: &Options| options.interval_s.is_some();
    let with_intervals = outcome.options.as_ref().is_some_and(has_intervals);
    let columns = || COLUMNS.iter().filter(|column| column.is_in_csv(with_intervals));
    let further: &[f64] = outcome.options.as_ref().map_or(&[], |options| &options.percentiles);
    let mut rows: Vec<Vec<String>> = Vec::new();
    if with_header {
        let titles = columns().filter_map(|column| column.csv);
        let titles = titles.chain(run_columns().map(|(title, _)| title)).map(str::to_owned);
        rows.push(titles.chain(further.iter().map(|percent| format!("p{percent}_ns"))).collect());
    }
    let run_texts = fields(outcome);
    for result in results {
        let intervals = result.intervals.iter().flat_map(|interval| &interval.rows);
        for interval in iter::once(None).chain(intervals.map(Some)) {
            let row = CsvRow { result, interval };
            let fields = columns().map(|column| column.field(outcome, &row));
            let fields = fields.chain(run_texts.iter().cloned());
            let further = further.iter().map(|percent| percentile(&row, *percent));
            rows.push(fields.chain(further).collect());
        }
    }
    page::csv::document(rows)
}

/// Title of the column, and the JSON pointer to its field.
type RunColumn = (&'static str, &'static str);

/// All columns, in the order of CSV. They follow the columns of the results.
fn run_columns() -> impl Iterator<Item = (&'static str, String)> {
    let fixed = |columns: &'static [RunColumn]| {
        columns.iter().map(|(title, pointer)| (*title, (*pointer).to_owned()))
    };
    let declared = options::keys().filter(|fact| fact.has_column);
    let declared = declared.map(|fact| (fact.key, format!("/options/{}", fact.key)));
    fixed(FIRST_COLUMNS).chain(declared).chain(fixed(LAST_COLUMNS))
}

/// The columns before those that options declare themselves.
const FIRST_COLUMNS: &[RunColumn] = &[
    ("side", "/side"),
    ("peer_host", "/peer/host_name"),
    ("nic_address", "/addresses/local/nic"),
    ("pid", "/addresses/local/pid"),
    ("peer_nic_address", "/addresses/remote/nic"),
    ("peer_pid", "/addresses/remote/pid"),
    ("vni", "/addresses/vni"),
    ("traffic_class", "/device/traffic_class"),
    ("server_ip", "/addresses/server_ip"),
    ("server_port", "/addresses/server_port"),
    ("job_manager", "/job/manager"),
    ("job_id", "/job/id"),
    ("labels", "/labels"),
    ("clock", "/clock/name"),
    ("iters", "/options/iters"),
    ("duration_s", "/options/duration_s"),
    ("until_percent", "/options/until_percent"),
    ("warmup", "/options/warmup"),
    ("latency_gap_us", "/options/latency_gap_us"),
    ("rate", "/options/rate"),
    ("restricted", "/options/restricted"),
    ("idc", "/options/idc"),
    ("hrp", "/options/hrp"),
    ("low_latency", "/options/low_latency"),
    ("rdzv", "/options/rdzv"),
    ("sync", "/options/sync"),
];

/// The columns after them.
const LAST_COLUMNS: &[RunColumn] = &[
    ("verify", "/options/verify"),
    ("list_size", "/options/lists/list_size"),
    ("bidirectional", "/options/lists/bidirectional"),
    ("buf_sz_bytes", "/options/lists/buf_sz_bytes"),
    ("buf_align_bytes", "/options/lists/buf_align_bytes"),
    ("pairs", "/options/lists/pairs"),
    ("threads", "/options/lists/threads"),
    ("reverse", "/options/lists/reverse"),
    ("both_ends", "/options/lists/both_ends"),
    ("atomic_op", "/options/atomic/op"),
    ("cswap_op", "/options/atomic/cswap_op"),
    ("atomic_type", "/options/atomic/type"),
    ("fetching", "/options/atomic/fetching"),
    ("matching", "/options/atomic/matching"),
    ("cpu", "/options/cpu"),
    ("use_hp", "/options/use_hp"),
    ("tx_gpu", "/options/tx_gpu"),
    ("rx_gpu", "/options/rx_gpu"),
    ("gpu_type", "/options/gpu_type"),
    ("gpu_map", "/options/gpu_map"),
    ("peer_tx_gpu", "/options/peer_tx_gpu"),
    ("peer_rx_gpu", "/options/peer_rx_gpu"),
    ("peer_gpu_type", "/options/peer_gpu_type"),
];

/// The field of each column; a field that does not apply is empty.
pub fn fields(run: &Outcome) -> Vec<String> {
    let facts = json!({
        "side": run.side,
        "peer": run.peer,
        "addresses": run.addresses,
        "device": run.device,
        "job": run.job,
        "labels": labels(run),
        "clock": run.clock,
        "options": run.options,
    });
    let field = |(_, pointer): (_, String)| match facts.pointer(&pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    run_columns().map(field).collect()
}

/// The labels in one field: `rack=x1;run=7`. Values contain no semicolon.
fn labels(run: &Outcome) -> String {
    run.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::super::columns::COLUMNS;
    use super::*;

    /// The schema of the field `name` of an object with this `schema`.
    fn field(root: &Value, schema: &Value, name: &str) -> Option<Value> {
        // A type of ours, or null.
        let reference = schema.get("$ref").or_else(|| schema.pointer("/anyOf/0/$ref"));
        let schema = match reference {
            Some(path) => root.pointer(path.as_str()?.strip_prefix('#')?)?,
            None => schema,
        };
        schema.get("properties")?.get(name).cloned()
    }

    #[test]
    fn each_column_is_a_field_of_json() {
        let root = schemars::schema_for!(Outcome).to_value();
        for (title, pointer) in run_columns() {
            let mut names = pointer.split('/').skip(1);
            let found = names.try_fold(root.clone(), |schema, name| field(&root, &schema, name));
            assert!(found.is_some(), "{title}: {pointer}");
        }
    }

    #[test]
    fn names_and_documents_each_column_once() {
        let page = include_str!("../../docs/output-formats.md");
        let own = run_columns().map(|(title, _)| title);
        let others = COLUMNS.iter().filter_map(|column| column.csv);
        let mut titles: Vec<_> = own.chain(others).collect();
        let count = titles.len();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), count);
        for title in titles {
            assert!(page.contains(&format!("`{title}`")), "{title}");
        }
    }
}
