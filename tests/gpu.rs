//! Buffers on GPUs, on stand-ins for the three runtimes (`tests/gpu/*.c`) and the software NIC.
//!
//! The memory of the stand-ins kills whoever touches it without them. In debug builds, which tests
//! run, whoever receives fails unless every byte is the one that belongs there.

mod harness;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

use harness::{Fabric, Server, assert_success, finish_or_kill, stderr, stdout};
use tempfile::TempDir;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpu");

/// A runtime, by the type of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Amd,
    Nvidia,
    Intel,
}

use Runtime::{Amd, Intel, Nvidia};

const ALL: [Runtime; 3] = [Amd, Nvidia, Intel];

impl Runtime {
    fn name(self) -> &'static str {
        match self {
            Amd => "AMD",
            Nvidia => "NVIDIA",
            Intel => "INTEL",
        }
    }

    /// All names under which its libraries are looked for. The stand-in has one of each.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Amd => &[
                HIP,
                "libamdhip64.so",
                "libamdhip64.so.7",
                "libamdhip64.so.5",
                "libhsa-runtime64.so.1",
            ],
            Nvidia => &["libcuda.so.1"],
            Intel => &["libze_loader.so.1"],
        }
    }
}

const HIP: &str = "libamdhip64.so.6";

/// All stand-ins, compiled.
static BUILT: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = directory.path();
    let library = |name: &str, sources: &[&str], others: &[String]| {
        let status = Command::new("cc")
            .args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-shared",
                "-fPIC",
                "-pthread",
            ])
            .arg(format!("-Wl,-soname,{name}"))
            .arg("-o")
            .arg(at.join(name))
            .args(sources.iter().map(|file| Path::new(SOURCES).join(file)))
            .args(others)
            .status();
        assert!(status.expect("cc starts").success(), "{name}");
    };
    library("libcuda.so.1", &["cuda.c", "device.c"], &[]);
    library("libze_loader.so.1", &["level_zero.c", "device.c"], &[]);
    library(HIP, &["hip.c", "device.c"], &[]);
    // The same memory as that of HIP.
    let linked = [format!("-L{}", at.display()), format!("-l:{HIP}")];
    library("libhsa-runtime64.so.1", &["hsa.c"], &linked);
    directory
});

/// A machine on which some runtimes are installed, and a fabric on it.
struct Machine {
    fabric: Fabric,
    directory: TempDir,
}

impl Machine {
    /// The others are files that the dynamic linker refuses, whatever this machine really has.
    fn with(runtimes: &[Runtime]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for runtime in ALL {
            let is_installed = runtimes.contains(&runtime);
            for name in runtime.libraries() {
                let (place, built) = (directory.path().join(name), BUILT.path().join(name));
                if is_installed && built.exists() {
                    std::os::unix::fs::symlink(built, place).expect("a link");
                } else {
                    File::create(place).expect("an empty file");
                }
            }
        }
        Self {
            fabric: Fabric::new(),
            directory,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.fabric.command(args);
        command
            .env("LD_LIBRARY_PATH", self.directory.path())
            .env("STANDIN_LOG", self.log());
        command
    }

    fn log(&self) -> std::path::PathBuf {
        self.directory.path().join("log")
    }

    /// Runs the program to its end.
    fn run(&self, args: &[&str]) -> Output {
        finish_or_kill(self.command(args).spawn().expect("cxidiag starts"))
    }

    /// The same with a variable of the stand-ins.
    fn run_with(&self, variable: (&str, &str), args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.env(variable.0, variable.1);
        finish_or_kill(command.spawn().expect("cxidiag starts"))
    }

    fn server(&self, tool: &str, args: &[&str]) -> Server {
        Server::start(self.command(&[&[tool, "-p", "0", "-d", "soft0"], args].concat()))
    }

    fn client(&self, tool: &str, server: &Server, args: &[&str]) -> Output {
        let to = [tool, "127.0.0.1", "-p", &server.port, "-d", "soft1"];
        self.run(&[&to, args].concat())
    }

    /// How often something was done on the GPUs: `allocate 0`.
    fn done(&self) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let mut done = BTreeMap::new();
        for line in text.lines() {
            let (_process, what) = line.split_once(' ').expect("a process and what it did");
            *done.entry(what.to_owned()).or_default() += 1;
        }
        done
    }

    /// Fails unless the GPUs held so many buffers, each of which was offered as a dma-buf, and all
    /// memory was freed.
    #[track_caller]
    fn assert_buffers(&self, buffers: &[(usize, usize)]) {
        let done = self.done();
        let times = |what: &str| done.get(what).copied().unwrap_or_default();
        for (gpu, count) in buffers {
            assert_eq!(times(&format!("allocate {gpu}")), *count, "{done:?}");
            assert_eq!(times(&format!("export {gpu}")), *count, "{done:?}");
            let freed = times(&format!("free {gpu}"));
            assert_eq!(freed, count + times(&format!("import {gpu}")), "{done:?}");
        }
        assert!(
            done.keys().all(|what| !what.starts_with("left")),
            "{done:?}"
        );
        self.fabric.assert_nothing_left();
    }
}

/// The value of a line of the summary.
fn line<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(&format!("{label:17}: ")))
}

/// A run of both sides with these buffers on GPUs.
#[track_caller]
fn moves_data(runtime: Runtime, tool: &str, options: &[&str], buffers: &[(usize, usize)]) {
    let machine = Machine::with(&[runtime]);
    let args = [tool, "--loopback", "-d", "soft0", "-n", "2"];
    let output = machine.run(&[&args, options].concat());
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains("\nFound 2 GPU(s)\n"), "{text}");
    machine.assert_buffers(buffers);
    if runtime == Intel {
        // Each buffer has a context; those of the NIC live as long as their process.
        let held: usize = buffers.iter().map(|(_, count)| count).sum();
        assert_eq!(machine.done().get("no context"), Some(&held));
    }
}

/// Every tool that has buffers, with each of them on a GPU, and both.
fn matrix(runtime: Runtime) {
    // Buffers of a side: that of one-sided tools is either of the two.
    for (tool, options, both_sides) in [
        ("write-lat", &["-s", "1:8192", "--warmup=0"][..], false),
        ("write-lat", &["-s", "5000", "--unrestricted"], false),
        ("read-lat", &["-s", "1:8192", "--warmup=0"], false),
        ("read-lat", &["-s", "5000", "--unrestricted"], false),
        ("send-lat", &["-s", "1:8192", "--warmup=0"], true),
        ("send-lat", &["-s", "5000", "--rdzv"], true),
        ("send-bw", &["-s", "1:8192", "-l", "3"], true),
        ("send-bw", &["-s", "5000", "-l", "3", "--rdzv", "-b"], true),
    ] {
        let of_one = if both_sides { 2 } else { 1 };
        for (gpus, buffers) in [
            (&["-t", "0"][..], [(0, of_one), (1, 0)]),
            (&["-r", "1"], [(0, 0), (1, of_one)]),
            (&["-t", "1", "-r", "0"], [(0, of_one), (1, of_one)]),
        ] {
            moves_data(runtime, tool, &[options, gpus].concat(), &buffers);
        }
    }
}

#[test]
fn every_buffer_on_a_gpu_of_amd() {
    matrix(Amd);
}

#[test]
fn every_buffer_on_a_gpu_of_nvidia() {
    matrix(Nvidia);
}

#[test]
fn every_buffer_on_a_gpu_of_intel() {
    matrix(Intel);
}

#[test]
fn each_side_has_memory_of_its_own() {
    for (client, server, summary) in [
        (
            &["-t", "1", "-g", "nvidia"][..],
            &[][..],
            [Some("GPU 1"), Some("System"), Some("NVIDIA"), None],
        ),
        (
            &[],
            &["-r", "0", "-g", "Amd"],
            [Some("System"), Some("GPU 0"), None, Some("AMD")],
        ),
        (
            &["--tx-gpu=0", "--gpu-type=INTEL"],
            &["--rx-gpu=1", "--gpu-type=NVIDIA"],
            [Some("GPU 0"), Some("GPU 1"), Some("INTEL"), Some("NVIDIA")],
        ),
    ] {
        let machine = Machine::with(&ALL);
        let process = machine.server("write-lat", server);
        let ours = machine.client("write-lat", &process, &[client, &["-n", "3"]].concat());
        let theirs = process.finish();
        for (output, own) in [(&ours, client), (&theirs, server)] {
            assert_success(output);
            let text = stdout(output);
            let labels = [
                "Client TX Mem",
                "Server RX Mem",
                "Client GPU Type",
                "Server GPU Type",
            ];
            assert_eq!(labels.map(|label| line(&text, label)), summary, "{text}");
            let found = text.contains("\nFound 2 GPU(s)\n");
            assert_eq!(found, !own.is_empty(), "{text}");
        }
    }
}

#[test]
fn both_directions_tell_of_all_buffers() {
    let machine = Machine::with(&ALL);
    let server = machine.server("send-bw", &["-t", "0", "-g", "INTEL"]);
    let json = machine.directory.path().join("json");
    let to = format!("--json={}", json.display());
    let args = ["-b", "-r", "1", "-g", "AMD", "-n", "2", "-l", "2", &to];
    let client = machine.client("send-bw", &server, &args);
    let server = server.finish();
    let json = std::fs::read(json).expect("a document");
    let outcome: serde_json::Value = serde_json::from_slice(&json).expect("a document");
    let told = [
        "tx_gpu",
        "rx_gpu",
        "gpu_type",
        "peer_tx_gpu",
        "peer_rx_gpu",
        "peer_gpu_type",
    ]
    .map(|name| &outcome["options"][name]);
    let expected = serde_json::json!([null, 1, "AMD", 0, null, "INTEL"]);
    assert_eq!(serde_json::json!(told), expected);
    for output in [client, server] {
        assert_success(&output);
        let text = stdout(&output);
        let block = "Client TX Mem    : System\n\
                     Client RX Mem    : GPU 1\n\
                     Client GPU Type  : AMD\n\
                     Server TX Mem    : GPU 0\n\
                     Server RX Mem    : System\n\
                     Server GPU Type  : INTEL\n";
        assert!(text.contains(block), "{text}");
    }
    machine.assert_buffers(&[(0, 1), (1, 1)]);
}

/// A server that sends from a GPU uses no immediate data commands, although its client does.
#[test]
fn t25_no_immediate_data_from_a_gpu() {
    for (tool, options, sends) in [
        (
            "send-bw",
            &["-b", "-s", "64", "-n", "2", "-l", "2"][..],
            true,
        ),
        ("send-lat", &["-n", "2"], true),
        ("send-bw", &["-s", "64", "-n", "2", "-l", "2"], false),
        ("write-lat", &["-n", "2"], false),
    ] {
        let machine = Machine::with(&[Nvidia]);
        let server = machine.server(tool, &["-t", "0"]);
        let client = machine.client(tool, &server, options);
        let server = server.finish();
        assert_success(&client);
        assert_success(&server);
        assert_eq!(line(&stdout(&client), "IDC"), Some("Enabled"), "{tool}");
        let expected = if sends { "Disabled" } else { "Enabled" };
        assert_eq!(line(&stdout(&server), "IDC"), Some(expected), "{tool}");
    }
    let machine = Machine::with(&[Nvidia]);
    let args = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "2",
        "-t",
        "0",
    ];
    assert_eq!(line(&stdout(&machine.run(&args)), "IDC"), Some("Disabled"));
}

/// Huge pages are for buffers of the system: where there are none, nobody asks for pages.
#[test]
fn huge_pages_have_no_effect_on_gpus() {
    let machine = Machine::with(&[Amd]);
    let args = ["send-lat", "--loopback", "-d", "soft0", "-n", "2"];
    let output = machine.run(&[&args[..], &["-t", "0", "-r", "0", "--use-hp=1G"]].concat());
    assert_success(&output);
    let text = stdout(&output);
    assert_eq!(line(&text, "Hugepages"), Some("Disabled - Not Applicable"));
}

/// Without `-g`, the first type is taken that has a GPU.
#[test]
fn the_type_is_what_is_found() {
    for (installed, found) in [
        (&ALL[..], Amd),
        (&[Intel, Nvidia], Nvidia),
        (&[Intel], Intel),
    ] {
        let machine = Machine::with(installed);
        let args = [
            "write-lat",
            "--loopback",
            "-d",
            "soft0",
            "-n",
            "1",
            "-t",
            "0",
        ];
        let output = machine.run(&args);
        assert_success(&output);
        let text = stdout(&output);
        assert_eq!(line(&text, "Client GPU Type"), Some(found.name()));
    }
}

/// Asks for `gpus` and is refused: the message, without the name of the program, and the hint.
#[track_caller]
fn refused(machine: &Machine, variable: (&str, &str), gpus: &[&str]) -> (String, String) {
    let args = ["write-lat", "--loopback", "-d", "soft0", "-n", "2"];
    let output = machine.run_with(variable, &[&args, gpus].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [message, hint] = lines[..] else {
        panic!("a line and a hint: {said}");
    };
    let (_, message) = message.split_once(": ").expect("a program");
    let hint = hint.strip_prefix("hint: ").expect("a hint");
    machine.fabric.assert_nothing_left();
    (message.to_owned(), hint.to_owned())
}

const NOTHING: (&str, &str) = ("STANDIN_NOTHING", "");

#[test]
fn a_runtime_that_is_not_there() {
    let machine = Machine::with(&[]);
    let (message, hint) = refused(&machine, NOTHING, &["-t", "0"]);
    assert!(
        message.ends_with(
            "no GPU found: none of libamdhip64.so, libcuda.so.1, libze_loader.so.1 can be loaded"
        ),
        "{message}"
    );
    assert!(hint.contains("LD_LIBRARY_PATH"), "{hint}");
    for runtime in ALL {
        let (message, hint) = refused(&machine, NOTHING, &["-r", "0", "-g", runtime.name()]);
        let start = format!("cannot use {} GPUs: ", runtime.name());
        assert!(message.contains(&start), "{message}");
        for name in runtime
            .libraries()
            .iter()
            .filter(|name| !name.contains("hsa"))
        {
            assert!(message.contains(name), "{message}");
        }
        assert!(hint.contains("not installed"), "{hint}");
    }
}

#[test]
fn a_runtime_of_another_type() {
    let machine = Machine::with(&[Nvidia]);
    let (message, hint) = refused(&machine, NOTHING, &["-t", "0", "-g", "AMD"]);
    assert!(message.contains("cannot use AMD GPUs: "), "{message}");
    assert_eq!(
        hint,
        "this machine has GPUs of another type: --gpu-type=NVIDIA"
    );
}

#[test]
fn a_runtime_without_a_gpu() {
    for runtime in ALL {
        let machine = Machine::with(&[runtime]);
        let none = ("STANDIN_GPUS", "0");
        let name = runtime.name();
        for options in [&["-t", "0"][..], &["-t", "0", "-g", name]] {
            let (message, hint) = refused(&machine, none, options);
            let expected = format!("no {name} GPU: its runtime finds none");
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("driver is not loaded"), "{hint}");
        }
    }
}

/// Also with Level Zero the number must be below the count.
#[test]
fn t31_a_gpu_that_is_not_there() {
    for runtime in ALL {
        let machine = Machine::with(&[runtime]);
        let name = runtime.name();
        for gpus in [["-t", "2", "-r", "0"], ["-t", "0", "-r", "2"]] {
            let (message, hint) = refused(&machine, NOTHING, &gpus);
            let expected = format!("no GPU 2: there are 2 {name} GPUs, numbers 0 to 1");
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("numbered from 0"), "{hint}");
        }
        let (message, _) = refused(&machine, ("STANDIN_GPUS", "1"), &["-t", "1"]);
        let expected = format!("no GPU 1: there is one {name} GPU, number 0");
        assert!(message.ends_with(&expected), "{message}");
        assert_eq!(machine.done(), BTreeMap::new());
    }
}

#[test]
fn a_runtime_that_does_not_work() {
    for (runtime, function, said) in [
        (Amd, "hipInit", "hipInit: unknown error (HIP error 999)"),
        (Nvidia, "cuInit", "cuInit: unknown error (CUDA error 999)"),
        (
            Intel,
            "zeInit",
            "zeInit: unknown error (Level Zero error 0x7ffffffe)",
        ),
    ] {
        let machine = Machine::with(&[runtime]);
        for options in [&["-t", "0"][..], &["-t", "0", "-g", runtime.name()]] {
            let (message, hint) = refused(&machine, ("STANDIN_FAIL", function), options);
            let expected = format!("cannot use {} GPUs: {said}", runtime.name());
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("of another release"), "{hint}");
        }
    }
}

#[test]
fn a_gpu_without_enough_memory() {
    for (runtime, said) in [
        (Amd, "hipMalloc: out of memory (HIP error 2)"),
        (Nvidia, "cuMemAlloc_v2: out of memory (CUDA error 2)"),
        (
            Intel,
            "zeMemAllocDevice: out of device memory (Level Zero error 0x70000003)",
        ),
    ] {
        let machine = Machine::with(&[runtime]);
        let little = ("STANDIN_MEMORY", "1000000");
        let (message, hint) = refused(&machine, little, &["-t", "1", "-s", "1048576"]);
        let expected = format!(
            "cannot get a buffer of 1048576 bytes on {} GPU 1: {said}",
            runtime.name()
        );
        assert!(message.ends_with(&expected), "{message}");
        assert!(hint.contains("smaller --size"), "{hint}");
        machine.assert_buffers(&[(0, 0), (1, 0)]);
    }
}

/// Level Zero's memory can only be reached by a dma-buf; CUDA and HIP have modules for that.
#[test]
fn memory_that_is_not_exported() {
    let unexported = ("STANDIN_FAIL", "export");
    let machine = Machine::with(&[Intel]);
    let (message, hint) = refused(&machine, unexported, &["-t", "0"]);
    let expected = "cannot map a buffer of 8 bytes on INTEL GPU 0 for the NIC: cxil_map: Invalid argument (errno 22)";
    assert!(message.ends_with(expected), "{message}");
    assert!(hint.contains("nvidia-peermem"), "{hint}");
    assert!(machine.done().contains_key("free 0"));
    for runtime in [Amd, Nvidia] {
        let machine = Machine::with(&[runtime]);
        let args = ["write-lat", "--loopback", "-d", "soft0", "-n", "2"];
        let output = machine.run_with(unexported, &[&args[..], &["-t", "0", "-r", "1"]].concat());
        assert_success(&output);
        assert!(!machine.done().keys().any(|what| what.starts_with("export")));
    }
}

/// What a GPU refuses ends the run, with all memory freed.
#[test]
fn calls_that_fail() {
    for (runtime, function, code) in [
        (Amd, "hipMemset", "HIP error 999"),
        (Amd, "hipMemcpy", "HIP error 999"),
        (Nvidia, "cuDevicePrimaryCtxRetain", "CUDA error 999"),
        (Nvidia, "cuPointerSetAttribute", "CUDA error 999"),
        (Nvidia, "cuMemsetD8_v2", "CUDA error 999"),
        (Nvidia, "cuMemcpyHtoD_v2", "CUDA error 999"),
        (Intel, "zeContextCreate", "Level Zero error 0x7ffffffe"),
        (
            Intel,
            "zeCommandListCreateImmediate",
            "Level Zero error 0x7ffffffe",
        ),
        (
            Intel,
            "zeCommandListAppendMemoryFill",
            "Level Zero error 0x7ffffffe",
        ),
        (
            Intel,
            "zeCommandListAppendMemoryCopy",
            "Level Zero error 0x7ffffffe",
        ),
    ] {
        let machine = Machine::with(&[runtime]);
        let args = [
            "write-lat",
            "--loopback",
            "-d",
            "soft0",
            "-n",
            "2",
            "-t",
            "0",
        ];
        let output = machine.run_with(("STANDIN_FAIL", function), &args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{function}: {said}");
        let expected = format!("{function}: unknown error ({code})");
        assert!(said.contains(&expected), "{function}: {said}");
        let left = machine.done().keys().any(|what| what.starts_with("left"));
        assert!(!left, "{function}: {:?}", machine.done());
        machine.fabric.assert_nothing_left();
    }
}

/// What the NIC cannot reach it reports as hardware does.
#[test]
fn memory_that_does_not_answer_the_nic() {
    let machine = Machine::with(&[Nvidia]);
    let args = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "2",
        "-t",
        "0",
    ];
    let output = machine.run_with(("STANDIN_FAIL", "cuMemcpyDtoH_v2"), &args);
    let said = stderr(&output);
    assert!(said.contains("PCIE_UNSUCCESS_CMPL"), "{said}");
    machine.assert_buffers(&[(0, 1)]);
}

#[test]
fn options_that_are_no_gpus() {
    let machine = Machine::with(&ALL);
    for (option, allowed) in [
        ("--tx-gpu=x", "0 to 255"),
        ("--rx-gpu=256", "0 to 255"),
        ("--tx-gpu=-1", "0 to 255"),
        ("--gpu-type=CUDA", "expected AMD, NVIDIA or INTEL"),
    ] {
        let output = machine.run(&["send-bw", "h", "-d", "soft0", option]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        let said = stderr(&output);
        assert!(said.contains(allowed), "{said}");
    }
    // The atomic tools have no such buffers (tools.md 2.3).
    let output = machine.run(&["atomic-lat", "h", "-d", "soft0", "-t", "0"]);
    assert_eq!(output.status.code(), Some(2));
}
