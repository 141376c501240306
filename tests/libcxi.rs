//! The software NIC as a `libcxi.so.1`: a suite in C, compiled against our header as a foreign program is against HPE's,
//! and the names and versions that the library exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libcxi");
const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/softnic");

/// The facts about libcxi.
static ABI: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../ffi/cxi-sys/tests/layout/abi.json");
    serde_json::from_str(text).expect("JSON")
});

/// Library and programs, built once.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcxi");
    succeed(
        Command::new(Path::new(PACKAGING).join("build-library"))
            .arg(&directory)
            // The settings of the cargo that runs the tests are not those of this build.
            .env_remove("CARGO_ENCODED_RUSTFLAGS"),
    );
    compile(
        &directory,
        "suite",
        &[
            "suite.c",
            "rig.c",
            "control.c",
            "queues.c",
            "operations.c",
            "life.c",
        ],
    );
    compile(&directory, "ping_pong", &["ping_pong.c", "rig.c"]);
    compile(&directory, "writer", &["writer.c", "rig.c"]);
    directory
});

fn compile(directory: &Path, program: &str, sources: &[&str]) {
    let sources = sources.iter().map(|source| Path::new(SOURCES).join(source));
    succeed(
        Command::new("cc")
            .args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O2",
                "-pthread",
            ])
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys"))
            .arg("-o")
            .arg(directory.join(program))
            .args(sources)
            .arg(format!("-L{}", directory.display()))
            .arg("-lcxi"),
    );
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Runs a program on the library, as users do, on a fabric of its own.
fn run(program: &str, argument: &str) -> Output {
    // Where fabrics are by default: files of other file systems are slow to make.
    let fabric = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let output = succeed(
        Command::new(Path::new(PACKAGING).join("cxi-softnic"))
            .arg(BUILT.join(program))
            .arg(argument)
            .env("CXI_SOFTNIC_LIBRARY_DIR", BUILT.as_os_str())
            .env("CXIDIAG_FABRIC_DIR", fabric.path().join("fabric")),
    );
    assert!(!fabric.path().join("fabric").exists(), "left behind");
    output
}

/// Tests of the suite, each of which is a test here.
macro_rules! suite {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run("suite", stringify!($name));
            }
        )*

        #[test]
        fn every_test_of_the_suite_is_run() {
            let listed = String::from_utf8(run("suite", "list").stdout).expect("text");
            let listed: BTreeSet<&str> = listed.lines().collect();
            assert_eq!(listed, BTreeSet::from([$(stringify!($name)),*]));
        }
    };
}

suite! {
    devices device_environment services_read services_admin services_shared interfaces memory fork_safe
    event_queues resize resize_full wait_objects command_queues submission registers telemetry absent_parts
    puts_and_gets failures command_failure atomics messages rendezvous counters profiles_and_fences portals
    forks threads several_devices several_processes cycles
}

/// Both print figures; what they check is that all arrives.
#[test]
fn ping_pong_and_writer() {
    let ping_pong = String::from_utf8(run("ping_pong", "200").stdout).expect("text");
    assert!(
        ping_pong.starts_with("round trip [us]: min "),
        "{ping_pong}"
    );
    let writer = String::from_utf8(run("writer", "200").stdout).expect("text");
    assert!(
        writer.contains("\n200 writes of 65536 bytes, 16 under way: "),
        "{writer}"
    );
}

/// Functions and their version nodes, from the facts.
fn facts() -> BTreeMap<String, String> {
    let functions = ABI["functions"].as_array().expect("functions");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    functions
        .iter()
        .map(|function| (text(&function["name"]), text(&function["version"])))
        .collect()
}

#[test]
fn exported_functions_and_their_versions() {
    let library = BUILT.join("libcxi.so.1");
    let symbols = succeed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&library),
    );
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let exported: BTreeMap<String, String> = symbols
        .lines()
        .filter_map(|line| {
            let symbol = line.split(' ').nth(2)?;
            let (name, version) = symbol.split_once("@@")?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect();
    assert_eq!(exported, facts());
    // And nothing else but the names of the nodes.
    let nodes = symbols
        .lines()
        .filter(|line| line.contains(" A LIBCXI_"))
        .count();
    assert_eq!(symbols.lines().count(), exported.len() + nodes);
    assert_eq!(
        nodes,
        ABI["library"]["version_nodes"]
            .as_array()
            .expect("nodes")
            .len()
    );
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&library));
    let dynamic = String::from_utf8(dynamic.stdout).expect("text");
    let soname = ABI["library"]["soname"].as_str().expect("text");
    assert!(
        dynamic.contains(&format!("soname: [{soname}]")),
        "{dynamic}"
    );
}

/// The nodes form a chain: each has the one before it as its parent.
#[test]
fn the_chain_of_version_nodes() {
    let map = std::fs::read_to_string(Path::new(PACKAGING).join("libcxi.map")).expect("a file");
    let opened = map.lines().filter_map(|line| line.strip_suffix(" {"));
    let names: Vec<&str> = opened.collect();
    let facts = ABI["library"]["version_nodes"].as_array().expect("nodes");
    let wanted: Vec<&str> = facts
        .iter()
        .map(|node| node["name"].as_str().expect("text"))
        .collect();
    assert_eq!(names, wanted);
    for node in facts {
        let (name, parent) = (
            node["name"].as_str().expect("text"),
            node["parent"].as_str(),
        );
        let (_, rest) = map.split_once(&format!("\n{name} {{")).expect(name);
        let (_, end) = rest.split_once('}').expect("a closed node");
        let end = end.split(';').next().expect("an end").trim();
        assert_eq!(
            Some(end).filter(|end| !end.is_empty()),
            parent,
            "parent of {name}"
        );
    }
}

#[test]
fn the_wrapper_needs_a_program_and_a_library() {
    let wrapper = Path::new(PACKAGING).join("cxi-softnic");
    let none = Command::new(&wrapper).output().expect("the wrapper starts");
    assert_eq!(none.status.code(), Some(2));
    let missing = Command::new(&wrapper)
        .arg("true")
        .env("CXI_SOFTNIC_LIBRARY_DIR", "/nowhere")
        .output()
        .expect("the wrapper starts");
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&missing.stderr),
        "cxi-softnic: error: no libcxi.so.1 in /nowhere\n"
    );
    // The program's own path of libraries comes second, and its status is the wrapper's.
    let output = Command::new(&wrapper)
        .args(["sh", "-c", "echo $LD_LIBRARY_PATH; exit 7"])
        .env("CXI_SOFTNIC_LIBRARY_DIR", BUILT.as_os_str())
        .env("LD_LIBRARY_PATH", "/other")
        .output()
        .expect("the wrapper starts");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{}:/other\n", BUILT.display())
    );
}
