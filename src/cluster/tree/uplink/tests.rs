//! The search for a coordinator that has ended.

use std::net::TcpListener;

use super::*;
use crate::tree::Bounds;
use crate::tree::testing::{LIMIT, introduction, token};

fn request() -> ParentRequest {
    ParentRequest {
        id: 0,
        port: 1,
        avoid: None,
        received: 0,
        introduction: introduction(0, 1),
    }
}

#[test]
fn connects_to_hosts_of_the_survey_only() {
    let parents = ["10.1.0.0/30", "fe80::1/128"].map(|network| network.parse().unwrap());
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 1))],
        token: token("secret"),
        bounds: Bounds {
            parents: Some(parents.to_vec()),
            bind: None,
        },
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
    let request = request();
    let set = PollSet::new().unwrap();
    let mut uplink = Uplink::new(meeting, request, &set, &Arc::default(), LIMIT);
    let (mut keys, mut next_key) = (Vec::new(), 0);
    let reason = loop {
        let within = uplink.due().saturating_duration_since(Instant::now());
        set.ready(within, &mut keys);
        while let Ok(Some(_)) = uplink.next() {}
        if let Err(reason) = uplink.tick(Instant::now(), &mut next_key) {
            break reason;
        }
    };
    assert!(
        reason.to_lowercase().contains("connection refused"),
        "{reason}"
    );
    // It has not searched until its limit.
    assert!(Instant::now() < uplink.ends);
}
