//! The options in effect, with the keys that options of tools declare themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Number, Value};

use plan::extensions::Extensions;
use plan::options::{self, KeyValue, OptionKey};
use plan::tool::Tool;

/// All options in effect, given or default. An option that the tool does not have is null.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Options {
    /// Address of the server, as given; null in a loopback run.
    pub address: Option<String>,
    /// --loopback: whether both sides ran in one command.
    pub loopback: bool,
    /// --port; 0 means any free port.
    pub port: u16,
    /// Library that was requested for hardware; null for the default.
    pub libcxi: Option<String>,
    /// --iters: iterations per size; null with --duration and --until-stopped.
    pub iters: Option<u64>,
    /// --duration: seconds per size, with --until at most; null without. Both are null with
    /// --until-stopped.
    pub duration_s: Option<Number>,
    /// --until: limit of the median's confidence interval, in percent of the median; null without.
    pub until_percent: Option<f64>,
    /// --warmup: iterations before each size that are not measured.
    pub warmup: Option<u64>,
    /// --latency-gap: pause after each iteration, in microseconds.
    pub latency_gap_us: Option<u64>,
    /// First size, in bytes.
    pub min_size_bytes: u64,
    /// Last size, in bytes.
    pub max_size_bytes: u64,
    /// Whether operations are restricted (unordered): no --unrestricted, in
    /// trig-lat with --restricted.
    pub restricted: Option<bool>,
    /// Whether Immediate Data Commands are used: no --no-idc.
    pub idc: Option<bool>,
    /// Whether High Rate Puts are used for sizes of up to 2048 bytes: no --no-hrp, --verify or
    /// --both-ends, and nothing else that excludes them.
    pub hrp: Option<bool>,
    /// Whether commands are issued through the low-latency path: no --no-ll.
    pub low_latency: Option<bool>,
    /// --rdzv: whether transfers use rendezvous.
    pub rdzv: Option<bool>,
    /// When the sides of send-lat wait for each other on the control connection: before each
    /// "size", or before each "iteration" (with --legacy-sync, a legacy peer or an older cxidiag).
    /// As requested if the sides did not connect.
    pub sync: Option<String>,
    /// What further options declare.
    #[serde(flatten)]
    pub declared: DeclaredOptions,
    /// GPU of this side's transmit buffer; null for system memory.
    pub tx_gpu: Option<u8>,
    /// GPU of this side's receive buffer; null for system memory.
    pub rx_gpu: Option<u8>,
    /// Type of this side's GPUs; null without GPUs.
    pub gpu_type: Option<String>,
    /// --gpu-map: how the NIC reaches this side's buffers on GPUs, "peer" or "dmabuf"; as
    /// requested, also "auto", if they were not mapped; null without GPUs.
    pub gpu_map: Option<String>,
    /// GPU of the peer's transmit buffer; null for system memory, and if the sides did not connect.
    pub peer_tx_gpu: Option<u8>,
    /// GPU of the peer's receive buffer; null for system memory, and if the sides did not connect.
    pub peer_rx_gpu: Option<u8>,
    /// Type of the peer's GPUs; null without GPUs, and if the sides did not connect.
    pub peer_gpu_type: Option<String>,
    /// --use-hp: size of the huge pages of the data buffers; null without.
    pub use_hp: Option<String>,
    /// CPUs that the measuring thread ran on with --cpu, such as 0-3,8; as given if the run did not
    /// start; null without --cpu.
    pub cpu: Option<String>,
    /// --report-all: whether each sample was printed.
    pub report_all: Option<bool>,
    /// --rate: operations or bytes per second that each issuing side issues, such as "1000 op/s" or
    /// "500000000 B/s"; null without.
    pub rate: Option<String>,
    /// --verify: whether the side that receives data checks it after each size.
    pub verify: Option<bool>,
    /// The operation of an atomic tool.
    pub atomic: Option<AtomicOptions>,
    /// Lists and buffers of a bandwidth tool.
    pub lists: Option<ListOptions>,
    /// --percentiles: those beside the standard ones, in ascending order; empty without.
    #[serde(default)]
    pub percentiles: Vec<f64>,
    /// --interval: length of the intervals, in seconds; null without.
    pub interval_s: Option<f64>,
    /// --expect: one entry for each bound, as given.
    pub expect: Vec<String>,
}

/// The operation of an atomic tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct AtomicOptions {
    /// --atomic-op.
    pub op: String,
    /// --cswap-op; null unless the operation is CSWAP.
    pub cswap_op: Option<String>,
    /// --atomic-type.
    #[serde(rename = "type")]
    pub ty: String,
    /// --fetching: whether operations return the previous value of the target.
    pub fetching: bool,
    /// --matching: whether operations address matching list entries.
    pub matching: bool,
}

/// Lists and buffers of a bandwidth tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ListOptions {
    /// --list-size: operations per iteration.
    pub list_size: u16,
    /// --bidirectional: whether both sides issue operations.
    pub bidirectional: bool,
    /// --buf-sz: largest buffer, in bytes.
    pub buf_sz_bytes: Option<u64>,
    /// --buf-align: distance between operations in the buffers is a multiple of this, in bytes.
    pub buf_align_bytes: Option<u64>,
    /// --pairs: pairs of queues that work side by side.
    #[serde(default = "one")]
    pub pairs: u16,
    /// --threads: threads that drive them.
    #[serde(default = "one")]
    pub threads: u16,
    /// --reverse: whether the server issues the operations.
    #[serde(default)]
    pub reverse: bool,
    /// --both-ends: whether each side's own view is shown.
    #[serde(default)]
    pub both_ends: bool,
}

/// The number of pairs and threads in documents that do not have them.
fn one() -> u16 {
    1
}

/// The values of these keys, beside other keys of a document that was read. A key without a value
/// is null.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DeclaredOptions(BTreeMap<String, Value>);

impl DeclaredOptions {
    /// The options of a run of `tool`.
    pub fn of(tool: &Tool, extensions: &Extensions) -> Self {
        let value = |value: KeyValue| match value {
            KeyValue::Number(number) => number(extensions).into(),
            KeyValue::Switch(is_on) => is_on(extensions).into(),
            KeyValue::Text(text) => text(extensions).into(),
        };
        Self(options::keys_of(tool).map(|key| (key.key.to_owned(), value(key.value))).collect())
    }

    /// The options that a summary shows, of which `line` returns the value with a label.
    pub fn printed<'a>(line: impl Fn(&str) -> Option<&'a str>) -> Self {
        let value = |key: &OptionKey| {
            let (label, read) = key.printed?;
            let text = read(line(label)?)?;
            match key.value {
                KeyValue::Number(_) => text.parse::<u16>().ok().map(Value::from),
                KeyValue::Switch(_) => None,
                KeyValue::Text(_) => Some(text.into()),
            }
        };
        Self(options::keys().filter_map(|key| Some((key.key.to_owned(), value(key)?))).collect())
    }
}

impl Serialize for DeclaredOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(options::keys().map(|key| (key.key, self.0.get(key.key))))
    }
}

#[cfg(any(test, feature = "testing"))]
impl schemars::JsonSchema for DeclaredOptions {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeclaredOptions".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut property = |key: &OptionKey| {
            let mut schema = match key.value {
                KeyValue::Number(_) => Option::<u16>::json_schema(generator),
                KeyValue::Switch(_) => Option::<bool>::json_schema(generator),
                KeyValue::Text(_) => Option::<String>::json_schema(generator),
            };
            schema.insert("description".into(), key.description.into());
            schema.insert("default".into(), Value::Null);
            (key.key.to_owned(), schema.to_value())
        };
        let properties: serde_json::Map<String, Value> =
            options::keys().map(&mut property).collect();
        let keys: Vec<&str> = options::keys().map(|key| key.key).collect();
        schemars::json_schema!({ "type": "object", "properties": properties, "required": keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;

    #[test]
    fn keys_stand_in_the_order_of_their_options() {
        let plan = plan("trig-lat", &["--fan=4"]);
        let options = DeclaredOptions::of(plan.tool, &plan.run.extensions);
        let expected = r#"{"hops":null,"start":"put","fan":4,"posted":null,"max_posted":null,"unexpected":null,"max_unexpected":null,"compare_write":false}"#;
        assert_eq!(serde_json::to_string(&options).unwrap(), expected);
    }

    #[test]
    fn reads_back_what_a_summary_prints() {
        for (tool, option, expected) in [
            ("trig-lat", "--start=counter", r#"{"hops":64,"start":"counter"}"#),
            ("trig-lat", "--fan=9", r#"{"fan":9,"start":"put"}"#),
            ("send-lat", "--posted=0:64", r#"{"max_posted":64,"posted":0}"#),
            ("send-lat", "--unexpected=7", r#"{"max_unexpected":7,"unexpected":7}"#),
            ("write-lat", "--verify", "{}"),
        ] {
            let plan = plan(tool, &[option]);
            let lines: Vec<_> = options::lines(plan.tool, &plan.run.extensions).collect();
            let line = |label: &str| {
                let mut lines = lines.iter();
                lines.find(|(own, _)| *own == label).map(|(_, value)| value.as_str())
            };
            let DeclaredOptions(values) = DeclaredOptions::printed(line);
            assert_eq!(serde_json::to_string(&values).unwrap(), expected, "{tool} {option}");
        }
    }
}
