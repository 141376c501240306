//! The search for a coordinator that has ended.

use std::net::TcpListener;

use super::*;
use crate::tree::testing::{LIMIT, introduction, token};

#[test]
fn gives_up_coordinator_whose_host_refuses_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meeting = Meeting {
        addresses: vec![listener.local_addr().unwrap()],
        token: token("secret"),
    };
    drop(listener);
    let request = ParentRequest {
        id: 0,
        port: 1,
        avoid: None,
        received: 0,
        introduction: introduction(0, 1),
    };
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
