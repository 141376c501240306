//! Either side of a run is ended in each of its phases; the other one notices, says so, and leaves
//! nothing.
//!
//! The phases are those of src/phase.rs: a process stops where its test wants it, by itself.

mod harness;

use std::process::Output;

use harness::paused::{Side, client, port, server};
use harness::{Fabric, assert_success, stderr, stdout};

/// Two sizes: what ends behind the first has more before it.
const SHORT: [&str; 8] = ["-n", "2", "--warmup", "1", "-L", "1", "-s", "8:16"];
const LISTS: [&str; 6] = ["-n", "2", "-l", "4", "-s", "8:16"];

const HANDSHAKE: [&str; 4] = ["names", "versions", "options", "addresses"];

/// How a side is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Interrupt,
}

/// One process of a pair that is ended in one phase.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    tool: &'a str,
    options: &'a [&'a str],
    phase: &'a str,
    blow: Blow,
}

/// Each of `phases` of `tool`, once for each way to end.
fn each<'a>(tool: &'a str, options: &'a [&'a str], phases: &[&'a str], run: impl Fn(Case<'a>)) {
    for phase in phases {
        for blow in [Blow::Kill, Blow::Interrupt] {
            run(Case {
                tool,
                options,
                phase,
                blow,
            });
        }
    }
}

/// The server ends in a phase in which it has a client.
fn server_ends(case: Case) {
    let fabric = Fabric::new();
    let mut server = server(&fabric, case.tool, Some(case.phase));
    let port = port(&mut server);
    let client = client(&fabric, case.tool, &port, case.options, None);
    server.wait_for_pause();
    let victim = end(case, server);
    let survivor = client.finish();
    if case.phase == "releasing" {
        assert_success(&survivor);
    } else {
        missed(case, &survivor);
        let has_table = stdout(&survivor).contains("[us]") || stdout(&survivor).contains("[B]");
        let is_partial = stdout(&survivor).ends_with("Failed: results are partial\n");
        assert_eq!(is_partial, has_table, "{case:?}: {survivor:?}");
    }
    ended(case, &victim);
    fabric.assert_nothing_left();
}

/// The client ends in a phase in which it has a server.
fn client_ends(case: Case) {
    let fabric = Fabric::new();
    let mut server = server(&fabric, case.tool, None);
    let port = port(&mut server);
    let mut client = client(&fabric, case.tool, &port, case.options, Some(case.phase));
    client.wait_for_pause();
    let victim = end(case, client);
    let survivor = server.finish();
    if case.phase == "releasing" {
        assert_success(&survivor);
    } else {
        missed(case, &survivor);
        let is_partial = stdout(&victim).ends_with("Interrupted: results are partial\n");
        let is_told = case.blow == Blow::Interrupt && !["set-up", "ready"].contains(&case.phase);
        assert_eq!(is_partial, is_told, "{case:?}: {victim:?}");
    }
    ended(case, &victim);
    fabric.assert_nothing_left();
}

/// The client ends before it has become the server's client, who serves the next one.
fn client_ends_early(case: Case) {
    let fabric = Fabric::new();
    let mut server = server(&fabric, case.tool, None);
    let port = port(&mut server);
    let mut first = client(&fabric, case.tool, &port, case.options, Some(case.phase));
    first.wait_for_pause();
    let victim = end(case, first);
    let second = client(&fabric, case.tool, &port, case.options, None).finish();
    let server = server.finish();
    assert_success(&second);
    assert!(server.status.success(), "{case:?}: {server:?}");
    ended(case, &victim);
    fabric.assert_nothing_left();
}

/// A side without a peer ends.
fn alone_ends(case: Case, side: impl Fn(&Fabric) -> Side) {
    let fabric = Fabric::new();
    let mut side = side(&fabric);
    side.wait_for_pause();
    let victim = end(case, side);
    ended(case, &victim);
    if case.blow == Blow::Interrupt {
        fabric.assert_nothing_left();
    }
}

fn end(case: Case, victim: Side) -> Output {
    victim.signal(match case.blow {
        Blow::Kill => "KILL",
        Blow::Interrupt => "TERM",
    });
    victim.finish()
}

/// How it ended, and that it told so in one line.
#[track_caller]
fn ended(case: Case, victim: &Output) {
    match case.blow {
        Blow::Kill => assert_eq!(victim.status.code(), None, "{case:?}"),
        Blow::Interrupt => {
            assert_eq!(victim.status.code(), Some(130), "{case:?}: {victim:?}");
            let line = format!("cxidiag {}: interrupted by SIGTERM\n", case.tool);
            assert_eq!(stderr(victim), line, "{case:?}");
        }
    }
}

/// The survivor failed, and said in one line and a hint who went away, when, and how.
#[track_caller]
fn missed(case: Case, survivor: &Output) {
    assert_eq!(survivor.status.code(), Some(1), "{case:?}: {survivor:?}");
    let said = stderr(survivor);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains(": no answer to a "))
        .collect();
    let [line, hint] = lines[..] else {
        panic!("{case:?}: {said}");
    };
    let program = format!("cxidiag {}: ", case.tool);
    assert!(line.starts_with(&program), "{case:?}: {said}");
    assert!(line.contains("the peer (127.0.0.1:"), "{case:?}: {said}");
    let is_told = case.blow == Blow::Interrupt && !HANDSHAKE.contains(&case.phase);
    let how = match is_told {
        true => "was interrupted",
        false => "closed the connection",
    };
    assert!(line.contains(how), "{case:?}: {said}");
    assert!(hint.starts_with("hint: "), "{case:?}: {said}");
}

#[test]
fn a_side_without_a_peer_ends_in_any_phase() {
    each("write-lat", &[], &["opening", "listening"], |case| {
        alone_ends(case, |fabric| server(fabric, case.tool, Some(case.phase)));
    });
    each("send-bw", &[], &["opening", "connecting"], |case| {
        // Nobody listens there.
        alone_ends(case, |fabric| {
            client(fabric, case.tool, "1", case.options, Some(case.phase))
        });
    });
}

#[test]
fn a_client_that_ends_in_the_handshake_is_none() {
    let phases = ["connecting", "names", "versions", "options", "addresses"];
    each("write-lat", &SHORT, &phases, client_ends_early);
}

#[test]
fn a_server_that_ends_in_the_handshake_is_missed() {
    each("write-lat", &SHORT, &HANDSHAKE, server_ends);
}

#[test]
fn either_side_of_a_one_sided_latency_run_is_missed() {
    let phases = [
        "set-up",
        "ready",
        "warm-up",
        "measuring",
        "gap",
        "post-run",
        "reporting",
        "releasing",
    ];
    each("write-lat", &SHORT, &phases, client_ends);
    let phases = ["set-up", "ready", "measuring", "reporting", "releasing"];
    each("write-lat", &SHORT, &phases, server_ends);
}

#[test]
fn either_side_of_a_two_sided_latency_run_is_missed() {
    let phases = [
        "set-up",
        "ready",
        "warm-up",
        "sync",
        "measuring",
        "gap",
        "post-run",
        "reporting",
        "releasing",
    ];
    each("send-lat", &SHORT, &phases, client_ends);
    each("send-lat", &SHORT, &phases, server_ends);
}

#[test]
fn either_side_of_a_bandwidth_run_is_missed() {
    let phases = [
        "set-up",
        "ready",
        "pre-run",
        "measuring",
        "post-run",
        "results",
        "settling",
        "reporting",
        "releasing",
    ];
    each("send-bw", &LISTS, &phases, client_ends);
    let both_ways = [&LISTS[..], &["-b"]].concat();
    each("send-bw", &both_ways, &phases, server_ends);
}

#[test]
fn the_other_tools_miss_their_peers() {
    for (tool, options) in [("read-lat", &SHORT[..]), ("atomic-lat", &SHORT[..6])] {
        each(tool, options, &["measuring", "releasing"], server_ends);
        each(tool, options, &["gap", "post-run"], client_ends);
    }
}
