//! `check --stress`: NICs under load, with their temperatures (docs/check.md).

use std::io;
use std::time::Duration;

use super::examine::{files_with, require};
use super::note::note_step;
use super::of_node::grant;
use super::request::CheckRequest;
use super::stress_watch::{Times, watch};
use super::uses::Uses;
use crate::stress_document::{StressReport, StressedNic};
use crate::stress_metrics;
use crate::stress_text::StressTable;
use cli::output;
use diag::run::stress::{LoadOptions, under_load};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::time_of_day::Clocks;
use health::link;
use health::sensors::{Sensors, board, cable_limits, part_number};
use node::backend;
use node::machine::Machine;
use node::machine::placement::{Cpus, Placement};
use node::nic::files::Files;
use page::documents::{Documents, Places};

/// Name of the program in messages.
const PROGRAM: &str = "cxidiag check";

/// Most threads for a NIC: more do not make it warmer.
const MAX_THREADS: usize = 64;

/// Loads the NICs of `request` for its time, and prints the report.
///
/// # Errors
///
/// A NIC that cannot be loaded, a criterion that is not met or cannot be judged, an interruption.
pub fn run(request: &CheckRequest, time: Duration) -> Result<(), Failure> {
    let documents = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(stress_metrics::SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), documents)?;
    let report = output::or_failure(&documents, load(request, time, &documents))?;
    // A signal that came too late to cut the load short still decides the exit status.
    interrupt::check()?;
    documents.write_metrics(|| stress_metrics::families(&report))?;
    output::write(&documents, &report, false, StressReport::headline)?;
    documents.conclude(report.result())
}

fn load(
    request: &CheckRequest,
    time: Duration,
    documents: &Documents,
) -> Result<StressReport, Failure> {
    let machine = Machine::this();
    let devices = request.devices(grant(request)?.as_ref(), &machine)?;
    if devices.is_empty() {
        let hint = "'cxidiag check --stress soft0' loads a software NIC, which has no temperature";
        return Err(Failure::undecided("no Cassini NIC on this machine").with_hint(hint));
    }
    let began = Clocks::now();
    let mut files = Vec::new();
    for device in &devices {
        files.push(ready(*device, request, &machine)?);
    }
    let places = devices.iter().enumerate();
    let loads = places.map(|(place, device)| {
        Ok(LoadOptions {
            libcxi: request.libcxi.clone(),
            cpus: cpus(request, *device, (place, devices.len()), &machine)?,
            ..LoadOptions::new(*device)
        })
    });
    let loads: Vec<LoadOptions> = loads.collect::<Result<_, Failure>>()?;
    let part_numbers: Vec<Option<String>> = files.iter().map(part_number).collect();
    let boards = part_numbers.iter().map(|number| board(number.as_deref()?));
    let sensors = files.iter().zip(boards).map(|(files, board)| Sensors::find(files, board));
    let sensors: Vec<Sensors> = sensors.collect();
    let nics = under_load(PROGRAM, &loads, |load| {
        let mut nics = Vec::new();
        for (place, device) in devices.iter().enumerate() {
            let is_software =
                load.nic(place)?.own.simulated || backend::is_software(*device, &machine);
            let (threads, list) = (loads[place].cpus.len(), sensors[place].list());
            let number = part_numbers[place].clone();
            let nic = StressedNic::new(device.to_string(), is_software, number, threads, list);
            nics.push(nic.with_cable_limits(cable_limits(&files[place])));
        }
        let table = StressTable::new(&nics);
        let print = |text: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
            if request.is_quiet { Ok(()) } else { documents.print(text) }
        };
        print(&|out| table.titles(out))?;
        let times = Times { time, interval: request.interval.min(time) };
        watch(load, &mut nics, &sensors, times, |nics, _| {
            print(&|out| nics.iter().try_for_each(|nic| table.row(out, nic)))
        })?;
        Ok(nics)
    })?;
    note_step(PROGRAM, began);
    Ok(StressReport::new([began, Clocks::now()], nics))
}

/// Returns the files of a NIC that may be loaded.
///
/// # Errors
///
/// A NIC that does not exist, whose link is down, or that other processes use.
fn ready(device: DeviceName, request: &CheckRequest, machine: &Machine) -> Result<Files, Failure> {
    require(device, machine)?;
    let files = files_with(device, machine, |_| false)?;
    let files = files.ok_or_else(|| Failure::environment(format!("there is no {device}")))?;
    if link::is_up(&files) == Some(false) {
        return Err(Failure::undecided(format!("{device}: the link is down")));
    }
    let opened = backend::open(device, request.libcxi.as_ref())?;
    if !request.busy_ok && Uses::of(&opened)?.is_in_use == Some(true) {
        let message = format!("{device}: other processes use the NIC");
        return Err(Failure::undecided(message).with_hint("--busy-ok loads it all the same"));
    }
    Ok(files)
}

/// Returns the CPUs that load a NIC, which is at this place among all NICs under load: its share of
/// those that the user names, else of those near it.
fn cpus(
    request: &CheckRequest,
    device: DeviceName,
    (place, count): (usize, usize),
    machine: &Machine,
) -> Result<Vec<u32>, Failure> {
    let choice =
        Placement::choose(request.cpus.as_ref().unwrap_or(&Cpus::Any), device, machine, false)?
            .for_threads;
    let own = choice.iter().skip(place).step_by(count).take(MAX_THREADS);
    let own: Vec<u32> = own.copied().collect();
    if !own.is_empty() {
        return Ok(own);
    }
    // More NICs than CPUs.
    Ok(choice.into_iter().cycle().skip(place).take(1).collect())
}
