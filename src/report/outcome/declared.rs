//! The keys that options of tools declare themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use plan::extensions::Extensions;
use plan::options::{self, KeyValue, OptionKey};
use plan::tool::Tool;

/// The values of these keys, beside other keys of a document that was read. A key without a value
/// is null.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DeclaredOptions(BTreeMap<String, Value>);

impl DeclaredOptions {
    /// Returns the options of a run of `tool`.
    pub fn of(tool: &Tool, extensions: &Extensions) -> Self {
        let value = |value: KeyValue| match value {
            KeyValue::Number(number) => number(extensions).into(),
            KeyValue::Switch(is_on) => is_on(extensions).into(),
            KeyValue::Text(text) => text(extensions).into(),
        };
        Self(options::keys_of(tool).map(|key| (key.key.to_owned(), value(key.value))).collect())
    }

    /// Returns the options that a summary shows, of which `line` returns the value with a label.
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
