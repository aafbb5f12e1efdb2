//! Taking back a plan that was never written.

use drydock_plan::{Ledger, LedgerChange};

/// Makes `ahead` equal to `ledger` again where `changes` had touched it.
pub(super) fn undo(ahead: &mut Ledger, ledger: &Ledger, changes: &[LedgerChange]) {
    fn put<K: Ord + Clone, V: Clone>(
        ahead: &mut std::collections::BTreeMap<K, V>,
        ledger: &std::collections::BTreeMap<K, V>,
        key: &K,
    ) {
        match ledger.get(key) {
            Some(value) => ahead.insert(key.clone(), value.clone()),
            None => ahead.remove(key),
        };
    }
    for change in changes {
        match change {
            LedgerChange::Node(id, _) | LedgerChange::ForgetNode(id) => {
                put(&mut ahead.nodes, &ledger.nodes, id)
            }
            LedgerChange::Rollout(record) => put(&mut ahead.rollouts, &ledger.rollouts, &record.id),
            LedgerChange::ForgetRollout(id) => put(&mut ahead.rollouts, &ledger.rollouts, id),
            LedgerChange::Quarantine(pool, release, _) | LedgerChange::Release(pool, release) => {
                put(&mut ahead.quarantines, &ledger.quarantines, &(pool.clone(), release.clone()));
            }
            LedgerChange::Remember(id, _) => put(&mut ahead.releases, &ledger.releases, id),
            LedgerChange::Command(number, _) | LedgerChange::ForgetCommand(number) => {
                put(&mut ahead.commands, &ledger.commands, number);
            }
        }
    }
    ahead.revision = ledger.revision;
}
