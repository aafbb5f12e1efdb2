//! I12: a release reaches at most the completed batches and the open one.

use std::collections::{BTreeMap, BTreeSet};

use drydock_plan::{Course, NodeId, NodeRecord, RolloutRecord, UnitId, WaveRecord, WaveState};
use drydock_spec::Gangs;

use super::{
    facts::Domain,
    findings::Findings,
    view::{AnyNode, Fresh, View},
};

const EXPOSURE: &str = "I12 exposure";

/// What is counted for the wave of one rollout.
struct Batch<'a> {
    rollout: &'a RolloutRecord,
    wave: &'a WaveRecord,
    units: BTreeSet<&'a UnitId>,
    /// Those of them that enter with this plan, and how many the record says have entered with it.
    entering: BTreeSet<&'a UnitId>,
    counted: u32,
    /// Units that entered the open batch and are back already, as far as they can still be told apart.
    back: BTreeSet<Domain<'a>>,
    /// A node of an earlier batch that is still being changed.
    unsettled: Option<&'a NodeId>,
}

/// Counts of the open batches that a new reservation belongs to.
pub(super) struct Batches<'a> {
    view: &'a View<'a>,
    open: Vec<((&'a str, u16), Batch<'a>)>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let mut open: BTreeMap<(&str, u16), Batch<'a>> = BTreeMap::new();
        for fresh in view.fresh.iter().filter(|f| !f.urgent) {
            let Some((rollout, index, wave)) = wave_of(fresh) else { continue };
            let batch = open.entry((rollout.id.as_str(), index)).or_insert_with(|| Batch {
                rollout,
                wave,
                units: BTreeSet::new(),
                entering: BTreeSet::new(),
                counted: counted(view, rollout, index, wave),
                back: BTreeSet::new(),
                unsettled: None,
            });
            batch.entering.insert(&fresh.visit.unit);
        }
        Self { view, open: open.into_iter().collect() }
    }

    /// Nobody gets a release outside a batch, whatever the node was reserved for before: a change of mind doesn't carry
    /// it past those who try it first.
    pub(super) fn first_given(view: &View<'_>, found: &mut Findings) {
        for change in &view.changed {
            let given = |r: &NodeRecord| r.assignment.as_ref().is_some_and(|a| a.exposed.is_some());
            let Some(after) = change.after.filter(|r| given(r)) else { continue };
            let Some(part) = &after.assignment else { continue };
            let same = |r: &NodeRecord| r.assignment.as_ref().is_some_and(|a| a.rollout == part.rollout);
            let new = change.before.is_some_and(|r| same(r) && !given(r));
            found.when(new && part.batch.is_none(), EXPOSURE, || {
                format!("{} is given the release of {} outside any batch", change.id, part.rollout)
            });
        }
    }

    pub(super) fn add(&mut self, node: AnyNode<'a>) {
        let Some(record) = node.record else { return };
        let Some(assignment) = &record.assignment else { return };
        let Some(number) = assignment.batch else { return };
        let key = (assignment.rollout.as_str(), assignment.wave);
        let Some((_, batch)) = self.open.iter_mut().find(|(open, _)| *open == key) else { return };
        let visit = record.visit.as_ref().filter(|v| v.rollout == assignment.rollout);
        if number == batch.wave.batch {
            match visit {
                Some(visit) => {
                    batch.units.insert(&visit.unit);
                }
                None if record.soak.is_some() || assignment.outcome.is_some() => {
                    batch.back.insert(unit_when_back(batch.rollout, node));
                }
                None => {}
            }
        } else if number < batch.wave.batch {
            let changing =
                visit.is_some_and(|v| !matches!(v.course, Course::Out(_)) && v.lost_since.is_none());
            // Nothing is learnt from a cluster that is silent for longer than a lost node is waited for.
            let seen = self
                .view
                .input
                .inventory
                .clusters
                .iter()
                .find(|(name, _)| name.as_str() == node.id.cluster());
            let lost_after = batch.rollout.strategy.lost_after;
            let silent = seen.is_none_or(|(_, c)| lost_after.after(c.seen_at) <= self.view.input.now);
            if changing && !silent {
                batch.unsettled = Some(node.id);
            }
        }
    }

    pub(super) fn judge(&self, view: &View<'_>, found: &mut Findings) {
        for fresh in view.fresh.iter().filter(|f| !f.urgent) {
            in_its_turn(fresh, found);
        }
        for (_, batch) in &self.open {
            let (id, wave) = (&batch.rollout.id, batch.wave);
            let (away, back) = (batch.units.len(), batch.back.len());
            // A unit of several nodes may be back in part, so what is back may belong to what is away.
            let strategy = &batch.rollout.strategy;
            let several = strategy.drain.gangs == Gangs::Together || !strategy.atomic.is_empty();
            let units = if several { away.max(back) } else { away + back };
            found.when(units > wave.batch_size as usize, EXPOSURE, || {
                format!(
                    "{units} units in batch {} of wave {} of {id}, size {}",
                    wave.batch, wave.name, wave.batch_size
                )
            });
            let size = (wave.in_batch, wave.batch_size);
            found.when(size.0 > size.1 || batch.entering.len() > batch.counted as usize, EXPOSURE, || {
                let entering = batch.entering.len();
                format!(
                    "{entering} units enter a batch of {id} that counts {} of {} with them",
                    size.0, size.1
                )
            });
            if let Some(node) = batch.unsettled {
                found.add(EXPOSURE, || {
                    format!(
                        "batch {} of wave {} of {id} fills while {node} isn't settled",
                        wave.batch, wave.name
                    )
                });
            }
        }
    }
}

fn wave_of<'a>(fresh: &Fresh<'a>) -> Option<(&'a RolloutRecord, u16, &'a WaveRecord)> {
    let (rollout, assignment) = (fresh.rollout?, fresh.record.assignment.as_ref()?);
    Some((rollout, assignment.wave, rollout.waves.get(usize::from(assignment.wave))?))
}

/// Units that entered the batch with this plan, as the record has it.
fn counted(view: &View<'_>, rollout: &RolloutRecord, index: u16, wave: &WaveRecord) -> u32 {
    let before = view.input.ledger.rollouts.get(&rollout.id).and_then(|r| r.waves.get(usize::from(index)));
    let had = before.filter(|b| b.batch == wave.batch).map_or(0, |b| b.in_batch);
    wave.in_batch.saturating_sub(had)
}

/// Which unit a node that is back belonged to. Its visit is gone: of an atomic unit the domain tells, a gang may have
/// been any set of nodes, so all of them count as one at least.
fn unit_when_back<'a>(rollout: &RolloutRecord, node: AnyNode<'a>) -> Domain<'a> {
    if rollout.strategy.drain.gangs == Gangs::Together {
        return Domain::new("", "");
    }
    let domain = rollout.strategy.atomic.iter().find_map(|key| Domain::of(&node, *key));
    domain.unwrap_or_else(|| Domain::new("", node.id.as_str()))
}

/// The wave is the one that runs, those before it are over, and the batch is the open one.
fn in_its_turn(fresh: &Fresh<'_>, found: &mut Findings) {
    let (id, Some(rollout)) = (fresh.id, fresh.rollout) else { return };
    // Without an assignment it is reported with the ledger.
    let Some(assignment) = &fresh.record.assignment else { return };
    let index = usize::from(assignment.wave);
    let Some(wave) = rollout.waves.get(index) else {
        return found.add(EXPOSURE, || {
            format!("{id} is reserved in wave {index} of {}, which has {}", rollout.id, rollout.waves.len())
        });
    };
    found.when(wave.state != WaveState::Running, EXPOSURE, || {
        format!("{id} is reserved and wave {} of {} is {:?}", wave.name, rollout.id, wave.state)
    });
    let over = |w: &&WaveRecord| matches!(w.state, WaveState::Complete | WaveState::Skipped);
    let pending = rollout.waves.iter().take(index).find(|w| !over(w));
    found.when(pending.is_some(), EXPOSURE, || {
        let before = pending.map_or("?", |w| w.name.as_str());
        format!("{id} is reserved in wave {} of {} before {before} is complete", wave.name, rollout.id)
    });
    found.when(assignment.batch != Some(wave.batch) || wave.batch == 0, EXPOSURE, || {
        format!(
            "{id} is reserved in batch {:?}, batch {} of {} is open",
            assignment.batch, wave.batch, rollout.id
        )
    });
}
