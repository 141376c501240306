//! `cxidiag check --job`: settings of jobs, with stand-ins for several versions of libfabric.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::machine::MadeUp;
use crate::harness::slurm::Slurm;
use crate::harness::{
    CXIDIAG, Command, Fabric, assert_status, assert_success, finish, schema, stderr, stdout,
};

const NAMES: &str = include_str!("../libfabric/names.txt");

/// A machine with four NICs.
fn machine() -> MadeUp {
    let machine = MadeUp::new(&[("sys/class/net/hsn0/mtu", "9000")]);
    for nic in 0..4 {
        machine.write(&format!("sys/class/cxi/cxi{nic}/device/properties/rdzv_get_en"), "1\n");
    }
    machine
}

/// Builds a libfabric of this version, with or without a cxi provider, in a directory of its own.
fn library(directory: &Path, version: &str, has_cxi: bool) -> PathBuf {
    let name = if has_cxi { version.to_owned() } else { format!("{version}-without") };
    let place = directory.join(name);
    fs::create_dir(&place).expect("a directory");
    let number = |version: &str| {
        let (major, minor) = version.split_once('.').expect("a version");
        (major.parse::<u32>().expect("a number"), minor.parse::<u32>().expect("a number"))
    };
    let own = number(version);
    let mut names = String::new();
    for line in NAMES.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let is_in = number(words[2]) <= own && own <= number(words[3]);
        let is_built = match words.get(4) {
            None => true,
            Some(part) => *part == "cxi" && has_cxi,
        };
        if is_in && is_built {
            names += &format!("{{\"{}\", {}, \"\", 0}}, ", words[0], words[1].to_uppercase());
        }
    }
    let (major, minor) = own;
    let default = if own >= (2, 2) { 1024 } else { 512 };
    let header = format!(
        "#define VERSION {}\n#define NAMES {names}\n#define HAS_CXI {}\n#define DEFAULT_SIZE {default}\n",
        (major << 16) | minor,
        i32::from(has_cxi),
    );
    fs::write(place.join("names.h"), header).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    compiler.arg(place.join("libfabric.so.1")).arg("-I").arg(&place);
    compiler.arg("-Wl,-soname,libfabric.so.1");
    compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libfabric/stub.c"));
    assert_success(&compiler.output().expect("the compiler starts"));
    place
}

/// A check of settings on this machine with the libfabric in this directory.
fn command(
    machine: &MadeUp,
    library: &Path,
    arguments: &str,
    settings: &[(&str, &str)],
) -> Command {
    let mut command = Fabric::new().command(&format!("check {arguments}"));
    command.env("LD_LIBRARY_PATH", library).envs(settings.iter().copied());
    machine.seen_by(command)
}

#[test]
fn asks_each_version_what_it_knows_and_uses() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    for (version, default) in
        [("1.15", 512), ("1.22", 512), ("2.0", 512), ("2.3", 1024), ("2.6", 1024)]
    {
        let place = library(directory.path(), version, true);
        let path = place.join("libfabric.so.1");
        let settings = [("FI_CXI_RX_MATCH_MODE", "hybrid"), ("FI_LOG_LEVEL", "warn")];
        let output = finish(command(&machine, &place, "--job", &settings));
        assert_success(&output);
        let known = format!(
            "libfabric {version} at {} (first in LD_LIBRARY_PATH) knows all names",
            path.display()
        );
        assert_eq!(stdout(&output), format!("OK 2 settings; {known}\n"));

        let settings = [
            ("FI_CXI_DEFAULT_TX_SIZE", "32768"),
            ("FI_CXI_OVFLOW_BUF_SIZE", "8388608"),
            ("FI_CXI_ENABLE_WRITEDATA", "1"),
            ("FI_CXI_COLL_MCAST_TOKEN", "sesame"),
            ("FI_PROVIDER", "tcp"),
        ];
        let output = finish(command(&machine, &place, "--job --json", &settings));
        assert_status(&output, 3);
        let text = stdout(&output);
        assert!(!text.contains("sesame"), "{text}");
        let document = schema::document(include_str!("../../docs/check-job.schema.json"), &text);
        let findings = document["findings"].as_array().expect("findings");
        let said = |code: &str| {
            let found = findings.iter().find(|finding| finding["code"] == code);
            found.map(|finding| finding["text"].as_str().expect("text").to_owned())
        };
        let replaced = format!(
            "above the limit 16384; libfabric uses its default {default} instead, without a message."
        );
        assert_eq!(said("L13"), Some(replaced));
        let unknown = format!("libfabric {version} does not know this name; it has no effect.");
        assert_eq!(said("L1"), Some(unknown));
        assert!(said("L39").is_some(), "{text}");
        let newer = format!("needs libfabric 2.5 or later; this is {version}.");
        assert_eq!(said("L5"), Some(newer).filter(|_| version != "2.6"));
    }
}

#[test]
fn says_that_a_library_has_no_cxi_provider_or_does_not_answer() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "1.17", false);
    let output = finish(command(&machine, &place, "--job", &[("FI_CXI_FOO", "1")]));
    let path = place.join("libfabric.so.1");
    let line = format!(
        "FAIL L7 libfabric: the libfabric at {} has no cxi provider; the job cannot use the \
         Slingshot NIC through it.\n",
        path.display()
    );
    assert_status(&output, 3);
    assert!(stdout(&output).starts_with(&line), "{}", stdout(&output));

    let output = finish(command(&machine, &place, "--job -q", &[("STUB_BEHAVIOUR", "end")]));
    assert_status(&output, 4);
    let reason = format!("{}: its process ended (exit status 7)", path.display());
    assert_eq!(stdout(&output), format!("UNDECIDED untested job: {reason}\n"));

    fs::write(place.join("libfabric.so.1"), "no library").unwrap();
    // What needs no library is judged.
    let output = finish(command(&machine, &place, "--job", &[("NCCL_NET_GDR_LEVEL", "PBH")]));
    assert_status(&output, 3);
    let text = stdout(&output);
    assert!(text.starts_with("FAIL N5 NCCL_NET_GDR_LEVEL=PBH: not a level"), "{text}");
    assert!(text.contains("\nUNDECIDED untested libfabric\n"), "{text}");
}

#[test]
fn does_not_wait_for_a_library_that_hangs() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let path = place.join("libfabric.so.1");
    let check = |behaviour: &str| {
        let mut check = command(&machine, &place, "--job", &[("STUB_BEHAVIOUR", behaviour)]);
        check.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "10");
        finish(check)
    };
    for behaviour in ["hang", "hang-in-constructor"] {
        let output = check(behaviour);
        assert_status(&output, 4);
        let text = stdout(&output);
        let line = format!("UNDECIDED untested job: {} did not answer within 1s\n", path.display());
        assert!(text.starts_with(&line), "{behaviour}: {text}");
    }
    let output = check("hang-in-destructor");
    assert_success(&output);
    assert!(stdout(&output).starts_with("OK 0 settings; libfabric 2.3 at "), "{}", stdout(&output));
}

/// Loads another libfabric, if it has an argument, and then waits.
const PROGRAM: &str = "
#include <dlfcn.h>
#include <unistd.h>
unsigned fi_version(void);
int main(int count, char **words)
{
    if (count > 1 && dlopen(words[1], RTLD_NOW))
        pause();
    return !fi_version();
}
";

/// Builds a program that needs libfabric, with or without the directory `place` in its RPATH.
fn program(directory: &Path, name: &str, place: &Path, has_path: bool) -> PathBuf {
    let (source, program) = (directory.join("program.c"), directory.join(name));
    fs::write(&source, PROGRAM).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.arg(&source).arg("-o").arg(&program).arg(place.join("libfabric.so.1"));
    compiler.arg("-Wl,--disable-new-dtags");
    if has_path {
        compiler.arg(format!("-Wl,-rpath,{}", place.display()));
    }
    assert_success(&compiler.output().expect("the compiler starts"));
    program
}

#[test]
fn asks_the_library_that_the_program_of_a_command_loads() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let own = library(directory.path(), "2.3", true);
    let other = library(directory.path(), "1.22", true);
    let with = program(directory.path(), "with", &own, true);
    let without = program(directory.path(), "without", &own, false);
    let check = |words: &str| {
        let output = finish(command(&machine, &other, &format!("--job -- {words}"), &[]));
        (output.status.code(), stdout(&output))
    };
    let [own, other] = [&own, &other].map(|place| place.join("libfabric.so.1"));
    let answer = |version: &str, path: &Path, origin: &str| {
        let path = path.display();
        format!("OK 0 settings; libfabric {version} at {path} ({origin})\n")
    };
    for (words, version, path, origin) in [
        (
            format!("srun -n 4 {}", with.display()),
            "2.3",
            &own,
            format!("found for {}", with.display()),
        ),
        (
            format!("{} x", without.display()),
            "1.22",
            &other,
            format!("found for {}", without.display()),
        ),
        (
            format!(
                "env LD_LIBRARY_PATH={} {}",
                own.parent().expect("a directory").display(),
                without.display()
            ),
            "2.3",
            &own,
            format!("found for {}", without.display()),
        ),
        (
            "sh -c true".to_owned(),
            "1.22",
            &other,
            "first in LD_LIBRARY_PATH; no program of the command needs it itself".to_owned(),
        ),
    ] {
        assert_eq!(check(&words), (Some(0), answer(version, path, &origin)), "{words}");
    }
    // Words behind the program are its own.
    let (status, text) = check(&format!("env FI_CXI_FOO=1 {} FI_CXI_BAR=1", with.display()));
    assert_eq!(status, Some(3));
    let line = "FAIL L2 FI_CXI_FOO=1: libfabric 2.3 does not know this name; it has no effect.\n";
    assert!(text.starts_with(line), "{text}");
    let asked = format!("\n\nAsked: libfabric 2.3 at {} (found for", own.display());
    assert!(text.contains(&asked), "{text}");
    // The program does not find its library.
    let mut check = command(&machine, &directory.path().join("none"), "--job --", &[]);
    check.arg(&without);
    let output = finish(check);
    if !is_installed() {
        assert_status(&output, 4);
        let needs = format!("{} needs libfabric.so.1, which is not found", without.display());
        let line = format!("UNDECIDED untested job: {needs}\n");
        assert!(stdout(&output).starts_with(&line), "{}", stdout(&output));
    }
}

/// Whether the dynamic linker finds a libfabric.
fn is_installed() -> bool {
    let mut linker = Command::new("sh");
    linker.args(["-c", "/sbin/ldconfig -p"]);
    stdout(&linker.output().expect("a shell")).contains("libfabric.so.1 ")
}

/// Debian's libfabric has no cxi provider.
#[test]
fn asks_the_libfabric_that_is_installed() {
    if !is_installed() {
        return;
    }
    let output = finish(command(&machine(), Path::new(""), "--job", &[("FI_CXI_ODP", "1")]));
    let text = stdout(&output);
    let asked = text.starts_with("FAIL L7 libfabric: the libfabric at /")
        && output.status.code() == Some(3);
    assert!(asked || text.contains("libfabric.so.1 (of the dynamic linker)"), "{text}");
}

#[test]
fn reads_the_environment_of_a_running_process() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let other = library(directory.path(), "1.22", true);
    let mut job = Command::new("sleep");
    job.arg("600").env("FI_CXI_RX_MATCH_MODE", "Hybrid").env("LD_LIBRARY_PATH", &place);
    let mut job = job.spawn().expect("sleep starts");
    // The kernel starts the parent again before the environment of the new program is there.
    while fs::read(format!("/proc/{}/environ", job.id())).unwrap().is_empty() {
        thread::yield_now();
    }
    let arguments = format!("--job={}", job.id());
    let output = finish(command(&machine, &other, &arguments, &[("FI_CXI_FOO", "1")]));
    job.kill();
    assert_status(&output, 3);
    let text = stdout(&output);
    let expected = "FAIL L12 FI_CXI_RX_MATCH_MODE=Hybrid: not recognized, hardware is used.\n\n\
                    BAD L12 FI_CXI_RX_MATCH_MODE=Hybrid\n  not recognized, hardware is used.\n  \
                    Write hybrid.\n  Source: libfabric";
    assert!(text.starts_with(expected), "{text}");
    let output = finish(command(&machine, &place, "--job=4194304", &[]));
    assert_status(&output, 1);
    assert!(stderr(&output).contains("cannot read /proc/4194304/environ"), "{}", stderr(&output));
}

#[test]
fn asks_each_library_that_a_running_process_has_loaded() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let own = library(directory.path(), "2.3", true);
    let other = library(directory.path(), "1.22", true).join("libfabric.so.1");
    let mut job = Command::new(program(directory.path(), "job", &own, true));
    job.arg(&other).env("FI_CXI_FORCE_DEV_REG_COPY", "1");
    let mut job = job.spawn().expect("the program starts");
    let maps = format!("/proc/{}/maps", job.id());
    let limit = Instant::now() + Duration::from_secs(60);
    let is_loaded = |maps: &str| fs::read_to_string(maps).unwrap_or_default().contains("/1.22/");
    while !is_loaded(&maps) {
        assert!(Instant::now() < limit, "the program has not loaded {}", other.display());
        thread::sleep(Duration::from_millis(20));
    }
    let arguments = format!("--job={} --json", job.id());
    let output = finish(command(&machine, &own, &arguments, &[]));
    let pid = job.id();
    job.kill();
    assert_status(&output, 3);
    let text = stdout(&output);
    let document = schema::document(include_str!("../../docs/check-job.schema.json"), &text);
    let named = |version: &str| {
        let path = directory.path().join(version).join("libfabric.so.1");
        format!("libfabric {version} at {} (loaded by process {pid})", path.display())
    };
    let asked = document["libfabric"].as_array().expect("a list");
    let asked: Vec<&str> = asked.iter().filter_map(Value::as_str).collect();
    assert_eq!(asked, [named("1.22"), named("2.3")]);
    let line = "FAIL L5 FI_CXI_FORCE_DEV_REG_COPY=1: needs libfabric 2.0 or later; this is 1.22.";
    assert_eq!(document["summary"], line);
    assert!(text.contains("\"L49\""), "{text}");
}

#[test]
fn takes_settings_of_the_command_line_and_refuses_options_of_nics() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let arguments = "--job -- srun --network=disable_rdzv_get=0 env FI_CXI_ODP=maybe ./app";
    let output = finish(command(&machine, &place, arguments, &[]));
    assert_status(&output, 3);
    let text = stdout(&output);
    assert!(text.contains("\nBAD L11 FI_CXI_ODP=maybe\n"), "{text}");
    assert!(text.contains("\nBAD S2 --network=disable_rdzv_get=0\n"), "{text}");
    let output = finish(command(&machine, &place, "--job --quick", &[]));
    let errors = assert_status(&output, 2);
    assert!(errors.contains("--quick has no effect with --job, which checks settings"), "{errors}");
}

#[test]
fn compares_the_tasks_of_a_launcher() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let task = |rank: u32| {
        let mut settings = vec![("FI_CXI_RDZV_THRESHOLD", "16384")];
        settings.extend((rank == 3).then_some(("FI_PROVIDER", "cxi")));
        let files = "--job --json=found.json --openmetrics=found.prom";
        let mut task = command(&machine, &place, files, &settings);
        task.current_dir(directory.path())
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", "4")
            .env("MPI_LOCALRANKID", "0")
            .env("PMI_HOSTNAME", format!("nid{rank:04}"));
        task.spawn().expect("cxidiag starts")
    };
    let mut tasks: Vec<_> = (0..4).map(task).collect();
    let first = tasks.remove(0).finish();
    assert_status(&first, 3);
    let line = "FAIL R1 FI_PROVIDER: differs: unset on 3 ranks, cxi on 1 (nid0003).\n";
    assert!(stdout(&first).starts_with(line), "{}", stdout(&first));
    for task in tasks {
        let output = task.finish();
        assert_success(&output);
        assert_eq!((stdout(&output), stderr(&output)), Default::default());
    }
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a file");
    let document =
        schema::document(include_str!("../../docs/check-job.schema.json"), &read("found.json"));
    assert_eq!((&document["processes"], &document["settings"]), (&Value::from(4), &Value::from(2)));
    let metrics = read("found.prom");
    let count = "\ncxidiag_job_findings{rule=\"R1\",verdict=\"bad\"} 1\n";
    assert!(metrics.contains(count), "{metrics}");
}

#[test]
fn one_process_of_a_node_asks_its_library() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let log = directory.path().join("log");
    let task = |rank: u32| {
        let mut settings = vec![("FI_CXI_DEFAULT_TX_SIZE", "32768")];
        settings.extend((rank == 5).then_some(("FI_CXI_FOO", "1")));
        let mut task = command(&machine, &place, "--job --json=found.json", &settings);
        task.current_dir(directory.path())
            .env("STUB_LOG", &log)
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", "6")
            .env("MPI_LOCALRANKID", (rank % 3).to_string())
            .env("PMI_HOSTNAME", format!("nid{:04}", rank / 3));
        task.spawn().expect("cxidiag starts")
    };
    let outputs: Vec<_> =
        (0..6).map(task).collect::<Vec<_>>().into_iter().map(|task| task.finish()).collect();
    assert_status(&outputs[0], 3);
    assert_eq!(fs::read_to_string(&log).expect("a file"), "asked\nasked\n");
    let text = fs::read_to_string(directory.path().join("found.json")).expect("a file");
    let document = schema::document(include_str!("../../docs/check-job.schema.json"), &text);
    let findings = document["findings"].as_array().expect("findings");
    let found = |code: &str| {
        let found = findings.iter().find(|finding| finding["code"] == code);
        let found = found.unwrap_or_else(|| panic!("no {code}: {text}"));
        (found["processes"].clone(), found["nodes"].clone())
    };
    assert_eq!(found("L13"), (6.into(), "nid[0000-0001]".into()));
    assert_eq!(found("L2"), (1.into(), "nid0001".into()));
    assert!(!text.contains("untested"), "{text}");
}

#[test]
fn names_the_node_of_a_slurm_job_that_differs() {
    let Some(slurm) = Slurm::start(4) else {
        return;
    };
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    // A profile of the third node sets another mode.
    let script = "if [ $SLURM_NODEID = 2 ]; then export FI_CXI_RX_MATCH_MODE=software; fi; \
                  exec \"$0\" check --job";
    let srun = ["-N4", "-n4", "--mpi=none", "sh", "-c", script, CXIDIAG];
    let mut step = slurm.program("srun", srun);
    step.env("LD_LIBRARY_PATH", &place).env("FI_CXI_RX_MATCH_MODE", "hybrid");
    let output = finish(machine.seen_by(step));
    assert_success(&output);
    let text = stdout(&output);
    let path = place.join("libfabric.so.1");
    let line = format!(
        "OK 1 setting in 4 processes; libfabric 2.3 at {} (first in LD_LIBRARY_PATH) knows all \
         names (notes: R1 FI_CXI_RX_MATCH_MODE)\n\nNOTE R1 FI_CXI_RX_MATCH_MODE\n  differs: hybrid on 3 ranks, \
         software on 1 (127.0.0.3).\n",
        path.display()
    );
    assert!(text.starts_with(&line), "{text}");
}
