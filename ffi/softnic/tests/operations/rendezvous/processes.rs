//! Source and target in two processes, and the end of one of them.

use super::*;

/// Starts a source in another process: it sends what its lines order, as the address of the
/// target, the length and the eager length, and responds to gets by its engine thread.
fn play_source(len: usize) {
    let mut bench = Bench::new(len);
    say(&bench.rig.pid.to_string());
    while let Some(line) = listen() {
        let numbers: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let put = bench.put(0, numbers[1] as usize, |put| {
            _ = put.set_dfa(numbers[0]).set_eager_length(numbers[2])
        });
        bench.rig.run(&put).is(C_EVENT_ACK, C_RC_OK);
        say("sent");
    }
}

#[test]
fn get_from_source_killed_before_it_fails() {
    alone!();
    if role().is_some() {
        return play_source(PAGE);
    }
    let mut partner = Partner::start("source");
    partner.receive();
    let mut bench = Bench::new(PAGE);
    // The put is unexpected, and its source is killed before the receive.
    bench
        .offer(4, |entry| _ = entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_match_id(u32::MAX));
    partner.send(&format!("{} 4000 10", bench.rig.dfa(0)));
    assert_eq!(bench.target_event().kind, C_EVENT_PUT);
    assert_eq!(partner.receive(), "sent");
    partner.kill();
    let sink = bench.sink;
    let found = bench.rig.append(bench.portal, |entry| {
        whole(entry, &sink);
        entry.set_match_bits(M).set_match_id(u32::MAX);
    });
    assert_eq!(found.kind(), C_EVENT_PUT_OVERFLOW);
    assert_eq!(bench.target_event().kind, C_EVENT_RENDEZVOUS);
    // The NIC has other users, so only the address is missing, and the get ends at once.
    let reply = bench.reply();
    assert_eq!((reply.code, reply.rendezvous), (C_RC_PTLTE_NOT_FOUND, true));
    assert_eq!(bench.target_event().kind, C_EVENT_LINK);
}

#[test]
fn get_from_source_killed_during_it_is_undeliverable() {
    alone!();
    // At 1 MB/s the get takes longer than the test.
    const LEN: usize = 32 << 20;
    set("CXIDIAG_LINK", "bandwidth=1MB/s");
    let mut rig = Rig::new();
    if role().is_some() {
        let source = rig.buffer(LEN);
        let portal = rig.enabled(SOURCES, |options| options.set_is_matching(1));
        rig.append(portal, |entry| {
            whole(entry, &source);
            gets(entry);
            match_all(entry);
        });
        say("here");
        let dfa = listen().unwrap().parse().unwrap();
        let put = rig.dma_put(&source, 0, LEN as u32, |put| {
            put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                .set_initiator(match_id(rig.pid, rig.nid))
                .set_dfa(dfa);
        });
        rig.tx.issue(&put);
        listen();
        return;
    }
    let mut partner = Partner::start("source");
    partner.receive();
    let sink = rig.buffer(LEN);
    rig.target_with(0, &sink, |_| {});
    sink.pages.write(0, &[0xff]);
    partner.send(&rig.dfa(0).to_string());
    wait_for("the first data", || {
        progress(rig.dev);
        sink.pages.is(0, 1, 0).then_some(())
    });
    partner.kill();
    for kind in [C_EVENT_PUT, C_EVENT_RENDEZVOUS] {
        rig.teq.expect(kind, C_RC_OK);
    }
    rig.teq.expect(C_EVENT_REPLY, C_RC_UNDELIVERABLE);
}

#[test]
fn put_to_target_killed_before_its_response_is_undeliverable() {
    alone!();
    if role().is_some() {
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        say(&rig.dfa(0).to_string());
        listen();
        return;
    }
    let mut partner = Partner::start("target");
    let dfa = partner.receive().parse().unwrap();
    let mut bench = Bench::new(PAGE);
    partner.pause();
    let put = bench.put(0, 1000, |put| _ = put.set_dfa(dfa).set_eager_length(10));
    bench.rig.tx.issue(&put);
    bench.rig.tx.drain();
    partner.kill();
    bench.rig.eq.expect(C_EVENT_ACK, C_RC_UNDELIVERABLE);
}
