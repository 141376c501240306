//! `--cpu`: where the measuring thread runs and its memory lies, and who is told to use it.

mod harness;

use std::fs;

use harness::machine::MadeUp;
use harness::{Fabric, Server, assert_success, named, stderr};

/// CPUs that each thread of a process may use, by the name of the thread.
fn allowed(process: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let task = |entry: fs::DirEntry| {
        let read = |file| fs::read_to_string(entry.path().join(file)).ok();
        let (name, status) = (read("comm")?, read("status")?);
        let mut lines = status.lines();
        let cpus = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((name.trim().to_owned(), cpus.trim().to_owned()))
    };
    tasks.flatten().filter_map(task).collect()
}

/// The same of the thread that measures.
fn allowed_to_measure(process: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/task/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("a list").trim().to_owned()
}

/// The CPUs of this test.
fn cpus() -> Vec<u32> {
    cxi::placement::cpus().expect("CPUs")
}

#[test]
fn the_measuring_thread_and_no_other_is_confined() {
    let fabric = Fabric::new();
    for cpu in cpus() {
        let option = format!("--cpu={cpu}");
        let server = fabric.server("write-lat", &["-d", "soft0", &option]);
        assert_eq!(allowed_to_measure(server.id()), cpu.to_string());
        let others: Vec<_> = allowed(server.id())
            .into_iter()
            .filter(|(_, allowed)| cpus().len() > 1 && *allowed == cpu.to_string())
            .collect();
        assert_eq!(others.len(), usize::from(cpus().len() > 1), "{others:?}");
        assert_success(&fabric.client("write-lat", &server, &["-d", "soft1", &option]));
        assert_success(&server.finish());
    }
}

/// The NIC's node has CPU 0 and another one.
#[test]
fn auto_takes_a_cpu_near_the_nic_and_not_cpu_0() {
    let cpus = cpus();
    let [0, second, ..] = cpus[..] else {
        println!("not tested here: the CPUs are {cpus:?}");
        return;
    };
    let fabric = Fabric::new();
    let machine = |node: &str, list: &str| {
        MadeUp::new(&[
            ("sys/class/cxi/soft0/device/numa_node", node),
            ("sys/devices/system/node/node0/cpulist", list),
            ("sys/devices/system/node/node1/cpulist", "0\n"),
        ])
    };
    let both = format!("0,{second}\n");
    for (node, list, taken) in [
        ("0\n", both.as_str(), second),
        // No choice.
        ("1\n", &both, 0),
        // The kernel does not know.
        ("-1\n", &both, second),
    ] {
        let args = ["write-lat", "-p", "0", "-d", "soft0", "--cpu=auto"];
        let machine = machine(node, list);
        let server = Server::start(machine.seen_by(fabric.command(&args)));
        assert_eq!(allowed_to_measure(server.id()), taken.to_string(), "{node}");
    }
}

/// On a node that this machine has.
#[test]
fn memory_is_preferred_on_the_node() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0", "--cpu=0"]);
    let policies = fs::read_to_string(format!("/proc/{}/numa_maps", server.id()));
    match policies {
        Ok(policies) => {
            let preferred = policies.lines().filter(|line| line.contains(" prefer"));
            assert!(preferred.count() > 0, "{policies}");
        }
        Err(error) => println!("not tested here: {error}"),
    }
}

/// Each run takes the place anew, and the threads of the next NIC are not confined.
#[test]
fn a_persistent_server_takes_its_place_for_each_client() {
    let fabric = Fabric::new();
    let args = ["-d", "soft0", "--cpu=0", "--persist"];
    let mut server = fabric.server("write-lat", &args);
    for _ in 0..2 {
        assert_success(&fabric.client("write-lat", &server, &["-d", "soft1", "-n", "1"]));
        while !server.next_line().starts_with("Listening") {}
        assert_eq!(allowed_to_measure(server.id()), "0");
        let confined = allowed(server.id())
            .into_iter()
            .filter(|(_, cpus)| cpus == "0");
        assert_eq!(
            confined.count(),
            if cpus().len() > 1 {
                1
            } else {
                allowed(server.id()).len()
            }
        );
    }
}

/// As a loopback run starts it.
#[test]
fn the_server_of_a_loopback_run_leaves_the_first_cpu_to_its_client() {
    let cpus = cpus();
    let [0, _, ..] = cpus[..] else {
        println!("not tested here: the CPUs are {cpus:?}");
        return;
    };
    let fabric = Fabric::new();
    for (parent, place) in [(None, 1), (Some(std::process::id()), 2)] {
        let mut command = fabric.command(&["write-lat", "-p", "0", "-d", "soft0", "--cpu=auto"]);
        if let Some(parent) = parent {
            command.env("CXIDIAG_LOOPBACK_PARENT", parent.to_string());
        }
        let server = Server::start(command);
        // CPU 0 is the last resort.
        let expected = cpus.get(place).unwrap_or(&0);
        assert_eq!(allowed_to_measure(server.id()), expected.to_string());
    }
}

#[test]
fn both_sides_of_a_loopback_run_are_confined() {
    let fabric = Fabric::new();
    for tool in ["write-lat", "send-bw"] {
        for list in ["auto", "0"] {
            let option = format!("--cpu={list}");
            let args = [tool, "--loopback", "-d", "soft0", "-n", "2", &option];
            assert_success(&fabric.run(&args));
        }
    }
}

/// All CPUs are on one node, the NIC on another.
#[test]
fn who_measures_across_nodes_is_told() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[
        ("sys/class/cxi/soft0/device/numa_node", "1\n"),
        ("sys/devices/system/node/node0/cpulist", "0-8191\n"),
        ("sys/devices/system/node/node1/cpulist", "\n"),
    ]);
    let server = fabric.server("write-lat", &["-d", "soft1"]);
    let args = ["-d", "soft0", "-n", "1"];
    let command = fabric.client_command("write-lat", &server, &args);
    let output = machine.seen_by(command).output().unwrap();
    assert!(output.status.success());
    let said = stderr(&output);
    let (begin, end) = (
        "cxidiag write-lat: hint: the measuring thread runs on CPU ",
        named(" (NUMA node 0), but soft0 is on NUMA node 1: use --cpu=auto\n"),
    );
    assert!(said.starts_with(begin) && said.ends_with(&end), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // Whoever has asked for a near one is told that there is none.
    let server = fabric.server("write-lat", &["-d", "soft1"]);
    let args = [&args[..], &["--cpu=auto", "--json"]].concat();
    let command = fabric.client_command("write-lat", &server, &args);
    let output = machine.seen_by(command).output().unwrap();
    let said = stderr(&output);
    assert!(
        said.contains(": this process may use no CPU of that node\n"),
        "{said}"
    );
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpu = run["options"]["cpu"].as_str().unwrap();
    assert!(cpu.parse::<u32>().is_ok(), "{cpu}");
    let args = ["-d", "soft0", "-n", "1"];
    // Whoever has chosen knows.
    let server = fabric.server("write-lat", &["-d", "soft1"]);
    let args = [&args[..], &["--cpu=0"]].concat();
    let command = fabric.client_command("write-lat", &server, &args);
    let output = machine.seen_by(command).output().unwrap();
    assert_success(&output);
}

#[test]
fn what_is_no_list_of_cpus_is_a_usage_error() {
    let fabric = Fabric::new();
    let run = |value: &str| {
        let option = format!("--cpu={value}");
        let output = fabric.run(&["write-lat", "--loopback", "-d", "soft0", &option]);
        assert_eq!(output.status.code(), Some(2));
        assert!(!fabric.path().exists());
        stderr(&output)
    };
    for wrong in ["", "x", "1-", "3-1", "-1", "AUTO"] {
        assert_eq!(
            run(wrong),
            format!(
                "cxidiag write-lat: error: invalid value '{wrong}' for --cpu: expected auto, or CPU numbers \
                 such as 2 or 0-3,8\n"
            )
        );
    }
    let said = run("8191");
    let begin = "cxidiag write-lat: error: invalid value '8191' for --cpu: CPU 8191 is not online (online: ";
    assert!(said.starts_with(begin) && said.ends_with(")\n"), "{said}");
}
