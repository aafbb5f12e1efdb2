//! Seeded randomness without a sequence: a draw is a hash of what it is about. Two runs that reach the same step of
//! the same node at different instants draw the same number, so a planner that is a little faster meets the same fleet.

/// A draw in the making: a hash over the parts that name it.
#[derive(Debug, Clone, Copy)]
pub struct Draw(u64);

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Draw {
    /// Of a run.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }
    /// Narrowed by a text. Its length is part of it, so that two texts can't run together.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let word = |chunk: &[u8]| chunk.iter().fold(0u64, |word, &byte| (word << 8) | u64::from(byte));
        let hash =
            text.as_bytes().chunks(8).fold(self.0 ^ text.len() as u64, |h, chunk| mix(h ^ word(chunk)));
        Self(mix(hash))
    }
    /// Narrowed by a number.
    #[must_use]
    pub const fn number(self, n: u64) -> Self {
        Self(mix(self.0 ^ n.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }
    /// 64 bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// A whole number in `low..=high`; `low` where the range is empty.
    #[must_use]
    pub const fn between(self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        let span = (high - low).saturating_add(1);
        // The high half of the product: no bias that matters for spans far below 2^64.
        low + ((self.0 as u128 * span as u128) >> 64) as u64
    }
    /// In `0.0..1.0`.
    #[must_use]
    pub fn unit(self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with this probability.
    #[must_use]
    pub fn chance(self, probability: f64) -> bool {
        self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_part_and_on_nothing_else() {
        let base = Draw::new(7);
        assert_eq!(base.text("ab").number(1).bits(), Draw::new(7).text("ab").number(1).bits());
        let others = [
            Draw::new(8).text("ab").number(1),
            base.text("ac").number(1),
            base.text("ab").number(2),
            base.text("a").text("b").number(1),
        ];
        assert!(others.iter().all(|d| d.bits() != base.text("ab").number(1).bits()));
    }

    #[test]
    fn ranges_are_met_and_even() {
        let mut seen = [0u32; 4];
        for n in 0..4000 {
            let value = Draw::new(1).number(n).between(3, 6);
            assert!((3..=6).contains(&value));
            if let Some(slot) = seen.get_mut(usize::try_from(value - 3).unwrap_or(0)) {
                *slot += 1;
            }
        }
        assert!(seen.iter().all(|&n| (850..=1150).contains(&n)), "{seen:?}");
        assert_eq!(Draw::new(1).between(9, 3), 9);
        let half = (0..2000).filter(|&n| Draw::new(2).number(n).chance(0.5)).count();
        assert!((900..=1100).contains(&half), "{half}");
    }
}
