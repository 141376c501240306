//! The packages below `src`, and the program itself.

use super::{House, Package};

pub const TOPOLOGY: Package = Package {
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
            &[
                ("description", "switches, NICs, cables, rules and faults"),
                ("grammar", "words `name=value`, of other variables of the software NIC, too"),
            ],
            &[
                ("link", "directed links, with what faults leave of them"),
                ("values", "the values of words"),
            ],
            &[("items", "items of a file, and the fabric that they describe so far")],
            &[
                ("dragonfly", "the item for a whole dragonfly"),
                ("faults", "the items for what is wrong"),
            ],
            &[("parser", "files and the short form"), ("tree", "a fabric as text")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const FACTS: Package = Package {
    name: "facts",
    directory: "src/facts",
    uses: &[],
    holds: "what everything else is built from: errors, numbers, names, units",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/facts",
        module: "",
        shown_in: &["src/facts/lib.rs"],
        floors: &[
            &[
                ("atomic", "atomic operations: names, numbers on the wire, sizes"),
                ("bandwidth_unit", "the units in which the text shows bandwidths"),
                ("error", "why a run ends without a result, and its exit status"),
                ("error_flag", "error flags of a NIC that programs can set"),
                ("host", "this host"),
                ("job", "the batch job of this process"),
                ("limit", "time limits of waits"),
                ("number", "numbers as users type them"),
                ("percentile", "percentiles by nearest rank"),
                ("platform", "the kinds of NICs, and what each kind allows"),
                ("rate", "rates that a run is to keep: intended start times"),
                ("release", "the sources that this program was built from"),
                ("robust", "robust statistics: medians, spreads, quantiles"),
                ("severity", "how good something is that was checked"),
                ("size", "sizes of operations in bytes"),
                ("text", "texts from outside"),
                ("threads", "threads of this program"),
                ("time_of_day", "the time of day without steps of the clock"),
                ("token", "the secret of a pair of processes"),
                ("user_file", "files that users name"),
            ],
            &[
                ("advice", "what a refused call or a bad event means, and what to do"),
                ("atomic_model", "what an atomic operation makes of a value"),
                ("child", "processes of this program that another one starts"),
                ("device", "names of NICs, and the library that opens them"),
                ("expect", "bounds on metrics, as typed after `--expect`"),
                ("interrupt", "early ends of a run: signals, output without a reader"),
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

pub const DIAGNOSIS: Package = Package {
    name: "diagnosis",
    directory: "src/diagnosis",
    uses: &["facts"],
    holds: "from a culprit to its cause: tests, causes, and what figures and files prove",
    must_not: "measure, read files or print",
    house: House {
        directory: "src/diagnosis",
        module: "",
        shown_in: &["src/diagnosis/lib.rs"],
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

pub const NODE: Package = Package {
    name: "node",
    directory: "src/node",
    uses: &["cxi", "facts", "softnic"],
    holds: "this machine and its NICs: CPUs, memory, files of NICs, services; opens the device",
    must_not: "know options of tools",
    house: House {
        directory: "src/node",
        module: "",
        shown_in: &["src/node/lib.rs"],
        floors: &[
            &[
                ("explain", "errors of libcxi and of the NIC -> failures with remedies"),
                ("gpu", "buffers on GPUs"),
                ("nic", "the files of a NIC: counters, link, findings"),
                ("nic_states", "what the NIC says about its queues and portals, in words"),
                ("reading", "files that may not answer"),
            ],
            &[
                ("machine", "what this machine has: CPUs, memory, huge pages"),
                ("traffic_class", "how NICs and switches share their links"),
            ],
            &[
                ("backend", "opens the device: hardware library or software NIC"),
                ("local_address", "the address of this process on the fabric"),
                ("nic/health", "what is wrong with a NIC"),
                ("slingshot", "what the launcher has granted on the NICs of this node"),
            ],
            &[("service", "the service, VNI and traffic class to use")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &["Finding", "Found"],
};

pub const MEASURE: Package = Package {
    name: "measure",
    directory: "src/measure",
    uses: &["cxi", "facts", "node"],
    holds: "clocks, waiting for the NIC, recorder, statistics",
    must_not: "know options of tools",
    house: House {
        directory: "src/measure",
        module: "",
        shown_in: &["src/measure/lib.rs"],
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

pub const PLAN: Package = Package {
    name: "plan",
    directory: "src/plan",
    uses: &["cxi", "facts", "measure", "node"],
    holds: "tools as data, the command line, and what a run is to do",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/plan",
        module: "",
        shown_in: &["src/plan/lib.rs"],
        floors: &[
            &[("extensions", "the options of a run that legacy tools lack")],
            &[("run_options", "the options on which both sides agree")],
            &[("tool", "a tool as plain data")],
            &[
                ("buffers", "the data buffers of a run: number, lengths, pages"),
                ("outputs", "the outputs beside the text: formats, files"),
                ("tools", "the registry of the tools"),
            ],
            &[("role", "the role of a process, and how it meets its peer")],
            &[("typed", "the parsed command line")],
            &[("ineffective", "typed options without effect")],
            &[("lib", "options and defaults -> one valid, immutable `Plan`")],
            &[("cli", "arguments -> options; help from the same definitions")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const CLUSTER: Package = Package {
    name: "cluster",
    directory: "src/cluster",
    uses: &["facts"],
    holds: "surveys without a NIC: hosts, launchers, connections of processes, pairs, causes",
    must_not: "know libcxi",
    house: House {
        directory: "src/cluster",
        module: "",
        shown_in: &["src/cluster/lib.rs"],
        floors: &[
            &[
                ("blame", "what all searches for a cause have in common"),
                ("host_list", "lists of hosts as Slurm and Flux write them"),
                ("location", "where a NIC is: group, switch and port"),
            ],
            &[
                ("host_locations", "where hosts are, by a file or by Slurm"),
                ("launcher", "rank and size of a process, from its launcher"),
                ("survey", "which pairs are measured when, and what results say"),
            ],
            &[("load", "the fabric under load: who sends what to whom, and what that says")],
            &[("tree", "how the processes of a survey talk")],
            &[("meeting_point", "where processes find the coordinator of a survey")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const REPORT: Package = Package {
    name: "report",
    directory: "src/report",
    uses: &["cluster", "cxi", "diagnosis", "facts", "measure", "node", "plan"],
    holds: "results -> text and documents, and documents read back",
    must_not: "measure",
    house: House {
        directory: "src/report",
        module: "",
        shown_in: &["src/report/lib.rs"],
        floors: &[
            &[
                ("bins", "latencies in bins of equal ratio"),
                ("hdr_log", "latencies as an HdrHistogram log"),
                ("intervals", "the figures of intervals of a size"),
                ("json", "data -> one JSON document"),
                ("progress", "the progress of a size, on a terminal"),
                ("progress_line", "one line on a terminal"),
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
                ("measured_bandwidth", "what a bandwidth tool reports of a size"),
                ("noise", "how far a metric of one run can be trusted"),
                ("percentiles", "the block of percentiles after the table"),
                ("ping", "the answers of NICs, as data and as JSON"),
                ("selftest", "checks of facts about a NIC, as data and as JSON"),
                ("run_columns", "the columns of CSV about the run"),
                ("printed", "runs that tools printed, read back"),
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
                ("check_fleet_text", "the health of many nodes as text and as CSV"),
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
                ("reporter", "receives the results of a run and passes them on"),
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

pub const SELFTEST: Package = Package {
    name: "selftest",
    directory: "src/selftest",
    uses: &["cxi", "facts", "node", "report"],
    holds: "checks of what `docs/reference` says about the NIC, its driver and its library",
    must_not: "know which kind of NIC it checks",
    house: House {
        directory: "src/selftest",
        module: "",
        shown_in: &["src/selftest/lib.rs"],
        floors: &[
            &[("ended", "how a check ends, and comparisons that end it")],
            &[
                ("events", "events as checks see them, and waits for them"),
                ("provoked", "errors that checks provoke: how many, how far apart"),
            ],
            &[("bench", "what a check works with: both ends on one NIC")],
            &[("table", "a check as plain data")],
            &[("checks", "the checks, a file for each group")],
            &[("run", "selects checks and executes them")],
            &[("effects", "what the selected checks do to the NIC")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const DIAG: Package = Package {
    name: "diag",
    directory: "src/diag",
    uses: &["cluster", "cxi", "facts", "measure", "node", "plan", "report"],
    holds: "one measurement: benchmarks, control connection, measuring loops",
    must_not: "",
    house: House {
        directory: "src/diag",
        module: "",
        shown_in: &["src/diag/lib.rs"],
        floors: &[
            &[
                ("endpoint", "the place of this process on the fabric"),
                ("session", "the control connection to the peer"),
            ],
            &[("bench/api", "the trait `Benchmark`")],
            &[("bench/common", "what benchmarks share")],
            &[("bench", "the benchmarks, one transaction type each")],
            &[("run", "one run: roles, driver, size loop, measuring loops")],
            &[("targets", "targets that stay open, and measurements against them")],
            &[("run/survey", "the pairs that a process of a survey measures")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const PROGRAM: Package = Package {
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
        shown_in: &["src/lib.rs"],
        floors: &[
            &[("command", "what the program does beside measuring")],
            &[
                ("completion", "what a shell may offer for a word"),
                ("multicall", "`argv[0]` or the first argument -> tool or command"),
            ],
            &[("lib", "arguments in, exit status out"), ("main", "the process")],
        ],
    },
    parts: &[],
    repeated_types: &["Def"],
};
