//! The handshake: versions, tools, and what two cxidiag processes announce.

use proptest::prelude::*;

use super::super::peer_facts::name_word;
use super::super::testing::{SERVER, plan};
use super::*;
use facts::device::FabricAddress;
use facts::host::host_name;
use node::local_address::LocalAddress;
use node::nic::counter_table::Preset;
use node::traffic_class::TrafficClass;
use plan::extensions::Extensions;
use plan::options;
use plan::run_options::SyncPoint;
use plan::tools::{TOOLS, peer_tools};

#[test]
fn compares_versions_like_legacy_tools() {
    for same in ["2.4", "2.4.0", "2.4.99-foo", "2.4.0 cxidiag/0.1.0 vni=10"] {
        assert_eq!(number(same), Some((2, 4)), "{same}");
    }
    for none in ["", "2", "2.", ".4", "x.4", "-2.4", "99999999999.4"] {
        assert_eq!(number(none), None, "{none}");
    }
}

#[test]
fn server_runs_the_offered_tool_that_the_client_names() {
    let mut us = HandshakeIntroduction::new(&plan(&[]), SERVER, 1, "here".into());
    us.tools = peer_tools().iter().collect();
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    for tool in peer_tools() {
        let name = wire::string(tool.legacy_name);
        let mut handshake = Handshake::new(&us, peer);
        handshake.learn(&name);
        assert_eq!(handshake.mine(), name);
        assert!(handshake.accept(&name).unwrap().is_none());
        let version = String::from_utf8(handshake.mine()).unwrap();
        assert!(version.starts_with(tool.wire_version), "{version}");
    }
    // A tool that is not offered: the server names its first, so that both sides see the mismatch.
    let other = wire::string("cxi_other_lat");
    let mut handshake = Handshake::new(&us, peer);
    handshake.learn(&other);
    assert_eq!(handshake.mine(), wire::string(TOOLS[0].legacy_name));
    assert!(matches!(handshake.accept(&other), Err(Refusal::Failed(_))));
}

fn local() -> LocalAddress {
    LocalAddress { simulated: false, ..SERVER }
}

/// Passes the first messages of a peer with this version to a handshake of the first tool of `us`.
fn greeted<'a>(us: &'a HandshakeIntroduction, version: &str) -> Result<Handshake<'a>, Failure> {
    let mut handshake = Handshake::new(us, SocketAddr::from(([127, 0, 0, 1], 1)));
    for payload in [wire::string(us.tools[0].legacy_name), wire::string(version)] {
        match handshake.accept(&payload) {
            Ok(_) => {}
            Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => return Err(failure),
            Err(Refusal::Unrelated(reason)) => panic!("{reason}"),
        }
    }
    Ok(handshake)
}

#[test]
fn chains_need_a_cxidiag_on_both_sides() {
    let tool = &plan::tools::TRIG_LAT;
    for (version, peer) in [("1.0.0", "a legacy tool"), ("1.0.0 cxidiag/0.1.0 vni=10", "an older")]
    {
        let typed = plan::testing::plan(tool.name, &[]);
        let us = HandshakeIntroduction::new(&typed, local(), 1, "here".into());
        let message = greeted(&us, version).unwrap_err().message();
        let wanted = format!("--hops: the server (127.0.0.1:1) is {peer}");
        assert!(message.starts_with(&wanted), "{message}");
    }
    let host = HandshakeIntroduction::new(&plan(&[]), local(), 1, "here".into()).host;
    let block = terms::to_block(&tool.defaults, &host);
    let refused = terms::from_block(tool, &block, Extensions::NONE).unwrap_err();
    assert!(refused.starts_with("no --hops"), "{refused}");
    assert!(terms::from_block(tool, &block, tool.defaults.extensions).is_ok());
}

#[test]
fn client_refuses_server_that_lacks_an_option_in_use() {
    let cxidiag = format!("2.4.0 cxidiag/9 vni=10 can={}", options::word_names());
    for (options, version, refused) in [
        (&["-P", "2"][..], "2.4.0", Some("--pairs: the server (127.0.0.1:1) is a legacy tool")),
        (&["--verify"], "2.4.0", Some("--verify: the server")),
        (&["--reverse"], "2.4.0 cxidiag/0.1.0 vni=10", Some("is an older cxidiag")),
        (&["--both-ends"], "2.4.0 cxidiag/1 vni=10 can=pairs", Some("--both-ends: ")),
        (&["-P", "2"], "2.4.0 cxidiag/1 vni=10 can=pairs", None),
        (&["-P", "2", "--verify"], &cxidiag, None),
        (&[], "2.4.0", None),
    ] {
        let plan = plan::testing::plan("write-bw", options);
        let us = HandshakeIntroduction::new(&plan, local(), 1, "here".into());
        match (greeted(&us, version), refused) {
            (Ok(_), None) => {}
            (Err(failure), Some(text)) => {
                assert!(failure.message().contains(text), "{}", failure.message());
            }
            (result, _) => panic!("{options:?} {version}: {:?}", result.map(drop)),
        }
    }
}

#[test]
fn server_takes_the_options_that_the_client_announces() {
    let plan = plan::testing::plan("write-bw", &["-P", "4", "--threads=2", "--verify"]);
    let client = HandshakeIntroduction::new(&plan, local(), 1, "here".into());
    let announced = announcement(&client, plan.tool, None);
    let us = HandshakeIntroduction { run: None, ..client.clone() };
    let options: Vec<u8> = terms::to_block(&plan.run, &us.host).encode().into();
    let agreed = |version: &str| {
        let mut handshake = greeted(&us, version).unwrap();
        assert!(handshake.accept(&options).unwrap().is_none());
        let theirs = FabricAddress { nic: 0x13, pid: 0 };
        handshake.accept(&wire::encode_address(theirs))
    };
    let run = agreed(&announced).unwrap().unwrap().run;
    assert_eq!(run.extensions, plan.run.extensions);
    // A legacy client asks for none; other words are refused.
    let run = agreed("2.4.0").unwrap().unwrap().run;
    assert_eq!(run.extensions, Extensions::NONE);
    for word in ["pairs:4,quick", "pairs:0", "pairs:2,threads:3", "pairs:65"] {
        let refused = agreed(&format!("2.4.0 cxidiag/9 vni=10 run={word}"));
        let Err(Refusal::Failed(failure)) = refused else {
            panic!("{word}");
        };
        let message = failure.message();
        assert!(message.contains("the client (127.0.0.1:1) sent invalid options"), "{message}");
    }
}

/// Both sides of a run with a token.
fn sides_with_token() -> [HandshakeIntroduction; 2] {
    let client = plan(&["127.0.0.1", "--token=secret"]);
    let server = plan(&["--token=secret"]);
    let own = LocalAddress { address: FabricAddress { nic: 0x13, pid: 0 }, ..local() };
    [(client, own), (server, local())]
        .map(|(plan, own)| HandshakeIntroduction::new(&plan, own, 1, "here".into()))
}

/// The messages of a side to a peer that sends these messages, and why it refuses the peer.
fn sent_to(us: &HandshakeIntroduction, messages: &[Vec<u8>]) -> (Vec<Vec<u8>>, Option<String>) {
    let mut handshake = Handshake::new(us, SocketAddr::from(([127, 0, 0, 1], 1)));
    let mut sent = Vec::new();
    for payload in messages {
        handshake.learn(payload);
        sent.push(handshake.mine());
        match handshake.accept(payload) {
            Ok(None) => {}
            Ok(Some(_)) => return (sent, None),
            Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => {
                return (sent, Some(failure.message()));
            }
            Err(Refusal::Unrelated(reason)) => return (sent, Some(reason)),
        }
    }
    panic!("{} messages are too few", messages.len());
}

/// What a client has sent to a server, sent again on another connection, whole or in part.
#[test]
fn server_refuses_copy_of_a_clients_messages() {
    let [client, server] = &sides_with_token();
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let (mut one, mut other) = (Handshake::new(client, peer), Handshake::new(server, peer));
    let mut messages = Vec::new();
    loop {
        messages.push(one.mine());
        let message = messages.last().unwrap();
        other.learn(message);
        let answer = other.mine();
        let agreed = other.accept(message).unwrap();
        assert_eq!(one.accept(&answer).unwrap().is_some(), agreed.is_some());
        if agreed.is_some() {
            break;
        }
    }
    let without_answer = messages.iter().filter(|message| message.len() != 97).cloned().collect();
    for copied in [messages, without_answer] {
        let (_, refused) = sent_to(server, &copied);
        let expected = "the client (127.0.0.1:1) has not proved its token for this connection";
        assert!(refused.is_some_and(|reason| reason.starts_with(expected)), "{copied:?}");
    }
}

/// These proofs have the salt 00 01 02 ... 0f, as a release has them that knows no answers.
#[test]
fn exchanges_no_answer_with_older_release() {
    let [client, server] = &sides_with_token();
    for (us, other, proof) in [
        (server, client, "2896a66d64d3375faca93aea12c49734df5f64f37213d7958ed4771e925e313e"),
        (client, server, "00bff266afcca4b065cea38137578161ef1442de24b8698be57aeb358d33b30d"),
    ] {
        let salt = "000102030405060708090a0b0c0d0e0f";
        let version = format!("2.4.0 cxidiag/0.1.0 vni=10 token={salt}{proof}");
        let options = terms::to_block(&plan(&[]).run, &other.host).encode();
        let address = wire::encode_address(other.own.address);
        let names = [wire::string("cxi_write_lat"), wire::string(&version)];
        let messages = [&names[..], &[options.into(), address.into()]].concat();
        let (sent, refused) = sent_to(us, &messages);
        assert_eq!(refused, None);
        let sizes: Vec<_> = sent.iter().skip(2).map(Vec::len).collect();
        assert_eq!(sizes, [OPTIONS_SIZE, ADDRESS_SIZE]);
    }
}

/// An older server refuses options in `run=` that it does not know, and skips other words.
#[test]
fn asks_for_what_the_server_needs_and_names_the_rest() {
    for (options, needed, alone) in [
        (&["-D", "0.5"][..], None, Some("alone=duration:500ms")),
        (&["--rate=100op/s", "-P", "2"], Some("run=pairs:2"), Some("alone=rate:100op/s")),
        (&["-D", "0.5", "-b"], Some("run=duration:500ms"), None),
        (&["-D", "1"], None, None),
        (&["--counters=link"], None, Some("alone=counters:link")),
    ] {
        let plan = plan::testing::plan("write-bw", options);
        let us = HandshakeIntroduction::new(&plan, local(), 1, "here".into());
        let announced = announcement(&us, plan.tool, None);
        let word = |name| announced.split(' ').find(|word| word.starts_with(name));
        assert_eq!((word("run="), word("alone=")), (needed, alone), "{announced}");
        // The server has them for its summary and its time limits.
        assert_eq!(PeerFacts::read(&announced).extensions, Ok(plan.run.extensions));
    }
    let later = "2.4.0 cxidiag/9 alone=quick:1,duration:500ms run=verify";
    let extensions = PeerFacts::read(later).extensions.unwrap();
    assert!(extensions.verify && extensions.duration.is_some());
}

/// Defect T26 of tools.md.
#[test]
fn refuses_legacy_peer_if_vni_is_of_a_range() {
    let refused = |version: &str, has_vni_of_range, vni| {
        let plan = plan(&[]);
        let own = LocalAddress { vni, has_vni_of_range, ..SERVER };
        let us = HandshakeIntroduction::new(&plan, own, 1, "here".into());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let shares = PeerFacts::read(version).shares_vni(&us, peer);
        shares.err().map(|failure| failure.message())
    };
    let message = refused("2.4.0", true, 10).unwrap();
    assert!(
        message.starts_with("VNI 10 here, of the range of service 1; the peer (127.0.0.1:1) is"),
        "{message}"
    );
    for (version, is_of_range, vni) in
        [("2.4.0 cxidiag/9 vni=10", true, 10), ("2.4.0", false, 10), ("2.4.0", true, 1)]
    {
        assert_eq!(refused(version, is_of_range, vni), None, "{version}");
    }
}

#[test]
fn compares_traffic_class_only_with_cxidiag_that_names_it() {
    let refused = |version: &str| {
        let plan = plan::testing::plan("send-lat", &[]);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let facts = PeerFacts::read(version);
        let same = facts.same_class(TrafficClass::BestEffort, plan.tool, &plan.run, peer);
        same.err().map(|failure| failure.message())
    };
    let message = refused("2.4.0 cxidiag/9 vni=10 tc=LOW_LATENCY").unwrap();
    assert!(
        message.contains("BEST_EFFORT here, LOW_LATENCY at the peer (127.0.0.1:1)"),
        "{message}"
    );
    for version in [
        "2.4.0",
        "2.4.0 cxidiag/0.1.0 vni=10",
        "2.4.0 cxidiag/9 vni=10 tc=BEST_EFFORT",
        "2.4.0 cxidiag/9 vni=10 tc=LATER_CLASS",
    ] {
        assert_eq!(refused(version), None, "{version}");
    }
    let plan = plan(&[]);
    let us = HandshakeIntroduction::new(&plan, SERVER, 1, "here".into());
    let announced = announcement(&us, plan.tool, None);
    let class = PeerFacts::read(&announced).class;
    assert_eq!(class, Some(TrafficClass::BestEffort));
}

#[test]
fn expects_counters_only_of_server_that_sends_them() {
    let run = plan::testing::plan("write-bw", &["--counters"]).run;
    for (names, expected) in [("pairs,counters", Some(Preset::Quick)), ("pairs", None)] {
        let server = PeerFacts::read(&format!("2.4.0 cxidiag/9 can={names}"));
        let run = server.sending_counters(run);
        assert_eq!(run.extensions.counters, expected, "{names}");
    }
    let run = PeerFacts::LEGACY.sending_counters(run);
    assert_eq!(run.extensions, Extensions::NONE);
}

fn vni(version: &str) -> Option<u32> {
    PeerFacts::read(version).vni
}

#[test]
fn reads_vni_only_from_cxidiag_version() {
    assert_eq!(vni("2.4.0 cxidiag/0.1.0 vni=10"), Some(10));
    assert_eq!(vni("2.4.0 cxidiag/9.9.9 future=1 vni=10 more"), Some(10));
    for unknown in [
        "2.4.0",
        "2.4.0 vni=10",
        "2.4.0 other/1 vni=10",
        "2.4.0 cxidiag/1",
        "2.4.0 cxidiag/1 vni=x",
    ] {
        assert_eq!(vni(unknown), None, "{unknown}");
    }
}

/// Where the sides of a `send-lat` run wait for each other if the peer announces this version;
/// `wanted` is the request of this side as a client, `None` in a server.
fn sync_with(version: &str, wanted: Option<SyncPoint>) -> SyncPoint {
    let plan = plan::testing::plan("send-lat", &[]);
    let mut us = HandshakeIntroduction::new(&plan, local(), 1, "here".into());
    us.run = wanted.map(|sync| RunOptions { sync, ..plan.run });
    let mut handshake = Handshake::new(&us, SocketAddr::from(([127, 0, 0, 1], 1)));
    let options = terms::to_block(&plan.run, &us.host).encode();
    for payload in [wire::string("cxi_send_lat"), wire::string(version), options.into()] {
        assert!(handshake.accept(&payload).unwrap().is_none());
    }
    let theirs = wire::encode_address(FabricAddress { nic: 0x13, pid: 0 });
    handshake.accept(&theirs).unwrap().unwrap().run.sync
}

#[test]
fn sides_wait_before_each_size_only_if_both_announce_it() {
    let (size, iteration) = (SyncPoint::Size, SyncPoint::Iteration);
    for (version, expected) in [
        ("2.3.0", iteration),
        ("2.3.0 sync=size", iteration),
        ("2.3.0 cxidiag/0.1.0 vni=10", iteration),
        ("2.3.0 cxidiag/0.1.0 vni=10 sync=iteration", iteration),
        ("2.3.0 cxidiag/9 vni=10 sync=other", iteration),
        ("2.3.0 cxidiag/0.1.0 vni=10 sync=size", size),
    ] {
        assert_eq!(sync_with(version, None), expected, "{version}");
        assert_eq!(sync_with(version, Some(size)), expected, "{version}");
        assert_eq!(sync_with(version, Some(iteration)), iteration, "{version}");
    }
}

#[test]
fn learns_host_name_of_cxidiag() {
    let name = |version: &str| PeerFacts::read(version).host_name;
    let us = HandshakeIntroduction::new(&plan(&[]), local(), 1, "here".into());
    let announced = announcement(&us, &TOOLS[0], None);
    assert_eq!(name(&announced), Some(host_name()), "{announced}");
    let long = format!("2.4.0 cxidiag/1 name={}", "x".repeat(65));
    for none in ["2.4.0 name=x", "2.4.0 cxidiag/1", "2.4.0 cxidiag/1 name=", &long] {
        assert_eq!(name(none), None, "{none}");
    }
    assert_eq!(name("2.4.0 cxidiag/1 name=a\u{1b}[31m"), None);
    assert_eq!([name_word("a b"), name_word("")], ["", ""]);
}

proptest! {
    #[test]
    fn reads_any_version_without_panic(version in "\\PC{0,40}") {
        let _ = (number(&version), PeerFacts::read(&version));
    }
}
