//! The schema of the keys that options of tools declare themselves.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::declared::DeclaredOptions;
use plan::options::{self, Fact, FactValue};

impl JsonSchema for DeclaredOptions {
    fn schema_name() -> Cow<'static, str> {
        "DeclaredOptions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut property = |fact: &Fact| {
            let mut schema = match fact.value {
                FactValue::Number(_) => Option::<u16>::json_schema(generator),
                FactValue::Switch(_) => Option::<bool>::json_schema(generator),
                FactValue::Text(_) => Option::<String>::json_schema(generator),
            };
            schema.insert("description".into(), fact.description.into());
            schema.insert("default".into(), Value::Null);
            (fact.key.to_owned(), schema.to_value())
        };
        let properties: Map<String, Value> = options::facts().map(&mut property).collect();
        let keys: Vec<&str> = options::facts().map(|fact| fact.key).collect();
        json_schema!({ "type": "object", "properties": properties, "required": keys })
    }
}
