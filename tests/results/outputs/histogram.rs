//! `--histogram`: a picture in the width of the terminal, and bins in JSON.

use std::process::Stdio;

use rustix::termios::{tcgetwinsize, tcsetwinsize};

use super::{Fabric, document, short, stderr, tools};
use crate::harness::terminal::{shown, terminal};
use crate::harness::{finish, measures_bandwidth};

/// The lines of the first picture in a text, without its title.
fn picture(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| !line.starts_with("Histogram of "));
    let picture = lines
        .skip(1)
        .take_while(|line| !line.starts_with("Histogram of ") && !line.starts_with("---"));
    picture.collect()
}

#[test]
fn draws_each_size_and_writes_its_bins() {
    for tool in tools().filter(|tool| !measures_bandwidth(tool)) {
        let output = short(tool, &["--histogram", "--json"]);
        let text = stderr(&output);
        let run = document(&output);
        let results = run["results"].as_array().unwrap();
        assert_eq!(text.matches("Histogram of ").count(), results.len(), "{text}");
        for result in results {
            let latency = &result["latency"];
            let bins = latency["histogram"].as_array().expect("bins");
            let counts = bins.iter().map(|bin| bin[1].as_u64().expect("a count"));
            assert_eq!(counts.sum::<u64>(), 30);
            let edges: Vec<u64> = bins.iter().map(|bin| bin[0].as_u64().unwrap()).collect();
            assert!(edges.is_sorted() && edges[0] <= latency["min_ns"].as_u64().unwrap());
            assert!(*edges.last().unwrap() <= latency["max_ns"].as_u64().unwrap());
        }
        let lines = picture(&text);
        let counts = lines[1..].iter().filter_map(|line| line.split_whitespace().nth(1));
        assert_eq!(counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>(), 30, "{text}");
        assert!(lines.last().unwrap().ends_with(" max"), "{text}");
    }
    let without = document(&short("write-lat", &["--json"]));
    assert!(without["results"][0]["latency"]["histogram"].is_null());
}

#[test]
fn fills_terminal_with_characters_of_the_locale() {
    for (locale, bar, columns) in [("C.UTF-8", '█', 50), ("C", '#', 120)] {
        let (mut ours, device) = terminal();
        let mut size = tcgetwinsize(&device).expect("a size");
        size.ws_col = columns;
        tcsetwinsize(&device, size).expect("a size");
        let fabric = Fabric::new();
        let run = "write-lat --loopback -d soft0 -n 100 --latency-gap=0 --quiet --histogram";
        let mut command = fabric.command(run);
        command.env("LC_ALL", locale).stdout(Stdio::from(device));
        let child = command.spawn().unwrap();
        drop(command);
        let text = shown(&mut ours, |_| false).replace('\r', "");
        assert!(child.finish().status.success());
        let lines = picture(&text);
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
        let longest = lines.iter().map(|line| line.matches(bar).count()).max().unwrap();
        assert!(widest <= columns.into(), "{text}");
        // The numbers and the names of percentiles take less than 45 columns.
        assert!(longest >= usize::from(columns).saturating_sub(45), "{text}");
        assert_eq!(text.is_ascii(), locale == "C", "{text}");
    }
    // 80 columns without a terminal.
    let fabric = Fabric::new();
    let run = "write-lat --loopback -d soft0 -n 100 --latency-gap=0 --quiet --histogram";
    let output = finish(fabric.command(run));
    let text = super::stdout(&output);
    let longest = picture(&text).iter().map(|line| line.chars().count()).max();
    assert!(longest > Some(40) && longest <= Some(80), "{text}");
}
