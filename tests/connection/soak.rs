//! `tests/soak SECONDS`: connections of strangers, clients that are killed or stopped, and surveys,
//! all at once. In the end a server holds what it held before.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Fabric, assert_status, finish};

/// The environment variable with another time than the usual one, in seconds.
const VARIABLE: &str = "CXIDIAG_SOAK_SECONDS";
const USUAL: u64 = 4;

/// Memory by which a server may grow, in KiB: what the allocator keeps.
const MOST_GROWTH: u64 = 16 << 10;

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: u64,
    threads: u64,
    children: u64,
    resident: u64,
}

impl Held {
    fn by(process: u32) -> Self {
        let directory = |name| {
            let entries = fs::read_dir(format!("/proc/{process}/{name}"));
            entries.expect("a process").count() as u64
        };
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.split_whitespace().next());
        Self {
            descriptors: directory("fd"),
            threads: directory("task"),
            children: children(process),
            resident: resident.and_then(|kib| kib.parse().ok()).expect("memory"),
        }
    }
}

/// The number of processes with this parent.
fn children(parent: u32) -> u64 {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let stat = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let parents = stat.filter_map(|text| {
        let (_, rest) = text.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    });
    parents.filter(|number: &u32| *number == parent).count() as u64
}

/// Time of the server beyond the soak.
const MARGIN: Duration = Duration::from_secs(300);

/// Counts what has been done, by its name.
#[derive(Default)]
struct Counts([AtomicU64; 4]);

const NAMES: [&str; 4] = ["strangers", "killed", "clients", "surveys"];

impl Counts {
    fn add(&self, name: &str) {
        let place = NAMES.iter().position(|candidate| *candidate == name).expect("a name");
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        NAMES.into_iter().zip(counts).collect()
    }
}

/// Waits until a server has printed its port.
fn port(log: &Path) -> u16 {
    loop {
        let text = fs::read_to_string(log).expect("a file");
        let port = text.strip_prefix("Listening on port ");
        if let Some((port, _)) = port.and_then(|rest| rest.split_once(' ')) {
            return port.parse().expect("a port");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Connects to a server, says one of several things, and leaves, or stays for a while.
fn stray(address: SocketAddr, random: &mut fastrand::Rng) {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
        return;
    };
    // The server may close first.
    let mut say = |bytes: &[u8]| drop(stream.write_all(bytes));
    match random.u8(0..5) {
        0 => {}
        1 => say(b"GET / HTTP/1.1\r\n\r\n"),
        2 => say(&[0; 4096]),
        3 => say(&std::iter::repeat_with(|| random.u8(..)).take(64).collect::<Vec<_>>()),
        _ => {
            say(b"cxidiag");
            let _ = stream.set_read_timeout(Some(Duration::from_millis(random.u64(1..200))));
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

#[test]
fn server_holds_nothing_of_strangers_and_killed_clients() {
    let seconds = env::var(VARIABLE).map(|text| text.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(USUAL));
    let goes_on = || Instant::now() < end;
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let mut server = fabric.command("serve -d soft0 -p 0");
    server.limit(end - Instant::now() + MARGIN);
    let file = fs::File::create(&log).expect("a file");
    let errors = file.try_clone().expect("a descriptor");
    let mut server = server.stdout(file).stderr(errors).spawn().expect("a server");
    let port = port(&log);
    let client = |args: &str| fabric.command(&format!("write-lat 127.0.0.1 -p {port} {args}"));
    let honest = || {
        let output = finish(client("-d soft1 -n 5 --quiet --wait=5m"));
        if !output.status.success() {
            let text = fs::read_to_string(&log).expect("a file");
            let own = text.lines().filter(|line| !line.contains(" ignored: "));
            let last: Vec<&str> = own.rev().take(40).collect();
            println!("the last lines of the server, from the end: {last:#?}");
        }
        assert_status(&output, 0);
    };
    honest();
    let before = Held::by(server.id());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let survey_port = listener.local_addr().expect("an address").port();
    drop(listener);
    let ports = [port, survey_port];
    let counts = Counts::default();
    thread::scope(|scope| {
        for seed in 0..2 {
            let counts = &counts;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while goes_on() {
                    let port = ports[random.usize(..ports.len())];
                    stray((Ipv4Addr::LOCALHOST, port).into(), &mut random);
                    counts.add("strangers");
                }
            });
        }
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(7);
            while goes_on() {
                let mut victim = client("-d soft2 -D 60 --wait=1m").spawn().expect("a client");
                thread::sleep(Duration::from_millis(random.u64(0..300)));
                if random.bool() {
                    victim.signal("STOP");
                }
                victim.kill();
                victim.wait();
                counts.add("killed");
            }
        });
        scope.spawn(|| {
            while goes_on() {
                honest();
                counts.add("clients");
            }
        });
        scope.spawn(|| {
            while goes_on() {
                let options = "--pairs=all --pair-time=20ms --expect=p50<10s --quiet";
                let args = format!("survey --loopback=3 --port={survey_port} {options}");
                let output = finish(Fabric::new().command(&args));
                // Busy CPUs may leave pairs untested.
                let status = output.status.code();
                assert!(matches!(status, Some(0 | 4)), "{output:?}");
                counts.add("surveys");
            }
        });
    });
    honest();
    let after = settled(server.id(), before);
    println!("{:?}\nbefore {before:?}\nafter  {after:?}", counts.all());
    assert!(after.resident <= before.resident + MOST_GROWTH, "{after:?}");
    server.signal("TERM");
    assert!(server.wait().success());
    fabric.assert_nothing_left();
}

/// Waits until a server holds no more than before, and returns what it holds.
fn settled(server: u32, before: Held) -> Held {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let now = Held::by(server);
        let is_settled = now.descriptors <= before.descriptors
            && now.threads <= before.threads
            && now.children <= before.children;
        if is_settled {
            return now;
        }
        assert!(Instant::now() < end, "before {before:?}, now {now:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
