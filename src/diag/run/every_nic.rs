//! `--all-nics` and `--all-gpus`: the NICs of this machine one after the other, each by itself.

use super::{alone, place};
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::interrupt;
use node::backend;
use node::gpu::{self, OnGpus};
use node::machine::Machine;
use plan::Plan;
use plan::typed::Every;
use report::nic_table::{NicRun, NicTable};
use report::{Reporter, text_output};

/// Measures each NIC as `plan` says, and prints the results.
///
/// # Errors
///
/// No NIC or GPU, a document that cannot be written, a run that failed, an expectation that is not
/// met, and an interruption.
pub fn measure(plan: &Plan, every: Every) -> Result<(), Failure> {
    let machine = Machine::this();
    let has_gpus = every == Every::NicAndGpu;
    let mut table = NicTable::open(plan, text_output(&plan.outputs), has_gpus)?;
    let nics = if plan.is_device_given {
        vec![plan.device]
    } else {
        backend::names(plan.libcxi.as_ref(), &machine)?
    };
    let is_chosen = plan.is_device_given || backend::has_chosen_software();
    let has_hardware =
        !machine.cxi_devices().is_empty() || nics.iter().any(|nic| !nic.platform().is_simulated);
    // Software NICs say nothing about a node that has lost its NICs.
    if !has_hardware && !is_chosen && !plan.outputs.expectations.is_empty() {
        return Err(backend::no_hardware());
    }
    let runs = if has_gpus {
        runs_with_gpus(plan, &nics, &machine)?
    } else {
        nics.iter()
            .map(|nic| NicMeasurement {
                nic: *nic,
                gpus: plan.gpus,
                has_nearest_gpu: false,
                is_judged: true,
            })
            .collect()
    };
    interrupt::watch()?;
    let ended = runs.iter().try_for_each(|run| {
        let (nic_run, result) = run.measure(plan, &machine);
        table.add(nic_run)?;
        match result {
            Err(failure) if failure.kind == Kind::Interrupted => Err(failure),
            _ => interrupt::check(),
        }
    });
    table.end(ended.err())
}

/// A NIC and its buffers.
struct NicMeasurement {
    nic: DeviceName,
    gpus: OnGpus,
    has_nearest_gpu: bool,
    /// Whether the expectations apply.
    is_judged: bool,
}

impl NicMeasurement {
    fn measure(&self, plan: &Plan, machine: &Machine) -> (NicRun, Result<(), Failure>) {
        let mut plan = Plan { device: self.nic, gpus: self.gpus, ..plan.clone() };
        (plan.outputs.json, plan.outputs.jsonl, plan.outputs.csv) = (None, None, None);
        if !self.is_judged {
            plan.outputs.expectations.clear();
        }
        let mut reporter = Reporter::silent(&plan);
        let result = backend::check(self.nic)
            .and_then(|()| place(&plan))
            .and_then(|plan| alone::measure(&plan, &mut reporter));
        let (outcome, result) = reporter.into_outcome(result);
        let nic = self.nic.to_string();
        let node = machine.node_of_device(&nic);
        let run = NicRun {
            nic,
            is_software: backend::is_software(self.nic, machine),
            node,
            gpu: self.gpus.tx,
            has_nearest_gpu: self.has_nearest_gpu,
            is_judged: self.is_judged,
            outcome,
        };
        (run, result)
    }
}

/// The runs of each NIC with each GPU: first with the GPU nearest to it. If no distance is known,
/// all runs of a NIC are judged.
fn runs_with_gpus(
    plan: &Plan,
    nics: &[DeviceName],
    machine: &Machine,
) -> Result<Vec<NicMeasurement>, Failure> {
    let gpus = gpu::all(plan.gpus.kind)?;
    let addresses: Vec<Option<String>> =
        (0..gpus.count()).map(|index| gpus.pci_address(index)).collect();
    let mut runs = Vec::new();
    for nic in nics {
        let nearest = machine.nearest(&nic.to_string(), &addresses);
        runs.extend((0..gpus.count().min(256)).map(|index| {
            let on = Some(index as u8);
            NicMeasurement {
                nic: *nic,
                gpus: OnGpus { kind: Some(gpus.kind()), tx: on, rx: on, map: plan.gpus.map },
                has_nearest_gpu: nearest == Some(index as usize),
                is_judged: nearest.is_none_or(|nearest| nearest == index as usize),
            }
        }));
    }
    runs.sort_by_key(|run| !run.is_judged);
    Ok(runs)
}
