//! The entries of an [`Outcome`] that plan and machine determine before the run begins.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use cxi::DeviceInfo;
use rustix::system::uname;
use serde_json::Number;

use super::outcome::{
    Addresses, AtomicOptions, DeclaredOptions, Host, ListOptions, Options, Outcome, Peer,
    SCHEMA_VERSION, Side, Status, UsedDevice,
};
use super::summary::Summary;
use facts::atomic::{Atomic, AtomicOp};
use facts::host::host_name;
use facts::job::Job;
use facts::percentile::Percentile;
use facts::release;
use facts::time_of_day::unix_ms;
use measure::MeasuringClock;
use node::machine::placement::Cpus;
use node::machine::{Machine, loaded_library, shown};
use node::service::Access;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::{Plan, Role};

/// What is known about the place of a run once both sides have connected.
#[derive(Clone, Debug)]
pub struct Connected<'a> {
    /// The plan of this process.
    pub plan: &'a Plan,
    /// What the NIC reports.
    pub nic: &'a DeviceInfo,
    /// The service, VNI and traffic class in use.
    pub access: &'a Access,
    /// TCP address of the server; `None` in a tool without a peer, as is `peer`.
    pub server: Option<SocketAddr>,
    pub peer: Option<Peer>,
}

impl Outcome {
    /// The outcome of a run of which only the tool is known.
    pub fn bare(tool: &Tool) -> Self {
        let machine = uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            schema_version: SCHEMA_VERSION,
            tool: tool.name.into(),
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            cxidiag_revision: release::sources().revision.map(str::to_owned),
            status: Status::Failed,
            exit_status: 1,
            started_unix_ms: unix_ms(SystemTime::now()),
            host: Host {
                name: host_name(),
                kernel: text(machine.release()),
                architecture: text(machine.machine()),
            },
            job: Job::from_environment(),
            clock: MeasuringClock::from_monotonic_raw(),
            ..Self::default()
        }
    }

    /// The outcome of a run of `plan` that has not begun.
    pub fn of(plan: &Plan) -> Self {
        Self {
            side: match plan.role {
                Role::Server => Side::Server,
                _ => Side::Client,
            },
            labels: plan.outputs.labels.clone(),
            device: Some(UsedDevice::unopened(plan)),
            options: Some(Options::of(plan, &plan.run)),
            ..Self::bare(plan.tool)
        }
    }

    /// Begins the run of a server, whose options its client has chosen.
    pub fn begin(&mut self, plan: &Plan, run: &RunOptions) {
        self.started_unix_ms = unix_ms(SystemTime::now());
        self.options = Some(Options::of(plan, run));
    }

    /// Adds what is known once both sides have connected.
    pub fn connect(&mut self, summary: &Summary, connected: &Connected) {
        self.addresses = Some(Addresses {
            local: summary.own.address,
            remote: summary.peer,
            vni: summary.own.vni,
            server_ip: connected
                .server
                .map(|server| server.ip().to_canonical().to_string())
                .unwrap_or_default(),
            server_port: connected.server.map_or(0, |server| server.port()),
        });
        self.peer = connected.peer.clone();
        let device = UsedDevice::opened(connected.plan, connected.nic, &Machine::this());
        self.device = Some(device.with_access(connected.access));
        if let Some(options) = &mut self.options {
            options.hrp = options.hrp.is_some().then(|| summary.hrp.is_on());
            options.sync = options.sync.is_some().then(|| summary.run.sync.to_string());
            let (own, peer) = (summary.own.gpus, summary.peer_gpus);
            options.gpu_type = own.kind.map(|kind| kind.to_string());
            options.peer_tx_gpu = peer.tx;
            options.peer_rx_gpu = peer.rx;
            // A legacy tool sends the GPU type that it was built for even if it uses no GPU.
            let kind = peer.kind.filter(|_| peer.any());
            options.peer_gpu_type = kind.map(|kind| kind.to_string());
            if !summary.cpus.is_empty() {
                options.cpu = Some(shown(summary.cpus));
            }
        }
    }
}

/// A time in seconds, as an integer if it is a whole number of them.
fn seconds(time: Duration) -> Option<Number> {
    if time.subsec_nanos() == 0 {
        Some(time.as_secs().into())
    } else {
        Number::from_f64(time.as_secs_f64())
    }
}

impl UsedDevice {
    fn unopened(plan: &Plan) -> Self {
        let svc_id = plan.service_options.svc_id.unwrap_or_else(|| plan.service.svc_id());
        Self::named(plan.device.to_string(), svc_id)
    }

    /// A NIC of which nothing else is known.
    pub fn named(name: String, svc_id: u32) -> Self {
        Self { name, svc_id, ..Self::default() }
    }

    /// The NIC of a run of `plan`, which was opened.
    pub fn opened(plan: &Plan, info: &DeviceInfo, machine: &Machine) -> Self {
        Self {
            is_software: Some(info.is_simulated()),
            mac_address: machine.mac_of_device(&info.name),
            pci_address: Some(info.pci_address.clone()),
            link_speed: Some(info.link_speed).filter(|speed| *speed > 0),
            driver: Some(info.driver.clone()),
            driver_revision: machine.driver_revision(&info.name),
            firmware_version: machine.firmware_version(&info.name),
            library: loaded_library(),
            ..Self::unopened(plan)
        }
    }

    /// The NIC with the service, VNI and traffic class in use.
    fn with_access(self, access: &Access) -> Self {
        let Access { svc_id, vni, class, .. } = access;
        Self {
            svc_id: svc_id.value,
            svc_id_source: Some(svc_id.source.name().into()),
            vni_source: Some(vni.source.name().into()),
            traffic_class: Some(class.value.to_string()),
            traffic_class_source: Some(class.source.name().into()),
            ..self
        }
    }
}

impl From<Atomic> for AtomicOptions {
    fn from(atomic: Atomic) -> Self {
        Self {
            op: atomic.op.to_string(),
            cswap_op: (atomic.op == AtomicOp::Cswap).then(|| atomic.cswap.to_string()),
            ty: atomic.ty.to_string(),
            fetching: atomic.fetching,
            matching: atomic.matching,
        }
    }
}

impl ListOptions {
    /// The options of lists; `None` in a latency tool.
    fn new(tool: &Tool, run: &RunOptions) -> Option<Self> {
        let has_buffers = tool.has_peer() && tool.has_data();
        run.lists.map(|lists| Self {
            list_size: lists.list_size,
            bidirectional: lists.bidirectional,
            buf_sz_bytes: has_buffers.then_some(lists.max_buffer),
            buf_align_bytes: has_buffers.then_some(lists.alignment),
            pairs: run.extensions.pairs,
            threads: run.extensions.threads,
            reverse: run.extensions.reverse,
            both_ends: run.extensions.both_ends,
        })
    }
}

impl Options {
    /// The options of a run of `plan`, with those that both sides agree on from `run`.
    pub fn of(plan: &Plan, run: &RunOptions) -> Self {
        let tool = plan.tool;
        let is_latency = !tool.measures_bandwidth();
        Self {
            address: match &plan.role {
                Role::Client { address } => Some(address.clone()),
                _ => None,
            },
            loopback: matches!(plan.role, Role::Loopback | Role::Alone),
            port: plan.port,
            libcxi: plan.libcxi.as_ref().map(|library| library.path.to_string_lossy().into_owned()),
            iters: run.duration_s.is_none().then_some(run.iters),
            duration_s: run.duration().filter(|_| !run.extensions.until_stopped).and_then(seconds),
            until_percent: plan.until.map(|until| until.percent),
            warmup: is_latency.then_some(run.warmup),
            latency_gap_us: is_latency.then_some(run.gap_us),
            min_size_bytes: run.min_size,
            max_size_bytes: run.max_size,
            restricted: tool.is_one_sided().then_some(run.restricted().is_on()),
            idc: tool.defaults.use_idc.then_some(run.idc().is_on()),
            hrp: tool.defaults.use_hrp.then_some(run.hrp().is_on()),
            low_latency: is_latency.then_some(run.use_ll),
            rdzv: tool.sends().then_some(run.rdzv),
            sync: (is_latency && tool.sends()).then(|| run.sync.to_string()),
            declared: DeclaredOptions::of(tool, &run.extensions),
            tx_gpu: plan.gpus.tx,
            rx_gpu: plan.gpus.rx,
            gpu_type: plan.gpus.kind.filter(|_| plan.gpus.any()).map(|kind| kind.to_string()),
            gpu_map: plan.gpus.any().then(|| {
                let way = plan.gpus.map;
                way.map_or("auto".to_owned(), |way| way.to_string())
            }),
            use_hp: run.huge_page.map(|size| size.to_string()),
            cpu: (plan.cpus != Cpus::Any).then(|| plan.cpus.to_string()),
            report_all: is_latency.then_some(run.report_all),
            rate: run.extensions.rate.map(|rate| rate.to_string()),
            verify: Some(run.extensions.verify),
            atomic: run.atomic.map(AtomicOptions::from),
            lists: ListOptions::new(tool, run),
            percentiles: (plan.outputs.percentiles.iter())
                .filter(|percentile| !Percentile::STANDARD.contains(percentile))
                .map(|percentile| percentile.percent())
                .collect(),
            interval_s: plan.outputs.interval.map(|length| length.as_secs_f64()),
            expect: plan
                .outputs
                .expectations
                .iter()
                .map(|expectation| expectation.text.clone())
                .collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::backend;
    use node::machine::testing::MadeUp;
    use plan::testing;

    #[test]
    fn names_versions_of_opened_nic() {
        let made_up = MadeUp::new(&[
            ("sys/class/cxi/cxi1/device/properties/driver_rev", "1a2b\n"),
            ("sys/class/cxi/cxi1/device/uc/qspi_blob_version", "1.5.53\n"),
            ("sys/class/cxi/cxi1/device/net/hsn1/address", "02:00:00:00:00:12\n"),
        ]);
        let plan = testing::plan("write-lat", &[]);
        let info = DeviceInfo {
            name: "cxi1".into(),
            pci_address: "0000:c1:00.0".into(),
            link_speed: 200_000,
            ..backend::open("soft90".parse().unwrap(), None).unwrap().info().clone()
        };
        let device = UsedDevice::opened(&plan, &info, &made_up.machine());
        assert_eq!(device.driver_revision.as_deref(), Some("1a2b"));
        assert_eq!(device.firmware_version.as_deref(), Some("1.5.53"));
        assert_eq!(device.mac_address.as_deref(), Some("02:00:00:00:00:12"));
        assert_eq!(device.pci_address.as_deref(), Some("0000:c1:00.0"));
        assert_eq!((device.link_speed, device.svc_id), (Some(200_000), 1));
    }
}
