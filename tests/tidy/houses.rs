//! The packages, their rooms by floor, and what each room holds. The rules about directions are
//! checked against this list, and the drawings of floors in documents and at the heads of packages
//! are made from it: `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes them.
//!
//! To add a room, add its line to a floor above all rooms that it uses. To show the floors of a
//! package in another file, add the file to `shown_in` and two lines to the file (`drawings.rs`).

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
}

/// All packages. A package uses only packages above it in this list.
pub static PACKAGES: &[Package] = &[
    LIBCXI,
    WRAPPER,
    TOPOLOGY,
    SOFTWARE_NIC,
    FACTS,
    DIAGNOSIS,
    NODE,
    MEASURE,
    PLAN,
    CLUSTER,
    REPORT,
    SELFTEST,
    DIAG,
    PROGRAM,
];

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
                ("signals", "signals, with who has sent each"),
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
            &[
                (
                    "observer",
                    "what the NIC says about its objects, for any thread",
                ),
                ("owned", "the order in which objects are released"),
            ],
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
                ("attempt", "single calls with any arguments"),
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
    },
    parts: &[],
    repeated_types: &["Device", "Memory", "Runtime"],
};

const TOPOLOGY: Package = Package {
    name: "topology",
    directory: "src/topology",
    uses: &[],
    holds: "the shape of a fabric as plain data, its reader for `CXIDIAG_TOPOLOGY`, its text",
    must_not: "contain rules of a NIC",
    house: House {
        directory: "src/topology",
        module: "",
        shown_in: &["src/topology/lib.rs"],
        floors: &[
            &[("description", "switches, NICs, cables, rules and faults")],
            &[
                ("link", "directed links, with what faults leave of them"),
                ("values", "the values of words"),
            ],
            &[(
                "items",
                "items of a file, and the fabric that they describe so far",
            )],
            &[
                ("dragonfly", "the item for a whole dragonfly"),
                ("faults", "the items for what is wrong"),
            ],
            &[
                ("parser", "files and the short form"),
                ("tree", "a fabric as text"),
            ],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const SOFTWARE_NIC: Package = Package {
    name: "softnic",
    directory: "ffi/softnic",
    uses: &["cxi-sys", "topology"],
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
                ("preload", "the library that `cxi-softnic` preloads"),
                ("random", "random numbers from a seed"),
            ],
            &[
                (
                    "network",
                    "switches and links between NICs, as functions of the time",
                ),
                ("process_memory", "what the process has mapped"),
            ],
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
        &[("page_costs", "pages whose translation takes time")],
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
};

const FACTS: Package = Package {
    name: "facts",
    directory: "src/facts",
    uses: &[],
    holds: "what everything else is built from: errors, numbers, names, units",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/facts",
        module: "",
        shown_in: &["docs/architecture.md", "src/facts/lib.rs"],
        floors: &[
            &[
                (
                    "atomic",
                    "atomic operations: names, numbers on the wire, sizes",
                ),
                (
                    "bandwidth_unit",
                    "the units in which the text shows bandwidths",
                ),
                (
                    "error",
                    "why a run ends without a result, and its exit status",
                ),
                ("host", "this host"),
                ("job", "the batch job of this process"),
                ("limit", "time limits of waits"),
                ("number", "numbers as users type them"),
                ("percentile", "percentiles by nearest rank"),
                ("platform", "the kinds of NICs, and what each kind allows"),
                ("rate", "rates that a run is to keep: intended start times"),
                ("release", "the sources that this program was built from"),
                ("size", "sizes of operations in bytes"),
                ("text", "texts from outside"),
                ("token", "the secret of a pair of processes"),
            ],
            &[
                (
                    "advice",
                    "what a refused call or a bad event means, and what to do",
                ),
                ("atomic_model", "what an atomic operation makes of a value"),
                ("child", "processes of this program that another one starts"),
                ("device", "names of NICs, and the library that opens them"),
                ("expect", "bounds on metrics, as typed after `--expect`"),
                (
                    "interrupt",
                    "early ends of a run: signals, output without a reader",
                ),
            ],
            &[
                ("figures", "the figures of one measurement between two NICs"),
                ("net", "connections without a protocol"),
                ("phase", "the phases of a run, by name"),
            ],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &["Unit"],
};

const DIAGNOSIS: Package = Package {
    name: "diagnosis",
    directory: "src/diagnosis",
    uses: &[],
    holds: "from a culprit to its cause: tests, causes, and what figures and files prove",
    must_not: "measure, read files or print",
    house: House {
        directory: "src/diagnosis",
        module: "",
        shown_in: &["docs/architecture.md", "src/diagnosis/lib.rs"],
        floors: &[
            &[
                ("readings", "what the files of a NIC and its node say"),
                ("procedure", "the tests, as data"),
            ],
            &[
                ("columns", "what the matrix of causes and tests compares"),
                ("counters", "what grows on the culprit and not on good NICs"),
                ("flows", "heaps of ordered flows between two groups"),
                ("healthy", "the figures of healthy NICs of a generation"),
                ("majority", "what most good NICs have"),
            ],
            &[
                ("cause", "what a cause consists of: signs, cells, advice"),
                ("causes", "the causes, as data"),
                ("comparison", "the figures of a culprit beside good NICs"),
                ("shared", "what several culprits have and good NICs do not"),
            ],
            &[
                ("ceilings", "what PCIe links carry, as a hint"),
                ("next_steps", "where to look if no cause is known"),
            ],
            &[("evaluation", "readings and figures -> causes")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const NODE: Package = Package {
    name: "node",
    directory: "src/node",
    uses: &["cxi", "facts", "softnic"],
    holds: "this machine and its NICs: CPUs, memory, files of NICs, services; opens the device",
    must_not: "know options of tools",
    house: House {
        directory: "src/node",
        module: "",
        shown_in: &["docs/architecture.md", "src/node/lib.rs"],
        floors: &[
            &[
                (
                    "explain",
                    "errors of libcxi and of the NIC -> failures with remedies",
                ),
                ("gpu", "buffers on GPUs"),
                ("nic", "the files of a NIC: counters, link, findings"),
                (
                    "nic_states",
                    "what the NIC says about its queues and portals, in words",
                ),
                ("reading", "files that may not answer"),
            ],
            &[
                ("machine", "what this machine has: CPUs, memory, huge pages"),
                ("traffic_class", "how NICs and switches share their links"),
            ],
            &[
                (
                    "backend",
                    "opens the device: hardware library or software NIC",
                ),
                ("local_address", "the address of this process on the fabric"),
                ("nic/health", "what is wrong with a NIC"),
                (
                    "slingshot",
                    "what the launcher has granted on the NICs of this node",
                ),
            ],
            &[("service", "the service, VNI and traffic class to use")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &["Finding", "Found"],
};

const MEASURE: Package = Package {
    name: "measure",
    directory: "src/measure",
    uses: &["cxi", "facts", "node"],
    holds: "clocks, waiting for the NIC, recorder, statistics",
    must_not: "know options of tools",
    house: House {
        directory: "src/measure",
        module: "",
        shown_in: &["docs/architecture.md", "src/measure/lib.rs"],
        floors: &[
            &[
                ("clock", "the clocks that the measuring loops read"),
                ("cpu_share", "whether threads had their CPUs to themselves"),
                ("live_histogram", "a histogram that another thread reads"),
                ("median_ranks", "the confidence interval of a median"),
                ("rank_test", "the Mann-Whitney U test"),
                ("rates", "bandwidth and packet rate of one size"),
                ("stats", "exact statistics of latencies"),
            ],
            &[
                ("crowding", "waits on a CPU that the peer needs too"),
                ("gauge", "the progress of a measurement, for another thread"),
                ("memory_copy", "how fast the memory of a node is copied"),
                ("own_error", "what the tool itself adds to a latency"),
                ("run_clock", "the clock of one run: choice and calibration"),
                ("side_view", "what one side has seen of a size"),
            ],
            &[
                ("recorder", "takes all samples of one size"),
                ("wait_policy", "waits for the NIC with a time limit"),
            ],
            &[("stability", "how well the median of a run is known")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const PLAN: Package = Package {
    name: "plan",
    directory: "src/plan",
    uses: &["cxi", "facts", "measure", "node"],
    holds: "tools as data, the command line, and what a run is to do",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/plan",
        module: "",
        shown_in: &["docs/architecture.md", "src/plan/lib.rs"],
        floors: &[
            &[("extensions", "the options of a run that legacy tools lack")],
            &[("run_options", "the options on which both sides agree")],
            &[("tool", "a tool as plain data")],
            &[
                (
                    "buffers",
                    "the data buffers of a run: number, lengths, pages",
                ),
                ("outputs", "the outputs beside the text: formats, files"),
                ("tools", "the registry of the tools"),
            ],
            &[("role", "the role of a process, and how it meets its peer")],
            &[("typed", "the parsed command line")],
            &[("ineffective", "typed options without effect")],
            &[("lib", "options and defaults -> one valid, immutable `Plan`")],
            &[(
                "cli",
                "arguments -> options; help from the same definitions",
            )],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const CLUSTER: Package = Package {
    name: "cluster",
    directory: "src/cluster",
    uses: &["facts"],
    holds: "surveys without a NIC: hosts, launchers, connections of processes, pairs, causes",
    must_not: "know libcxi",
    house: House {
        directory: "src/cluster",
        module: "",
        shown_in: &["docs/architecture.md", "src/cluster/lib.rs"],
        floors: &[
            &[
                ("host_list", "lists of hosts as Slurm and Flux write them"),
                ("location", "where a NIC is: group, switch and port"),
            ],
            &[
                ("host_locations", "where hosts are, by a file or by Slurm"),
                ("launcher", "rank and size of a process, from its launcher"),
                (
                    "survey",
                    "which pairs are measured when, and what results say",
                ),
            ],
            &[("tree", "how the processes of a survey talk")],
            &[(
                "meeting_point",
                "where processes find the coordinator of a survey",
            )],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const REPORT: Package = Package {
    name: "report",
    directory: "src/report",
    uses: &[
        "cluster",
        "cxi",
        "diagnosis",
        "facts",
        "measure",
        "node",
        "plan",
    ],
    holds: "results -> text and documents, and documents read back",
    must_not: "measure",
    house: House {
        directory: "src/report",
        module: "",
        shown_in: &["docs/architecture.md", "src/report/lib.rs"],
        floors: &[
            &[
                ("bins", "latencies in bins of equal ratio"),
                ("hdr_log", "latencies as an HdrHistogram log"),
                ("intervals", "the figures of intervals of a size"),
                ("json", "data -> one JSON document"),
                ("progress", "the progress of a size, on a terminal"),
                ("stream", "output without waiting forever for its reader"),
                ("table", "tables without a documented form"),
                ("wrap", "text in lines of a limited width"),
            ],
            &[("destination", "where documents go")],
            &[
                ("json_lines", "one line for each run, appended to a file"),
                ("openmetrics", "metrics as text"),
                ("outcome", "a run as plain data"),
                ("samples", "the samples of a run as comma-separated values"),
            ],
            &[
                ("check", "the health of NICs as JSON"),
                ("columns", "the columns of all tables of results"),
                ("counters", "what the counters of the NICs did"),
                ("documents", "documents: opened, written whole"),
                ("ending", "how a run has ended"),
                ("histogram", "the picture of a histogram in a terminal"),
                (
                    "measured_bandwidth",
                    "what a bandwidth tool reports of a size",
                ),
                ("noise", "how far a metric of one run can be trusted"),
                ("percentiles", "the block of percentiles after the table"),
                ("ping", "the answers of NICs, as data and as JSON"),
                (
                    "selftest",
                    "checks of facts about a NIC, as data and as JSON",
                ),
                ("run_columns", "the columns of CSV about the run"),
                ("runs", "runs that tools wrote, read back"),
            ],
            &[
                ("check_fleet", "the health of many nodes as JSON"),
                ("check_metrics", "the health of NICs as metrics"),
                ("check_record", "the health of NICs, read back"),
                ("check_text", "the health of NICs as text"),
                ("csv", "a run as comma-separated values"),
                ("differences", "what makes runs differ beside their results"),
                ("extra", "text after the documented table, on request"),
                ("ping_text", "the answers of NICs as text"),
                ("selftest_text", "checks of facts about a NIC as text"),
                ("stat", "what the NICs of a job did while a command ran"),
                ("text", "the table of results"),
            ],
            &[
                ("check_fleet_metrics", "the health of many nodes as metrics"),
                (
                    "check_fleet_text",
                    "the health of many nodes as text and as CSV",
                ),
                ("comparison", "runs of two sides compared"),
                ("run_documents", "the documents of a run"),
                ("sampler", "the thread that prints intervals"),
                ("summary", "the summary block before the results"),
            ],
            &[
                ("comparison_text", "a comparison as text"),
                ("devices", "the NICs of a machine, as text and as JSON"),
                ("run_facts", "what is known of a run before it measures"),
                ("survey", "a survey, as text and as documents"),
            ],
            &[
                ("why", "the diagnosis of one NIC, as data and as JSON"),
                (
                    "reporter",
                    "receives the results of a run and passes them on",
                ),
                ("changes", "surveys or checks of two sides compared"),
                ("results", "any results of ours, read back"),
                ("why_text", "the diagnosis of one NIC as text"),
            ],
            &[("html", "the page of `report`")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const SELFTEST: Package = Package {
    name: "selftest",
    directory: "src/selftest",
    uses: &["cxi", "facts", "node", "report"],
    holds: "checks of what `docs/reference` says about the NIC, its driver and its library",
    must_not: "know which kind of NIC it checks",
    house: House {
        directory: "src/selftest",
        module: "",
        shown_in: &["docs/architecture.md", "src/selftest/lib.rs"],
        floors: &[
            &[("ended", "how a check ends, and comparisons that end it")],
            &[("events", "events as checks see them, and waits for them")],
            &[("bench", "what a check works with: both ends on one NIC")],
            &[("table", "a check as plain data")],
            &[("checks", "the checks, a file for each group")],
            &[("run", "selects checks and executes them")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const DIAG: Package = Package {
    name: "diag",
    directory: "src/diag",
    uses: &[
        "cluster", "cxi", "facts", "measure", "node", "plan", "report",
    ],
    holds: "one measurement: benchmarks, control connection, measuring loops",
    must_not: "",
    house: House {
        directory: "src/diag",
        module: "",
        shown_in: &["docs/architecture.md", "src/diag/lib.rs"],
        floors: &[
            &[
                ("endpoint", "the place of this process on the fabric"),
                ("session", "the control connection to the peer"),
            ],
            &[("bench/api", "the trait `Benchmark`")],
            &[("bench/common", "what benchmarks share")],
            &[("bench", "the benchmarks, one transaction type each")],
            &[("run", "one run: roles, driver, size loop, measuring loops")],
            &[(
                "targets",
                "targets that stay open, and measurements against them",
            )],
            &[(
                "run/survey",
                "the pairs that a process of a survey measures",
            )],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

const PROGRAM: Package = Package {
    name: "cxidiag",
    directory: "",
    uses: &[
        "cluster",
        "cxi",
        "diag",
        "diagnosis",
        "facts",
        "measure",
        "node",
        "plan",
        "report",
        "selftest",
        "topology",
    ],
    holds: "the program: tools and commands by name",
    must_not: "",
    house: House {
        directory: "src",
        module: "",
        shown_in: &["docs/architecture.md", "src/lib.rs"],
        floors: &[
            &[("command", "what the program does beside measuring")],
            &[(
                "multicall",
                "`argv[0]` or the first argument -> tool or command",
            )],
            &[
                ("lib", "arguments in, exit status out"),
                ("main", "the process"),
            ],
        ],
    },
    parts: &[],
    repeated_types: &["Def"],
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
