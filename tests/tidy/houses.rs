//! The packages, the rooms of each on their floors, and what each holds: the one list that the rules
//! about directions, the drawings of floors and the maps at the heads of packages are made from.
//! `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes the drawings.

/// A package of the workspace.
#[derive(Clone, Copy)]
pub struct Package {
    /// As Cargo knows it.
    pub name: &'static str,
    /// The directory of its `Cargo.toml`.
    pub directory: &'static str,
    /// The packages of the workspace that its `Cargo.toml` names for building.
    pub uses: &'static [&'static str],
    pub holds: &'static str,
    pub must_not: &'static str,
    pub house: House,
    /// Directories inside that have floors of their own, and programs beside the library.
    pub parts: &'static [House],
    /// Names that several types of the package have: each is to become one. This list may only
    /// shrink.
    pub repeated_types: &'static [&'static str],
}

/// A directory of modules whose rooms stand on floors.
#[derive(Clone, Copy)]
pub struct House {
    pub directory: &'static str,
    /// The module that the directory holds: nothing for a crate.
    pub module: &'static str,
    /// The files that show the floors (`drawings.rs`).
    pub shown_in: &'static [&'static str],
    /// The rooms of each floor, lowest first: a file or directory, and what it holds. A part of a
    /// directory may be a room by itself: `bench/api`.
    pub floors: &'static [&'static [(&'static str, &'static str)]],
    /// Arrows from file to file that are part of a circle, and not mended yet. This list may only
    /// shrink.
    pub circles: &'static [(&'static str, &'static str)],
}

/// All packages. A package uses only packages above it in this list.
pub static PACKAGES: &[Package] = &[LIBCXI, WRAPPER, SOFTWARE_NIC, PROGRAM];

const LIBCXI: Package = Package {
    name: "cxi-sys",
    directory: "ffi/cxi-sys",
    uses: &[],
    holds: "C functions and structures (`cxi.h`, bindings made by bindgen and committed), the \
            records of the NIC with their fields, the table `Api`, which `libcxi.so.1` fills at run \
            time",
    must_not: "contain rules",
    house: House {
        directory: "ffi/cxi-sys/src",
        module: "",
        shown_in: &[],
        floors: &[
            &[
                ("bindings", "constants, structures and functions of `cxi.h`"),
                ("gpu", "the functions of GPU runtimes"),
            ],
            &[
                ("api", "the table of libcxi functions"),
                ("records", "command and event records, and their fields"),
            ],
            &[("lib", "all of it under one name")],
        ],
        circles: &[],
    },
    parts: &[],
    repeated_types: &["LoadError"],
};

const WRAPPER: Package = Package {
    name: "cxi",
    directory: "ffi/cxi",
    uses: &["cxi-sys"],
    holds: "one owner type for each object of libcxi, command batches, events, memory, fences; all \
            `unsafe` code of the program",
    must_not: "print, or decide what to do",
    house: House {
        directory: "ffi/cxi/src",
        module: "",
        shown_in: &["ffi/cxi/src/lib.rs"],
        floors: &[
            &[
                ("address", "fabric addresses and match ids"),
                ("clock", "the clocks of the measurements"),
                ("encode", "fields of commands that are set by emitting"),
                ("error", "errors and return codes"),
                ("fence", "fences between memory and doorbells"),
                ("inherited", "descriptors that this process inherited"),
                ("ring", "cursors of rings"),
                ("standard_output", "whether standard output is open"),
            ],
            &[("pages", "memory of whole pages")],
            &[
                ("bus", "memory of rings, and launch pages"),
                ("event", "one event"),
                ("gpu", "memory of GPUs"),
                ("library", "the table of functions, and failed releases"),
                (
                    "placement",
                    "the CPUs of a thread, the NUMA node of its memory",
                ),
            ],
            &[
                ("backing", "the pages behind memory"),
                ("huge_page", "memory of one huge page"),
                ("launch", "doorbells and low-latency writes"),
            ],
            &[("owned", "the order in which objects are released")],
            &[("device", "NICs and their information")],
            &[
                (
                    "lni",
                    "interface of the process on a NIC, VNI, traffic class",
                ),
                ("service", "services: the right to use a NIC"),
            ],
            &[
                ("counter", "counting events"),
                ("memory", "memory mapped for the NIC"),
            ],
            &[("event_queue", "event queues")],
            &[
                ("portal", "portals table entries"),
                ("queue", "what all command queues have in common"),
            ],
            &[
                ("target_queue", "commands to targets"),
                ("transmit_queue", "commands to initiators"),
                ("trigger_queue", "commands that wait for counters"),
            ],
            &[("prepared", "commands that are issued many times")],
            &[("calibration", "queues without a NIC")],
            &[("lib", "the names that users see")],
        ],
        circles: &[],
    },
    parts: &[],
    repeated_types: &["Device", "Memory", "Runtime"],
};

const SOFTWARE_NIC: Package = Package {
    name: "softnic",
    directory: "ffi/softnic",
    uses: &["cxi-sys"],
    holds: "the table `Api` as well, filled by a software NIC; also a `libcxi.so.1` for other \
            programs",
    must_not: "share logic with `ffi/cxi`, because one bug would then cancel itself out",
    house: House {
        directory: "ffi/softnic/src",
        module: "",
        shown_in: &["ffi/softnic/src/lib.rs"],
        floors: &[
            &[
                ("gpu", "memory of GPUs"),
                ("huge_page", "the huge pages of a mapping"),
                ("pages", "memory shared with other threads and processes"),
            ],
            &[("process_memory", "what the process has mapped")],
            &[("on_demand", "memory that the program may unmap at any time")],
            &[("engine", "the NIC: a state machine without input or output")],
            &[
                ("counter_names", "the names of the telemetry counters"),
                ("cpu", "CPU time for the engine thread"),
                ("doorbell", "doorbells, and which of them trap"),
                (
                    "environment",
                    "NICs and driver parameters, from environment variables",
                ),
                ("fork", "files that child processes must not inherit"),
                ("interrupt", "descriptors that programs sleep on"),
                ("prefetch", "hints for the caches of the CPU"),
            ],
            &[(
                "fabric",
                "the wire between NICs: shared memory in a private directory",
            )],
            &[(
                "nic",
                "one open device: the engine, shared by the threads that run it",
            )],
            &[("trap", "doorbells whose stores the library notices")],
            &[("runner", "the threads that run engines")],
            &[(
                "counters",
                "the telemetry counters of a NIC, over all processes",
            )],
            &[("libcxi", "the functions, their rules and errno values")],
            &[("sysfs", "the NICs as the kernel's files show them")],
            &[(
                "retry_handler",
                "the NICs as the retry handler's files show them",
            )],
            &[(
                "snapshot",
                "these files, and the telemetry counters, at one moment",
            )],
            &[("lib", "the names that users see")],
        ],
        circles: &[],
    },
    parts: &[ENGINE, HELPER_PROGRAM],
    repeated_types: &["Counter", "Device", "Entry", "Owner", "Place"],
};

const ENGINE: House = House {
    directory: "ffi/softnic/src/engine",
    module: "engine",
    shown_in: &["ffi/softnic/src/engine/mod.rs"],
    floors: &[
        &[
            ("address", "VNIs, and addresses of portals table entries"),
            ("arithmetic", "the arithmetic of atomic operations"),
            (
                "bytes",
                "copies and atomic updates of memory that programs use",
            ),
            ("list_counts", "counts of list entries"),
            ("match_id", "match ids"),
            ("return_codes", "return codes"),
            ("table", "tables of objects by number"),
        ],
        &[
            ("counter", "counting events"),
            ("packet", "packets"),
            ("packet_counts", "counts of packets"),
            ("telemetry", "telemetry counters"),
        ],
        &[
            ("event_queue", "event queues"),
            ("lists", "the lists of a portals table entry"),
            (
                "location",
                "where translated bytes are: memory of the CPU or of a GPU",
            ),
            ("request_list", "the messages that software matches"),
            ("ring", "the NIC's side of a command queue"),
            ("wire", "the wire, as the engine sees it"),
        ],
        &[
            ("memory", "addresses as the NIC sees them"),
            ("placement", "places in list entries"),
            ("transactions", "operations that wait for their response"),
        ],
        &[
            ("commands", "the fields of commands"),
            ("events", "the fields of events"),
            ("incoming", "operations of other NICs"),
            ("lni", "LNIs"),
        ],
        &[
            ("portal", "portals table entries"),
            ("triggers", "triggered operations"),
        ],
        &[
            ("counter_commands", "commands about counters"),
            ("matching", "matching"),
            ("rendezvous", "gets of rendezvous puts"),
        ],
        &[
            ("remembered", "the landing of the last put"),
            ("target_commands", "what commands to targets do"),
            ("target_queue", "target queues"),
            ("transmit", "transmit queues, and what their commands do"),
        ],
        &[("state", "all objects of one open NIC")],
        &[
            ("admission", "whether a received operation is accepted"),
            ("atomics", "received atomic operations"),
            ("completion", "how operations end: counts, events, response"),
            ("deliver", "received packets: each goes to its operation"),
            ("doorbells", "doorbells that the engine is called for"),
            ("get", "received gets"),
            ("put", "received puts"),
        ],
        &[("mod", "polling, failed peers, removal of objects")],
    ],
    circles: &[],
};

const HELPER_PROGRAM: House = House {
    directory: "ffi/softnic/src/bin/cxi-softnic",
    module: "",
    shown_in: &[],
    floors: &[
        &[(
            "namespace",
            "a mount namespace in which programs see the NICs",
        )],
        &[("main", "starts a program that sees software NICs")],
    ],
    circles: &[],
};

const PROGRAM: Package = Package {
    name: "cxidiag",
    directory: "",
    uses: &["cxi", "softnic"],
    holds: "tools, options, sessions, loops, results",
    must_not: "distinguish hardware from the software NIC, except `backend.rs`, which opens the \
               device, and the report, which names it",
    house: House {
        directory: "src",
        module: "",
        shown_in: &["docs/architecture.md"],
        floors: &[
            &[
                (
                    "atomic",
                    "atomic operations and the types of their operands",
                ),
                (
                    "bandwidth_unit",
                    "the units in which the text shows bandwidths",
                ),
                ("device", "names of NICs, addresses on the fabric"),
                ("error", "how a run fails: kind, causes, hint, exit status"),
                ("extensions", "the options of a run that legacy tools lack"),
                (
                    "host_list",
                    "lists of hosts, as launchers and users write them",
                ),
                ("host_locations", "the file of switches and groups of hosts"),
                ("interrupt", "signals that end a run"),
                ("job", "the job of a workload manager"),
                (
                    "launcher",
                    "rank and size of a process, as each launcher tells it",
                ),
                ("limit", "the largest values that the program takes"),
                ("location", "where a NIC is: node, switch, group"),
                ("nic", "the files of a NIC: counters, link, findings"),
                ("number", "numbers as users write and read them"),
                ("phase", "what a run is doing, for its messages"),
                ("rate", "intended start times"),
                ("slingshot", "services and VNIs, as the launcher names them"),
                ("token", "the secret that both sides of a run share"),
                ("traffic_class", "traffic classes"),
            ],
            &[
                (
                    "advice",
                    "what a refused call or a bad event means, and what to do",
                ),
                ("backend", "opens the device: hardware or software NIC"),
                ("gpu", "GPU memory of a run"),
                ("machine", "what this machine has: CPUs, memory, huge pages"),
                ("measure", "clocks, waiting, recorder, statistics"),
                (
                    "meeting_point",
                    "how the processes of a survey find the coordinator",
                ),
                ("nic/health", "what is wrong with a NIC"),
                ("service", "the service, VNI and traffic class to use"),
            ],
            &[
                ("bench/api", "the trait `Benchmark`"),
                ("endpoint", "the place of this process on the fabric"),
                ("run_options", "what both sides of a run must agree on"),
                ("tool", "what a tool is, as plain data"),
            ],
            &[
                (
                    "plan",
                    "options and defaults -> one valid, immutable `Plan`",
                ),
                (
                    "survey",
                    "which pairs are measured when, and what their results say",
                ),
            ],
            &[
                ("bench", "the benchmarks, one transaction type each"),
                ("bench/common", "what benchmarks share"),
                ("report", "outcome -> text and documents"),
                ("session", "the control connection to the peer"),
                ("tools", "the registry of the tools"),
            ],
            &[("run", "one run: roles, driver, size loop, measuring loops")],
            &[
                (
                    "cli",
                    "arguments -> options; help from the same definitions",
                ),
                ("command", "what the program does beside measuring"),
            ],
            &[
                ("lib", "arguments in, exit status out"),
                ("main", "the process"),
                (
                    "multicall",
                    "`argv[0]` or the first argument -> tool or command",
                ),
            ],
        ],
        circles: &[
            ("advice/table.rs", "advice.rs"),
            (
                "bench/common/initiator.rs",
                "bench/common/triggered_counter.rs",
            ),
            ("bench/common/lists.rs", "bench/common/ends.rs"),
            ("bench/common/lists.rs", "bench/common/list_commands.rs"),
            ("cli/options/buffers.rs", "cli/options/mod.rs"),
            ("cli/options/client.rs", "cli/options/mod.rs"),
            ("cli/options/connection.rs", "cli/options/mod.rs"),
            ("cli/options/duration.rs", "cli/options/mod.rs"),
            ("cli/options/measured.rs", "cli/options/mod.rs"),
            ("cli/options/output.rs", "cli/options/mod.rs"),
            ("cli/options/placement.rs", "cli/options/mod.rs"),
            ("cli/options/server.rs", "cli/options/mod.rs"),
            ("command/calibrate.rs", "command/mod.rs"),
            ("command/check.rs", "command/mod.rs"),
            ("command/compare.rs", "command/mod.rs"),
            ("command/devices.rs", "command/mod.rs"),
            ("command/ping.rs", "command/mod.rs"),
            ("command/report.rs", "command/mod.rs"),
            ("command/serve/mod.rs", "command/mod.rs"),
            ("command/survey/asked.rs", "command/mod.rs"),
            ("command/check/examine.rs", "command/check.rs"),
            ("measure/recorder.rs", "measure/stability.rs"),
            ("nic/health/address.rs", "nic/health/mod.rs"),
            ("nic/health/code_words.rs", "nic/health/mod.rs"),
            ("nic/health/host.rs", "nic/health/mod.rs"),
            ("nic/health/identity.rs", "nic/health/mod.rs"),
            ("nic/health/link.rs", "nic/health/mod.rs"),
            ("nic/health/pcie.rs", "nic/health/mod.rs"),
            ("nic/health/services.rs", "nic/health/mod.rs"),
            ("nic/health/traffic.rs", "nic/health/mod.rs"),
            ("plan/typed.rs", "plan/mod.rs"),
            ("report/histogram.rs", "report/outcome/latency.rs"),
            ("report/histogram.rs", "report/outcome/size_result.rs"),
            (
                "report/outcome/bandwidth.rs",
                "report/outcome/size_result.rs",
            ),
            ("report/outcome/latency.rs", "report/outcome/size_result.rs"),
            ("report/outcome/counters.rs", "report/outcome/mod.rs"),
            ("report/survey/document.rs", "report/survey/summary.rs"),
            ("run/bandwidth.rs", "run/driver.rs"),
            ("run/legacy_sync.rs", "run/driver.rs"),
            ("run/loopback.rs", "run/driver.rs"),
            ("run/one_sided.rs", "run/driver.rs"),
            ("run/round_trip.rs", "run/driver.rs"),
            ("run/verify.rs", "run/driver.rs"),
            ("run/legacy_sync.rs", "run/round_trip.rs"),
            ("session/caller.rs", "session/mod.rs"),
            ("session/connection.rs", "session/mod.rs"),
            ("session/handshake.rs", "session/mod.rs"),
            ("session/turn.rs", "session/mod.rs"),
            ("session/peer_facts.rs", "session/handshake.rs"),
            ("session/tree/root/arrivals.rs", "session/tree/root.rs"),
        ],
    },
    parts: &[],
    repeated_types: &[
        "Answer",
        "Arrival",
        "Asked",
        "Bench",
        "Block",
        "Busy",
        "Calibration",
        "Candidate",
        "Child",
        "Clock",
        "Column",
        "Command",
        "Completion",
        "Context",
        "Counter",
        "Direction",
        "Distribution",
        "DmaAmo",
        "Documents",
        "End",
        "Ending",
        "Entry",
        "Evidence",
        "FabricAddress",
        "Family",
        "Figures",
        "Finding",
        "Found",
        "Gathered",
        "Group",
        "IdcAmo",
        "Introduction",
        "Job",
        "Kept",
        "Key",
        "Kind",
        "Latencies",
        "Launcher",
        "Limit",
        "Limits",
        "Line",
        "Link",
        "ListOptions",
        "Loop",
        "Measure",
        "Measured",
        "Member",
        "Message",
        "Name",
        "Nic",
        "NicCounters",
        "NicFacts",
        "Node",
        "Noise",
        "Operation",
        "Options",
        "Order",
        "Outcome",
        "Outputs",
        "Pair",
        "PairResult",
        "Part",
        "Peer",
        "Phase",
        "Ping",
        "Place",
        "Places",
        "Processes",
        "Progress",
        "Published",
        "Rate",
        "Reading",
        "Ready",
        "Receiver",
        "Refusal",
        "Rendezvous",
        "Resources",
        "Row",
        "Running",
        "Search",
        "Sending",
        "Serve",
        "Server",
        "Side",
        "Source",
        "Stage",
        "State",
        "Status",
        "Step",
        "Supervisor",
        "Taken",
        "Task",
        "Test",
        "Typed",
        "Unit",
        "Value",
        "Verdict",
        "Watch",
    ],
};

impl Package {
    /// Returns the path of its `Cargo.toml`.
    pub fn manifest(&self) -> String {
        let path = format!("{}/Cargo.toml", self.directory);
        path.trim_start_matches('/').to_owned()
    }

    /// Returns the directories with floors.
    pub fn houses(&self) -> impl Iterator<Item = &House> {
        [&self.house].into_iter().chain(self.parts)
    }

    /// Returns the directories of the library and of each program.
    pub fn crates(&self) -> impl Iterator<Item = &House> {
        self.houses().filter(|house| house.module.is_empty())
    }
}
