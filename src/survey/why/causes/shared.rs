//! Values that several culprits share and hardly any good NIC has: they may have one cause
//! (diagnosis.md 4.2, rule 4).

use serde::{Deserialize, Serialize};

use health::Finding;
use health::item::{Readings, find};
use health::majority::{RARE, count, is_same, normals, values};

/// Fewest culprits that share a value.
const FEWEST: usize = 3;

/// Values with this chance or a larger one are left out.
const CHANCE: f64 = 0.05;

/// A value that several culprits share and hardly any good NIC has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "SharedValue"))]
pub struct SharedValue<Part> {
    /// The culprits with this value.
    pub culprits: Vec<Part>,
    /// Number of culprits with any value.
    pub of_culprits: usize,
    /// Code of the item.
    pub attribute: String,
    /// Its name.
    pub name: String,
    /// The value.
    pub value: String,
    /// The value of most good NICs.
    pub normal: String,
    /// Number of good NICs with the value of the culprits.
    pub others: usize,
    /// Number of good NICs with any value.
    pub of_others: usize,
    /// Probability, from 0 to 1, that at least this many culprits have the value if the value is
    /// unrelated to the verdict.
    pub chance: f64,
}

/// Returns the values that several of these culprits share and hardly any good NIC has, in the
/// order of their items. Each culprit and good NIC is of a node of its own: what a node has counts
/// once.
pub fn shared_values<Part: Copy>(
    culprits: &[(Part, Readings)],
    others: &[Readings],
) -> Vec<SharedValue<Part>> {
    let mut found = Vec::new();
    for (code, normal) in normals(others) {
        let with_item = culprits.iter().filter_map(|(part, own)| Some((*part, find(own, code)?)));
        let with_item: Vec<_> = with_item.collect();
        let own: Vec<&Finding> = with_item.iter().map(|(_, reading)| *reading).collect();
        let others = values(others, code);
        let mut seen: Vec<&Finding> = Vec::new();
        for (_, reading) in &with_item {
            if count(reading, &seen) > 0 {
                continue;
            }
            seen.push(reading);
            let (with, other_count) = (count(reading, &own), count(reading, &others));
            let chance = chance([with, other_count], [own.len(), others.len()]);
            let is_rare = other_count as f64 <= RARE * others.len() as f64;
            if with < FEWEST || !is_rare || chance >= CHANCE {
                continue;
            }
            let has_it = |entry: &&(Part, &Finding)| is_same(reading, entry.1);
            found.push(SharedValue {
                culprits: with_item.iter().filter(has_it).map(|with_item| with_item.0).collect(),
                of_culprits: own.len(),
                attribute: code.to_owned(),
                name: reading.name.clone(),
                value: reading.value.clone().unwrap_or_default(),
                normal: normal.value.clone().unwrap_or_default(),
                others: other_count,
                of_others: others.len(),
                chance,
            });
        }
    }
    found
}

/// Returns the p-value of Fisher's exact test, one-sided: the probability that at least `with[0]`
/// of the `with[0] + with[1]` NICs with a value are among the `totals[0]` culprits, if the value is
/// unrelated to the verdict. `totals[1]` is the number of good NICs.
fn chance(with: [usize; 2], totals: [usize; 2]) -> f64 {
    let all_with = with[0] + with[1];
    let without = totals[0] + totals[1] - all_with;
    let most = all_with.min(totals[0]);
    let ways = |first: usize| ln_choices(all_with, first) + ln_choices(without, totals[0] - first);
    let all = ln_choices(totals[0] + totals[1], totals[0]);
    let sum: f64 = (with[0]..=most).map(|first| (ways(first) - all).exp()).sum();
    sum.min(1.0)
}

/// Returns the logarithm of the number of ways to choose `some` of `all`.
fn ln_choices(all: usize, some: usize) -> f64 {
    let factors = (0..some).map(|i| ((all - i) as f64 / (i + 1) as f64).ln());
    factors.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity;
    use health::item::testing::reading;

    fn readings(value: &str) -> Readings {
        let is_memory = value.ends_with("GiB");
        let code = if is_memory { "memory-size" } else { "driver" };
        vec![reading(code, value, Severity::Shown)]
    }

    /// Returns the shared values of culprits and good NICs with these values: which culprits, how
    /// many good NICs, and the value.
    fn of(culprits: &[&str], others: &[&str]) -> Vec<(Vec<usize>, usize, String)> {
        let culprits: Vec<_> =
            culprits.iter().map(|culprit| readings(culprit)).enumerate().collect();
        let others: Vec<_> = others.iter().map(|other| readings(other)).collect();
        let found = shared_values(&culprits, &others).into_iter();
        let shown = found.map(|value| (value.culprits, value.others, value.value));
        shown.collect()
    }

    /// Vector 29 of diagnosis.md 8.
    #[test]
    fn driver_of_three_culprits_is_shared() {
        let culprits: Vec<_> = (0..3).map(|part| (part, readings("1.9"))).collect();
        let found = shared_values(&culprits, &vec![readings("1.8"); 5]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprits, [0, 1, 2]);
        assert_eq!((found[0].of_culprits, found[0].others), (3, 0));
        assert_eq!((found[0].of_others, found[0].normal.as_str()), (5, "1.8"));
        assert!((found[0].chance - 1.0 / 56.0).abs() < 1e-9);
    }

    #[test]
    fn few_culprits_or_common_values_share_nothing() {
        let good = ["1.8"; 5];
        assert_eq!(of(&["1.9", "1.9"], &good), []);
        assert_eq!(of(&["1.9", "1.9", "1.7"], &good), []);
        // Good NICs have the normal value, too few of them are known, or one has the value.
        assert_eq!(of(&["1.8"; 3], &good), []);
        assert_eq!(of(&["1.9"; 3], &["1.8"; 4]), []);
        assert_eq!(of(&["1.9"; 3], &["1.8", "1.8", "1.8", "1.8", "1.9"]), []);
        // Two of twelve good NICs are too many, however many culprits have the value.
        let mut many = ["1.8"; 12];
        many[..2].fill("1.9");
        assert_eq!(of(&["1.9"; 20], &many), []);
        // One of 20 good NICs is 5 %.
        let mut many = ["1.8"; 20];
        many[3] = "1.9";
        let expected = (vec![0, 1, 2], 1, "1.9".to_owned());
        assert_eq!(of(&["1.9"; 3], &many), [expected]);
    }

    #[test]
    fn value_of_a_small_part_of_the_culprits_may_be_chance() {
        let mut culprits = ["1.8"; 20];
        culprits[..3].fill("1.9");
        assert_eq!(of(&culprits, &["1.8"; 5]), []);
        let few: Vec<_> = culprits[..4].iter().map(|culprit| (0, readings(culprit))).collect();
        let found = shared_values(&few, &vec![readings("1.8"); 8]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].culprits.len(), found[0].of_culprits), (3, 4));
    }

    #[test]
    fn sizes_of_memory_are_shared_if_they_are_close() {
        let culprits = ["448.0 GiB", "448.1 GiB", "447.9 GiB"];
        let expected = (vec![0, 1, 2], 0, "448.0 GiB".to_owned());
        assert_eq!(of(&culprits, &["512.0 GiB"; 5]), [expected]);
    }

    #[test]
    fn chance_is_the_tail_of_the_hypergeometric_distribution() {
        for (with, counts, expected) in [
            ([3, 0], [3, 5], 1.0 / 56.0),
            ([3, 0], [20, 5], 1140.0 / 2300.0),
            // The lady tasting tea: 3 of 4 right by chance.
            ([3, 1], [4, 4], 17.0 / 70.0),
            ([0, 3], [4, 4], 1.0),
            ([4, 4], [4, 4], 1.0),
        ] {
            let chance = chance(with, counts);
            assert!((chance - expected).abs() < 1e-12, "{with:?} {chance}");
        }
        // A site's 24 failures of 30 runs with a cabinet, and none of 43 without.
        assert!(chance([24, 0], [30, 43]) < 1e-12);
    }
}
