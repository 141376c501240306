//! Where a run takes place: the CPU of the measuring thread and the node of its memory (`--cpu`),
//! the service of the NIC.

mod service;

use std::fs;

use crate::harness::machine::MadeUp;
use crate::harness::{Fabric, Server, assert_status, assert_success, finish, named, stderr};

/// The value of a line about a thread of a process.
fn status(process: u32, thread: &str, line: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let value = status.lines().find_map(|text| text.strip_prefix(line))?;
    Some(value.trim().to_owned())
}

/// The CPUs that a thread of a process may use.
fn allowed(process: u32, thread: &str) -> Option<String> {
    status(process, thread, "Cpus_allowed_list:")
}

/// The CPUs that the measuring thread may use.
fn allowed_to_measure(process: u32) -> String {
    allowed(process, &process.to_string()).expect("a process")
}

/// The names of the threads of a process that may use only `cpu`. Two threads of a run are left
/// out: the kernel shows the one that turns clients away for a moment after it was joined, and the
/// one that sends ticks ends by itself, with the CPUs that it was started with.
fn confined(process: u32, cpu: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    threads
        .flatten()
        .filter_map(|thread| {
            let thread = thread.file_name().into_string().ok()?;
            let name = status(process, &thread, "Name:")
                .filter(|name| !["busy", "ticks"].contains(&name.as_str()))?;
            allowed(process, &thread).filter(|cpus| *cpus == cpu.to_string()).map(|_| name)
        })
        .collect()
}

/// The CPUs of this test.
fn cpus() -> Vec<u32> {
    cxi::placement::cpus().expect("CPUs")
}

/// CPU 0 and another one, which tests of the choice of CPUs need.
fn first_two_cpus() -> Option<[u32; 2]> {
    let cpus = cpus();
    let two = cpus.first_chunk().filter(|two| two[0] == 0).copied();
    if two.is_none() {
        println!("not tested here: the CPUs are {cpus:?}");
    }
    two
}

/// Each run of a persistent server places its thread again.
#[test]
fn confines_the_measuring_thread_and_no_other() {
    let fabric = Fabric::new();
    let assert_confined = |server: &Server, cpu: u32| {
        assert_eq!(allowed_to_measure(server.id()), cpu.to_string());
        if cpus().len() > 1 {
            let confined = confined(server.id(), cpu);
            assert_eq!(confined.len(), 1, "{confined:?}");
        }
    };
    for cpu in cpus() {
        let option = format!("--cpu={cpu}");
        let mut server = fabric.server("write-lat", &format!("-d soft0 --persist {option}"));
        for _ in 0..2 {
            assert_confined(&server, cpu);
            let client = format!("-d soft1 -n 1 {option}");
            assert_success(&fabric.client("write-lat", &server, &client));
            server.wait_for_line("Listening");
        }
        assert_confined(&server, cpu);
    }
}

/// The CPUs of the thread with this name.
fn allowed_to(process: u32, name: &str) -> Option<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut paths = threads.flatten().map(|thread| thread.path());
    let thread = paths.find(|path| {
        let found = fs::read_to_string(path.join("comm"));
        found.is_ok_and(|found| found.trim_end() == name)
    })?;
    allowed(process, thread.file_name()?.to_str()?)
}

#[test]
fn busy_server_answers_clients_on_another_cpu() {
    let Some([cpu, other]) = first_two_cpus() else {
        return;
    };
    let fabric = Fabric::new();
    let options = format!("-d soft0 --persist --cpu={cpu}");
    let mut server = fabric.server("write-lat", &options);
    let mut client = fabric.client_command("write-lat", &server, "-d soft1 -D 3600");
    let mut client = client.spawn().expect("cxidiag starts");
    server.wait_for_line("Serving client ");
    let refused = fabric.client("write-lat", &server, "-d soft2 -n 3");
    assert!(assert_status(&refused, 1).contains("is busy"));
    assert_eq!(allowed_to_measure(server.id()), cpu.to_string());
    let answers = allowed_to(server.id(), "busy").expect("a thread");
    assert!(!answers.split(',').any(|part| part == "0" || part.starts_with("0-")), "{answers}");
    assert!(answers.starts_with(&other.to_string()), "{answers}");
    client.kill();
}

/// CPU 0 is the last choice.
#[test]
fn auto_takes_a_cpu_near_the_nic() {
    let Some([_, second]) = first_two_cpus() else {
        return;
    };
    let both = format!("0,{second}\n");
    for (nic_node, expected) in [
        ("0\n", second),
        // CPU 0 is the only one of that node.
        ("1\n", 0),
        // The kernel does not know the node.
        ("-1\n", second),
    ] {
        let fabric = Fabric::new();
        let machine = MadeUp::new(&[
            ("sys/class/cxi/soft0/device/numa_node", nic_node),
            ("sys/devices/system/node/node0/cpulist", &both),
            ("sys/devices/system/node/node1/cpulist", "0\n"),
        ]);
        let command = fabric.command("write-lat -p 0 -d soft0 --cpu=auto");
        let server = Server::start(machine.seen_by(command));
        assert_eq!(allowed_to_measure(server.id()), expected.to_string(), "{nic_node}");
    }
}

#[test]
fn prefers_memory_of_the_node() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0 --cpu=0");
    match fs::read_to_string(format!("/proc/{}/numa_maps", server.id())) {
        Ok(policies) => assert!(policies.contains(" prefer"), "{policies}"),
        Err(error) => println!("not tested here: {error}"),
    }
}

#[test]
fn leaves_the_first_cpu_to_the_client_of_a_loopback_run() {
    if first_two_cpus().is_none() {
        return;
    }
    let fabric = Fabric::new();
    for (parent, place) in [(None, 1), (Some(std::process::id()), 2)] {
        let mut command = fabric.command("write-lat -p 0 -d soft0 --cpu=auto");
        if let Some(parent) = parent {
            command.env("CXIDIAG_LOOPBACK_PARENT", parent.to_string());
        }
        let server = Server::start(command);
        let expected = cpus().get(place).copied().unwrap_or(0);
        assert_eq!(allowed_to_measure(server.id()), expected.to_string());
    }
}

#[test]
fn confines_both_sides_of_a_loopback_run() {
    let fabric = Fabric::new();
    for tool in ["write-lat", "send-bw"] {
        for cpus in ["auto", "0"] {
            fabric.loopback(tool, &format!("-n 2 --cpu={cpus}"));
        }
    }
}

/// All CPUs are on node 0, the NIC is on node 1.
#[test]
fn hints_at_a_measurement_across_nodes() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[
        ("sys/class/cxi/soft0/device/numa_node", "1\n"),
        ("sys/devices/system/node/node0/cpulist", "0-8191\n"),
        ("sys/devices/system/node/node1/cpulist", "\n"),
    ]);
    let run = |options: &str| {
        let server = fabric.server("write-lat", "-d soft1");
        let args = format!("-d soft0 -n 1 {options}");
        let output = finish(machine.seen_by(fabric.client_command("write-lat", &server, &args)));
        assert_status(&output, 0);
        output
    };
    let hint = stderr(&run(""));
    let start = "cxidiag write-lat: hint: the measuring thread runs on CPU ";
    let end = named(" (NUMA node 0), but soft0 is on NUMA node 1: use --cpu=auto\n");
    assert!(hint.starts_with(start) && hint.ends_with(&end), "{hint}");
    assert_eq!(hint.lines().count(), 1, "{hint}");

    let output = run("--cpu=auto --json");
    let hint = stderr(&output);
    assert!(hint.contains(": this process may use no CPU of that node\n"), "{hint}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cpu = document["options"]["cpu"].as_str().expect("text");
    assert!(cpu.parse::<u32>().is_ok(), "{cpu}");

    // A choice by the user is not commented.
    assert_success(&run("--cpu=0"));
}

#[test]
fn rejects_invalid_lists_of_cpus() {
    let fabric = Fabric::new();
    let error_of = |value: &str| {
        let output = fabric.run(&format!("write-lat --loopback -d soft0 --cpu={value}"));
        assert!(!fabric.path().exists());
        assert_status(&output, 2)
    };
    let start = |value| format!("cxidiag write-lat: error: invalid value '{value}' for --cpu: ");
    for value in ["", "x", "1-", "3-1", "-1", "AUTO"] {
        let expected = "expected auto, or CPU numbers from 0 to 8191, such as 2 or 0-3,8\n";
        assert_eq!(error_of(value), start(value) + expected);
    }
    let error = error_of("8191");
    let start = start("8191") + "CPU 8191 is not online (online: ";
    assert!(error.starts_with(&start) && error.ends_with(")\n"), "{error}");
}
