//! The command line that has started the processes of a survey.

use std::path::Path;
use std::{fs, iter};

/// The beginnings of the names of launchers that may run above their tasks (jobs.md 2.1).
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];

/// Options that set variables of tasks, and parts of the names of variables that may hold secrets:
/// documents show no line with one of them.
const ENVIRONMENT_OPTIONS: [&str; 4] = ["-env", "--env", "-genv", "--genv"];
const SECRETS: [&str; 5] = ["TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL"];

/// The word between the contexts of a launcher: the commands that it starts.
pub const CONTEXT: &str = ":";

/// The command lines of this process and of the processes above it, from this one up.
pub fn lines() -> Vec<Vec<String>> {
    let read = |process: &str, file: &str| {
        let text = fs::read(format!("/proc/{process}/{file}")).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let parent = |process: &String| {
        let status = read(process, "status")?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        parent.map(|number| number.trim().to_owned())
    };
    let words = |process: String| -> Vec<String> {
        let line = read(&process, "cmdline").unwrap_or_default();
        line.split_terminator('\0').map(str::to_owned).collect()
    };
    iter::successors(Some("self".to_owned()), parent).map(words).collect()
}

/// The line of the launcher among the `lines` of this process and of those above it, or of this
/// process if it `starts_alone`; empty if none has the words of `command` as the end of what it
/// starts. A launcher on another node, and a script between it and its tasks, hide them. A line
/// that may hold a secret is not shown.
pub fn find(lines: Vec<Vec<String>>, command: &[String], starts_alone: bool) -> Vec<String> {
    let starts_command = |line: &&Vec<String>| {
        line.split(|word| word == CONTEXT).any(|context| context.ends_with(command))
    };
    let is_launcher = |word: &String| {
        let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))
    };
    let mut found: Vec<&Vec<String>> = if starts_alone {
        lines.iter().take(1).filter(starts_command).collect()
    } else {
        let has_launcher = |line: &&Vec<String>| line.iter().any(is_launcher);
        lines.iter().skip(1).filter(starts_command).filter(has_launcher).collect()
    };
    // `timeout 600 mpirun ...` belongs to the line.
    let line = found.pop().filter(|line| !line.iter().any(|word| may_set_secret(word)));
    line.cloned().unwrap_or_default()
}

fn may_set_secret(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name).to_uppercase();
    ENVIRONMENT_OPTIONS.contains(&word) || SECRETS.iter().any(|one| name.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn found(lines: &[&str], command: &str, starts_alone: bool) -> String {
        let lines = lines.iter().map(|line| words(line)).collect();
        find(lines, &words(command), starts_alone).join(" ")
    }

    #[test]
    fn finds_line_of_the_launcher_above() {
        let own = "cxidiag survey -d soft0";
        let command = "survey -d soft0";
        let launcher = "mpirun.openmpi -np 3 cxidiag survey -d soft0";
        let hydra = ["/bin/cxidiag survey -d soft0", "hydra_pmi_proxy --rmk user", launcher, "sh"];
        assert_eq!(found(&hydra, command, false), launcher);
        let limited = format!("timeout 600 {launcher}");
        assert_eq!(found(&[own, launcher, &limited, "bash"], command, false), limited);
        let contexts = "mpiexec -n 1 cxidiag survey -d soft0 : -n 1 cxidiag survey -d soft1";
        assert_eq!(found(&[own, contexts], command, false), contexts);
    }

    #[test]
    fn finds_no_line_where_the_launcher_is_elsewhere_or_starts_a_script() {
        let own = "cxidiag survey -d soft0";
        for above in [
            "orted --hnp-uri x",
            "timeout 60 cxidiag survey -d soft0",
            "mpirun -n 3 sh -c cxidiag survey -d soft0 -d soft1",
            "mpirun -n 3 cxidiag survey",
            "mpirun -x CXIDIAG_TOKEN=secret -n 3 cxidiag survey -d soft0",
            "mpiexec -genv CXIDIAG_TOKEN secret -n 3 cxidiag survey -d soft0",
            "mpirun -x db_password=secret -n 3 cxidiag survey -d soft0",
        ] {
            assert_eq!(found(&[own, above, "sshd"], "survey -d soft0", false), "", "{above}");
        }
    }

    #[test]
    fn finds_own_line_of_a_process_without_launcher() {
        let own = lines()[0].join(" ");
        assert!(own.contains("crew"), "{own}");
        let lines = ["./cxidiag survey --loopback=3", "mpirun -n 1 ./cxidiag survey --loopback=3"];
        assert_eq!(found(&lines, "survey --loopback=3", true), lines[0]);
        assert_eq!(found(&lines, "survey", true), "");
    }
}
