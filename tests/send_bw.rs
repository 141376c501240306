//! `send-bw`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, whoever receives fails unless every byte of every list is the
//! one that belongs there.

mod harness;

use harness::{Fabric, assert_success, finish_or_kill, masked, stderr, stdout, without_platform};

/// What the user's manual shows for `$ command` in its example `number`.
fn manual(number: usize, command: &str) -> String {
    let manual = include_str!("fixtures/seed-send-bw.txt");
    let (_, example) = manual
        .split_once(&format!("\n## Example {number}\n"))
        .expect("an example");
    let (_, after) = example
        .split_once(&format!("\n$ {command}\n"))
        .expect(command);
    after
        .split_once("```")
        .expect("a closed block")
        .0
        .to_owned()
}

#[test]
fn the_first_example_of_the_manual() {
    let fabric = Fabric::new();
    let server = fabric.server("send-bw", &["-d", "soft0"]);
    let client = fabric.client("send-bw", &server, &["-d", "soft1", "-n", "4"]);
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    let thousand = |text: &str| text.replace("Iterations       : 4\n", "Iterations       : 1000\n");
    assert_eq!(
        thousand(&masked(&without_platform(&stdout(&client)))),
        masked(&manual(1, "cxi_send_bw 192.168.1.1"))
    );
    assert_eq!(
        thousand(&masked(&without_platform(&stdout(&server)))),
        masked(&manual(1, "cxi_send_bw"))
    );
    fabric.assert_nothing_left();
}

#[test]
fn the_second_example_of_the_manual() {
    let fabric = Fabric::new();
    let server = fabric.server("send-bw", &["-d", "soft0"]);
    let args = ["-d", "soft1", "-b", "-D", "1", "-s", "1024:65536"];
    let client = fabric.client("send-bw", &server, &args);
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    let five = |text: &str| text.replace(": 1 seconds\n", ": 5 seconds\n");
    assert_eq!(
        five(&masked(&without_platform(&stdout(&client)))),
        masked(&manual(2, "cxi_send_bw 192.168.1.1 -b -D 5 -s 1024:65536"))
    );
    assert_eq!(
        five(&masked(&without_platform(&stdout(&server)))),
        masked(&manual(2, "cxi_send_bw"))
    );
    // Both report the sum of both directions.
    let rates = |output| -> Vec<String> {
        let text = stdout(output);
        let rows = text.lines().filter(|line| line.starts_with("    "));
        let words = rows.map(|row| row.split_whitespace().skip(2).collect::<Vec<_>>().join(" "));
        words
            .filter(|rates| rates.starts_with(|c: char| c.is_ascii_digit()))
            .collect()
    };
    assert_eq!(rates(&client).len(), 7);
    assert_eq!(rates(&client), rates(&server));
    fabric.assert_nothing_left();
}

/// Runs both sides; the client's figures as rows of words.
fn rows(fabric: &Fabric, options: &[&str]) -> Vec<Vec<String>> {
    let args = ["send-bw", "--loopback", "-d", "soft0"];
    let child = fabric.command(&[&args[..], options].concat()).spawn();
    let output = finish_or_kill(child.expect("cxidiag starts"));
    assert_success(&output);
    let text = stdout(&output);
    let (_, table) = text.split_once("PktRate[Mpkt/s]\n").expect("a table");
    table
        .lines()
        .take_while(|line| !line.starts_with('-'))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[test]
fn every_way_of_sending() {
    let fabric = Fabric::new();
    for direction in [&[][..], &["-b"]] {
        for options in [&[][..], &["--no-idc"], &["--rdzv"]] {
            for sizes in [
                &["-s", "1:4096", "-l", "5"][..],
                &["-s", "192", "-l", "7"],
                &["-s", "193", "-l", "255"],
                &["-s", "4097", "-l", "1"],
                // Spaced, and wrapped around.
                &["-s", "100", "--buf-align", "4096", "-l", "9"],
                &["-s", "100", "--buf-align", "1", "-l", "9"],
                &["-s", "1:2048", "--buf-sz", "10000", "-l", "64"],
                &[
                    "-s",
                    "3000",
                    "--buf-sz",
                    "3000",
                    "--buf-align",
                    "4096",
                    "-l",
                    "3",
                ],
            ] {
                let args = [direction, options, sizes, &["-n", "3"]].concat();
                rows(&fabric, &args);
            }
        }
    }
    fabric.assert_nothing_left();
}

#[test]
fn counts_and_lists() {
    let fabric = Fabric::new();
    for (list, count) in [("1", "3"), ("2", "6"), ("255", "765"), ("16382", "49146")] {
        let rows = rows(&fabric, &["-n", "3", "-s", "8", "-l", list]);
        assert_eq!(rows[0][..2], ["8", count], "{list}");
    }
    // 1 to 4 MiB.
    let rows = rows(&fabric, &["-n", "1", "-s", "1:4194304", "-l", "2"]);
    assert_eq!(rows.len(), 23);
    fabric.assert_nothing_left();
}

/// Whatever the skew between both sides, each size ends on both, and nothing is left for the
/// next one (T23).
#[test]
fn t23_bidirectional_durations_end_cleanly() {
    let fabric = Fabric::new();
    for options in [&[][..], &["-R"]] {
        let args = ["-b", "-D", "1", "-s", "1024:4096"];
        assert_eq!(rows(&fabric, &[&args[..], options].concat()).len(), 3);
    }
    fabric.assert_nothing_left();
}

/// The NIC may leave the gets of rendezvous messages to software.
#[test]
fn t21_t22_gets_by_software() {
    let fabric = Fabric::new();
    for direction in [&[][..], &["-b"]] {
        let args = [
            "send-bw",
            "--loopback",
            "-d",
            "soft0",
            "-R",
            "-n",
            "5",
            "-l",
            "40",
        ];
        let mut command = fabric.command(&[&args[..], &["-s", "1:65536"], direction].concat());
        let child = command.env("CXIDIAG_RDZV_GET", "0").spawn();
        assert_success(&finish_or_kill(child.expect("cxidiag starts")));
    }
    fabric.assert_nothing_left();
}

/// 32 bits of microseconds end at 4294 s.
#[test]
fn t7_a_long_duration_is_one() {
    let fabric = Fabric::new();
    let mut server = fabric.server("send-bw", &["-d", "soft0"]);
    let args = ["-d", "soft1", "-D", "4295", "-s", "8"];
    let client = fabric.client_command("send-bw", &server, &args).spawn();
    let mut client = harness::Running(client.expect("cxidiag starts"));
    while !server.next_line().starts_with("Send Size[B]") {}
    // The legacy tool is through after 0.03 s: by the time of some runs this one still goes on.
    for _ in 0..5 {
        rows(&fabric, &["-n", "20", "-s", "8", "-l", "16"]);
    }
    assert!(client.0.try_wait().expect("a child").is_none());
    drop(client);
    assert_eq!(server.finish().status.code(), Some(1));
}

#[test]
fn a_server_says_that_run_options_come_from_the_client() {
    let fabric = Fabric::new();
    let server = fabric.server("send-bw", &["-d", "soft0", "-b", "-D", "5"]);
    let client = fabric.client("send-bw", &server, &["-d", "soft1", "-n", "1"]);
    let server = server.finish();
    assert_success(&client);
    let said = stderr(&server);
    assert!(
        said.contains("options apply): --duration --bidirectional"),
        "{said}"
    );
    assert!(stdout(&server).contains("\nBidirectional    : Disabled\n"));
}

#[test]
fn bad_input() {
    let fabric = Fabric::new();
    for (options, words) in [
        (&["-l", "0"][..], ["--list-size", "16382"]),
        (&["-l", "16383"], ["--list-size", "16382"]),
        (&["-l", "65537"], ["--list-size", "16382"]),
        (&["--buf-sz", "0"], ["--buf-sz", "'0'"]),
        (&["--buf-sz", "65535"], ["--buf-sz", "65536"]),
        (&["--buf-align", "0"], ["--buf-align", "'0'"]),
        (&["--no-ll"], ["--no-ll", "unknown option"]),
    ] {
        let output = fabric.run(&[&["send-bw", "h"], options].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    assert!(!fabric.path().exists());
}

#[test]
fn t14_a_killed_side_ends_the_other() {
    let fabric = Fabric::new();
    for options in [&[][..], &["-b"], &["-R"], &["-R", "-b"]] {
        for kill_server in [true, false] {
            let mut server = fabric.server("send-bw", &["-d", "soft0"]);
            let args = [&["-d", "soft1", "-D", "600"], options].concat();
            let mut client = fabric
                .client_command("send-bw", &server, &args)
                .spawn()
                .expect("cxidiag starts");
            while !server.next_line().starts_with("Send Size[B]") {}
            if kill_server {
                server.kill();
                assert_eq!(finish_or_kill(client).status.code(), Some(1), "{options:?}");
            } else {
                client.kill().expect("a running client");
                let _ = client.wait();
                assert_eq!(server.finish().status.code(), Some(1), "{options:?}");
            }
        }
    }
    rows(&fabric, &["-n", "1"]);
    fabric.assert_nothing_left();
}

#[test]
fn the_legacy_name_is_the_same_tool() {
    harness::assert_legacy_name_works("send-bw", &["-n", "5"]);
}
