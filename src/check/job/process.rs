//! What a process and its node say: the environment, the libraries, NICs, interfaces, modules.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::command::{self, Environment};
use super::evidence::{JobEvidence, SECRET};
use super::library;
use super::table::RULES;
use super::values::strtol;
use crate::request::JobProcess;
use crew::launcher::{LauncherTask, node_count};
use facts::error::{Context, Failure};
use node::machine::{self, Machine};
use node::reading;

/// Variables with the number of ranks on this node.
const RANKS_ON_NODE: [&str; 4] = [
    "SLURM_STEP_TASKS_PER_NODE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PALS_LOCAL_SIZE",
];

/// Facts that hold if a process has loaded, or its program needs, a library with this beginning.
const LIBRARIES: [(&str, &str); 4] = [
    ("nccl", "libnccl.so"),
    ("nccl", "librccl.so"),
    ("cray_mpich", "libmpi_cray"),
    ("mpich", "libmpich"),
];

/// Names below which the file of a plugin does not have its names as texts. [I]
const FEW_NAMES: usize = 8;

/// Reads what is known of a process. `command` is what will start in it. `asks` libfabric, unless
/// another process of the node does.
///
/// # Errors
///
/// A process of another user, or one that has ended.
pub fn read(
    process: JobProcess,
    command: &[OsString],
    task: Option<&LauncherTask>,
) -> Result<JobEvidence, Failure> {
    let words: Vec<&str> = command.iter().filter_map(|word| word.to_str()).collect();
    let (directory, mut environment) = match process {
        JobProcess::Own => (PathBuf::from("/proc/self"), env::vars_os().collect()),
        JobProcess::Running(pid) => {
            let directory = PathBuf::from(format!("/proc/{pid}"));
            let environment = environment_of(&directory)?;
            (directory, environment)
        }
    };
    let mut program = None;
    if !words.is_empty() {
        let own = environment.clone();
        environment.extend(command::settings(&words));
        program = command::program(&words, &environment);
        // What follows its name is for the program.
        let before = program.as_ref().map_or(words.len(), |program| program.place);
        environment = own.into_iter().chain(command::settings(&words[..before])).collect();
    }
    let value = |name: &str| {
        let value = environment.get(OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    };
    let (root, maps, origin) = match (process, &program) {
        (JobProcess::Running(pid), _) => {
            let maps = reading::text(&directory.join("maps")).unwrap_or_default();
            // Files of a container are below its root.
            (directory.join("root"), maps, format!("in the memory of process {pid}"))
        }
        (JobProcess::Own, Some(program)) => (
            PathBuf::from("/"),
            program.libraries.clone(),
            format!("loaded by {}", words[program.place]),
        ),
        (JobProcess::Own, None) => (PathBuf::from("/"), String::new(), String::new()),
    };
    let search_path = value("LD_LIBRARY_PATH").unwrap_or_default();
    let loaded = library::files_in(&maps, library::SONAME);
    let mut files = loaded.iter().map(|path| root.join(path.trim_start_matches('/')));
    let (file, origin) = match (files.next(), &program) {
        (Some(file), _) => (file, origin),
        (None, Some(program)) => {
            (library::SONAME.into(), format!("{} needs it", words[program.place]))
        }
        (None, None) => {
            let (file, origin) = library::find(&root, &search_path);
            (file, origin.to_owned())
        }
    };
    let mut facts = node_facts(&Machine::this(), &value("SLINGSHOT_DEVICES").unwrap_or_default());
    let ranks = RANKS_ON_NODE.iter().find_map(|name| strtol(&value(name)?).map(|n| n.0));
    let numbers = [("nodes", node_count(value).map(Into::into)), ("ranks_on_node", ranks)];
    facts.extend(
        numbers
            .into_iter()
            .filter_map(|(name, number)| Some((name.to_owned(), number?.to_string()))),
    );
    if LauncherTask::find(value).is_ok_and(|task| task.is_some()) {
        let status = reading::text(&directory.join("status")).unwrap_or_default();
        let nodes = numa_nodes(&Machine::this(), &status);
        facts.insert("numa_nodes".into(), nodes.join(","));
    }
    let networks =
        (0..words.len()).filter_map(|place| command::option_value(&words, place, "--network"));
    facts.extend(networks.last().map(|text| ("--network".into(), text.into())));
    let mut holds = |fact: &str, is_true: bool| {
        facts.extend(is_true.then(|| (fact.to_owned(), "1".to_owned())));
    };
    for (fact, beginning) in LIBRARIES {
        holds(fact, !library::files_in(&maps, beginning).is_empty());
    }
    let is_running = matches!(process, JobProcess::Running(_));
    holds("without_nic", is_running && !maps.contains("/dev/cxi"));
    if let Some(plugin) = plugin(&maps, &search_path, &root) {
        facts.extend(version_in_path(&plugin).map(|version| ("plugin_version".into(), version)));
        let bytes = fs::read(root.join(plugin.trim_start_matches('/'))).unwrap_or_default();
        let names = names_in(&bytes);
        facts.extend((names.len() >= FEW_NAMES).then(|| ("plugin_names".into(), names.join(","))));
        facts.insert("nccl_plugin".into(), plugin);
    }
    let pairs = environment.iter().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let mut evidence = JobEvidence::new(pairs, facts);
    (evidence.file, evidence.origin) = (file.display().to_string(), origin);
    evidence.is_asked_elsewhere =
        task.and_then(|task| task.local_rank).is_some_and(|rank| rank > 0);
    if evidence.is_asked_elsewhere {
        return Ok(evidence);
    }
    if program.is_some() && loaded.is_empty() {
        let why = format!("{}: {}, but it is not found", evidence.file, evidence.origin);
        evidence.untested.push(why);
        return Ok(evidence);
    }
    let mut answers = Vec::new();
    for file in [file].into_iter().chain(files) {
        match library::ask(&file, &environment) {
            Ok(answer) => answers.push(answer),
            Err(failure) => evidence.untested.push(failure.message()),
        }
    }
    let mut answers = answers.into_iter();
    evidence.library = answers.next();
    evidence.other_libraries = answers.collect();
    if let Some(library) = &evidence.library {
        evidence.conf = configuration(&library.path, &root);
    }
    Ok(evidence)
}

/// Returns the environment with which a process of this user began.
fn environment_of(directory: &Path) -> Result<Environment, Failure> {
    let what = format!("cannot read {}", directory.join("environ").display());
    let owner = fs::metadata(directory).environment(&what)?.uid();
    // The library of the process is loaded with the rights of this one.
    let own = rustix::process::geteuid().as_raw();
    if owner != own {
        let pid = directory.display();
        let message = format!("{pid} belongs to user {owner}: check it as this user, not as {own}");
        return Err(Failure::environment(message));
    }
    let bytes = fs::read(directory.join("environ")).environment(&what)?;
    let pair = |entry: &[u8]| {
        let place = entry.iter().position(|byte| *byte == b'=').filter(|place| *place > 0)?;
        let (name, value) = entry.split_at(place);
        Some((OsString::from_vec(name.into()), OsString::from_vec(value[1..].into())))
    };
    Ok(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
}

/// Returns the facts of the node of a job with these NICs.
fn node_facts(machine: &Machine, devices: &str) -> BTreeMap<String, String> {
    let names = |path: &str| {
        let names = reading::names(&machine.root().join(path)).unwrap_or_default();
        let mut names: Vec<String> =
            names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    };
    let exists = |path: &str| reading::exists(&machine.root().join(path));
    let nics = names("sys/class/cxi");
    let interfaces = names("sys/class/net");
    let hsn = interfaces.iter().filter(|name| name.starts_with("hsn")).cloned().collect();
    let mut gpus = names("proc/driver/nvidia/gpus");
    gpus.extend(exists("dev/kfd").then(|| "kfd".to_owned()));
    let with_rendezvous = |wanted: &str| {
        let listed = |nic: &&String| {
            devices.is_empty() || devices.split(',').any(|device| device.trim() == nic.as_str())
        };
        let has = |nic: &&String| {
            let file = format!("sys/class/cxi/{nic}/device/properties/rdzv_get_en");
            reading::text(&machine.root().join(file)).is_ok_and(|text| text.trim() == wanted)
        };
        nics.iter().filter(listed).filter(has).cloned().collect::<Vec<_>>()
    };
    let lists = [
        ("rdzv_get_on", with_rendezvous("1")),
        ("rdzv_get_off", with_rendezvous("0")),
        ("nics", nics.clone()),
        ("interfaces", interfaces),
        ("hsn", hsn),
        ("infiniband", names("sys/class/infiniband")),
        ("gpus", gpus),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let mut facts: BTreeMap<String, String> =
        lists.map(|(name, list)| (name.to_owned(), list.join(","))).collect();
    // [I] The device is the sign of a module that is part of the kernel.
    if !exists("sys/module/kdreg2") && !exists("dev/kdreg2") {
        facts.insert("no_kdreg2".into(), "1".into());
    }
    facts
}

/// Returns the NUMA nodes of the CPUs that a process may use, by its status.
fn numa_nodes(machine: &Machine, status: &str) -> Vec<String> {
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.and_then(|list| machine::list(list.trim())).unwrap_or_default();
    let directory = machine.root().join("sys/devices/system/node");
    let mut nodes: Vec<String> = reading::names(&directory)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let number = name.strip_prefix("node")?.to_owned();
            let cpus = reading::text(&directory.join(&name).join("cpulist")).ok()?;
            let cpus = machine::list(cpus.trim())?;
            cpus.iter().any(|cpu| allowed.contains(cpu)).then_some(number)
        })
        .collect();
    nodes.sort_by_key(|number| number.parse::<u32>().ok());
    nodes
}

/// Returns the libfabric plugin that NCCL finds: in memory, by LD_LIBRARY_PATH, or by the cache of
/// the dynamic linker.
fn plugin(maps: &str, search_path: &str, root: &Path) -> Option<String> {
    let is_plugin = |name: &str| name.starts_with("libnccl-net") || name.starts_with("librccl-net");
    let mut loaded = library::files_in(maps, "libnccl-net");
    loaded.extend(library::files_in(maps, "librccl-net"));
    let in_directory = |directory: &str| {
        let names = reading::names(&root.join(directory.trim_start_matches('/'))).ok()?;
        let found = names.iter().filter_map(|name| name.to_str()).find(|name| is_plugin(name))?;
        Some(format!("{directory}/{found}"))
    };
    let cache = || {
        let cache = fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
        let cache = String::from_utf8_lossy(&cache).into_owned();
        cache.split('\0').find(|name| is_plugin(name)).map(str::to_owned)
    };
    let mut directories = search_path.split(':').filter(|directory| !directory.is_empty());
    loaded.into_iter().next().or_else(|| directories.find_map(in_directory)).or_else(cache)
}

/// Returns the version in a path such as `/opt/aws-ofi-nccl/1.19.0/lib`. [I]
fn version_in_path(path: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let mut words = path.split(['/', '-']).skip_while(|word| *word != "nccl");
    words.find(is_version).map(str::to_owned)
}

/// Returns the names of settings in the file of the plugin, which are texts in it. [I]
fn names_in(bytes: &[u8]) -> Vec<&str> {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let words = bytes.split(|byte| !is_part(byte)).filter_map(|word| str::from_utf8(word).ok());
    let names =
        words.filter(|word| word.len() > "OFI_NCCL_".len() && word.starts_with("OFI_NCCL_"));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the settings in the system file of the libfabric at `path`. [I] Cray's versions have it
/// beside their libraries.
fn configuration(path: &str, root: &Path) -> BTreeMap<String, String> {
    let prefix = Path::new(path).parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let files = [prefix.join("etc/libfabric.conf"), root.join("etc/libfabric.conf")];
    let text = files.iter().find_map(|file| reading::text(file).ok()).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.filter(|(name, _)| RULES.has("family", name));
    let pairs = pairs.map(|(name, value)| {
        let value = if RULES.has("secret", name) { SECRET } else { value };
        (name.to_owned(), value.to_owned())
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::evidence::LibfabricAnswer;
    use node::machine::testing::MadeUp;

    fn shown(facts: &BTreeMap<String, String>) -> String {
        let facts: Vec<String> =
            facts.iter().map(|(name, text)| format!("{name}={text}")).collect();
        facts.join(" ")
    }

    #[test]
    fn reads_the_facts_of_a_node() {
        let property = |nic: u32| format!("sys/class/cxi/cxi{nic}/device/properties/rdzv_get_en");
        let made_up = MadeUp::new(&[
            (&property(0), "1\n"),
            (&property(1), "0\n"),
            (&property(10), "0\n"),
            ("sys/class/net/hsn0/mtu", "9000"),
            ("sys/class/net/lo/mtu", "65536"),
            ("sys/module/kdreg2/refcnt", "0"),
            ("proc/driver/nvidia/gpus/0000:01:00.0/information", ""),
        ]);
        assert_eq!(
            shown(&node_facts(&made_up.machine(), "cxi0, cxi1")),
            "gpus=0000:01:00.0 hsn=hsn0 interfaces=lo,hsn0 nics=cxi0,cxi1,cxi10 rdzv_get_off=cxi1 \
             rdzv_get_on=cxi0"
        );
        assert_eq!(shown(&node_facts(&MadeUp::new(&[]).machine(), "")), "no_kdreg2=1");
    }

    #[test]
    fn finds_the_numa_nodes_of_a_rank() {
        let made_up = MadeUp::new(&[
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node1/cpulist", "4-7\n"),
            ("sys/devices/system/node/node10/cpulist", "8-11\n"),
        ]);
        let nodes = |status: &str| numa_nodes(&made_up.machine(), status);
        assert_eq!(nodes("Name:\tx\nCpus_allowed_list:\t2-4,9\n"), ["0", "1", "10"]);
        assert_eq!(nodes("Cpus_allowed_list:\t1\n"), ["0"]);
        assert!(nodes("").is_empty());
    }

    #[test]
    fn finds_the_plugin_of_nccl() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("opt/aws-ofi-nccl/1.19.0/lib");
        fs::create_dir_all(&directory).unwrap();
        let find = |maps: &str| plugin(maps, "/none:/opt/aws-ofi-nccl/1.19.0/lib", root.path());
        assert_eq!(find(""), None);
        fs::write(directory.join("libnccl-net.so"), "").unwrap();
        let path = "/opt/aws-ofi-nccl/1.19.0/lib/libnccl-net.so";
        assert_eq!(find("").as_deref(), Some(path));
        assert_eq!(version_in_path(path).as_deref(), Some("1.19.0"));
        assert_eq!(version_in_path("/usr/lib/libnccl-net.so"), None);
        let maps = "7f00-7f01 r-xp 00000000 08:01 12  /x/librccl-net.so.0\n";
        assert_eq!(find(maps).as_deref(), Some("/x/librccl-net.so.0"));
    }

    #[test]
    fn reads_the_names_that_a_plugin_knows() {
        let bytes = b"\0OFI_NCCL_\0OFI_NCCL_CQ_SIZE\0x OFI_NCCL_PROTOCOL=%s\0OFI_NCCL_CQ_SIZE\0\xffNCCL_NET";
        assert_eq!(names_in(bytes), ["OFI_NCCL_CQ_SIZE", "OFI_NCCL_PROTOCOL"]);
    }

    #[test]
    fn system_file_counts_where_the_environment_has_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        let text = "# a\nFI_CXI_ODP=1\nFI_HMEM=cuda\nPATH=/x\nFI_CXI_API_KEY=abc\n";
        fs::write(root.path().join("etc/libfabric.conf"), text).unwrap();
        let conf = configuration("/none/lib/libfabric.so.1", root.path());
        assert_eq!(conf.len(), 3);
        assert_eq!(conf["FI_CXI_API_KEY"], SECRET);
        let with = |version: &str| {
            let library = LibfabricAnswer { version: version.into(), ..LibfabricAnswer::default() };
            let environment = [("FI_HMEM".to_owned(), "system".to_owned())];
            let evidence = JobEvidence::new(environment, BTreeMap::new());
            let evidence = JobEvidence { conf: conf.clone(), ..evidence };
            evidence.with_library(Some(&library)).settings
        };
        assert_eq!(with("1.18")["FI_CXI_ODP"], "1");
        assert_eq!(with("1.18")["FI_HMEM"], "system");
        assert!(!with("1.17").contains_key("FI_CXI_ODP"));
    }
}
