//! Documents against the schemas in docs.

use boon::{Compiler, Schemas};
use serde_json::Value;

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
