//! Surroundings that a parent or a container leaves to the program: one row each, tried with a
//! latency tool, a bandwidth tool, a survey, `stat` and `serve`.

use std::path::Path;
use std::process::Output;

use crate::harness::{
    CXIDIAG, Command, Fabric, Server, assert_status, assert_success, finish, stderr, stdout,
};

/// What is run: the name of the case, and its arguments.
const CASES: [(&str, &[&str]); 5] = [
    ("latency", &[CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "9"]),
    ("bandwidth", &[CXIDIAG, "send-bw", "--loopback", "-d", "soft0", "-n", "2", "-l", "4"]),
    ("survey", &[CXIDIAG, "survey", "--loopback=2"]),
    ("stat", &[CXIDIAG, "stat", "--", "sh", "-c", "exit 7"]),
    ("serve", &["sh", "-c", SERVE, "sh", CXIDIAG]),
];

/// Starts a server and measures with it. Ends with the status of the client; if it did not
/// begin, of the server.
const SERVE: &str = r#"
    directory=$(mktemp -d) && mkfifo "$directory/lines" || exit 99
    "$1" serve -d soft0 -p 0 >"$directory/lines" & server=$!
    exec 3<"$directory/lines"
    rm -r "$directory"
    read -r listening on port number rest <&3
    [ -n "$number" ] || { wait $server; exit; }
    "$1" write-lat 127.0.0.1 -p "$number" -d soft1 -n 9; status=$?
    kill $server
    wait $server
    exit $status"#;

/// How the cases end.
#[derive(Clone, Copy)]
enum Outcome {
    /// As without these surroundings.
    Works,
    /// With this status, and this text in an error if it can be seen.
    Fails(i32, &'static str),
}

use Outcome::{Fails, Works};

/// How the program gets its surroundings.
#[derive(Clone, Copy)]
enum Setup {
    /// By an option of env(1).
    Env(&'static str),
    /// By commands of a shell.
    Shell(&'static str),
    /// By commands of a shell in mount and PID namespaces of its own.
    Namespace(&'static str),
    /// By commands of a shell in a network namespace of its own.
    Network(&'static str),
    /// In other namespaces, by options of unshare(1).
    Unshared(&'static str),
    /// On a terminal with this type and number of columns.
    Terminal(&'static str, u16),
}

/// One row for each: name, setup, outcomes of [`CASES`].
const ROWS: &[(&str, Setup, [Outcome; 5])] = &[
    ("SIGCHLD ignored", Setup::Env("--ignore-signal=CHLD"), [Works; 5]),
    ("all signals blocked", Setup::Env("--block-signal"), [Works; 5]),
    // Results cannot be shown: the measurement fails, a command under `stat` does not.
    (
        "standard streams closed",
        Setup::Shell("exec <&- >&- 2>&-"),
        [Fails(1, ""), Fails(1, ""), Fails(1, ""), Works, Fails(1, "")],
    ),
    ("umask 000", Setup::Shell("umask 000"), [Works; 5]),
    ("32 files", Setup::Shell("ulimit -n 32"), [Works; 5]),
    (
        "stack of 256 KiB",
        Setup::Shell("ulimit -s 256"),
        [
            Fails(1, "ulimit -s"),
            Fails(1, "ulimit -s"),
            Fails(1, "ulimit -s"),
            Works,
            Fails(1, "ulimit -s"),
        ],
    ),
    ("64 processes", Setup::Shell("ulimit -p 64 2>/dev/null || ulimit -u 64"), [Works; 5]),
    (
        "files of no bytes",
        Setup::Shell("ulimit -f 0"),
        [
            Fails(1, "ulimit -f"),
            Fails(1, "ulimit -f"),
            Fails(4, "ulimit -f"),
            Works,
            Fails(1, "ulimit -f"),
        ],
    ),
    (
        "/proc with processes only",
        Setup::Namespace("mount -t proc -o subset=pid proc /proc"),
        [Works; 5],
    ),
    (
        "no /proc",
        Setup::Namespace("mount -t tmpfs none /proc"),
        [
            Fails(1, "/proc is not mounted"),
            Fails(1, "/proc is not mounted"),
            Fails(1, "/proc is not mounted"),
            Works,
            Fails(1, "/proc is not mounted"),
        ],
    ),
    (
        "no network",
        Setup::Unshared("--net"),
        [
            Fails(1, "the interface lo is down"),
            Fails(1, "the interface lo is down"),
            Fails(1, "the interface lo is down"),
            Works,
            Fails(1, "the interface lo is down"),
        ],
    ),
    // The server of the last case is sought at 127.0.0.1.
    (
        "IPv6 alone",
        Setup::Network("ip link set lo up && ip address del 127.0.0.1/8 dev lo"),
        [Works, Works, Works, Works, Fails(1, "the interface lo is down or lacks the address")],
    ),
    (
        "64 MiB for software NICs",
        Setup::Namespace(
            "mount -t tmpfs -o size=64M none /mnt && export CXIDIAG_FABRIC_DIR=/mnt/fabric",
        ),
        [Works; 5],
    ),
    ("a dumb terminal", Setup::Terminal("dumb", 80), [Works; 5]),
    ("40 columns", Setup::Terminal("xterm", 40), [Works; 5]),
];

/// Runs its arguments on a terminal and prints what the terminal shows.
const TERMINAL: &str = "import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    size = struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0)
    fcntl.ioctl(1, termios.TIOCSWINSZ, size)
    os.execvp(sys.argv[2], sys.argv[2:])
try:
    while shown := os.read(terminal, 4096):
        os.write(1, shown)
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";

impl Setup {
    /// The words before the program and its arguments.
    fn words(self) -> Vec<String> {
        let then_run = |commands: &str| {
            let script = format!("{commands} || exit 77; exec \"$@\"");
            ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
        };
        match self {
            Self::Env(option) => vec!["env".into(), option.into()],
            Self::Shell(commands) => then_run(commands),
            Self::Namespace(commands) => {
                let unshare = "unshare --map-root-user --mount --pid --fork --kill-child";
                let unshare = unshare.split(' ').map(str::to_owned);
                unshare.chain(then_run(commands)).collect()
            }
            Self::Network(commands) => {
                let unshare = ["unshare", "--map-root-user", "--net"].map(str::to_owned);
                unshare.into_iter().chain(then_run(commands)).collect()
            }
            Self::Unshared(options) => {
                let words = "unshare --map-root-user".split(' ').chain(options.split(' '));
                words.map(str::to_owned).collect()
            }
            Self::Terminal(kind, columns) => {
                let term = format!("TERM={kind}");
                let columns = columns.to_string();
                let words = ["env", &term, "python3", "-c", TERMINAL, &columns];
                words.map(str::to_owned).to_vec()
            }
        }
    }

    /// The command that runs a program with its arguments.
    fn command(self, fabric: &Fabric, arguments: &[&str]) -> Command {
        let words = self.words();
        let before = words[1..].iter().map(String::as_str);
        let all: Vec<&str> = before.chain(arguments.iter().copied()).collect();
        fabric.command_of(Path::new(&words[0]), &all)
    }

    fn run(self, fabric: &Fabric, arguments: &[&str]) -> Output {
        self.command(fabric, arguments).output().expect("it starts")
    }

    /// Whether this machine has it.
    fn is_possible(self) -> bool {
        let output = self.command(&Fabric::new(), &["true"]).output();
        output.is_ok_and(|output| output.status.success())
    }
}

#[test]
fn works_or_names_the_reason_in_all_surroundings() {
    let mut failures = String::new();
    for (name, setup, outcomes) in ROWS {
        if !setup.is_possible() {
            println!("not tested: {name}");
            continue;
        }
        for ((case, arguments), outcome) in CASES.iter().zip(outcomes) {
            let (status, words) = match outcome {
                Works if *case == "stat" => (7, ""),
                // Two NICs are too few for a verdict.
                Works if *case == "survey" => (4, "too few pairs to compare"),
                Works => (0, ""),
                Fails(status, words) => (*status, *words),
            };
            let fabric = Fabric::new();
            let output = setup.run(&fabric, arguments);
            let shown = (stdout(&output) + &stderr(&output)).replace("\n    ", " ");
            if output.status.code() != Some(status) || !shown.contains(words) {
                let ended = output.status;
                failures += &format!("{name}, {case}: {ended}, not {status} {words}: {shown}\n");
            }
            let drawn_badly = match setup {
                Setup::Terminal("dumb", _) => shown.contains('\x1b').then(|| shown.clone()),
                Setup::Terminal(_, columns) => wide_drawn_line(&stdout(&output), *columns),
                _ => None,
            };
            if let Some(line) = drawn_badly {
                failures += &format!("{name}, {case}: {line:?}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Children read from /dev/null. A shell without it starts no server.
#[test]
fn names_missing_null_device() {
    let setup = Setup::Namespace(
        "mount -t tmpfs none /mnt && export CXIDIAG_FABRIC_DIR=/mnt/fabric \
         && mount -t tmpfs none /dev",
    );
    if !setup.is_possible() {
        println!("not tested: no mount namespaces");
        return;
    }
    for (case, arguments) in &CASES[..3] {
        let output = setup.run(&Fabric::new(), arguments);
        let shown = stdout(&output) + &stderr(&output);
        let names = shown.replace("\n    ", " ").contains("/dev/null is missing");
        assert!(names && output.status.code() == Some(1), "{case}: {shown}");
    }
}

/// The server answers as usual.
#[test]
fn client_without_proc_names_it() {
    let setup = Setup::Namespace("mount -t tmpfs none /proc");
    if !setup.is_possible() {
        println!("not tested: no mount namespaces");
        return;
    }
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0");
    let port = server.port.to_string();
    let client = [CXIDIAG, "write-lat", "127.0.0.1", "-p", &port, "-d", "soft1", "-n", "9"];
    let errors = assert_status(&setup.run(&fabric, &client), 1);
    let expected = "cxil_map: Bad address (errno 14)\nhint: /proc is not mounted, ";
    assert!(errors.contains(expected), "{errors}");
}

/// Packets on links have the times of the machine's clock, whatever a namespace adds to it.
#[test]
fn sides_in_two_time_namespaces_measure() {
    let other = Setup::Unshared("--time --monotonic 100000 --fork");
    if !other.is_possible() {
        println!("not tested: no time namespaces");
        return;
    }
    let fabric = Fabric::new();
    let link = "latency=10us";
    let mut server = fabric.command("write-lat -p 0 -d soft0");
    server.env("CXIDIAG_LINK", link);
    let server = Server::start(server);
    let client = format!("write-lat 127.0.0.1 -p {} -d soft1 -n 9", server.port);
    let client: Vec<&str> = [CXIDIAG].into_iter().chain(client.split(' ')).collect();
    let mut client = other.command(&fabric, &client);
    client.env("CXIDIAG_LINK", link);
    assert_success(&finish(client));
    assert_success(&server.finish());
}

/// A line that is drawn again, with a carriage return, but is as wide as the terminal.
fn wide_drawn_line(shown: &str, columns: u16) -> Option<String> {
    let shown = shown.replace("\r\n", "\n");
    let drawn = shown.lines().flat_map(|line| line.rsplit_once('\r').map(|(drawn, _)| drawn));
    for line in drawn.flat_map(|drawn| drawn.split('\r')) {
        let text = line.replace("\x1b[K", "");
        if text.chars().count() >= columns.into() {
            return Some(line.to_owned());
        }
    }
    None
}

#[test]
fn names_missing_parent_of_fabric_directory() {
    for arguments in ["write-lat --loopback -d soft0 -n 2", "devices soft0", "check soft0 --quick"]
    {
        let mut command = Command::new(CXIDIAG);
        command.args(arguments.split(' ')).env("CXIDIAG_FABRIC_DIR", "/none/such/fabric");
        let said = assert_status(&finish(command), 2);
        let named = "CXIDIAG_FABRIC_DIR=/none/such/fabric: /none/such does not exist";
        assert!(said.contains(named), "{arguments}: {said}");
    }
}

#[test]
fn status_names_the_server_that_was_asked() {
    let mut command = Command::new(CXIDIAG);
    command.args(["serve", "--status", "--port=9", "--bind=127.0.0.9"]);
    let said = assert_status(&finish(command), 1);
    assert!(said.contains("only the server at 127.0.0.9 port 9 was asked"), "{said}");
}
