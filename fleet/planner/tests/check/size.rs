//! A plan for the largest fleet, and findings in numbers.

use drydock_plan::*;
use drydock_spec::{Amount, DomainKey, Each, Spread};

use super::fixture::*;

#[test]
fn thirty_thousand_nodes_are_judged() {
    large().is_fine();
}

/// 30,000 nodes, 300 of them newly reserved, under a budget of each kind.
fn large() -> World {
    let mut world = World::of_size(30_000);
    world.rollout(|r| r.waves[0].batch_size = 1_000);
    world.strategy(|s| {
        s.spread = vec![Spread { key: DomainKey::Rack, max: Amount::Count(1), at_least_one: false }];
    });
    world.budget(|b| b.max_in_flight = Some(Amount::Percent(100)));
    world.budget(|b| b.min_available = Some(Amount::Percent(9_800)));
    world.budget(|b| {
        b.each = Some(Each::Rack);
        b.max_in_flight = Some(Amount::Count(1));
    });
    world.budget(|b| {
        b.each = Some(Each::ScalableUnit);
        b.min_available = Some(Amount::Percent(8_000));
    });
    let mut ledger = world.before.clone();
    for n in (0..30_000).step_by(100) {
        let mut record = ledger.nodes[&node(n)].clone();
        record.epoch = Epoch(1);
        record.generation = Generation(1);
        record.visit = Some(Visit { since: now(), ..visit(n) });
        record.assignment.as_mut().unwrap().batch = Some(1);
        world.changes.push(LedgerChange::Node(node(n), Box::new(record)));
    }
    let mut record = RolloutRecord::clone(&ledger.rollouts.remove(&roll()).unwrap());
    record.waves[0].in_batch = 300;
    world.changes.push(LedgerChange::Rollout(Box::new(record)));
    world
}

#[test]
fn the_list_of_findings_is_bounded() {
    let mut world = large();
    world.budget(|b| b.max_in_flight = Some(Amount::Count(0)));
    world.breaks("I1 in flight");
    for state in [RolloutState::Halted, RolloutState::Aborted] {
        let mut world = large();
        world.change_rollout(|r| r.state = state);
        let found = world.violations();
        assert_eq!(found.len(), 101);
        assert!(found[100].text.starts_with("and "), "{}", found[100]);
    }
}
