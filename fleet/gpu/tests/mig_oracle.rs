//! The placement solver against an enumeration that shares nothing with it but the hardware's rules, written out below.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use drydock_gpu::mig::{LayoutError, MigLayout, Placement, place, place_keeping, room_for};
use drydock_gpu::model::{GpuModel, lookup};
use proptest::prelude::*;

/// A profile as a person would copy it from a listing: name, starts, size, maximum, media engines.
type Row = (&'static str, &'static [usize], usize, u32, u32);

const A100: &[Row] = &[
    ("1g.5gb", &[0, 1, 2, 3, 4, 5, 6], 1, 7, 0),
    ("1g.5gb+me", &[0, 1, 2, 3, 4, 5, 6], 1, 1, 0),
    ("1g.10gb", &[0, 2, 4, 6], 2, 4, 0),
    ("2g.10gb", &[0, 2, 4], 2, 3, 0),
    ("3g.20gb", &[0, 4], 4, 2, 0),
    ("4g.20gb", &[0], 4, 1, 0),
    ("7g.40gb", &[0], 8, 1, 0),
];
const A30: &[Row] = &[
    ("1g.6gb", &[0, 1, 2, 3], 1, 4, 0),
    ("1g.6gb+me", &[0, 1, 2, 3], 1, 1, 0),
    ("2g.12gb", &[0, 2], 2, 2, 0),
    ("2g.12gb+me", &[0, 2], 2, 1, 0),
    ("4g.24gb", &[0], 4, 1, 0),
];
const RTX: &[Row] = &[
    ("1g.24gb", &[0, 3, 6, 9], 3, 4, 1),
    ("1g.24gb+me", &[0, 3, 6, 9], 3, 1, 1),
    ("1g.24gb+gfx", &[0, 3, 6, 9], 3, 4, 1),
    ("1g.24gb+me.all", &[0, 3, 6, 9], 3, 1, 4),
    ("1g.24gb-me", &[0, 3, 6, 9], 3, 4, 0),
    ("2g.48gb", &[0, 6], 6, 2, 2),
    ("2g.48gb+gfx", &[0, 6], 6, 2, 2),
    ("2g.48gb+me.all", &[0, 6], 6, 1, 4),
    ("2g.48gb-me", &[0, 6], 6, 2, 0),
    ("4g.96gb", &[0], 12, 1, 4),
    ("4g.96gb+gfx", &[0], 12, 1, 4),
];
/// Profiles that hold the one optical flow engine of an RTX PRO 6000.
const OFA: &[&str] = &["1g.24gb+me", "1g.24gb+me.all", "2g.48gb+me.all", "4g.96gb", "4g.96gb+gfx"];

type Counts = Vec<u32>;
type Places = BTreeSet<(usize, usize)>;

struct Oracle {
    rows: &'static [Row],
    media: u32,
    /// Every valid multiset with every way to place it, as (profile, start).
    valid: BTreeMap<Counts, BTreeSet<Places>>,
}

impl Oracle {
    fn new(rows: &'static [Row], media: u32) -> Self {
        let mut oracle = Oracle { rows, media, valid: BTreeMap::new() };
        let spots: Vec<(usize, usize)> =
            (0..rows.len()).flat_map(|p| rows[p].1.iter().map(move |start| (p, *start))).collect();
        oracle.take_or_leave(&spots, &Places::new(), &[false; 12]);
        oracle
    }

    fn take_or_leave(&mut self, spots: &[(usize, usize)], chosen: &Places, used: &[bool; 12]) {
        let Some(((profile, start), rest)) = spots.split_first() else {
            let mut counts = vec![0; self.rows.len()];
            chosen.iter().for_each(|(profile, _)| counts[*profile] += 1);
            if self.limits_hold(&counts) {
                self.valid.entry(counts).or_default().insert(chosen.clone());
            }
            return;
        };
        self.take_or_leave(rest, chosen, used);
        let units = *start..*start + self.rows[*profile].2;
        if units.clone().all(|unit| !used[unit]) {
            let (mut chosen, mut used) = (chosen.clone(), *used);
            chosen.insert((*profile, *start));
            units.for_each(|unit| used[unit] = true);
            self.take_or_leave(rest, &chosen, &used);
        }
    }

    fn limits_hold(&self, counts: &Counts) -> bool {
        let pairs = || self.rows.iter().zip(counts);
        let media: u32 = pairs().map(|(row, n)| row.4 * n).sum();
        let flow: u32 = pairs().filter(|(row, _)| OFA.contains(&row.0)).map(|(_, n)| n).sum();
        pairs().all(|(row, n)| *n <= row.3) && media <= self.media && flow <= 1
    }

    fn layout(&self, counts: &[u32]) -> MigLayout {
        MigLayout::parse(self.rows.iter().map(|r| r.0).zip(counts.iter().copied())).unwrap()
    }

    fn counts(&self, layout: &MigLayout) -> Counts {
        let by_name: BTreeMap<String, u32> = layout.iter().map(|(name, n)| (name.to_string(), n)).collect();
        self.rows.iter().map(|row| by_name.get(row.0).copied().unwrap_or(0)).collect()
    }

    fn places(&self, placements: &[Placement]) -> Places {
        let index = |p: &Placement| self.rows.iter().position(|row| row.0 == p.profile.to_string()).unwrap();
        placements.iter().map(|p| (index(p), usize::from(p.start))).collect()
    }

    /// Every multiset with up to one instance more than each limit.
    fn all_counts(&self) -> Vec<Counts> {
        self.rows.iter().fold(vec![Counts::new()], |prefixes, row| {
            prefixes
                .iter()
                .flat_map(|p| (0..=row.3 + 1).map(move |n| [p.as_slice(), &[n]].concat()))
                .collect()
        })
    }
}

/// Enumerated once: the solver is asked thousands of times.
static ORACLES: LazyLock<[(Oracle, &'static GpuModel); 3]> = LazyLock::new(|| {
    [(A100, "A100-40GB"), (A30, "A30"), (RTX, "RTX-PRO-6000")]
        .map(|(rows, model)| (Oracle::new(rows, 4), lookup(model).unwrap()))
});

/// The counts are those of an exhaustive search over the published placements.
#[test]
fn as_many_layouts_as_the_hardware_has() {
    for ((oracle, model), (valid, maximal)) in ORACLES.iter().zip([(127, 44), (21, 9), (114, 64)]) {
        let layouts: Vec<MigLayout> = oracle.valid.keys().map(|counts| oracle.layout(counts)).collect();
        assert_eq!(layouts.iter().filter(|l| !l.is_empty()).count(), valid, "{}", model.name);
        assert_eq!(
            layouts.iter().filter(|l| room_for(model, l).is_empty()).count(),
            maximal,
            "{}",
            model.name
        );
    }
}

fn agree(oracle: &Oracle, model: &GpuModel, counts: &Counts) {
    let layout = oracle.layout(counts);
    match place(model, &layout) {
        Ok(placements) => {
            let ways =
                oracle.valid.get(counts).unwrap_or_else(|| panic!("{layout} placed on {}", model.name));
            assert!(ways.contains(&oracle.places(&placements)), "{layout}: {placements:?}");
            assert_eq!(placements.len(), usize::try_from(layout.instances()).unwrap());
        }
        Err(error) => {
            assert!(!oracle.valid.contains_key(counts), "{layout}: {error}");
            if let LayoutError::DoesNotFit { clash, .. } = error {
                is_smallest(oracle, counts, &oracle.counts(&clash));
            }
        }
    }
}

/// The clash is part of what was wanted, doesn't fit, and fits without any one of its instances.
fn is_smallest(oracle: &Oracle, wanted: &Counts, clash: &Counts) {
    assert!(clash.iter().zip(wanted).all(|(part, whole)| part <= whole));
    assert!(!oracle.valid.contains_key(clash));
    for i in (0..clash.len()).filter(|i| clash[*i] > 0) {
        let mut less = clash.clone();
        less[i] -= 1;
        assert!(oracle.valid.contains_key(&less), "{clash:?} is not smallest");
    }
}

#[test]
fn every_layout_of_the_small_families_agrees() {
    for (oracle, model) in ORACLES.iter().take(2) {
        for counts in oracle.all_counts() {
            agree(oracle, model, &counts);
        }
    }
}

#[test]
fn every_valid_layout_of_the_large_family_is_placed() {
    let [_, _, (oracle, model)] = &*ORACLES;
    for counts in oracle.valid.keys() {
        agree(oracle, model, counts);
    }
}

fn kept(current: &[Placement], next: &[Placement]) -> usize {
    next.iter().filter(|p| current.contains(p)).count()
}

/// Moves between all pairs of valid layouts of the 4/4 family, and of the 7/8 family from a full GPU.
#[test]
fn a_change_keeps_as_many_instances_as_any_placement_could() {
    let [(a100, a100_model), (a30, a30_model), _] = &*ORACLES;
    let mut moves = 0;
    for (oracle, model, full_only) in [(a100, a100_model, true), (a30, a30_model, false)] {
        for before in oracle.valid.keys() {
            let before = oracle.layout(before);
            if full_only && !(room_for(model, &before).is_empty() && before.instances() >= 4) {
                continue;
            }
            let current = place(model, &before).unwrap();
            for (after, ways) in &oracle.valid {
                let next = place_keeping(model, &oracle.layout(after), &current).unwrap();
                let held = oracle.places(&current);
                let best = ways.iter().map(|way| way.intersection(&held).count()).max().unwrap();
                assert_eq!(kept(&current, &next), best, "{before} -> {}", oracle.layout(after));
                assert!(ways.contains(&oracle.places(&next)));
                moves += 1;
            }
        }
    }
    assert!(moves > 1000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Small counts, so that most cases lie at the border; all 100,000 would take too long.
    #[test]
    fn layouts_of_the_large_family_agree(counts in prop::collection::vec(prop_oneof![5 => Just(0_u32), 2 => Just(1), 1 => 2..5_u32], 11)) {
        let [_, _, (oracle, model)] = &*ORACLES;
        agree(oracle, model, &counts);
    }

    /// A document can carry any number; the solver answers without overflow.
    #[test]
    fn hostile_counts_are_refused(counts in prop::collection::vec(prop_oneof![Just(0_u32), any::<u32>(), Just(u32::MAX)], 7)) {
        let [(oracle, model), ..] = &*ORACLES;
        let layout = oracle.layout(&counts);
        prop_assert_eq!(place(model, &layout).is_ok(), oracle.valid.contains_key(&counts));
        prop_assert!(layout.instances() <= 7 || place(model, &layout).is_err());
    }
}
