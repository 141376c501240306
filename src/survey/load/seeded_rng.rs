//! Random numbers that follow from the seed of the survey.

use fastrand::Rng;

/// Returns the random numbers of the `number`-th part of a sequence.
pub fn seeded_rng(seed: u64, number: u32) -> Rng {
    // The golden ratio in 64 bits spreads the numbers over all seeds.
    Rng::with_seed(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
