//! `cxidiag check --job`: settings of jobs, with stand-ins for several versions of libfabric.

use std::fs;
use std::path::{Path, PathBuf};

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
        let known = format!("libfabric {version} at {} knows all names", path.display());
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
fn reads_the_environment_of_a_running_process() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), machine());
    let place = library(directory.path(), "2.3", true);
    let other = library(directory.path(), "1.22", true);
    let mut job = Command::new("sleep");
    job.arg("600").env("FI_CXI_RX_MATCH_MODE", "Hybrid").env("LD_LIBRARY_PATH", &place);
    let mut job = job.spawn().expect("sleep starts");
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
        "OK 1 setting in 4 processes; libfabric 2.3 at {} knows all names (notes: R1 \
         FI_CXI_RX_MATCH_MODE)\n\nNOTE R1 FI_CXI_RX_MATCH_MODE\n  differs: hybrid on 3 ranks, \
         software on 1 (127.0.0.3).\n",
        path.display()
    );
    assert!(text.starts_with(&line), "{text}");
}
