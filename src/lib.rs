//! `cxidiag`: latency and bandwidth diagnostics for HPE Slingshot NICs.
//!
//! One measurement takes this path:
//!
//! ```text
//! argv -> multicall -> cli -> plan -> backend -> endpoint -> session -> bench -> run -> measure ->
//! report
//! ```
//!
//! The modules stand on floors. A module uses only modules on lower floors, and on its own floor
//! only in one direction (`tests/tidy` checks it); `docs/architecture.md` shows the packages.
//!
//! <!-- From tests/tidy/houses.rs: src -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  2 | lib          arguments in, exit status out                                                |
//!    | main         the process                                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | completion   what a shell may offer for a word                                            |
//!    | multicall    `argv[0]` or the first argument -> tool or command                           |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | command      what the program does beside measuring                                       |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod command;
mod completion;
pub mod multicall;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use command::completion::VARIABLE;
use diag::run;
use facts::child::{self, PROGRAM};
use facts::device::LIBCXI_VARIABLE;
use facts::error::Failure;
use facts::release::{self, SourceRevision};
use facts::token::Token;
use facts::{advice, interrupt};
use multicall::Call;
use node::backend;
use node::machine::resource_limit;
use plan::command_line::{self, RefusedArguments, Request};
use plan::tools::{TOOLS, with_status_of};
use plan::{Plan, tool};
use report::Reporter;

/// Does what `argv` asks for. Nothing is opened before all of it has proved valid.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    cxi::signals::set_needed_dispositions();
    child::take_name();
    release::record(SourceRevision {
        revision: option_env!("CXIDIAG_REVISION"),
        date: option_env!("CXIDIAG_DATE"),
    });
    if let Some(shell) = env::var_os(VARIABLE) {
        completion::answer(&shell.to_string_lossy(), argv);
        return ExitCode::SUCCESS;
    }
    let call =
        multicall::resolve(argv, TOOLS, command::COMMANDS).and_then(|call| match lack_of_stack() {
            Some(failure) if !runs_a_program(&call) => Err((PROGRAM.into(), failure)),
            _ => Ok(call),
        });
    let (program, outcome) = match call {
        Ok(call) if cxi::inherited::was_standard_output_closed() && !runs_a_program(&call) => {
            (PROGRAM.into(), Err(page::no_standard_output()))
        }
        Err((program, failure)) => (program, Err(failure)),
        Ok(Call::Help) => (
            PROGRAM.into(),
            page::print(&command_line::overview(TOOLS, command::summaries()).to_string()),
        ),
        Ok(Call::Version) => (PROGRAM.into(), page::print(&cli::arguments::version())),
        Ok(Call::List) => (PROGRAM.into(), page::print(&command_line::list(TOOLS))),
        Ok(Call::Command { command, program, arguments }) => {
            // A program that `stat` runs gets the mask that `stat` has inherited.
            if !command::runs_a_program(command, &arguments) {
                cxi::signals::unblock_all();
            }
            (program, (command.run)(arguments))
        }
        Ok(Call::Tool { tool, program, arguments }) => {
            cxi::signals::unblock_all();
            let outcome = start(tool, &program, arguments);
            (program, outcome)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = advice::name_filter(failure);
            failure.report(&program, &mut io::stderr());
            failure.exit_code()
        }
    }
}

/// Bytes of stack that the main thread needs: debug builds take up to 0.4 MiB.
const NEEDED_STACK: u64 = 512 << 10;

/// The failure of a process whose main thread would overflow its stack.
fn lack_of_stack() -> Option<Failure> {
    let limit = resource_limit("Max stack size")?;
    (limit < NEEDED_STACK).then(|| {
        let (limit, needed) = (limit >> 10, NEEDED_STACK >> 10);
        Failure::environment(format!(
            "the stack is limited to {limit} KiB (ulimit -s): {needed} KiB are needed"
        ))
    })
}

/// Whether another program is to be run, whatever this program cannot do for itself.
fn runs_a_program(call: &Call) -> bool {
    match call {
        Call::Command { command, arguments, .. } => command::runs_a_program(command, arguments),
        _ => false,
    }
}

fn start(
    tool: &'static tool::Tool,
    program: &str,
    arguments: Vec<OsString>,
) -> Result<(), Failure> {
    let refused = |RefusedArguments { failure, outputs }| {
        let failure = with_status_of(tool, failure);
        report::refused(tool, &outputs, &failure);
        failure
    };
    match command_line::parse(tool, arguments).map_err(refused)? {
        Request::Help { is_long } => page::print(&command_line::usage(tool, program).text(is_long)),
        Request::Version => {
            cli::arguments::print_version(program, command_line::replaced_version(tool, program))
        }
        Request::Run(mut typed) => {
            typed.token = typed.token.or_else(Token::from_environment);
            let libcxi = env::var_os(LIBCXI_VARIABLE).filter(|path| !path.is_empty());
            let outputs = Box::new(typed.outputs.clone());
            let plan = Plan::new(tool, program.to_owned(), *typed, libcxi.map(Into::into))
                .map_err(|failure| refused(RefusedArguments { failure, outputs }))?;
            carry_out(&plan)
        }
    }
}

fn carry_out(plan: &Plan) -> Result<(), Failure> {
    if let Some(note) = plan.note() {
        let _ = writeln!(io::stderr(), "{}: {note}", plan.program);
    }
    if let Some(advice) = plan.advice().filter(|_| io::stderr().is_terminal()) {
        let _ = writeln!(io::stderr(), "{}: {advice}", plan.program);
    }
    if let Some(every) = plan.every {
        let measured = run::measure_every_nic(plan, every);
        return measured.map_err(|failure| with_status_of(plan.tool, failure));
    }
    let mut reporter = Reporter::new(plan, report::text_output(&plan.outputs));
    let result = reporter
        .open()
        .and_then(|()| backend::check(plan.device))
        .and_then(|()| run::place(plan))
        .and_then(|plan| {
            interrupt::watch()?;
            run::carry_out(&plan, &mut reporter)
        });
    reporter.finish(result.map_err(|failure| with_status_of(plan.tool, failure)))
}
