//! Random policies.

use drydock_sim::Draw;
use serde_json::{Value, json};

use super::documents::{Pool, one_of};

/// A random policy for these pools.
pub fn policy(draw: Draw, pools: &[Pool], select: Value) -> Value {
    let minutes = |name: &str, low, high| format!("{}m", draw.text(name).between(low, high));
    let timeout = |name: &str| one_of(draw.text(name), &["defer", "proceed", "fail"]).to_owned();
    let atomic: Vec<&str> = match draw.text("atomic").between(0, 9) {
        0 => vec!["nvlinkDomain"],
        1 => vec!["scalableUnit"],
        _ => Vec::new(),
    };
    let spread = match draw.text("spread").between(0, 9) {
        0 | 1 => json!([{"key": "rack", "max": draw.text("max").between(1, 3)}]),
        2 => json!([{"key": "rail", "max": "50%", "atLeastOne": true}]),
        _ => json!([]),
    };
    let keys = ["preferIdle", "leastLostGpuHours", "fewestIncidents", "stableHash", "name"];
    let order: Vec<&str> = keys.into_iter().filter(|key| draw.text("order").text(key).chance(0.6)).collect();
    json!({
        "select": select,
        "checks": "suite",
        "maxClusters": draw.text("clusters").between(1, 3),
        "order": order,
        "atomic": atomic,
        "spread": spread,
        "foreignCordon": one_of(draw.text("foreign"), &["wait", "wait", "opportunistic"]),
        "drain": {
            "gangs": one_of(draw.text("gangs"), &["together", "together", "avoid", "ignore"]),
            "checkpoint": {"wait": minutes("wait", 2, 60), "onTimeout": timeout("checkpoint")},
            "pdb": {"wait": minutes("pdb", 2, 40), "onBlocked": timeout("blocked")},
            "timeout": minutes("timeout", 2, 30),
            "onTimeout": timeout("drain"),
        },
        "onFailure": {
            "action": one_of(draw.text("action"), &["rollback", "rollback", "rollback", "halt"]),
            "scope": one_of(draw.text("scope"), &["failedAndSuspect", "wave", "rollout"]),
        },
        "rollback": {
            "inFreeze": one_of(draw.text("inFreeze"), &["allow", "allow", "deny"]),
            "budgetBoost": draw.text("boost").between(0, 2),
        },
        "retry": {
            "applyAttempts": draw.text("apply").between(1, 4),
            "checkAttempts": if draw.text("many").chance(0.1) { draw.text("tries").between(8, 20) } else { draw.text("check").between(1, 3) },
            "inconclusiveAttempts": draw.text("inconclusive").between(1, 3),
            "backoff": "30s",
            "backoffMax": minutes("max", 1, 30),
            "deferredCooldown": minutes("cooldown", 1, 40),
        },
        "supersede": {"restartWaves": draw.text("restart").chance(0.7)},
        "prefetch": draw.text("prefetch").chance(0.8),
        "deadline": {"rollout": if draw.text("short").chance(0.05) { "5h" } else { "14d" }},
        "patience": minutes("patience", 10, 240),
        "lostAfter": minutes("lost", 5, 60),
        "drift": one_of(draw.text("drift"), &["hold", "heal"]),
        "waves": waves(draw.text("waves"), pools),
    })
}

fn waves(draw: Draw, pools: &[Pool]) -> Vec<Value> {
    let count = draw.text("count").between(1, 3);
    (1..=count).map(|n| wave(draw.number(n), n, n == count, pools)).collect()
}

fn wave(draw: Draw, n: u64, last: bool, pools: &[Pool]) -> Value {
    let mut wave = json!({"name": format!("w{n}"), "batch": batch(draw.text("batch"))});
    if !last {
        match draw.text("members").between(0, 3) {
            0 => {
                let at = draw.text("pool").between(0, pools.len() as u64 - 1) as usize;
                wave["select"] = json!({"pools": [pools[at].name]});
            }
            1 => wave["select"] = json!({"clusters": [pools[0].cluster]}),
            _ => {
                let cover = one_of(draw.text("cover"), &["pool", "cluster", "gpuModel", "kernel"]);
                wave["pick"] = json!({"count": draw.text("pick").between(1, 4), "cover": [cover]});
            }
        }
    }
    wave["soak"] = json!({
        "time": one_of(draw.text("soak"), &["0s", "10m", "30m", "2h"]),
        "perBatch": draw.text("per batch").chance(0.3),
        "minJobsPassed": if draw.text("jobs").chance(0.08) { draw.text("passed").between(1, 3) } else { 0 },
        "minNodeHours": if draw.text("hours").chance(0.15) { draw.text("need").between(1, 4) } else { 0 },
    });
    let gate = |name: &str| {
        let draw = draw.text(name);
        if draw.chance(0.12) {
            json!([{"approval": {"team": "sre", "count": draw.text("count").between(1, 2)}}])
        } else {
            json!([])
        }
    };
    wave["gates"] = json!({"before": gate("before"), "after": gate("after")});
    let mut failure =
        json!({"tolerate": draw.text("tolerate").between(0, 2), "lost": draw.text("lost").between(0, 2)});
    if draw.text("percent").chance(0.3) {
        failure["toleratePercent"] = json!("20%");
        failure["minSample"] = json!(draw.text("sample").between(1, 8));
    }
    if draw.text("row").chance(0.3) {
        failure["consecutive"] = json!(draw.text("in a row").between(1, 3));
    }
    if draw.text("class").chance(0.2) {
        let class = one_of(draw.text("which class"), &["driver", "rdma", "training", "custom"]);
        failure["perClass"] = json!({class: draw.text("bear").between(0, 2)});
    }
    wave["failure"] = failure;
    wave
}

fn batch(draw: Draw) -> Value {
    match draw.text("kind").between(0, 3) {
        0 => json!({}),
        1 => json!({"start": draw.text("start").between(1, 4)}),
        2 => json!({"start": 1, "grow": 2.0, "max": draw.text("max").between(2, 8)}),
        _ => {
            json!({"start": draw.text("start").between(1, 2), "grow": 1.5, "max": format!("{}%", draw.text("max").between(20, 100))})
        }
    }
}
