//! The form of a script.

use std::collections::BTreeMap;

use drydock_sim::{FaultSpec, WorldOptions};
use drydock_spec::{GatePoint, Period};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{edits::Edits, expect::Expect};

/// One script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Script {
    /// Name of a file in `fleets/`.
    pub fleet: String,
    /// Changes of its documents before anything happens.
    #[serde(default)]
    pub set: Edits,
    /// First instant; Monday 2026-03-02 09:00 UTC where absent.
    #[serde(default)]
    pub start: Option<Timestamp>,
    #[serde(default = "one")]
    pub seed: u64,
    /// Options of the simulated fleet.
    #[serde(default)]
    pub world: Option<Value>,
    /// What goes wrong; an instant may be written as `+10m` after the start.
    #[serde(default)]
    pub faults: Value,
    /// What is committed, on top of what was committed before.
    #[serde(default)]
    pub commits: Vec<CommitStep>,
    /// What people say.
    #[serde(default)]
    pub commands: Vec<CommandStep>,
    /// The run ends here; without it, when nothing moves any more.
    #[serde(default)]
    pub until: Option<Period>,
    /// The output tells the steps of single nodes.
    #[serde(default)]
    pub node_lines: bool,
    /// It is played again and again, and the reconciler dies before another write each time.
    #[serde(default)]
    pub crash_at_every_write: bool,
    pub expect: Expect,
}

fn one() -> u64 {
    1
}

/// A commit.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommitStep {
    pub at: Period,
    pub message: String,
    #[serde(default)]
    pub set: Edits,
    /// The documents are refused with this text, so what was in force stays in force.
    #[serde(default)]
    pub refused: Option<String>,
}

/// What a person says: one of the words below `reason`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommandStep {
    pub at: Period,
    #[serde(default = "somebody")]
    pub by: String,
    pub reason: String,
    #[serde(flatten)]
    pub what: Word,
}

fn somebody() -> String {
    "operator".to_owned()
}

/// Words of people.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Word {
    Pause(String),
    Resume(String),
    Abort(String),
    Skip(String),
    /// The release of this name as it is in the documents at that time.
    RetryRelease(String),
    RetryNode(String),
    Approve {
        rollout: String,
        wave: String,
        #[serde(default)]
        gate: GatePoint,
        team: String,
    },
}

impl Script {
    /// Reads a script.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut value: Value = serde_yaml::from_str(text).map_err(|e| format!("not YAML: {e}"))?;
        let start = value.get("start").and_then(Value::as_str).map(str::parse).transpose();
        let start = start.map_err(|e| format!("start: {e}"))?.unwrap_or(WorldOptions::default().start);
        // Expectations hold texts in which a plus sign is a plus sign.
        if let Value::Object(map) = &mut value {
            map.iter_mut().filter(|(key, _)| *key != "expect").for_each(|(_, part)| instants(part, start));
        }
        serde_json::from_value(value).map_err(|e| e.to_string())
    }
    pub(crate) fn begin(&self) -> Timestamp {
        self.start.unwrap_or(WorldOptions::default().start)
    }
    /// Options of the world, with seed, start and faults.
    pub(crate) fn options(&self) -> Result<WorldOptions, String> {
        let world = self.world.clone().unwrap_or(Value::Object(serde_json::Map::new()));
        let options: WorldOptions = serde_json::from_value(world).map_err(|e| format!("world: {e}"))?;
        let faults: Option<Vec<FaultSpec>> =
            serde_json::from_value(self.faults.clone()).map_err(|e| format!("faults: {e}"))?;
        let faults = faults.unwrap_or_default();
        Ok(WorldOptions { seed: self.seed, start: self.begin(), faults, ..options })
    }
}

/// Turns every `+10m` into an instant.
fn instants(value: &mut Value, start: Timestamp) {
    match value {
        Value::String(text) => {
            if let Some(after) = text.strip_prefix('+').and_then(|rest| rest.parse::<Period>().ok()) {
                *text = after.after(start).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| instants(item, start)),
        Value::Object(map) => map.values_mut().for_each(|item| instants(item, start)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Words by which something is looked up.
pub(crate) type Words = BTreeMap<String, String>;
