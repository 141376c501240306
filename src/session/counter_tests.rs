//! The exchange of counters between two sessions.

use std::thread;
use std::time::Duration;

use super::testing::{LONG, pair};
use super::wait::Wait;
use facts::limit::ANSWER_LIMIT;
use node::nic::counter::CounterChange;
use node::nic::counter_table::{CounterRow, Preset};
use node::nic::counters::{CounterChanges, NicFacts};

/// Changes of all counters of a NIC, which take several messages.
fn counters() -> CounterChanges {
    let within = Some(Duration::from_micros(1_200_345));
    let change = |by| CounterChange::Counted { by, within };
    let names = Preset::Quick.rows().flat_map(CounterRow::names);
    let by_name = names.zip(1 << 40..).map(|(name, by)| (name, change(by)));
    let nic = NicFacts { device: "cxi1".into(), ..NicFacts::default() };
    CounterChanges::new(nic, by_name.collect())
}

#[test]
fn client_receives_counters_of_server() {
    let (server, client) = pair();
    let sending = thread::spawn(move || {
        server.send_counters(&counters(), Preset::Quick)?;
        server.barrier("test", LONG)
    });
    assert_eq!(client.receive_counters(Preset::Quick).unwrap(), counters());
    // Both sides are at the same message.
    client.barrier("test", LONG).unwrap();
    sending.join().unwrap().unwrap();
}

#[test]
fn refuses_invalid_and_endless_counters() {
    for (payload, expected) in [
        (&b"\xff"[..], "sent an invalid message of counters"),
        (b"hni_tx_ok_opt:1:1\0", "sent too many messages of counters"),
        (&[b'x'; 2000], "announced 2000 bytes during the exchange"),
    ] {
        let (server, client) = pair();
        thread::scope(|scope| {
            scope.spawn(move || {
                let wait = Wait::for_answer("here", ANSWER_LIMIT);
                let exchange = || server.connection.exchange(payload, 0, &wait);
                while exchange().is_ok() {}
            });
            let failure = client.receive_counters(Preset::Quick).unwrap_err();
            assert!(failure.message().contains(expected), "{failure}");
            drop(client);
        });
    }
}
