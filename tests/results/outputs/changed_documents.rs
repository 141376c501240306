//! Documents against docs/cxidiag.schema.json.

use super::{document, schema, short};

#[test]
fn schema_rejects_changed_documents() {
    let output = short("write-lat", &["--json"]);
    let good = document(&output);
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
        assert!(std::panic::catch_unwind(|| schema::check(&document)).is_err(), "{document:#}");
    }
}
