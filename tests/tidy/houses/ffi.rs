//! The packages below `ffi`.

use super::{House, Package};

pub const LIBCXI: Package = Package {
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
                ("libfabric", "what an installed libfabric says about itself"),
                ("records", "command and event records, and their fields"),
            ],
            &[("lib", "all of it under one name")],
        ],
    },
    parts: &[],
    repeated_types: &[],
};

pub const WRAPPER: Package = Package {
    name: "cxi",
    directory: "ffi/cxi",
    uses: &["cxi-sys"],
    holds: "one owner type for each object of libcxi, command batches, events, memory, fences; all \
            `unsafe` code above `cxi-sys` but the software NIC's",
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
                ("inherited", "descriptors that this process inherited, and standard streams"),
                ("signals", "signals of this process and of its group, with who has sent each"),
            ],
            &[("pages", "memory of whole pages, ordinary or huge")],
            &[
                ("bus", "memory of rings, their cursors, launch pages"),
                ("event", "one event"),
                ("gpu", "memory of GPUs"),
                ("library", "the table of functions, and the order in which objects are released"),
                ("placement", "the CPUs of a thread, the NUMA node of its memory"),
            ],
            &[("launch", "doorbells and low-latency writes")],
            &[("observer", "what the NIC says about its objects, for any thread")],
            &[("device", "NICs and their information")],
            &[
                ("lni", "interface of the process on a NIC, VNI, traffic class"),
                ("service", "services: the right to use a NIC"),
            ],
            &[
                ("counter", "counting events"),
                ("memory", "memory of the host or of a GPU, mapped for the NIC"),
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
    repeated_types: &[],
};

pub const TOPOLOGY: Package = Package {
    name: "topology",
    directory: "ffi/topology",
    uses: &[],
    holds: "the shape of a fabric as plain data, its reader for `CXIDIAG_TOPOLOGY`, its text",
    must_not: "contain rules of a NIC",
    house: House {
        directory: "ffi/topology/src",
        module: "",
        shown_in: &["ffi/topology/src/lib.rs"],
        floors: &[
            &[
                ("description", "switches, NICs, cables, directed links, rules and faults"),
                ("grammar", "words `name=value`, of other variables of the software NIC, too"),
            ],
            &[("items", "items of a file, their values, and the fabric that they describe so far")],
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

pub const SOFTWARE_NIC: Package = Package {
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
                ("pages", "memory shared with other threads and processes"),
                ("random", "random numbers from a seed"),
                ("summary", "the packets of a program, for `cxi-softnic`"),
            ],
            &[
                ("network", "switches and links between NICs, as functions of the time"),
                ("process_memory", "memory of the process, and memory that it may unmap"),
            ],
            &[("engine", "the NIC: a state machine without input or output")],
            &[
                ("counter_names", "the names of the telemetry counters"),
                ("cpu", "CPU time for the engine thread"),
                ("doorbell", "doorbells, which of them trap, the preloaded library"),
                ("environment", "NICs and driver parameters, from environment variables"),
                ("fork", "files that child processes must not inherit"),
            ],
            &[("fabric", "the wire between NICs: shared memory in a private directory")],
            &[("nic", "one open device: the engine, shared by the threads that run it")],
            &[("trap", "doorbells whose stores the library notices")],
            &[("runner", "the threads that run engines")],
            &[("counters", "the telemetry counters of a NIC, over all processes")],
            &[("libcxi", "the functions, their rules and errno values")],
            &[("sysfs", "the NICs as the kernel's files show them")],
            &[("snapshot", "files of sysfs and of the retry handler, and counters, at one moment")],
            &[("lib", "the names that users see")],
        ],
    },
    parts: &[ENGINE, HELPER_PROGRAM],
    repeated_types: &[],
};

const ENGINE: House = House {
    directory: "ffi/softnic/src/engine",
    module: "engine",
    shown_in: &["ffi/softnic/src/engine/mod.rs"],
    floors: &[
        &[
            ("address", "VNIs, addresses of portals table entries, match ids"),
            ("arithmetic", "the arithmetic of atomic operations"),
            ("return_codes", "return codes, and the error flags that they set"),
            ("table", "tables of objects by number"),
        ],
        &[
            ("counter", "counting events"),
            ("packet_counts", "counts of packets"),
            ("telemetry", "telemetry counters"),
            ("wire", "packets, and the wire as the engine sees it"),
        ],
        &[
            ("event_queue", "event queues"),
            ("lists", "list entries, and the places of operations in them"),
            ("location", "copies and atomic updates of memory of the CPU or of a GPU"),
            ("ring", "the NIC's side of a command queue"),
        ],
        &[
            ("memory", "addresses as the NIC sees them"),
            ("transactions", "operations that wait for their response"),
        ],
        &[
            ("commands", "the fields of commands"),
            ("events", "the fields of events"),
            ("lni", "LNIs"),
        ],
        &[
            ("portal", "portals table entries, and matching"),
            ("triggers", "triggered operations, and commands about counters"),
        ],
        &[("rendezvous", "gets of rendezvous puts")],
        &[
            ("remembered", "the landing of the last put"),
            ("target_queue", "target queues, and what their commands do"),
            ("transmit", "transmit queues, and what their commands do"),
        ],
        &[("state", "all objects of one open NIC, and operations in progress there")],
        &[
            ("admission", "whether a received operation is accepted"),
            ("received", "received puts, gets and atomic operations, and how they end"),
        ],
        &[("mod", "polling, received packets, doorbells, failed peers, removal of objects")],
    ],
};

const HELPER_PROGRAM: House = House {
    directory: "ffi/softnic/src/bin/cxi-softnic",
    module: "",
    shown_in: &[],
    floors: &[
        &[
            ("namespace", "a mount namespace in which programs see the NICs"),
            ("summarized", "the packets of a program, after its end"),
        ],
        &[("main", "starts a program that sees software NICs")],
    ],
};
