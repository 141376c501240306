//! Completion scripts for bash, zsh and fish.

mod bash;
mod fish;
mod zsh;

use std::collections::BTreeMap;

use cxi::gpu::GpuType;
use cxidiag::tool::PROGRAM;

use super::usage::{Entry, Usage};
use super::{File, overview, subcommands};

/// What may follow an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// A device.
    Devices,
    /// A file.
    Files,
    /// One of these.
    Words(Vec<String>),
    /// What nobody can guess: a number, say.
    Free,
}

/// Devices that are always there; those of the hardware are in `/sys/class/cxi`.
const SOFTWARE_NICS: [&str; 4] = ["soft0", "soft1", "soft2", "soft3"];

/// Options whose values are a few words that the help has no list of.
const SIZES_OF_HUGE_PAGES: (&str, [&str; 2]) = ("use-hp", ["2M", "1G"]);

/// What may follow `entry`, an option of `usage`.
pub fn values(usage: &Usage, entry: &Entry) -> Values {
    let list = |title| Values::Words(usage.list(title));
    match (entry.long.as_str(), entry.value.as_deref()) {
        ("atomic-op", _) => list("Atomic operations"),
        ("cswap-op", _) => list("Comparisons of CSWAP"),
        ("atomic-type", _) => list("Atomic types"),
        ("gpu-type", _) => Values::Words(GpuType::ALL.map(|kind| kind.to_string()).to_vec()),
        (long, _) if long == SIZES_OF_HUGE_PAGES.0 => {
            Values::Words(SIZES_OF_HUGE_PAGES.1.map(str::to_owned).to_vec())
        }
        (_, Some("DEV")) => Values::Devices,
        (_, Some("FILE" | "PATH")) => Values::Files,
        _ => Values::Free,
    }
}

/// The scripts. Shells look for them by the name of the program, and so under each legacy name too; those of bash and zsh are for
/// all names.
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
