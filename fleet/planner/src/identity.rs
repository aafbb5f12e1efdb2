//! What is behind a name: which machine, of which pool, and whether a cordon of drydock's is explained by what the ledger
//! knows.

use drydock_plan::{NodeRecord, Place, Reason, RolloutEvent};
use drydock_spec::DomainKey;
use jiff::Timestamp;

use crate::pass::Pass;

impl Pass<'_> {
    /// Looks at who is there before anything is decided about them.
    pub(crate) fn identify(&mut self) {
        for i in 0..self.frame.nodes.len() {
            let node = self.frame.nodes[i];
            if !node.seen || self.frame.stale(i).is_some() {
                continue;
            }
            if self.is_replaced(i) {
                self.begin_anew(i);
            }
            if !node.obs.contested.is_empty() {
                let stays = node.pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.name.clone());
                self.wait(i, Reason::TwoPools { pools: node.obs.contested.clone(), stays });
            }
            if self.is_unexplained(i) {
                self.wait(i, Reason::UnexplainedCordon {});
            }
        }
    }

    /// Another machine has the name now.
    fn is_replaced(&self, i: usize) -> bool {
        let node = &self.frame.nodes[i];
        let known = node.rec.place.as_ref().map_or("", |place| place.uid.as_str());
        !known.is_empty() && !node.obs.uid.is_empty() && *known != *node.obs.uid
    }

    /// A new machine has no past: what its predecessor was good on, had failed or was kept away for says nothing about it.
    /// The numbers of reservations and intents go on, so that nothing that was asked of the old one counts for it.
    fn begin_anew(&mut self, i: usize) {
        let node = self.frame.nodes[i];
        let part = self.rec(i).assignment.as_ref().filter(|a| a.outcome.is_none()).map(|a| a.rollout.clone());
        if let Some(rollout) = part {
            let why = "another machine has its name now".to_owned();
            self.log(&rollout, RolloutEvent::Skipped { node: node.id.clone(), why });
        }
        self.forget_carriers();
        self.forget_roster();
        let place = self.place(i, None, Some(self.now()));
        let record = self.intend(i);
        *record = NodeRecord {
            generation: record.generation,
            epoch: record.epoch,
            released: record.epoch,
            place: Some(place),
            ..NodeRecord::default()
        };
    }

    /// It carries drydock's cordon, and no record says why, nor that its visit ended well: the record may be lost, and the
    /// node half changed. Only a check lets it serve again.
    pub(crate) fn is_unexplained(&self, i: usize) -> bool {
        let record = self.rec(i);
        let own = self.frame.nodes[i].obs.cordon.own;
        record.visit.is_none()
            && record.quarantine.is_none()
            && own.is_some_and(|epoch| epoch > record.released)
    }

    /// What happened before this instant happened to another machine of the name.
    pub(crate) fn is_same_machine(&self, i: usize, then: Timestamp) -> bool {
        let since = self.rec(i).place.as_ref().and_then(|place| place.since);
        since.is_none_or(|since| then >= since)
    }

    /// Where a node stands, for its record.
    pub(crate) fn place(&self, i: usize, before: Option<&Place>, since: Option<Timestamp>) -> Place {
        let node = &self.frame.nodes[i];
        let domain = |key| Some((key, self.frame.domain(i, key)?.name.to_owned()));
        Place {
            uid: node.obs.uid.to_string(),
            since: since.or_else(|| before.and_then(|b| b.since)),
            pool: node.pool.and_then(|p| self.frame.pools.get(p)).map(|p| p.name.clone()),
            gpus: node.gpus,
            domains: DomainKey::ALL.into_iter().filter_map(domain).collect(),
        }
    }

    /// A record that is written says where its node stands, as far as that is known.
    pub(crate) fn note_places(&mut self) {
        for i in 0..self.frame.nodes.len() {
            let node = self.frame.nodes[i];
            if !node.seen || node.pool.is_none() || node.contested || !self.is_edited(i) {
                continue;
            }
            let before = self.rec(i).place.clone();
            let place = self.place(i, before.as_ref(), None);
            if before.as_ref() != Some(&place) {
                self.edit(i).place = Some(place);
            }
        }
    }
}
