//! Legacy tools on the other end: `tests/legacy/peer.py` stands in for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::{CXIDIAG, Fabric, Server, stdout};

/// The tools: our name, and the legacy one.
pub const TOOLS: [(&str, &str); 5] = [
    ("write-lat", "cxi_write_lat"),
    ("read-lat", "cxi_read_lat"),
    ("send-lat", "cxi_send_lat"),
    ("atomic-lat", "cxi_atomic_lat"),
    ("send-bw", "cxi_send_bw"),
];

/// Ends what does not end by itself, with status 124.
const LIMIT: &str = "60";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The software NIC as a `libcxi.so.1`, for the stand-in; built once.
pub fn library() -> &'static str {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("softnic-library");
        let built = Command::new(root().join("packaging/softnic/build-library"))
            .arg(&directory)
            .output()
            .expect("build-library starts");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        let library = directory.join("libcxi.so.1");
        library.to_str().expect("text").to_owned()
    })
}

/// What both sides of a run left behind.
pub struct Ended {
    pub cxidiag: Output,
    pub peer: Output,
}

impl Fabric {
    /// cxidiag, ended if it takes too long.
    fn bounded(&self, args: &[&str]) -> Command {
        self.command_of(Path::new("timeout"), &[&[LIMIT, CXIDIAG], args].concat())
    }

    /// The stand-in for a legacy tool, on this fabric.
    pub fn peer(&self, args: &[&str]) -> Command {
        let script = root().join("tests/legacy/peer.py");
        let script = script.to_str().expect("text");
        let mut command = self.command_of(
            Path::new("timeout"),
            &[&[LIMIT, "python3", "-S", script], args].concat(),
        );
        // No compiled modules in the source tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A cxidiag client of `tool` with `options` against a legacy server with `deviations`.
    pub fn against_server(&self, tool: &str, options: &[&str], deviations: &[&str]) -> Ended {
        let serving = [&[legacy(tool), "-p", "0"], deviations].concat();
        let server = Server::start(self.peer(&serving));
        let client = [
            &[tool, "127.0.0.1", "-p", &server.port, "-d", "soft1"],
            options,
        ]
        .concat();
        let cxidiag = self.bounded(&client).output().expect("cxidiag starts");
        Ended {
            cxidiag,
            peer: server.finish(),
        }
    }

    /// A legacy client of `tool` with `options` and deviations against a cxidiag server.
    pub fn against_client(&self, tool: &str, options: &[&str]) -> Ended {
        let server = Server::start(self.bounded(&[tool, "-p", "0", "-d", "soft0"]));
        let client = [
            &[legacy(tool), "127.0.0.1", "-p", &server.port, "-d", "cxi1"],
            options,
        ];
        let peer = self
            .peer(&client.concat())
            .output()
            .expect("python3 starts");
        Ended {
            cxidiag: server.finish(),
            peer,
        }
    }

    /// The same for a client that is refused: the server serves another one, of our own, and ends.
    pub fn refused_client(&self, tool: &str, options: &[&str]) -> Ended {
        let server = Server::start(self.bounded(&[tool, "-p", "0", "-d", "soft0"]));
        let client = [
            &[legacy(tool), "127.0.0.1", "-p", &server.port, "-d", "cxi1"],
            options,
        ];
        let peer = self
            .peer(&client.concat())
            .output()
            .expect("python3 starts");
        let next = self.client(tool, &server, &["-d", "soft1", "-n", "1"]);
        assert!(next.status.success(), "{}", super::stderr(&next));
        Ended {
            cxidiag: server.finish(),
            peer,
        }
    }
}

/// Runs each case on a thread of its own: most of them wait.
pub fn all<T: Sync>(cases: &[T], run: impl Fn(&Fabric, &T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| {
                let fabric = Fabric::new();
                run(&fabric, case);
                fabric.assert_nothing_left();
            });
        }
    });
}

/// The legacy name of a tool.
pub fn legacy(tool: &str) -> &'static str {
    let found = TOOLS.iter().find(|(ours, _)| *ours == tool);
    found.expect("a tool").1
}

/// Payloads of the exchanges of this name, in order, as the stand-in saw them: `direction` is `>`
/// for what it sent, `<` for what it received.
pub fn payloads(peer: &Output, label: &str, direction: char) -> Vec<String> {
    let start = format!("{label} {direction} ");
    let text = stdout(peer);
    let payloads = text.lines().filter_map(|line| line.strip_prefix(&start));
    payloads.map(str::to_owned).collect()
}

/// Names of the exchanges, in order, as the stand-in saw them; each once, however often in a row.
pub fn course(peer: &Output) -> Vec<String> {
    let text = stdout(peer);
    let mut labels: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once(" < "))
        .map(|(label, _)| label.to_owned())
        .collect();
    labels.dedup();
    labels
}
