//! The progress of a survey as one line.

use std::time::Duration;

use super::words;
use campaign::quiet::conductor::{SurveyPhase, SurveyProgress};
use campaign::quiet::findings::Test;
use campaign::quiet::roster::Roster;

/// The line of a survey whose processes start.
pub fn waiting(joined: u32, expected: u32) -> String {
    format!("{joined} of {expected} processes have started")
}

/// The line of a survey that measures, and that ends in `left` if that is known. Parts are left
/// out, the least important ones first, until the line fits into `width` columns.
pub fn measuring(
    progress: &SurveyProgress,
    left: Option<Duration>,
    roster: &Roster,
    tests: &[Test],
    width: usize,
) -> String {
    let SurveyProgress { phase, planned, answered, suspects, retested, .. } = *progress;
    let percent = answered.saturating_mul(100).checked_div(planned);
    let percent = percent.map(|percent| format!(" ({percent} %)"));
    let count = format!("{} of {}", words::grouped(answered), words::counted(planned, "pair"));
    let suspects = words::grouped(suspects);
    let work = match phase {
        SurveyPhase::Repeat => Some(", again those without an answer".into()),
        SurveyPhase::Again => Some(", again those that differ too much".into()),
        SurveyPhase::Retest | SurveyPhase::Swap => {
            Some(format!(", {suspects} suspect: {} again", words::counted(retested, "pair")))
        }
        SurveyPhase::Sweep | SurveyPhase::Over => {
            (progress.suspects > 0).then(|| format!(", {suspects} suspect"))
        }
    };
    let worst = progress.worst.as_ref().map(|result| {
        let pair = words::path(roster, result.pair);
        format!(", worst {pair}: {}", words::answer(tests, result))
    });
    let left = left.map(|left| format!(", {} left", time(left)));
    let mut parts = [Some(count), percent, left, work, worst];
    let line = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<String>();
    for least in [4, 1, 3, 2] {
        if line(&parts).chars().count() > width {
            parts[least] = None;
        }
    }
    line(&parts)
}

/// A time in at most two units: `45 s`, `12 min 5 s`, `2 h 48 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{result, roster, tests};
    use super::*;
    use campaign::quiet::answer::PairResult;

    fn progress(phase: SurveyPhase, suspects: u64, worst: Option<PairResult>) -> SurveyProgress {
        SurveyProgress { phase, planned: 2_016, answered: 1_340, suspects, retested: 12, worst }
    }

    fn line_of(progress: &SurveyProgress, seconds: u64, width: usize) -> String {
        let left = Some(Duration::from_secs(seconds));
        measuring(progress, left, &roster(), &tests(), width)
    }

    fn line(progress: &SurveyProgress, seconds: u64) -> String {
        line_of(progress, seconds, 79)
    }

    #[test]
    fn shows_progress_and_worst_pair() {
        let none = progress(SurveyPhase::Sweep, 0, None);
        let unknown = measuring(&none, None, &roster(), &tests(), 79);
        assert_eq!(unknown, "1,340 of 2,016 pairs (66 %)");
        assert_eq!(line(&none, 25), "1,340 of 2,016 pairs (66 %), 25 s left");
        let suspects = progress(SurveyPhase::Sweep, 2, None);
        assert_eq!(line(&suspects, 25), "1,340 of 2,016 pairs (66 %), 25 s left, 2 suspect");
        let retest = progress(SurveyPhase::Retest, 2, None);
        assert_eq!(
            line(&retest, 25),
            "1,340 of 2,016 pairs (66 %), 25 s left, 2 suspect: 12 pairs again"
        );
        let mut roster = roster();
        roster.nodes[0].host = "n0".into();
        roster.nodes[1].host = "n1".into();
        let worst = progress(SurveyPhase::Sweep, 0, Some(result()));
        let line = measuring(&worst, None, &roster, &tests(), 79);
        assert_eq!(line, "1,340 of 2,016 pairs (66 %), worst n1 cxi1 to n0 cxi0: 3.90 us");
    }

    #[test]
    fn leaves_out_what_does_not_fit() {
        let worst = progress(SurveyPhase::Swap, 2, Some(result()));
        for (width, expected) in [
            (20, "1,340 of 2,016 pairs"),
            (39, "1,340 of 2,016 pairs, 2 h 48 min left"),
            (79, "1,340 of 2,016 pairs (66 %), 2 h 48 min left, 2 suspect: 12 pairs again"),
            (
                199,
                "1,340 of 2,016 pairs (66 %), 2 h 48 min left, 2 suspect: 12 pairs again, \
                 worst nid000417 cxi1 to nid000416 cxi0: 3.90 us",
            ),
        ] {
            assert_eq!(line_of(&worst, 10_080, width), expected, "{width}");
        }
    }

    #[test]
    fn shows_times_in_two_units() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (725, "12 min 5 s"), (10_080, "2 h 48 min")]
        {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }
}
