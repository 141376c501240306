//! The software NIC as a `libcxi.so.1`: programs in C, compiled against our header as foreign programs are
//! against HPE's, and the functions and versions that the library exports.

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
    for program in [
        "smoke",
        "life",
        "counters",
        "loopback",
        "ping_pong",
        "writer",
    ] {
        compile(&directory, program);
    }
    directory
});

fn compile(directory: &Path, program: &str) {
    let sources = [program, "rig"].map(|source| Path::new(SOURCES).join(format!("{source}.c")));
    succeed(
        Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
            .arg("-pthread")
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

/// Runs a program on the library as users do, on its own fabric.
fn run(program: &str, argument: &str) -> Output {
    run_with(program, argument, "")
}

/// As [`run`], with a choice of the doorbells that trap.
fn run_with(program: &str, argument: &str, trapped: &str) -> Output {
    // The default place of fabrics: creating files is slower on other file systems.
    let fabric = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let output = succeed(
        Command::new(Path::new(PACKAGING).join("cxi-softnic"))
            .arg(BUILT.join(program))
            .arg(argument)
            .env("CXI_SOFTNIC_LIBRARY_DIR", BUILT.as_os_str())
            .env("CXIDIAG_TRAP_DOORBELLS", trapped)
            .env("CXIDIAG_FABRIC_DIR", fabric.path().join("fabric")),
    );
    assert!(!fabric.path().join("fabric").exists(), "left behind");
    output
}

/// Names of the functions that a program imports from the library.
fn imports(program: &str) -> BTreeSet<String> {
    let symbols = succeed(
        Command::new("nm")
            .args(["-D", "--undefined-only"])
            .arg(BUILT.join(program)),
    );
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let names = symbols
        .lines()
        .filter_map(|line| line.trim().strip_prefix("U "));
    let names = names.map(|symbol| symbol.split('@').next().expect("a name"));
    names
        .filter(|name| name.starts_with("cxil_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn c_program_calls_every_function() {
    run("smoke", "");
    let functions: BTreeSet<String> = facts().into_keys().collect();
    assert_eq!(imports("smoke"), functions);
}

/// Sizes, alignments and offsets of the header's structures on this machine, checked by the C compiler.
#[test]
fn c_structures_agree_with_facts() {
    let mut checks = String::from("#include <stddef.h>\n#include \"cxi.h\"\n");
    let header = include_str!("../ffi/cxi-sys/cxi.h");
    let mut count = 0;
    for structure in ABI["structs"].as_array().expect("structures") {
        let (name, kind) = (text(&structure["name"]), text(&structure["kind"]));
        if !header.contains(&format!("{kind} {name} {{")) {
            continue;
        }
        count += 1;
        let size = &structure["size"];
        checks += &format!("_Static_assert(sizeof({kind} {name}) == {size}, \"{name}\");\n");
        for field in structure["fields"].as_array().expect("fields") {
            let (Some(member), Some(at)) = (field["name"].as_str(), field["byte_offset"].as_u64())
            else {
                continue;
            };
            if !member.is_empty() && field.get("bit_width").is_none() {
                checks += &format!(
                    "_Static_assert(offsetof({kind} {name}, {member}) == {at}, \"{name}.{member}\");\n"
                );
            }
        }
    }
    assert!(
        count >= 25,
        "only {count} structures of the header are known"
    );
    let path = BUILT.join("structures.c");
    std::fs::write(&path, checks).expect("a writable directory");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-fsyntax-only"]).arg(&path);
    succeed(compiler.arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys")));
}

/// Tests of the program `life`.
macro_rules! life {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            run("life", stringify!($name));
        }
    )*};
}

life! { forks threads several_devices several_processes cycles }

/// Tests of the program `counters`, whose doorbells trap by default.
macro_rules! counters {
    ($($name:ident: $test:literal)*) => {$(
        #[test]
        fn $name() {
            run("counters", $test);
        }
    )*};
}

counters! {
    counts_each_store_to_doorbell: "stores"
    executes_commands_before_later_stores: "order"
    counts_stores_of_all_forms: "forms"
    leaves_faults_of_program_to_its_handler: "handlers"
    fault_kills_program_without_handler: "kills"
    children_change_no_counter_of_parent: "children"
    doorbell_of_destroyed_counter_is_not_memory: "destroyed"
}

/// The programs check that their data arrives; their figures are not judged.
#[test]
fn foreign_programs_exchange_data() {
    for trapped in ["none", "counters", "all"] {
        let output = |program| {
            let output = run_with(program, "200", trapped);
            String::from_utf8(output.stdout).expect("text")
        };
        let ping_pong = output("ping_pong");
        assert!(
            ping_pong.starts_with("round trip [us]: min "),
            "{ping_pong}"
        );
        let loopback = output("loopback");
        assert!(
            loopback.starts_with("write and ACK [us]: min "),
            "{loopback}"
        );
        let writer = output("writer");
        assert!(
            writer.contains("\n200 writes of 65536 bytes, 16 under way: "),
            "{writer}"
        );
    }
}

/// Programs with threads, children and several devices ring doorbells of queues that trap.
#[test]
fn doorbells_of_queues_trap_on_request() {
    run_with("smoke", "", "all");
    for test in [
        "forks",
        "threads",
        "several_devices",
        "several_processes",
        "cycles",
    ] {
        run_with("life", test, "all");
    }
    for test in ["stores", "order", "forms", "handlers", "children"] {
        run_with("counters", test, "all");
    }
}

#[test]
fn rejects_unknown_choice_of_doorbells() {
    let output = Command::new(Path::new(PACKAGING).join("cxi-softnic"))
        .arg(BUILT.join("loopback"))
        .env("CXI_SOFTNIC_LIBRARY_DIR", BUILT.as_os_str())
        .env("CXIDIAG_TRAP_DOORBELLS", "some")
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rig.dev) is -22, not 0"), "{said}");
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// Functions and their version nodes, from the facts.
fn facts() -> BTreeMap<String, String> {
    let functions = ABI["functions"].as_array().expect("functions");
    functions
        .iter()
        .map(|function| (text(&function["name"]), text(&function["version"])))
        .collect()
}

#[test]
fn exports_functions_with_their_versions() {
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
    // The only other symbols are the names of the nodes.
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

/// Each node has the one before it as its parent.
#[test]
fn version_nodes_form_a_chain() {
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
fn wrapper_needs_program_and_library() {
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
    // The program's own library path comes second, and the wrapper exits with its status.
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
