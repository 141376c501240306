//! Where documents go: files, standard output and devices; and places that cannot be written.

use crate::harness::{self, Command, Fabric, stderr, stdout};

use super::document;

#[test]
fn rejects_unwritable_file_before_the_run() {
    let fabric = Fabric::new();
    for kind in ["json", "csv", "hdr-log", "samples"] {
        let option = format!("--{kind}=/no/such/directory/result");
        // The run itself would fail in another way.
        let output = fabric.run(&["write-lat", "--loopback", "-d", "soft0", "-v", "7777", &option]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains("cannot write /no/such/directory/result: "), "{said}");
        let hint = "\nhint: the directory /no/such/directory does not exist: create it first\n";
        assert!(said.contains(hint), "{said}");
        assert_eq!(stdout(&output), "");
    }
    let output =
        fabric.run(&["write-lat", "--loopback", "-d", "soft0", "--csv=/no/such/file", "--json"]);
    assert_eq!(document(&output)["error"]["kind"], "environment");
}

#[test]
fn prints_no_error_if_standard_output_is_closed() {
    let fabric = Fabric::new();
    let mut command =
        fabric.command(&["write-lat", "--loopback", "-d", "soft0", "-n", "2", "--json", "--quiet"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.finish();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
}

/// Also if the names of the file differ.
#[test]
fn rejects_two_documents_in_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    for [json, csv] in [[at("a"), at("a")], [at("a"), at("./a")]] {
        let (json, csv) = (format!("--json={json}"), format!("--csv={csv}"));
        let output = Fabric::new().run(&["write-lat", "-d", "soft0", "--loopback", &json, &csv]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot be written to the same file"), "{said}");
    }
}

/// A shell has redirected standard output to a file, which is not to be replaced.
#[test]
fn appends_document_to_dev_stdout() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    std::fs::write(&log, "before\n").unwrap();
    let mut command = fabric.command(&[
        "write-lat",
        "-d",
        "soft0",
        "--loopback",
        "-n",
        "3",
        "--json=/dev/stdout",
    ]);
    let file = std::fs::File::options().append(true).open(&log).unwrap();
    let output = command.stdout(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("before\n---"), "{text}");
    assert!(text.contains("\n{\n"), "{text}");
}

#[test]
fn reports_unwritable_document_and_unmet_expectation() {
    let output = Fabric::new().run(&[
        "write-lat",
        "-d",
        "soft0",
        "--loopback",
        "-n",
        "3",
        "--json=/dev/full",
        "--expect",
        "mean<1ns",
    ]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("expectation not met: mean<1ns"), "{said}");
    assert!(said.contains("cannot write /dev/full: No space left"), "{said}");
    let hint = "\nhint: /dev/full is a device without space: name a file\n";
    assert!(said.contains(hint), "{said}");
}

/// The lines of `--jsonl` cannot be written while the survey measures, the others at its end.
#[test]
fn reports_each_unwritable_document_of_a_survey_on_standard_error() {
    for document in ["json", "jsonl", "csv", "openmetrics", "ticket"] {
        let output = Fabric::new().run(&[
            "survey",
            "--loopback=2",
            "--quiet",
            &format!("--{document}=/dev/full"),
        ]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{document}: {said}");
        let error =
            "cxidiag survey: error: cannot write /dev/full: No space left on device\nhint: ";
        assert!(said.contains(error), "{document}: {said}");
    }
}

/// Rust opens /dev/null in place of a closed descriptor: the results would be lost.
#[test]
fn refuses_to_start_without_standard_output() {
    for arguments in ["write-lat --loopback -d soft0 -n 2", "--version"] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{} {arguments} >&-", harness::CXIDIAG)]);
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("error: standard output is closed"), "{said}");
    }
}

#[test]
fn writes_document_without_a_reader_of_the_text() {
    let fabric = Fabric::new();
    let mut command = fabric.command(&[
        "write-lat",
        "-d",
        "soft0",
        "--loopback",
        "-n",
        "20000",
        "--latency-gap",
        "0",
        "--report-all",
        "--json",
    ]);
    // The pipe is full long before the end of the text; then its reader goes.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    let mut first = [0; 16];
    std::io::Read::read_exact(&mut (&reader), &mut first).unwrap();
    drop(reader);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert!(child.wait().success());
    let run: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(run["status"], "complete");
}
