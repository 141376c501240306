//! `cxi-softnic PROGRAM`: runs a program on software NICs.
//!
//! The program loads a `libcxi.so.1` whose devices are software NICs, instead of an installed one,
//! and finds these NICs in `/sys/class` too ([`namespace`]). Programs that are started without this
//! command are not affected.

mod namespace;
mod summarized;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use namespace::{CLASS, SYS};
use softnic::summary;
use softnic::sysfs::{self, class_directory};

const USAGE: &str = "\
usage: cxi-softnic [--no-sys] [--verbose] PROGRAM [ARGUMENT...]
       cxi-softnic --write-sys DIRECTORY

Runs PROGRAM with a libcxi whose devices cxi0, cxi1, ... are software NICs. PROGRAM runs in a mount
namespace of its own, in which /sys/class shows these NICs and their network interfaces, and
/sys/bus/pci/devices their PCI devices.

Options:
  --no-sys               do not change /sys
  --verbose              print how many packets the NICs sent for PROGRAM when it has ended
  --write-sys DIRECTORY  write what /sys/class would show to DIRECTORY and exit, for containers that
                         may not have mount namespaces: bind DIRECTORY to /sys/class there, and
                         DIRECTORY/softnic/pci_devices to /sys/bus/pci/devices
  -h, --help             print this text
  -V, --version          print the version

Environment:
  CXIDIAG_FABRIC_DIR       directory that the NICs share [/dev/shm/cxidiag-UID]
  CXIDIAG_NICS             number of NICs, 1 to 100
  CXIDIAG_NIDS             addresses of the NICs, separated by commas [0x12]
  CXIDIAG_LINK             latency=TIME, jitter=TIME, match=TIME, bandwidth=NUMBER with MB/s
                           or GB/s
  CXIDIAG_TOPOLOGY         a file that describes the fabric between the NICs, or
                           dragonfly:groups=4,switches=2,nics=2
  CXIDIAG_FAULTS           loss=, retry=, delay=, corrupt=, error=, down=, seed=, and what files and
                           counters show (cxi-softnic(1))
  CXIDIAG_SERVICES         enabled or disabled: service 1 alone, in this state;
                           job: service 1 disabled, and service 5 of a job
  CXIDIAG_QOS              HPC, LL_BE_BD_ET or LL_BE_BD_ET1_ET2
  CXIDIAG_SHS              release of the driver: 12, 13, 14, 14.0.1, next [14.0.1]
  CXIDIAG_RDZV_GET         0: software issues the gets of rendezvous puts
  CXIDIAG_TRAP_DOORBELLS   none, counters or all [all; under a debugger counters]
  CXIDIAG_SOFTNIC_SUMMARY  1: as --verbose
  CXI_SOFTNIC_LIBRARY_DIR  directory that contains the library

Examples:
  cxi-softnic ./program
  CXIDIAG_LINK=latency=2us,bandwidth=25GB/s cxi-softnic ./program
  CXIDIAG_FAULTS=error=UNDELIVERABLE@50 cxi-softnic ./program

Exit status: that of PROGRAM; 126 or 127 if it cannot be run, 2 for an invalid option or variable,
1 for other failures.

cxi-softnic(1) has the details.
";

const NO_PROGRAM: &str = "expected a program to run (--help shows the usage)";

/// Where packages install the library.
const INSTALLED: &str = "/usr/lib/cxidiag/softnic";

const LIBRARY: &str = "libcxi.so.1";

/// The library that lets doorbells trap in any program.
const PRELOADED: &str = "libsoftnic-faults.so";

/// The task of this program.
#[derive(Debug, PartialEq, Eq)]
enum Invocation {
    Print(String),
    WriteSys(PathBuf),
    Run { program: OsString, arguments: Vec<OsString>, with_sys: bool, is_verbose: bool },
}

fn main() -> ExitCode {
    let request = match request(env::args_os().skip(1)) {
        Ok(request) => request,
        Err(message) => return fail(2, &message),
    };
    if let Invocation::Print(text) = &request {
        return match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &format!("standard output: {error}")),
        };
    }
    if let Err(message) = softnic::check_environment() {
        return fail(2, &message);
    }
    let result = match request {
        Invocation::Run { program, arguments, with_sys, is_verbose } => {
            prepared(&program, &arguments, with_sys)
                .and_then(|command| execute(command, &program, is_verbose))
        }
        Invocation::WriteSys(directory) => write_sys(&directory),
        Invocation::Print(_) => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => fail(status, &message),
    }
}

fn fail(status: u8, message: &str) -> ExitCode {
    eprintln!("cxi-softnic: error: {message}");
    ExitCode::from(status)
}

/// Parses the arguments. Those behind the program are the program's.
fn request(mut arguments: impl Iterator<Item = OsString>) -> Result<Invocation, String> {
    let (mut with_sys, mut is_verbose) = (true, asks_for_summary()?);
    loop {
        let Some(argument) = arguments.next() else {
            return Err(NO_PROGRAM.into());
        };
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Invocation::Print(USAGE.into())),
            Some("--version" | "-V") => {
                let version = concat!("cxi-softnic ", env!("CARGO_PKG_VERSION"), "\n");
                return Ok(Invocation::Print(version.into()));
            }
            Some("--no-sys") => with_sys = false,
            Some("--verbose") => is_verbose = true,
            Some("--write-sys") if !with_sys => {
                return Err("--no-sys and --write-sys exclude each other".into());
            }
            Some("--write-sys") => {
                let directory = arguments.next();
                let directory = directory.ok_or("--write-sys: expected a directory")?;
                if let Some(next) = arguments.next() {
                    let next = next.display();
                    return Err(format!(
                        "--write-sys: expected one directory, and nothing after it: {next}"
                    ));
                }
                return Ok(Invocation::WriteSys(directory.into()));
            }
            Some("--") => {
                let program = arguments.next().ok_or(NO_PROGRAM)?;
                return Ok(Invocation::Run {
                    program,
                    arguments: arguments.collect(),
                    with_sys,
                    is_verbose,
                });
            }
            Some(option) if option.starts_with('-') => {
                return Err(format!(
                    "{option}: expected --no-sys, --verbose, --write-sys or a program (--help shows the usage)"
                ));
            }
            _ => {
                return Ok(Invocation::Run {
                    program: argument,
                    arguments: arguments.collect(),
                    with_sys,
                    is_verbose,
                });
            }
        }
    }
}

/// Whether the environment asks for the number of packets after the program.
fn asks_for_summary() -> Result<bool, String> {
    match env::var_os(summary::VARIABLE) {
        Some(value) if value == "1" => Ok(true),
        Some(value) if !value.is_empty() && value != "0" && summary::file().is_none() => {
            let (variable, value) = (summary::VARIABLE, value.display());
            Err(format!("{variable}={value}: expected 0 or 1"))
        }
        _ => Ok(false),
    }
}

/// The command that runs the program, after `/sys` is prepared for it.
fn prepared(
    program: &OsStr,
    arguments: &[OsString],
    with_sys: bool,
) -> Result<Command, (u8, String)> {
    let library = library_directory().map_err(|message| (1, message))?;
    if with_sys {
        let entries = class_directory(Path::new(SYS)).map_err(|message| (2, message))?;
        if let Err(error) = namespace::enter(&entries) {
            eprintln!(
                "cxi-softnic: note: {CLASS} does not show the software NICs: {error}; --no-sys and --write-sys are alternatives"
            );
        }
    }
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(preloaded) = preloaded(&library) {
        command.env("LD_PRELOAD", before("LD_PRELOAD", preloaded));
        // AddressSanitizer refuses to run behind another library, which does not disturb it here.
        let allowed = before("ASAN_OPTIONS", "verify_asan_link_order=0".into());
        command.env("ASAN_OPTIONS", allowed);
    }
    command.env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", library.into()));
    Ok(command)
}

/// Replaces this process by the program, or runs it in a child if a summary is asked for. Returns
/// only if that fails, with the exit status of env(1) and a message.
fn execute(mut command: Command, program: &OsStr, is_verbose: bool) -> Result<(), (u8, String)> {
    // A wrapper within the program of another one leaves the summary to that one.
    let error = if is_verbose && summary::file().is_none() {
        match summarized::run(command, program) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    } else {
        command.exec()
    };
    let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err((status, format!("{}: {error}", program.display())))
}

/// The name by which the dynamic linker preloads a library of this directory, if it is there: its
/// path, so that programs with another `LD_LIBRARY_PATH` find it. The list has no way to write a
/// path with a separator: then the linker looks for the file name in `LD_LIBRARY_PATH`.
fn preloaded(directory: &Path) -> Option<OsString> {
    let path = fs::canonicalize(directory.join(PRELOADED)).ok()?;
    let has_separator = path.as_os_str().as_bytes().contains(&b' ');
    Some(if has_separator { PRELOADED.into() } else { path.into() })
}

/// A list of `first` and what the environment variable contains.
fn before(variable: &str, mut first: OsString) -> OsString {
    if let Some(others) = env::var_os(variable).filter(|others| !others.is_empty()) {
        first.push(":");
        first.push(others);
    }
    first
}

/// The directory of the library. The directory that the environment names comes first, then the
/// directory of this executable, then the directory of the packages.
fn library_directory() -> Result<PathBuf, String> {
    let named = env::var_os("CXI_SOFTNIC_LIBRARY_DIR").filter(|named| !named.is_empty());
    let directory = named.map(PathBuf::from).unwrap_or_else(|| {
        let own = env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
        own.filter(|own| own.join(LIBRARY).exists()).unwrap_or_else(|| INSTALLED.into())
    });
    if directory.join(LIBRARY).exists() {
        Ok(directory)
    } else {
        Err(format!("no {LIBRARY} in {}", directory.display()))
    }
}

fn write_sys(directory: &Path) -> Result<(), (u8, String)> {
    let entries = class_directory(Path::new(SYS)).map_err(|message| (2, message))?;
    if fs::read_dir(directory).is_ok_and(|mut present| present.next().is_some()) {
        let name = directory.display();
        return Err((2, format!("--write-sys {name}: expected an empty or a new directory")));
    }
    sysfs::write(directory, &entries)
        .map_err(|error| (1, format!("{}: {error}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Invocation, String> {
        request(words.iter().map(OsString::from))
    }

    #[test]
    fn leaves_arguments_of_the_program_alone() {
        let expected = Invocation::Run {
            program: "fi_info".into(),
            arguments: vec!["--no-sys".into(), "-p".into()],
            with_sys: true,
            is_verbose: false,
        };
        assert_eq!(parse(&["fi_info", "--no-sys", "-p"]).as_ref(), Ok(&expected));
        assert_eq!(parse(&["--", "fi_info", "--no-sys", "-p"]), Ok(expected));
    }

    #[test]
    fn refuses_unknown_options_and_missing_programs() {
        for words in [
            &["--sys", "true"][..],
            &[],
            &["--no-sys"],
            &["--write-sys"],
            &["--write-sys", "a", "b"],
            &["--no-sys", "--write-sys", "a"],
            &["--"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
