//! The packages below `src`, and the program itself.

use super::{House, Package};

pub const FACTS: Package = Package {
    name: "facts",
    directory: "src/facts",
    uses: &[],
    holds: "what everything else is built from: errors, numbers, names, units",
    must_not: "open a device",
    house: House {
        directory: "src/facts",
        module: "",
        shown_in: &["src/facts/lib.rs"],
        floors: &[
            &[
                ("groups", "values in groups of equal keys"),
                ("named_enum", "enums whose variants have names"),
            ],
            &[
                ("atomic", "atomic operations: names, numbers on the wire, sizes"),
                ("bandwidth_unit", "the units in which the text shows bandwidths"),
                ("error", "why a run ends without a result, and its exit status"),
                ("error_flag", "error flags of a NIC that programs can set"),
                ("host", "this host"),
                ("job", "the batch job of this process"),
                ("limit", "time limits of waits"),
                ("number", "numbers as users type them, sizes of operations"),
                ("percentile", "percentiles by nearest rank"),
                ("rate", "rates that a run is to keep: intended start times"),
                ("release", "the sources that this program was built from"),
                ("robust", "robust statistics: medians, spreads, quantiles"),
                ("severity", "how good something is that was checked"),
                ("text", "texts from outside"),
                ("threads", "threads of this program"),
                ("time_of_day", "the time of day without steps of the clock"),
                ("token", "the secret of a pair of processes"),
                ("user_file", "files that users name"),
            ],
            &[
                ("advice", "what a refused call or a bad event means, and what to do"),
                ("child", "processes of this program that another one starts"),
                ("device", "names of NICs, and the library that opens them"),
                ("expect", "bounds on metrics, as typed after `--expect`, and published figures"),
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
                (
                    "explain",
                    "errors of libcxi and of the NIC, and its states -> failures with remedies",
                ),
                ("gpu", "buffers on GPUs"),
                ("nic", "the files of a NIC: counters, link, PCIe"),
                ("programs", "programs of the host that show more than its files"),
                ("reading", "files that may not answer"),
            ],
            &[
                ("machine", "what this machine has: CPUs, memory, huge pages"),
                ("traffic_class", "how NICs and switches share their links"),
            ],
            &[
                ("backend", "opens the device: hardware library or software NIC"),
                ("local_address", "the address of this process on the fabric"),
                ("slingshot", "what the launcher has granted on the NICs of this node"),
            ],
            &[("service", "the service, VNI and traffic class to use")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const HEALTH: Package = Package {
    name: "health",
    directory: "src/health",
    uses: &["cxi", "facts", "node"],
    holds: "what files and counters of a NIC and its host mean: items, limits, sensors, findings",
    must_not: "read options, open a device or print",
    house: House {
        directory: "src/health",
        module: "",
        shown_in: &["src/health/lib.rs"],
        floors: &[
            &[
                ("item", "something that is checked, and what was found"),
                ("link_down", "why a link is down"),
                ("link_rates", "what the counters of a link did"),
                ("sensors", "the sensors of a card, with their limits"),
            ],
            &[
                ("address", "items: address on the fabric, retry handler"),
                ("findings", "what the counters of a NIC explain"),
                ("host", "items: settings of the host"),
                ("identity", "what has no limit: generation, firmware, driver, QoS profile"),
                ("pcie", "items: lanes and speed of the connection to the host"),
                ("presence", "items: whether the NICs are there"),
                ("services", "item: who may use the NIC"),
                (
                    "temperature_power",
                    "items: chip, end of the cable, voltage regulators, supplies",
                ),
                ("traffic", "items: loopback writes and reads"),
            ],
            &[("cable", "items: firmware of the cable, switch port")],
            &[("link", "items: state, speed, mode and flaps of the link")],
            &[
                ("code_words", "items: error rates of the link"),
                ("majority", "what most good NICs have"),
            ],
            &[("lib", "the list of modules and items")],
        ],
    },
    parts: &[],
    repeated_types: &[],
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
            &[("rank_test", "the Mann-Whitney U test"), ("stats", "exact statistics of latencies")],
            &[
                ("clock", "the clocks that the measuring loops read, and the clock of one run"),
                ("crowding", "waits on a CPU that the peer needs too"),
                ("gauge", "the progress of a measurement, for another thread"),
                ("memory_copy", "how fast the memory of a node is copied"),
                ("own_error", "what the tool itself adds to a latency"),
                ("rates", "bandwidth and packet rate of one size"),
            ],
            &[("wait_policy", "waits for the NIC with a time limit")],
            &[("recorder", "takes all samples of one size; how well their median is known")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const PAGE: Package = Package {
    name: "page",
    directory: "src/page",
    uses: &["facts"],
    holds: "what results are made of: pages, tables, metrics, documents",
    must_not: "know what is measured",
    house: House {
        directory: "src/page",
        module: "",
        shown_in: &["src/page/lib.rs"],
        floors: &[
            &[
                ("csv", "comma-separated values"),
                ("problem", "a failure in documents"),
                ("progress_line", "one line on a terminal"),
                ("stream", "output without waiting forever for its reader"),
                ("table", "tables without a documented form"),
            ],
            &[
                ("destination", "where documents go"),
                ("page", "what people read of a result: data -> terminals, Markdown"),
            ],
            &[
                ("json", "data -> one JSON document, or one line for each run"),
                ("openmetrics", "metrics as text"),
            ],
            &[("documents", "documents: opened, written whole")],
            &[("lib", "the list of modules; texts on standard output")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const CLI: Package = Package {
    name: "cli",
    directory: "src/cli",
    uses: &["facts", "page"],
    holds: "the command line: options, their help, the reader of arguments",
    must_not: "know a tool or a command",
    house: House {
        directory: "src/cli",
        module: "",
        shown_in: &["src/cli/lib.rs"],
        floors: &[
            &[("values", "values: from what was typed to what is set")],
            &[
                (
                    "parser",
                    "arguments -> what was typed; refusals in our words, names for misspelt ones",
                ),
                ("usage", "what a command takes: help, manual, completion"),
            ],
            &[("derived", "the options of a command, from the struct of its request")],
            &[("definition", "an option: its syntax, its help and what it sets")],
            &[
                ("arguments", "arguments that several commands read alike"),
                ("output", "what a command prints and writes"),
            ],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const CAMPAIGN: Package = Package {
    name: "campaign",
    directory: "src/survey/campaign",
    uses: &["crew", "facts", "health"],
    holds: "what the members of a survey do together, which pairs they measure, and what results say",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/survey/campaign",
        module: "",
        shown_in: &["src/survey/campaign/lib.rs"],
        floors: &[
            &[("blame", "what all searches for a cause have in common")],
            &[("quiet", "which pairs are measured when without load, and what results say")],
            &[("timetable", "who does what when, and what processes send each other about it")],
            &[("slots", "what the members do together in slots, and in which order")],
            &[("coordinator", "the crew of campaigns: orders, reports and lost members")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const LOAD: Package = Package {
    name: "load",
    directory: "src/survey/load",
    uses: &["campaign", "crew", "facts"],
    holds: "the fabric under load: which NICs send what to whom in which slot, and what that says",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/survey/load",
        module: "",
        shown_in: &["src/survey/load/lib.rs"],
        floors: &[
            &[
                ("findings", "what the fabric does under load, as data"),
                ("spec", "the patterns of load, and which of them the user wants"),
            ],
            &[
                ("limits", "the limits of figures, and what the shape of a fabric allows"),
                ("roles", "who makes load and who is judged"),
                ("slot", "all flows of one slot, and what NICs sent in it"),
            ],
            &[
                ("safety", "how much load is allowed, and when it ends early"),
                ("victims", "the latencies of victims"),
            ],
            &[
                ("culprits", "parts of the fabric that explain slow flows by themselves"),
                ("flows", "the flows of each pattern among NICs"),
                ("impacts", "what load does to the latencies of victims"),
            ],
            &[("bandwidths", "bandwidths under a pattern")],
            &[
                ("blame", "which part of the fabric slow flows have in common"),
                ("course", "the steps of a survey under load"),
                ("verdicts", "judgements on figures, and what retests say about them"),
            ],
            &[("results", "all results under load so far, and what they say")],
            &[("round", "the slots of all steps, once")],
            &[("conductor", "a fabric under load in progress, and its campaign")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const WHY: Package = Package {
    name: "why",
    directory: "src/survey/why",
    uses: &["campaign", "crew", "facts", "health"],
    holds: "why NICs are slow: what is measured and read for it, and the causes",
    must_not: "read files or print",
    house: House {
        directory: "src/survey/why",
        module: "",
        shown_in: &["src/survey/why/lib.rs"],
        floors: &[
            &[("causes", "what figures and files prove: causes, and how they fit")],
            &[("culprits", "the culprits of a verdict, and why they are slow")],
            &[("slots", "what is measured for a culprit, and what has come of it")],
            &[("investigation", "the members read files and measure")],
            &[("unmeasured", "NICs, switches and groups of which only files are read")],
            &[("verdict", "the campaign after a survey")],
            &[("suspect", "the campaign about one NIC")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const PLAN: Package = Package {
    name: "plan",
    directory: "src/plan",
    uses: &["cli", "cxi", "facts", "measure", "node", "page"],
    holds: "tools as data, their arguments, and what a run is to do",
    must_not: "open a device or a connection",
    house: House {
        directory: "src/plan",
        module: "",
        shown_in: &["src/plan/lib.rs"],
        floors: &[
            &[("depths", "what stands before the entry or message that matches")],
            &[("extensions", "the options of a run that legacy tools lack")],
            &[("run_options", "the options on which both sides agree")],
            &[("tool", "a tool as plain data")],
            &[
                ("buffers", "the data buffers of a run: number, lengths, pages"),
                ("outputs", "the outputs beside the text: formats, files"),
                ("tools", "the registry of the tools"),
            ],
            &[("role", "the role of a process, and how it meets its peer")],
            &[("typed", "the parsed command line; typed options without effect")],
            &[("lib", "options and defaults -> one valid, immutable `Plan`")],
            &[("options", "the options of tools, each declared once")],
            &[("command_line", "arguments of tools -> what was typed; help")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const CREW: Package = Package {
    name: "crew",
    directory: "src/crew",
    uses: &["facts"],
    holds: "processes on many hosts: host lists, launchers, the meeting point, the star, locations",
    must_not: "know what is measured",
    house: House {
        directory: "src/crew",
        module: "",
        shown_in: &["src/crew/lib.rs"],
        floors: &[
            &[
                ("host_list", "lists of hosts as Slurm and Flux write them"),
                ("location", "where a NIC is: group, switch and port"),
            ],
            &[
                ("introduction", "how a process introduces itself to its coordinator"),
                ("launcher", "rank and size of a process, from its launcher"),
            ],
            &[("star", "how the processes of a crew talk")],
            &[("meeting_point", "where processes find their coordinator, and how they join it")],
            &[("gathering", "the documents of the tasks of a launcher in one place")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const STAT: Package = Package {
    name: "stat",
    directory: "src/stat",
    uses: &["cli", "crew", "cxi", "facts", "health", "measure", "node", "page"],
    holds: "what the NICs of a job did while any command ran: records of nodes, and their report",
    must_not: "use a NIC",
    house: House {
        directory: "src/stat",
        module: "",
        shown_in: &["src/stat/lib.rs"],
        floors: &[
            &[
                ("counter_set", "sets of counters in a fixed order"),
                ("note", "lines on standard error beside the report"),
                ("outliers", "which NICs of a job stand out from the others"),
            ],
            &[
                ("events", "the signals of the leader, as a stream"),
                ("job_findings", "what the counters of all NICs of a job explain"),
                ("record", "what the NICs of a node showed before and after a command"),
                ("series", "counters of a node over time, and the thread that reads them"),
            ],
            &[
                ("job", "the report of all nodes: what their NICs did, as JSON has it"),
                ("step_directory", "the files of all nodes of a parallel program"),
            ],
            &[
                (
                    "parallel_program",
                    "the parallel program of a process; its processes here, and who leads",
                ),
                ("text", "the report as text"),
            ],
            &[("metrics", "the report as metrics")],
            &[("options", "what `stat` takes, and what its arguments ask for")],
            &[
                ("nics", "the NICs of this node, read before and after; its record before"),
                ("output", "where the report goes: text, CSV, trace, documents"),
                ("top", "`--top`: a screen of the NICs of this node, once a second"),
            ],
            &[
                ("attached", "`--start` and `--stop`: two readings by two processes"),
                ("gather", "the report of all nodes, from their files"),
            ],
            &[("launch", "the leader of a node: reads, runs the command, reads again")],
            &[("lib", "arguments -> one of these forms")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const REPORT: Package = Package {
    name: "report",
    directory: "src/report",
    uses: &["cxi", "facts", "health", "measure", "node", "page", "plan"],
    holds: "results -> text and documents, and documents read back",
    must_not: "measure",
    house: House {
        directory: "src/report",
        module: "",
        shown_in: &["src/report/lib.rs"],
        floors: &[
            &[
                ("bins", "latencies in bins of equal ratio"),
                ("intervals", "the figures of intervals of a size"),
            ],
            &[
                ("columns", "the columns of all tables of results"),
                ("counters", "what the counters of the NICs did"),
                (
                    "distribution",
                    "latencies as text: the block of percentiles, the picture of a histogram",
                ),
                ("noise", "how far a metric of one run can be trusted"),
                ("outcome", "a run as plain data, and how it ended"),
            ],
            &[
                ("csv", "a run as comma-separated values"),
                ("extra", "text after the documented table, on request"),
                ("text", "the table of results"),
            ],
            &[
                ("current_size", "what was set about the size that is measured, and its bandwidth"),
                ("nic_table", "NICs measured one after the other: table and documents"),
                ("run_documents", "the documents of a run"),
                ("sampler", "the thread that prints intervals"),
                ("summary", "the summary block before the results"),
            ],
            &[("run_facts", "what is known of a run before it measures")],
            &[("live_output", "what is shown while a size is measured; progress on a terminal")],
            &[("reporter", "receives the results of a run and passes them on")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const SESSION: Package = Package {
    name: "session",
    directory: "src/session",
    uses: &["crew", "cxi", "facts", "measure", "node", "plan"],
    holds: "the control connection between the two sides of a run",
    must_not: "know how a benchmark measures",
    house: House {
        directory: "src/session",
        module: "",
        shown_in: &["src/session/lib.rs"],
        floors: &[
            &[
                ("link_error", "why an exchange of messages failed"),
                ("wire", "messages and the option block, bytes <-> records"),
            ],
            &[
                ("admission", "whether two sides measure together: jobs, tokens, busy servers"),
                ("control_line", "messages between a server of all tools and its processes"),
                ("terms", "run options <-> option block"),
            ],
            &[("wait", "the time limits of a wait, what the user is told of it, and ticks")],
            &[
                ("connection", "a connection, and the exchange of messages over it"),
                ("peer_facts", "what two cxidiag tell each other in the handshake"),
            ],
            &[
                ("connect", "how a client finds its server"),
                ("handshake", "identifies the peer and agrees on the run; without a socket"),
            ],
            &[("open", "an open session, from the handshake to the last barrier")],
            &[
                ("counters", "the counters of a server's NIC as messages"),
                (
                    "reception",
                    "connections to a server in their handshake, lines about refused ones",
                ),
            ],
            &[("dry_run", "the handshake on bytes without a socket, for fuzzing")],
            &[("join", "how a client begins a session, and how a process takes it over")],
            &[
                ("arrivals", "how a server of all tools receives its clients"),
                ("probe_feed", "the figures of the probes of a server"),
                ("requests", "requests to `cxidiag serve` other than a run"),
                ("server", "a server's socket, from client to client, and its answers to others"),
            ],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const DIAG: Package = Package {
    name: "diag",
    directory: "src/diag",
    uses: &["cxi", "facts", "health", "measure", "node", "page", "plan", "report", "session"],
    holds: "one measurement: benchmarks and measuring loops",
    must_not: "",
    house: House {
        directory: "src/diag",
        module: "",
        shown_in: &["src/diag/lib.rs"],
        floors: &[
            &[
                ("endpoint", "the place of this process on the fabric"),
                ("probe", "a short run of a tool whose result a command reads"),
            ],
            &[("bench/api", "the trait `Benchmark`")],
            &[("bench/common", "what benchmarks share")],
            &[("bench", "the benchmarks, one transaction type each")],
            &[("run", "one run: roles, driver, size loop, measuring loops")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const SELFTEST: Package = Package {
    name: "selftest",
    directory: "src/selftest",
    uses: &["cli", "cxi", "diag", "facts", "node", "page", "plan"],
    holds: "checks of what `docs/reference` says about the NIC, its driver and its library",
    must_not: "know which kind of NIC it checks",
    house: House {
        directory: "src/selftest",
        module: "",
        shown_in: &["src/selftest/lib.rs"],
        floors: &[
            &[
                ("document", "the result as data and as JSON"),
                ("ended", "how a check ends, and comparisons that end it"),
            ],
            &[
                ("events", "events as checks see them, and waits for them"),
                ("peer", "checks that need a second NIC"),
            ],
            &[("bench", "what a check works with: both ends on one NIC")],
            &[
                ("nic", "what is known of the NIC and its software"),
                ("table", "a check as plain data"),
            ],
            &[("checks", "the checks, a file for each group")],
            &[("run", "selects checks and executes them")],
            &[("text", "the result as text, and what the selected checks do to the NIC")],
            &[("command", "what the command takes, and its course")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const DEVICES: Package = Package {
    name: "devices",
    directory: "src/devices",
    uses: &["cli", "cxi", "facts", "health", "node", "page", "topology"],
    holds: "the NICs of a machine: `devices`",
    must_not: "measure",
    house: House {
        directory: "src/devices",
        module: "",
        shown_in: &["src/devices/lib.rs"],
        floors: &[
            &[("inventory", "the NICs, as text and as JSON")],
            &[("command", "what the command takes, and its course")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const PING: Package = Package {
    name: "ping",
    directory: "src/ping",
    uses: &["cli", "diag", "facts", "node", "page", "plan", "report"],
    holds: "whether NICs of other hosts answer: `ping`",
    must_not: "measure by itself",
    house: House {
        directory: "src/ping",
        module: "",
        shown_in: &["src/ping/lib.rs"],
        floors: &[
            &[("document", "the answers, as data and as JSON")],
            &[("text", "the answers as text")],
            &[("command", "what the command takes, and its rounds of writes")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const CHECK: Package = Package {
    name: "check",
    directory: "src/check",
    uses: &[
        "cli", "crew", "cxi", "diag", "facts", "health", "node", "page", "plan", "report",
        "session",
    ],
    holds: "the health of NICs and nodes, also under load, and settings of jobs: `check`",
    must_not: "measure by itself",
    house: House {
        directory: "src/check",
        module: "",
        shown_in: &["src/check/lib.rs"],
        floors: &[
            &[
                ("document", "the health of NICs, as data and as JSON"),
                ("fleet_document", "the health of many nodes, as data and as JSON"),
                ("note", "lines on standard error beside the check"),
                ("stress_document", "NICs under load, as data and as JSON"),
                ("traffic", "short runs of tools through one NIC"),
            ],
            &[
                ("lock", "one check with traffic at a time"),
                ("metrics", "the health of NICs as metrics"),
                ("options", "what `check` takes, and what its arguments ask for"),
                ("text", "the health of NICs as text"),
            ],
            &[("examine", "the check of one NIC, from first reading to findings")],
            &[
                ("fleet", "the checks of many nodes: asked through `cxidiag serve`, and in one"),
                ("of_node", "the check of this node"),
            ],
            &[
                (
                    "cxi_heatsink_check",
                    "HPE's cxi_heatsink_check: its options, its course and its text",
                ),
                ("stress", "`check --stress`: its course; reads sensors and counts bytes"),
            ],
            &[("job", "whether the settings of a job take effect")],
            &[("lib", "arguments -> one of these checks")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const LINK: Package = Package {
    name: "link",
    directory: "src/link",
    uses: &["check", "cli", "facts", "health", "node", "page"],
    holds: "the links of NICs: `link`, and HPE's cxi_stat",
    must_not: "open a device",
    house: House {
        directory: "src/link",
        module: "",
        shown_in: &["src/link/lib.rs"],
        floors: &[
            &[
                ("document", "the links of NICs and what their counters did, as data and as JSON"),
                ("options", "what `link` takes"),
            ],
            &[
                ("cxi_stat", "HPE's cxi_stat: its options, its course and its text"),
                ("text", "the links of NICs as text"),
            ],
            &[("lib", "arguments -> document and text")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const MEMBERS: Package = Package {
    name: "members",
    directory: "src/survey/members",
    uses: &[
        "campaign", "crew", "cxi", "diag", "facts", "health", "load", "measure", "node", "plan",
        "session",
    ],
    holds: "what the NICs of a member of a survey measure in their slots, and NICs of a prober",
    must_not: "choose what is measured",
    house: House {
        directory: "src/survey/members",
        module: "",
        shown_in: &["src/survey/members/lib.rs"],
        floors: &[
            &[("targets", "targets that stay open, and measurements against them")],
            &[
                ("nics", "the pairs that the NICs of a process measure"),
                ("prober_nic", "a NIC that probes others all day"),
            ],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const SURVEY: Package = Package {
    name: "survey",
    directory: "src/survey",
    uses: &[
        "campaign", "check", "cli", "crew", "cxi", "diag", "facts", "hang", "health", "load",
        "measure", "members", "node", "page", "plan", "session", "topology", "why",
    ],
    holds: "`survey` and `why`: many NICs measured with each other, and what is slow",
    must_not: "judge a measurement",
    house: House {
        directory: "src/survey",
        module: "",
        shown_in: &["src/survey/lib.rs"],
        floors: &[
            &[
                ("locations", "where NICs are, from files or the launcher"),
                ("processes", "members that the coordinator starts on its own machine"),
                ("result", "a survey, as data, text and documents"),
            ],
            &[
                ("nic_diagnosis", "the diagnosis of one NIC, as data, as JSON and as text"),
                ("outputs", "documents, notes, progress, and the text at the end"),
            ],
            &[("request", "what the arguments ask for")],
            &[
                ("diagnosis_course", "the tests of a diagnosis"),
                ("member", "a process that measures as the coordinator orders"),
            ],
            &[
                ("launch", "how the members start, and which of them have joined"),
                ("program", "what the program does for the coordinator"),
            ],
            &[("load_setup", "the load, from what is wanted to what is measured")],
            &[
                ("coordinator", "leads the campaigns one after the other"),
                ("options", "what `survey` takes, and effects of options of tools"),
            ],
            &[("why_command", "`why`: what it takes, and its course")],
            &[("lib", "`survey`: arguments -> coordinator or member")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const SERVE: Package = Package {
    name: "serve",
    directory: "src/serve",
    uses: &[
        "cli", "crew", "cxi", "diag", "facts", "health", "measure", "members", "node", "page",
        "plan", "session",
    ],
    holds: "the server of all tools and NICs of a machine, and its probes: `serve`",
    must_not: "keep a client waiting without a word",
    house: House {
        directory: "src/serve",
        module: "",
        shown_in: &["src/serve/lib.rs"],
        floors: &[
            &[
                ("probe", "probes all day: which targets, when, and what has come of them"),
                ("queue", "whose turn it is"),
            ],
            &[
                ("board", "what the threads of the prober share"),
                ("ending", "how a client and its process have ended"),
                ("limits", "what clients may ask for"),
                ("log", "the lines about events"),
                ("probe_metrics", "what probes have measured, as metrics"),
            ],
            &[
                ("client", "a client, and the process that measures with it"),
                ("probing", "the process that probes other nodes, and who probes this one"),
            ],
            &[("prober", "the process that probes other nodes"), ("supervisor", "the main thread")],
            &[("lib", "options, and the start of the server")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const COMPARE: Package = Package {
    name: "compare",
    directory: "src/compare",
    uses: &[
        "campaign", "check", "cli", "crew", "facts", "health", "load", "measure", "node", "page",
        "plan", "report", "stat", "survey", "why",
    ],
    holds: "results read back: `compare`, and `report` with its page",
    must_not: "measure",
    house: House {
        directory: "src/compare",
        module: "",
        shown_in: &["src/compare/lib.rs"],
        floors: &[
            &[
                ("layer_costs", "what a layer of software costs, and how its costs changed"),
                ("printed_run", "one run that a tool printed: its lines -> its outcome"),
                ("runs", "runs that tools wrote, read back"),
            ],
            &[("program_run", "one run that a program of another layer printed -> its outcome")],
            &[
                ("changes", "surveys or checks of two sides compared"),
                ("expected", "stored runs against expectations"),
                ("printed", "runs that tools printed, read back"),
            ],
            &[("grouping", "runs of two sides, grouped by what they measured")],
            &[("comparison", "runs of two sides compared")],
            &[
                ("layers", "what each layer of software adds, and which one changed"),
                ("results", "any results of ours, read back"),
                ("text", "a comparison as text"),
            ],
            &[
                ("command", "`compare`: what it takes, and its course"),
                ("html", "the page of `report`"),
            ],
            &[("report", "`report`: what it takes, and its course")],
            &[("lib", "the list of modules")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const EXPLAIN: Package = Package {
    name: "explain",
    directory: "src/explain",
    uses: &["check", "cli", "cxi", "facts", "node", "page"],
    holds: "logs of failed jobs, and the cause in them",
    must_not: "measure, or send traffic",
    house: House {
        directory: "src/explain",
        module: "",
        shown_in: &["src/explain/lib.rs"],
        floors: &[
            &[
                ("document", "the explanation, as data, JSON and text"),
                ("line", "time, host, rank and NIC of a line"),
                ("table", "known messages, read from messages.txt"),
            ],
            &[
                ("here", "what this node says about possible causes"),
                ("scan", "reads logs, and counts their messages"),
            ],
            &[("judge", "which message is the cause")],
            &[("lib", "arguments -> explanation")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const HANG: Package = Package {
    name: "hang",
    directory: "src/hang",
    uses: &["cli", "crew", "cxi", "diag", "facts", "health", "node", "page", "session"],
    holds: "`why --job`: a job that makes no progress, seen from outside",
    must_not: "attach to a process, signal one that no stack tool has stopped, or allocate on a NIC",
    house: House {
        directory: "src/hang",
        module: "",
        shown_in: &["src/hang/lib.rs"],
        floors: &[
            &[
                ("nics", "whether the NICs of the job move data"),
                ("process", "a process from its files: what it holds and does"),
            ],
            &[
                ("ranks", "the processes of a job on this node"),
                ("stacks", "stacks of a process, read by eu-stack or gdb"),
            ],
            &[("calls", "the stacks of a rank -> the call in which it waits")],
            &[("call_watch", "the calls of all ranks, in a given time")],
            &[("reading", "one node over some seconds")],
            &[
                ("finding", "what the table says, and ranks in groups"),
                ("merging", "several nodes as one"),
            ],
            &[("call_rows", "rows of the decision table that need the calls of ranks")],
            &[("table", "the decision table: readings -> findings")],
            &[("document", "the report, as data, JSON and text")],
            &[("gathering", "all nodes of a job at one place")],
            &[("lib", "a request -> reading, report and documents")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const PROGRAM: Package = Package {
    name: "cxidiag",
    directory: "",
    uses: &[
        "check", "cli", "compare", "cxi", "devices", "diag", "explain", "facts", "link", "node",
        "page", "ping", "plan", "report", "selftest", "serve", "stat", "survey",
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
    repeated_types: &[],
};
