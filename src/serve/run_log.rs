//! Limits the lines about the runs of each host, so that a host that measures again and again, such
//! as one with `cxidiag ping`, does not fill the log. The first runs of a host are printed one by
//! one. While the host goes on, a line a minute has the number of its further runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::ending::{ClientEnding, ClientOutcome};
use super::log::Priority;

/// Runs of a host that are printed one by one.
const SINGLY: u32 = 8;

/// Time between two lines about the further runs of a host. A host that begins no run for this time
/// begins anew, and a run that takes as long is printed in any case.
const PERIOD: Duration = Duration::from_secs(60);

/// The runs of all hosts.
#[derive(Debug, Default)]
pub struct RunLog {
    hosts: BTreeMap<IpAddr, HostRuns>,
}

#[derive(Debug)]
struct HostRuns {
    printed: u32,
    /// When the current period ends.
    due: Instant,
    /// A run has begun in this period.
    is_active: bool,
    /// A failure was printed in this period.
    has_failed: bool,
    further: Further,
}

/// The runs of a period that were not printed.
#[derive(Debug, Default)]
struct Further {
    done: u64,
    failed: u64,
    left: u64,
    /// What the client did, by name.
    doing: BTreeSet<&'static str>,
    /// What happened at the last failure.
    failure: Option<String>,
}

impl Further {
    /// Returns the line about them, if there are any.
    fn line(&self, host: IpAddr) -> Option<(Priority, String)> {
        let counts =
            [(self.done, "done"), (self.failed, "failed"), (self.left, "ended by the client")];
        let sum: u64 = counts.iter().map(|(count, _)| count).sum();
        let named = counts.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = named.map(|(count, how)| format!("{count} {how}")).collect();
        let doing: Vec<&str> = self.doing.iter().copied().collect();
        let runs = if sum == 1 { "run" } else { "runs" };
        let failure = self.failure.as_ref();
        let failure = failure.map_or(String::new(), |text| format!("; the last one {text}"));
        let line = format!(
            "{host}: {sum} further {runs} within a minute ({}): {}{failure}",
            doing.join(", "),
            named.join(", ")
        );
        let priority = if self.failed > 0 { Priority::Warning } else { Priority::Info };
        (sum > 0).then_some((priority, line))
    }
}

impl RunLog {
    /// Returns whether the run that a client on `host` begins `now` is printed.
    pub fn begins(&mut self, host: IpAddr, now: Instant) -> bool {
        let runs = self.hosts.entry(host).or_insert_with(|| HostRuns {
            printed: 0,
            due: now + PERIOD,
            is_active: true,
            has_failed: false,
            further: Further::default(),
        });
        runs.is_active = true;
        let is_printed = runs.printed < SINGLY;
        runs.printed += u32::from(is_printed);
        is_printed
    }

    /// Takes the end of a run that took this time and whose beginning was not printed. Returns
    /// whether to print it.
    pub fn ends(
        &mut self,
        host: IpAddr,
        doing: &'static str,
        ending: &ClientEnding,
        took: Duration,
    ) -> bool {
        let Some(runs) = self.hosts.get_mut(&host).filter(|_| took < PERIOD) else {
            return true;
        };
        let further = &mut runs.further;
        match ending.outcome {
            ClientOutcome::Refused => return true,
            ClientOutcome::Failed if !runs.has_failed => {
                runs.has_failed = true;
                return true;
            }
            ClientOutcome::Failed => {
                further.failed += 1;
                further.failure = Some(ending.text.clone());
            }
            ClientOutcome::Done => further.done += 1,
            ClientOutcome::Left => further.left += 1,
        }
        further.doing.insert(doing);
        false
    }

    /// Returns when the next period ends.
    pub fn due(&self) -> Option<Instant> {
        self.hosts.values().map(|runs| runs.due).min()
    }

    /// Passes the lines about further runs to `print` whose periods have ended `now`.
    pub fn advance(&mut self, now: Instant, mut print: impl FnMut(Priority, String)) {
        self.hosts.retain(|host, runs| {
            if now < runs.due {
                return true;
            }
            if let Some((priority, line)) = runs.further.line(*host) {
                print(priority, line);
            }
            let goes_on = runs.is_active;
            *runs = HostRuns {
                printed: runs.printed,
                due: now + PERIOD,
                is_active: false,
                has_failed: false,
                further: Further::default(),
            };
            goes_on
        });
    }

    /// Passes the lines about all further runs to `print`.
    pub fn finish(&mut self, mut print: impl FnMut(Priority, String)) {
        for (host, runs) in std::mem::take(&mut self.hosts) {
            if let Some((priority, line)) = runs.further.line(host) {
                print(priority, line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn host() -> IpAddr {
        "10.1.1.9".parse().unwrap()
    }

    /// Begins and ends a run. Returns whether both are printed.
    fn run(log: &mut RunLog, now: Instant, outcome: ClientOutcome) -> bool {
        let ending = ClientEnding { outcome, text: "failed after 0.1 s: no answer".into() };
        log.begins(host(), now) || log.ends(host(), "write-lat", &ending, SECOND)
    }

    fn lines(log: &mut RunLog, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        log.advance(now, |_, line| lines.push(line));
        lines
    }

    #[test]
    fn prints_first_runs_and_then_a_line_a_minute() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        let mut printed = 0;
        let mut summaries = Vec::new();
        for second in 0..180 {
            let now = start + second * SECOND;
            summaries.extend(lines(&mut log, now));
            for _ in 0..4 {
                printed += u32::from(run(&mut log, now, ClientOutcome::Done));
            }
        }
        assert_eq!(printed, SINGLY);
        let line = |count| {
            format!("10.1.1.9: {count} further runs within a minute (write-lat): {count} done")
        };
        assert_eq!(summaries, [line(232), line(240)]);
        let mut rest = Vec::new();
        log.finish(|priority, line| rest.push((priority, line)));
        assert_eq!(rest, [(Priority::Info, line(240))]);
    }

    #[test]
    fn prints_first_failure_of_a_minute_and_counts_others() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..SINGLY {
            run(&mut log, start, ClientOutcome::Done);
        }
        let failures = [(); 3].map(|()| run(&mut log, start, ClientOutcome::Failed));
        assert_eq!(failures, [true, false, false]);
        run(&mut log, start, ClientOutcome::Left);
        let summary = "10.1.1.9: 3 further runs within a minute (write-lat): 2 failed, 1 ended by \
                       the client; the last one failed after 0.1 s: no answer";
        assert_eq!(lines(&mut log, start + PERIOD), [summary]);
        assert!(run(&mut log, start + PERIOD, ClientOutcome::Failed));
    }

    #[test]
    fn host_without_a_run_for_a_minute_begins_anew() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..SINGLY {
            assert!(log.begins(host(), start));
        }
        assert!(!log.begins(host(), start));
        assert!(lines(&mut log, start + PERIOD).is_empty());
        assert!(!log.begins(host(), start + PERIOD));
        for period in 2..4 {
            assert!(log.due().is_some());
            lines(&mut log, start + period * PERIOD);
        }
        assert_eq!(log.due(), None);
        assert!(log.begins(host(), start + 4 * PERIOD));
    }

    #[test]
    fn prints_end_of_a_long_run() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..=SINGLY {
            log.begins(host(), start);
        }
        let ending = ClientEnding { outcome: ClientOutcome::Done, text: "done".into() };
        assert!(!log.ends(host(), "send-bw", &ending, 59 * SECOND));
        assert!(log.ends(host(), "send-bw", &ending, PERIOD));
    }
}
