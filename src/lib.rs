//! `cxidiag`: latency and bandwidth diagnostics for HPE Slingshot NICs.
//!
//! The map of the program. One measurement takes this path:
//!
//! ```text
//! argv -> multicall -> cli -> plan -> backend -> the device -> session -> bench -> run -> measure -> report
//! ```
//!
//! * [`multicall`]: `argv[0]` or first argument -> tool.
//! * [`cli`]: options -> what was typed; help from the same definitions.
//! * [`plan`]: what was typed + the tool's defaults -> one validated [`plan::Plan`].
//! * [`device`]: device names.
//! * [`atomic`]: atomic operations: names, sizes, which combinations exist.
//! * [`tool`]: what a tool is; the registry of the tools is [`bench::TOOLS`].
//! * `backend`: hardware library or software NIC.
//! * [`session`]: the TCP control connection to the other side.
//! * [`mod@bench`]: the benchmarks, one transaction type each.
//! * [`run`]: the measuring loops, and the course of a run around them.
//! * [`measure`]: exact statistics, recorder.
//! * [`report`]: outcome -> text as documented, JSON, CSV, histogram log.
//! * [`outputs`], [`expect`]: what is made of the results, and what they must be.
//! * [`command`]: what the program does beside measuring.
//! * [`phase`]: the phases of a run, by name; [`limit`]: time limits of waits.
//! * `interrupt`: what ends a run early.
//! * `advice`: what a refused call or a bad event means, and what to do.
//! * [`error`]: failing call, cause, advice, exit status.

#![forbid(unsafe_code)]

pub mod advice;
pub mod atomic;
mod backend;
pub mod bench;
pub mod cli;
pub mod command;
pub mod device;
pub mod error;
pub mod expect;
mod interrupt;
pub mod limit;
pub mod measure;
pub mod multicall;
pub mod outputs;
pub mod phase;
pub mod plan;
pub mod report;
pub mod run;
pub mod session;
pub mod tool;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use cli::Request;
use cli::options::LIBCXI_VARIABLE;
use error::Failure;
use multicall::Call;
use plan::Plan;
use report::Reporter;

/// Does what `argv` asks for. Nothing is opened before all of it has proved valid.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (program, outcome) = match multicall::resolve(argv, bench::TOOLS, command::COMMANDS) {
        Err((program, failure)) => (program, Err(failure)),
        Ok(Call::Help) => (
            multicall::PROGRAM.into(),
            print(&cli::help::overview(bench::TOOLS, command::COMMANDS)),
        ),
        Ok(Call::Version) => (multicall::PROGRAM.into(), print(&cli::help::version())),
        Ok(Call::List) => (
            multicall::PROGRAM.into(),
            print(&cli::help::list(bench::TOOLS)),
        ),
        Ok(Call::Command {
            command,
            program,
            arguments,
        }) => (program, (command.run)(arguments)),
        Ok(Call::Tool {
            tool,
            program,
            arguments,
        }) => {
            let outcome = start(tool, &program, arguments);
            (program, outcome)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(&program, &mut io::stderr());
            failure.exit_code()
        }
    }
}

fn start(
    tool: &'static tool::Tool,
    program: &str,
    arguments: Vec<OsString>,
) -> Result<(), Failure> {
    let asked = cli::parse(tool, arguments.clone()).and_then(|request| {
        Ok(match request {
            Request::Help => Asked::For(cli::help::usage(tool, program)),
            Request::Version => Asked::For(cli::help::tool_version(tool, program)),
            Request::Run(typed) => {
                let libcxi = env::var_os(LIBCXI_VARIABLE).filter(|path| !path.is_empty());
                let libcxi = libcxi.map(Into::into);
                Asked::ToRun(Box::new(Plan::new(
                    tool,
                    program.to_owned(),
                    *typed,
                    libcxi,
                )?))
            }
        })
    });
    match asked {
        Ok(Asked::For(text)) => print(&text),
        Ok(Asked::ToRun(plan)) => carry_out(&plan),
        Err(failure) => {
            report::refused(tool, &arguments, &failure);
            Err(failure)
        }
    }
}

/// What arguments turned out to be.
enum Asked {
    /// For a text.
    For(String),
    /// To run.
    ToRun(Box<Plan>),
}

fn carry_out(plan: &Plan) -> Result<(), Failure> {
    if let Some(note) = plan.note() {
        let _ = writeln!(io::stderr(), "{}: {note}", plan.program);
    }
    let mut reporter = Reporter::new(plan);
    let result = reporter
        .open()
        .and_then(|()| backend::check(plan))
        .and_then(|()| interrupt::watch())
        .and_then(|()| (plan.tool.run)(plan, &mut reporter));
    reporter.finish(result)
}

/// Prints a text that was asked for. Whoever closes the pipe before its end has seen enough.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::output),
    }
}
