//! The campaign that loads the fabric: load slots of aggressors and victims, until the conductor
//! has no more of them, or the time is up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::conductor::LoadConductor;
use crate::safety::foreign_traffic;
use crate::slot::{LoadSlot, slot};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use campaign::slots::members::Members;
use campaign::slots::{BlockLoad, Crew, LostMembers};
use campaign::timetable::{Slot, SlotTask, TestSetup, by_slot};
use facts::error::Failure;
use facts::interrupt;

/// How long the fabric is idle between two blocks: a tenth of the longest block.
const IDLE: Duration = Duration::from_millis(200);

/// How long NICs are watched for traffic of others before the load.
const WATCHED: Duration = Duration::from_secs(2);

/// Prepares the members for the load, and finds out whether others use the fabric.
///
/// # Errors
///
/// An interruption.
pub fn begin(
    crew: &mut dyn Crew,
    conductor: &mut LoadConductor,
    course: &TestSetup,
) -> Result<(), Failure> {
    let roster = &crew.members().roster;
    let present = roster.nodes.iter().filter(|node| node.absent.is_none());
    let ranks: BTreeSet<u32> = present.map(|node| node.rank).collect();
    let lost = crew.prepare(&ranks, course, &preparing)?;
    lose(crew.members(), conductor, &lost);
    if crew.members().roster.has_hardware() {
        let members = crew.members();
        let open = members.roster.nic_ids().filter(|nic| members.has_address(*nic));
        let slot: Slot = open.map(|nic| (nic, SlotTask::Watch)).collect();
        let load = BlockLoad { window_bytes: 0, idle: Duration::ZERO };
        let watched = crew.run(&[slot], WATCHED, Some(load), &preparing)?;
        let results = by_slot(watched.reports, 1).concat();
        if let Some(why) = foreign_traffic(&results, WATCHED.as_secs_f64()) {
            conductor.set_busy(why);
        }
        for (nic, reason) in &watched.failed {
            conductor.lose(*nic, reason);
        }
        lose(crew.members(), conductor, &watched.lost);
    }
    let plan = conductor.preview();
    crew.note(&format!(
        "loading the fabric: at most {} of {} NICs send at once, {} slots in {:.0} s \
         at least; retests take as long again, and busy hosts longer",
        plan.most_aggressors, plan.nics, plan.slots, plan.seconds
    ));
    Ok(())
}

/// Loads the fabric until the conductor has no further load slots, or the time is up: at `until`,
/// with this sentence about it. The targets of victims answer if `is_two_sided`.
///
/// # Errors
///
/// An interruption.
pub fn run(
    crew: &mut dyn Crew,
    conductor: &mut LoadConductor,
    is_two_sided: bool,
    (until, why): (Instant, &str),
) -> Result<(), Failure> {
    loop {
        interrupt::check()?;
        if Instant::now() >= until {
            conductor.stop(why);
        }
        let mut load_slots = conductor.next_load_slots();
        if load_slots.is_empty() {
            break;
        }
        let (done, planned, pattern) = conductor.progress();
        let line = |_: &Roster, _| format!("load: slot {done} of {planned}, {pattern}");
        let members = crew.members();
        let has_address = |nic: NicId| members.has_address(nic);
        let load_slot_slot = |load_slot: &mut LoadSlot| slot(load_slot, is_two_sided, has_address);
        let slots: Vec<Slot> = load_slots.iter_mut().map(load_slot_slot).collect();
        let length = Duration::from_nanos(load_slots[0].slot_ns);
        let load = BlockLoad { window_bytes: load_slots[0].window_bytes, idle: IDLE };
        let answered = crew.run(&slots, length, Some(load), &line)?;
        for (nic, reason) in answered.failed {
            conductor.lose(nic, &reason);
            let name = crew.members().roster.name(nic);
            conductor.stop(&format!("{name} cannot go on: {reason}"));
        }
        lose(crew.members(), conductor, &answered.lost);
        for (load_slot, results) in
            load_slots.iter().zip(by_slot(answered.reports, load_slots.len()))
        {
            conductor.add(load_slot, &results);
        }
    }
    Ok(())
}

/// Leaves lost processes out of all further load slots.
fn lose(members: &Members, conductor: &mut LoadConductor, lost: &LostMembers) {
    for (rank, reason) in lost {
        let Some(node) = members.node(*rank) else {
            continue;
        };
        let roster = &members.roster;
        for nic in roster.nic_ids().filter(|nic| roster.nic(*nic).node == node) {
            conductor.lose(nic, reason);
        }
    }
}

/// Returns the line of progress before the load.
fn preparing(_: &Roster, _: usize) -> String {
    "preparing the load".into()
}
