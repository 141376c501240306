//! Programs and libraries in C that change what the kernel answers: `tests/kernel`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::{Command, assert_success};

/// A library that makes files fail and the clock step.
pub static FAILING: LazyLock<PathBuf> = LazyLock::new(|| compile("failing", &["-shared", "-fPIC"]));

/// Compiles a source of `tests/kernel`. Each test program has its own executable: another one may
/// run at the same time.
pub fn compile(name: &str, options: &[&str]) -> PathBuf {
    let executable = format!("{name}-{}", env!("CARGO_CRATE_NAME"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(executable);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(format!("{}/tests/kernel/{name}.c", env!("CARGO_MANIFEST_DIR")));
    assert_success(&compiler.output().expect("the compiler starts"));
    program
}
