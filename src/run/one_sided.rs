//! A one-sided latency run: the client measures, the server provides the target.

use super::clients::Meeting;
use super::course::{
    Watchful, by_role, close, cut_short, longest_size, open, recorder, schedule, summarize,
};
use super::latency::repeat;
use super::{MonotonicRaw, Patience};
use crate::bench::api::{Measurement, OneSidedLatency, Peer, Transaction};
use crate::error::Failure;
use crate::measure::Recorder;
use crate::phase::{Phase, enter};
use crate::plan::{Plan, RunOptions, Side};
use crate::report::Reporter;
use crate::session::{self, ANSWER_LIMIT};

/// Label of the barrier behind each size (wire.md 6.2).
const POST_RUN: &str = "Post-run";

/// Carries out `plan` with benchmark `B`.
pub fn one_sided_latency<B: OneSidedLatency>(
    plan: &Plan,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    by_role(plan, reporter, serve::<B>, measure::<B>)
}

fn serve<B: OneSidedLatency>(meeting: Meeting) -> Result<(), Failure> {
    let Meeting {
        plan,
        endpoint,
        session,
        agreed,
        reporter,
    } = meeting;
    summarize(reporter, plan, Side::Server, &endpoint, &session, &agreed)?;
    let peer = Peer {
        address: agreed.peer,
        supervisor: &Watchful::new(&session, &endpoint, plan),
    };
    let target =
        B::target(&endpoint, peer, &agreed.run).map_err(|failure| session.tell(failure))?;
    session.ready()?;
    let served = agreed.run.sizes().try_for_each(|size| {
        enter(Phase::Measuring);
        session.barrier(POST_RUN, longest_size(&agreed.run, size))?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check_target(&target, size)?;
        }
        enter(Phase::Reporting);
        reporter.server_result()
    });
    served.map_err(|failure| cut_short(&session, failure))?;
    session.finish();
    enter(Phase::Releasing);
    reporter.server_end()?;
    B::close_target(target)?;
    close(endpoint)
}

fn measure<B: OneSidedLatency>(
    plan: &Plan,
    address: &str,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    let mut recorder = recorder(&plan.run)?;
    let endpoint = open(plan)?;
    let (session, agreed) = session::join(plan, address, endpoint.address())?;
    summarize(reporter, plan, Side::Client, &endpoint, &session, &agreed)?;
    let watch = Watchful::new(&session, &endpoint, plan);
    let peer = Peer {
        address: agreed.peer,
        supervisor: &watch,
    };
    let mut initiator =
        B::initiator(&endpoint, peer, &agreed.run).map_err(|failure| session.tell(failure))?;
    session.ready()?;
    reporter.begin_latencies(agreed.run.report_all)?;
    let mut current = agreed.run.min_size;
    let measured = agreed.run.sizes().try_for_each(|size| {
        current = size;
        recorder.clear();
        reporter.begin_size(size, recorder.gauge());
        let measurement = Loop {
            run: &agreed.run,
            supervisor: &watch,
            recorder: &mut recorder,
        };
        B::measure(&mut initiator, &agreed.run, size, measurement)?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check_initiator(&initiator, size)?;
        }
        enter(Phase::PostRun);
        session.barrier(POST_RUN, ANSWER_LIMIT)?;
        enter(Phase::Reporting);
        reporter.latencies(size, &recorder)
    });
    if let Err(failure) = measured {
        let failure = cut_short(&session, failure);
        reporter.latencies_cut_short(current, &recorder, &failure);
        return Err(failure);
    }
    session.finish();
    enter(Phase::Releasing);
    reporter.end()?;
    B::close_initiator(initiator)?;
    close(endpoint)
}

/// The loop for one size.
struct Loop<'a> {
    run: &'a RunOptions,
    supervisor: &'a Watchful<'a>,
    recorder: &'a mut Recorder,
}

impl Measurement for Loop<'_> {
    type Output = ();

    fn run(self, transaction: &mut impl Transaction) -> Result<(), Failure> {
        let mut patience = Patience::new(self.supervisor);
        repeat(
            transaction,
            &MonotonicRaw,
            schedule(self.run),
            &mut patience,
            |sample| self.recorder.record(sample),
        )
    }
}
