//! The search for a coordinator.

use std::net::TcpListener;

use facts::net::race::testing::silent;

use super::*;
use crate::star::NoWork;
use crate::star::testing::{LIMIT, introduction, token};

fn meeting(addresses: Vec<SocketAddr>) -> Meeting {
    Meeting { addresses, token: token("secret") }
}

#[test]
fn gives_up_coordinator_whose_host_refuses_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meeting = meeting(vec![listener.local_addr().unwrap()]);
    drop(listener);
    // It does not search until its limit.
    let opened = MemberConnection::<NoWork>::open(meeting, introduction(0, 1), LIMIT);
    let failure = opened.unwrap_err().message();
    assert!(failure.starts_with("the coordinator of the survey is not there"), "{failure}");
    assert!(failure.to_lowercase().contains("connection refused"), "{failure}");
}

#[test]
fn connects_to_the_address_behind_three_silent_ones() {
    let silent = [1, 2, 3].map(|host| silent([127, 0, 1, host]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = listener.local_addr().unwrap();
    let addresses = silent.iter().map(|(address, _)| *address);
    let meeting = meeting(addresses.chain([good]).collect());
    let mut connection = MemberConnection::<NoWork>::new(meeting, introduction(0, 1));
    let ended = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert!(connection.attempt(&mut BTreeSet::new()).is_err());
    ended.join().unwrap();
    assert_eq!(connection.address, Some(good));
    // An address that answers, but not as the coordinator, is the last one next time.
    connection.meeting.addresses.rotate_right(2);
    connection.note("it has refused this process".into());
    assert_eq!(connection.first, 2);
    assert!(connection.last_error.ends_with(": it has refused this process"));
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
