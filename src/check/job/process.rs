//! What a process and its node say: the environment, the libraries, NICs, interfaces, modules. The
//! command of a job, as its script has it: the settings in its words, and the libraries that its
//! program loads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crew::launcher::{LauncherTask, node_count};
use facts::error::{Context, Failure};
use node::machine::{self, Machine};
use node::reading;

use crate::job::evidence::{JobEvidence, SECRET};
use crate::job::library::{self, Environment, SONAME};
use crate::job::table::RULES;
use crate::job::values::strtol;
use crate::options::JobProcess;

/// Variables with the number of ranks on this node.
const RANKS_ON_NODE: [&str; 4] = [
    "SLURM_STEP_TASKS_PER_NODE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PALS_LOCAL_SIZE",
];

/// Names below which the file of a plugin does not have its names as texts. [I]
const FEW_NAMES: usize = 8;

/// Beginnings of the names of plugins of NCCL and RCCL.
const PLUGINS: [&str; 2] = ["libnccl-net", "librccl-net"];

/// Reads what is known of a process. `command` is what will start in it. It asks libfabric unless
/// another task of its node does.
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
    let mut job = match process {
        JobProcess::Own => LoadedProcess::own(&words),
        JobProcess::Running(pid) => LoadedProcess::running(pid)?,
    };
    job.add_nccl_files();
    let mut facts = job.facts();
    let mut networks = (0..words.len()).filter_map(|at| option_value(&words, at, "--network"));
    facts.extend(networks.next_back().map(|text| ("--network".into(), text.into())));
    let pairs = job.environment.iter().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let mut evidence = JobEvidence::new(pairs, facts);
    let (files, origin) = job.libfabrics();
    evidence.file = files.first().map_or(String::new(), |file| file.display().to_string());
    evidence.origin = origin;
    evidence.is_asked_elsewhere = task.is_some_and(|task| !task.is_first_of_node());
    if evidence.is_asked_elsewhere {
        return Ok(evidence);
    }
    let mut answers = Vec::new();
    for file in &files {
        match library::ask(file, &job.environment) {
            Ok(answer) => answers.push(answer),
            Err(failure) if file.is_relative() => evidence.untested.push(format!(
                "no libfabric is found: load the modules of the job, or set LD_LIBRARY_PATH ({})",
                failure.message()
            )),
            Err(failure) => evidence.untested.push(failure.message()),
        }
    }
    if files.is_empty() {
        evidence.untested.push(evidence.origin.clone());
    }
    let mut answers = answers.into_iter();
    evidence.library = answers.next();
    evidence.other_libraries = answers.collect();
    if let Some(library) = &evidence.library {
        evidence.conf = configuration(&library.path, &job.root);
    }
    Ok(evidence)
}

/// A process whose settings are checked, or the program that will start in this one.
struct LoadedProcess {
    environment: Environment,
    /// Its directory in /proc.
    directory: PathBuf,
    /// The directory below which its files are: of its container, if it is in one.
    root: PathBuf,
    /// The files that it has loaded or will load, a path on each line.
    libraries: String,
    /// The program, or the process.
    name: String,
    is_running: bool,
    /// Whether its program needs libfabric.
    needs_libfabric: bool,
}

impl LoadedProcess {
    fn own(words: &[&str]) -> Self {
        let mut environment: Environment = env::vars_os().collect();
        let mut before = environment.clone();
        before.extend(settings(words));
        let program = program(words, &before);
        // What follows its name is for the program.
        let place = program.as_ref().map_or(words.len(), |program| program.place);
        environment.extend(settings(&words[..place]));
        Self {
            environment,
            directory: "/proc/self".into(),
            root: "/".into(),
            name: words.get(place).or(words.first()).copied().unwrap_or_default().to_owned(),
            is_running: false,
            needs_libfabric: program.is_some(),
            libraries: program.map_or(String::new(), |program| program.libraries),
        }
    }

    fn running(pid: u32) -> Result<Self, Failure> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        Ok(Self {
            environment: environment_of(&directory)?,
            root: directory.join("root"),
            libraries: reading::text(&directory.join("maps")).unwrap_or_default(),
            name: format!("process {pid}"),
            is_running: true,
            needs_libfabric: false,
            directory,
        })
    }

    /// Adds what the files of NCCL set and the environment does not, if the job uses NCCL.
    fn add_nccl_files(&mut self) {
        let begins = |name: &OsString| name.to_string_lossy().contains("NCCL_");
        let is_nccl = self.environment.keys().any(begins)
            || ["libnccl.so", "librccl.so"].iter().any(|name| !self.loaded(name).is_empty());
        let home = self.value("HOME").map(|home| format!("{home}/.nccl.conf"));
        let own = self.value("NCCL_CONF_FILE").or(home);
        for file in own.into_iter().chain(["/etc/nccl.conf".to_owned()]).filter(|_| is_nccl) {
            let text = reading::text(&self.root.join(file.trim_start_matches('/')));
            for (name, value) in settings_in(&text.unwrap_or_default()) {
                self.environment.entry(name.into()).or_insert(value.into());
            }
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = self.environment.get(OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    }

    fn loaded(&self, beginning: &str) -> Vec<String> {
        library::files_in(&self.libraries, beginning)
    }

    /// The files of libfabric that the process has loaded or will load, and how they were found;
    /// none if the program does not find its own.
    fn libfabrics(&self) -> (Vec<PathBuf>, String) {
        let Self { name, .. } = self;
        let loaded = self.loaded(library::SONAME);
        if !loaded.is_empty() || self.needs_libfabric {
            let files = loaded.iter().map(|path| self.root.join(path.trim_start_matches('/')));
            let origin = if loaded.is_empty() {
                format!("{name} needs {}, which is not found", library::SONAME)
            } else if self.is_running {
                format!("loaded by {name}")
            } else {
                format!("found for {name}")
            };
            return (files.collect(), origin);
        }
        let (file, origin) =
            library::find(&self.root, &self.value("LD_LIBRARY_PATH").unwrap_or_default());
        let origin = match (self.is_running, name.as_str()) {
            (true, _) => format!("{origin}; {name} has loaded none"),
            (false, "") => origin.to_owned(),
            (false, _) => format!("{origin}; no program of the command needs it itself"),
        };
        (vec![file], origin)
    }

    /// The facts of the process and of its node.
    fn facts(&self) -> BTreeMap<String, String> {
        let value = |name: &str| self.value(name);
        let flag = |is_true: bool| is_true.then(|| "1".to_owned());
        let has = |beginning: &str| !self.loaded(beginning).is_empty();
        let search_path = value("LD_LIBRARY_PATH").unwrap_or_default();
        let plugins = plugins(&self.libraries, &search_path, &self.root);
        let plugin = plugins.first();
        let bytes = plugin.map(|path| fs::read(self.root.join(path.trim_start_matches('/'))));
        let bytes = bytes.and_then(Result::ok).unwrap_or_default();
        let names = Some(names_in(&bytes)).filter(|names| names.len() >= FEW_NAMES);
        let task = LauncherTask::find(value).ok().flatten();
        let numa_nodes = task.map(|_| {
            let status = reading::text(&self.directory.join("status")).unwrap_or_default();
            numa_nodes(&Machine::this(), &status).join(",")
        });
        let ranks = RANKS_ON_NODE.iter().find_map(|name| strtol(&value(name)?).map(|n| n.0));
        let own = [
            ("nodes", node_count(value).map(|count| count.to_string())),
            ("ranks_on_node", ranks.map(|count| count.to_string())),
            ("numa_nodes", numa_nodes),
            ("nccl", flag(has("libnccl.so") || has("librccl.so"))),
            ("cray_mpich", flag(has("libmpi_cray"))),
            ("mpich", flag(has("libmpich"))),
            ("without_nic", flag(self.is_running && !self.libraries.contains("/dev/cxi"))),
            ("plugin_version", plugin.and_then(|path| version_in_path(path))),
            ("plugin_names", names.map(|names| names.join(","))),
            ("nccl_plugin", plugin.cloned()),
            ("nccl_plugins", plugin.map(|_| plugins.join(","))),
        ];
        let devices = value("SLINGSHOT_DEVICES").unwrap_or_default();
        let mut facts = node_facts(&Machine::this(), &devices);
        facts.extend(own.into_iter().filter_map(|(name, text)| Some((name.into(), text?))));
        facts
    }
}

/// The environment with which a process of this user began.
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

/// The facts of the node of a job with these NICs.
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

/// The NUMA nodes of the CPUs that a process may use, by its status.
fn numa_nodes(machine: &Machine, status: &str) -> Vec<String> {
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.and_then(|list| machine::list(list.trim())).unwrap_or_default();
    let is_used = |node: &u32| machine.cpus_of_node(*node).iter().any(|cpu| allowed.contains(cpu));
    machine.nodes().iter().filter(|node| is_used(node)).map(u32::to_string).collect()
}

/// The plugins that NCCL may find, the one that it finds first: in memory, by LD_LIBRARY_PATH, or
/// by the cache of the dynamic linker.
fn plugins(maps: &str, search_path: &str, root: &Path) -> Vec<String> {
    let loaded = PLUGINS.iter().flat_map(|beginning| library::files_in(maps, beginning));
    let directories = search_path.split(':').filter(|directory| !directory.is_empty());
    let listed = directories.flat_map(|directory| {
        let names = reading::names(&root.join(directory.trim_start_matches('/')));
        let names = names.unwrap_or_default().into_iter();
        names.map(move |name| format!("{directory}/{}", name.display()))
    });
    let cache = fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
    let cache = String::from_utf8_lossy(&cache);
    let cached = cache.split('\0').filter(|text| text.starts_with('/')).map(str::to_owned);
    let is_plugin = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        PLUGINS.iter().any(|beginning| name.starts_with(beginning))
    };
    loaded.chain(listed).chain(cached).filter(is_plugin).collect()
}

/// The version in a path such as `/opt/aws-ofi-nccl/1.19.0/lib`. [I]
fn version_in_path(path: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let mut words = path.split(['/', '-']).skip_while(|word| *word != "nccl");
    words.find(is_version).map(str::to_owned)
}

/// The settings in the lines `NAME=VALUE` of a file.
fn settings_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| RULES.has("family", name))
}

/// The names of settings in the file of the plugin, which are texts in it. [I]
fn names_in(bytes: &[u8]) -> Vec<&str> {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let words = bytes.split(|byte| !is_part(byte)).filter_map(|word| str::from_utf8(word).ok());
    let names =
        words.filter(|word| word.len() > "OFI_NCCL_".len() && word.starts_with("OFI_NCCL_"));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The settings in the system file of the libfabric at `path`. [I] Cray's versions have it beside
/// their libraries.
fn configuration(path: &str, root: &Path) -> BTreeMap<String, String> {
    let prefix = Path::new(path).parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let files = [prefix.join("etc/libfabric.conf"), root.join("etc/libfabric.conf")];
    let text = files.iter().find_map(|file| reading::text(file).ok()).unwrap_or_default();
    let pairs = settings_in(&text).map(|(name, value)| {
        let value = if RULES.has("secret", name) { SECRET } else { value };
        (name.to_owned(), value.to_owned())
    });
    pairs.collect()
}

/// A program that needs libfabric.
#[derive(Debug)]
struct JobProgram {
    /// Place of its name among the words.
    pub place: usize,
    /// Its libraries, a path on each line.
    pub libraries: String,
}

/// The settings in the words of a command: `NAME=VALUE` as `env` and `mpirun -x` take them, the
/// list of `srun --export`, and the two words behind `-genv` of Hydra.
fn settings(words: &[&str]) -> Vec<(OsString, OsString)> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        match (option_value(words, place, "--export"), &words[place..]) {
            (Some(list), _) => {
                pairs.extend(list.split(',').filter_map(|pair| pair.split_once('=')))
            }
            (None, ["-genv" | "-env", name, value, ..]) => pairs.push((name, value)),
            _ => pairs.extend(word.split_once('=')),
        }
    }
    let is_setting =
        |name: &str| matches!(name, "PATH" | "LD_LIBRARY_PATH") || RULES.has("family", name);
    let pairs = pairs.into_iter().filter(|(name, _)| is_setting(name));
    pairs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// The value of an option that ends at this place: `--option=VALUE` or `--option VALUE`.
fn option_value<'a>(words: &[&'a str], place: usize, option: &str) -> Option<&'a str> {
    let is_option = |place: usize| words[place] == option;
    let own = words[place].strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
    own.or_else(|| place.checked_sub(1).filter(|place| is_option(*place)).map(|_| words[place]))
}

/// The last program of a command that needs libfabric, by the dynamic linker, which lists the
/// libraries of each word that is a file; nothing is started. `None` if none of them needs it: a
/// script, or a program that loads it later.
fn program(words: &[&str], environment: &Environment) -> Option<JobProgram> {
    let own = reading::text(Path::new("/proc/self/maps")).unwrap_or_default();
    let linker = library::files_in(&own, "ld-linux").into_iter().next()?;
    let path = environment.get(&OsString::from("PATH")).cloned().unwrap_or_default();
    words.iter().enumerate().rev().find_map(|(place, word)| {
        let mut lister = Command::new(&linker);
        lister.arg(file(word, &path)?).env_clear();
        lister.envs(environment.iter().filter(|(name, _)| *name != "LD_PRELOAD"));
        // With it, the dynamic linker of glibc prints the libraries and ends, as for ldd.
        lister.env("LD_TRACE_LOADED_OBJECTS", "1");
        let (text, _) = library::output_within_limit(&mut lister, word).ok()?;
        let text = String::from_utf8_lossy(&text);
        // libfabric.so.1 => /opt/cray/libfabric.so.1 (0x00007f...)
        let lines = text.lines().map(|line| line.split(" (0x").next().unwrap_or(line));
        let libraries = lines.map(|line| format!("{line}\n")).collect::<String>();
        libraries.contains(SONAME).then_some(JobProgram { place, libraries })
    })
}

/// The file that is executed for a word.
fn file(word: &str, path: &OsString) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|file| file.is_file());
    }
    std::env::split_paths(path).map(|directory| directory.join(word)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use node::machine::testing::MadeUp;

    use super::*;
    use crate::job::evidence::LibfabricAnswer;

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
        let find = |maps: &str| plugins(maps, "/none:/opt/aws-ofi-nccl/1.19.0/lib", root.path());
        assert!(find("").is_empty());
        fs::write(directory.join("libnccl.so"), "").unwrap();
        fs::write(directory.join("libnccl-net.so"), "").unwrap();
        let path = "/opt/aws-ofi-nccl/1.19.0/lib/libnccl-net.so";
        assert_eq!(find(""), [path]);
        assert_eq!(version_in_path(path).as_deref(), Some("1.19.0"));
        assert_eq!(version_in_path("/usr/lib/libnccl-net.so"), None);
        let maps = "7f00-7f01 r-xp 00000000 08:01 12  /x/librccl-net.so.0\n";
        assert_eq!(find(maps), ["/x/librccl-net.so.0", path]);
    }

    #[test]
    fn files_of_nccl_count_where_the_environment_has_nothing() {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            (
                "etc/nccl.conf",
                "# site\nNCCL_NET=Socket\nNCCL_CROSS_NIC=1\nNCCL_DEBUG=WARN\nPATH=/x\n",
            ),
            ("home/.nccl.conf", "NCCL_CROSS_NIC=2\n"),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let read = |environment: &[(&str, &str)]| {
            let pairs = environment.iter().chain(&[("HOME", "/home")]);
            let pairs = pairs.map(|(name, value)| (OsString::from(name), OsString::from(value)));
            let environment = pairs.collect();
            let mut job =
                LoadedProcess { environment, root: root.path().into(), ..LoadedProcess::own(&[]) };
            job.add_nccl_files();
            let pairs = job.environment.iter().filter(|(name, _)| *name != "HOME");
            let pairs =
                pairs.map(|(name, value)| format!("{}={}", name.display(), value.display()));
            pairs.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(read(&[("FI_CXI_ODP", "1")]), "FI_CXI_ODP=1");
        let expected = "NCCL_CROSS_NIC=2 NCCL_DEBUG=INFO NCCL_NET=Socket";
        assert_eq!(read(&[("NCCL_DEBUG", "INFO")]), expected);
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

    #[test]
    fn reads_settings_as_launchers_do() {
        let settings = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let found = settings(&words).into_iter();
            let found =
                found.map(|(name, value)| format!("{}={}", name.display(), value.display()));
            found.collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("env FI_CXI_ODP=1 A=2 LD_LIBRARY_PATH=/x ./app", "FI_CXI_ODP=1 LD_LIBRARY_PATH=/x"),
            (
                "srun --export=ALL,FI_PROVIDER=cxi,NCCL_NET=OFI ./app",
                "FI_PROVIDER=cxi NCCL_NET=OFI",
            ),
            ("srun --export ALL,FI_PROVIDER=cxi ./app", "FI_PROVIDER=cxi"),
            ("mpirun -x NCCL_SOCKET_IFNAME=hsn0,hsn1 ./app", "NCCL_SOCKET_IFNAME=hsn0,hsn1"),
            (
                "mpiexec -genv FI_PROVIDER tcp -env FI_CXI_ODP 1 ./app",
                "FI_PROVIDER=tcp FI_CXI_ODP=1",
            ),
            ("./app -genv", ""),
        ] {
            assert_eq!(settings(line), expected, "{line}");
        }
    }

    #[test]
    fn programs_without_libfabric_and_files_that_are_none_are_passed_over() {
        let environment: Environment = std::env::vars_os().collect();
        assert!(file("sh", &environment[&OsString::from("PATH")]).is_some());
        assert!(
            program(&["env", "--none", "/etc/passwd", "no-such-program"], &environment).is_none()
        );
    }
}
