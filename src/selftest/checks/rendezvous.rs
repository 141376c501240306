//! Rendezvous puts: the NIC of the target, or its software, gets what the put has left.

use cxi::sys::*;
use cxi::{EventRecord, EventType, address};

use crate::bench::{Bench, Checked, Portal, Seen, differs, ensure, equal, has, matching};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "rendezvous", checks: CHECKS };

/// Match bits of the put.
const BITS: u64 = 0x1234_5678_9abc_def0;
/// Rendezvous id of the put.
const ID: u8 = 0xcc;
/// Length of the message.
const TOTAL: usize = 10_000;
/// Length of the part that the put carries.
const EAGER: usize = 1000;

const CHECKS: &[FactCheck] = &[
    stated("events", "nic.md 10.3", |bench| exchange(bench).map(drop)).shows(
        "a rendezvous put has ACK and GET at its source, and PUT, RENDEZVOUS and REPLY at its \
         target",
    ),
    stated("data", "nic.md 10.3", |bench| {
        exchange(bench)?;
        let pattern = pattern();
        has("data", &bench.remote, 0, &pattern[..TOTAL])?;
        has("byte after the data", &bench.remote, TOTAL, &[0xee])
    })
    .shows("all bytes of a rendezvous put arrive, those of the get after those of the put"),
    stated("rendezvous-event", "nic.md 10.3", |bench| {
        let found = exchange(bench)?;
        let event = found.rendezvous.long()?;
        let expected = BITS & 0xffff_0000_0000_0000 | 0xf00 | u64::from(ID);
        equal("match_bits", event.match_bits(), expected)?;
        equal("start", event.start(), bench.remote.iova(EAGER))?;
        equal("rendezvous_id", event.rendezvous_id(), ID)?;
        let lengths = (event.rlength() as usize, event.mlength() as usize);
        equal("rlength, mlength", lengths, (TOTAL, EAGER))?;
        let info = bench.nic.device.info();
        let dfa = event.initiator();
        let is_own_nic = address::nid_of(dfa) == address::sent_nid(info.nid);
        equal("the get names this NIC", is_own_nic, true)?;
        let pid = address::pid_of(dfa, info.pid_bits);
        equal("PID of the get", pid, bench.domain.pid())
    })
    .shows(
        "RENDEZVOUS has the address behind the eager bytes, the DFA for the get, and its match \
         bits",
    ),
    stated("put-event", "nic.md 10.3", |bench| {
        let put = exchange(bench)?.put.target()?;
        equal("match_bits", put.match_bits, BITS)?;
        let lengths = (put.rlength as usize, put.mlength as usize);
        equal("rlength, mlength", lengths, (TOTAL, EAGER))
    })
    .shows("PUT has the match bits of the put, the whole length, and the eager bytes as mlength"),
    stated("user-pointer-of-reply", "nic.md 10.3", |bench| {
        let found = exchange(bench)?;
        let Some(portal) = found.issued_by_nic else {
            return crate::bench::skipped("gets are left to software (get_issued is 0)");
        };
        let pointer = found.reply.user_ptr();
        let info = bench.nic.device.info();
        let field = |from: u32, width: u32| pointer >> from & ((1 << width) - 1);
        let is_own_nic = field(0, 20) == u64::from(address::sent_nid(info.nid));
        equal("the source is this NIC", is_own_nic, true)?;
        equal("source PID", field(20, 9), bench.domain.pid().into())?;
        equal("portal", field(29, 11), portal.into())?;
        equal("rendezvous id", field(40, 8), ID.into())?;
        equal("buffer id", field(48, 16), 0x77)
    })
    .shows("the REPLY of a get by the NIC names source, portal, rendezvous id and buffer id"),
    assumed("whole-message-eager", "nic.md 15", |bench| message(bench, EAGER / 2).map(drop)).shows(
        "a message that the put carries as a whole has a get of 0 bytes, and all its events",
    ),
    inferred("ack-length", "nic.md 10.3", |bench| {
        let ack = exchange(bench)?.ack;
        equal("mlength", ack.mlength() as usize, EAGER)
    })
    .shows("the ACK of a rendezvous put has the eager bytes as mlength"),
];

/// The events of one message.
struct Exchange {
    ack: Seen,
    put: Seen,
    rendezvous: Seen,
    reply: Seen,
    /// The number of the portal, if the NIC has issued the get.
    issued_by_nic: Option<u16>,
}

fn pattern() -> Vec<u8> {
    (0..TOTAL).map(|at| (at % 247) as u8 + 1).collect()
}

fn exchange(bench: &mut Bench) -> Checked<Exchange> {
    message(bench, TOTAL)
}

/// Opens the portal from which the rest of a message is fetched, and the one that receives it.
fn portals(bench: &mut Bench) -> Checked<(Portal, Portal)> {
    let sources = bench.nic.device.info().rdzv_get_idx;
    let mut source = bench.portal(sources, matching)?;
    let (lac, start) = (bench.local.lac(), bench.local.iova(0));
    bench.append(&mut source, |entry| {
        entry
            .set_lac(lac)
            .set_start(start)
            .set_op_put(false)
            .set_match_bits(BITS & 0xffff_0000_0000_0000 | u64::from(ID))
            .set_ignore_bits(0xf00);
    })?;
    let mut target = bench.portal(0, matching)?;
    bench.append(&mut target, |entry| {
        entry.set_op_get(false).set_match_bits(BITS).set_buffer_id(0x77).set_manage_local(true);
    })?;
    Ok((source, target))
}

/// Sends a message of `total` bytes by rendezvous. Gets its rest as software must if the NIC does
/// not.
fn message(bench: &mut Bench, total: usize) -> Checked<Exchange> {
    bench.local.copy_in(0, &pattern())?;
    bench.remote.fill(0xee)?;
    let (mut source, mut target) = portals(bench)?;
    let rest = total.saturating_sub(EAGER);
    let mut put = bench.dma(C_CMD_RENDEZVOUS_PUT, total);
    put.set_eager_length(EAGER as u32)
        .set_rendezvous_id(ID)
        .set_match_bits(BITS)
        .set_use_offset_for_get(true);
    bench.send(|batch| batch.emit_dma(&put))?;
    let ack = bench.expect(EventType::ACK, C_RC_OK)?;
    let (mut first, mut rendezvous, mut reply) = (None, None, None);
    let mut issued_by_nic = None;
    while reply.is_none() || first.is_none() || rendezvous.is_none() {
        let event = bench.event_at(&mut target)?;
        equal("return code", u32::from(event.code.0), C_RC_OK)?;
        match event.kind {
            EventType::PUT => first = Some(event),
            EventType::REPLY => reply = Some(event),
            EventType::RENDEZVOUS => {
                if event.long()?.get_issued() {
                    issued_by_nic = Some(target.entry.number());
                } else {
                    reply = Some(get_rest(bench, &event, rest)?);
                }
                rendezvous = Some(event);
            }
            other => return Err(differs("PUT, RENDEZVOUS and REPLY", other)),
        }
    }
    at_source(bench, &mut source, rest)?;
    let missing = || differs("three events", "fewer");
    let found = Exchange {
        ack,
        put: first.ok_or_else(missing)?,
        rendezvous: rendezvous.ok_or_else(missing)?,
        reply: reply.ok_or_else(missing)?,
        issued_by_nic,
    };
    let is_flagged = match found.reply.record {
        EventRecord::InitiatorShort(event) => event.rendezvous(),
        _ => false,
    };
    equal("rendezvous flag of the REPLY", is_flagged, issued_by_nic.is_some())?;
    Ok(found)
}

/// Checks that the source reports the get.
fn at_source(bench: &mut Bench, source: &mut Portal, rest: usize) -> Checked {
    let get = bench.expect_at(source, EventType::GET, C_RC_OK)?.target()?;
    ensure(get.mlength as usize == rest, format_args!("a GET of {rest} bytes"), get.mlength)
}

/// Gets the rest of a message as software does (nic.md 10.4).
fn get_rest(bench: &mut Bench, rendezvous: &Seen, rest: usize) -> Checked<Seen> {
    let event = rendezvous.long()?;
    let index = bench.nic.device.info().rdzv_get_idx;
    let mut get = bench.dma(C_CMD_GET, rest);
    get.set_dfa(bench.dfa(index))
        .set_index_ext(address::index_ext(index))
        .set_lac(bench.remote.lac())
        .set_local_addr(event.start())
        .set_remote_offset(event.remote_offset())
        .set_match_bits(event.match_bits());
    bench.send(|batch| batch.emit_dma(&get))?;
    bench.expect(EventType::REPLY, C_RC_OK)
}
