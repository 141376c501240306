//! The two readings by two processes: `--start` and `--stop`.

use std::fs;
use std::path::PathBuf;

use crate::harness::{CXIDIAG, assert_status, finish, stdout};
use crate::{Place, wait_for};

/// Writes the file of a machine that was started again.
fn another_boot(place: &Place) -> PathBuf {
    let root = place.path().join("root");
    let kernel = root.join("proc/sys/kernel/random");
    fs::create_dir_all(&kernel).expect("a directory");
    fs::write(kernel.join("boot_id"), "another\n").expect("a file");
    root
}

#[test]
fn stop_reports_since_start() {
    let place = Place::new();
    // A process with an open device keeps the counters of software NICs.
    let server = place.fabric.server("write-lat", "-d soft1");
    let start = finish(place.cxidiag(&["stat", "soft0", "--start=before"]));
    assert_eq!((assert_status(&start, 0), stdout(&start)), (String::new(), String::new()));
    let tool = ["write-lat", "--loopback", "-d", "soft0", "-n", "500"];
    let mut run = place.cxidiag(&tool);
    run.env("CXIDIAG_FAULTS", "loss=0.1");
    assert_status(&finish(run), 0);
    let stop = finish(place.cxidiag(&["stat", "--stop=before"]));
    assert_status(&stop, 0);
    let text = stdout(&stop);
    assert!(text.contains("packets were sent again on 1 of 1 NICs: soft0, "), "{text}");
    let fails = |codes: &str| {
        let code = format!("--fail-on={codes}");
        finish(place.cxidiag(&["stat", "--stop=before", "--quiet", &code])).status.code()
    };
    assert_eq!(fails("outlier,timeouts"), Some(3));
    assert_eq!(fails("outlier,pcie_errors"), Some(0));
    let mut other = place.cxidiag(&["stat", "--stop=before"]);
    other.env("CXIDIAG_ROOT", another_boot(&place));
    let refused = assert_status(&finish(other), 2);
    assert!(refused.contains("it was written before this machine started"), "{refused}");
    let text = fs::read_to_string(place.path().join("before")).expect("a file");
    let (before, after) = text.split_once("\"serial\":").expect("a serial number");
    let (_, after) = after.split_once(',').expect("more");
    let other = format!("{before}\"serial\":\"X1\",{after}");
    place.write("serial", &other);
    let refused = assert_status(&finish(place.cxidiag(&["stat", "--stop=serial"])), 2);
    assert!(refused.contains("soft0 was the NIC with serial number X1"), "{refused}");
    for (name, content) in [("empty", ""), ("text", "hello"), ("json", "{}")] {
        place.write(name, content);
        let file = format!("--stop={name}");
        let refused = assert_status(&finish(place.cxidiag(&["stat", &file])), 2);
        assert!(refused.contains("not a file of cxidiag stat"), "{refused}");
    }
    drop(server);
}

/// monitoring.md 1.6 vector 6.
#[test]
fn stop_finishes_the_report_of_a_killed_leader() {
    let place = Place::new();
    let script = "touch ready; while [ -e ready ] && [ ! -e go ]; do sleep 0.02; done; touch ended";
    let mut leader =
        place.stat(&["--with-arguments"], &["sh", "-c", script]).spawn().expect("it starts");
    place.wait_for_file("ready");
    leader.kill();
    let _ = leader.wait();
    let start = wait_for("the first reading", || {
        let mut entries = fs::read_dir(place.path()).expect("a directory").flatten();
        let step = entries.find(|entry| entry.path().is_dir())?;
        let mut files = fs::read_dir(step.path()).ok()?.flatten().map(|file| file.path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "start"))
    });
    let stop = format!("--stop={}", start.display());
    let output = finish(place.cxidiag(&["stat", &stop]));
    assert_status(&output, 0);
    assert!(stdout(&output).starts_with("1 node, 1 NIC (software NICs): sh -c touch ready;"));
    let mut other = place.cxidiag(&["stat", &stop]);
    other.env("CXIDIAG_ROOT", another_boot(&place));
    assert_status(&finish(other), 2);
    assert!(!place.path().join("ended").exists());
    place.write("go", "");
    place.wait_for_file("ended");
}

#[test]
fn start_fails_without_nics_and_the_command_runs_without_them() {
    let place = Place::new();
    let output = finish(place.cxidiag(&["stat", "cxi7", "--start=before"]));
    let errors = assert_status(&output, 1);
    assert!(
        errors.contains("the counters of cxi7 cannot be read: there is no such NIC"),
        "{errors}"
    );
    let output = finish(place.cxidiag(&["stat", "cxi7", "--", CXIDIAG, "--version"]));
    assert_status(&output, 0);
    assert!(stdout(&output).starts_with("cxidiag "));
}

#[test]
fn stop_fails_if_a_nic_is_gone() {
    let place = Place::new();
    let start = finish(place.cxidiag(&["stat", "soft0", "soft1", "--start=before"]));
    assert_status(&start, 0);
    let text = fs::read_to_string(place.path().join("before")).expect("a file");
    place.write("one", &text.replace("\"soft1\"", "\"cxi7\""));
    let stop = finish(place.cxidiag(&["stat", "--stop=one"]));
    let errors = assert_status(&stop, 1);
    assert!(errors.contains("no second reading of cxi7"), "{errors}");
    assert!(stdout(&stop).starts_with("1 node, 2 NICs"));
    let none = text.replace("\"soft0\"", "\"cxi6\"");
    place.write("none", &none.replace("\"soft1\"", "\"cxi7\""));
    let stop = finish(place.cxidiag(&["stat", "--stop=none"]));
    let errors = assert_status(&stop, 1);
    assert!(errors.contains("no NIC can be read"), "{errors}");
    assert_eq!(stdout(&stop), "");
}

#[test]
fn stop_refuses_a_file_without_boot_id() {
    let place = Place::new();
    assert_status(&finish(place.cxidiag(&["stat", "soft0", "--start=before"])), 0);
    let text = fs::read_to_string(place.path().join("before")).expect("a file");
    let (before, after) = text.split_once("\"boot_id\":").expect("a boot id");
    let (_, after) = after.split_once(',').expect("more");
    place.write("before", &format!("{before}\"boot_id\":null,{after}"));
    // This machine does not show one either.
    let mut stop = place.cxidiag(&["stat", "--stop=before"]);
    stop.env("CXIDIAG_ROOT", place.path().join("none"));
    let refused = assert_status(&finish(stop), 2);
    assert!(refused.contains("since which boot"), "{refused}");
}
