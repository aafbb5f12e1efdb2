//! Bad releases, with first nodes to which something happens.

use std::collections::BTreeSet;

use drydock_plan::{NodeId, RolloutKind, RolloutRecord};
use drydock_sim::{Draw, FaultSpec, How, Place, Run};
use drydock_spec::{Amount, Glob, Period};

use super::stage::{self, NEXT};

/// Long enough for the way back of every wave, nights included.
const DAYS: u64 = 5;

/// How far a bad release got.
pub struct Exposure {
    pub seed: u64,
    pub kind: &'static str,
    pub first_node: &'static str,
    /// Nodes for which the version is bad and that were given it.
    pub nodes: usize,
    /// Nodes that were given it at all.
    pub given: usize,
    /// As many as may be: the largest batch that was open, and what the wave bears.
    pub bound: usize,
    /// Nodes that serve with it at the end though it is bad there.
    pub serving: usize,
    pub outcome: String,
    pub violations: Vec<String>,
}

impl Exposure {
    /// What is wrong with it.
    pub fn over(&self) -> Option<String> {
        let wrong = self.nodes > self.bound || self.serving > 0 || !self.violations.is_empty();
        let Self { seed, kind, first_node, nodes, given, bound, serving, outcome, violations } = self;
        wrong.then(|| {
            format!(
                "seed {seed}: {kind}, first node {first_node}: {nodes} exposed of {bound} ({given} given), {serving} serve with it, {outcome}, {violations:?}"
            )
        })
    }
}

/// Ways in which a release is bad that every suite of the example sees.
fn how(draw: Draw) -> (&'static str, How, Place) {
    let check = "driver".to_owned();
    let on = |model: &str| Place { model: Some(model.to_owned()), ..Place::default() };
    match draw.text("how").between(0, 11) {
        0 => ("ready and broken", How::ReadyButBroken { check }, Place::default()),
        1 => ("wedges", How::Wedges, Place::default()),
        2 => ("bricks", How::Bricks, Place::default()),
        3 => ("kills the node", How::LosesNode { back_after: None }, Place::default()),
        4 => ("hangs", How::Hangs, Place::default()),
        5 => ("hangs in a check", How::HangsInCheck { check }, Place::default()),
        6 => ("crash loop", How::CrashLoops, Place::default()),
        7 => ("fails halfway", How::FailsHalfway, Place::default()),
        8 => {
            let model = ["H100-80GB", "A100-40GB", "V100"].get(draw.text("model").between(0, 2) as usize);
            ("broken on one model", How::ReadyButBroken { check }, on(model.unwrap()))
        }
        9 => {
            let layout = ["shared-4", "a100-80-small-slices"].get(draw.text("layout").between(0, 1) as usize);
            let place = Place { layout: layout.unwrap().parse().ok(), ..Place::default() };
            ("broken on one layout", How::ReadyButBroken { check }, place)
        }
        10 => {
            let place = Place { kernel: Some(Glob::new("*-85-*")), ..Place::default() };
            ("broken on one kernel", How::ReadyButBroken { check }, place)
        }
        _ => {
            let percent = draw.text("slow").between(10, 60) as u32;
            ("slow", How::Slow { percent, check: "training".to_owned() }, Place::default())
        }
    }
}

/// What happens to the node that would be the first, and when.
fn trouble(draw: Draw, node: NodeId) -> (&'static str, Option<FaultSpec>) {
    let at = Period::from_mins(draw.text("at").between(0, 25)).after(stage::start());
    let length = draw.text("ends").chance(0.5).then(|| Period::from_mins(draw.text("for").between(10, 600)));
    match draw.text("trouble").between(0, 6) {
        0 => ("cordoned", Some(FaultSpec::ForeignCordon { node, at, length })),
        1 => ("lost", Some(FaultSpec::NodeLost { node, at, back_after: length })),
        2 => ("ill", Some(FaultSpec::HealthFault { node, at, kind: "xid-79".to_owned(), length })),
        3 => ("blocked", Some(FaultSpec::PdbBlocks { node, until: length.map(|l| l.after(at)) })),
        4 => ("deleted", Some(FaultSpec::NodeDeleted { node, at })),
        5 => (
            "flapping",
            Some(FaultSpec::Flaps {
                node,
                at,
                every: Period::from_mins(9),
                down: Period::from_mins(2),
                times: 30,
            }),
        ),
        _ => ("well", None),
    }
}

/// One bad release.
pub fn run(seed: u64) -> Exposure {
    let draw = Draw::new(seed).text("bad release");
    let (kind, how, place) = how(draw);
    let kills = matches!(how, How::LosesNode { .. });
    let wedges = matches!(how, How::Wedges | How::Bricks);
    let bad = FaultSpec::BadVersion {
        component: stage::driver(),
        version: stage::next(),
        place: place.clone(),
        how,
    };
    // The same draws without the trouble show who would be the first.
    let calm = stage::play(seed, vec![bad.clone()], 1);
    let first = first_given(&calm);
    let (first_node, trouble) = match first {
        Some(node) => trouble(draw, node),
        None => ("none", None),
    };
    let run = stage::play(seed, [bad].into_iter().chain(trouble).collect(), DAYS);
    let given = run.world.given(&stage::driver(), &stage::next(), stage::start());
    let nodes = given.iter().filter(|id| run.world.is_at(id, &place)).count();
    let serving = run.world.harms().iter().filter(|harm| harm.serves && harm.brought).count();
    let forward: Vec<&RolloutRecord> =
        run.ledger.rollouts.values().map(|r| &**r).filter(|r| r.kind == RolloutKind::Forward).collect();
    let outcome: BTreeSet<&str> = forward.iter().map(|r| r.state.word()).collect();
    let machines = run.world.machines().count();
    let first_goes = matches!(first_node, "lost" | "ill" | "deleted" | "flapping");
    let extra = Extra { everywhere: place == Place::default(), kills, wedges, first_goes };
    let mut violations = run.summary.invariant_violations.clone();
    violations.extend(run.summary.budget_violations.clone());
    violations.truncate(2);
    Exposure {
        seed,
        kind,
        first_node,
        nodes,
        given: given.len(),
        bound: forward.iter().map(|r| bound(r, machines, &extra)).max().unwrap_or(0),
        serving,
        outcome: outcome.into_iter().collect::<Vec<_>>().join(", "),
        violations,
    }
}

fn first_given(run: &Run) -> Option<NodeId> {
    let mut all: Vec<_> = run
        .world
        .machines()
        .filter_map(|(id, _)| {
            let applied = run.world.tally(id)?.applied.iter();
            let at = applied.filter(|a| a.version.as_str() == NEXT).map(|a| a.at).min()?;
            Some((at, id.clone()))
        })
        .collect();
    all.sort();
    all.into_iter().next().map(|(_, id)| id)
}

/// What may come on top of a batch, for reasons of the release and of the first node.
struct Extra {
    /// It is bad wherever it comes, so nobody passes.
    everywhere: bool,
    /// It takes nodes with it.
    kills: bool,
    /// Nodes fail on the old release as well afterwards.
    wedges: bool,
    /// The first node was given the version and then went or fell ill for reasons of its own, so another one is drawn.
    first_goes: bool,
}

/// What a rollout may expose, from the document. Where no node passes, that is the first batch of its first wave, and one
/// more for every failure that the wave bears: lost nodes, and nodes that are blamed themselves, of which the second
/// stops a wave. Where it is bad in some places only, batches may have grown before they met one.
fn bound(rollout: &RolloutRecord, nodes: usize, extra: &Extra) -> usize {
    let passed =
        |n: usize| !extra.everywhere && rollout.waves.get(n).is_some_and(|wave| wave.ended.is_some());
    let open = (0..rollout.waves.len()).find(|n| !passed(*n)).unwrap_or(0);
    let Some(wave) = rollout.strategy.waves.get(open) else { return 0 };
    let count = |amount: Amount| match amount {
        Amount::Count(n) => n as usize,
        Amount::Percent(_) => amount.ceil_of(nodes as u32) as usize,
    };
    let start = count(wave.batch.start);
    let batch = if extra.everywhere { start } else { wave.batch.max.map_or(start, count) };
    let lost = if extra.kills { wave.failure.lost as usize } else { 0 };
    batch + wave.failure.tolerate as usize + lost + usize::from(extra.wedges) + usize::from(extra.first_goes)
}
