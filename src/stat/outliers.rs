//! Which NICs of a job stand out from the others (monitoring.md 1.5).

use facts::robust;
use node::nic::counter::CounterChange;
use node::nic::counter_table::CounterRow;
use node::nic::counters::CounterChanges;

/// NICs below which a median says nothing about any of them.
const MIN_NICS: usize = 8;

/// How many times the median a value is that stands out.
const MIN_FACTOR: f64 = 3.0;

/// How many times the spread a value lies above the median that stands out.
const MIN_DISTANCE: f64 = 4.5;

/// The smallest spread, as a part of the median.
const MIN_SPREAD: f64 = 0.05;

/// Events, and share of the time, below which nothing stands out.
const MIN_EVENTS: u64 = 10;
const MIN_SHARE: f64 = 0.01;

/// Share of the NICs above which they are uneven, and none of them stands out.
const MAX_SHARE: f64 = 0.2;

/// NICs that are named at most.
const MOST_NAMED: usize = 5;

/// Unit of cycles in the table of counters.
const CYCLES: &str = "cycles";

/// A NIC that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlyingNic {
    /// Its place among the NICs.
    pub nic: usize,
    /// In what it stands out most.
    pub counter: String,
    pub value: CounterQuantity,
    /// The median of all NICs.
    pub median: CounterQuantity,
}

/// A counter in which too many NICs stand out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uneven {
    pub counter: String,
    /// How many stand out.
    pub nics: usize,
}

/// How a value is to be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterQuantity {
    /// Counts per second.
    PerSecond(f64),
    /// A share of the time.
    OfTime(f64),
    /// Cycles for each packet of PCIe.
    CyclesPerPacket(f64),
    /// A share of the packets.
    OfPackets(f64),
}

impl CounterQuantity {
    pub fn number(self) -> f64 {
        match self {
            Self::PerSecond(number)
            | Self::OfTime(number)
            | Self::CyclesPerPacket(number)
            | Self::OfPackets(number) => number,
        }
    }

    /// The difference that a counter cannot show.
    fn resolution(self) -> f64 {
        match self {
            Self::PerSecond(_) => 1.0,
            Self::OfTime(_) => 1e-9,
            Self::CyclesPerPacket(_) => 0.01,
            Self::OfPackets(_) => 0.0001,
        }
    }

    /// The same kind of value with another number.
    fn with(self, number: f64) -> Self {
        match self {
            Self::PerSecond(_) => Self::PerSecond(number),
            Self::OfTime(_) => Self::OfTime(number),
            Self::CyclesPerPacket(_) => Self::CyclesPerPacket(number),
            Self::OfPackets(_) => Self::OfPackets(number),
        }
    }
}

/// The value of one NIC, and whether it is large enough to stand out at all.
#[derive(Clone, Copy, Debug)]
struct NicValue {
    value: CounterQuantity,
    is_enough: bool,
}

/// How a NIC has a value; `None` if it lacks a counter.
type MeasureNic = fn(&CounterChanges) -> Option<NicValue>;

/// What is compared beside single counters: its name, and how a NIC has it.
const RATIOS: [(&str, MeasureNic); 3] = [
    ("parbs_tarb_pi_posted_blocked_cnt", |changes| blocked(changes, "posted")),
    ("parbs_tarb_pi_non_posted_blocked_cnt", |changes| blocked(changes, "non_posted")),
    ("ixe_tc_req_ecn_pkts", marked),
];

/// Beginning of the names of counters that [`RATIOS`] stands for.
const IN_RATIOS: [&str; 2] = ["ixe_tc_req_ecn_pkts_", "ixe_tc_rsp_ecn_pkts_"];

/// The NICs that stand out, the strongest first, and the counters in which too many do. Counters
/// that also grow on NICs without problems are not compared.
pub fn outliers(nics: &[&CounterChanges]) -> (Vec<OutlyingNic>, Vec<Uneven>) {
    let (mut found, mut uneven): (Vec<(f64, OutlyingNic)>, Vec<Uneven>) = Default::default();
    if nics.len() < MIN_NICS {
        return (Vec::new(), uneven);
    }
    let rows = CounterRow::all().filter(|row| !row.is_background && !row.is_gauge);
    let rows = rows.filter(|row| !IN_RATIOS.contains(&row.name));
    let single = rows.flat_map(|row| row.names().map(move |name| (name, row.unit == CYCLES)));
    for (name, is_cycles) in single {
        let changes = CounterChanges::changes_by_nic(nics, &name).into_iter().zip(nics);
        let values = changes.map(|(change, nic)| {
            single_counter(change?, is_cycles.then(|| nic.nic.cycles_per_s()))
        });
        compare(&name, values.collect(), &mut found, &mut uneven);
    }
    for (name, measure) in RATIOS {
        let values = nics.iter().map(|nic| measure(nic)).collect();
        compare(name, values, &mut found, &mut uneven);
    }
    // Each NIC once, with the counter in which it stands out most.
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut outliers: Vec<OutlyingNic> = Vec::new();
    for (_, outlier) in found {
        if outliers.len() < MOST_NAMED
            && outliers.iter().all(|candidate| candidate.nic != outlier.nic)
        {
            outliers.push(outlier);
        }
    }
    (outliers, uneven)
}

/// Adds the NICs that stand out in one value, with how far.
fn compare(
    counter: &str,
    values: Vec<Option<NicValue>>,
    found: &mut Vec<(f64, OutlyingNic)>,
    uneven: &mut Vec<Uneven>,
) {
    let numbers: Vec<f64> =
        values.iter().flatten().map(|measured| measured.value.number()).collect();
    let Some(kind) = values.iter().flatten().map(|measured| measured.value).next() else {
        return;
    };
    if numbers.len() < MIN_NICS || numbers.iter().all(|number| *number == 0.0) {
        return;
    }
    let median = robust::median(&numbers).unwrap_or(0.0);
    let spread = robust::spread(&numbers, median, robust::median)
        .max(MIN_SPREAD * median)
        .max(kind.resolution());
    let stands_out = |measured: &NicValue| {
        let number = measured.value.number();
        let distance = (number - median) / spread;
        (measured.is_enough && number > MIN_FACTOR * median && distance > MIN_DISTANCE)
            .then_some(distance)
    };
    let measured = values.iter().enumerate();
    let out: Vec<(usize, f64, CounterQuantity)> = measured
        .filter_map(|(nic, measured)| {
            let measured = measured.as_ref()?;
            Some((nic, stands_out(measured)?, measured.value))
        })
        .collect();
    if out.len() as f64 > MAX_SHARE * numbers.len() as f64 {
        uneven.push(Uneven { counter: counter.to_owned(), nics: out.len() });
        return;
    }
    found.extend(out.into_iter().map(|(nic, distance, value)| {
        let outlier =
            OutlyingNic { nic, counter: counter.to_owned(), value, median: value.with(median) };
        (distance, outlier)
    }));
}

/// The value of a counter; of a counter of cycles the share of the time, by the cycles in a second.
fn single_counter(change: CounterChange, cycles_per_s: Option<f64>) -> Option<NicValue> {
    let (count, rate) = (change.count()?, change.per_second()?);
    Some(if let Some(cycles_per_s) = cycles_per_s {
        let share = rate / cycles_per_s;
        NicValue { value: CounterQuantity::OfTime(share), is_enough: share >= MIN_SHARE }
    } else {
        NicValue { value: CounterQuantity::PerSecond(rate), is_enough: count >= MIN_EVENTS }
    })
}

/// Cycles for each packet of PCIe in which it was blocked.
fn blocked(changes: &CounterChanges, kind: &str) -> Option<NicValue> {
    let blocked = changes.of(&format!("parbs_tarb_pi_{kind}_blocked_cnt"))?;
    let packets = changes.count(&format!("parbs_tarb_pi_{kind}_pkts"))?;
    let share = blocked.per_second()? / changes.nic.cycles_per_s();
    Some(NicValue {
        value: CounterQuantity::CyclesPerPacket(blocked.count()? as f64 / packets.max(1) as f64),
        is_enough: share >= MIN_SHARE,
    })
}

/// The share of packets with a mark of congestion.
fn marked(changes: &CounterChanges) -> Option<NicValue> {
    let sum = |prefixes: [&str; 2]| {
        let sums = prefixes.map(|prefix| changes.sum(prefix));
        sums.into_iter().flatten().reduce(u64::saturating_add)
    };
    let marked = sum(IN_RATIOS)?;
    let unmarked = sum(["ixe_tc_req_no_ecn_pkts_", "ixe_tc_rsp_no_ecn_pkts_"])?;
    let all = marked.saturating_add(unmarked).max(1);
    Some(NicValue {
        value: CounterQuantity::OfPackets(marked as f64 / all as f64),
        is_enough: marked >= MIN_EVENTS,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use node::nic::counter::CounterChange;
    use node::nic::counters::NicFacts;
    use node::nic::generation::Generation;

    const STALL: &str = "oxe_stall_fgfc_blk_0";

    /// NICs with the counts of one counter in 10 s.
    fn nics(name: &str, counts: &[u64]) -> Vec<CounterChanges> {
        nics_in(10, name, counts)
    }

    fn nics_in(seconds: u64, name: &str, counts: &[u64]) -> Vec<CounterChanges> {
        let nic = |count: &u64| {
            let change =
                CounterChange::Counted { by: *count, within: Some(Duration::from_secs(seconds)) };
            CounterChanges::new(NicFacts::default(), [(name.to_owned(), change)].into())
        };
        counts.iter().map(nic).collect()
    }

    fn found(name: &str, counts: &[u64]) -> (Vec<usize>, Vec<usize>) {
        let nics = nics(name, counts);
        let (outliers, uneven) = outliers(&nics.iter().collect::<Vec<_>>());
        let named = outliers.iter().map(|outlier| outlier.nic).collect();
        (named, uneven.iter().map(|uneven| uneven.nics).collect())
    }

    /// monitoring.md 1.6 vector 9: the case of a user on LUMI.
    #[test]
    fn finds_nic_that_the_fabric_holds_back() {
        let mut counts = [49_000_000, 50_000_000, 52_000_000, 47_000_000].repeat(4);
        for factor in [11, 84] {
            counts[6] = factor * 50_000_000;
            let nics = nics(STALL, &counts);
            let (outliers, uneven) = outliers(&nics.iter().collect::<Vec<_>>());
            assert_eq!((outliers.len(), uneven.len()), (1, 0));
            assert_eq!((outliers[0].nic, outliers[0].counter.as_str()), (6, STALL));
            assert_eq!(outliers[0].value, CounterQuantity::OfTime(0.005 * factor as f64));
            let ratio = outliers[0].value.number() / outliers[0].median.number();
            assert!((ratio / factor as f64 - 1.0).abs() < 0.03, "{ratio}");
        }
    }

    /// monitoring.md 1.6 vector 10.
    #[test]
    fn names_none_if_many_stand_out() {
        let mut counts = [100].repeat(16);
        counts[..4].fill(1000);
        assert_eq!(found("pct_bad_seq_nacks", &counts), (vec![], vec![4]));
        counts[3] = 100;
        assert_eq!(found("pct_bad_seq_nacks", &counts).0, [0, 1, 2]);
    }

    /// monitoring.md 1.6 vector 11.
    #[test]
    fn few_events_do_not_stand_out() {
        let mut counts = [0].repeat(16);
        for (count, named) in [(3, vec![]), (9, vec![]), (10, vec![]), (100, vec![5])] {
            counts[5] = count;
            assert_eq!(found("hni_fgfc_port", &counts).0, named, "{count}");
        }
        // 1 % of 10 s.
        for (cycles, named) in [(99_000_000, vec![]), (101_000_000, vec![5])] {
            counts[5] = cycles;
            assert_eq!(found(STALL, &counts).0, named, "{cycles}");
        }
    }

    /// health.md 1.2: Cassini 2 counts 1.1e9 cycles a second.
    #[test]
    fn cycles_of_cassini_2_are_shorter() {
        let mut nics = nics(STALL, &[[0; 15].as_slice(), &[1_100_000_000]].concat());
        for nic in &mut nics {
            nic.nic.generation = Some(Generation::Cassini2);
        }
        let (outliers, _) = outliers(&nics.iter().collect::<Vec<_>>());
        assert_eq!(outliers[0].value, CounterQuantity::OfTime(0.1));
    }

    #[test]
    fn stands_out_from_ten_events_on() {
        let named = |count| {
            let mut counts = [0].repeat(16);
            counts[5] = count;
            let nics = nics_in(1, "hni_fgfc_port", &counts);
            outliers(&nics.iter().collect::<Vec<_>>()).0.len()
        };
        assert_eq!([named(9), named(10)], [0, 1]);
    }

    #[test]
    fn stands_out_from_three_times_the_median_on_and_far_beyond_the_spread() {
        let named = |others: [u64; 2], count| {
            let mut counts = others.repeat(9);
            counts[17] = count;
            found("hni_fgfc_port", &counts).0
        };
        let none: [usize; 0] = [];
        assert_eq!(named([1000, 1000], 2990), none);
        assert_eq!(named([1000, 1000], 3010), [17]);
        // The median is 1000 and the spread 1.4826 times 500, so the limit is 4336.
        assert_eq!(named([500, 1500], 4300), none);
        assert_eq!(named([500, 1500], 4400), [17]);
    }

    #[test]
    fn compares_only_enough_nics_and_counters_of_problems() {
        let mut counts = [0].repeat(7);
        counts[0] = 1_000_000;
        assert_eq!(found("hni_fgfc_port", &counts).0, Vec::<usize>::new());
        counts.push(0);
        assert_eq!(found("hni_fgfc_port", &counts).0, [0]);
        assert_eq!(found("hni_tx_ok_27", &counts).0, Vec::<usize>::new());
    }

    #[test]
    fn names_five_nics_at_most() {
        let mut counts = [0].repeat(100);
        for (index, count) in counts[..10].iter_mut().enumerate() {
            *count = 1000 * (index as u64 + 1);
        }
        assert_eq!(found("hni_fgfc_port", &counts).0, [9, 8, 7, 6, 5]);
    }

    proptest! {
        #[test]
        fn any_counts_have_an_answer(counts in proptest::collection::vec(any::<u64>(), 0..40)) {
            let (named, _) = found("hni_fgfc_port", &counts);
            prop_assert!(named.len() <= MOST_NAMED);
            prop_assert!(named.iter().all(|nic| *nic < counts.len()));
        }
    }
}
