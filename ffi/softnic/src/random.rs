//! Random numbers for faults.

/// Pseudorandom numbers from a seed (splitmix64, S. Vigna, public domain).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Whether an event with this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A number from 0 to `limit`, all equally probable. Draws none for 0.
    pub fn at_most(&mut self, limit: u64) -> u64 {
        match limit {
            0 => 0,
            _ => ((u128::from(self.next()) * (u128::from(limit) + 1)) >> 64) as u64,
        }
    }
}
