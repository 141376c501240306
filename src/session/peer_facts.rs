//! The words of this side in each handshake, and what two cxidiag processes tell each other with
//! the words behind their versions, where legacy tools ignore it.

use std::fs;
use std::net::SocketAddr;

use facts::advice::{Advise, Situation};
use facts::device::{DeviceName, FabricAddress};
use facts::error::{Failure, Step};
use facts::host::host_name;
use facts::text::shown;
use node::backend;
use node::local_address::LocalAddress;
use node::traffic_class::TrafficClass;
use plan::extensions::Extensions;
use plan::run_options::{RunOptions, Side, SyncPoint};
use plan::tool::Tool;
use plan::{Plan, Role, options};

use super::admission::{Announced, Credentials, Serving};
use super::terms::LocalHost;

/// The words of this side in each handshake.
#[derive(Clone, Debug)]
pub struct HandshakeIntroduction {
    /// The tools that this side offers: one in a client; in a server those that a client may name.
    pub(super) tools: Vec<&'static Tool>,
    /// This side's address on the fabric and its memory.
    pub own: LocalAddress,
    /// Identifier of this machine and its current boot.
    pub machine: String,
    pub host_name: String,
    /// The fabric of a software NIC, as one word.
    pub fabric: Option<String>,
    /// The part of the option block about this host.
    pub(super) host: LocalHost,
    /// The options of the run; `None` in a server, which receives them.
    pub run: Option<RunOptions>,
    /// Job and token of this side.
    pub credentials: Credentials,
    /// In a busy server, the client that others have to wait for.
    pub serving: Option<Serving>,
    /// The NIC of the server: a server's own NIC, or the NIC that a client asks for.
    pub device: Option<DeviceName>,
    /// Whether this side tells clients when it is their turn (`turn`).
    pub gives_turns: bool,
}

impl HandshakeIntroduction {
    /// Creates the introduction for `plan`; `port` is the TCP port in use, `machine` identifies
    /// this machine.
    pub fn new(plan: &Plan, own: LocalAddress, port: u16, machine: String) -> Self {
        let is_server = matches!(plan.role, Role::Server);
        let side = if is_server { Side::Server } else { Side::Client };
        Self {
            tools: vec![plan.tool],
            own,
            machine,
            host_name: host_name(),
            fabric: own.simulated.then(backend::fabric).flatten(),
            host: LocalHost { svc_id: own.svc_id, device: plan.device.index, port, gpus: own.gpus },
            run: (!is_server).then_some(plan.run),
            credentials: Credentials::new(side, &plan.admission),
            serving: None,
            device: if is_server { Some(plan.device) } else { plan.peer_device },
            gives_turns: false,
        }
    }

    /// The introduction of a server whose clients wait for their turn.
    pub fn with_turns(self) -> Self {
        Self { gives_turns: true, ..self }
    }

    /// The client's options, adapted to this side's memory: a side whose transmit buffer lies on a
    /// GPU uses no immediate data commands (defect T25 of tools.md).
    pub(super) fn on_own_memory(&self, tool: &Tool, run: RunOptions) -> RunOptions {
        let sends = tool.buffers.held(&run, Side::Server).initiator;
        RunOptions { use_idc: run.use_idc && !(sends && self.own.gpus.tx.is_some()), ..run }
    }
}

/// An identifier of this machine and its current boot, the same in all containers; empty if the
/// system has no such identifier.
pub fn machine() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

facts::named_enum! {
    /// What a client asks for that sends a request in place of options and address: a process of
    /// this command. The client sends the word, and a server that starts such processes returns it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RequestedCommand {
        /// Measures with other hosts.
        Survey = "survey",
        /// Tells the health of the NICs.
        Check = "check",
        /// Reads the ranks of a job.
        Why = "why",
    }
    /// Its word.
    pub fn word(self);
}

impl RequestedCommand {
    /// Whether the client is sent a document and nothing else.
    pub fn wants_document(self) -> bool {
        matches!(self, Self::Check | Self::Why)
    }
}

/// The word of a process that probes this node and asks for the addresses of its NICs, and of a
/// server that tells them.
pub const PROBE: &str = "probe";

/// A client with one of the words above. No server sends this word: an answer with it is a
/// reflection.
pub const ASKS: &str = "asks";

/// The word of a client that waits for its turn if the server gives turns, and of a server that
/// gives them.
pub const QUEUE: &str = "queue";
pub const TURN: &str = "turn";

/// The word of a client that answers when it is called, and of a server that waits for the answer.
pub const CALL: &str = "call";

/// The word of a client that sends ticks, and of a server that knows them.
pub const TICK: &str = "tick";

/// The word of a server that sends ticks, and of a client that knows them.
pub const SERVER_TICK: &str = "server-tick";

/// The word of a side whose NIC is a software NIC.
const SOFTWARE: &str = "software";

/// The first VNI of service 1.
const LEGACY_VNI: u32 = 1;

/// Longest name of a host in Linux.
const MAX_HOST_NAME: usize = 64;

/// This side's version as it is sent, with the `proof` of its token. A legacy peer reads `2.4` and
/// ignores the rest; a cxidiag reads from it what the protocol does not transmit (defect T15 of
/// tools.md).
pub fn announcement(us: &HandshakeIntroduction, tool: &Tool, proof: Option<&str>) -> String {
    let software = if us.own.simulated { " software" } else { "" };
    // A server leaves the choice to its client.
    let sync = us.run.map_or(SyncPoint::Size, |run| run.sync);
    let asked = us.run.map_or(String::new(), |run| {
        let needed = options("run", &run.needed_of_server());
        needed + &options("alone", &run.kept_by_client())
    });
    let busy = us.serving.as_ref().map(Serving::word).unwrap_or_default();
    let device = us.device.map_or(String::new(), |device| format!(" device={device}"));
    let queue = us.run.map_or("", |_| " queue call");
    let fabric = us.fabric.as_ref().map_or(String::new(), |fabric| format!(" fabric={fabric}"));
    format!(
        "{} vni={} tc={} host={}{} sync={sync} can={}{asked}{device}{busy}{queue} tick {SERVER_TICK}{software}{fabric}",
        greeting(tool, &us.credentials, proof),
        us.own.vni,
        us.own.class,
        us.machine,
        name_word(&us.host_name),
        options::word_names(),
    )
}

/// The version of a server of all tools, which begins with `greeting`. It has not opened `device`
/// yet: VNI and traffic class are missing, and the process of the client compares them.
pub fn queue_announcement(greeting: &str, machine: &str, device: DeviceName) -> String {
    let software = if device.platform().is_simulated { " software" } else { "" };
    format!(
        "{greeting} host={machine}{} sync={} can={} device={device} turn call tick {SERVER_TICK}{software}",
        name_word(&host_name()),
        SyncPoint::Size,
        options::word_names(),
    )
}

/// The beginning of a version as it is sent: its number, job and `proof` of the token.
pub fn greeting(tool: &Tool, credentials: &Credentials, proof: Option<&str>) -> String {
    format!(
        "{} cxidiag/{}{}",
        tool.wire_version,
        env!("CARGO_PKG_VERSION"),
        credentials.words(proof)
    )
}

/// The word with the options in use; nothing if there are none.
fn options(name: &str, extensions: &Extensions) -> String {
    match options::to_word(extensions) {
        word if word.is_empty() => word,
        word => format!(" {name}={word}"),
    }
}

/// The word with the name of a host; an empty text for a name that is not a single word.
pub fn name_word(host_name: &str) -> String {
    if is_host_name(host_name) { format!(" name={host_name}") } else { String::new() }
}

/// Whether a name can be sent, and shown as it was received.
fn is_host_name(name: &str) -> bool {
    (1..=MAX_HOST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The facts that a cxidiag announces with its version. A legacy peer announces none.
#[derive(Debug, PartialEq, Eq)]
pub struct PeerFacts {
    pub is_cxidiag: bool,
    /// VNI of its domain.
    pub vni: Option<u32>,
    /// Traffic class of its operations, if its release sends it.
    pub class: Option<TrafficClass>,
    /// Identifier of its machine, if its release sends it.
    pub host: Option<String>,
    /// Name of its host, if its release sends it.
    pub host_name: Option<String>,
    /// The fabric of its software NIC, if its release sends it.
    pub fabric: Option<String>,
    /// Whether it can keep in step by messages within a size; in a client also whether it is asked
    /// to.
    syncs_by_size: bool,
    /// Names of the options that it knows and legacy tools lack, in one word.
    pub knows: String,
    /// The options that it asks for, or why they are invalid. They include the options that a
    /// client keeps alone, on which only the time limits and the texts of the server depend.
    pub extensions: Result<Extensions, String>,
    /// Its job and token, and the client of a busy server.
    pub announced: Announced,
    /// The NIC of the server: the server's own NIC, or the NIC that a client asks for.
    pub device: Option<DeviceName>,
    /// Its words without a value.
    words: Vec<String>,
}

impl PeerFacts {
    /// The facts about a legacy tool.
    pub const LEGACY: Self = Self {
        is_cxidiag: false,
        vni: None,
        class: None,
        host: None,
        host_name: None,
        fabric: None,
        syncs_by_size: false,
        knows: String::new(),
        extensions: Ok(Extensions::NONE),
        announced: Announced::NOTHING,
        device: None,
        words: Vec::new(),
    };

    /// Reads the words behind the version of a peer.
    pub fn read(version: &str) -> Self {
        let mut words = version.split_whitespace().skip(1);
        let mut facts = Self::LEGACY;
        if !words.next().is_some_and(|word| word.starts_with("cxidiag/")) {
            return facts;
        }
        facts.is_cxidiag = true;
        let mut kept_alone = "";
        for word in words {
            match word.split_once('=') {
                Some(("vni", vni)) => facts.vni = vni.parse().ok(),
                Some(("tc", class)) => facts.class = class.parse().ok(),
                Some(("host", host)) => facts.host = Some(host.to_owned()),
                Some(("name", name)) if is_host_name(name) => {
                    facts.host_name = Some(name.to_owned());
                }
                Some(("fabric", fabric)) => facts.fabric = Some(fabric.to_owned()),
                Some(("sync", point)) => {
                    facts.syncs_by_size = point == SyncPoint::Size.to_string();
                }
                Some(("can", names)) => facts.knows = names.to_owned(),
                Some(("run", word)) => facts.extensions = options::from_word(word),
                Some(("alone", word)) => kept_alone = word,
                Some(("device", name)) => facts.device = name.parse().ok(),
                Some((name, value)) => facts.announced.take(name, value),
                None => facts.words.push(word.to_owned()),
            }
        }
        if let Ok(extensions) = &mut facts.extensions {
            options::set_known_words(extensions, kept_alone);
        }
        facts
    }

    /// Whether the peer has sent this word, which has no value.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }

    /// Returns what the peer asks for, if it sends a request in place of options and address.
    pub fn requested(&self) -> Option<RequestedCommand> {
        RequestedCommand::ALL.into_iter().find(|command| self.has(command.word()))
    }

    /// Checks that a server knows all `extensions` in use.
    ///
    /// # Errors
    ///
    /// A legacy server, or a cxidiag that lacks one of them.
    pub fn takes_part_in(&self, extensions: &Extensions, peer: SocketAddr) -> Result<(), Failure> {
        let Some(option) = options::first_unknown_word(extensions, &self.knows) else {
            return Ok(());
        };
        let server = if self.is_cxidiag { "an older cxidiag" } else { "a legacy tool" };
        Err(Failure::environment(format!(
            "--{option}: the server ({peer}) is {server}, which cannot take part"
        ))
        .advised(Situation::OptionUnknownToPeer))
    }

    /// Checks that a server measures with the NIC that this client asks for, if it does.
    ///
    /// # Errors
    ///
    /// A server on another NIC, and one that does not announce its NIC.
    pub fn measures_with(
        &self,
        asked: Option<DeviceName>,
        peer: SocketAddr,
    ) -> Result<(), Failure> {
        let Some(asked) = asked.filter(|asked| self.device != Some(*asked)) else {
            return Ok(());
        };
        let what = match (self.device, self.is_cxidiag) {
            (Some(device), _) => format!("measures with {device} alone"),
            (None, true) => "is an older cxidiag, which does not announce its NIC".into(),
            (None, false) => "is a legacy tool, which does not announce its NIC".into(),
        };
        let failure = format!("--peer-device={asked}: the server ({peer}) {what}");
        Err(Failure::environment(failure).advised(Situation::OtherDevice))
    }

    /// `run` with barriers before each iteration unless both sides have announced that they wait
    /// for each other before each size only.
    pub fn in_step(&self, tool: &Tool, run: RunOptions) -> RunOptions {
        if self.syncs_by_size || tool.measures_bandwidth() || !tool.sends() {
            return run;
        }
        RunOptions { sync: SyncPoint::Iteration, ..run }
    }

    /// Checks that both sides use the same traffic class in a run in which the server issues
    /// operations as well: the results belong to the client's class. Packets pass in any case. A
    /// peer that has not sent its class passes.
    ///
    /// # Errors
    ///
    /// Different classes.
    pub fn same_class(
        &self,
        own: TrafficClass,
        tool: &Tool,
        run: &RunOptions,
        peer: SocketAddr,
    ) -> Result<(), Failure> {
        match self.class {
            Some(other) if other != own && tool.server_issues(run) => {
                Err(Failure::environment(format!(
                    "different traffic classes: {own} here, {other} at the peer ({peer}), and both \
                     matter: the server issues operations in this run"
                ))
                .advised(Situation::OtherClass))
            }
            _ => Ok(()),
        }
    }

    /// `run` without the counters of a server that does not send them.
    pub fn sending_counters(&self, mut run: RunOptions) -> RunOptions {
        let extensions = &mut run.extensions;
        let asked = Extensions { counters: extensions.counters, ..Extensions::NONE };
        if options::first_unknown_word(&asked, &self.knows).is_some() {
            extensions.counters = None;
        }
        run
    }

    /// Checks that a legacy peer may have the VNI of this side. With a service that has a range, it
    /// uses the first VNI of service 1 (defect T26 of tools.md), and does not send it.
    ///
    /// # Errors
    ///
    /// A VNI of a range, and a legacy peer.
    pub fn shares_vni(&self, us: &HandshakeIntroduction, peer: SocketAddr) -> Result<(), Failure> {
        let vni = us.own.vni;
        if self.is_cxidiag || !us.own.has_vni_of_range || vni == LEGACY_VNI {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "VNI {vni} here, of the range of service {}; the peer ({peer}) is a legacy tool, which \
             uses VNI {LEGACY_VNI} with such a service: packets cannot pass between them",
            us.own.svc_id
        ))
        .with_hint(format!(
            "use a service without a range of VNIs, or --vni={LEGACY_VNI} here as root; --vni={vni} \
             if the peer has a service with a list that begins with it"
        ))
        .in_step(Step::Address))
    }

    /// Checks that packets can pass between this side and the peer at `theirs`. A peer that has not
    /// sent its machine passes.
    ///
    /// # Errors
    ///
    /// NICs of different kinds, and addresses or software NICs that exclude each other.
    pub fn reachable(
        &self,
        us: &HandshakeIntroduction,
        theirs: FabricAddress,
        peer: SocketAddr,
    ) -> Result<(), Failure> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        // A /proc with subset=pid shows no identifier: then nothing tells the machines apart.
        let is_known = !host.is_empty() && !us.machine.is_empty();
        let (own, apart) = (us.own, is_known && *host != us.machine);
        let kind = |software| {
            if software { "a software NIC" } else { "hardware" }
        };
        let is_software = self.has(SOFTWARE);
        if own.simulated != is_software {
            let (here, there) = (kind(own.simulated), kind(is_software));
            return Err(Failure::environment(format!(
                "{here} here, {there} at the peer ({peer}): packets cannot pass between them"
            ))
            .advised(Situation::OtherKind)
            .in_step(Step::Address));
        }
        if own.simulated && apart {
            return Err(Failure::environment(format!(
                "the software NIC of the peer ({peer}) is on another machine: packets cannot pass between them"
            ))
            .advised(Situation::SoftwareApart)
            .in_step(Step::Address));
        }
        if let (Some(one), Some(other)) = (&us.fabric, &self.fabric) {
            let [here, there] =
                [one, other].map(|word| word.rsplit_once(':').unwrap_or(("", word)));
            if here.0 != there.0 {
                return Err(Failure::environment(format!(
                    "software NICs of two fabrics, {} here, {} at the peer ({peer}): packets cannot pass between them",
                    here.1, shown(there.1)
                ))
                .with_hint("give both sides the same CXIDIAG_FABRIC_DIR: for several users a directory that their group shares (mode 2770)")
                .in_step(Step::Address));
            }
        }
        if own.address.nic == theirs.nic && apart {
            return Err(Failure::environment(format!(
                "the NICs of both sides have the address {:#x}, but the peer ({peer}) is another machine",
                own.address.nic
            ))
            .advised(Situation::SameAddress)
            .in_step(Step::Address));
        }
        Ok(())
    }
}
