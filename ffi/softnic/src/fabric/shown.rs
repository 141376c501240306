//! The files that `cxi-softnic` shows to this process.

use std::fs;
use std::path::PathBuf;

/// Start of the text of links to devices that `cxi-softnic` shows. No kernel has such a class.
const TREE: &str = "../softnic/";

/// Returns the directory of the properties of the NIC with this number; `None` unless this process
/// sees the files of `cxi-softnic`.
pub fn properties(number: u32) -> Option<PathBuf> {
    let device = PathBuf::from(format!("/sys/class/cxi/cxi{number}"));
    let is_shown = fs::read_link(&device).ok()?.to_str()?.starts_with(TREE);
    is_shown.then(|| device.join("device/properties"))
}
