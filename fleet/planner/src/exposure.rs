//! How many nodes a bad release can ever reach, from the policy alone.

use drydock_spec::Wave;

use crate::{admit::batch_size, success::DRAWS_MAX};

/// Most units of a wave that are given a release which fails on every one of them, and so the most that a reviewer has to
/// reckon with: whole batches of the first size, until more units have failed in every possible way than the wave bears.
/// Batches grow from successes alone, so such a release never sees a larger one; a sample is drawn again a few times.
///
/// `units` are the units of the wave.
#[must_use]
pub fn exposure_bound(wave: &Wave, units: u32) -> u32 {
    let failure = &wave.failure;
    // A failure of which nobody knows whose it is weighs a half, unless its class has a tolerance of its own.
    let by_version: u32 = failure.tolerate.saturating_mul(2);
    let by_class: u32 = failure.per_class.values().fold(0, |sum, n| sum.saturating_add(*n));
    let by_node = failure.node_failures.unwrap_or(1);
    let borne = [by_version, by_class, by_node, failure.lost].into_iter().fold(0u32, u32::saturating_add);
    let first = batch_size(&wave.batch, 0, units).max(1);
    let all = borne.saturating_add(1).div_ceil(first).saturating_mul(first);
    match &wave.pick {
        Some(_) => all.min(units.saturating_add(DRAWS_MAX)),
        None => all.min(units),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use drydock_spec::{Amount, Batch, Pick};

    use super::*;

    fn wave(start: u32, pick: Option<u32>) -> Wave {
        Wave {
            name: "w".parse().unwrap(),
            select: Default::default(),
            pick: pick.map(|count| Pick { count, cover: Vec::new() }),
            batch: Batch { start: Amount::Count(start), grow: 2.0, max: None },
            soak: Default::default(),
            gates: Default::default(),
            failure: Default::default(),
        }
    }

    /// One node blamed itself and one that is lost are borne by default, so the third of a sample of one halts.
    #[test]
    fn what_is_borne_is_counted_in_whole_batches_of_the_first_size() {
        assert_eq!(exposure_bound(&wave(1, Some(1)), 1), 3);
        assert_eq!(exposure_bound(&wave(2, None), 40), 4);
        assert_eq!(exposure_bound(&wave(8, None), 40), 8);
        assert_eq!(exposure_bound(&wave(8, None), 5), 5, "never more than there are");
        let mut strict = wave(1, None);
        (strict.failure.lost, strict.failure.node_failures) = (0, Some(0));
        assert_eq!(exposure_bound(&strict, 40), 1);
        strict.failure.tolerate = 2;
        assert_eq!(exposure_bound(&strict, 40), 5, "four of which nobody knows whose they are, and one more");
        strict.failure.per_class.insert(drydock_spec::CheckClass::Rdma, 1);
        assert_eq!(exposure_bound(&strict, 40), 6);
    }
}
