//! What the engine publishes, on its way to the clusters' custom resources.

use std::sync::Arc;

use drydock_cluster::client::Caller;
use drydock_cluster::clusters::Callers;
use drydock_cluster::publish::{self, Publisher, Words};
use drydock_plan::Reason;
use tokio::sync::watch;

use crate::view::{Facts, Snapshot};

/// Hands every new state to the publisher until nobody publishes any more.
pub(super) async fn run(
    home: Caller,
    namespace: String,
    callers: Callers,
    mut published: watch::Receiver<Arc<Snapshot>>,
) {
    let callers: publish::Callers = Arc::new(move |cluster| callers.get(cluster));
    let words: Words = Arc::new(words);
    let publisher = Publisher::new(home, namespace, callers, words);
    let handed = publisher.clone();
    let feed = async move {
        let mut last: Option<Arc<Facts>> = None;
        loop {
            let facts = published.borrow_and_update().facts.clone();
            if let Some(facts) = facts
                && !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &facts))
            {
                handed.submit(publish::Facts {
                    now: facts.now,
                    ledger: Arc::clone(&facts.ledger),
                    inventory: Arc::clone(&facts.inventory),
                    report: Arc::clone(&facts.report),
                });
                last = Some(facts);
            }
            if published.changed().await.is_err() {
                return;
            }
        }
    };
    publisher.run(feed).await;
}

/// A reason for an object: short, and the same as long as the reason is. "In 4 minutes" would be another text, and
/// another request, with every look.
fn words(reason: &Reason) -> String {
    let mut text = String::new();
    for letter in reason.word().chars() {
        if letter.is_ascii_uppercase() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    match reason.until() {
        Some(until) => format!("{text} until {}", until.strftime("%Y-%m-%d %H:%M UTC")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn reasons_are_short_and_hold_still() {
        let until = Timestamp::constant(1_800_000_000, 0);
        assert_eq!(words(&Reason::Cooldown { until }), "cooldown until 2027-01-15 08:00 UTC");
        assert_eq!(words(&Reason::InventoryOlderThanPlan {}), "inventory older than plan");
    }
}
