//! Checks of made-up nodes.

use serde_json::{Value, json};

use crate::document::Check;

/// An item of a document.
pub fn item(code: &str, value: &str, verdict: &str) -> Value {
    json!({
        "code": code, "item": code, "value": value, "limit": "L", "verdict": verdict, "note": null
    })
}

/// The document with each value below `part` changed in turn: missing, or of another type, sign or
/// size. Each comes with the place of the value.
pub fn mutated(whole: &Value, part: &str) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    add_places(whole.pointer(part).expect("a part"), part.into(), &mut places);
    let mut all = Vec::new();
    for place in places.into_iter().filter(|place| !place.is_empty()) {
        let (parent, key) = place.rsplit_once('/').expect("a pointer");
        let mut without = whole.clone();
        if let Some(Value::Object(members)) = without.pointer_mut(parent) {
            members.remove(key);
            all.push((place.clone(), without));
        }
        for value in [
            json!(null),
            json!(true),
            json!(-1),
            json!(-1.5e308),
            json!(u32::MAX),
            json!(u64::MAX),
            json!(1e21),
            json!(5e-324),
            json!("\u{1b}[2J 18446744073709551616 NaN"),
            json!("0"),
            json!("x".repeat(100_000)),
            json!([]),
            json!([[]]),
            json!({}),
        ] {
            let mut changed = whole.clone();
            *changed.pointer_mut(&place).expect("a value") = value;
            all.push((place.clone(), changed));
        }
    }
    all
}

/// Adds the pointers of a value and of all below it.
fn add_places(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                add_places(value, format!("{at}/{index}"), all);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                add_places(value, format!("{at}/{key}"), all);
            }
        }
        _ => {}
    }
    all.push(at);
}

/// The document of a node: its number of NICs, and further items of each of them.
pub fn document(nics: usize, items: &[Value]) -> Check {
    let shown = |code, value: &str| item(code, value, "shown");
    let device = |index: usize| {
        let mut all = vec![shown("generation", "Cassini 1")];
        all.extend(items.to_vec());
        let name = format!("cxi{index}");
        json!({"name": name, "is_software": false, "error": null, "items": all})
    };
    let mut count = shown("nic-count", &nics.to_string());
    count["number"] = nics.into();
    let document = json!({
        "schema_version": 1,
        "cxidiag_version": "0.1.0",
        "host_name": "n",
        "started_unix_ms": 1,
        "elapsed_ms": 1,
        "exit_status": 0,
        "summary": "OK",
        "host": [count],
        "devices": (0..nics).map(device).collect::<Vec<_>>(),
        "later_field": 1,
    });
    serde_json::from_value(document).unwrap()
}
