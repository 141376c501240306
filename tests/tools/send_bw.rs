//! `send-bw`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, each receiver fails unless every byte of every list is the one
//! that belongs there.

use crate::harness::{
    self, Fabric, assert_has_form_of, assert_status, assert_success, duration, finish, iterations,
    rows, stderr, stdout,
};

/// Returns what the user's manual shows for `$ command` in its example `number`.
fn manual(number: usize, command: &str) -> String {
    let manual = include_str!("../fixtures/seed-send-bw.txt");
    let (_, example) = manual.split_once(&format!("\n## Example {number}\n")).expect("an example");
    let (_, block) = example.split_once(&format!("\n$ {command}\n")).expect(command);
    let (block, _) = block.split_once("```").expect("a closed block");
    block.to_owned()
}

#[test]
fn prints_the_first_example_of_the_manual() {
    for (text, command) in
        Fabric::new().pair("send-bw", "-n 4").iter().zip(["cxi_send_bw 192.168.1.1", "cxi_send_bw"])
    {
        let text = text.replace("Iterations       : 4\n", "Iterations       : 1000\n");
        assert_has_form_of(&text, &manual(1, command));
    }
}

#[test]
fn prints_the_second_example_of_the_manual() {
    let texts = Fabric::new().pair("send-bw", "-b -n 10 -s 1024:65536");
    let commands = ["cxi_send_bw 192.168.1.1 -b -D 5 -s 1024:65536", "cxi_send_bw"];
    for (text, command) in texts.iter().zip(commands) {
        let text = text.replace(&iterations(10), &duration(5.0));
        assert_has_form_of(&text, &manual(2, command));
    }
    // Both sides print the sum of both directions.
    let [client, server] = texts.each_ref().map(|text| {
        let rates = rows(text).into_iter().map(|row| row[2..].to_vec());
        rates.collect::<Vec<_>>()
    });
    assert_eq!(client.len(), 7);
    assert_eq!(client, server);
}

#[test]
fn measures_with_each_kind_of_command_and_list() {
    let fabric = Fabric::new();
    let each_kind = [
        "-s 1:4096 -l 5",
        "-s 1:2048 --buf-sz 10000 -l 64",
        "-s 3000 --buf-sz 3000 --buf-align 4096 -l 3",
    ];
    let idc = [
        "-s 192 -l 7",
        "-s 193 -l 255",
        "-s 4097 -l 1",
        "-s 100 --buf-align 4096 -l 9",
        "-s 100 --buf-align 1 -l 9",
    ];
    for direction in ["", "-b"] {
        for (options, more) in [("", &idc[..]), ("--no-idc", &[]), ("--rdzv", &[])] {
            for sizes in each_kind.iter().chain(more) {
                fabric.loopback("send-bw", &format!("{direction} {options} {sizes} -n 3"));
            }
        }
    }
    fabric.assert_nothing_left();
}

#[test]
fn counts_the_messages_of_all_lists() {
    let fabric = Fabric::new();
    for (list, count) in [("1", "3"), ("2", "6"), ("255", "765"), ("16382", "49146")] {
        let text = fabric.loopback("send-bw", &format!("-n 3 -s 8 -l {list}"));
        assert_eq!(rows(&text)[0][..2], ["8", count], "{list}");
    }
    let text = fabric.loopback("send-bw", "-n 1 -s 1:4194304 -l 2");
    assert_eq!(rows(&text).len(), 23);
    fabric.assert_nothing_left();
}

/// Each size ends on both sides whatever the skew between them, and leaves nothing for the next
/// one.
#[test]
fn t23_ends_each_size_of_a_bidirectional_duration() {
    let fabric = Fabric::new();
    for options in ["", "-R"] {
        let text = fabric.loopback("send-bw", &format!("-b -D 0.3 -s 1024:2048 {options}"));
        assert!(text.contains(&duration(0.3)), "{text}");
        assert_eq!(rows(&text).len(), 2);
    }
    fabric.assert_nothing_left();
}

/// A NIC may leave the gets of rendezvous messages to software.
#[test]
fn t21_t22_issues_gets_by_software() {
    let fabric = Fabric::new();
    for direction in ["", "-b"] {
        let args = format!("send-bw --loopback -d soft0 -R -n 5 -l 40 -s 1:65536 {direction}");
        let mut command = fabric.command(&args);
        command.env("CXIDIAG_RDZV_GET", "0");
        assert_success(&finish(command));
    }
    fabric.assert_nothing_left();
}

/// 32 bits of microseconds overflow at 4294 s.
#[test]
fn t7_runs_for_a_duration_beyond_32_bits_of_microseconds() {
    let fabric = Fabric::new();
    let mut server = fabric.server("send-bw", "-d soft0");
    let client = fabric.client_command("send-bw", &server, "-d soft1 -D 4295 -s 8");
    let mut client = { client }.spawn().expect("cxidiag starts");
    server.wait_for_line("Send Size[B]");
    // The legacy tool ends after 0.03 s: less than one other run takes.
    fabric.loopback("send-bw", "-n 20 -s 8 -l 16");
    assert!(client.try_wait().is_none());
    drop(client);
    assert_status(&server.finish(), 1);
}

#[test]
fn names_the_run_options_that_a_server_ignores() {
    let fabric = Fabric::new();
    let server = fabric.server("send-bw", "-d soft0 -b -D 5");
    let client = fabric.client("send-bw", &server, "-d soft1 -n 1");
    let server = server.finish();
    assert_success(&client);
    let notice = stderr(&server);
    let options = "options apply): --bidirectional --duration";
    assert!(notice.contains(options), "{notice}");
    assert!(stdout(&server).contains("\nBidirectional    : Disabled\n"));
}

#[test]
fn rejects_invalid_lists_and_buffers() {
    let fabric = Fabric::new();
    for (options, words) in [
        ("-l 0", ["--list-size", "16382"]),
        ("-l 16383", ["--list-size", "16382"]),
        ("-l 65537", ["--list-size", "16382"]),
        ("--buf-sz 0", ["--buf-sz", "'0'"]),
        ("--buf-sz 65535", ["--buf-sz", "65536"]),
        ("--buf-align 0", ["--buf-align", "'0'"]),
        ("--no-ll", ["--no-ll", "is for latency tools"]),
    ] {
        let error = assert_status(&fabric.run(&format!("send-bw h {options}")), 2);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(!fabric.path().exists());
}

#[test]
fn t14_fails_when_the_peer_is_killed() {
    let options = ["", "-b", "-R", "-R -b"];
    harness::assert_killed_side_ends_the_other("send-bw", &options, "Send Size[B]");
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("send-bw", "-n 5");
}

/// The manual page of send_bw: a run for each size that is a power of two from MIN to MAX.
#[test]
fn measures_each_power_of_two_in_any_range() {
    for tool in crate::harness::tools().filter(|tool| crate::harness::measures_bandwidth(tool)) {
        if tool == "atomic-bw" {
            continue;
        }
        let text = Fabric::new().loopback(tool, "-s 3:20 -n 2 -l 2");
        let rows = crate::harness::rows(&text);
        let sizes: Vec<String> = rows.iter().map(|row| row[0].to_string()).collect();
        assert_eq!(sizes, ["4", "8", "16"], "{tool}: {text}");
    }
}

/// Messages and replies arrive behind the list entries that match none of them.
#[test]
fn moves_data_behind_posted_list_entries() {
    let fabric = Fabric::new();
    for options in ["", "--rdzv", "-b", "-P 2", "-s 64"] {
        let options = format!("--posted=100 -n 2 -l 4 --verify {options}");
        let text = fabric.loopback("send-bw", &options);
        assert!(text.contains("\nPosted Entries   : 100\n"), "{text}");
    }
    fabric.assert_nothing_left();
}

/// No message is under way while the lists grow, and the data of each row arrives.
#[test]
fn lists_grow_between_the_rows_of_a_range() {
    let fabric = Fabric::new();
    for options in ["-n 2", "-n 2 --rdzv", "-n 2 -P 2", "-D 0.05 -b", "-D 0.05 -b --rdzv"] {
        let options = format!("--posted=0:5 -l 4 --verify {options}");
        let text = fabric.loopback("send-bw", &options);
        let rows = crate::harness::rows(&text);
        let depths: Vec<String> = rows.iter().map(|row| row[1].to_string()).collect();
        assert_eq!(depths, ["0", "1", "2", "4", "5"], "{options}: {text}");
        assert!(text.contains("Verified: 5 sizes"), "{options}: {text}");
    }
    fabric.assert_nothing_left();
}

/// Each pair has its entries, and all may lie in one processing element.
#[test]
fn pairs_share_a_quarter_of_the_free_list_entries() {
    let fabric = Fabric::new();
    let output = fabric.run("send-bw --loopback -d soft0 -P 5 -l 1 -s 8 --posted=410");
    let errors = crate::harness::assert_status(&output, 1);
    assert!(errors.contains("--posted=410: both sides on one NIC need 4100 list "), "{errors}");
    assert!(errors.contains("are free: at most --posted=409"), "{errors}");
    fabric.assert_nothing_left();
}
