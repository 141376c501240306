//! Checks of made-up nodes.

use serde_json::{Value, json};

use super::node_check::NodeCheck;

/// Returns an item of a document.
pub fn item(code: &str, value: &str, verdict: &str) -> Value {
    json!({
        "code": code, "item": code, "value": value, "limit": "L", "verdict": verdict, "note": null
    })
}

/// Returns the document of a node: its number of NICs, and further items of each of them.
pub fn document(nics: usize, items: &[Value]) -> NodeCheck {
    let shown = |code, value: &str| item(code, value, "shown");
    let device = |index: usize| {
        let mut all = vec![shown("generation", "Cassini 1")];
        all.extend(items.to_vec());
        json!({"name": format!("cxi{index}"), "error": null, "items": all})
    };
    let document = json!({
        "cxidiag_version": "0.1.0",
        "host_name": "n",
        "host": [shown("nic-count", &nics.to_string())],
        "devices": (0..nics).map(device).collect::<Vec<_>>(),
        "later_field": 1,
    });
    serde_json::from_value(document).unwrap()
}
