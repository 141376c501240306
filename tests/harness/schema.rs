//! Documents against the schemas in docs.

use boon::{Compiler, Schemas};
use serde_json::Value;

/// The schema of what tools write.
const RESULTS: &str = include_str!("../../docs/cxidiag.schema.json");

/// Reads a document, and panics unless it matches the schema.
#[track_caller]
pub fn document(schema: &str, text: &str) -> Value {
    let document = serde_json::from_str(text).expect("one document");
    let schema = serde_json::from_str(schema).expect("a schema");
    assert_matches(schema, &document);
    document
}

/// Panics unless the document matches the schema.
#[track_caller]
pub fn assert_matches(schema: Value, document: &Value) {
    let mut compiler = Compiler::new();
    compiler.add_resource("schema", schema).expect("a schema");
    let mut schemas = Schemas::new();
    let index = compiler.compile("schema", &mut schemas).expect("a schema");
    if let Err(error) = schemas.validate(document, index) {
        panic!("{error:#}\n{document:#}");
    }
}

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
