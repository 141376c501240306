//! Arguments in, exit code out; everything else is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cxidiag::main(std::env::args_os())
}
