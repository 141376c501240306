//! The command of a job, as its script has it: the settings in its words, and the libraries that
//! its program loads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::library::{self, Environment, SONAME};
use super::table::RULES;
use node::reading;

/// A program that needs libfabric.
#[derive(Debug)]
pub struct JobProgram {
    /// Place of its name among the words.
    pub place: usize,
    /// Its libraries, a path on each line.
    pub libraries: String,
}

/// Returns the settings in the words of a command: `NAME=VALUE` as `env` and `mpirun -x` take them,
/// the list of `srun --export`, and the two words behind `-genv` of Hydra.
pub fn settings(words: &[&str]) -> Vec<(OsString, OsString)> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        match (option_value(words, place, "--export"), &words[place..]) {
            (Some(list), _) => {
                pairs.extend(list.split(',').filter_map(|pair| pair.split_once('=')))
            }
            (None, ["-genv" | "-env", name, value, ..]) => pairs.push((name, value)),
            _ => pairs.extend(word.split_once('=')),
        }
    }
    let is_setting =
        |name: &str| matches!(name, "PATH" | "LD_LIBRARY_PATH") || RULES.has("family", name);
    let pairs = pairs.into_iter().filter(|(name, _)| is_setting(name));
    pairs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Returns the value of an option that ends at this place: `--option=VALUE` or `--option VALUE`.
pub fn option_value<'a>(words: &[&'a str], place: usize, option: &str) -> Option<&'a str> {
    let is_option = |place: usize| words[place] == option;
    let own = words[place].strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
    own.or_else(|| place.checked_sub(1).filter(|place| is_option(*place)).map(|_| words[place]))
}

/// Returns the last program of a command that needs libfabric, by the dynamic linker, which lists
/// the libraries of each word that is a file; nothing is started. `None` if none of them needs
/// it: a script, or a program that loads it later.
pub fn program(words: &[&str], environment: &Environment) -> Option<JobProgram> {
    let own = reading::text(Path::new("/proc/self/maps")).unwrap_or_default();
    let linker = library::files_in(&own, "ld-linux").into_iter().next()?;
    let path = environment.get(&OsString::from("PATH")).cloned().unwrap_or_default();
    words.iter().enumerate().rev().find_map(|(place, word)| {
        let mut lister = Command::new(&linker);
        lister.arg(file(word, &path)?).env_clear();
        lister.envs(environment.iter().filter(|(name, _)| *name != "LD_PRELOAD"));
        // With it, the dynamic linker of glibc prints the libraries and ends, as for ldd.
        lister.env("LD_TRACE_LOADED_OBJECTS", "1");
        let (text, _) = library::output_within_limit(&mut lister, word).ok()?;
        let text = String::from_utf8_lossy(&text);
        // libfabric.so.1 => /opt/cray/libfabric.so.1 (0x00007f...)
        let lines = text.lines().map(|line| line.split(" (0x").next().unwrap_or(line));
        let libraries = lines.map(|line| format!("{line}\n")).collect::<String>();
        libraries.contains(SONAME).then_some(JobProgram { place, libraries })
    })
}

/// Returns the file that is executed for a word.
fn file(word: &str, path: &OsString) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|file| file.is_file());
    }
    std::env::split_paths(path).map(|directory| directory.join(word)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings_as_launchers_do() {
        let settings = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let found = settings(&words).into_iter();
            let found =
                found.map(|(name, value)| format!("{}={}", name.display(), value.display()));
            found.collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("env FI_CXI_ODP=1 A=2 LD_LIBRARY_PATH=/x ./app", "FI_CXI_ODP=1 LD_LIBRARY_PATH=/x"),
            (
                "srun --export=ALL,FI_PROVIDER=cxi,NCCL_NET=OFI ./app",
                "FI_PROVIDER=cxi NCCL_NET=OFI",
            ),
            ("srun --export ALL,FI_PROVIDER=cxi ./app", "FI_PROVIDER=cxi"),
            ("mpirun -x NCCL_SOCKET_IFNAME=hsn0,hsn1 ./app", "NCCL_SOCKET_IFNAME=hsn0,hsn1"),
            (
                "mpiexec -genv FI_PROVIDER tcp -env FI_CXI_ODP 1 ./app",
                "FI_PROVIDER=tcp FI_CXI_ODP=1",
            ),
            ("./app -genv", ""),
        ] {
            assert_eq!(settings(line), expected, "{line}");
        }
    }

    #[test]
    fn programs_without_libfabric_and_files_that_are_none_are_passed_over() {
        let environment: Environment = std::env::vars_os().collect();
        assert!(file("sh", &environment[&OsString::from("PATH")]).is_some());
        assert!(
            program(&["env", "--none", "/etc/passwd", "no-such-program"], &environment).is_none()
        );
    }
}
