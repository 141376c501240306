//! `cxidiag compare --layers` and `--expect=NAME` on texts of other programs, and on what
//! fi_pingpong prints where it is installed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::harness::{Fabric, assert_status, assert_success, schema, stdout};

/// The schema of what `compare --layers --json` writes.
const LAYERS: &str = include_str!("../../docs/layers.schema.json");

fn text(name: &str) -> String {
    format!("{}/tests/fixtures/programs/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

fn compare(arguments: &[&str]) -> Output {
    Fabric::new().run(&[&["compare"], arguments].concat())
}

#[test]
fn shows_layers_and_writes_them_for_report() {
    let [fabric, mpi] = [text("fi_rdm_tagged_pingpong"), text("osu-latency-5")];
    let output = compare(&["--layers", &mpi, &fabric]);
    assert_success(&output);
    let shown = stdout(&output);
    let first = shown.lines().next();
    assert_eq!(first, Some("send latency, 1 B: libfabric 1.95 us, + MPI 0.10 = 2.05"));

    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let [slow, json, page] = ["slow.txt", "layers.json", "page.html"].map(path);
    // MPI takes 0.5 us more for small messages.
    let changed = std::fs::read_to_string(&mpi).unwrap().replace("  2.0", "  2.5");
    std::fs::write(&slow, changed).unwrap();
    let json_option = format!("--json={json}");
    let output = compare(&["--layers", &fabric, &mpi, "--", &fabric, &slow, &json_option]);
    let error = assert_status(&output, 3);
    let summary = "MPI is slower: send latency by up to 24 % (1 to 64 bytes); libfabric unchanged \
                   within 3 %";
    assert!(error.contains(summary), "{error}");
    let document: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    schema::check_against(LAYERS, &document);
    assert_eq!(document["summary"], summary);
    assert_success(&Fabric::new().run(&["report", &json, "--output", &page]));
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(drawn.contains(summary) && drawn.contains("MPI new"), "{drawn}");
    // The same of the files themselves, without a change to judge.
    assert_success(&Fabric::new().run(&["report", &fabric, &mpi, "--output", &page]));
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(drawn.contains("Latency of each size and layer: send latency"), "{drawn}");
    // One set says what layers add, not whether that is good.
    let one_set = format!("--json={json}");
    assert_success(&compare(&["--layers", &fabric, &mpi, &one_set]));
    assert_success(&Fabric::new().run(&["report", &json, "--output", &page]));
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(!drawn.contains("class=\"badge good\""), "{drawn}");
    // A document of layers is no run.
    assert_status(&compare(&["--layers", &json, &mpi]), 1);
}

#[test]
fn refuses_what_layers_cannot_be_compared_by() {
    let mpi = text("osu-latency-5");
    for (arguments, why) in [
        (vec!["--layers"], "--layers takes the files of one pair of NICs"),
        (vec!["--layers", &mpi, "--"], "--layers takes the files of one pair of NICs"),
        (vec!["--layers", &mpi, "--figure=mean"], "goes without --figure"),
        (vec!["--layers", &mpi, "--max-regress=3%"], "goes without --max-regress"),
        (vec!["--layers", &mpi, "--expect=mean<3us"], "goes without --layers"),
        (vec!["--layers", &mpi], "no transfer was measured by two layers (osu_latency)"),
        (vec![&mpi, &text("fi_pingpong")], "--layers compares what libcxi, libfabric and MPI add"),
    ] {
        let error = assert_status(&compare(&arguments), 2);
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}

#[test]
fn published_figures_are_found_by_name() {
    let [bandwidth, latency] = [text("osu-bw-6"), text("osu-latency-5")];
    let profile = "--expect=slingshot200-same-switch";
    let output = compare(&[profile, &bandwidth, &latency]);
    assert_success(&output);
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stdout(&output));
    let directory = tempfile::tempdir().unwrap();
    let slow = directory.path().join("slow.txt");
    let over_tcp = std::fs::read_to_string(&bandwidth).unwrap().replace("24013.40", " 3100.00");
    std::fs::write(&slow, over_tcp).unwrap();
    let error = assert_status(&compare(&[profile, slow.to_str().unwrap(), &latency]), 3);
    assert!(error.contains("not met: 1 of 2 bounds"), "{error}");
    let error = assert_status(&compare(&["--expect=slingshot200-loopback", &bandwidth]), 4);
    assert!(error.contains("no bound for what was measured (osu_bw)"), "{error}");
    let error = assert_status(&compare(&["--expect=slingshot-400", &bandwidth]), 2);
    assert!(error.contains("there are ") && error.contains("slingshot200-loopback"), "{error}");
    let rate = compare(&["--expect=rate>=20M/s", &text("osu-mbw_mr-7")]);
    assert!(assert_status(&rate, 3).contains("not met: 4 of 4 bounds"));
}

/// A profile of tools on a software NIC: the bounds of other tools and sizes are left out.
#[test]
fn tools_take_their_own_bounds_of_a_profile() {
    let fabric = Fabric::new();
    let options = ["--loopback", "-d", "soft0", "-n", "2", "--expect=slingshot200-same-switch"];
    let output = fabric.run(&[&["write-lat"], &options[..]].concat());
    assert!(stdout(&output).contains("8:mean<=3.5us"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("64K:bw"), "{}", stdout(&output));
    let output = fabric.run(&[&["write-lat", "-s", "16"], &options[..]].concat());
    let error = assert_status(&output, 2);
    assert!(error.contains("it has no bounds of write-lat for 16 bytes"), "{error}");
}

/// Real text of libfabric, over TCP: distributions build it without the provider cxi.
#[test]
fn reads_what_an_installed_fi_pingpong_prints() {
    let program = Path::new("/usr/bin/fi_pingpong");
    if !program.exists() {
        println!("not tested: fi_pingpong is not installed (package libfabric-bin)");
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a free port").port().to_string();
    let options = ["-p", "tcp", "-e", "msg", "-I", "100", "-S", "64"];
    let mut server = Command::new(program)
        .args(options)
        .args(["-B", &port])
        .stdout(Stdio::null())
        .spawn()
        .expect("a server");
    let client = || {
        let client = Command::new(program).args(options).args(["-P", &port, "127.0.0.1"]).output();
        client.expect("a client")
    };
    // The server listens a little later.
    let output = loop {
        let output = client();
        if output.status.success() || server.try_wait().expect("a process").is_some() {
            break output;
        }
    };
    let _ = server.kill();
    server.wait().expect("a process");
    if !output.status.success() {
        println!("not tested: fi_pingpong fails: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fi_pingpong.txt");
    std::fs::write(&file, &output.stdout).unwrap();
    let output = compare(&["--expect=64:mean<1s", file.to_str().unwrap()]);
    assert_success(&output);
    assert!(stdout(&output).contains("fi_pingpong"), "{}", stdout(&output));
}
