//! Budgets once more, counted straight from the documents.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scene::{Outcome, Pool, Scene};

/// A budget over everything, as plain numbers.
#[derive(Debug, Clone)]
struct Budget {
    gpus: bool,
    in_flight: Option<Limit>,
    floor: Option<Limit>,
    allowance: u32,
    /// Only this pool.
    pool: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    Count(u32),
    Percent(u32),
}

impl Limit {
    fn text(self) -> Value {
        match self {
            Self::Count(n) => json!(n),
            Self::Percent(p) => json!(format!("{p}%")),
        }
    }
    fn down(self, size: u32) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Percent(p) => size * p / 100,
        }
    }
    fn up(self, size: u32) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Percent(p) => (size * p).div_ceil(100),
        }
    }
}

impl Budget {
    fn document(&self, pools: &[Pool]) -> Value {
        let mut spec = json!({
            "unit": if self.gpus { "gpus" } else { "nodes" },
            "brokenAllowance": self.allowance,
            "scope": match self.pool { Some(n) => json!({"pools": [pools[n].name]}), None => json!({}) },
        });
        if let Some(limit) = self.in_flight {
            spec["maxInFlight"] = limit.text();
        }
        if let Some(limit) = self.floor {
            spec["minAvailable"] = limit.text();
        }
        spec
    }
    fn covered<'a>(&self, pools: &'a [Pool]) -> Vec<&'a Pool> {
        pools.iter().enumerate().filter(|(n, _)| self.pool.is_none_or(|p| p == *n)).map(|(_, p)| p).collect()
    }
    fn weight(&self, pool: &Pool) -> u32 {
        if self.gpus { pool.gpus } else { 1 }
    }
    /// How much may start at most.
    fn room(&self, pools: &[Pool]) -> u32 {
        let covered = self.covered(pools);
        let size: u32 = covered.iter().map(|p| p.nodes * self.weight(p)).sum();
        let broken: u32 = covered.iter().map(|p| p.dead * self.weight(p)).sum();
        let in_flight = self.in_flight.map_or(u32::MAX, |limit| limit.down(size));
        let spare = (size + broken.min(self.allowance)).saturating_sub(broken);
        let above_floor = self.floor.map_or(u32::MAX, |floor| spare.saturating_sub(floor.up(size)));
        in_flight.min(above_floor)
    }
    fn admitted(&self, outcome: &Outcome, pools: &[Pool]) -> u32 {
        let covered = self.covered(pools);
        let inside = |id: &str| covered.iter().any(|p| id.starts_with(&format!("c/{}-", p.name)));
        let admitted = outcome.admitted();
        let mine = admitted.iter().filter(|id| inside(id.as_str()));
        mine.map(|id| if self.gpus { outcome.gpus(id) } else { 1 }).sum()
    }
}

fn limit(highest: u32) -> impl Strategy<Value = Limit> {
    prop_oneof![(1..=highest).prop_map(Limit::Count), (1..=100u32).prop_map(Limit::Percent)]
}

fn budget(pools: usize) -> impl Strategy<Value = Budget> {
    let limits = (prop::option::weighted(0.8, limit(40)), prop::option::weighted(0.6, limit(30)));
    (any::<bool>(), limits, 0..20u32, prop::option::weighted(0.3, 0..pools)).prop_map(
        |(gpus, (in_flight, floor), allowance, pool)| Budget { gpus, in_flight, floor, allowance, pool },
    )
}

fn pools() -> impl Strategy<Value = Vec<Pool>> {
    let one = (1..30u32, prop::sample::select(vec![1u32, 4, 8]), 0..6u32);
    prop::collection::vec(one, 1..4).prop_map(|list| {
        let pool = |(n, (nodes, gpus, dead)): (usize, (u32, u32, u32))| Pool {
            dead: dead.min(nodes),
            ..Pool::new(&format!("p{n}"), nodes, gpus)
        };
        list.into_iter().enumerate().map(pool).collect()
    })
}

fn scene(pools: &[Pool], budgets: &[&Budget]) -> Scene {
    Scene {
        pools: pools.to_vec(),
        budgets: budgets.iter().map(|b| b.document(pools)).collect(),
        ..Scene::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever several budgets say, none is exceeded.
    #[test]
    fn never_more_than_any_budget_allows(
        (pools, budgets) in pools().prop_flat_map(|p| {
            let count = p.len();
            (Just(p), prop::collection::vec(budget(count), 1..4))
        })
    ) {
        let outcome = scene(&pools, &budgets.iter().collect::<Vec<_>>()).pass();
        for budget in &budgets {
            let (admitted, room) = (budget.admitted(&outcome, &pools), budget.room(&pools));
            prop_assert!(admitted <= room, "{admitted} of {room}: {budget:?}");
        }
    }

    /// With one budget and no other limit, nothing that would still fit is left behind; nodes that weigh the same
    /// reach the limit exactly.
    #[test]
    fn one_budget_is_used_up((pools, budget) in pools().prop_flat_map(|p| { let count = p.len(); (Just(p), budget(count)) })) {
        let budget = Budget { pool: None, ..budget };
        let outcome = scene(&pools, &[&budget]).pass();
        if outcome.rejected().is_some() {
            // Only where some node is heavier than the budget can ever let go.
            prop_assert_eq!(outcome.admitted().len(), 0);
            let heaviest = pools.iter().map(|p| budget.weight(p)).max().unwrap_or(0);
            let healthy: Vec<Pool> = pools.iter().map(|p| Pool { dead: 0, ..p.clone() }).collect();
            prop_assert!(heaviest > budget.room(&healthy), "{:?}", outcome.rejected());
            return Ok(());
        }
        let left = budget.room(&pools).saturating_sub(budget.admitted(&outcome, &pools));
        let mut waiting = pools.iter().filter(|pool| {
            let admitted = outcome.admitted();
            let mine = admitted.iter().filter(|id| id.as_str().starts_with(&format!("c/{}-", pool.name)));
            pool.nodes - pool.dead > mine.count() as u32
        });
        prop_assert!(waiting.all(|pool| budget.weight(pool) > left), "{left} are left: {budget:?}");
    }

    /// A higher limit never lets less go.
    #[test]
    fn one_budget_is_monotone(pools in pools(), gpus in any::<bool>(), low in 1..40u32, more in 0..20u32) {
        let with = |limit| Budget { gpus, in_flight: Some(Limit::Count(limit)), floor: None, allowance: 0, pool: None };
        let weight = |limit| {
            let budget = with(limit);
            budget.admitted(&scene(&pools, &[&budget]).pass(), &pools)
        };
        prop_assert!(weight(low) <= weight(low + more));
    }
}
