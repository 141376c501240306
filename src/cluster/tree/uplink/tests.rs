//! The search for a coordinator that has ended.

use std::net::TcpListener;

use facts::net::race::testing::silent;

use super::*;
use crate::tree::Bounds;
use crate::tree::testing::{LIMIT, introduction, token};

fn request() -> ParentRequest {
    ParentRequest { id: 0, port: 1, avoid: None, received: 0, introduction: introduction(0, 1) }
}

#[test]
fn connects_to_hosts_of_the_survey_only() {
    let parents = ["10.1.0.0/30", "fe80::1/128"].map(|network| network.parse().unwrap());
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 1))],
        token: token("secret"),
        bounds: Bounds { parents: Some(parents.to_vec()), bind: None },
    };
    let set = PollSet::new().unwrap();
    for (address, is_host) in [
        ("10.1.0.2:22", true),
        ("[::ffff:10.1.0.2]:22", true),
        ("[fe80::1]:22", true),
        ("10.1.0.4:22", false),
        ("127.0.0.1:22", false),
    ] {
        let mut uplink = Uplink::new(meeting.clone(), request(), &set, &Arc::default(), LIMIT);
        uplink.stage = UplinkState::Seeking;
        let address = address.parse().unwrap();
        let named = uplink.take(Message::Parent(Some(ParentAddress { rank: 1, address })));
        assert_eq!(named.is_ok(), is_host, "{address}: {named:?}");
        assert_eq!(uplink.target.is_some(), is_host, "{address}");
    }
}

#[test]
fn gives_up_coordinator_whose_host_refuses_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meeting = Meeting {
        addresses: vec![listener.local_addr().unwrap()],
        token: token("secret"),
        bounds: Bounds::default(),
    };
    drop(listener);
    let mut uplink = uplink(meeting);
    let reason = run(&mut uplink, |_| false).unwrap_err();
    assert!(reason.to_lowercase().contains("connection refused"), "{reason}");
    // It has not searched until its limit.
    assert!(Instant::now() < uplink.ends);
}

fn uplink(meeting: Meeting) -> Uplink {
    let set = PollSet::new().unwrap();
    Uplink::new(meeting, request(), &set, &Arc::default(), LIMIT)
}

/// Runs until `is_done`, or until the process cannot take part.
fn run(uplink: &mut Uplink, is_done: impl Fn(&Uplink) -> bool) -> Result<(), String> {
    let (mut keys, mut next_key) = (Vec::new(), 0);
    while !is_done(uplink) {
        let within = uplink.due().saturating_duration_since(Instant::now());
        uplink.set.ready(within, &mut keys);
        uplink.flush();
        while let Ok(Some(_)) = uplink.next() {}
        uplink.tick(Instant::now(), &mut next_key)?;
    }
    Ok(())
}

#[test]
fn connects_to_the_address_behind_three_silent_ones() {
    let silent = [1, 2, 3].map(|host| silent([127, 0, 1, host]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = listener.local_addr().unwrap();
    let addresses = silent.iter().map(|(address, _)| *address);
    let mut uplink = uplink(Meeting {
        addresses: addresses.chain([good]).collect(),
        token: token("secret"),
        bounds: Bounds::default(),
    });
    run(&mut uplink, |uplink| uplink.stage == UplinkState::Greeting || uplink.first > 0).unwrap();
    assert_eq!(uplink.address, Some(good));
    // An address that answers, but not as the coordinator, is the last one next time.
    uplink.meeting.addresses.rotate_right(2);
    uplink.lose_with("it has refused this process".into());
    assert_eq!(uplink.first, 2);
    uplink.begin();
    assert_eq!(uplink.waiting.back(), Some(&good));
}

#[test]
fn names_all_addresses_without_an_answer() {
    let failed = ["10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7"].map(|address| {
        let reason = match address {
            "10.0.0.2:7" => "Connection refused",
            _ => "no answer within 5 s",
        };
        (address.parse().unwrap(), reason.to_owned())
    });
    assert_eq!(
        failures(&failed),
        "10.0.0.1 port 7, 10.0.0.3 port 7: no answer within 5 s; 10.0.0.2 port 7: Connection refused"
    );
}
