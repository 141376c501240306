//! Completion scripts for bash, zsh and fish.
//!
//! `clap_complete` does not serve here: its scripts offer no devices, one script cannot serve the
//! legacy names as well, and its bash script does not complete a value after `--option=`.

mod bash;
mod fish;
mod zsh;

use std::collections::BTreeMap;

use plan::tool::PROGRAM;

use super::{File, overview, subcommands};

/// Software NICs that are offered. The NICs of the hardware are in `/sys/class/cxi`.
const SOFTWARE_NICS: [&str; 4] = ["soft0", "soft1", "soft2", "soft3"];

/// Prints the lists of the CPUs of this machine and of its NUMA nodes, one on a line, in any shell.
const CPU_LISTS: &str = r#"sh -c "cat /sys/devices/system/cpu/online /sys/devices/system/node/node*/cpulist 2>/dev/null | sort -u""#;

/// Returns the scripts. Shells look for a script by the name of the program. The scripts of bash
/// and zsh serve the legacy names as well; fish needs one file for each name.
pub fn scripts() -> Vec<File> {
    let all = subcommands();
    let program = overview();
    let mut scripts = BTreeMap::new();
    scripts.insert(format!("bash/{PROGRAM}"), bash::script(&program, &all));
    scripts.insert(format!("zsh/_{PROGRAM}"), zsh::script(&program, &all));
    scripts.insert(format!("fish/{PROGRAM}.fish"), fish::script(&program, &all));
    for tool in &all {
        if let Some(name) = tool.legacy_name {
            scripts.insert(format!("fish/{name}.fish"), fish::legacy_script(name, tool));
        }
    }
    scripts.into_iter().collect()
}
