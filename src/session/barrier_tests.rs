//! The session after its handshake: barriers, interrupt notices, refusals.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::link_error::LinkError;
use super::open::Session;
use super::testing::{HOST, LONG, against_client, default_options, pair};
use super::wait::Wait;
use super::wire::{TICK, string};
use facts::error::{Failure, Kind};

#[test]
fn barrier_waits_for_both_sides() {
    let (server, client) = pair();
    let waiting = thread::spawn(move || {
        server.ready().unwrap();
        server.barrier("Post-run", LONG).unwrap();
        server
    });
    client.ready().unwrap();
    client.barrier("Post-run", LONG).unwrap();
    waiting.join().unwrap();
}

/// Sends ticks from one side to the other one before and after a barrier.
fn tick_between(receiver: Session, sender: &Session) {
    let tick = || {
        for _ in 0..40 {
            let mut stream = sender.connection.stream();
            stream.write_all(&TICK.to_le_bytes()).unwrap();
        }
    };
    tick();
    receiver.check_peer("here").unwrap();
    assert!(!receiver.peer_waits());
    tick();
    // They are not the cause of an error of the NIC.
    let nic = receiver.cause(Failure::nic("UNDELIVERABLE"), "here");
    assert_eq!(nic.kind, Kind::Nic);
    tick();
    let waiting = thread::spawn(move || {
        receiver.ready().unwrap();
        receiver
    });
    sender.ready().unwrap();
    let receiver = waiting.join().unwrap();
    tick();
    sender.send_interrupt_notice();
    let failure = receiver.cause(Failure::nic("UNDELIVERABLE"), "here");
    assert!(failure.message().ends_with(" was interrupted here"), "{failure}");
}

/// A side that ends with unread ticks may reset the connection, while its peer answers a message
/// from before.
#[test]
fn reset_does_not_hide_the_interrupt_notice() {
    for _ in 0..20 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let client = Connection::new(client, address, true).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let server = Connection::new(server, peer, false).unwrap();
        client.send(&[]).unwrap();
        client.send_interrupt_notice();
        server.stream().write_all(&TICK.to_le_bytes()).unwrap();
        client.wait(LONG).unwrap();
        drop(client);
        let wait = Wait::for_answer("here", LONG);
        let seen = server.exchange(&[], 0, &wait).unwrap_err();
        assert!(matches!(seen, LinkError::InterruptNotice), "{seen:?}");
    }
}

#[test]
fn ticks_are_no_messages() {
    let (server, client) = pair();
    tick_between(server, &client);
    let (server, client) = pair();
    tick_between(client, &server);
}

#[test]
fn barrier_ends_at_limit() {
    let (_server, client) = pair();
    let failure = client.barrier("Post-run", Duration::from_millis(1)).unwrap_err();
    assert!(failure.message().contains("Post-run"), "{failure}");
    assert!(!failure.is_of_peer());
}

#[test]
fn lost_peer_ends_long_barrier() {
    let (server, client) = pair();
    let waiting = thread::spawn(move || server.barrier("Post-run", LONG).unwrap_err());
    drop(client);
    let failure = waiting.join().unwrap();
    assert!(failure.is_of_peer());
    assert!(
        failure.message().contains(HOST) && failure.message().contains("failed or was killed"),
        "{failure}"
    );
}

#[test]
fn refuses_barrier_with_payload() {
    let mut extra = None;
    let met = against_client(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&default_options());
        script.lead(&[0; 8]);
        script.send(&[0]);
        extra = Some(script);
    });
    let failure = met.unwrap().0.ready().unwrap_err();
    assert!(failure.message().contains("announced 1 bytes"), "{failure}");
}

fn is_there(session: &Session) -> bool {
    session.check_peer("meanwhile").is_ok()
}

#[test]
fn finds_interrupt_notice_in_check_and_at_barrier() {
    let (server, client) = pair();
    client.send_interrupt_notice();
    let seen = server.barrier("Post-run", LONG).unwrap_err();
    assert!(
        seen.is_of_peer() && seen.message().contains("was interrupted at the Post-run barrier")
    );
    // The notice is sent once; the end of the connection follows.
    client.send_interrupt_notice();
    drop(client);
    assert!(
        server.barrier("Post-run", LONG).unwrap_err().message().contains("closed the connection")
    );

    let (server, client) = pair();
    server.send_interrupt_notice();
    assert!(client.connection.wait(Duration::from_secs(60)).is_ok());
    let seen = client.check_peer("meanwhile").unwrap_err();
    assert!(seen.message().ends_with("was interrupted meanwhile"), "{seen}");
    // The notice is the cause of an error of the NIC as well.
    let cause = client.cause(Failure::nic("UNDELIVERABLE"), "meanwhile");
    assert_eq!((cause.kind, cause.message()), (seen.kind, seen.message()));
    let other = Failure::environment("full");
    assert_eq!(client.cause(other, "meanwhile").kind, Kind::Environment);
}

#[test]
fn t33_ready_barrier_fails_with_reason_of_refusal() {
    let (server, client) = pair();
    let failure = Failure::environment("no pages \u{fc}brig\n").with_hint("make some");
    let message = failure.message();
    assert_eq!(server.refuse(failure).message(), message);
    // Only the first refusal is sent.
    server.refuse(Failure::nic("other"));
    server.send_interrupt_notice();
    drop(server);
    let seen = client.ready().unwrap_err();
    assert!(seen.is_of_peer());
    assert!(seen.message().ends_with(" cannot run: no pages ?brig?"), "{seen}");
    assert!(client.ready().unwrap_err().message().contains("closed the connection"));
}

/// Failures that the peer has caused are not sent to it.
#[test]
fn refuses_only_for_own_failures() {
    for failure in [Failure::peer("gone"), Failure::interrupted("SIGINT")] {
        let (server, client) = pair();
        server.refuse(failure);
        drop(server);
        let seen = client.ready().unwrap_err();
        assert!(seen.message().contains("closed the connection"), "{seen}");
    }
}

#[test]
fn check_does_not_disturb_peer() {
    let (server, client) = pair();
    assert!(is_there(&server) && is_there(&client));
    let leading = thread::spawn(move || {
        client.barrier("Post-run", LONG).unwrap();
        client
    });
    assert!(is_there(&server));
    server.barrier("Post-run", LONG).unwrap();
    assert!(is_there(&server));
    drop(leading.join().unwrap());
    // The barrier returns when the end of the connection has arrived.
    assert!(server.barrier("Post-run", LONG).unwrap_err().is_of_peer());
    assert!(!is_there(&server));
}
