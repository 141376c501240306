//! Typed options without effect beside the others. They are named, not refused: scripts for the
//! legacy tools may give them.

use crate::typed::{Every, Typed};
use facts::atomic::AtomicOp;

/// An option without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ineffective {
    /// Its long form.
    pub option: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

/// Returns a line that names these options. `None` without any.
pub fn note(options: &[Ineffective]) -> Option<String> {
    let named =
        options.iter().map(|Ineffective { option, reason }| format!("--{option} ({reason})"));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("without effect: {}", named.join(", ")))
}

/// Returns the options of `typed` that have no effect.
pub fn find(typed: &Typed) -> Vec<Ineffective> {
    let given = |long| typed.run_given.contains(&long);
    let is_timed = typed.run.duration_s.is_some();
    let atomic = typed.run.atomic;
    let has_gpus = typed.gpus.any() || typed.every == Some(Every::NicAndGpu);
    let rules = [
        ("iters", given("iters") && is_timed, "--duration replaces it"),
        ("report-all", given("report-all") && is_timed, "not with --duration"),
        (
            "cswap-op",
            given("cswap-op") && atomic.is_some_and(|atomic| atomic.op != AtomicOp::Cswap),
            "only with --atomic-op=CSWAP",
        ),
        ("gpu-type", typed.gpus.kind.is_some() && !has_gpus, "only with --tx-gpu or --rx-gpu"),
        ("gpu-map", typed.gpus.map.is_some() && !has_gpus, "only with --tx-gpu or --rx-gpu"),
    ];
    rules
        .into_iter()
        .filter_map(|(option, applies, reason)| applies.then_some(Ineffective { option, reason }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::Plan;
    use crate::command_line;
    use crate::command_line::Request;
    use crate::tools::TOOLS;

    #[test]
    fn names_options_without_effect() {
        let note = |tool: &str, arguments: &[&str]| {
            let tool = TOOLS.iter().find(|own| own.name == tool).unwrap();
            let arguments = arguments.iter().map(OsString::from).collect();
            let Ok(Request::Run(typed)) = command_line::parse(tool, arguments) else {
                panic!("a run was asked for");
            };
            Plan::new(tool, String::new(), *typed, None).unwrap().note()
        };
        let iters = "--iters (--duration replaces it)";
        let report_all = "--report-all (not with --duration)";
        let cswap = "--cswap-op (only with --atomic-op=CSWAP)";
        let gpu = "--gpu-type (only with --tx-gpu or --rx-gpu)";
        for (tool, arguments, options) in [
            ("write-bw", &["h", "-n5", "-D1"][..], iters),
            (
                "write-lat",
                &["h", "-n5", "-D1", "--report-all", "-gAMD"],
                &[iters, report_all, gpu].join(", "),
            ),
            ("atomic-lat", &["h", "-CEQ"], cswap),
            ("send-lat", &["-gAMD"], gpu),
        ] {
            let expected = format!("without effect: {options}");
            assert_eq!(note(tool, arguments), Some(expected), "{arguments:?}");
            let quiet = [&["h", "--quiet"], arguments.strip_prefix(&["h"]).unwrap_or(arguments)];
            assert_eq!(note(tool, &quiet.concat()), None);
        }
        for (tool, arguments) in [
            ("write-lat", &["h", "-D1"][..]),
            ("write-lat", &["h", "-n5", "--report-all"]),
            ("write-lat", &["h", "--until=1%"]),
            ("atomic-lat", &["h", "-CEQ", "-ACSWAP"]),
            ("write-lat", &["h", "-gAMD", "-t0"]),
        ] {
            assert_eq!(note(tool, arguments), None, "{arguments:?}");
        }
        let ignored = "ignored on a server (the client's options apply): --iters --duration";
        let both = format!("{ignored}; without effect: {gpu}");
        assert_eq!(note("write-lat", &["-n5", "-D1", "-gAMD"]), Some(both));
    }
}
