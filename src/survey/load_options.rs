//! The load that a survey puts on the fabric after its quiet part: its options, its tests, and
//! where it is refused (load.md 3).

use std::env;
use std::ops::RangeInclusive;

use super::request::{LoadRequest, ProcessSource, RequestedTest, test_plan, tests, tools};
use cli::definition::OptionDef;
use cli::usage::{Completion, Value};
use cli::values::{LEFT_OUT, text};
use facts::error::{Failure, invalid};
use facts::number::{bytes_within, within};
use load::conductor::Cap;
use load::roles::VICTIMS_PERCENT;
use load::spec;
use load::spec::LoadSpec;
use node::traffic_class::TrafficClass;

/// Default of `--load-size`, and its range: one operation fits into the smallest window.
const SIZE: u64 = 64 << 10;
const SIZES: RangeInclusive<u64> = 64..=1 << 20;

/// The range of `--load-window`.
const WINDOWS: RangeInclusive<u64> = 4 << 10..=64 << 20;

const VICTIM_PERCENTS: RangeInclusive<u64> = 1..=90;

/// The variable by which Slurm tells the scripts that run before and after a job what they are.
const CONTEXT: &str = "SLURM_SCRIPT_CONTEXT";

/// The tool that victims use, and the class in which others measure.
const VICTIM_TOOL: &str = "write-lat";
const OTHER_CLASS: TrafficClass = TrafficClass::LowLatency;

/// What the options about load say.
#[derive(Debug, Default)]
pub struct LoadArgs {
    load: Option<LoadSpec>,
    victims_percent: Option<u8>,
    cap: Option<Cap>,
    size_bytes: Option<u64>,
    window_bytes: Option<u64>,
}

/// Returns the options about load.
pub fn options() -> Vec<OptionDef<LoadArgs>> {
    let patterns = Value::optional("PATTERN,...", Completion::Nothing);
    vec![
        OptionDef::new("load", Some(patterns), |args: &mut LoadArgs, value| {
            args.load = Some(if value == LEFT_OUT {
                LoadSpec::default()
            } else {
                spec::parse(text(value)?)?
            });
            Ok(())
        })
        .explained(
            "Then load the fabric: standard, plan, bisect, bisect:switch, bisect:group, \
             bisect:system, shift, all2all, incast:COUNT, incast-same:COUNT, victims, classes\n\n\
             After the quiet survey, the load measures bandwidths of random halves (bisect), \
             bisect:switch, bisect:group, bisect:system, shift, all2all and incast, latencies of \
             victims beside load, and how far traffic classes isolate. 'standard', the default, \
             leaves out bisect, shift, incast-same and classes. 'plan' sends nothing: it prints \
             what the survey would do. Hardware outside a batch job needs --load-cap. To measure \
             one pair beside load, use --load=incast:2 with the hosts of both and of the load.",
        ),
        OptionDef::text("victims", "PERCENT", |args: &mut LoadArgs, typed| {
            args.victims_percent = Some(within(typed, VICTIM_PERCENTS)? as u8);
            Ok(())
        })
        .explained(format!(
            "Nodes that measure beside load (default: {VICTIMS_PERCENT})\n\n\
                     In percent, from 1 to 90. Small fabrics need more: a class of fewer than 8 \
                     pairs gets no verdict."
        )),
        OptionDef::text("load-cap", "COUNT|all", |args: &mut LoadArgs, typed| {
            args.cap = Some(match typed {
                "all" => Cap::All,
                _ => Cap::Most(within(typed, 1..=1 << 20).map_err(|why| why + ", or all")? as u32),
            });
            Ok(())
        })
        .explained(
            "Most NICs that send at once (default: 64 and a quarter of all; software NICs: all)\n\n\
             Without 'all', the result is of a partial load: it has no shares of what the fabric \
             can do.",
        ),
        OptionDef::text("load-size", "SIZE", |args: &mut LoadArgs, typed| {
            args.size_bytes = Some(bytes_within(typed, SIZES)?);
            Ok(())
        })
        .explained(
            "Bytes of an operation of the load (default: 64K)\n\n\
             From 64 bytes to 1 MiB. GPCNeT uses 4K.",
        ),
        OptionDef::text("load-window", "SIZE", |args: &mut LoadArgs, typed| {
            args.window_bytes = Some(bytes_within(typed, WINDOWS)?);
            Ok(())
        })
        .explained(
            "Bytes that a NIC has under way (default: 1M; software NICs: 256K)\n\n\
             From 4 KiB to 64 MiB. Rate times round trip times 10 fills each link.",
        ),
    ]
}

impl LoadArgs {
    /// Returns the load that the options ask for, of a survey with these `processes`, tests
    /// (`survey_tests`) and options about the `service`.
    ///
    /// # Errors
    ///
    /// Options that need `--load`, a place where load is refused, and a traffic class in which
    /// nothing may load the fabric.
    pub fn request(
        self,
        processes: &ProcessSource,
        survey_tests: &[RequestedTest],
        service: &[String],
    ) -> Result<Option<LoadRequest>, Failure> {
        let Some(wanted) = self.load else {
            let options = [
                ("victims", self.victims_percent.is_some()),
                ("load-cap", self.cap.is_some()),
                ("load-size", self.size_bytes.is_some()),
                ("load-window", self.window_bytes.is_some()),
            ];
            return match options.into_iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => Err(Failure::usage(format!("--{option} needs --load"))),
                None => Ok(None),
            };
        };
        check_place(processes, self.cap, wanted.is_plan, env::var(CONTEXT).ok().as_deref())?;
        let class = survey_tests.first().and_then(|test| test.plan.class);
        let class = class.unwrap_or(TrafficClass::BestEffort);
        if !matches!(class, TrafficClass::BestEffort | TrafficClass::BulkData) {
            let allowed = "load is possible in BEST_EFFORT and BULK_DATA";
            return Err(Failure::usage(invalid("traffic-class", class, allowed)));
        }
        let size_bytes = self.size_bytes.unwrap_or(SIZE);
        if self.window_bytes.is_some_and(|window| window < size_bytes) {
            let window = self.window_bytes.unwrap_or_default();
            let allowed = format!("expected at least --load-size, {size_bytes}");
            return Err(Failure::usage(invalid("load-window", window, allowed)));
        }
        Ok(Some(LoadRequest {
            wanted,
            victims_percent: self.victims_percent.unwrap_or(VICTIMS_PERCENT),
            cap: self.cap.unwrap_or_default(),
            size_bytes,
            window_bytes: self.window_bytes,
            tests: load_tests(size_bytes, survey_tests, service)?,
            other_class: OTHER_CLASS,
        }))
    }
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
    use super::*;

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
        let args = LoadArgs { cap: Some(Cap::All), ..LoadArgs::default() };
        let refused = args.request(&ProcessSource::Launcher, &[], &[]).unwrap_err();
        assert_eq!(refused.message(), "--load-cap needs --load");
        let none = LoadArgs::default().request(&hosts(), &[], &[]).unwrap();
        assert!(none.is_none());
    }

    #[test]
    fn victims_measure_with_the_first_latency_tool() {
        let tests_for = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let survey_tests = tests(&tools(&names).unwrap(), &[], &[], &[]).unwrap();
            load_tests(SIZE, &survey_tests, &[]).unwrap()
        };
        let found = tests_for(&["write-bw", "send-lat"]);
        let names: Vec<&str> = found.iter().map(|test| test.test.tool.as_str()).collect();
        assert_eq!(names, ["write-bw", "send-lat", "send-lat"]);
        assert_eq!(found[0].test.size_bytes, SIZE);
        let classes: Vec<_> = found.iter().map(|test| test.plan.class).collect();
        assert_eq!(classes, [None, None, Some(OTHER_CLASS)]);
        let found = tests_for(&["write-bw"]);
        assert_eq!((found[1].test.tool.as_str(), found[1].test.size_bytes), ("write-lat", 8));
    }
}
