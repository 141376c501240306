//! Atomic operations beyond what they compute: forms of commands, operands, events, exceptions
//! (nic.md 3.7, 3.10, 6, 11).

use crate::driver::prelude::*;

/// A rig with a target at index 0, and an initiator's buffer.
struct Bench {
    rig: Rig,
    local: Buffer,
    remote: Buffer,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let local = rig.buffer(PAGE);
        let remote = rig.buffer(PAGE);
        rig.target_with(0, &remote, |entry| {
            _ = entry.set_op_get(true).set_event_success_disable(true)
        });
        let context = c_state(rig.eq.number, true, |context| _ = context.set_write_lac(local.lac));
        rig.tx.emit(&context);
        Self { rig, local, remote }
    }

    /// A DMA SUM of one UINT64, from the beginning of `local`, with its result at 64.
    fn dma(&self, fetching: bool, choose: impl FnOnce(&mut DmaAmoCmd)) -> Vec<u8> {
        dma_amo(fetching, |amo| {
            amo.set_dfa(self.rig.dfa(0))
                .set_lac(self.local.lac)
                .set_local_read_addr(self.local.iova(0))
                .set_write_lac(self.local.lac)
                .set_local_write_addr(self.local.iova(64))
                .set_eq(self.rig.eq.number)
                .set_user_ptr(0x77);
            choose(amo);
        })
    }

    /// A SUM of one UINT64 as a large immediate command, adding 5.
    fn large(&self, fetching: bool, choose: impl FnOnce(&mut IdcAmoCmd)) -> Vec<u8> {
        let mut amo = IdcAmoCmd::new();
        amo.set_cmd_type(C_CMD_TYPE_IDC as u8)
            .set_cmd_size(1)
            .set_opcode(amo_opcode(fetching))
            .set_length(64)
            .set_dfa(self.rig.dfa(0))
            .set_local_addr(self.local.iova(64))
            .set_atomic_op(C_AMO_OP_SUM as u8)
            .set_atomic_type(C_AMO_TYPE_UINT64_T as u8)
            .set_op1_word1(5);
        choose(&mut amo);
        amo.bytes().to_vec()
    }

    /// A SUM of one UINT64 as a small immediate command.
    fn small(&self, choose: impl FnOnce(&mut IdcHdr, &mut SmallAmoPayload)) -> Vec<u8> {
        let mut header = IdcHdr::new();
        header
            .set_cmd_type(C_CMD_TYPE_IDC as u8)
            .set_opcode(C_CMD_ATOMIC as u8)
            .set_length(32)
            .set_dfa(self.rig.dfa(0));
        let mut payload = SmallAmoPayload::new();
        payload
            .set_amo_op(C_AMO_OP_SUM as u8)
            .set_amo_type(C_AMO_TYPE_UINT64_T as u8)
            .set_op1_word1(5);
        choose(&mut header, &mut payload);
        [&header.bytes()[..], &payload.bytes()[..]].concat()
    }

    fn target(&self) -> u64 {
        u64::from_le_bytes(self.remote.pages.read(0, 8).try_into().unwrap())
    }

    /// The return code of a malformed command, which has no effect.
    fn refusal(&mut self, command: &[u8]) -> u32 {
        let mut queue = Queue::transmit(self.rig.dev, self.rig.lni, self.rig.lcid);
        let context = c_state(self.rig.eq.number, true, |_| {});
        queue.emit(&context);
        queue.issue(command);
        let status = queue.wait_error();
        assert_eq!(status.fail_command(), command[0]);
        assert!(self.rig.eq.poll().is_none());
        assert!(self.remote.pages.is(0, PAGE, 0));
        u32::from(status.return_code())
    }
}

#[test]
fn every_command_form_has_same_effect() {
    alone!();
    let mut bench = Bench::new();
    bench.local.pages.write(0, &5_u64.to_le_bytes());
    let commands = [
        (bench.small(|_, _| {}), C_EVENT_ACK),
        (bench.large(false, |_| {}), C_EVENT_ACK),
        (bench.large(true, |_| {}), C_EVENT_REPLY),
        (bench.dma(false, |_| {}), C_EVENT_ACK),
        (bench.dma(true, |_| {}), C_EVENT_REPLY),
    ];
    for (done, (command, kind)) in commands.into_iter().enumerate() {
        bench.local.pages.write(64, &[0x77; 8]);
        let event = bench.rig.run(&command);
        event.is(kind, C_RC_OK);
        let record = EventInitiatorShort::from_bytes(event.bytes());
        assert_eq!(record.mlength(), 8);
        assert_eq!(bench.target(), 5 * (done as u64 + 1));
        let fetched = match kind {
            C_EVENT_REPLY => (5 * done as u64).to_le_bytes(),
            _ => [0x77; 8],
        };
        assert_eq!(bench.local.pages.read(64, 8), fetched);
    }
}

#[test]
fn rejects_malformed_commands() {
    alone!();
    let mut bench = Bench::new();
    let commands = [
        // The small form has no room for these.
        bench.small(|header, _| _ = header.set_opcode(C_CMD_FETCHING_ATOMIC as u8)),
        bench.small(|_, payload| _ = payload.set_amo_op(C_AMO_OP_CSWAP as u8)),
        bench.small(|_, payload| _ = payload.set_amo_op(C_AMO_OP_AXOR as u8)),
        bench.small(|_, payload| _ = payload.set_amo_type(C_AMO_TYPE_DOUBLE_COMPLEX_T as u8)),
        // The length does not fit the command.
        bench.small(|header, _| _ = header.set_length(64)),
        bench.small(|header, _| _ = header.set_length(24)),
        bench.large(false, |amo| _ = amo.set_length(32)),
        // Sizes that no form has.
        {
            let mut longer = bench.large(false, |amo| _ = amo.set_cmd_size(2).set_length(128));
            longer.resize(128, 0);
            longer
        },
        {
            let mut shorter = bench.dma(false, |amo| _ = amo.set_cmd_size(1));
            shorter.truncate(64);
            shorter
        },
        // What a fetching operation cannot carry.
        bench.dma(true, |amo| _ = amo.set_flush(true)),
        bench.dma(false, |amo| _ = amo.set_reduction(true)),
    ];
    for command in commands {
        let code = bench.refusal(&command);
        assert_eq!(code, C_RC_CMD_INVALID_ARG, "{command:x?}");
    }
    // A counter that does not exist, an event queue that does not.
    for command in [
        bench.dma(false, |amo| _ = amo.set_event_ct_ack(true).set_ct(1)),
        bench.dma(true, |amo| _ = amo.set_event_ct_reply(true).set_ct(1)),
        bench.dma(true, |amo| _ = amo.set_eq(2000)),
    ] {
        assert_eq!(bench.refusal(&command), C_RC_PERM_VIOLATION);
    }
}

/// A C_STATE with flush rejects only fetching immediate commands.
#[test]
fn rejects_flush_of_fetching_command() {
    alone!();
    let mut bench = Bench::new();
    let context = c_state(bench.rig.eq.number, true, |context| _ = context.set_flush(true));
    bench.rig.tx.emit(&context);
    let plain = bench.large(false, |_| {});
    assert_eq!(bench.rig.code(&plain), C_RC_OK);
    assert_eq!(bench.target(), 5);
    let fetching = bench.large(true, |_| {});
    bench.rig.tx.issue(&fetching);
    assert_eq!(bench.rig.tx.wait_failure(), C_RC_CMD_INVALID_ARG);
}

#[test]
fn checks_length_of_dma_operand() {
    alone!();
    let mut bench = Bench::new();
    for (kind, size) in [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16].into_iter().enumerate() {
        for length in [0, 1, 2, 4, 8, 12, 16, 32, u32::MAX] {
            let command = bench.dma(kind % 2 == 0, |amo| {
                amo.set_request_len(length)
                    .set_atomic_op(C_AMO_OP_CSWAP as u8)
                    .set_atomic_type(kind as u8);
            });
            let event = bench.rig.run(&command);
            let code = if length == size { C_RC_OK } else { C_RC_AMO_LENGTH_ERROR };
            assert_eq!(event.code(), code, "type {kind}, {length} bytes");
        }
    }
}

/// Operand and result are checked before anything is sent.
#[test]
fn checks_local_addresses() {
    alone!();
    let mut bench = Bench::new();
    let unreadable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
    let unwritable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
    let end = bench.local.iova(PAGE);
    bench.local.pages.write(PAGE - 8, &[1; 8]);
    type Choice<'a> = &'a dyn Fn(&mut DmaAmoCmd);
    let unreadable_operand: Choice =
        &|amo| _ = amo.set_lac(unreadable.lac).set_local_read_addr(unreadable.iova(0));
    let unwritable_result: Choice =
        &|amo| _ = amo.set_write_lac(unwritable.lac).set_local_write_addr(unwritable.iova(0));
    let operand = |address| move |amo: &mut DmaAmoCmd| _ = amo.set_local_read_addr(address);
    let result = |address| move |amo: &mut DmaAmoCmd| _ = amo.set_local_write_addr(address);
    let choices: [(Choice, u32); 9] = [
        (&operand(end - 8), C_RC_OK),
        (&operand(end - 7), C_RC_NO_TRANSLATION),
        (&|amo| _ = amo.set_lac(7), C_RC_INVALID_AC),
        (unreadable_operand, C_RC_PAGE_PERM_ERROR),
        (&result(end - 8), C_RC_OK),
        (&result(end - 7), C_RC_NO_TRANSLATION),
        (&result(0), C_RC_NO_TRANSLATION),
        (&|amo| _ = amo.set_write_lac(7), C_RC_INVALID_AC),
        (unwritable_result, C_RC_PAGE_PERM_ERROR),
    ];
    for (choose, code) in choices {
        let before = bench.target();
        let command = bench.dma(true, |amo| choose(amo));
        let event = bench.rig.run(&command);
        event.is(C_EVENT_REPLY, code);
        let record = EventInitiatorShort::from_bytes(event.bytes());
        assert_eq!((record.user_ptr(), record.tgt_error()), (0x77, false));
        assert!(code == C_RC_OK || bench.target() == before);
    }
    // An operation that does not fetch ignores the result's address.
    let command = bench.dma(false, |amo| _ = amo.set_write_lac(7).set_local_write_addr(0));
    assert_eq!(bench.rig.code(&command), C_RC_OK);
    // An immediate command has only a result in memory.
    let command = bench.large(true, |amo| _ = amo.set_local_addr(end));
    assert_eq!(bench.rig.run(&command).code(), C_RC_NO_TRANSLATION);
}

/// Operand, result and target lie in different contexts.
#[test]
fn uses_separate_contexts_of_operand_and_result() {
    alone!();
    let mut bench = Bench::new();
    let operand = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
    let result = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
    let lacs = [bench.remote.lac, operand.lac, result.lac];
    assert!(lacs[0] != lacs[1] && lacs[0] != lacs[2] && lacs[1] != lacs[2]);
    operand.pages.write(0, &7_u64.to_le_bytes());
    let command = bench.dma(true, |amo| {
        amo.set_lac(operand.lac)
            .set_local_read_addr(operand.iova(0))
            .set_write_lac(result.lac)
            .set_local_write_addr(result.iova(0));
    });
    let context =
        c_state(bench.rig.eq.number, false, |context| _ = context.set_write_lac(result.lac));
    assert_eq!(bench.rig.run(&command).code(), C_RC_OK);
    assert_eq!(result.pages.read(0, 8), 0_u64.to_le_bytes());
    bench.rig.tx.emit(&context);
    let command = bench.large(true, |amo| _ = amo.set_local_addr(result.iova(8)));
    assert_eq!(bench.rig.run(&command).code(), C_RC_OK);
    assert_eq!(result.pages.read(8, 8), 7_u64.to_le_bytes());
    assert_eq!(bench.target(), 12);
}

/// The element is read and written.
#[test]
fn needs_read_and_write_access_behind_entry() {
    alone!();
    let mut bench = Bench::new();
    let unreadable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
    let unwritable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
    bench.local.pages.write(0, &[1; 8]);
    for (index, buffer) in [(32, unreadable), (64, unwritable)] {
        bench.rig.target_with(index, &buffer, |entry| {
            _ = entry.set_op_get(true).set_event_comm_disable(true)
        });
        let dfa = bench.rig.dfa(index);
        for fetching in [false, true] {
            let command = bench.dma(fetching, |amo| _ = amo.set_dfa(dfa));
            assert_eq!(bench.rig.run(&command).code(), C_RC_PAGE_PERM_ERROR);
        }
        assert!(buffer.pages.is(0, PAGE, 0));
    }
}

#[test]
fn reports_atomics_to_target() {
    alone!();
    let mut bench = Bench::new();
    bench.local.pages.write(0, &[1; 16]);
    let remote = bench.remote;
    bench.rig.target_with(32, &remote, |entry| _ = entry.set_op_get(true).set_buffer_id(0xbeef));
    let dfa = bench.rig.dfa(32);
    let send = |bench: &mut Bench, fetching, offset| -> Event {
        let command = bench.dma(fetching, |amo| {
            amo.set_dfa(dfa)
                .set_remote_offset(offset)
                .set_request_len(4)
                .set_initiator(0x1122_3344)
                .set_match_bits(0x5555)
                .set_header_data(0x6666)
                .set_atomic_op(C_AMO_OP_CSWAP as u8)
                .set_atomic_type(C_AMO_TYPE_INT32_T as u8)
                .set_cswap_op(C_AMO_OP_CSWAP_GT as u8);
        });
        bench.rig.run(&command);
        bench.rig.teq.wait()
    };
    for (fetching, offset, kind, code) in [
        (false, 8, C_EVENT_ATOMIC, C_RC_OK),
        (true, 12, C_EVENT_FETCH_ATOMIC, C_RC_OK),
        (true, 10, C_EVENT_FETCH_ATOMIC, C_RC_AMO_ALIGN_ERROR),
    ] {
        let event = send(&mut bench, fetching, offset);
        event.is(kind, code);
        let event = EventTargetLong::from_bytes(event.bytes());
        assert_eq!((event.buffer_id(), event.initiator()), (0xbeef, 0x1122_3344));
        assert_eq!((event.match_bits(), event.header_data()), (0x5555, 0x6666));
        let moved = if code == C_RC_OK { 4 } else { 0 };
        assert_eq!((event.rlength(), event.mlength()), (4, moved));
        assert_eq!(event.remote_offset(), offset);
        assert_eq!(event.start(), remote.iova(0) + offset);
        let operation = (event.atomic_op(), event.atomic_type(), event.cswap_op());
        assert_eq!(operation, (11, 4, 5));
    }
    // The entry of index 0 reports only failures.
    let command = bench.dma(false, |_| {});
    assert_eq!(bench.rig.code(&command), C_RC_OK);
    assert!(bench.rig.teq.poll().is_none());
    let command = bench.dma(false, |amo| _ = amo.set_remote_offset(4));
    assert_eq!(bench.rig.code(&command), C_RC_AMO_ALIGN_ERROR);
    assert_eq!(bench.rig.teq.wait().kind(), C_EVENT_ATOMIC);
}

/// Only portals that signal exceptions report them; memory changes in any case.
#[test]
fn signals_floating_point_exceptions_on_request() {
    alone!();
    let mut bench = Bench::new();
    type Choice = fn(&mut cxi_pt_alloc_opts);
    let options: [Choice; 5] = [
        |_| {},
        |options| options.set_signal_invalid(1),
        |options| options.set_signal_overflow(1),
        |options| options.set_signal_inexact(1),
        |options| options.set_signal_underflow(1),
    ];
    assert_eq!(pte_options().signal_invalid(), 0);
    let infinity = f32::INFINITY;
    for (place, choose) in options.into_iter().enumerate() {
        let index = 32 * (place as u32 + 1);
        let portal = bench.rig.enabled(index, choose);
        let remote = bench.remote;
        bench.rig.append(portal, |entry| {
            whole(entry, &remote);
            entry.set_op_get(true).set_event_comm_disable(true);
        });
        let dfa = bench.rig.dfa(index);
        const INVALID: u32 = C_RC_AMO_FP_INVALID;
        const OVERFLOW: u32 = C_RC_AMO_FP_OVERFLOW;
        const INEXACT: u32 = C_RC_AMO_FP_INEXACT;
        const OK: u32 = C_RC_OK;
        for (target, operand, sum, codes) in [
            (1.0, 2.0, 3.0, [OK; 4]),
            (infinity, -infinity, f32::NAN, [INVALID, OK, OK, OK]),
            (f32::MAX, f32::MAX, infinity, [OK, OVERFLOW, INEXACT, OK]),
            (1.0, 1e-20, 1.0, [OK, OK, INEXACT, OK]),
            (1e-45, 1e-45, 2.8e-45, [OK; 4]),
        ] {
            remote.pages.write(0, &f32::to_le_bytes(target));
            bench.local.pages.write(0, &f32::to_le_bytes(operand));
            bench.local.pages.write(64, &[9; 4]);
            let command = bench.dma(true, |amo| {
                _ = amo.set_dfa(dfa).set_request_len(4).set_atomic_type(C_AMO_TYPE_FLOAT_T as u8)
            });
            let code = bench.rig.run(&command).code();
            let expected = place.checked_sub(1).map_or(C_RC_OK, |at| codes[at]);
            assert_eq!(code, expected, "{target} + {operand}, option {place}");
            let after = remote.pages.read(0, 4).try_into().unwrap();
            let after = f32::from_le_bytes(after);
            assert!(after == sum || (after.is_nan() && sum.is_nan()));
            let fetched = match code {
                C_RC_OK => f32::to_le_bytes(target),
                _ => [9; 4],
            };
            assert_eq!(bench.local.pages.read(64, 4), fetched);
        }
    }
}
