//! Portals that change from matching by the NIC to matching by software, and back (nic.md 8.2).

use std::collections::BTreeMap;

use crate::bench::*;
use crate::driver::prelude::*;
use crate::request_headers::{HEADERS, Headers};
use crate::software_managed::{REQUEST, change, request};

#[test]
fn changes_to_software_when_headers_run_out() {
    alone!();
    let mut bench = Bench::with(|options| {
        options.set_en_flowctrl(1);
        options.set_en_sw_hw_st_chng(1);
    });
    bench.overflow(|entry| _ = entry.set_manage_local(true).set_length(100));
    let start = bench.sink.iova(4096);
    request(&mut bench, |entry| _ = entry.set_start(start).set_length(4096));
    bench.fill(3);
    assert_eq!(bench.put(1, |_| {}).ptl_list, C_PTL_LIST_OVERFLOW);
    assert_eq!(bench.reported().kind, C_EVENT_PUT);
    // The message that finds no header is the first that software matches.
    let ack = bench.put(2, |_| {});
    assert_eq!((ack.code, ack.ptl_list), (C_RC_OK, REQUEST));
    let changed = bench.rig.teq.wait();
    let state = C_PTLTE_SOFTWARE_MANAGED;
    assert_eq!(change(&changed), (state, C_SC_SM_UNEXPECTED_FAIL, true));
    let put = bench.reported();
    assert_eq!((put.kind, put.ptl_list, put.start), (C_EVENT_PUT, REQUEST, start));
    bench.nothing_more();
}

#[test]
fn changes_to_software_when_append_fails() {
    alone!();
    let mut bench = Bench::with(|options| options.set_en_sw_hw_st_chng(1));
    let filler = bench.fill(0);
    let link = bench.append(|_| {});
    assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_NO_SPACE));
    let changed = bench.rig.teq.wait();
    let state = C_PTLTE_SOFTWARE_MANAGED;
    assert_eq!(change(&changed), (state, C_SC_SM_APPEND_FAIL, true));
    assert_eq!(bench.append(|_| {}).code, C_RC_PTLTE_SW_MANAGED);
    filler.close();
    bench.rig.set_state(bench.portal, C_PTLTE_ENABLED);
    assert_eq!(bench.append(|_| {}).code, C_RC_OK);
    // Other lists do not change the state.
    bench.fill(1);
    for list in [C_PTL_LIST_OVERFLOW, REQUEST] {
        let link = bench.append(|entry| _ = entry.set_ptl_list(list as u8));
        assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_NO_SPACE));
    }
    bench.nothing_more();
}

/// Messages arrive while the state changes, and each is delivered once, in order.
#[test]
fn client_survives_changes_of_state_under_traffic() {
    alone!();
    const MESSAGES: u64 = 400;
    let mut bench = Bench::with(|options| options.set_en_sw_hw_st_chng(1));
    let sender = Rig::on(1);
    let source = sender.buffer(PAGE);
    let (overflow, requests) = (bench.rig.buffer(16 * PAGE), bench.rig.buffer(16 * PAGE));
    let receives = bench.sink;
    for (list, buffer) in [(C_PTL_LIST_OVERFLOW, overflow), (REQUEST, requests)] {
        let link = bench.append(|entry| {
            whole(entry, &buffer);
            match_all(entry);
            entry.set_ptl_list(list as u8).set_manage_local(true);
        });
        assert_eq!(link.code, C_RC_OK);
    }
    let len = |number: u64| 1 + number as usize % 60;
    let bytes = |number: u64| vec![number as u8 | 1; len(number)];
    let dfa = bench.rig.dfa(0);
    let mut sender = sender;
    let mut arrived = BTreeMap::<u32, Vec<u64>>::new();
    let mut last = None;
    let mut states = 0;
    let mut state = C_PTLTE_ENABLED;
    let mut take = |bench: &mut Bench, event: &Event| {
        let seen = TargetEvent::of(event);
        match seen.kind {
            C_EVENT_PUT => {
                let number = seen.header_data;
                assert_eq!((seen.code, number), (C_RC_OK, last.map_or(0, |last: u64| last + 1)));
                last = Some(number);
                let (buffer, before) = match seen.ptl_list {
                    C_PTL_LIST_PRIORITY => (receives, 0),
                    C_PTL_LIST_OVERFLOW => (overflow, 0),
                    _ => (requests, HEADERS),
                };
                let at = match seen.ptl_list {
                    C_PTL_LIST_PRIORITY => number as usize % 64 * 64,
                    _ => (seen.start - buffer.iova(0)) as usize + before,
                };
                assert!(buffer.pages.read(at, len(number)) == bytes(number), "{number}");
                if before > 0 {
                    let (header, _) = Headers::read(buffer.pages, at - HEADERS);
                    assert_eq!((header.header_data, header.match_bits), (number, number));
                }
                arrived.entry(seen.ptl_list).or_default().push(number);
                if seen.ptl_list == REQUEST {
                    // The receive that was posted for it, if any, is software's.
                    bench.rig.tgt.issue(&target(C_CMD_TGT_UNLINK, bench.portal.number, |entry| {
                        _ = entry.set_buffer_id(number as u16 + 1)
                    }));
                }
            }
            // The message came before its receive.
            C_EVENT_PUT_OVERFLOW => {
                assert!(arrived[&C_PTL_LIST_OVERFLOW].contains(&seen.match_bits));
                assert_eq!(u64::from(seen.buffer_id), seen.match_bits + 1);
            }
            C_EVENT_STATE_CHANGE => {
                assert_eq!(event.code(), C_RC_OK);
                states += 1;
            }
            C_EVENT_LINK => assert!([C_RC_OK, C_RC_PTLTE_SW_MANAGED].contains(&seen.code)),
            C_EVENT_UNLINK => assert!([C_RC_OK, C_RC_ENTRY_NOT_FOUND].contains(&seen.code)),
            kind => panic!("event type {kind}"),
        }
        last == Some(MESSAGES - 1)
    };
    for number in 0..MESSAGES {
        source.pages.write(64 * (number as usize % 64), &bytes(number));
        let at = 64 * (number as usize % 64);
        if number % 3 == 0 {
            let to = receives.iova(at);
            bench.rig.tgt.emit(&append(bench.portal.number, |entry| {
                whole(entry, &receives);
                entry
                    .set_use_once(true)
                    .set_start(to)
                    .set_length(64)
                    .set_match_bits(number)
                    .set_match_id(u32::MAX)
                    .set_buffer_id(number as u16 + 1);
            }));
        }
        let put = sender.dma_put(&source, at, len(number) as u32, |put| {
            _ = put.set_dfa(dfa).set_match_bits(number).set_header_data(number)
        });
        sender.tx.emit(&put);
        if number % 7 == 3 {
            state = C_PTLTE_ENABLED + C_PTLTE_SOFTWARE_MANAGED - state;
            bench.rig.tgt.emit(&set_state(bench.portal.number, state));
        }
        // The two run at different times.
        if number % 4 == 1 {
            sender.tx.ring();
            progress(sender.dev);
        }
        if number % 5 == 2 {
            bench.rig.tgt.ring();
        }
        while let Some(event) = bench.rig.teq.poll() {
            take(&mut bench, &event);
        }
        bench.rig.teq.acknowledge();
        sender.eq.discard();
    }
    sender.tx.ring();
    bench.rig.tgt.ring();
    wait_for("all messages", || {
        progress(sender.dev);
        let event = bench.rig.teq.poll()?;
        bench.rig.teq.acknowledge();
        take(&mut bench, &event).then_some(())
    });
    assert!(states > 50);
    let counts: Vec<usize> = arrived.values().map(Vec::len).collect();
    assert_eq!(counts.len(), 3, "all lists were used");
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}
