//! The software NIC as a `libcxi.so.1`: programs in C, compiled against our header as foreign
//! programs are against HPE's, and the functions and versions that the library exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::LazyLock;

use crate::harness::c_program::{SOURCES, compile};
use crate::harness::shown_nics::{shows_nics_in_sys, wrapper};
use crate::harness::{Command, LIBCXI, SOFTWARE_NIC};
use serde_json::Value;

/// The program that acts as libfabric's provider for Cassini.
const LIBFABRIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libfabric/provider");

/// The facts about libcxi.
static ABI: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../ffi/cxi-sys/tests/layout/abi.json");
    serde_json::from_str(text).expect("JSON")
});

/// The directory with the programs, built once.
pub static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcxi");
    fs::create_dir_all(&directory).expect("a directory");
    for program in [
        "smoke",
        "life",
        "services",
        "on_demand",
        "counters",
        "signals",
        "loopback",
        "ping_pong",
        "writer",
        "shown",
        "fetch_add",
        "refused",
    ] {
        compile(&directory, &Path::new(SOURCES).join(program), program, &[]);
    }
    compile(&directory, Path::new(LIBFABRIC), "provider", &[]);
    directory
});

pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Runs a program on the library as users do, on its own fabric.
pub fn run(program: &str, argument: &str) -> Output {
    run_under(&[], program, argument)
}

/// As [`run`], with a choice of the doorbells that trap.
pub fn run_with(program: &str, argument: &str, trapped: &str) -> Output {
    let choice = format!("CXIDIAG_TRAP_DOORBELLS={trapped}");
    run_under(&["env", &choice], program, argument)
}

/// Runs a program on the library under another program, such as a debugger.
pub fn run_under(other: &[&str], program: &str, argument: &str) -> Output {
    run_by(wrapper().args(other), program, argument)
}

/// Runs a program on a fabric of switches.
fn run_on(topology: &str, program: &str, argument: &str) -> Output {
    let mut wrapper = wrapper();
    run_by(wrapper.env("CXIDIAG_TOPOLOGY", topology), program, argument)
}

/// Runs a program on the library by a wrapper with its options and environment.
pub fn run_by(wrapper: &mut Command, program: &str, argument: &str) -> Output {
    // The default place of fabrics: creating files is slower on other file systems.
    let fabric = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let output = succeed(
        wrapper
            .arg(PROGRAMS.join(program))
            .arg(argument)
            .env("CXIDIAG_FABRIC_DIR", fabric.path().join("fabric")),
    );
    assert!(!fabric.path().join("fabric").exists(), "left behind");
    let printed = String::from_utf8_lossy(&output.stdout);
    let skipped = printed.lines().filter(|line| line.starts_with("not tested"));
    skipped.for_each(|line| println!("{line}"));
    output
}

/// Names of the functions that a program imports from the library.
fn imports(program: &str) -> BTreeSet<String> {
    let symbols =
        succeed(Command::new("nm").args(["-D", "--undefined-only"]).arg(PROGRAMS.join(program)));
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let names = symbols.lines().filter_map(|line| line.trim().strip_prefix("U "));
    let names = names.map(|symbol| symbol.split('@').next().expect("a name"));
    names.filter(|name| name.starts_with("cxil_")).map(str::to_owned).collect()
}

#[test]
fn c_program_calls_every_function() {
    run("smoke", "");
    let functions: BTreeSet<String> = facts().into_keys().collect();
    assert_eq!(imports("smoke"), functions);
}

/// Sizes, alignments and offsets of the header's structures on this machine, checked by the C
/// compiler.
#[test]
fn c_structures_agree_with_facts() {
    let mut checks = String::from("#include <stddef.h>\n#include \"cxi.h\"\n");
    let header = include_str!("../../ffi/cxi-sys/cxi.h");
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
    assert!(count >= 25, "only {count} structures of the header are known");
    let path = PROGRAMS.join("structures.c");
    fs::write(&path, checks).expect("a writable directory");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-fsyntax-only"]).arg(&path);
    succeed(compiler.arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys")));
}

/// Tests that are parts of a program.
macro_rules! parts {
    ($program:ident: $($name:ident: $part:literal)*) => {$(
        #[test]
        fn $name() {
            run(stringify!($program), $part);
        }
    )*};
}
pub(crate) use parts;

parts! {
    life:
    keeps_devices_from_children: "forks"
    serves_threads: "threads"
    serves_several_devices: "several_devices"
    serves_several_processes: "several_processes"
    leaves_nothing_after_many_cycles: "cycles"
    leaves_signals_to_threads_of_program: "signals"
    works_after_first_thread_has_ended: "first_thread_ends"
}

parts! {
    services:
    makes_default_service_as_driver: "default_service"
    offers_classes_of_qos_profile: "qos_profiles"
    checks_descriptions_of_services: "descriptions"
    admits_network_namespaces: "network_namespaces"
    counts_pools_of_services: "pools"
    has_list_entries_of_processing_elements: "list_entries"
    reserves_all_list_entries: "reserved_entries"
    shares_rgids_between_many_lnis: "many_lnis"
    reserves_pids_and_uses_reservations_up: "pids"
    shares_pids_between_vnis_of_range: "ranges"
    keeps_device_usable_after_seteuid: "effective_user"
}

/// A process of a service whose LNIs share RGIDs has LCID 0, with another VNI than the tools.
#[test]
fn tools_run_beside_owner_of_lcid_0() {
    let program = concat!("CXIDIAG=", env!("CARGO_BIN_EXE_cxidiag"));
    run_under(&["env", program], "services", "shared_lcids");
}

#[test]
fn memory_mapped_on_demand_may_come_and_go() {
    run("on_demand", "");
}

/// The answer to a repeated command is there when the program has seen an empty event queue.
#[test]
fn programs_that_repeat_refused_commands_come_to_an_end() {
    for trapped in ["counters", "all"] {
        for command in ["append", "put"] {
            run_with("refused", command, trapped);
        }
    }
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
        assert!(ping_pong.starts_with("round trip [us]: min "), "{ping_pong}");
        let loopback = output("loopback");
        assert!(loopback.starts_with("write and ACK [us]: min "), "{loopback}");
        let writer = output("writer");
        assert!(writer.contains("\n200 writes of 65536 bytes, 16 under way: "), "{writer}");
    }
}

/// A put takes three links of a millisecond, in each direction of a round trip.
#[test]
fn foreign_programs_obey_a_topology() {
    let topology = "dragonfly:groups=2,switches=1,nics=1,latency=1ms";
    let output = run_on(topology, "ping_pong", "20");
    let text = String::from_utf8(output.stdout).expect("text");
    let least = text.strip_prefix("round trip [us]: min ");
    let least = least.and_then(|rest| rest.split([',', ' ', '\n']).next()?.parse::<f64>().ok());
    assert!(least.is_some_and(|least| least >= 6000.0), "{text}");
}

/// The calls and commands of libfabric's provider, with gets of rendezvous by the NIC and by
/// software.
#[test]
fn libfabric_sequence_transfers_data() {
    let argument = if shows_nics_in_sys() { "" } else { "no-sys" };
    run("provider", argument);
    run_under(&["env", "CXIDIAG_RDZV_GET=0"], "provider", argument);
    let topology = "dragonfly:groups=2,switches=2,nics=2,nic=1GB/s,latency=1us";
    run_on(topology, "provider", argument);
}

/// Debian's libfabric has no provider for Cassini; where one is installed, it must find the NICs
/// and transfer messages.
#[test]
fn libfabric_runs_where_it_has_the_provider() {
    let providers = Command::new("fi_info").arg("--list").output();
    let has_provider = providers.is_ok_and(|list| {
        String::from_utf8_lossy(&list.stdout).lines().any(|line| line.starts_with("cxi:"))
    });
    if !has_provider {
        println!("not tested: libfabric has no provider cxi");
        return;
    }
    if !shows_nics_in_sys() {
        return;
    }
    let nics = succeed(wrapper().args(["fi_info", "-p", "cxi"]));
    let nics = String::from_utf8_lossy(&nics.stdout);
    assert!(nics.contains("domain: cxi0\n"), "{nics}");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a free port").port();
    let pingpong = "fi_pingpong -p cxi -e rdm";
    let script = &format!(
        "{pingpong} -d cxi0 -B {port} & {pingpong} -d cxi1 -P {port} 127.0.0.1 && wait $!"
    );
    succeed(wrapper().args(["sh", "-c", script]));
}

/// A user of the group that shares a fabric of root reaches it through the wrapper, which does
/// without a user namespace then: root would be a stranger there.
#[test]
fn wrapper_runs_programs_on_the_fabric_of_a_group() {
    const USER: u32 = 1001;
    const GROUP: u32 = 4711;
    let shared = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    mode(shared.path(), 0o755).expect("an own directory");
    let fabric = shared.path().join("fabric");
    fs::create_dir(&fabric).expect("a new directory");
    if chown(&fabric, Some(0), Some(GROUP)).is_err() {
        println!("not tested: only root can give a directory to a group");
        return;
    }
    mode(&fabric, 0o2770).expect("an own directory");
    // The directory of the build may be closed to other users.
    succeed(
        Command::new("cp")
            .args(["cxi-softnic", "libcxi.so.1"].map(|file| SOFTWARE_NIC.join(file)))
            .arg(PROGRAMS.join("loopback"))
            .arg(shared.path()),
    );
    let output = succeed(
        Command::new(shared.path().join("cxi-softnic"))
            .arg(shared.path().join("loopback"))
            .arg("20")
            .env("CXIDIAG_FABRIC_DIR", &fabric)
            .user(USER, GROUP),
    );
    let note = String::from_utf8_lossy(&output.stderr);
    assert!(note.starts_with("cxi-softnic: note: /sys/class "), "{note}");
}

/// Memcheck reports no error: no invalid access, no decision that depends on uninitialised bytes,
/// no leak.
#[test]
fn runs_under_valgrind() {
    let memcheck = [
        "valgrind",
        "--quiet",
        // Otherwise the thread that spins rarely leaves valgrind's only CPU to the engine thread.
        "--fair-sched=yes",
        "--leak-check=full",
        "--error-exitcode=9",
    ];
    for (program, argument) in [("smoke", ""), ("on_demand", ""), ("ping_pong", "20")] {
        run_under(&memcheck, program, argument);
    }
}

/// Programs are compiled with a sanitizer; the library is not.
#[test]
fn runs_with_sanitizers() {
    // The library's calls of libc are instrumented, its atomic accesses are not: they look like
    // races.
    let suppressions = PROGRAMS.join("tsan.supp");
    fs::write(&suppressions, "called_from_lib:libcxi.so\n").expect("a writable directory");
    let tsan = format!("suppressions={}", suppressions.display());
    for (sanitizer, variable, value) in
        [("address,undefined", "ASAN_OPTIONS", "detect_leaks=0"), ("thread", "TSAN_OPTIONS", &tsan)]
    {
        // GCC warns that its ThreadSanitizer does not know fences.
        let flags = [&format!("-fsanitize={sanitizer}"), "-Wno-tsan"];
        if !runs_empty_program(&flags) {
            println!("not tested here: no programs with -fsanitize={sanitizer}");
            continue;
        }
        for (program, argument) in [("smoke", ""), ("on_demand", ""), ("ping_pong", "20")] {
            let executable = format!("{program}-{sanitizer}");
            compile(&PROGRAMS, &Path::new(SOURCES).join(program), &executable, &flags);
            run_by(wrapper().env(variable, value), &executable, argument);
        }
    }
}

/// Whether this machine compiles and runs programs with these options.
fn runs_empty_program(options: &[&str]) -> bool {
    let (source, program) = (PROGRAMS.join("empty.c"), PROGRAMS.join("empty"));
    fs::write(&source, "int main(void) { return 0; }\n").expect("a writable directory");
    let mut compiler = Command::new("cc");
    compiler.args(options).arg("-o").arg(&program).arg(&source);
    let succeeds = |command: &mut Command| {
        let output = command.output().expect("the program starts");
        output.status.success()
    };
    succeeds(&mut compiler) && succeeds(&mut Command::new(&program))
}

/// A debugger stops in a call and continues. It does not stop at doorbells that trap.
#[test]
fn runs_under_gdb() {
    let commands = [
        "handle SIGSEGV nostop noprint pass",
        "set breakpoint pending on",
        "break cxil_close_device",
        "run",
        "backtrace",
        "delete",
        "continue",
    ];
    let mut gdb = vec!["gdb", "-nx", "-batch"];
    gdb.extend(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.push("--args");
    let output = String::from_utf8(run_under(&gdb, "smoke", "").stdout).expect("text");
    assert!(output.contains("#0  0x"), "{output}");
    assert!(output.contains(" in cxil_close_device ()"), "{output}");
    assert!(output.contains("exited normally"), "{output}");
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// Functions and their version nodes, from the facts.
fn facts() -> BTreeMap<String, String> {
    let functions = ABI["functions"].as_array().expect("functions");
    functions.iter().map(|function| (text(&function["name"]), text(&function["version"]))).collect()
}

#[test]
fn exports_functions_with_their_versions() {
    let symbols = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&*LIBCXI));
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
    // The only other symbols are the names of the nodes, which some linkers leave out.
    let others = symbols.lines().filter(|line| !line.contains(" A LIBCXI_"));
    assert_eq!(others.count(), exported.len());
    let versions = succeed(Command::new("readelf").args(["-W", "--version-info"]).arg(&*LIBCXI));
    let versions = String::from_utf8(versions.stdout).expect("text");
    let nodes = versions.lines().filter(|line| line.contains(" Name: LIBCXI_")).count();
    assert_eq!(nodes, ABI["library"]["version_nodes"].as_array().expect("nodes").len());
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&*LIBCXI));
    let dynamic = String::from_utf8(dynamic.stdout).expect("text");
    let soname = ABI["library"]["soname"].as_str().expect("text");
    assert!(dynamic.contains(&format!("soname: [{soname}]")), "{dynamic}");
}

/// Each node has the one before it as its parent.
#[test]
fn version_nodes_form_a_chain() {
    let map = include_str!("../../ffi/softnic/libcxi.map");
    let names: Vec<&str> = map.lines().filter_map(|line| line.strip_suffix(" {")).collect();
    let facts = ABI["library"]["version_nodes"].as_array().expect("nodes");
    let wanted: Vec<&str> = facts.iter().map(|node| node["name"].as_str().expect("text")).collect();
    assert_eq!(names, wanted);
    for node in facts {
        let (name, parent) = (node["name"].as_str().expect("text"), node["parent"].as_str());
        let (_, rest) = map.split_once(&format!("\n{name} {{")).expect(name);
        let (_, end) = rest.split_once('}').expect("a closed node");
        let end = end.split(';').next().expect("an end").trim();
        assert_eq!(Some(end).filter(|end| !end.is_empty()), parent, "parent of {name}");
    }
}

#[test]
fn wrapper_needs_program_and_library() {
    let fails = |command: &mut Command, status, message: &str| {
        let output = command.output().expect("the wrapper starts");
        assert_eq!(output.status.code(), Some(status));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, format!("cxi-softnic: error: {message}\n"));
    };
    let missing = "expected a program to run (--help shows the usage)";
    fails(&mut wrapper(), 2, missing);
    let unknown =
        "--sys: expected --no-sys, --verbose, --write-sys or a program (--help shows the usage)";
    fails(wrapper().args(["--sys", "true"]), 2, unknown);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let full = full.expect("a full device");
    let failed = "standard output: No space left on device (os error 28)";
    fails(wrapper().arg("--help").stdout(full), 1, failed);
    let missing = "no libcxi.so.1 in /nowhere";
    let elsewhere = ("CXI_SOFTNIC_LIBRARY_DIR", "/nowhere");
    fails(wrapper().arg("true").env(elsewhere.0, elsewhere.1), 1, missing);
    let missing = "/nowhere: No such file or directory (os error 2)";
    fails(wrapper().args(["--no-sys", "/nowhere"]), 127, missing);
    let invalid = "CXIDIAG_NICS=0: expected a number from 1 to 100";
    fails(wrapper().arg("true").env("CXIDIAG_NICS", "0"), 2, invalid);
    let invalid = "CXIDIAG_SOFTNIC_SUMMARY=yes: expected 0 or 1";
    fails(wrapper().arg("true").env("CXIDIAG_SOFTNIC_SUMMARY", "yes"), 2, invalid);
    let invalid = "CXIDIAG_TRAP_DOORBELLS=some: expected none, counters or all";
    fails(wrapper().arg("true").env("CXIDIAG_TRAP_DOORBELLS", "some"), 2, invalid);
    // The program's own library path comes second, and the wrapper exits with its status.
    let output = wrapper()
        .args(["--no-sys", "sh", "-c", "echo $LD_LIBRARY_PATH; exit 7"])
        .env("LD_LIBRARY_PATH", "/other")
        .output()
        .expect("the wrapper starts");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{}:/other\n", SOFTWARE_NIC.display())
    );
}

/// The packets of all processes of a program, whether they close their devices or not.
#[test]
fn wrapper_says_how_many_packets_nics_sent() {
    let fabric = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let asked = |arguments: &[&str]| {
        let mut wrapper = wrapper();
        wrapper.args(arguments).env("CXIDIAG_FABRIC_DIR", fabric.path().join("fabric"));
        wrapper
    };
    let said = |command: &mut Command| {
        let output = command.output().expect("the wrapper starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let words = text.split_once("the software NICs sent ");
        (output.status, words.map(|(_, rest)| rest.trim_end().to_owned()))
    };
    let count = |(status, said): (ExitStatus, Option<String>)| {
        assert!(status.success(), "{said:?}");
        let said = said.expect("a summary");
        let count = said.split(' ').next().and_then(|word| word.parse().ok());
        count.unwrap_or_else(|| panic!("{said}"))
    };
    let program = |name: &str| PROGRAMS.join(name).to_str().expect("UTF-8").to_owned();
    // Each write has a packet and a response, and three writes come before the timed ones.
    let loopback: u64 = count(said(&mut asked(&["--verbose", &program("loopback"), "20"])));
    assert!((40..60).contains(&loopback), "{loopback}");
    // One process exits without closing its device.
    let left_open = count(said(&mut asked(&["--verbose", &program("refused"), "leave"])));
    assert!(left_open > 0);
    let script = format!("cxi-softnic {0} 20; cxi-softnic {0} 20", program("loopback"));
    let path = format!("{}:/usr/bin:/bin", SOFTWARE_NIC.display());
    let both = count(said(
        asked(&["sh", "-c", &script]).env("PATH", path).env("CXIDIAG_SOFTNIC_SUMMARY", "1"),
    ));
    assert_eq!(both, 2 * loopback);
    let (status, none) = said(&mut asked(&["--verbose", "false"]));
    assert_eq!(status.code(), Some(1));
    assert_eq!(none.as_deref(), Some("no packets for false"));
    let script = format!("{} kill; :", program("refused"));
    let (_, killed) = said(&mut asked(&["--verbose", "sh", "-c", &script]));
    let expected = "an unknown number of packets (1 process was killed or called _exit) for sh";
    assert_eq!(killed.as_deref(), Some(expected));
    let (status, unasked) = said(&mut asked(&[&program("loopback"), "20"]));
    assert!(status.success() && unasked.is_none(), "{unasked:?}");
    let (status, _) = said(&mut asked(&["--verbose", "sh", "-c", "kill -TERM $$"]));
    assert_eq!(status.signal(), Some(15));
    // A signal for the wrapper ends the program.
    let (status, _) =
        said(&mut asked(&["--verbose", "sh", "-c", "kill -TERM $PPID; exec sleep 600"]));
    assert_eq!(status.signal(), Some(15));
}

/// A program finds the MAC address of a NIC through `/sys/class/cxi`, and the PCI address that
/// libcxi reports through `/sys/class/net`. The directory for containers has the same entries.
#[test]
fn wrapper_shows_nics_in_sys() {
    let nics = |arguments: &[&str]| {
        wrapper()
            .args(arguments)
            .envs([("CXIDIAG_NICS", "2"), ("CXIDIAG_NIDS", "0x12,0xabcde")])
            .env("CXIDIAG_QOS", "HPC")
            .output()
            .expect("the wrapper starts")
    };
    let written = tempfile::tempdir().expect("a temporary directory");
    let written = written.path().to_str().expect("UTF-8");
    let output = nics(&["--write-sys", written]);
    assert!(output.status.success(), "{output:?}");
    let again = nics(&["--write-sys", written]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    // libfabric takes the PCI address from the text of the link, others follow it.
    let script = "cat net/hsn1/address cxi/cxi1/device/traffic_classes/active_qos_profile
        for link in net/hsn1 cxi/cxi1 cxi_user/cxi1; do
            basename $(readlink $link/device)
            basename $(realpath $link/device)
        done
        ls -d net/hsn* net/lo";
    let interfaces = succeed(Command::new("sh").args(["-c", script]).current_dir(written));

    let devices = nics(&[env!("CARGO_BIN_EXE_cxidiag"), "devices", "--json", "cxi1"]);
    let listed: Value = serde_json::from_slice(&devices.stdout).expect("JSON");
    let nic = &listed["devices"][0];
    let pci_address = text(&nic["nic"]["pci_address"]);
    assert_eq!(
        String::from_utf8_lossy(&interfaces.stdout),
        format!(
            "02:00:00:0a:bc:de\nHPC\n{}net/hsn0\nnet/hsn1\nnet/lo\n",
            format!("{pci_address}\n").repeat(6)
        )
    );

    if !shows_nics_in_sys() {
        let note = String::from_utf8_lossy(&devices.stderr);
        let start = "cxi-softnic: note: /sys/class does not show the software NICs: ";
        assert!(note.starts_with(start), "{note}");
        return;
    }
    assert_eq!(nic["mac_address"], "02:00:00:0a:bc:de");
    let shown = nics(&["sh", "-c", &format!("cd /sys/class; {script}")]);
    assert_eq!(shown.stdout, interfaces.stdout);
    // The devices of the kernel are listed too, if the machine has a list.
    let listed = |devices: &str| {
        let listed = succeed(Command::new("ls").arg(devices)).stdout;
        String::from_utf8(listed).expect("text")
    };
    const LIST: &str = "/sys/bus/pci/devices";
    if Path::new(LIST).exists() {
        let real = listed(LIST);
        let shown = nics(&["sh", "-c", &format!("ls {LIST}; cat {LIST}/{pci_address}/vendor")]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert_eq!(shown, format!("{real}5f00:00:00.0\n5f00:01:00.0\n0x1590\n"));
        assert_eq!(listed(LIST), real);
    }
    // Other processes see the directory of the kernel.
    assert!(!Path::new("/sys/class/softnic").exists());
}
