//! Buffers on GPUs, on stand-ins for the three runtimes (`ffi/cxi-sys/tests/gpu/*.c`) and the
//! software NIC.
//!
//! The memory of the stand-ins kills a process that accesses it without their functions. In debug
//! builds, which tests run, a receiver fails unless every byte is the one that belongs there.

mod failures;

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::gpu_machine::{ALL, Amd, Intel, Machine, Nvidia, Runtime};
use crate::harness::machine::MadeUp;
use crate::harness::{CXIDIAG, Command, assert_status, assert_success, finish, stdout};

/// Two writes whose payload lies on GPU 0.
const FROM_A_GPU: &str = "write-lat --loopback -d soft0 -n 2 -t 0";

/// The value of a line of the summary.
fn line<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let start = format!("{label:17}: ");
    text.lines().find_map(|line| line.strip_prefix(&start))
}

/// Runs both sides with this number of buffers on each GPU.
#[track_caller]
fn assert_moves_data(runtime: Runtime, tool: &str, options: &str, buffers: [(usize, usize); 2]) {
    let machine = Machine::with(&[runtime]);
    let output = machine.run(&format!("{tool} --loopback -d soft0 -n 2 {options}"));
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains("\nFound 2 GPU(s)\n"), "{text}");
    machine.assert_buffers(&buffers);
    if runtime == Intel {
        // Each buffer has a context. The contexts of the NIC exist until their process ends.
        let held: usize = buffers.iter().map(|(_, count)| count).sum();
        assert_eq!(machine.done().get("no context"), Some(&held));
    }
}

/// Runs every tool that has buffers with each of them on a GPU, and with both.
fn assert_moves_data_of_all_tools(runtime: Runtime) {
    for (tool, options, other_options, buffers) in [
        ("write-lat", "-s 64:8192 --latency-gap=0", "-s 5000 --unrestricted", 1),
        ("read-lat", "-s 64:8192 --latency-gap=0", "-s 5000 --unrestricted", 1),
        // Each side has a buffer to send from and one to receive in.
        ("send-lat", "-s 64:8192 --latency-gap=0", "-s 5000 --rdzv", 2),
        ("write-bw", "-s 64:8192 -l 3", "-s 5000 -l 3 --unrestricted", 1),
        ("read-bw", "-s 64:8192 -l 3", "-s 5000 -l 3 --unrestricted", 1),
        ("send-bw", "-s 64:8192 -l 3", "-s 5000 -l 3 --rdzv -b", 2),
    ] {
        for (options, gpus, counts) in [
            (options, "-t 0", [buffers, 0]),
            (options, "-r 1", [0, buffers]),
            (other_options, "-t 1 -r 0", [buffers, buffers]),
        ] {
            let buffers = [(0, counts[0]), (1, counts[1])];
            assert_moves_data(runtime, tool, &format!("{options} {gpus}"), buffers);
        }
    }
}

#[test]
fn moves_data_of_amd_gpus() {
    assert_moves_data_of_all_tools(Amd);
}

#[test]
fn moves_data_of_nvidia_gpus() {
    assert_moves_data_of_all_tools(Nvidia);
}

#[test]
fn moves_data_of_intel_gpus() {
    assert_moves_data_of_all_tools(Intel);
}

/// Both buffers of the one process, on any GPU of any type.
#[test]
fn loopback_tool_writes_from_gpu_to_gpu() {
    for runtime in ALL {
        for (gpus, buffers) in [
            ("-t 0", [(0, 1), (1, 0)]),
            ("-r 1", [(0, 0), (1, 1)]),
            ("-t 1 -r 0", [(0, 1), (1, 1)]),
        ] {
            let machine = Machine::with(&[runtime]);
            let options = format!("-d soft0 -n 2 -l 3 -s 64:8192 --verify {gpus}");
            let output = machine.run(&format!("loopback-bw {options}"));
            assert_success(&output);
            let text = stdout(&output);
            assert_eq!(line(&text, "GPU Type"), Some(runtime.name()), "{text}");
            assert!(text.contains("\nFound 2 GPU(s)\n"), "{text}");
            machine.assert_buffers(&buffers);
        }
    }
}

/// The expectation applies to the GPU that shares bridges with the NIC; the matrix has all GPUs.
#[test]
fn measures_each_nic_with_each_gpu() {
    let machine = Machine::with(&[Nvidia]);
    let nodes = MadeUp::new(&[]);
    let root = nodes.path();
    // The stand-in has GPU 0 at 0000:c0:00.0 and GPU 1 at 0000:c1:00.0.
    for (name, place) in [
        ("bus/pci/devices/0000:c0:00.0", "pci0000:00/0000:00:01.1/0000:c0:00.0"),
        ("bus/pci/devices/0000:c1:00.0", "pci0000:40/0000:40:01.1/0000:c1:00.0"),
        ("class/cxi/soft0/device", "pci0000:40/0000:40:01.1/0000:c2:00.0"),
        ("class/cxi/soft1/device", "pci0000:00/0000:00:03.1/0000:c3:00.0"),
    ] {
        let (link, target) = (root.join("sys").join(name), root.join("sys/devices").join(place));
        fs::create_dir_all(&target).expect("a directory");
        fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        symlink(target, link).expect("a link");
    }
    let run = |options: &str| {
        let arguments = format!("loopback-bw --all-gpus -n 2 -l 3 -s 4096 --verify {options}");
        finish(nodes.seen_by(machine.command(&arguments)))
    };
    let output = run("--expect bw>0.001MB/s");
    assert_success(&output);
    let text = stdout(&output);
    let (table, matrix) = text.split_once("\n\n").expect("a matrix");
    let (matrix, verified) = matrix.split_once("\nVerified: ").expect("a line after the matrix");
    assert_eq!(verified, "4 sizes, data of the last operations correct\n");
    let nearest: Vec<Vec<&str>> =
        table.lines().skip(2).map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(nearest, [["soft0", "-", "1"], ["soft1", "-", "0"]], "{text}");
    let mut lines = matrix.lines();
    let title = "BW[Gb/s] of 4096 bytes by NIC and GPU (*: the nearest GPU)";
    assert_eq!(lines.next(), Some(title), "{text}");
    let stars: Vec<Vec<bool>> = lines
        .skip(1)
        .map(|line| line.split_whitespace().skip(1).map(|cell| cell.starts_with('*')).collect())
        .collect();
    assert_eq!(stars, [[false, true], [true, false]], "{text}");
    let errors = assert_status(&run("--expect bw>=9999GB/s -d soft0"), 3);
    assert!(
        errors.contains("1 of 2 measurements miss their expectation: soft0 with GPU 1"),
        "{errors}"
    );
}

#[test]
fn each_side_chooses_its_memory() {
    for (client, server, summary) in [
        ("-t 1 -g nvidia", "", [Some("GPU 1"), Some("System"), Some("NVIDIA"), None]),
        ("", "-r 0 -g Amd", [Some("System"), Some("GPU 0"), None, Some("AMD")]),
        (
            "--tx-gpu=0 --gpu-type=INTEL",
            "--rx-gpu=1 --gpu-type=NVIDIA",
            [Some("GPU 0"), Some("GPU 1"), Some("INTEL"), Some("NVIDIA")],
        ),
    ] {
        let machine = Machine::with(&ALL);
        let process = machine.server("write-lat", server);
        let ours = machine.client("write-lat", &process, &format!("{client} -n 3"));
        let theirs = process.finish();
        for (output, own) in [(&ours, client), (&theirs, server)] {
            assert_success(output);
            let text = stdout(output);
            let labels = ["Client TX Mem", "Server RX Mem", "Client GPU Type", "Server GPU Type"];
            assert_eq!(labels.map(|label| line(&text, label)), summary, "{text}");
            let found = text.contains("\nFound 2 GPU(s)\n");
            assert_eq!(found, !own.is_empty(), "{text}");
        }
    }
}

#[test]
fn bidirectional_runs_print_all_buffers() {
    let machine = Machine::with(&ALL);
    let server = machine.server("send-bw", "-t 0 -g INTEL");
    let json = machine.directory.path().join("json");
    let args = format!("-b -r 1 -n 2 -l 2 --json={}", json.display());
    let client = machine.client("send-bw", &server, &args);
    let server = server.finish();
    let json = std::fs::read(json).expect("a document");
    let outcome: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let found = ["tx_gpu", "rx_gpu", "gpu_type", "peer_tx_gpu", "peer_rx_gpu", "peer_gpu_type"]
        .map(|name| &outcome["options"][name]);
    let expected = serde_json::json!([null, 1, "AMD", 0, null, "INTEL"]);
    assert_eq!(serde_json::json!(found), expected);
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

/// A server that sends from a GPU uses no immediate data commands even if its client does.
#[test]
fn t25_disables_immediate_data_from_a_gpu() {
    for (tool, options, sends) in [
        ("send-bw", "-b -s 64 -n 2 -l 2", true),
        ("send-lat", "-n 2", true),
        ("send-bw", "-s 64 -n 2 -l 2", false),
        ("write-bw", "-b -s 64 -n 2 -l 2", true),
        ("write-bw", "-s 64 -n 2 -l 2", false),
        ("write-lat", "-n 2", false),
    ] {
        let machine = Machine::with(&[Nvidia]);
        let server = machine.server(tool, "-t 0");
        let client = machine.client(tool, &server, options);
        let server = server.finish();
        assert_success(&client);
        assert_success(&server);
        assert_eq!(line(&stdout(&client), "IDC"), Some("Enabled"), "{tool}");
        let expected = if sends { "Disabled" } else { "Enabled" };
        assert_eq!(line(&stdout(&server), "IDC"), Some(expected), "{tool}");
        // The summary of both sides has the buffers that the run uses.
        let gpu_type = options.contains("-b").then_some("NVIDIA");
        for output in [&client, &server] {
            assert_eq!(line(&stdout(output), "Server GPU Type"), gpu_type, "{tool}");
        }
    }
    let output = Machine::with(&[Nvidia]).run(FROM_A_GPU);
    assert_eq!(line(&stdout(&output), "IDC"), Some("Disabled"));
}

/// Huge pages hold buffers in system memory: this run needs none, and none are free.
#[test]
fn ignores_huge_pages_for_buffers_on_gpus() {
    let machine = Machine::with(&[Amd]);
    let output = machine.run("send-lat --loopback -d soft0 -n 2 -t 0 -r 0 --use-hp=1G");
    assert_success(&output);
    let text = stdout(&output);
    assert_eq!(line(&text, "Hugepages"), Some("Disabled - Not Applicable"));
}

/// Without `-g`.
#[test]
fn takes_the_first_type_that_has_a_gpu() {
    for (installed, expected) in [(&ALL[..], Amd), (&[Intel, Nvidia], Nvidia), (&[Intel], Intel)] {
        let output = Machine::with(installed).run(FROM_A_GPU);
        assert_success(&output);
        let text = stdout(&output);
        assert_eq!(line(&text, "Client GPU Type"), Some(expected.name()));
    }
}

/// The ways of libcxi.md 7.5.
#[test]
fn maps_in_usual_way_and_in_other_one_if_it_is_refused() {
    const NOTE: &str = " GPUs is mapped as a dma-buf, because the usual way is refused: cxil_map: as \
                        peer memory: No such device (errno 19)\n";
    for (runtime, options, faults, way) in [
        (Amd, "", "", "peer"),
        (Nvidia, "", "", "peer"),
        (Intel, "", "", "dmabuf"),
        (Amd, "--gpu-map=dmabuf", "", "dmabuf"),
        (Nvidia, "--gpu-map=dmabuf", "", "dmabuf"),
        (Nvidia, "--gpu-map=auto", "dma-buf=off", "peer"),
        (Intel, "", "peer-memory=off", "dmabuf"),
        (Amd, "", "peer-memory=off", "dmabuf"),
        (Nvidia, "", "peer-memory=off", "dmabuf"),
    ] {
        let machine = Machine::with(&[runtime]);
        let json = machine.directory.path().join("json");
        let args = format!("{FROM_A_GPU} {options} --json={}", json.display());
        let mut command = machine.command(&args);
        command.env("CXIDIAG_FAULTS", faults);
        let errors = assert_status(&finish(command), 0);
        let is_other = runtime != Intel && faults == "peer-memory=off";
        assert_eq!(errors.ends_with(NOTE), is_other, "{runtime:?} {faults}: {errors}");
        assert_eq!(errors.lines().count(), usize::from(is_other), "{errors}");
        let json = std::fs::read(json).expect("a document");
        let outcome: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(outcome["options"]["gpu_map"], way, "{runtime:?} {options} {faults}");
        let exports = machine.done().get("export 0").copied().unwrap_or_default();
        assert_eq!(exports, usize::from(way == "dmabuf"), "{runtime:?} {options}");
        machine.assert_buffers(&[(0, 1)]);
    }
}

/// The script is for machines with a GPU, which the suite does not have.
#[test]
fn script_for_real_gpus_passes_on_stand_in() {
    let machine = Machine::with(&[Nvidia]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpu/on-device");
    let mut command = Command::new(script);
    command.args([CXIDIAG, "64K"]);
    command.env("LD_LIBRARY_PATH", machine.directory.path());
    let text = stdout(&finish(command));
    assert!(text.lines().count() > 20, "{text}");
    assert!(text.lines().all(|line| line.contains(" ok, ")), "{text}");
}
