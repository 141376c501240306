//! The findings of a survey -> its document, with the conclusion, the first line, and what the
//! medians lack to bounds for their kind of NIC, which come from published figures: pairs that are
//! judged by each other are good if all of them are slow alike.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use super::distribution::{is_incomparable, is_mixed};
use super::document::COMMAND;
use super::load_words::certainties;
use super::next::next;
use super::summary::summary;
use super::{Conclusion, SCHEMA_VERSION, Scope, Setup, Shortfall, Survey};
use campaign::quiet::busy::BusyNode;
use campaign::quiet::findings::{Certainty, Findings, Population, Test, UntestedPart};
use campaign::quiet::roster::{Nic, Roster, Unit};
use crew::location::Class;
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::expect::{ACROSS_GROUPS, Expectation, SAME_SWITCH, parse_lines};
use facts::time_of_day::{milliseconds, unix_ms};
use load::findings::LoadFindings;
use page::problem::Problem;

impl Survey {
    /// A survey that began at `started`, took `elapsed`, and ended with `end`. `load` is what it
    /// found under load, if there was any.
    pub fn new(
        setup: Setup,
        started: SystemTime,
        elapsed: Duration,
        roster: Roster,
        verdict: Findings,
        load: Option<LoadFindings>,
        end: Result<(), &Failure>,
    ) -> Self {
        let aborted = load.as_ref().and_then(|findings| findings.aborted.as_deref());
        let aborted =
            aborted.map(|why| Failure::environment(format!("the load ended early: {why}")));
        // What ends the survey ends its load as well.
        let end = end.and_then(|()| aborted.as_ref().map_or(Ok(()), Err));
        let conclusion = conclusion(&verdict, load.as_ref(), end);
        let is_software =
            |nic: &Nic| DeviceName::names(&nic.device, |platform| platform.is_simulated);
        let mut survey = Self {
            schema_version: SCHEMA_VERSION,
            command: COMMAND.into(),
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            conclusion,
            scope: Scope::from_tests(&setup.tests),
            next: None,
            exit_status: conclusion.exit_status(),
            summary: String::new(),
            error: end.err().map(Problem::from),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            is_software: roster.nics.iter().any(is_software),
            clock_uncertainty_ns: None,
            busy_nodes: Vec::new(),
            setup,
            roster,
            verdict,
            shortfall: None,
            load,
            why: Vec::new(),
            why_shared: Vec::new(),
        };
        survey.shortfall = shortfall(&survey);
        survey.summary = summary(&survey);
        survey.next = next(&survey);
        survey
    }

    /// The survey with the nodes whose CPUs were busy, which no command cures.
    pub fn beside(mut self, busy_nodes: Vec<BusyNode>) -> Self {
        self.busy_nodes = busy_nodes;
        self.next = next(&self);
        self
    }
}

/// A good survey has an answer of all planned pairs but one of this many.
const MOST_UNANSWERED: u64 = 10;

/// The conclusion of a survey with these findings and this end.
fn conclusion(
    verdict: &Findings,
    load: Option<&LoadFindings>,
    end: Result<(), &Failure>,
) -> Conclusion {
    let has = |word| {
        verdict.causes.iter().any(|cause| cause.certainty == word)
            || certainties(load).any(|(_, certainty)| certainty == word)
    };
    let is_load_complete = load.is_none_or(LoadFindings::is_complete);
    // The NICs of a path are tested with other partners.
    let is_path = |part: &UntestedPart| matches!(part.unit, Unit::Path(_));
    let missing = verdict.planned.saturating_sub(verdict.answered);
    let is_complete = verdict.untested.iter().all(is_path)
        && verdict.planned > 0
        && missing * MOST_UNANSWERED <= verdict.planned;
    match end {
        Err(failure) if failure.kind == Kind::Interrupted => Conclusion::Interrupted,
        Err(_) => Conclusion::Failed,
        Ok(()) if has(Certainty::Bad) => Conclusion::Bad,
        Ok(())
            if has(Certainty::Suspect)
                || !is_complete
                || verdict.populations.iter().any(|one| is_mixed(one) || is_incomparable(one))
                || !is_load_complete =>
        {
            Conclusion::Undecided
        }
        Ok(()) => Conclusion::Good,
    }
}

/// Speed of the links that the profiles are for, in Gb/s.
const LINK_GBPS: u32 = 200;

/// The largest shortfall of a class; `None` without any, of software NICs, of links with another
/// speed, and of a survey that ended early.
fn shortfall(survey: &Survey) -> Option<Shortfall> {
    let is_done = !matches!(survey.conclusion, Conclusion::Failed | Conclusion::Interrupted);
    let is_of_profile = survey.roster.link_gbps == Some(LINK_GBPS) && !survey.is_software;
    let populations = survey.verdict.populations.iter().filter(|_| is_done && is_of_profile);
    let found = populations.filter_map(|population| {
        class_shortfall(population, &survey.setup.tests[population.test.index()])
    });
    found.min_by(|one, other| one.share.partial_cmp(&other.share).unwrap_or(Ordering::Equal))
}

/// The shortfall of a class of pairs.
fn class_shortfall(population: &Population, test: &Test) -> Option<Shortfall> {
    let (profile, text) = match population.class {
        Class::Switch => SAME_SWITCH,
        Class::Fabric => ACROSS_GROUPS,
        Class::Loopback | Class::Node | Class::Group | Class::Unknown => return None,
    };
    let median = population.median();
    let bound = bound(&parse_lines(text, None).ok()?, test)?;
    // Latencies of processes that waited for their CPUs are upper bounds.
    let is_judged = population.count > 0 && population.unjudged == 0 && median > 0.0;
    if !is_judged || bound.is_met_by(median) {
        return None;
    }
    let share = if test.of_bandwidth { median / bound.limit } else { bound.limit / median };
    Some(Shortfall {
        profile: profile.into(),
        expectation: bound.text,
        test: population.test,
        class: population.class,
        median,
        share,
    })
}

/// The bound that a test must meet at least: bandwidths grow with the size, latencies as well.
fn bound(bounds: &[Expectation], test: &Test) -> Option<Expectation> {
    let own = bounds.iter().filter(|bound| {
        bound.tool.as_deref() == Some(&*test.tool)
            && bound.metric.is_of_bandwidth() == test.of_bandwidth
    });
    let size = |bound: &&Expectation| bound.size;
    let found = if test.of_bandwidth {
        own.filter(|bound| bound.size <= Some(test.size_bytes)).max_by_key(size)
    } else {
        own.filter(|bound| bound.size >= Some(test.size_bytes)).min_by_key(size)
    };
    found.cloned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{good, survey};
    use super::super::{text, words};
    use super::*;
    use page::table::TextStyle;

    /// A good survey whose bandwidths and latencies are this part of the bounds.
    fn all_at(share: f64, class: Class, link_gbps: Option<u32>) -> Survey {
        let mut findings = good();
        for population in &mut findings.populations {
            let median = if population.test.index() == 1 { 21e9 * share } else { 3500.0 / share };
            (population.class, population.percentiles) = (class, [median; 7]);
        }
        let mut survey = survey(findings, Ok(()));
        // Large writes of 4 MiB, which have a bound of 21 GB/s.
        survey.setup.tests[1].size_bytes = 4 << 20;
        survey.roster.link_gbps = link_gbps;
        survey.shortfall = shortfall(&survey);
        survey.summary = super::super::summary::summary(&survey);
        survey
    }

    #[test]
    fn fabrics_that_are_slow_everywhere_are_named_and_stay_good() {
        for step in 3..=9 {
            let share = f64::from(step) / 10.0;
            let survey = all_at(share, Class::Switch, Some(200));
            let found = survey.shortfall.clone().unwrap();
            assert!((found.share - share).abs() < 1e-9 && found.profile == SAME_SWITCH.0);
            assert_eq!((survey.conclusion, survey.exit_status), (Conclusion::Good, 0));
            let words = format!(" at {share:.2} of what slingshot200-same-switch expects");
            assert!(survey.summary.ends_with(&words), "{}", survey.summary);
            let text = text::page(&survey).text(TextStyle::Plain);
            assert!(text.contains("Slower than slingshot200-same-switch expects: "), "{text}");
            assert!(words::test(&survey.setup.tests[found.test.index()]).starts_with("write"));
        }
    }

    #[test]
    fn good_fabrics_and_other_kinds_are_not_named() {
        for (share, class, link) in [
            (1.0, Class::Switch, Some(200)),
            (1.2, Class::Switch, Some(200)),
            // No profile is for other speeds, for loopbacks of tools between two NICs, or for
            // writes between groups.
            (0.3, Class::Switch, Some(400)),
            (0.3, Class::Switch, None),
            (0.3, Class::Loopback, Some(200)),
            (0.3, Class::Group, Some(200)),
            (0.3, Class::Fabric, Some(200)),
        ] {
            assert_eq!(all_at(share, class, link).shortfall, None, "{share} {class:?} {link:?}");
        }
        let slow = || all_at(0.3, Class::Switch, Some(200));
        let mut survey = slow();
        survey.is_software = true;
        assert_eq!(shortfall(&survey), None);
        // Processes that waited for their CPUs say nothing about NICs.
        let mut survey = slow();
        survey.verdict.populations.iter_mut().for_each(|population| population.unjudged = 1);
        assert_eq!(shortfall(&survey), None);
    }

    /// The bound of the next smaller size holds for a bandwidth, of the next larger one for a
    /// latency.
    #[test]
    fn bounds_of_other_sizes_hold_if_they_are_weaker() {
        let bounds = parse_lines(SAME_SWITCH.1, None).unwrap();
        let found = |tool: &str, size_bytes: u64| {
            let test = Test { tool: tool.into(), size_bytes, of_bandwidth: tool.ends_with("bw") };
            bound(&bounds, &test).map(|bound| bound.text)
        };
        assert_eq!(found("write-bw", 1 << 20).as_deref(), Some("64K:bw>=20GB/s"));
        assert_eq!(found("write-bw", 4096), None);
        assert_eq!(found("write-lat", 4).as_deref(), Some("8:mean<=3.5us"));
        assert_eq!(found("write-lat", 64), None);
    }
}
