//! What drydock acts on, as the engine sees it: simulated clusters or real ones.

use std::sync::Arc;

use drydock_plan::{Action, Inventory};
use drydock_spec::Fleet;
use jiff::Timestamp;

/// Something about the world went wrong.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// An action wasn't taken. It comes again with the next pass.
    #[error("{0}")]
    Refused(String),
    /// What was observed couldn't be made durable.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The world can't be made from this fleet.
    #[error("the simulated fleet can't be made: {0}")]
    Unfit(String),
}

/// What drydock acts on. Calls may block; they run on a thread of their own.
pub trait World: Send + 'static {
    /// Its clock. Only [`World::advance`] moves it.
    fn now(&self) -> Timestamp;
    /// The next instant at which something happens that a pass would want to know of; `None` when nothing is planned.
    fn next_event(&self) -> Option<Timestamp>;
    /// Lets time pass: everything up to `to` happens, in order, nothing is left out.
    fn advance(&mut self, to: Timestamp);
    /// Whether everything that can be observed has been, since this process began. Until then no pass is made: nodes
    /// that just haven't been listed yet would look like nodes that don't exist.
    fn is_complete(&self) -> bool {
        true
    }
    /// What can be observed, with pools assigned by the fleet in force.
    fn inventory(&self) -> &Inventory;
    /// Asks for something to be made true.
    ///
    /// # Errors
    /// [`WorldError::Refused`] when it didn't arrive; others go on.
    fn execute(&mut self, action: &Action) -> Result<(), WorldError>;
    /// The pass is over: what it has asked for since the last call is everything that is wanted now.
    fn asked_everything(&mut self) {}
    /// Another fleet is in force: pools are assigned anew.
    ///
    /// # Errors
    /// When nothing can be made of it.
    fn follow(&mut self, fleet: &Arc<Fleet>) -> Result<(), WorldError>;
    /// Makes durable what [`World::inventory`] has shown. Called before every commit that is based on it.
    ///
    /// # Errors
    /// When it can't be written; the commit isn't made then.
    fn save(&mut self) -> Result<(), WorldError>;
}
