//! Telemetry counters that must rise with traffic. Others may use the NIC: a counter rises by what
//! a check has sent, or by more.

use cxi::EventType;
use cxi::sys::*;
use node::backend;
use node::machine::Machine;

use crate::bench::{Bench, Checked, ensure, matching, silent, skipped};
use crate::table::{CheckGroup, FactCheck, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "telemetry", checks: CHECKS };

/// Operations of a check.
const COUNT: u64 = 20;

/// The pools of counters that have one for each.
const POOLS: [&str; 4] = ["0", "1", "2", "3"];

const CHECKS: &[FactCheck] = &[
    stated("unrestricted-requests", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises(bench, &["pct_req_ordered"], |bench| puts(bench, false))
    })
    .shows("pct_req_ordered rises with unrestricted puts"),
    stated("restricted-requests", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises(bench, &["pct_req_unordered"], |bench| puts(bench, true))
    })
    .shows("pct_req_unordered rises with restricted puts"),
    stated("restricted-packets", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises(bench, &["ixe_rx_ptl_restricted_pkt"], |bench| puts(bench, true))
    })
    .shows("ixe_rx_ptl_restricted_pkt rises with restricted packets received"),
    stated("dma-commands", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises_in_pools(bench, "cq_num_dma_cmds_", |bench| puts(bench, false))
    })
    .shows("cq_num_dma_cmds rises with DMA commands"),
    stated("immediate-commands", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        let state = bench.c_state(true);
        bench.send(|batch| batch.emit_c_state(&state))?;
        rises_in_pools(bench, "cq_num_idc_cmds_", |bench| immediate_puts(bench, false))
    })
    .shows("cq_num_idc_cmds rises with immediate commands"),
    stated("low-latency-writes", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        let state = bench.c_state(true);
        bench.send(|batch| batch.emit_c_state(&state))?;
        rises_in_pools(bench, "cq_num_ll_ops_successful_", |bench| immediate_puts(bench, true))
    })
    .shows("cq_num_ll_ops_successful rises with low-latency writes"),
    stated("appends", "health.md 1.5", |bench| {
        let mut portal = bench.portal(0, matching)?;
        rises_in_pools(bench, "lpe_append_success_", |bench| {
            (0..COUNT).try_for_each(|_| bench.append(&mut portal, |_| {}).map(drop))
        })
    })
    .shows("lpe_append_success rises with appended entries"),
    stated("matches", "health.md 1.5", |bench| {
        let _portal = bench.open(matching, silent)?;
        rises_in_pools(bench, "lpe_net_match_priority_", |bench| puts(bench, false))
    })
    .shows("lpe_net_match_priority rises with messages that match posted entries"),
    stated("unexpected-messages", "health.md 1.5", |bench| {
        let _portal = bench.open_silent(matching, |entry| {
            entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_manage_local(true);
        })?;
        rises_in_pools(bench, "lpe_net_match_overflow_", |bench| puts(bench, false))
    })
    .shows("lpe_net_match_overflow rises with messages in the overflow list"),
    stated("events", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises_in_pools(bench, "ee_events_enqueued_cntr_", |bench| puts(bench, false))
    })
    .shows("ee_events_enqueued_cntr rises with events"),
    stated("flushes", "health.md 1.5", |bench| {
        let _portal = bench.plain()?;
        rises(bench, &["ixe_dmawr_flush_reqs"], |bench| {
            (0..COUNT)
                .try_for_each(|_| bench.put(8, C_RC_OK, |put| _ = put.set_flush(true)).map(drop))
        })
    })
    .shows("ixe_dmawr_flush_reqs rises with each operation with flush"),
    stated("missing-portals", "health.md 1.5", |bench| {
        rises(bench, &["rmu_ptl_no_ptlte_cntr"], |bench| {
            (0..COUNT).try_for_each(|_| bench.put(8, C_RC_PTLTE_NOT_FOUND, |_| {}).map(drop))
        })
    })
    .shows("rmu_ptl_no_ptlte_cntr rises with operations to an index without portal")
    .provokes(&[]),
];

/// Puts eight bytes, several times.
fn puts(bench: &mut Bench, restricted: bool) -> Checked {
    (0..COUNT)
        .try_for_each(|_| bench.put(8, C_RC_OK, |put| _ = put.set_restricted(restricted)).map(drop))
}

fn immediate_puts(bench: &mut Bench, low_latency: bool) -> Checked {
    let header = bench.idc(0);
    (0..COUNT).try_for_each(|_| {
        let put = |batch: &mut cxi::TransmitBatch<'_>| batch.emit_idc_put(&header, &[1; 8]);
        if low_latency {
            bench.send_low_latency(put)?;
        } else {
            bench.send(put)?;
        }
        bench.expect(EventType::ACK, C_RC_OK).map(drop)
    })
}

fn rises_in_pools(
    bench: &mut Bench,
    prefix: &str,
    traffic: impl FnOnce(&mut Bench) -> Checked,
) -> Checked {
    let names = POOLS.map(|pool| format!("{prefix}{pool}"));
    rises(bench, &names.each_ref().map(String::as_str), traffic)
}

/// Checks that the sum of these counters rises by [`COUNT`] at least with `traffic`.
fn rises(
    bench: &mut Bench,
    names: &[&str],
    traffic: impl FnOnce(&mut Bench) -> Checked,
) -> Checked {
    let machine = Machine::this();
    let device = bench.nic.name;
    let sum = || {
        let values = backend::counters(device, names, &machine).into_iter();
        values.sum::<Option<u64>>()
    };
    let Some(before) = sum() else {
        return skipped(format_args!("{} cannot be read", names[0]));
    };
    traffic(bench)?;
    let more = sum().unwrap_or_default().wrapping_sub(before);
    ensure(
        (COUNT..1 << 56).contains(&more),
        format_args!("{} or more in {}", COUNT, names[0]),
        more,
    )
}
