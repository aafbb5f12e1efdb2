//! What must hold in every script, whatever it is about.

use drydock_planner::{Input, plan, why};
use drydock_sim::Run;

use crate::{play::Stage, script::Script};

/// Crashes that are tried at most: a run with more writes is too long for this.
const CRASHES_MAX: u64 = 2_000;

/// No budget was broken and no invariant; nothing of drydock's is left on a node without a reason; it rests, and
/// planning again changes nothing.
pub(crate) fn judge(script: &Script, stage: &Stage, run: &Run) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(run.summary.budget_violations.iter().map(|text| format!("budget: {text}")));
    wrong.extend(run.summary.invariant_violations.iter().map(|text| format!("invariant: {text}")));
    for (id, node) in &run.world.inventory().nodes {
        let record = run.ledger.nodes.get(id);
        let known = record.is_some_and(|r| r.visit.is_some() || r.quarantine.is_some());
        if node.cordon.own.is_some() && !known {
            wrong.push(format!("{id} is left cordoned"));
        }
    }
    if script.until.is_none() {
        wrong.extend(at_rest(stage, run));
    }
    wrong.extend(silent(stage, run));
    wrong
}

/// Nodes that aren't what Git says, and of which `why` says nothing.
fn silent(stage: &Stage, run: &Run) -> Vec<String> {
    let commit = stage.last();
    let input = Input {
        fleet: &commit.fleet,
        commit: &commit.commit,
        inventory: run.world.inventory(),
        ledger: &run.ledger,
        now: run.world.now(),
    };
    let asked = input.inventory.nodes.keys().filter_map(|id| why(&input, id));
    let silent = asked.filter(|why| (!why.synced || why.step.is_some()) && why.waits_for.is_empty());
    silent.map(|why| format!("why {} says nothing ({:?})", why.node, why.step)).collect()
}

fn at_rest(stage: &Stage, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, word) in &run.summary.outcome {
        if word == "Unfinished" {
            wrong.push(format!("{id} never ended"));
        }
    }
    let commit = stage.last();
    let input = Input {
        fleet: &commit.fleet,
        commit: &commit.commit,
        inventory: run.world.inventory(),
        ledger: &run.ledger,
        now: run.world.now(),
    };
    let changes = plan(&input).plan.changes;
    if !changes.is_empty() {
        wrong.push(format!("planned again, something changes: {changes:?}"));
    }
    wrong
}

/// Plays a script once for each of its writes, and the reconciler dies before that one. Everything ends as without.
pub(crate) fn crash_everywhere(script: &Script, stage: &Stage, calm: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    for n in 1..=CRASHES_MAX {
        let run = stage.play(Some(n));
        let died = run.summary.timeline.iter().any(|line| line.text.contains("the reconciler dies"));
        if !died {
            return wrong;
        }
        let say = |what: String| format!("dead before write {n}: {what}");
        wrong.extend(judge(script, stage, &run).into_iter().map(say));
        let (a, b) = (&calm.summary, &run.summary);
        let same = a.outcome == b.outcome
            && a.nodes_on_target == b.nodes_on_target
            && a.nodes_on_previous == b.nodes_on_previous
            && a.nodes_quarantined == b.nodes_quarantined
            && a.exposed_nodes == b.exposed_nodes
            && a.drains == b.drains;
        if !same {
            let text = format!("{:?} with {} on target, {} drains", b.outcome, b.nodes_on_target, b.drains);
            wrong.push(say(text));
        }
        if wrong.len() > 10 {
            break;
        }
    }
    wrong.push("the run has too many writes to die at each, or went wrong too often".to_owned());
    wrong
}
