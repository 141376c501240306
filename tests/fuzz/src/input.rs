//! What a fuzzer's input means, and what must hold whatever it is.

use std::ffi::OsString;
use std::sync::LazyLock;

use facts::device::FabricAddress;
use facts::number::MAX_SIZE;
use node::gpu::OnGpus;
use node::local_address::LocalAddress;
use node::traffic_class::TrafficClass;
use plan::Plan;
use plan::command_line;
use plan::command_line::Request;
use plan::run_options::MAX_GAP_US;
use plan::tools::peer_tools;
use session::dry_run;
use session::dry_run::DryRunResult;

/// This side, in all inputs.
pub const OWN: LocalAddress = LocalAddress {
    address: FabricAddress { nic: 0x12, pid: 0 },
    svc_id: 1,
    vni: 10,
    has_vni_of_range: false,
    class: TrafficClass::BestEffort,
    simulated: false,
    gpus: OnGpus::NONE,
};

/// A server and a client of each tool.
static SIDES: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let sides = [&[][..], &["10.1.1.8"]];
    let plans = peer_tools().iter().flat_map(|tool| {
        sides.iter().map(|arguments| {
            let arguments = arguments.iter().map(OsString::from).collect();
            match command_line::parse(tool, arguments) {
                Ok(Request::Run(typed)) => Plan::new(tool, tool.name.into(), *typed, None),
                other => panic!("{other:?}"),
            }
        })
    });
    plans.collect::<Result<_, _>>().expect("plans without options")
});

/// The first byte chooses the side, the second the length of the pieces that the others come in.
/// Fails unless the decision about them is a sound one.
pub fn check(input: &[u8]) -> Option<DryRunResult> {
    let (&[side, piece], bytes) = input.split_first_chunk()?;
    let plan = &SIDES[usize::from(side) % SIDES.len()];
    let _ = dry_run::result(bytes);
    let _ = dry_run::counters(bytes);
    let verdict = dry_run::handshake(plan, OWN, bytes, piece.into());
    match &verdict {
        DryRunResult::Waits => {}
        // It becomes one line of a log.
        DryRunResult::Refused(reason) => {
            assert!(reason.len() < 400, "{reason}");
            assert!(reason.chars().all(|c| !c.is_control()), "{reason:?}");
        }
        DryRunResult::Agreed(agreed) => {
            let run = &agreed.run;
            assert!(run.iters > 0 || run.duration_s.is_some_and(|seconds| seconds > 0));
            assert!(run.gap_us <= MAX_GAP_US);
            assert!((1..=32).contains(&run.sizes().count()));
            assert!(run.sizes().all(|size| (1..=MAX_SIZE).contains(&size)));
            assert_eq!(run.lists.is_some(), plan.run.lists.is_some());
            assert_eq!(run.atomic.is_some(), plan.run.atomic.is_some());
            assert!(run.lists.is_none_or(|lists| lists.list_size > 0 && lists.alignment > 0));
            assert!(agreed.peer.nic < 1 << 26 && agreed.peer.pid < 511);
        }
    }
    Some(verdict)
}
