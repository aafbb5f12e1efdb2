//! `drydock approve`, `pause`, `resume`, `abort`, `retry` and `skip`: what people say to a running drydock. The same
//! can be said in Git with a `RolloutControl`.

use serde_json::{Value, json};

use crate::client::Target;
use crate::exit::{Exit, Result};
use crate::ui::Ui;

const APPROVE: &str = "Examples:
  drydock approve stage-driver-580.105.08 dev --team gpu-sre --before
  drydock approve stage-driver-580.105.08 lab --team platform";
const ROLLOUT: &str = "Examples:
  drydock pause stage-driver-580.105.08 --reason \"Demo for the board until noon\"
  drydock resume stage-driver-580.105.08";
const ABORT: &str = "Examples:
  drydock abort stage-driver-580.105.08 --reason \"The vendor withdrew it\"";
const RETRY: &str = "Examples:
  drydock retry r-7c41e0a2 --reason \"Firmware of the boards was updated\"
  drydock retry c12-stage/h100-stage-003 --reason \"Board was replaced\"";
const SKIP: &str = "Examples:
  drydock skip c08-research/h100-research-007 --reason \"Benchmark until Friday\"";

/// Who says it, and to whom.
#[derive(Debug, clap::Args)]
struct Speaker {
    /// Who says so, for the history.
    #[arg(long, value_name = "NAME", env = "USER", default_value = "somebody", hide_env_values = true)]
    by: String,
    #[command(flatten)]
    target: Target,
}

/// What is typed after `approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = APPROVE)]
pub(crate) struct ApproveArgs {
    /// The rollout.
    rollout: String,
    /// The wave.
    wave: String,
    /// The team that agrees.
    #[arg(long)]
    team: String,
    /// Before the wave starts, not after it has soaked.
    #[arg(long)]
    before: bool,
    /// Why, for the history.
    #[arg(long, default_value = "approved")]
    reason: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// What is typed after `pause` and `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = ROLLOUT)]
pub(crate) struct RolloutArgs {
    /// The rollout.
    rollout: String,
    /// Why, for the history.
    #[arg(long, default_value = "no reason given")]
    reason: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// What is typed after `abort`.
#[derive(Debug, clap::Args)]
#[command(after_help = ABORT)]
pub(crate) struct AbortArgs {
    /// The rollout.
    rollout: String,
    /// Why, for the history.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// What is typed after `retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = RETRY)]
pub(crate) struct RetryArgs {
    /// A release that failed or was aborted (r-…), or a node (cluster/node).
    what: String,
    /// The release on this pool only.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Why it should work now.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// What is typed after `skip`.
#[derive(Debug, clap::Args)]
#[command(after_help = SKIP)]
pub(crate) struct SkipArgs {
    /// The node, as cluster/node.
    node: String,
    /// Why, for the history.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// `approve`.
pub(crate) fn approve(args: ApproveArgs, ui: &Ui) -> Result {
    let ApproveArgs { rollout, wave, team, before, reason, speaker } = args;
    let gate = if before { "before" } else { "after" };
    let body = json!({"action": "approve", "rollout": rollout, "wave": wave, "gate": gate, "team": team});
    say(&speaker, &reason, body, &format!("{team} agrees to wave {wave} of {rollout}"), ui)
}

/// `pause`.
pub(crate) fn pause(args: RolloutArgs, ui: &Ui) -> Result {
    let RolloutArgs { rollout, reason, speaker } = args;
    let done = format!("{rollout} takes no more nodes; what is out finishes");
    say(&speaker, &reason, json!({"action": "pause", "rollout": rollout}), &done, ui)
}

/// `resume`.
pub(crate) fn resume(args: RolloutArgs, ui: &Ui) -> Result {
    let RolloutArgs { rollout, reason, speaker } = args;
    let done = format!("{rollout} goes on");
    say(&speaker, &reason, json!({"action": "resume", "rollout": rollout}), &done, ui)
}

/// `abort`.
pub(crate) fn abort(args: AbortArgs, ui: &Ui) -> Result {
    let AbortArgs { rollout, reason, speaker } = args;
    let done = format!("{rollout} ends: untouched nodes are returned, the others finish");
    say(&speaker, &reason, json!({"action": "abort", "rollout": rollout}), &done, ui)
}

/// `retry`.
pub(crate) fn retry(args: RetryArgs, ui: &Ui) -> Result {
    let RetryArgs { what, pool, reason, speaker } = args;
    let done = format!("{what} is tried again");
    let mut body = json!({"action": "retry", "what": what});
    if let Some(pool) = pool {
        body["pool"] = json!(pool);
    }
    say(&speaker, &reason, body, &done, ui)
}

/// `skip`.
pub(crate) fn skip(args: SkipArgs, ui: &Ui) -> Result {
    let SkipArgs { node, reason, speaker } = args;
    let done = format!("{node} is left out");
    say(&speaker, &reason, json!({"action": "skip", "node": node}), &done, ui)
}

fn say(speaker: &Speaker, reason: &str, mut body: Value, done: &str, ui: &Ui) -> Result {
    let by = speaker.by.trim();
    body["by"] = json!(if by.is_empty() { "somebody" } else { by });
    body["reason"] = json!(reason);
    let answer = speaker.target.reader()?.command(&body)?;
    ui.show(&answer, || {
        let number = answer.get("number").and_then(Value::as_u64).unwrap_or(0);
        // What comes of it is the server's to say: it knows what is there.
        let note = answer.get("note").and_then(Value::as_str).filter(|note| !note.is_empty()).unwrap_or(done);
        format!("{note}\n  recorded as command {number}, takes effect within seconds (drydock history)")
    })?;
    Ok(Exit::Ok)
}
