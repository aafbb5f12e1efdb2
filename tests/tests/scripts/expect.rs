//! What a script asserts of its own.

use std::collections::BTreeMap;

use drydock_plan::NodeId;
use drydock_sim::Run;
use drydock_spec::Period;
use serde::Deserialize;

use crate::{golden, play::Stage, script::Words};

/// Assertions; what isn't given isn't asserted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expect {
    /// Last state of every rollout, by id: all of them, no others.
    pub outcome: Words,
    /// Nodes that run what the last commit says.
    #[serde(default)]
    pub on_target: Option<u32>,
    /// Nodes that run what they ran at first, where that is something else.
    #[serde(default)]
    pub on_previous: Option<u32>,
    #[serde(default)]
    pub quarantined: Option<u32>,
    /// Nodes that were ever given a release that was halted.
    #[serde(default)]
    pub exposed: Option<u32>,
    /// Most times one node was emptied.
    #[serde(default)]
    pub drains: Option<u32>,
    /// Most nodes in flight at once, exactly.
    #[serde(default)]
    pub max_in_flight: Option<u32>,
    /// The first bad version was blamed within this time of its first application.
    #[serde(default)]
    pub detected_within: Option<Period>,
    /// The whole run took no longer.
    #[serde(default)]
    pub finished_within: Option<Period>,
    /// The whole run took at least this.
    #[serde(default)]
    pub finished_after: Option<Period>,
    /// Jobs that lost more than five minutes of work.
    #[serde(default)]
    pub gangs_cut: Option<u32>,
    /// Jobs that were interrupted right after a checkpoint.
    #[serde(default)]
    pub gangs_moved: Option<u32>,
    /// Texts of the output.
    #[serde(default)]
    pub says: Vec<String>,
    /// In this order.
    #[serde(default)]
    pub says_in_order: Vec<String>,
    #[serde(default)]
    pub never_says: Vec<String>,
    /// Kinds of reasons that held something back at some time.
    #[serde(default)]
    pub waited_for: Vec<String>,
    #[serde(default)]
    pub never_waited_for: Vec<String>,
    /// Parts of what the last pass still waits for.
    #[serde(default)]
    pub waits_at_end: Vec<String>,
    /// Single nodes at the end.
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeExpect>,
}

/// One node at the end.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeExpect {
    /// Versions of components.
    #[serde(default)]
    runs: Words,
    /// `own`, `foreign`, `both` or `none`.
    #[serde(default)]
    cordon: Option<String>,
    #[serde(default)]
    quarantined: Option<bool>,
    /// False: the node doesn't exist.
    #[serde(default = "yes")]
    exists: bool,
}

fn yes() -> bool {
    true
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, wanted: Option<&T>, found: &T) -> Option<String> {
    wanted.filter(|wanted| *wanted != found).map(|wanted| format!("{what}: {found:?}, expected {wanted:?}"))
}

/// What isn't as expected.
pub(crate) fn judge(expect: &Expect, stage: &Stage, run: &Run, output: &str) -> Vec<String> {
    let summary = &run.summary;
    let mut wrong = Vec::new();
    wrong.extend(differ("outcome", Some(&expect.outcome), &summary.outcome));
    wrong.extend(differ("onTarget", expect.on_target.as_ref(), &summary.nodes_on_target));
    wrong.extend(differ("onPrevious", expect.on_previous.as_ref(), &summary.nodes_on_previous));
    wrong.extend(differ("quarantined", expect.quarantined.as_ref(), &summary.nodes_quarantined));
    wrong.extend(differ("exposed", expect.exposed.as_ref(), &summary.exposed_nodes));
    wrong.extend(differ("drains", expect.drains.as_ref(), &summary.drains));
    wrong.extend(differ("maxInFlight", expect.max_in_flight.as_ref(), &summary.max_in_flight));
    wrong.extend(differ("gangsCut", expect.gangs_cut.as_ref(), &summary.gang_interruptions.cut));
    wrong.extend(differ("gangsMoved", expect.gangs_moved.as_ref(), &summary.gang_interruptions.moved));
    let took = stage.elapsed(run);
    if expect.finished_within.is_some_and(|most| took > most)
        || expect.finished_after.is_some_and(|least| took < least)
    {
        wrong.push(format!("the run took {took}"));
    }
    if let Some(most) = expect.detected_within {
        match summary.detections.first() {
            Some(found) if Period::from_secs(found.seconds) <= most => {}
            Some(found) => wrong.push(format!("detected after {}", Period::from_secs(found.seconds))),
            None => wrong.push("no bad version was blamed".to_owned()),
        }
    }
    wrong.extend(texts(expect, output));
    let waited = |word: &&String| summary.reasons.contains_key(word.as_str());
    wrong.extend(expect.waited_for.iter().filter(|w| !waited(w)).map(|w| format!("never waited for {w}")));
    wrong.extend(expect.never_waited_for.iter().filter(waited).map(|w| format!("waited for {w}")));
    let waits = golden::waits(run);
    let at_end = |part: &&String| waits.iter().any(|line| line.contains(part.as_str()));
    wrong.extend(
        expect.waits_at_end.iter().filter(|p| !at_end(p)).map(|p| format!("doesn't wait at the end for {p}")),
    );
    wrong.extend(expect.nodes.iter().flat_map(|(id, node)| judge_node(id, node, run)));
    wrong
}

fn texts(expect: &Expect, output: &str) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    let says = |text: &&String| output.contains(text.as_str());
    wrong.extend(expect.says.iter().filter(|t| !says(t)).map(|t| format!("doesn't say: {t}")));
    wrong.extend(expect.never_says.iter().filter(says).map(|t| format!("says: {t}")));
    let mut rest = output;
    for text in &expect.says_in_order {
        match rest.split_once(text.as_str()) {
            Some((_, after)) => rest = after,
            None => {
                wrong.push(format!("doesn't say in this place: {text}"));
                break;
            }
        }
    }
    wrong
}

fn judge_node(id: &str, expect: &NodeExpect, run: &Run) -> Vec<String> {
    let key = NodeId::new(id);
    let Some(node) = run.world.inventory().nodes.get(&key) else {
        return if expect.exists { vec![format!("{id} doesn't exist")] } else { Vec::new() };
    };
    let mut wrong = Vec::new();
    if !expect.exists {
        wrong.push(format!("{id} exists"));
    }
    for (component, version) in &expect.runs {
        let runs = node.running.vector.0.iter().find(|(name, _)| name.as_str() == component);
        let runs = runs.map_or("nothing", |(_, v)| v.version.as_str());
        wrong.extend((runs != version).then(|| format!("{id} runs {component} {runs}, expected {version}")));
    }
    let cordon = match (node.cordon.own.is_some(), node.cordon.foreign.is_some()) {
        (true, true) => "both",
        (true, false) => "own",
        (false, true) => "foreign",
        (false, false) => "none",
    };
    wrong.extend(differ(&format!("{id} cordon"), expect.cordon.as_ref(), &cordon.to_owned()));
    let quarantined = run.ledger.nodes.get(&key).is_some_and(|record| record.quarantine.is_some());
    wrong.extend(differ(&format!("{id} quarantined"), expect.quarantined.as_ref(), &quarantined));
    wrong
}
