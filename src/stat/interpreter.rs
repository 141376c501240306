//! Why a script cannot be executed although it exists.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

/// Bytes of a script that the kernel looks at.
const HEAD: u64 = 256;

/// Returns which interpreter a script needs that does not exist, if this is why the command `name`
/// could not be executed.
pub fn missing(name: &OsStr, error: &io::Error) -> Option<String> {
    if error.kind() != ErrorKind::NotFound {
        return None;
    }
    let file = File::open(found(name)?).ok()?;
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let line = head.strip_prefix("#!")?.split('\n').next()?;
    let interpreter = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next()?;
    Some(match interpreter.strip_suffix('\r') {
        Some(interpreter) => format!(
            "its first line ends in a carriage return, so its interpreter '{interpreter}' is not \
             found: convert the file with dos2unix"
        ),
        None => format!("its interpreter '{interpreter}' does not exist"),
    })
}

/// Returns the file that is executed for a name.
fn found(name: &OsStr) -> Option<PathBuf> {
    if name.to_string_lossy().contains('/') {
        return Some(name.into());
    }
    let directories = env::var_os("PATH")?;
    let mut paths = env::split_paths(&directories).map(|directory| directory.join(name));
    paths.find(|path| path.is_file())
}
