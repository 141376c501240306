//! The history of NICs over several surveys: the state of each NIC that ever was suspect or bad.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::parts::{more, time};
use campaign::quiet::findings::State;
use facts::host::HostIndex;
use survey::result::Survey;
use survey::result::nics::all_states;

/// Most NICs of the history.
const MOST_NICS: usize = 200;

/// The history of NICs. `None` for fewer than two surveys.
pub fn section(surveys: &[&Survey]) -> Option<Markup> {
    if surveys.len() < 2 {
        return None;
    }
    let mut surveys = surveys.to_vec();
    surveys.sort_by_key(|survey| survey.started_unix_ms);
    let nics = histories(&surveys);
    let caption = "NICs that were suspect or bad, oldest survey first";
    Some(html! {
        section {
            h2 { "History of NICs" }
            @if nics.is_empty() {
                p { "No NIC was suspect or bad in " (surveys.len()) " surveys." }
            } @else {
                div.wide tabindex="0" role="region" aria-label=(caption) {
                    table.history {
                        caption { (caption) }
                        thead {
                            tr {
                                th scope="col" { "NIC" }
                                @for survey in &surveys {
                                    th scope="col" { span { (short_time(survey.started_unix_ms)) } }
                                }
                            }
                        }
                        tbody {
                            @for (name, states) in nics.iter().take(MOST_NICS) {
                                tr {
                                    th scope="row" { (name) }
                                    @for (state, survey) in states.iter().zip(&surveys) {
                                        (state_cell(name, *state, survey.started_unix_ms))
                                    }
                                }
                            }
                        }
                    }
                }
                (more(nics.len(), MOST_NICS))
                p.note { "✓ good, ? suspect, ✗ bad, – not tested, empty: not in the survey" }
            }
        }
    })
}

/// The states of each NIC that ever was suspect or bad, in the order of the surveys: first the NICs
/// that are worst in the latest survey, then those that were so most often.
fn histories(surveys: &[&Survey]) -> Vec<(String, Vec<Option<State>>)> {
    let mut all: BTreeMap<String, Vec<Option<State>>> = BTreeMap::new();
    let mut hosts = HostIndex::default();
    for (at, survey) in surveys.iter().enumerate() {
        let roster = &survey.roster;
        let new: Vec<&str> = roster.hosts().filter(|host| hosts.find(host).is_none()).collect();
        new.into_iter().for_each(|host| hosts.add(host));
        for (nic, state) in roster.nic_ids().zip(all_states(survey)) {
            let history = all.entry(roster.name_among(&hosts, nic));
            history.or_insert_with(|| vec![None; surveys.len()])[at] = Some(state);
        }
    }
    let times = |history: &[Option<State>], state| {
        history.iter().filter(|history| **history == Some(state)).count()
    };
    let is_shown =
        |history: &[Option<State>]| times(history, State::Suspect) + times(history, State::Bad) > 0;
    let mut shown: Vec<_> = all.into_iter().filter(|(_, states)| is_shown(states)).collect();
    shown.sort_by_key(|(_, states)| {
        let latest = states.last().copied().flatten();
        Reverse((latest, times(states, State::Bad), times(states, State::Suspect)))
    });
    shown
}

/// A cell with the sign of a state, which screen readers get as a word.
fn state_cell(name: &str, state: Option<State>, unix_ms: u64) -> Markup {
    let (class, sign) = match state {
        None => ("none", ""),
        Some(State::Good) => ("good", "✓"),
        Some(State::Unpaired | State::Untested) => ("untested", "–"),
        Some(State::Suspect) => ("unsure", "?"),
        Some(State::Bad) => ("bad", "✗"),
    };
    let word = state.map_or("not in the survey", State::name);
    html! {
        td.state.(class) title={ (name) ", " (time(unix_ms)) ": " (word) } {
            span aria-hidden="true" { (sign) }
            span.hidden { (word) }
        }
    }
}

/// A time in UTC without its seconds.
fn short_time(unix_ms: u64) -> String {
    time(unix_ms).chars().take("2026-11-22 11:42".len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use survey::result::testing;

    #[test]
    fn shows_each_nic_that_ever_was_suspect_or_bad() {
        let mut good = testing::survey(testing::good(), Ok(()));
        good.started_unix_ms += 1_000;
        let mixed = testing::survey(testing::mixed(), Ok(()));
        assert!(section(&[&mixed]).is_none());
        // The older survey is on the left, in any order of files.
        let expected = [
            ("nid000417 cxi1", State::Bad),
            ("nid000418 cxi0", State::Suspect),
            ("nid000419 cxi0", State::Suspect),
        ];
        let expected =
            expected.map(|(name, state)| (name.to_owned(), vec![Some(state), Some(State::Good)]));
        assert_eq!(histories(&[&mixed, &good]), expected);
        // One survey has the full names of hosts.
        let mut full = good.clone();
        for node in &mut full.roster.nodes {
            node.host += ".cluster.example";
        }
        assert_eq!(histories(&[&mixed, &full]), expected);
        let page = section(&[&good, &mixed]).unwrap().into_string();
        let row = page.split("nid000417 cxi1</th>").nth(1).unwrap();
        let row = row.split("</tr>").next().unwrap();
        let (bad, good_again) = (row.find("✗"), row.find("✓"));
        assert!(bad.is_some() && bad < good_again, "{row}");
        let page = section(&[&good, &good]).unwrap().into_string();
        assert!(page.contains("No NIC was suspect or bad in 2 surveys."));
    }

    #[test]
    fn leaves_cells_empty_where_a_nic_was_not_in_the_survey() {
        let mixed = testing::survey(testing::mixed(), Ok(()));
        let mut smaller = mixed.clone();
        smaller.roster.nics.truncate(3);
        smaller.verdict = testing::good();
        let histories = histories(&[&mixed, &smaller]);
        assert!(histories.iter().all(|(_, states)| states[1].is_none()));
    }
}
