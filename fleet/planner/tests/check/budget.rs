//! I1, I7. The numbers are those of the worked examples where there is one.

use drydock_plan::*;
use drydock_spec::{
    Amount, Amount0, BudgetUnit, Day, DomainKey, DomainRef, Each, Period, Reason, Scope, Window,
};

use super::fixture::*;

const FLOOR: &str = "I1 floor";
const IN_FLIGHT: &str = "I1 in flight";
const WAY_BACK: &str = "I7 rollback budgets";

fn floor(world: &mut World, percent: u32, allowance: u32) {
    world.budget(|b| {
        b.min_available = Some(Amount::Percent(percent * 100));
        b.broken_allowance = Amount0(Amount::Count(allowance));
    });
}
fn in_flight(world: &mut World, amount: Amount) {
    world.budget(|b| b.max_in_flight = Some(amount));
}

#[test]
fn as_many_as_fit_may_be_in_flight() {
    let mut world = World::new();
    in_flight(&mut world, Amount::Count(2));
    world.was_held(0, |_| {});
    world.reserve(1);
    world.is_fine();
    world.reserve(2);
    world.breaks(IN_FLIGHT);
}

#[test]
fn nothing_new_means_nothing_to_judge() {
    let mut world = World::new();
    in_flight(&mut world, Amount::Count(0));
    floor(&mut world, 100, 0);
    world.was_held(0, |_| {});
    world.was_held(1, |_| {});
    world.breaks_down(2);
    world.is_fine();
}

#[test]
fn soaking_nodes_and_quarantined_nodes_are_not_in_flight() {
    let mut world = World::new();
    in_flight(&mut world, Amount::Count(1));
    world.was_soaking(0, 5);
    world.was(1, |r| r.quarantine = Some(quarantine()));
    world.reserve(2);
    world.is_fine();
}

#[test]
fn a_quarantined_node_is_broken_in_the_same_write() {
    let mut world = World::new();
    floor(&mut world, 80, 0);
    world.was_held(0, |v| v.step = Step::Verify);
    world.was(0, |r| r.assignment.as_mut().unwrap().exposed = Some(ago(30)));
    world.intend(0, |r| {
        r.visit = None;
        r.quarantine = Some(quarantine());
        r.assignment.as_mut().unwrap().outcome = Some(NodeOutcome::Quarantined);
    });
    world.reserve(1);
    world.is_fine();
    world.reserve(2);
    world.breaks(FLOOR);
}

fn quarantine() -> NodeQuarantine {
    NodeQuarantine {
        rollout: roll(),
        since: now(),
        blame: Blame::Node,
        evidence: vec![evidence()],
        retry: None,
    }
}

#[test]
fn the_floor_rounds_up_and_counts_the_broken() {
    // 85 % of 10 are 9 nodes, rounded up.
    let mut world = World::new();
    floor(&mut world, 85, 0);
    world.reserve(0);
    world.is_fine();
    let mut world = World::new();
    floor(&mut world, 85, 0);
    world.breaks_down(9);
    world.reserve(0);
    world.breaks(FLOOR);
}

#[test]
fn an_allowance_bears_what_was_broken_before() {
    let mut world = World::new();
    floor(&mut world, 90, 2);
    world.breaks_down(8);
    world.breaks_down(9);
    world.reserve(0);
    world.is_fine();
    world.reserve(1);
    world.breaks(FLOOR);
}

#[test]
fn an_allowance_does_not_bear_what_the_rollout_broke() {
    for exposed in [false, true] {
        let mut world = World::new();
        floor(&mut world, 90, 2);
        world.breaks_down(9);
        world.was(9, |r| r.assignment.as_mut().unwrap().exposed = exposed.then(|| ago(30)));
        world.reserve(0);
        if exposed { world.breaks(FLOOR) } else { world.is_fine() }
    }
}

#[test]
fn a_node_broken_already_adds_nothing_to_a_floor_but_is_in_flight() {
    let mut world = World::new();
    floor(&mut world, 100, 0);
    world.breaks_down(3);
    world.reserve(3);
    world.is_fine();
    in_flight(&mut world, Amount::Count(0));
    world.breaks(IN_FLIGHT);
}

#[test]
fn a_sick_soaking_node_adds_nothing_to_a_floor() {
    let mut world = World::new();
    floor(&mut world, 100, 0);
    world.was_soaking(3, 20);
    world.seen(3, |s| s.faults.push(fault(1)));
    world.reserve(3);
    world.is_fine();
}

#[test]
fn foreign_cordons_are_broken() {
    let mut world = World::new();
    floor(&mut world, 90, 0);
    world.seen(9, |s| s.cordon.foreign = Some("kubectl".to_owned()));
    world.reserve(0);
    world.breaks(FLOOR);
}

#[test]
fn gpus_weigh_what_the_pool_says() {
    // 92 % of 80 GPUs are 74 rounded up, so no node of 8 may go; 16 in flight are two nodes.
    let gpus = |minimum: Option<u32>, maximum: Option<u32>| {
        let mut world = World::new();
        world.budget(|b| {
            b.unit = BudgetUnit::Gpus;
            b.min_available = minimum.map(|p| Amount::Percent(p * 100));
            b.max_in_flight = maximum.map(Amount::Count);
        });
        // The driver of a node in flight is gone, so it advertises nothing; it weighs the same.
        world.was_held(0, |v| v.step = Step::Verify);
        world.seen(0, |s| s.gpus = 0);
        world.reserve(1);
        world
    };
    gpus(Some(80), Some(16)).is_fine();
    gpus(Some(81), None).breaks(FLOOR);
    gpus(None, Some(15)).breaks(IN_FLIGHT);
}

#[test]
fn maxima_round_down_and_one_is_allowed_only_when_asked_for() {
    let five_percent = |at_least_one: bool| {
        let mut world = World::new();
        world.budget(|b| {
            b.max_in_flight = Some(Amount::Percent(500));
            b.at_least_one = at_least_one;
        });
        world.reserve(0);
        world
    };
    five_percent(false).breaks(IN_FLIGHT);
    let mut one = five_percent(true);
    one.is_fine();
    one.reserve(1);
    one.breaks(IN_FLIGHT);
    // Zero means zero.
    for amount in [Amount::Count(0), Amount::Percent(0)] {
        let mut world = World::new();
        world.budget(|b| {
            b.max_in_flight = Some(amount);
            b.at_least_one = true;
        });
        world.reserve(0);
        world.breaks(IN_FLIGHT);
    }
}

#[test]
fn one_node_is_one_node_in_gpus_too() {
    // 5 % of 80 GPUs are 4: more than nothing, and less than a node.
    let mut world = World::new();
    world.budget(|b| {
        b.unit = BudgetUnit::Gpus;
        b.max_in_flight = Some(Amount::Percent(500));
        b.at_least_one = true;
    });
    world.reserve(0);
    world.is_fine();
    world.reserve(1);
    world.breaks(IN_FLIGHT);
}

#[test]
fn one_whole_domain_may_be_in_flight() {
    let mut world = World::new();
    world.budget(|b| {
        b.max_in_flight = Some(Amount::Count(1));
        b.at_least_domain = Some(DomainKey::ScalableUnit);
    });
    for n in 0..5 {
        world.reserve(n);
    }
    world.is_fine();
    world.reserve(5);
    world.breaks(IN_FLIGHT);
}

#[test]
fn a_scope_restricts_what_is_in_it() {
    let scoped = |value: &str| {
        let mut world = World::new();
        world.budget(|b| {
            b.scope = Scope {
                domain: Some(DomainRef { key: DomainKey::Rack, value: value.to_owned() }),
                ..Scope::default()
            };
            b.max_in_flight = Some(Amount::Count(1));
        });
        world.reserve(0);
        world.reserve(1);
        world
    };
    scoped("rack0").breaks(IN_FLIGHT);
    scoped("rack1").is_fine();
    let mut world = World::new();
    world.budget(|b| {
        b.scope.cluster = Some("elsewhere".parse().unwrap());
        b.max_in_flight = Some(Amount::Count(0));
    });
    world.reserve(0);
    world.is_fine();
}

#[test]
fn each_makes_one_count_of_its_own() {
    for each in [Each::Rack, Each::ScalableUnit, Each::NvlinkDomain, Each::Rail] {
        let mut world = World::new();
        world.budget(|b| {
            b.each = Some(each);
            b.max_in_flight = Some(Amount::Count(1));
        });
        world.reserve(0);
        world.reserve(5);
        world.is_fine();
        world.reserve(1);
        world.breaks(IN_FLIGHT);
    }
    for each in [Each::Region, Each::Cluster, Each::Pool, Each::Tenant] {
        let mut world = World::new();
        world.budget(|b| {
            b.each = Some(each);
            b.max_in_flight = Some(Amount::Count(1));
        });
        world.reserve(0);
        world.is_fine();
        world.reserve(5);
        world.breaks(IN_FLIGHT);
    }
}

#[test]
fn racks_of_two_clusters_are_two_racks() {
    let mut world = World::new();
    world.fleet.clusters.insert("d".parse().unwrap(), named(cluster()));
    let mut other = pool();
    other.cluster = "d".parse().unwrap();
    world.fleet.pools.insert("q".parse().unwrap(), named(other));
    let seen = world.inventory.nodes[&node(0)].clone();
    world.inventory.nodes.insert(NodeId::new("d/n0"), seen);
    let fleet = world.fleet.clone();
    world.inventory.assign_pools(&fleet);
    let mut held = world.before.nodes[&node(0)].clone();
    held.visit = Some(visit(99));
    held.assignment.as_mut().unwrap().batch = Some(1);
    world.before.nodes.insert(NodeId::new("d/n0"), held);
    world.strategy(|s| s.max_clusters = 2);
    world.budget(|b| {
        b.each = Some(Each::Rack);
        b.max_in_flight = Some(Amount::Count(1));
    });
    world.reserve(0);
    world.is_fine();
}

#[test]
fn reasons_narrow_a_budget_but_never_for_a_way_back() {
    let with = |reasons: &[Reason]| {
        let mut world = World::new();
        world.budget(|b| {
            b.max_in_flight = Some(Amount::Count(0));
            b.reasons = Some(reasons.to_vec());
        });
        world
    };
    let mut world = with(&[Reason::Repartition]);
    world.reserve(0);
    world.is_fine();
    let mut world = with(&[Reason::Upgrade]);
    world.reserve(0);
    world.breaks(IN_FLIGHT);
    let mut world = with(&[Reason::Repartition]);
    world.runs(0, &new_vector());
    world.reserve(0);
    world.breaks(IN_FLIGHT);
    let mut world = with(&[Reason::Upgrade]);
    rollback(&mut world, &[0]);
    reserve_back(&mut world, 0);
    world.breaks(WAY_BACK);
}

#[test]
fn a_boost_is_for_the_way_back_alone() {
    let boosted = |boost: u32| {
        let mut world = World::new();
        in_flight(&mut world, Amount::Count(1));
        rollback(&mut world, &[0, 1, 2]);
        strategy_back(&mut world, |s| s.rollback.budget_boost = boost);
        world
    };
    for (boost, fits) in [(0, 1), (1, 2), (2, 3)] {
        let mut world = boosted(boost);
        (0..fits).for_each(|n| reserve_back(&mut world, n));
        world.is_fine();
    }
    let mut world = boosted(1);
    (0..3).for_each(|n| reserve_back(&mut world, n));
    world.breaks(WAY_BACK);

    // What goes forward doesn't profit from it.
    let mut world = World::new();
    in_flight(&mut world, Amount::Count(1));
    world.strategy(|s| s.rollback.budget_boost = 5);
    world.reserve(0);
    world.reserve(1);
    world.breaks(IN_FLIGHT);
}

#[test]
fn a_budget_restricts_only_while_it_is_active() {
    let window = |from: &str, zone: &str| Window {
        name: None,
        days: vec![Day::Wed],
        from: from.to_owned(),
        length: Period::from_hours(2),
        time_zone: zone.to_owned(),
        scope: Scope::default(),
    };
    // It is noon on a Wednesday; in doubt the budget restricts.
    for (from, zone, restricts) in
        [("11:00", "UTC", true), ("13:00", "UTC", false), ("13:00", "Nowhere/Else", true)]
    {
        let mut world = World::new();
        world.budget(|b| {
            b.max_in_flight = Some(Amount::Count(0));
            b.active = vec![window(from, zone)];
        });
        world.reserve(0);
        if restricts { world.breaks(IN_FLIGHT) } else { world.is_fine() }
    }
}

/// The table of the public case with 288 nodes and a floor of 95 %: broken before, allowance, how many may start.
#[test]
fn the_published_table_holds() {
    for (broken, allowance, may_start) in [(20, 0, 0), (20, 20, 14), (25, 0, 0), (25, 20, 9), (25, 25, 14)] {
        let with = |start: usize| {
            let mut world = World::of_size(288);
            world.rollout(|r| r.waves[0].batch_size = 288);
            floor(&mut world, 95, allowance);
            (288 - broken..288).for_each(|n| world.breaks_down(n));
            (0..start).for_each(|n| world.reserve(n));
            world
        };
        with(may_start).is_fine();
        with(may_start + 1).breaks(FLOOR);
    }
}

/// A node that the inventory lacks, held by the rollout, in this cluster.
fn hold_unseen(world: &mut World, id: &str) {
    let mut held = world.before.nodes[&node(0)].clone();
    held.visit = Some(visit(99));
    held.assignment.as_mut().unwrap().batch = Some(1);
    held.place = Some(Place { gpus: 8, pool: Some("p".parse().unwrap()), ..Place::default() });
    world.before.nodes.insert(NodeId::new(id), held);
}

#[test]
fn nodes_that_are_not_seen_are_counted() {
    let mut world = World::new();
    hold_unseen(&mut world, "c/x");
    world.budget(|b| b.max_in_flight = Some(Amount::Count(1)));
    world.reserve(0);
    world.breaks("I1 in flight");
    // And they are away: eleven are known, ten must stay.
    let mut world = World::new();
    hold_unseen(&mut world, "c/x");
    world.budget(|b| b.min_available = Some(Amount::Count(10)));
    world.reserve(0);
    world.breaks("I1 floor");
    let mut world = World::new();
    hold_unseen(&mut world, "c/x");
    world.budget(|b| b.min_available = Some(Amount::Count(9)));
    world.reserve(0);
    world.is_fine();
}

#[test]
fn what_is_documented_and_not_there_loosens_no_floor() {
    let mut world = World::new();
    world.fleet.pools.get_mut("p").unwrap().spec.nodes.min = Some(14);
    world.budget(|b| b.min_available = Some(Amount::Percent(7_000)));
    world.reserve(0);
    world.breaks("I1 floor");
}

#[test]
fn a_rollout_is_under_way_where_it_holds_nodes_that_are_not_seen() {
    let mut world = World::new();
    hold_unseen(&mut world, "d/x");
    world.reserve(0);
    world.breaks("I20 clusters");
    let mut world = World::new();
    hold_unseen(&mut world, "d/x");
    world.strategy(|s| s.max_clusters = 2);
    world.reserve(0);
    world.is_fine();
}
