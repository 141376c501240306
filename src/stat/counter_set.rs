//! Sets of counters in a fixed order: presets, HPE's groups, lists of users (monitoring.md 1.2).

use std::collections::BTreeSet;

use node::nic::counter_table::{CounterRow, Preset};

/// Groups as text; its head describes them.
const GROUPS: &str = include_str!("counter_groups.txt");

/// Beginning of the names of the retry handler's counters in lists for Open MPI and Cray MPICH.
const SHORT_RETRY_HANDLER: &str = "rh:";

/// What [`SHORT_RETRY_HANDLER`] stands for.
const RETRY_HANDLER: &str = "retry_handler/";

/// The set of `stat` unless the user names another one.
pub const JOB: &str = "job";

/// A set of counters. Each is read and written in the same order, whether a NIC has it or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterSet {
    /// Its name, for reports.
    pub name: String,
    /// The names of the counters.
    pub counters: Vec<String>,
}

impl CounterSet {
    /// The set with this name.
    ///
    /// # Errors
    ///
    /// What is allowed.
    pub fn named(name: &str) -> Result<Self, String> {
        let counters = counters_of(name).ok_or_else(|| format!("expected {}", allowed()))?;
        Ok(Self { name: name.to_owned(), counters })
    }

    /// The set that the lines of a file name: a counter, a set or a group each; `#` begins a
    /// comment.
    ///
    /// # Errors
    ///
    /// A line with something else, or no counter at all.
    pub fn from_lines(name: &str, lines: &str) -> Result<Self, String> {
        let mut counters = Vec::new();
        let mut known = BTreeSet::new();
        for (index, line) in lines.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            for word in line.split([' ', '\t', ',', '\r']).filter(|word| !word.is_empty()) {
                let word_texts = match counters_of(word) {
                    Some(counters) => counters,
                    None => vec![counter(word).ok_or_else(|| {
                        format!(
                            "line {} has '{word}', which is not the name of a counter",
                            index + 1
                        )
                    })?],
                };
                let new = word_texts.into_iter().filter(|name| known.insert(name.clone()));
                counters.extend(new);
            }
        }
        if counters.is_empty() {
            return Err("it names no counter".into());
        }
        Ok(Self { name: name.to_owned(), counters })
    }

    /// The names of all sets and groups.
    pub fn names() -> Vec<String> {
        let presets = Preset::ALL.map(|preset| preset.to_string());
        let groups = groups().into_iter().map(str::to_owned);
        [JOB.to_owned()].into_iter().chain(presets).chain(groups).collect()
    }

    /// The counters that the table does not know.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        let names = self.counters.iter().map(String::as_str);
        names.filter(|name| CounterRow::of(name).is_none())
    }
}

fn allowed() -> String {
    let presets = Preset::ALL.map(|preset| preset.to_string()).join(", ");
    format!("{JOB}, {presets}, @FILE or a group: {}", groups().join(", "))
}

/// The counters of a preset or group.
fn counters_of(name: &str) -> Option<Vec<String>> {
    if name == JOB {
        let rows = CounterRow::all().filter(|row| row.is_in_job());
        return Some(rows.flat_map(CounterRow::names).collect());
    }
    if let Ok(preset) = name.parse::<Preset>() {
        return Some(preset.rows().flat_map(CounterRow::names).collect());
    }
    let mut counters = Vec::new();
    for (_, rows) in lines().filter(|(group, _)| *group == name) {
        let rows = rows.split(' ').filter_map(row);
        counters.extend(rows.flat_map(CounterRow::names));
    }
    (!counters.is_empty()).then_some(counters)
}

/// The row that a group names: `hni_rx_paused_0..7`.
fn row(name: &str) -> Option<&'static CounterRow> {
    match name.split_once("0..") {
        Some((start, _)) => CounterRow::of(&format!("{start}0")),
        None => CounterRow::of(name),
    }
}

/// The name of a counter as the reader has it.
fn counter(word: &str) -> Option<String> {
    let name = match word.strip_prefix(SHORT_RETRY_HANDLER) {
        Some(name) => format!("{RETRY_HANDLER}{name}"),
        None => word.to_lowercase(),
    };
    is_counter(&name).then_some(name)
}

/// Whether a text can be the name of a counter: a file of the directory of counters, or of one of
/// two others.
pub fn is_counter(name: &str) -> bool {
    let (_, file) = name.split_once('/').unwrap_or(("", name));
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        !text.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_of_directory =
        ["retry_handler/", "properties/"].iter().any(|start| name.starts_with(start));
    is_name(file) && (is_of_directory || !name.contains('/'))
}

/// The lines with groups: name and rows.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = GROUPS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}

fn groups() -> Vec<&'static str> {
    let mut names: Vec<&str> = lines().map(|(name, _)| name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn job_has_the_counters_of_the_specification() {
        let job = CounterSet::named("job").unwrap().counters;
        assert!((200..=230).contains(&job.len()), "{}", job.len());
        let quick = CounterSet::named("quick").unwrap().counters;
        assert!(quick.iter().all(|name| job.contains(name)));
        for name in [
            "retry_handler/sct_in_use",
            "oxe_stall_fgfc_blk_3",
            "hni_fgfc_port",
            "oxe_stall_ts_no_out_crd_tsc_9",
            "pct_rsp_err_rcvd",
            "hni_discard_cntr_7",
            "hni_sts_rx_octets_opt",
            "hni_sts_tx_octets_ieee",
            "lpe_sts_net_match_attempts_0",
            "pct_mst_hit_on_som",
        ] {
            assert!(job.iter().any(|counter| counter == name), "{name}");
        }
    }

    #[test]
    fn every_name_of_a_group_is_in_the_table() {
        for (group, rows) in lines() {
            for name in rows.split(' ') {
                let row = row(name).unwrap_or_else(|| panic!("{group}: {name}"));
                let written = match row.count {
                    Some(count) => format!("{}0..{}", row.name, count - 1),
                    None => row.name.to_owned(),
                };
                assert_eq!(written, name, "{group}");
            }
        }
        assert_eq!(groups().len(), 12);
        for name in CounterSet::names() {
            let set = CounterSet::named(&name).unwrap();
            let names: BTreeSet<&String> = set.counters.iter().collect();
            assert_eq!(names.len(), set.counters.len(), "{name}");
        }
    }

    #[test]
    fn reads_lists_for_other_programs() {
        let text = "# mine\nrh:spt_timeouts # comment\nHNI_RX_PAUSED_0\n\nCxiLinkReliability\r\n\
                    hni_pcs_good_cw\nmade_up_counter";
        let set = CounterSet::from_lines("@mine", text).unwrap();
        assert_eq!(set.counters[..2], ["retry_handler/spt_timeouts", "hni_rx_paused_0"]);
        assert_eq!(set.counters.len(), 2 + 5 + 1);
        assert!(set.unknown().eq(["made_up_counter"]));
        for (text, refused) in [
            ("", "it names no counter"),
            ("a\n../b", "line 2 has '../b', which is not the name of a counter"),
            ("telemetry/a", "line 1 has 'telemetry/a', which is not the name of a counter"),
            ("rh:", "line 1 has 'rh:', which is not the name of a counter"),
            ("rh:a/b", "line 1 has 'rh:a/b', which is not the name of a counter"),
        ] {
            assert_eq!(CounterSet::from_lines("", text).unwrap_err(), refused);
        }
        let refused = CounterSet::named("jobs").unwrap_err();
        assert!(refused.starts_with("expected job, quick, link, all, @FILE or a group: CxiPerf"));
    }

    proptest! {
        #[test]
        fn names_of_hostile_lists_stay_below_their_directories(text in "[a-z:/.,# \n]{0,60}") {
            if let Ok(set) = CounterSet::from_lines("", &text) {
                for name in set.counters {
                    prop_assert!(!name.contains(".."));
                    prop_assert!(name.matches('/').count() <= 1);
                }
            }
        }
    }
}
