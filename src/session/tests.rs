//! Handshakes over the loopback interface: two of ours, and ours against a scripted peer.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};

use super::handshake::{Handshake, Refusal};
use super::peer_facts::{HandshakeIntroduction, PeerFacts};
use super::testing::{
    CLIENT, HOST, SERVER, Script, against_client, against_server, client, default_options, hex,
    noted, noting_server, plan, server,
};
use super::wire::{OPTIONS_SIZE, OptionBlock, encode_address, string};
use facts::device::FabricAddress;
use facts::net::message;
use node::local_address::LocalAddress;

#[test]
fn both_sides_agree_on_client_options() {
    let (server, port) = server(&["-s", "1:64", "-n", "7"], SERVER);
    let (_, client) = client(port, &["-s", "4:16", "-n", "5", "--no-idc"], CLIENT).unwrap();
    let (_, server) = server.join().unwrap().unwrap();
    assert_eq!(server.run, client.run);
    assert!(server.is_cxidiag && client.is_cxidiag);
    assert_eq!((server.run.iters, server.run.max_size, server.run.use_idc), (5, 16, false));
    assert_eq!(server.peer, FabricAddress { nic: 0x13, pid: 1 });
    assert_eq!(client.peer, FabricAddress { nic: 0x12, pid: 0 });
}

#[test]
fn accepts_legacy_client_byte_by_byte() {
    let met = against_client(|mut script| {
        let mut bytes = |hex_digits: &str| {
            for byte in hex(hex_digits) {
                script.0.write_all(&[byte]).unwrap();
            }
            script.receive()
        };
        assert_eq!(bytes("0e000000 6378695f77726974655f6c617400"), string("cxi_write_lat"));
        // A legacy peer reads two numbers and ignores what follows.
        assert!(bytes("06000000 322e342e3000").starts_with(b"2.4.0 cxidiag/"));
        let options = default_options();
        script.0.write_all(&message(&options)).unwrap();
        assert_eq!(script.receive().len(), OPTIONS_SIZE);
        script.0.write_all(&hex("08000000 1300000000000000")).unwrap();
        assert_eq!(script.receive(), hex("1200000000000000"));
    });
    let (_, agreed) = met.unwrap();
    assert_eq!(agreed.peer, FabricAddress { nic: 0x13, pid: 0 });
    assert_eq!(agreed.run, plan(&[HOST]).run);
    assert!(!agreed.is_cxidiag);
}

#[test]
fn sends_each_message_with_one_write() {
    let met = against_server(|mut script| {
        for answer in
            [string("cxi_write_lat"), string("2.4.0"), default_options().to_vec(), vec![0; 8]]
        {
            // The whole message arrives with its first byte.
            let mut bytes = [0; 1024];
            let seen = script.0.peek(&mut bytes).unwrap();
            assert_eq!(seen, message(&script.receive()).len());
            script.send(&answer);
        }
    });
    assert!(met.is_ok());
}

#[test]
fn both_sides_report_different_tools() {
    let notes = noted(|mut script| {
        // The exchange is complete before it is checked.
        assert_eq!(script.lead(&string("cxi_read_lat")), string("cxi_write_lat"));
        script.ended();
    });
    assert!(notes.contains("cxi_write_lat here, cxi_read_lat at the peer"), "{notes}");
    let failure =
        against_server(|mut script| drop(script.follow(&string("cxi_read_lat")))).unwrap_err();
    assert!(
        failure.message().contains("cxi_write_lat here, cxi_read_lat at the peer"),
        "{failure}"
    );
}

#[test]
fn shows_both_versions_if_different() {
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.2.0"));
    })
    .unwrap_err();
    assert!(failure.message().contains("2.4.0 here, 2.2.0 at the peer"), "{failure}");
    assert!(failure.hint.unwrap().contains("SHS 12.0"));
}

#[test]
fn t15_both_sides_refuse_different_vnis() {
    let (server, port) = noting_server(&[], SERVER);
    let ours = client(port, &[], LocalAddress { vni: 11, ..CLIENT }).unwrap_err();
    assert!(ours.message().contains("11 here, 10 at the peer"), "{ours}");
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("10 here, 11 at the peer"), "{notes}");
}

/// The message about two NICs that cannot reach each other, on the side that notices it.
fn apart(version: &'static str, address: FabricAddress) -> String {
    let failure = against_server(move |mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string(version));
        script.follow(&default_options());
        script.follow(&encode_address(address));
    })
    .unwrap_err();
    failure.message()
}

#[test]
fn refuses_nics_that_cannot_reach_each_other() {
    let other = FabricAddress { nic: 0x12, pid: 0 };
    let message = apart("2.4.0 cxidiag/9 vni=10 host=elsewhere software", other);
    assert!(message.contains("on another machine"), "{message}");
    let message = apart("2.4.0 cxidiag/9 vni=10 host=elsewhere", other);
    assert!(message.starts_with("a software NIC here, hardware at the peer"), "{message}");
}

#[test]
fn refuses_software_nics_of_two_fabrics() {
    let plan = plan(&[HOST]);
    let mut us = HandshakeIntroduction::new(&plan, CLIENT, 1, "here".into());
    us.fabric = Some("5:7:/dev/shm/cxidiag-0".into());
    let met = |words: &str| {
        let facts = PeerFacts::read(&format!("2.4.0 cxidiag/9 vni=10 host=here software{words}"));
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        facts.reachable(&us, SERVER.address, peer).err().map(|failure| failure.message())
    };
    let message = met(" fabric=5:8:/dev/shm/cxidiag-1000").unwrap();
    let two = "software NICs of two fabrics, /dev/shm/cxidiag-0 here, /dev/shm/cxidiag-1000 at";
    assert!(message.starts_with(two), "{message}");
    // One directory may have two paths.
    for words in ["", " fabric=5:7:/mnt/x"] {
        assert_eq!(met(words), None, "{words}");
    }
}

#[test]
fn refuses_same_nic_address_on_two_machines() {
    let hardware = LocalAddress { simulated: false, ..CLIENT };
    let plan = plan(&[HOST]);
    let us = HandshakeIntroduction::new(&plan, hardware, 1, "here".into());
    let met = |host: &str, nic| {
        let version = format!("2.4.0 cxidiag/9 vni=10 host={host}");
        let address = FabricAddress { nic, pid: 0 };
        let mut handshake = Handshake::new(&us, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let [name, version] = ["cxi_write_lat", &version].map(string);
        for payload in [name, version, default_options().into()] {
            assert!(handshake.accept(&payload).unwrap().is_none());
        }
        match handshake.accept(&encode_address(address)) {
            Ok(agreed) => agreed.map(|_| String::new()),
            Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => Some(failure.message()),
            Err(Refusal::Unrelated(reason)) => panic!("{reason}"),
        }
    };
    let reachable = Some(String::new());
    assert_eq!(met("here", CLIENT.address.nic), reachable);
    assert_eq!(met("there", CLIENT.address.nic + 1), reachable);
    assert_eq!(met("", CLIENT.address.nic), reachable, "unknown");
    let message = met("there", CLIENT.address.nic).unwrap();
    assert!(message.contains("have the address 0x13"), "{message}");
}

/// An older cxidiag knows ticks of clients only, and a legacy tool none.
#[test]
fn each_side_sends_the_ticks_that_its_peer_knows() {
    for (version, client_sends, server_sends) in [
        ("2.4.0", false, false),
        ("2.4.0 cxidiag/9 tick", true, false),
        ("2.4.0 cxidiag/9 tick server-tick", true, true),
    ] {
        let (_, agreed) = against_server(move |mut script| {
            script.follow(&string("cxi_write_lat"));
            script.follow(&string(version));
            script.follow(&default_options());
            script.follow(&encode_address(SERVER.address));
        })
        .unwrap();
        assert_eq!(agreed.own_ticks, client_sends, "{version}");
        assert_eq!(agreed.peer_ticks, server_sends, "{version}");
        let (_, agreed) = against_client(|mut script| {
            script.lead(&string("cxi_write_lat"));
            script.lead(&string(version));
            script.lead(&default_options());
            script.lead(&encode_address(CLIENT.address));
        })
        .unwrap();
        assert_eq!(agreed.own_ticks, server_sends, "{version}");
        assert_eq!(agreed.peer_ticks, client_sends, "{version}");
    }
}

#[test]
fn client_refuses_a_reflection_of_its_messages() {
    let plan = plan(&[HOST]);
    let us = HandshakeIntroduction::new(&plan, CLIENT, 1, "here".into());
    let mut handshake = Handshake::new(&us, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let refusal = loop {
        let mine = handshake.mine();
        match handshake.accept(&mine) {
            Ok(None) => {}
            Ok(Some(agreed)) => panic!("{agreed:?}"),
            Err(Refusal::Unrelated(reason)) => break reason,
            Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => break failure.message(),
        }
    };
    assert_eq!(refusal, "it sends back what it receives");
}

#[test]
fn t27_refuses_invalid_options_and_addresses() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        let asked = OptionBlock { max_size: 1 << 50, ..OptionBlock::decode(&default_options()) };
        script.lead(&asked.encode());
    });
    assert!(notes.contains("sent invalid options: size 8:1125899906842624: "), "{notes}");
    assert!(!notes.contains("--"), "nobody typed it here: {notes}");
}

#[test]
fn t27_checks_options_of_server() {
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        let mut options = default_options();
        options[91] = 7;
        script.follow(&options);
    })
    .unwrap_err();
    assert!(failure.message().contains("unknown GPU type 7"), "{failure}");
    for address in [FabricAddress { nic: 1 << 26, pid: 0 }, FabricAddress { nic: 1, pid: 511 }] {
        let message = apart("2.4.0", address);
        assert!(message.contains("sent an invalid address: NIC "), "{message}");
    }
}

#[test]
fn refuses_options_and_addresses_of_wrong_size() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&[0; OPTIONS_SIZE - 1]);
        script.ended();
    });
    assert!(notes.contains("128 bytes as its options"), "{notes}");
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        script.follow(&default_options());
        script.follow(&[0; 7]);
    })
    .unwrap_err();
    assert!(failure.message().contains("7 bytes as its address"), "{failure}");
}

#[test]
fn t16_server_ignores_unrelated_connections() {
    let (server, port) = server(&[], SERVER);
    drop(Script::client(port));
    let mut browser = Script::client(port);
    browser.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut nameless = Script::client(port);
    nameless.send(b"hello\0");
    assert!(client(port, &[], CLIENT).is_ok());
    assert!(server.join().unwrap().is_ok());
}

#[test]
fn distinguishes_closed_connection_from_unrelated_server() {
    let failure = against_server(drop).unwrap_err();
    assert!(
        failure.message().contains("closed the connection without sending the name of a tool"),
        "{failure}"
    );
    let failure = against_server(|mut script| {
        script.receive();
        script.0.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
    })
    .unwrap_err();
    assert!(failure.message().contains("another protocol"), "{failure}");
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
    })
    .unwrap_err();
    assert!(failure.message().contains("closed the connection"), "{failure}");
    assert!(failure.is_of_peer());
}

/// The client is lost in the middle of the handshake, after it has sent the name of its tool.
#[test]
fn logs_client_lost_before_its_options() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        // Unread bytes turn the close into a reset.
        script.send(&string("2.4.0"));
        script.0.shutdown(Shutdown::Write).unwrap();
        script.0.peek(&mut [0]).unwrap();
    });
    assert!(notes.contains("during the handshake (options)"), "{notes}");
}

/// These clients wait for the server to send first (wire.md 9.1).
#[test]
fn prompts_old_client_and_names_its_release() {
    let notes = noted(|mut script| {
        assert_eq!(script.follow(&string("cxi_write_lat")), string("cxi_write_lat"));
        assert!(script.follow(&string("2.2.0")).starts_with(b"2.4.0"));
        script.ended();
    });
    assert!(notes.contains("2.4.0 here, 2.2.0 at the peer"), "{notes}");
    assert!(notes.contains("SHS 12.0"), "{notes}");
}

#[test]
fn drops_silent_connection() {
    let notes = noted(|mut script| {
        // Old clients wait for this message.
        assert_eq!(script.receive(), string("cxi_write_lat"));
        script.ended();
    });
    assert!(notes.contains("sent nothing for 5 s"), "{notes}");
}

/// A host with two clients is not larger than strangers of whom each address has one connection.
#[test]
fn strangers_of_many_addresses_replace_each_other() {
    let (server, port) = noting_server(&[], SERVER);
    let stranger = |number: u16| {
        let [high, low] = (number + 1).to_be_bytes();
        Script::client_at(Ipv4Addr::new(127, 1, high, low), port)
    };
    let before: Vec<Script> = (0..260).map(stranger).collect();
    let mut clients = [(); 2].map(|()| Script::client(port));
    for script in &mut clients {
        script.lead(&string("cxi_write_lat"));
    }
    let mut after: Vec<Script> = (300..320).map(stranger).collect();
    after.last_mut().unwrap().lead(&string("cxi_write_lat"));
    for script in &mut clients {
        assert!(script.lead(&string("2.4.0")).starts_with(b"2.4.0 cxidiag/"));
    }
    assert!(client(port, &[], CLIENT).is_ok());
    assert!(server.join().unwrap().0.is_ok());
    drop((before, after));
}

/// There are more of them than the server keeps, and a client is still served.
#[test]
fn serves_client_among_silent_connections() {
    let (server, port) = noting_server(&[], SERVER);
    let silent: Vec<Script> = (0..300).map(|_| Script::client(port)).collect();
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("replaced by newer connections"), "{notes}");
    assert!(notes.lines().count() < 25, "{notes}");
    drop(silent);
}

#[test]
fn second_client_is_refused_at_once() {
    let (server, port) = server(&[], SERVER);
    let first = client(port, &[], CLIENT).unwrap();
    let session = server.join().unwrap().unwrap();
    let failure = client(port, &[], CLIENT).unwrap_err();
    assert!(failure.message().ends_with("connection refused"), "{failure}");
    drop((first, session));
}
