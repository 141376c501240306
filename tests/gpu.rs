//! Buffers on GPUs, on stand-ins for the three runtimes (`tests/gpu/*.c`) and the software NIC.
//!
//! The memory of the stand-ins kills whoever touches it without them. In debug builds, which tests
//! run, whoever receives fails unless every byte is the one that belongs there.

#[path = "gpu/failures.rs"]
mod failures;
mod harness;
#[path = "gpu/machine.rs"]
mod machine;

use harness::{assert_success, stdout};
use machine::{ALL, Amd, Intel, Machine, Nvidia, Runtime};

/// Two writes whose payload lies on GPU 0.
const FROM_A_GPU: [&str; 8] = [
    "write-lat",
    "--loopback",
    "-d",
    "soft0",
    "-n",
    "2",
    "-t",
    "0",
];

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
    for (tool, options, in_another_way, both_sides) in [
        (
            "write-lat",
            &["-s", "64:8192", "--latency-gap=0"][..],
            &["-s", "5000", "--unrestricted"][..],
            false,
        ),
        (
            "read-lat",
            &["-s", "64:8192", "--latency-gap=0"],
            &["-s", "5000", "--unrestricted"],
            false,
        ),
        (
            "send-lat",
            &["-s", "64:8192", "--latency-gap=0"],
            &["-s", "5000", "--rdzv"],
            true,
        ),
        (
            "send-bw",
            &["-s", "64:8192", "-l", "3"],
            &["-s", "5000", "-l", "3", "--rdzv", "-b"],
            true,
        ),
    ] {
        let of_one = if both_sides { 2 } else { 1 };
        let both = &["-t", "1", "-r", "0"][..];
        for (options, gpus, buffers) in [
            (options, &["-t", "0"][..], [(0, of_one), (1, 0)]),
            (options, &["-r", "1"], [(0, 0), (1, of_one)]),
            (options, both, [(0, of_one), (1, of_one)]),
            (in_another_way, both, [(0, of_one), (1, of_one)]),
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
    let args = ["-b", "-r", "1", "-n", "2", "-l", "2", &to];
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
        // The summary tells of the buffers that the run uses, and so it does on both sides.
        let told = (options.contains(&"-b")).then_some("NVIDIA");
        for output in [&client, &server] {
            let text = stdout(output);
            assert_eq!(line(&text, "Server GPU Type"), told, "{tool}");
        }
    }
    let machine = Machine::with(&[Nvidia]);
    assert_eq!(
        line(&stdout(&machine.run(&FROM_A_GPU)), "IDC"),
        Some("Disabled")
    );
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
