//! `cxidiag serve --probe`: servers that probe each other, on the addresses of one machine.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::harness::kernel::FAILING;
use crate::harness::{
    CXIDIAG, Command, Fabric, Server, assert_status, assert_success, finish, stdout,
};
use serve::probe_metrics;

/// Time between two looks at a file.
const SLICE: Duration = Duration::from_millis(50);

/// Servers on 127.0.0.2, 127.0.0.3 and so on, with soft1, soft2 and so on.
struct Nodes {
    fabric: Fabric,
    directory: tempfile::TempDir,
    port: u16,
    servers: BTreeMap<u32, Server>,
}

impl Nodes {
    /// Prepares a list with this many nodes.
    fn new(count: u32) -> Self {
        let free = TcpListener::bind("127.0.0.2:0").expect("a free port");
        let nodes = Self {
            fabric: Fabric::new(),
            directory: tempfile::tempdir().expect("a directory"),
            port: free.local_addr().expect("an address").port(),
            servers: BTreeMap::new(),
        };
        nodes.set_hosts(1..=count);
        nodes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn set_hosts(&self, numbers: impl Iterator<Item = u32>) {
        let lines: Vec<String> = numbers.map(|number| address(number) + "\n").collect();
        fs::write(self.path("new"), lines.concat()).expect("a file");
        fs::rename(self.path("new"), self.path("hosts")).expect("a file");
    }

    fn metrics(&self, number: u32) -> PathBuf {
        self.path(&format!("metrics{number}")).join("cxidiag-probe.prom")
    }

    fn command(&self, number: u32, args: &str) -> Command {
        self.command_of(number, Path::new(CXIDIAG), &[], args)
    }

    /// The server as the last arguments of a program.
    fn command_of(&self, number: u32, program: &Path, before: &[&str], args: &str) -> Command {
        fs::create_dir_all(self.metrics(number).parent().expect("a directory")).expect("one");
        let [hosts, file] = [self.path("hosts"), self.metrics(number)];
        let (address, port) = (address(number), self.port);
        let server = format!("serve -d soft{number} --bind={address} -p {port} {args}");
        let words: Vec<&str> = before.iter().copied().chain(server.split_whitespace()).collect();
        let mut command = self.fabric.command_of(program, &words[..]);
        command
            .arg(format!("--probe=@{}", hosts.display()))
            .arg(format!("--openmetrics={}", file.display()))
            .env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "10");
        command
    }

    fn start(&mut self, number: u32, args: &str) {
        let command = self.command(number, args);
        self.servers.insert(number, Server::start(command));
    }

    fn start_with<const N: usize>(&mut self, number: u32, variables: [(&str, &str); N]) {
        let mut command = self.command(number, "");
        command.envs(variables);
        self.servers.insert(number, Server::start(command));
    }

    /// Waits until the metrics of a node satisfy `holds`, and returns them.
    fn wait_for(&self, number: u32, mut holds: impl FnMut(&Metrics) -> bool) -> Metrics {
        loop {
            let metrics = Metrics(fs::read_to_string(self.metrics(number)).unwrap_or_default());
            if holds(&metrics) {
                return metrics;
            }
            thread::sleep(SLICE);
        }
    }

    fn signal(&self, number: u32, name: &str) {
        send_signal(name, self.servers[&number].id());
    }

    /// The process of a server that probes. It starts with the server.
    fn prober(&self, number: u32) -> u32 {
        let server = self.servers[&number].id();
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let children = children.expect("a list of processes");
        let mut children = children.split_whitespace().map(|id| id.parse().expect("a number"));
        children.next().expect("a process that probes")
    }

    /// Ends a server as a service manager does.
    fn stop(&mut self, number: u32) -> String {
        self.signal(number, "TERM");
        let output = self.servers.remove(&number).expect("a server").finish();
        assert_status(&output, 0);
        stdout(&output)
    }

    fn stop_all(mut self) {
        for number in self.servers.keys().copied().collect::<Vec<_>>() {
            self.stop(number);
        }
        self.fabric.assert_nothing_left();
    }
}

fn send_signal(name: &str, process: u32) {
    let kill = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(kill.expect("kill").success());
}

fn address(number: u32) -> String {
    format!("127.0.0.{}", number + 1)
}

/// The text of a file of metrics.
#[derive(Debug)]
struct Metrics(String);

impl Metrics {
    /// The value of the sample with this name that has all these labels.
    fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let samples = self.0.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let mut samples = samples.filter(|line| labels.iter().all(|label| line.contains(label)));
        samples.next()?.rsplit(' ').next()?.parse().ok()
    }

    fn minimum(&self, target: u32) -> Option<f64> {
        let target = format!("target=\"{}\"", address(target));
        self.value("cxidiag_probe_latency_seconds", &[&target, "kind=\"min\""])
    }

    /// The number of bursts to a target, with those that this machine disturbed: with busy CPUs,
    /// all of them.
    fn bursts(&self, target: u32) -> Option<f64> {
        let target = format!("target=\"{}\"", address(target));
        self.value("cxidiag_probe_bursts_total", &[&target])
    }

    fn age(&self, target: u32) -> Option<f64> {
        let target = format!("target=\"{}\"", address(target));
        self.value("cxidiag_probe_age_seconds", &[&target])
    }

    /// The time of day at which the file was written.
    fn written(&self) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(probe_metrics::SERIES));
        line.expect("a time").trim().parse().expect("a number")
    }

    fn late(&self, target: u32) -> f64 {
        let target = format!("target=\"{}\"", address(target));
        self.value("cxidiag_probe_late_total", &[&target]).unwrap_or_default()
    }

    fn left_out(&self, reason: &str) -> f64 {
        let reason = format!("reason=\"{reason}\"");
        self.value("cxidiag_probe_left_out_total", &[&reason]).unwrap_or_default()
    }
}

/// Whether more threads needed CPUs in the last minute than there are.
fn cpus_are_busy() -> bool {
    let load = fs::read_to_string("/proc/loadavg").expect("the load");
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).expect("a load");
    load > thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64)
}

#[test]
fn servers_probe_each_other_and_name_the_slow_one() {
    let mut nodes = Nodes::new(3);
    let slow = ("CXIDIAG_LINK", "nic=3,latency=300us");
    const SLOW: f64 = 300e-6;
    for number in 1..=3 {
        nodes.start_with(number, [slow]);
    }
    for number in 1..=2 {
        let is_late = |metrics: &Metrics| {
            metrics.late(3).min(metrics.late(3 - number)) >= 20.0 && cpus_are_busy()
        };
        let metrics = nodes.wait_for(number, |metrics| {
            // On a busy machine, a good NIC may look slow for a while.
            let is_good = metrics.minimum(3 - number).is_some_and(|good| good < SLOW);
            is_good && metrics.minimum(3).is_some() || is_late(metrics)
        });
        match metrics.minimum(3) {
            Some(bad) => assert!(bad >= SLOW, "{metrics:?}"),
            None => println!("not tested: latencies, because CPUs are busy"),
        }
        let name = "cxidiag_probe_nic_info";
        let node = format!("node=\"{}\"", address(number));
        assert_eq!(metrics.value(name, &[&node, "switch=\"\""]), Some(1.0), "{metrics:?}");
    }
    let metrics = nodes.wait_for(1, |metrics| {
        let target = format!("target=\"{}\"", address(2));
        let bandwidth = metrics.value("cxidiag_probe_bandwidth_bytes_per_second", &[&target]);
        bandwidth.is_some() || metrics.late(2) >= 20.0 && cpus_are_busy()
    });
    assert!(metrics.value("cxidiag_probe_bursts_total", &["class=\"unknown\""]).is_some());
    nodes.stop_all();
}

#[test]
fn client_and_pause_file_come_first() {
    let mut nodes = Nodes::new(2);
    let pause = nodes.path("pause");
    nodes.start(1, "");
    nodes.start(2, &format!("--pause-file={}", pause.display()));
    nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    fs::write(&pause, "").expect("a file");
    nodes.wait_for(2, |metrics| metrics.left_out("paused") > 0.0);
    nodes.wait_for(1, |metrics| metrics.left_out("target_busy") > 0.0);
    fs::remove_file(&pause).expect("a file");
    let before = nodes.wait_for(2, |metrics| metrics.bursts(1) > Some(0.0)).left_out("client");
    // Measures until it is ended.
    let args = format!(
        "write-lat {} -p {} -d soft9 -n 1 --latency-gap=1000000000000",
        address(1),
        nodes.port
    );
    let client = nodes.fabric.command(&args).spawn().expect("cxidiag starts");
    nodes.wait_for(1, |metrics| metrics.left_out("client") > before);
    let busy = nodes.wait_for(2, |metrics| metrics.left_out("target_busy") > 0.0);
    drop(client);
    nodes.wait_for(2, |metrics| metrics.bursts(1) > busy.bursts(1));
    nodes.stop_all();
}

#[test]
fn nodes_come_and_go() {
    let mut nodes = Nodes::new(2);
    nodes.start(1, "");
    let note = nodes.servers.get_mut(&1).unwrap().wait_for("is not probed: ");
    assert!(note.contains(&address(2)), "{note}");
    nodes.start(2, "");
    nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    // Killed: its process that probes ends as well, and nobody is accused.
    let mut server = nodes.servers.remove(&2).unwrap();
    server.kill();
    server.finish();
    let lost = nodes.wait_for(1, |metrics| metrics.left_out("unreachable") > 0.0);
    nodes.start(2, "");
    let again = nodes.wait_for(1, |metrics| metrics.bursts(2) > lost.bursts(2));
    // Stopped: silent after a while.
    let unreachable = again.left_out("unreachable");
    nodes.signal(2, "STOP");
    nodes.wait_for(1, |metrics| metrics.left_out("unreachable") > unreachable);
    nodes.signal(2, "CONT");
    // The list changes: a host without a server takes the place of the other.
    nodes.set_hosts([1, 5].into_iter());
    nodes.wait_for(1, |metrics| metrics.bursts(2).is_none());
    nodes.set_hosts([4, 5].into_iter());
    nodes.servers.get_mut(&1).unwrap().wait_for("the list lacks this node, which probes nothing");
    nodes.set_hosts([1].into_iter());
    nodes.servers.get_mut(&1).unwrap().wait_for("the list has no host beside this one");
    nodes.set_hosts(1..=2);
    nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    nodes.stop_all();
}

#[test]
fn goes_on_if_the_file_cannot_be_written() {
    let mut nodes = Nodes::new(2);
    let file = nodes.metrics(1);
    nodes.start(1, "");
    let server = nodes.servers.get_mut(&1).unwrap();
    server.wait_for("probes 1 of 1 other host as 127.0.0.2");
    nodes.start(2, "");
    nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    // A directory that has gone is as good as a full one, and stops root as well.
    let [directory, aside] = [file.parent().unwrap().to_owned(), nodes.path("aside")];
    fs::rename(&directory, &aside).expect("a directory");
    let note = nodes.servers.get_mut(&1).unwrap().wait_for("cxidiag-probe.prom");
    assert!(note.contains("probes: "), "{note}");
    fs::rename(&aside, &directory).expect("a directory");
    fs::remove_file(&file).expect("a file");
    nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let left: Vec<_> = fs::read_dir(&directory).expect("a directory").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let status = finish(nodes.fabric.command(&format!(
        "serve --status --bind={} -p {}",
        address(1),
        nodes.port
    )));
    assert_success(&status);
    let status = stdout(&status);
    assert!(status.contains("\nprobes: 1 NIC, 0 left out at present; "), "{status}");
    assert!(status.contains(" of 1 target within a minute, "), "{status}");
    nodes.stop_all();
}

/// The time of day chooses targets and stamps the file. Ages and pauses do not follow its steps.
#[test]
fn ages_do_not_follow_steps_of_the_clock() {
    const DAY: f64 = 86_400.0;
    let library = FAILING.to_str().expect("a name");
    for (step, direction) in [("86400", 1.0), ("-86400", -1.0)] {
        let mut nodes = Nodes::new(2);
        // The other node is up, so that each figure is of a probe after the step.
        nodes.start(2, "");
        nodes.start_with(1, [("LD_PRELOAD", library), ("STEP", step)]);
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
        let is_stepped = |metrics: &Metrics| {
            !metrics.0.is_empty()
                && (metrics.written() - began.as_secs_f64()) * direction > DAY / 2.0
        };
        let before = nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
        let after = nodes
            .wait_for(1, |metrics| is_stepped(metrics) && metrics.bursts(2) > before.bursts(2));
        let age = after.age(2).expect("an age");
        assert!((0.0..DAY / 2.0).contains(&age), "{step}: {after:?}");
        nodes.stop_all();
    }
}

/// A stopped process that probes is silent, and goes on where it was.
#[test]
fn stopped_process_of_probes_goes_on() {
    let mut nodes = Nodes::new(2);
    nodes.start(1, "");
    nodes.start(2, "");
    let mut before = nodes.wait_for(1, |metrics| metrics.bursts(2) > Some(0.0));
    // Of the target: its server has no signs of life to pass on.
    let target = nodes.prober(2);
    let name = fs::read_to_string(format!("/proc/{target}/comm")).expect("a name");
    assert_eq!(name, "cxidiag\n");
    send_signal("STOP", target);
    let left_out = before.left_out("unreachable");
    before = nodes.wait_for(1, |metrics| metrics.left_out("unreachable") > left_out);
    send_signal("CONT", target);
    nodes.wait_for(1, |metrics| metrics.bursts(2) > before.bursts(2));
    // Of the node itself.
    before = nodes.wait_for(2, |metrics| metrics.bursts(1) > Some(0.0));
    let left_out = nodes.wait_for(1, |_| true).left_out("unreachable");
    send_signal("STOP", target);
    nodes.wait_for(1, |metrics| metrics.left_out("unreachable") > left_out);
    send_signal("CONT", target);
    nodes.wait_for(2, |metrics| metrics.bursts(1) > before.bursts(1));
    nodes.stop_all();
}

#[test]
fn full_file_system_keeps_the_file_and_the_probes() {
    let mut nodes = Nodes::new(2);
    nodes.start(2, "");
    // The metrics of the first node are in a file system of its own.
    let file = nodes.metrics(1);
    let place = file.parent().expect("a directory").display().to_string();
    fs::create_dir_all(&place).expect("a directory");
    let script = format!("mount -t tmpfs -o size=256K small {place} || exit 77; exec \"$@\"");
    let shell = ["--map-root-user", "--mount", "sh", "-c", &script, "sh"];
    if !has_namespaces(&nodes, &shell) {
        println!("not tested: no mount namespaces");
        return;
    }
    let shell = [&shell[..], &[CXIDIAG]].concat();
    let command = nodes.command_of(1, Path::new("unshare"), &shell, "");
    nodes.servers.insert(1, Server::start(command));
    let root = format!("/proc/{}/root", nodes.servers[&1].id());
    let seen = |path: &Path| PathBuf::from(format!("{root}{}", path.display()));
    let [inside, filling] = [seen(&file), seen(Path::new(&place)).join("filling")];
    let read = || Metrics(fs::read_to_string(&inside).unwrap_or_default());
    let wait_for = |holds: &dyn Fn(&Metrics) -> bool| {
        loop {
            let metrics = read();
            if holds(&metrics) {
                return metrics;
            }
            thread::sleep(SLICE);
        }
    };
    wait_for(&|metrics| metrics.bursts(2) > Some(0.0));
    fs::write(&filling, vec![1; 1 << 20]).expect_err("a full file system");
    let note = nodes.servers.get_mut(&1).unwrap().wait_for("No space left on device");
    assert!(note.contains("probes: ") && note.contains("cxidiag-probe.prom"), "{note}");
    // The file is an earlier one, whole.
    let kept = read();
    assert!(kept.bursts(2) > Some(0.0) && kept.0.ends_with('\n'), "{kept:?}");
    let files = fs::read_dir(seen(Path::new(&place))).expect("a directory").flatten().count();
    assert_eq!(files, 2);
    fs::remove_file(&filling).expect("a file");
    wait_for(&|metrics| metrics.bursts(2) > kept.bursts(2));
    nodes.stop_all();
}

/// Whether unshare(1) with these arguments can run a program.
fn has_namespaces(nodes: &Nodes, shell: &[&str]) -> bool {
    let words = [shell, &["true"]].concat();
    finish(nodes.fabric.command_of(Path::new("unshare"), &words[..])).status.success()
}

#[test]
fn refuses_invalid_options() {
    let nodes = Nodes::new(2);
    let hosts = nodes.path("hosts").display().to_string();
    for (args, words) in [
        ("--openmetrics=a.prom", "--openmetrics needs --probe=HOSTS"),
        ("--pause-file=a", "--pause-file needs --probe=HOSTS"),
        ("--probe=nid[1", "invalid value 'nid[1' for --probe: "),
        ("--probe=@/none/hosts", "invalid value '@/none/hosts' for --probe: cannot read the file"),
        ("--probe=nid1,nid2", "for --probe: the list lacks this node, "),
        (&format!("--probe=@{hosts} -p 0"), "all servers need the same --port, and not 0"),
        ("--probe=127.0.0.1 --bind=127.0.0.1 --probe-targets=65", "for --probe-targets: "),
        ("--probe=127.0.0.1 --bind=127.0.0.1 --probe-budget=99", "for --probe-budget: "),
    ] {
        let error = assert_status(&nodes.fabric.run(&format!("serve -d soft1 {args}")), 2);
        assert!(error.contains(words), "{args}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}

#[test]
fn probes_respect_tokens_and_networks() {
    let mut nodes = Nodes::new(3);
    let mut closed = nodes.command(2, "");
    closed.env("CXIDIAG_TOKEN", "0123456789abcdef0123456789abcdef");
    nodes.servers.insert(2, Server::start(closed));
    nodes.start(3, "--allow=192.0.2.0/24");
    nodes.start(1, "");
    let server = nodes.servers.get_mut(&1).unwrap();
    let mut notes = String::new();
    while !(notes.contains("token") && notes.contains("--allow")) {
        notes += &server.wait_for("is not probed: ");
    }
    let metrics = nodes.wait_for(1, |metrics| metrics.left_out("unreachable") > 3.0);
    assert_eq!(metrics.bursts(2).or(metrics.bursts(3)), None);
    nodes.stop_all();
}
