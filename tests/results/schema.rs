//! The JSON schemas in docs/, made from the types that are written.
//!
//! `CXIDIAG_UPDATE_DOCS=1 cargo test --test results schema` writes them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use check::document::Check;
use check::fleet_document::FleetCheck;
use check::job::document::JobCheck;
use check::stress_document::StressReport;
use compare::changes;
use compare::changes::Changes;
use compare::comparison;
use compare::comparison::Comparison;
use compare::layers;
use compare::layers::LayerComparison;
use devices::inventory;
use devices::inventory::Inventory;
use explain::document::Explanation;
use facts::error::Kind;
use facts::percentile::Percentile;
use hang::document::HangReport;
use health::ITEMS;
use link::document::LinkReport;
use ping::document::Ping;
use plan::tools::TOOLS;
use report::outcome::{Outcome, SCHEMA_VERSION};
use selftest::document::SelfTest;
use stat::job as stat_document;
use stat::job::JobStat;
use stat::job_findings;
use survey::nic_diagnosis;
use survey::nic_diagnosis::NicDiagnosis;
use survey::result;
use survey::result::Survey;

/// The schema of what `T` writes. `rules` adds to the type, each as a pointer to an object, a key
/// and a value.
fn schema<T: JsonSchema>(title: &str, rules: &[(&str, &str, Value)]) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = title.into();
    unwrap_lines(&mut schema);
    for (pointer, key, value) in rules {
        let object = schema.pointer_mut(pointer);
        let object = object.and_then(Value::as_object_mut).expect(pointer);
        object.insert((*key).into(), value.clone());
    }
    schema
}

/// Joins the lines of descriptions, which are wrapped in the sources.
fn unwrap_lines(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ").replace('`', "");
            }
            fields.values_mut().for_each(unwrap_lines);
        }
        Value::Array(items) => items.iter_mut().for_each(unwrap_lines),
        _ => {}
    }
}

/// Forbids fields that the schema does not have.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("required") {
                fields.insert("additionalProperties".into(), false.into());
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn kinds() -> Value {
    let kinds = [
        Kind::Usage,
        Kind::Environment,
        Kind::Nic,
        Kind::Peer,
        Kind::Interrupted,
        Kind::OutputClosed,
        Kind::Unmet,
        Kind::Undecided,
    ];
    json!(kinds.map(Kind::name))
}

fn results_schema() -> Value {
    let tools: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let percentiles = Percentile::STANDARD.len();
    let gpu_types = json!(["AMD", "NVIDIA", "INTEL", null]);
    let with_status = |status: Value, exit_status: Value, error: &str| {
        json!({"properties": {
            "status": status, "exit_status": exit_status, "error": {"type": error}
        }})
    };
    let rules = [
        ("/properties/schema_version", "const", json!(SCHEMA_VERSION)),
        ("/properties/tool", "enum", json!(tools)),
        ("/properties/exit_status", "enum", json!([0, 1, 2, 3, 130])),
        (
            "",
            "oneOf",
            json!([
                with_status(json!({"const": "complete"}), json!({"const": 0}), "null"),
                with_status(
                    json!({"not": {"const": "complete"}}),
                    json!({"not": {"const": 0}}),
                    "object"
                ),
            ]),
        ),
        ("/$defs/Problem/properties/kind", "enum", kinds()),
        ("/$defs/Device/properties/svc_id", "minimum", json!(1)),
        ("/$defs/Options/properties/iters", "minimum", json!(1)),
        ("/$defs/Options/properties/duration_s", "minimum", json!(0.001)),
        ("/$defs/Options/properties/min_size_bytes", "minimum", json!(1)),
        ("/$defs/Options/properties/max_size_bytes", "minimum", json!(1)),
        ("/$defs/Options/properties/gpu_type", "enum", gpu_types.clone()),
        ("/$defs/Options/properties/peer_gpu_type", "enum", gpu_types),
        ("/$defs/Options/properties/gpu_map", "enum", json!(["auto", "peer", "dmabuf", null])),
        ("/$defs/Options/properties/use_hp", "enum", json!(["2M", "1G", null])),
        ("/$defs/ListOptions/properties/list_size", "minimum", json!(1)),
        ("/$defs/SizeResult/properties/size_bytes", "minimum", json!(1)),
        ("/$defs/Verdict/properties/size_bytes", "minimum", json!(1)),
        ("/$defs/Verdict/properties/unit", "enum", json!(["ns", "B/s", "pkt/s"])),
        ("/$defs/LatencyResult/properties/mean_ns", "minimum", json!(0)),
        ("/$defs/LatencyResult/properties/standard_deviation_ns", "minimum", json!(0)),
        ("/$defs/LatencyResult/properties/percentiles", "minItems", json!(percentiles)),
        ("/$defs/PercentileValue/properties/percent", "exclusiveMinimum", json!(0)),
        ("/$defs/PercentileValue/properties/percent", "maximum", json!(100)),
        ("/$defs/BandwidthResult/properties/bandwidth_bytes_per_s", "minimum", json!(0)),
        ("/$defs/BandwidthResult/properties/packet_rate_packets_per_s", "minimum", json!(0)),
    ];
    schema::<Outcome>("Result of cxidiag", &rules)
}

fn devices_schema() -> Value {
    let members = json!(["user", "group", "network_namespace", "other"]);
    let resources = cxi::RESOURCES;
    let rules = [
        ("/properties/schema_version", "const", json!(inventory::SCHEMA_VERSION)),
        ("/$defs/Problem/properties/kind", "enum", kinds()),
        ("/$defs/MemberEntry/properties/kind", "enum", members),
        ("/$defs/Resource/properties/name", "enum", json!(resources)),
        ("/$defs/ServiceEntry/properties/resources", "minItems", json!(resources.len())),
        ("/$defs/ServiceEntry/properties/resources", "maxItems", json!(resources.len())),
    ];
    let mut schema = schema::<Inventory>("NICs that cxidiag devices lists", &rules);
    close(&mut schema);
    schema
}

fn layers_schema() -> Value {
    let rules = [("/properties/schema_version", "const", json!(layers::SCHEMA_VERSION))];
    let mut schema = schema::<LayerComparison>("What layers of software add", &rules);
    close(&mut schema);
    schema
}

fn comparison_schema() -> Value {
    let rules = [("/properties/schema_version", "const", json!(comparison::SCHEMA_VERSION))];
    let mut schema = schema::<Comparison>("Runs of two sides compared", &rules);
    close(&mut schema);
    schema
}

fn ping_schema() -> Value {
    let rules = [("/properties/schema_version", "const", json!(ping::document::SCHEMA_VERSION))];
    let mut schema = schema::<Ping>("Answers of NICs", &rules);
    close(&mut schema);
    schema
}

fn why_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(nic_diagnosis::SCHEMA_VERSION)),
        ("/properties/command", "const", json!("why")),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
    ];
    let mut schema = schema::<NicDiagnosis>("Why a NIC is slow", &rules);
    close(&mut schema);
    schema
}

fn stat_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(stat_document::SCHEMA_VERSION)),
        ("/properties/command", "const", json!("stat")),
        ("/$defs/StatFinding/properties/code", "enum", json!(job_findings::codes())),
    ];
    let mut schema = schema::<JobStat>("What the NICs of a job did", &rules);
    close(&mut schema);
    schema
}

fn selftest_schema() -> Value {
    let version = json!(selftest::document::SCHEMA_VERSION);
    let rules = [("/properties/schema_version", "const", version)];
    let mut schema = schema::<SelfTest>("Facts about a NIC that cxidiag selftest checks", &rules);
    close(&mut schema);
    schema
}

fn check_schema() -> Value {
    health_schema::<Check>("Health of NICs that cxidiag check finds")
}

fn link_schema() -> Value {
    health_schema::<LinkReport>("Links of NICs that cxidiag link shows")
}

fn explain_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(explain::document::SCHEMA_VERSION)),
        ("/properties/exit_status", "enum", json!([0, 4])),
    ];
    let mut schema =
        schema::<Explanation>("Cause of a failed job that cxidiag explain finds", &rules);
    close(&mut schema);
    schema
}

fn hang_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(hang::document::SCHEMA_VERSION)),
        ("/properties/command", "const", json!("why --job")),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
    ];
    let mut schema =
        schema::<HangReport>("A job that makes no progress, by cxidiag why --job", &rules);
    close(&mut schema);
    schema
}

fn health_schema<T: JsonSchema>(title: &str) -> Value {
    let verdicts = json!(["good", "suspect", "bad", "shown", "not_available"]);
    let codes = ITEMS.map(|item| item.code).to_vec();
    let rules = [
        ("/properties/schema_version", "const", json!(check::document::SCHEMA_VERSION)),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
        ("/$defs/Problem/properties/kind", "enum", kinds()),
        ("/$defs/ItemResult/properties/code", "enum", json!(codes)),
        ("/$defs/ItemResult/properties/verdict", "enum", verdicts),
    ];
    let mut schema = schema::<T>(title, &rules);
    close(&mut schema);
    schema
}

fn stress_schema() -> Value {
    let verdicts = json!(["good", "bad", "shown", "not_available"]);
    let rules = [
        ("/properties/schema_version", "const", json!(check::stress_document::SCHEMA_VERSION)),
        ("/properties/command", "const", json!("stress")),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
        ("/$defs/Problem/properties/kind", "enum", kinds()),
        ("/$defs/StressedNic/properties/rate_verdict", "enum", verdicts.clone()),
        ("/$defs/SensorResult/properties/verdict", "enum", verdicts),
        ("/$defs/SensorResult/properties/unit", "enum", json!(["celsius", "watts"])),
    ];
    let mut schema = schema::<StressReport>("NICs under load", &rules);
    close(&mut schema);
    schema
}

fn changes_schema() -> Value {
    let version = json!(changes::SCHEMA_VERSION);
    let rules = [("/properties/schema_version", "const", version)];
    let mut schema = schema::<Changes>("Changes between surveys or checks", &rules);
    close(&mut schema);
    schema
}

fn fleet_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(check::fleet_document::SCHEMA_VERSION)),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
    ];
    let mut schema = schema::<FleetCheck>("Health of nodes that cxidiag check finds", &rules);
    close(&mut schema);
    schema
}

fn job_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(check::job::document::SCHEMA_VERSION)),
        ("/properties/exit_status", "enum", json!([0, 3, 4])),
    ];
    let mut schema = schema::<JobCheck>("Settings of a job that cxidiag check --job finds", &rules);
    close(&mut schema);
    schema
}

fn survey_schema() -> Value {
    let rules = [
        ("/properties/schema_version", "const", json!(result::SCHEMA_VERSION)),
        ("/properties/command", "const", json!("survey")),
        ("/properties/exit_status", "enum", json!([0, 1, 3, 4, 130])),
        ("/$defs/Problem/properties/kind", "enum", kinds()),
    ];
    let mut schema = schema::<Survey>("Survey of the NICs of a cluster", &rules);
    close(&mut schema);
    schema
}

#[test]
fn matches_schemas_in_docs() {
    for (name, schema) in [
        ("cxidiag", results_schema()),
        ("devices", devices_schema()),
        ("changes", changes_schema()),
        ("comparison", comparison_schema()),
        ("layers", layers_schema()),
        ("ping", ping_schema()),
        ("why", why_schema()),
        ("stat", stat_schema()),
        ("selftest", selftest_schema()),
        ("check", check_schema()),
        ("link", link_schema()),
        ("explain", explain_schema()),
        ("hang", hang_schema()),
        ("stress", stress_schema()),
        ("check-fleet", fleet_schema()),
        ("check-job", job_schema()),
        ("survey", survey_schema()),
    ] {
        let path = format!("{}/docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let text = format!("{schema:#}\n");
        assert_documented(&path, &text);
    }
}

/// Asserts that a file of the documents has this text. `CXIDIAG_UPDATE_DOCS=1` writes it.
#[track_caller]
pub fn assert_documented(path: &str, text: &str) {
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        std::fs::write(path, text).expect("a writable document");
    }
    let documented = std::fs::read_to_string(path).expect("a document");
    assert!(documented == text, "{path}: CXIDIAG_UPDATE_DOCS=1 writes it");
}
