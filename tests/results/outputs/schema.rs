//! Documents against docs/cxidiag.schema.json.

use serde_json::Value;

use crate::harness::schema::assert_matches;

const RESULTS: &str = include_str!("../../../docs/cxidiag.schema.json");

/// The schema of what `compare --json` writes.
pub const COMPARISON: &str = include_str!("../../../docs/comparison.schema.json");

/// The schema of what `compare --json` writes of surveys and checks.
pub const CHANGES: &str = include_str!("../../../docs/changes.schema.json");

/// Panics unless the document of a run matches its schema and has no further field.
#[track_caller]
pub fn check(document: &Value) {
    check_against(RESULTS, document);
}

/// Panics unless the document matches the schema and has no further field.
#[track_caller]
pub fn check_against(schema: &str, document: &Value) {
    let mut schema: Value = serde_json::from_str(schema).expect("a schema");
    forbid_others(&mut schema);
    assert_matches(schema, document);
}

/// Readers must allow fields of later releases; this release documents all of its fields.
fn forbid_others(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("required") {
                fields.insert("additionalProperties".into(), false.into());
            }
            fields.values_mut().for_each(forbid_others);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_others),
        _ => {}
    }
}

#[test]
fn schema_rejects_changed_documents() {
    let output = super::short("write-lat", &["--json"]);
    let good = super::document(&output);
    let mut bad = Vec::new();
    for path in ["/schema_version", "/status", "/error", "/results/0/latency/min_ns", "/clock/name"]
    {
        let mut document = good.clone();
        *document.pointer_mut(path).expect(path) = "nonsense".into();
        bad.push(document);
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut document = good.clone();
        let parent = document.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(name);
        bad.push(document);
    }
    let mut document = good.clone();
    document["results"][0]["undocumented"] = 1.into();
    bad.push(document);
    // `clock` takes any name.
    bad.remove(8);
    for document in bad {
        assert!(std::panic::catch_unwind(|| check(&document)).is_err(), "{document:#}");
    }
}
