//! The limits that hold for a change, and where each was said.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Inventory, RolloutRecord};
use drydock_spec::{
    Amount, BudgetSpec, BudgetUnit, Each, Fleet, Named, PolicySpec, PoolName, SourceFile, Wave,
};

use super::{Limit, draft, most, origin};
use crate::render::reason::count;

/// Documents and their text.
struct Texts<'a>(BTreeMap<&'a str, &'a str>);

impl Texts<'_> {
    /// `budgets/stage.yaml:9`, or `default`.
    fn origin<T>(&self, document: &Named<T>, path: &[&str]) -> String {
        let text = self.0.get(document.path.as_str()).copied().unwrap_or_default();
        let spec: Vec<&str> = std::iter::once("spec").chain(path.iter().copied()).collect();
        match origin::line_of(text, document.line, &spec) {
            Some(line) => format!("{}:{line}", document.path),
            None => "default".to_owned(),
        }
    }
}

/// Every limit that holds for nodes of these pools.
pub(super) fn limits<'a>(
    fleet: &Fleet,
    files: &[SourceFile],
    rollouts: impl Iterator<Item = &'a RolloutRecord>,
    pools: &BTreeSet<&PoolName>,
    inventory: &Inventory,
) -> Vec<Limit> {
    let texts = files.iter().filter_map(|f| Some((f.path.as_str(), std::str::from_utf8(&f.bytes).ok()?)));
    let texts = Texts(texts.collect());
    let mut found = Vec::new();
    for (name, budget) in &fleet.budgets {
        let covers = |pool: &&&PoolName| {
            fleet.pools.get(**pool).is_some_and(|spec| budget.scope.covers_pool(fleet, pool, spec))
        };
        if pools.iter().any(|pool| covers(&pool)) {
            budget_limits(&texts, fleet, name.as_str(), budget, inventory, &mut found);
        }
    }
    for record in rollouts {
        if let Some(policy) = fleet.policies.get(&record.policy) {
            policy_limits(&texts, record.policy.as_str(), policy, &mut found);
        }
    }
    found
}

fn budget_limits(
    texts: &Texts<'_>,
    fleet: &Fleet,
    name: &str,
    budget: &Named<BudgetSpec>,
    inventory: &Inventory,
    found: &mut Vec<Limit>,
) {
    let of = format!("Budget {name}");
    let mut sizes: BTreeMap<String, u32> = BTreeMap::new();
    for id in inventory.nodes.keys() {
        if let Some(key) = most::group(fleet, budget, id, inventory) {
            *sizes.entry(key).or_default() += match budget.unit {
                BudgetUnit::Nodes => 1,
                BudgetUnit::Gpus => draft::gpus(inventory, id),
            };
        }
    }
    let unit = |worth: &str| match (budget.unit, worth) {
        (BudgetUnit::Nodes, "1") => "node",
        (BudgetUnit::Nodes, _) => "nodes",
        (BudgetUnit::Gpus, "1") => "GPU",
        (BudgetUnit::Gpus, _) => "GPUs",
    };
    let each = budget.each.map_or(String::new(), |each| format!(", each {}", each_word(each)));
    let least = u32::from(budget.at_least_one);
    let spread = |of: &dyn Fn(u32) -> u32| -> String {
        let values: BTreeSet<u32> = sizes.values().map(|size| of(*size)).collect();
        match (values.first(), values.last()) {
            (Some(low), Some(high)) if low == high => low.to_string(),
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (None, _) | (_, None) => "0".to_owned(),
        }
    };
    let said = |amount: Amount, worth: String| match amount {
        Amount::Count(_) => format!("{worth} {}{each}", unit(&worth)),
        Amount::Percent(_) => format!("{amount} = {worth} {}{each}", unit(&worth)),
    };
    if let Some(max) = budget.max_in_flight {
        let worth = spread(&|size| if max.is_zero() { 0 } else { max.floor_of(size).max(least) });
        let origin = texts.origin(budget, &["maxInFlight"]);
        found.push(Limit { of: of.clone(), what: "maxInFlight".to_owned(), value: said(max, worth), origin });
    }
    if let Some(min) = budget.min_available {
        let origin = texts.origin(budget, &["minAvailable"]);
        found.push(Limit {
            of,
            what: "minAvailable".to_owned(),
            value: said(min, spread(&|size| min.ceil_of(size))),
            origin,
        });
    }
}

const fn each_word(each: Each) -> &'static str {
    match each {
        Each::Region => "region",
        Each::Cluster => "cluster",
        Each::Pool => "pool",
        Each::Tenant => "tenant",
        Each::NvlinkDomain => "nvlinkDomain",
        Each::ScalableUnit => "scalableUnit",
        Each::Rack => "rack",
        Each::Rail => "rail",
    }
}

fn policy_limits(texts: &Texts<'_>, name: &str, policy: &Named<PolicySpec>, found: &mut Vec<Limit>) {
    let of = format!("RolloutPolicy {name}");
    let mut add = |what: String, value: String, path: &[&str]| {
        found.push(Limit { of: of.clone(), what, value, origin: texts.origin(policy, path) });
    };
    for Wave { name, batch, soak, failure, .. } in &policy.waves {
        let entry = format!("name={name}");
        let grow = if batch.grow > 1.0 { format!(", growing by {}", batch.grow) } else { String::new() };
        let most = batch.max.unwrap_or(batch.start);
        let value = format!("{} to {most} units{grow}", batch.start);
        add(format!("batch of {name}"), value, &["waves", &entry, "batch"]);
        add(format!("soak of {name}"), soak.time.to_string(), &["waves", &entry, "soak", "time"]);
        let tolerate = count(failure.tolerate, "failure");
        add(format!("tolerated in {name}"), tolerate, &["waves", &entry, "failure", "tolerate"]);
    }
    add("maxClusters".to_owned(), policy.max_clusters.to_string(), &["maxClusters"]);
    for spread in &policy.spread {
        add(format!("spread over {}", spread.key.as_str()), spread.max.to_string(), &["spread"]);
    }
    let drain = &policy.drain;
    add(
        "wait for checkpoint".to_owned(),
        drain.checkpoint.wait.to_string(),
        &["drain", "checkpoint", "wait"],
    );
    add("drain timeout".to_owned(), drain.timeout.to_string(), &["drain", "timeout"]);
    add("wait for disruption budgets".to_owned(), drain.pdb.wait.to_string(), &["drain", "pdb", "wait"]);
    let deadline = &policy.deadline;
    add("deadline preflight".to_owned(), deadline.preflight.to_string(), &["deadline", "preflight"]);
    add("deadline reboot".to_owned(), deadline.reboot.to_string(), &["deadline", "reboot"]);
    add("deadline rollout".to_owned(), deadline.rollout.to_string(), &["deadline", "rollout"]);
    add("deadline unit".to_owned(), deadline.unit.to_string(), &["deadline", "unit"]);
    let tries =
        format!("{} of apply, {} of checks", policy.retry.apply_attempts, policy.retry.check_attempts);
    add("tries".to_owned(), tries, &["retry"]);
    add("lost after".to_owned(), policy.lost_after.to_string(), &["lostAfter"]);
    add("patience".to_owned(), policy.patience.to_string(), &["patience"]);
}
