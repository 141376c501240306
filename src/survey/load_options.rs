//! The load that a survey puts on the fabric after its quiet part: its tests, and where it is
//! refused (load.md 3).

use std::env;

use super::request::{ProcessSource, RequestedTest, SurveyRequest, test_plan, tests, tools};
use cli::arguments::TypedArguments;
use facts::error::{Failure, invalid};
use load::conductor::Cap;
use node::traffic_class::TrafficClass;

/// The variable by which Slurm tells the scripts that run before and after a job what they are.
const CONTEXT: &str = "SLURM_SCRIPT_CONTEXT";

/// The tool that victims use.
const VICTIM_TOOL: &str = "write-lat";

/// The class in which others measure.
pub const OTHER_CLASS: TrafficClass = TrafficClass::LowLatency;

/// Checks the options about load, and adds the tests of the load if it is asked for.
///
/// # Errors
///
/// Options that need `--load`, a place where load is refused, and a traffic class in which nothing
/// may load the fabric.
pub fn complete(typed: &mut TypedArguments<SurveyRequest>) -> Result<(), Failure> {
    let SurveyRequest { load, tests, service, processes, .. } = &typed.request;
    let Some(wanted) = &load.wanted else {
        let options = ["victims", "load-cap", "load-size", "load-window"];
        return match options.into_iter().find(|long| typed.is_given(long)) {
            Some(option) => Err(Failure::usage(format!("--{option} needs --load"))),
            None => Ok(()),
        };
    };
    check_place(processes, load.cap, wanted.is_plan, env::var(CONTEXT).ok().as_deref())?;
    let class = tests.first().and_then(|test| test.plan.class);
    let class = class.unwrap_or(TrafficClass::BestEffort);
    if !matches!(class, TrafficClass::BestEffort | TrafficClass::BulkData) {
        let allowed = "load is possible in BEST_EFFORT and BULK_DATA";
        return Err(Failure::usage(invalid("traffic-class", class, allowed)));
    }
    if let Some(window) = load.window_bytes.filter(|window| *window < load.size_bytes) {
        let allowed = format!("expected at least --load-size, {}", load.size_bytes);
        return Err(Failure::usage(invalid("load-window", window, allowed)));
    }
    typed.request.load.tests = load_tests(load.size_bytes, tests, &service.arguments())?;
    Ok(())
}

/// Refuses load where it would disturb the jobs of others.
fn check_place(
    processes: &ProcessSource,
    cap: Option<Cap>,
    is_plan: bool,
    context: Option<&str>,
) -> Result<(), Failure> {
    if let Some(context) =
        context.filter(|context| context.contains("prolog") || context.contains("epilog"))
    {
        return Err(Failure::usage(format!(
            "--load is not possible in a prolog or epilog ({CONTEXT}={context}): other jobs may run"
        )));
    }
    if matches!(processes, ProcessSource::Hosts(_)) && cap.is_none() && !is_plan {
        return Err(Failure::usage(
            "--load outside a batch job needs --load-cap=COUNT: other jobs may use the fabric",
        ));
    }
    Ok(())
}

/// Returns the tests of a load: of the aggressors, of the victims, and of victims in another
/// traffic class. Victims measure with the first latency tool of the survey, or with write-lat.
fn load_tests(
    size_bytes: u64,
    survey_tests: &[RequestedTest],
    service: &[String],
) -> Result<Vec<RequestedTest>, Failure> {
    let one = |name: &str, size: u64, further: &[String]| {
        let found = tests(&tools(&[name.to_owned()])?, &[size.to_string()], further, &[])?;
        found.into_iter().next().ok_or_else(|| Failure::usage("expected a size"))
    };
    let sink = one("write-bw", size_bytes, &[service, &["--list-size=1".to_owned()]].concat())?;
    let mut latencies = survey_tests.iter().filter(|test| !test.test.of_bandwidth);
    let victim = match latencies.next() {
        Some(first) => first.clone(),
        None => one(VICTIM_TOOL, 8, service)?,
    };
    let is_other_option = |option: &&String| !option.starts_with("--traffic-class");
    let mut arguments: Vec<String> =
        victim.arguments.iter().filter(is_other_option).cloned().collect();
    arguments.push(format!("--traffic-class={OTHER_CLASS}"));
    let other = RequestedTest {
        plan: test_plan(victim.plan.tool, &arguments)?,
        arguments,
        ..victim.clone()
    };
    Ok(vec![sink, victim, other])
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use cli::derived;
    use cli::usage::Usage;

    use super::*;
    use crate::request::COMMAND;

    fn hosts() -> ProcessSource {
        ProcessSource::Hosts(vec!["n1".into(), "n2".into()])
    }

    #[test]
    fn load_is_refused_where_it_disturbs_others() {
        let refused = |processes: &ProcessSource, cap, is_plan, context| {
            let checked = check_place(processes, cap, is_plan, context);
            checked.err().map(|failure| failure.message())
        };
        let launched = ProcessSource::Launcher;
        assert_eq!(refused(&launched, None, false, None), None);
        assert_eq!(refused(&launched, None, false, Some("srun")), None);
        for context in ["prolog_slurmd", "epilog_slurmctld"] {
            let why = refused(&launched, Some(Cap::All), false, Some(context)).unwrap();
            assert!(why.contains(context), "{why}");
        }
        assert!(refused(&hosts(), None, false, None).unwrap().contains("--load-cap"));
        assert_eq!(refused(&hosts(), Some(Cap::Most(2)), false, None), None);
        assert_eq!(refused(&hosts(), None, true, None), None);
        assert_eq!(refused(&ProcessSource::Loopback(4), None, false, None), None);
    }

    #[test]
    fn options_of_load_need_load() {
        let options = derived::entries(&COMMAND);
        let usage = Usage { options, ..Usage::default() };
        let completed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut typed = TypedArguments::read(&usage, &COMMAND, &words).unwrap().unwrap();
            complete(&mut typed).map(|()| typed.request.load.tests.len())
        };
        let refused = completed(&["--load-cap=all"]).unwrap_err();
        assert_eq!(refused.message(), "--load-cap needs --load");
        assert_eq!(completed(&["--hosts=n1"]).unwrap(), 0);
    }

    #[test]
    fn victims_measure_with_the_first_latency_tool() {
        let tests_for = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let survey_tests = tests(&tools(&names).unwrap(), &[], &[], &[]).unwrap();
            load_tests(64 << 10, &survey_tests, &[]).unwrap()
        };
        let found = tests_for(&["write-bw", "send-lat"]);
        let names: Vec<&str> = found.iter().map(|test| test.test.tool.as_str()).collect();
        assert_eq!(names, ["write-bw", "send-lat", "send-lat"]);
        assert_eq!(found[0].test.size_bytes, 64 << 10);
        let classes: Vec<_> = found.iter().map(|test| test.plan.class).collect();
        assert_eq!(classes, [None, None, Some(OTHER_CLASS)]);
        let found = tests_for(&["write-bw"]);
        assert_eq!((found[1].test.tool.as_str(), found[1].test.size_bytes), ("write-lat", 8));
    }
}
