//! `--jsonl`: one line for each run, of many runs at the same time.

use serde_json::Value;

use super::{Fabric, assert_success, schema, short, stderr};

#[test]
fn appends_one_line_for_each_of_many_writers() {
    const WRITERS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs.jsonl");
    // What a writer leaves that is killed.
    std::fs::write(&file, "{\"schema_version\":").unwrap();
    let option = format!("--jsonl={}", file.display());
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| assert_success(&short("write-lat", &[&option])));
        }
    });
    let text = std::fs::read_to_string(&file).unwrap();
    let (torn, whole) = text.split_once('\n').unwrap();
    assert_eq!(torn, "{\"schema_version\":");
    assert!(whole.ends_with('\n'));
    assert_eq!(whole.lines().count(), WRITERS, "{whole}");
    for line in whole.lines() {
        let run: Value = serde_json::from_str(line).unwrap();
        schema::check(&run);
        assert_eq!(run["status"], "complete");
    }
    let path = file.to_str().unwrap();
    let output = Fabric::new().run(&["compare", path, "--", path, "--max-regress=9999%"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("line 1 is left out"), "{said}");
}

#[test]
fn refuses_the_file_of_another_document() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs.jsonl");
    let option = |name: &str| format!("--{name}={}", file.display());
    let output = short("write-lat", &[&option("jsonl"), &option("json")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("two documents cannot be written to the same file"), "{said}");
    let output = short("write-lat", &["--jsonl="]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--jsonl"), "{}", stderr(&output));
    let output = short("write-lat", &["--jsonl=/no/such/file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write /no/such/file"), "{}", stderr(&output));
}
