//! The counters that `--counters`, `check` and `stat` read: names, also as the readings of many
//! NICs share them, units, meanings, and the presets they belong to.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Rows as text; its head describes them.
const TEXT: &str = include_str!("counter_table.txt");

facts::named_enum! {
    /// A set of counters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Preset {
        /// What explains most results.
        Quick = "quick",
        /// The link: code words, replays, pauses.
        Link = "link",
        /// All counters of health.md 1.5.
        All = "all",
    }
    impl Display;
    impl FromStr or "expected quick, link or all";
}

impl Preset {
    pub fn rows(self) -> impl Iterator<Item = &'static CounterRow> {
        ROWS.iter().filter(move |row| match self {
            Self::Quick => row.is_in_quick,
            Self::Link => row.is_in_link,
            Self::All => !row.is_gauge,
        })
    }

    /// The smallest preset that contains both.
    pub fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::All }
    }
}

/// Counters with one meaning: a single one, or several whose names end in a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRow {
    /// The name, or what the names begin with.
    pub name: &'static str,
    /// The number of counters whose names end in 0, 1, and so on; `None` for a single counter.
    pub count: Option<u32>,
    /// What they count.
    pub unit: &'static str,
    /// What they mean, in short.
    pub meaning: &'static str,
    /// Whether they also grow on a NIC without problems.
    pub is_background: bool,
    /// Whether it shows a state: a smaller value is no reset, and a difference means nothing.
    pub is_gauge: bool,
    is_in_quick: bool,
    is_in_link: bool,
    is_added_by_job: bool,
}

impl CounterRow {
    /// All rows, gauges too.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ROWS.iter()
    }

    /// The row of a counter; `None` for a counter that the table lacks.
    pub fn of(counter: &str) -> Option<&'static Self> {
        BY_NAME.get(counter).copied()
    }

    /// Whether the set `job` of `stat` has these counters (monitoring.md 1.2).
    pub fn is_in_job(&self) -> bool {
        self.is_in_quick || self.is_added_by_job
    }

    /// The names of the counters.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let (name, count) = (self.name, self.count);
        (0..count.unwrap_or(1)).map(move |number| match count {
            Some(_) => format!("{name}{number}"),
            None => name.to_owned(),
        })
    }
}

static ROWS: LazyLock<Vec<CounterRow>> = LazyLock::new(|| TEXT.lines().filter_map(row).collect());

static BY_NAME: LazyLock<HashMap<String, &'static CounterRow>> = LazyLock::new(|| {
    ROWS.iter()
        .flat_map(|row: &'static CounterRow| row.names().map(move |name| (name, row)))
        .collect()
});

/// The row in a line; `None` for comments and empty lines.
fn row(line: &'static str) -> Option<CounterRow> {
    let (flags, rest) = line.split_once(' ').filter(|(flags, _)| *flags != "#")?;
    let (name, rest) = rest.trim_start().split_once(' ')?;
    let (unit, meaning) = rest.split_once(' ')?;
    let (name, count) = match name.split_once("0..") {
        Some((name, last)) => (name, last.parse().ok().map(|last: u32| last + 1)),
        None => (name, None),
    };
    Some(CounterRow {
        name,
        count,
        unit,
        meaning,
        is_background: flags.contains('b'),
        is_in_quick: flags.contains('q'),
        is_in_link: flags.contains('l'),
        is_gauge: flags.contains('g'),
        is_added_by_job: flags.contains('j'),
    })
}

/// The names, in the order of the readings, and their positions in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterNames {
    names: Vec<String>,
    sorted: Vec<usize>,
}

impl CounterNames {
    /// A table of names.
    pub fn new(names: Vec<String>) -> Self {
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_by(|a, b| names[*a].cmp(&names[*b]));
        Self { names, sorted }
    }

    /// The names, in the order of the readings.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The position of a name among the readings.
    pub fn position(&self, name: &str) -> Option<usize> {
        let found =
            (self.sorted).binary_search_by(|position| self.names[*position].as_str().cmp(name));
        Some(self.sorted[found.ok()?])
    }

    /// All names in alphabetical order, with their positions.
    pub fn sorted(&self) -> impl Iterator<Item = (&str, usize)> {
        let sorted = self.sorted.iter();
        sorted.map(|position| (self.names[*position].as_str(), *position))
    }

    /// Returns what follows `prefix` in each name that begins with it, with the position of the
    /// name, in alphabetical order.
    pub fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, usize)> {
        let is_before = |position: &usize| self.names[*position].as_str() < prefix;
        let from = &self.sorted[self.sorted.partition_point(is_before)..];
        from.iter().map_while(move |position| {
            Some((self.names[*position].strip_prefix(prefix)?, *position))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The names of libcxi, which has no names of some counters (health.md 1.4).
    const ABI: &str = include_str!("../../../ffi/cxi-sys/tests/layout/abi.json");

    /// Names without enumerator (health.md 1.2, 1.4, 1.5): octets, search depth, and the 32 that
    /// only Cassini 2 has. `*` stands for a number.
    const ONLY_FILES: [&str; 22] = [
        "hni_sts_tx_ok_octets",
        "hni_sts_rx_ok_octets",
        "hni_sts_tx_octets_opt",
        "hni_sts_rx_octets_opt",
        "hni_sts_tx_octets_ieee",
        "hni_sts_rx_octets_ieee",
        "lpe_sts_net_match_attempts_*",
        "lpe_sts_app_match_attempts_*",
        "hni_llr_rx_ack_nack_error",
        "hni_llr_tx_bad_lossless",
        "hni_llr_tx_bad_lossless_rpt",
        "hni_llr_tx_bad_lossy",
        "hni_llr_tx_llr_blocked",
        "hni_llr_tx_llr_unblocked",
        "hni_mac_tx_ifg_adjustment_sync",
        "hni_pcs_corrected_cw_bin_*",
        "hni_pcs_fecl_errors_*",
        "oxe_smt_cdt_errs",
        "oxe_spt_cdt_errs",
        "properties/pcie_corr_err",
        "properties/pcie_uncorr_err",
        "retry_handler/",
    ];

    #[test]
    fn reads_every_row() {
        let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
        assert_eq!(ROWS.len(), TEXT.lines().filter(is_row).count());
        for line in TEXT.lines().filter(is_row) {
            let flags = line.split(' ').next().unwrap();
            assert!(flags.chars().all(|flag| "qljgb-".contains(flag)), "{line}");
        }
        let pause = Preset::All.rows().find(|row| row.name == "hni_rx_paused_").unwrap();
        assert_eq!((pause.count, pause.unit), (Some(8), "cycles"));
        assert_eq!(pause.names().last().as_deref(), Some("hni_rx_paused_7"));
        assert!(!pause.is_background);
    }

    #[test]
    fn names_are_those_of_the_library_and_unique() {
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        let names: Vec<String> = CounterRow::all().flat_map(CounterRow::names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names {
            let known = format!("_CNTR_{}\"", name.to_uppercase());
            let is_named = |only: &&str| match only.strip_suffix('*') {
                Some(prefix) => name.strip_prefix(prefix).is_some_and(is_number),
                None => name == *only || only.ends_with('/') && name.starts_with(only),
            };
            let only_file = ONLY_FILES.iter().any(is_named);
            assert!(only_file || ABI.contains(&known), "{name}");
        }
    }

    #[test]
    fn finds_row_of_each_counter() {
        let paused = CounterRow::of("hni_rx_paused_7").unwrap();
        assert_eq!(paused.name, "hni_rx_paused_");
        assert!(CounterRow::of("retry_handler/sct_in_use").unwrap().is_gauge);
        assert_eq!(CounterRow::of("hni_rx_paused_8"), None);
    }

    #[test]
    fn presets_grow() {
        let count = |preset: Preset| preset.rows().flat_map(CounterRow::names).count();
        let [quick, link, all] = Preset::ALL.map(count);
        assert!((100..200).contains(&quick), "{quick}");
        assert!((40..quick).contains(&link), "{link}");
        assert!(all > 600, "{all}");
        assert_eq!(Preset::Quick.with(Preset::Quick), Preset::Quick);
        assert_eq!(Preset::Quick.with(Preset::Link), Preset::All);
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!("everything".parse::<Preset>().is_err());
    }

    fn table(names: &[&str]) -> CounterNames {
        CounterNames::new(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn finds_names_in_any_order() {
        let names = table(&["c_1", "a", "c_0", "b"]);
        assert_eq!(names.position("c_0"), Some(2));
        assert_eq!(names.position("d"), None);
        assert_eq!(names.position(""), None);
        assert!(names.sorted().eq([("a", 1), ("b", 3), ("c_0", 2), ("c_1", 0)]));
        assert!(names.with_prefix("c_").eq([("0", 2), ("1", 0)]));
        assert!(names.with_prefix("d").next().is_none());
    }

    proptest! {
        #[test]
        fn finds_exactly_the_names_of_the_table(
            names in proptest::collection::vec("[a-c_]{0,3}", 0..20),
            wanted in "[a-d_]{0,3}",
        ) {
            let table = CounterNames::new(names.clone());
            let found = table.position(&wanted).map(|position| names[position].as_str());
            prop_assert_eq!(found.is_some(), names.contains(&wanted));
            prop_assert!(found.is_none_or(|name| name == wanted));
            let with_prefix = names.iter().filter(|name| name.starts_with(&wanted)).count();
            prop_assert_eq!(table.with_prefix(&wanted).count(), with_prefix);
        }
    }
}
