//! Random worlds: budgets against the formulas written as sets, and nonsense that must not end in a panic.

use std::collections::BTreeSet;

use drydock_plan::*;
use drydock_spec::{Amount, Amount0};
use proptest::{collection::vec, prelude::*};

use super::fixture::*;

/// What a node is like, apart from whether it is sick.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Idle,
    Held,
    Fresh,
    Quarantined,
}

fn node_state() -> impl Strategy<Value = (State, bool, bool)> {
    let state = prop_oneof![
        4 => Just(State::Idle),
        2 => Just(State::Held),
        2 => Just(State::Fresh),
        1 => Just(State::Quarantined),
    ];
    (state, prop::bool::weighted(0.25), any::<bool>())
}

fn build(nodes: &[(State, bool, bool)]) -> World {
    let mut world = World::of_size(nodes.len());
    for (n, &(state, unready, exposed)) in nodes.iter().enumerate() {
        world.was(n, |r| r.assignment.as_mut().unwrap().exposed = exposed.then(|| ago(30)));
        if unready {
            world.breaks_down(n);
        }
        match state {
            State::Held => world.was_held(n, |_| {}),
            State::Quarantined => world.was(n, |r| {
                let (rollout, blame) = (roll(), Blame::Node);
                r.quarantine =
                    Some(NodeQuarantine { rollout, since: ago(9), blame, evidence: Vec::new(), retry: None });
            }),
            State::Idle | State::Fresh => {}
        }
    }
    for (n, _) in nodes.iter().enumerate().filter(|(_, (state, ..))| *state == State::Fresh) {
        world.reserve(n);
    }
    world
}

proptest! {
    #[test]
    fn budgets_agree_with_sets(
        nodes in vec(node_state(), 1..24),
        minimum in 0u32..=10_000,
        allowance in 0u32..6,
        maximum in 0u32..10,
        batch in Just(100u32),
    ) {
        let mut world = build(&nodes);
        world.rollout(|r| r.waves[0].batch_size = batch);
        world.change_rollout(|r| r.waves[0].batch_size = batch);
        world.budget(|b| b.max_in_flight = Some(Amount::Count(maximum)));
        world.budget(|b| {
            b.min_available = Some(Amount::Percent(minimum));
            b.broken_allowance = Amount0(Amount::Count(allowance));
        });

        let pick = |f: &dyn Fn(&(State, bool, bool)) -> bool| -> BTreeSet<usize> {
            (0..nodes.len()).filter(|&n| f(&nodes[n])).collect()
        };
        let reserved = pick(&|(state, ..)| matches!(state, State::Held | State::Fresh));
        let broken = pick(&|&(state, unready, _)| unready || state == State::Quarantined);
        let before: BTreeSet<_> = broken.intersection(&pick(&|(.., exposed)| !exposed)).copied().collect();
        let fresh = pick(&|(state, ..)| *state == State::Fresh);
        let size = nodes.len() as f64;
        let available = nodes.len() - reserved.union(&broken).count() + before.len().min(allowance as usize);
        let floor = (size * f64::from(minimum) / 10_000.0 - 1e-9).ceil().max(0.0) as usize;

        let mut expected = Vec::new();
        if !fresh.is_empty() && reserved.len() > maximum as usize {
            expected.push("I1 in flight");
        }
        if fresh.difference(&broken).next().is_some() && available < floor {
            expected.push("I1 floor");
        }
        let found: Vec<_> = world.violations().iter().map(|v| v.invariant).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn nonsense_is_reported_and_never_panics(
        nodes in vec(node_state(), 1..8),
        numbers in vec((0usize..8, 0u64..4, 0u64..4, 0u16..3, 0u32..4, 0i64..200), 0..6),
        steps in vec((0usize..8, 0u8..5), 0..6),
        gone in vec(0usize..8, 0..3),
    ) {
        let mut world = build(&nodes);
        for (n, epoch, generation, wave, batch, minutes) in numbers {
            world.change(n, |r| {
                r.epoch = Epoch(epoch);
                r.generation = Generation(generation);
                if let Some(a) = &mut r.assignment {
                    a.wave = wave;
                    a.batch = Some(batch);
                    a.outcome = Some(NodeOutcome::Done);
                }
                if let Some(v) = &mut r.visit {
                    v.since = in_mins(minutes);
                }
            });
        }
        for (n, step) in steps {
            world.change(n, |r| {
                let mut odd = visit(n);
                (odd.step, odd.course) = match step {
                    0 => (Step::Fence, Course::Back),
                    1 => (Step::Return, Course::Forward),
                    2 => (Step::Verify, Course::Out(VisitEnd::Upgraded)),
                    3 => (Step::Apply(ApplyItem::Layout), Course::Out(VisitEnd::Deferred)),
                    _ => (Step::Drain, Course::Forward),
                };
                odd.rollout = RolloutId::new(if step % 2 == 0 { "roll" } else { "ghost" });
                r.visit = Some(odd);
            });
            world.act(n, if step == 1 { Ensure::Drained { rules: Default::default() } } else { Ensure::Returned });
            // Nothing about it is as it was before, so it can't be in order.
            prop_assert!(!world.violations().is_empty());
        }
        for n in gone {
            world.inventory.nodes.remove(&node(n));
            world.changes.push(LedgerChange::ForgetNode(node(n)));
        }
        prop_assert!(world.violations().len() <= 101);
        world.fleet.pools.clear();
        world.fleet.clusters.clear();
        world.fleet.components.clear();
        prop_assert!(world.violations().len() <= 101);
    }
}
