//! The arguments of `survey`.

use crate::cpus::{Work, cpus};
use crate::harness::{Fabric, stderr, stdout};

#[test]
fn quiet_survey_with_a_table_on_standard_output_has_its_verdict_on_standard_error() {
    let _cpus = cpus(Work::Waits);
    // On a busy machine, pairs may be untested.
    let survey = || {
        Fabric::new()
            .run("survey --loopback=2 --pairs=loopback --expect=p50<1s --quiet --csv write-lat")
    };
    let output = (0..10).map(|_| survey()).find(|output| {
        let verdict = stderr(output);
        let is_one_line = verdict.lines().count() == 1;
        assert!(is_one_line && verdict.starts_with("cxidiag survey: "), "{verdict}");
        output.status.success()
    });
    let output = output.expect("ten surveys have not measured all pairs");
    let verdict =
        "cxidiag survey: good: 2 NICs (small writes as expected; bandwidth not measured)\n";
    assert_eq!(stderr(&output), verdict);
    assert!(stdout(&output).starts_with("tool,"), "{}", stdout(&output));
}

#[test]
fn refuses_invalid_arguments() {
    let fabric = Fabric::new();
    for (arguments, expected) in [
        ("--loopback=1", "'1' for --loopback: expected a decimal number from 2 to 100"),
        ("--loopback=4 --hosts=a", "--loopback and --hosts exclude each other"),
        ("--loopback=4 --check", "--check checks nodes"),
        ("--loopback=4 write-lta", "unknown tool 'write-lta': did you mean write-lat"),
        ("--loopback=4 --pairs=some", "unknown selection 'some'"),
        ("--loopback=4 --pairs=loopback send-lat", "loopback pairs are not possible with send-lat"),
        ("--loopback=4 --size=0", "for --size"),
        ("write-lat --loopback=4 --expect=bw>1GB/s", "none of the tools measures it"),
        ("--loopback=4 --expect=p50<1", "needs a number and a unit"),
        ("--loopback=4 write-bw -- --bidirectional", "--bidirectional is not possible in a survey"),
        ("--loopback=4 -- --nonsense", "unknown option '--nonsense'"),
        ("--loopback=4 --locations=nofile", "'nofile' for --locations: No such file"),
        ("--loopback=4 --topology=nofile", "--topology=nofile: No such file"),
        (
            "--loopback=4 --topology=dragonfly:groups=2,switches=x,nics=2",
            "--topology=dragonfly:groups=2,switches=x,nics=2: item 1: 'switches=x': expected",
        ),
        (
            "--loopback=4 --topology=a --locations=b",
            "--locations and --topology exclude each other",
        ),
        ("--loopback=4 --resume=nofile", "'nofile' for --resume: No such file"),
        ("--loopback=4 --pair-time=0", "for --pair-time"),
        ("--loopback=4 --join=500ms", "'500ms' for --join: expected a time from 1s to"),
        ("--hosts=n[4-1]", "for --hosts"),
        ("--hosts=n[1-4],n3", "'n[1-4],n3' for --hosts: n3 is named twice"),
        ("--hosts=a -p 0", "for --port"),
        ("--loopback=4 --device=soft1", "leave out --device"),
        ("--device=soft1,soft1 --loopback=3", "expected each NIC once"),
        ("--loopback=4 --csv --json", "only one document can go to standard output"),
        ("--loopback=4 --nics=both", "'both' for --nics: expected turn or once"),
        ("--loopback=4 --no-why --ticket=page.md", "'page.md' for --ticket: the page says why"),
        ("", "no launcher has started this process"),
    ] {
        let output = fabric.run(&format!("survey {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let message = stderr(&output);
        assert!(message.contains(expected), "{arguments}: {message}");
        let is_document = stdout(&output).starts_with('{');
        assert_eq!(is_document, arguments.contains("--json"), "{arguments}: {}", stdout(&output));
        assert!(is_document || stdout(&output).is_empty(), "{arguments}: {}", stdout(&output));
    }
}
