//! `drydock status`.

use drydock_server::desired::SourceProblem;
use serde_json::{Value, json};

use crate::client::answers::{Cluster, Fleet, List, Pool, Rollout};
use crate::client::{Reader, Target, parse};
use crate::exit::{Exit, Result};
use crate::render::reason::{count, grouped};
use crate::render::rollout;
use crate::render::table::{Columns, Item};
use crate::render::time::When;
use crate::ui::Ui;

const EXAMPLES: &str = "Examples:
  drydock status                         the fleet, its pools, what is moving
  drydock status --nodes --pool h100-stage
  drydock status --server http://127.0.0.1:7411 --format json";

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// List nodes instead of pools.
    #[arg(long)]
    nodes: bool,
    /// Only this pool.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Show times in this zone, for example Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let reader = args.target.reader()?;
    if let Some(caveat) = reader.caveat() {
        ui.note(&caveat);
    }
    let answer = reader.get("/fleet")?;
    let fleet: Fleet = parse(&answer)?;
    if fleet.fleet.is_none() {
        ui.show(&answer, || without_fleet(&fleet))?;
        return Ok(Exit::Ok);
    }
    let [clusters, pools, rollouts] = ["/clusters", "/pools", "/rollouts"].map(|path| reader.get(path));
    let (clusters, pools, rollouts) = (clusters?, pools?, rollouts?);
    let nodes = if args.nodes { nodes(&reader, args.pool.as_deref())? } else { Vec::new() };
    let all = json!({"fleet": &answer, "clusters": &clusters, "pools": &pools, "rollouts": &rollouts, "nodes": &nodes});
    let (clusters, pools): (List<Cluster>, List<Pool>) = (parse(&clusters)?, parse(&pools)?);
    let rollouts: List<Rollout> = parse(&rollouts)?;
    let when = When::new(fleet.clock.at, args.zone.as_deref());
    let wanted = |pool: &&Pool| args.pool.as_ref().is_none_or(|name| pool.name.as_str() == name);
    let pools: Vec<&Pool> = pools.items.iter().filter(wanted).collect();
    ui.show(&all, || {
        let mut out = title(&fleet, &clusters.items, &when, ui);
        out.push(String::new());
        out.push(if args.nodes { node_table(&nodes, ui) } else { pool_table(&pools, ui) });
        let open: Vec<&Rollout> = rollouts.items.iter().filter(|r| !r.state_detail.is_final()).collect();
        out.push(String::new());
        for rollout in &open {
            out.push(rollout::title(rollout, &when, ui.paint));
            out.push(rollout::waves(rollout, &when, ui.paint, ui.width));
        }
        match (open.as_slice(), rollouts.items.first()) {
            ([], Some(last)) => {
                out.push(format!("nothing moves; last: {}", rollout::title(last, &when, ui.paint)))
            }
            ([], None) => out.push("nothing moves, and no rollout ever did".to_owned()),
            _ => {}
        }
        out.join("\n")
    })?;
    Ok(Exit::Ok)
}

/// No commit was ever in force.
fn without_fleet(fleet: &Fleet) -> String {
    let problem = fleet.source.problem_text.as_deref().unwrap_or("its repository hasn't been read yet");
    let hint = fleet.source.hint.as_ref().map_or(String::new(), |hint| format!("\n  help: {hint}"));
    format!("no fleet yet: {problem}{hint}")
}

fn title(fleet: &Fleet, clusters: &[Cluster], when: &When, ui: &Ui) -> Vec<String> {
    let mut out = Vec::new();
    let Some(view) = &fleet.fleet else { return out };
    let counts = &view.counts;
    let synced = counts.sync.get("Synced").copied().unwrap_or(0);
    out.push(format!(
        "{}   {}, {}   at {} \"{}\"",
        ui.paint.strong(&view.name),
        ui.paint.word(&view.sync),
        ui.paint.word(&view.health),
        view.commit.short(),
        view.commit.summary
    ));
    let advertised = match counts.gpus_advertised {
        Some(n) if n != counts.gpus => format!(", {} advertised", grouped(n.into())),
        Some(_) | None => String::new(),
    };
    out.push(format!(
        "  {} in {} and {}: {} run what Git says, {} of {} GPUs in service{advertised}",
        count(counts.nodes, "node"),
        count(view.clusters, "cluster"),
        count(view.pools, "pool"),
        synced,
        grouped(counts.gpus_in_service.into()),
        grouped(counts.gpus.into())
    ));
    let speed = match fleet.clock.speed {
        Some(1.0) => String::new(),
        Some(0.0) => ", standing still".to_owned(),
        Some(speed) => format!(", {speed}x"),
        None => ", as fast as it can".to_owned(),
    };
    out.push(format!("  clock {}{speed}", when.at(fleet.clock.at)));
    if view.clusters_not_fresh > 0 {
        for cluster in clusters.iter().filter(|cluster| cluster.freshness != "Fresh") {
            let seen =
                cluster.seen_at.map_or("never seen".to_owned(), |at| format!("seen {}", when.relative(at)));
            let error = cluster.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
            out.push(format!("  {} {} ({seen}{error})", cluster.name, ui.paint.word(&cluster.freshness)));
        }
    }
    // Where nothing runs, nothing reads the repository; that is said already.
    let unread = matches!(fleet.source.problem, Some(SourceProblem::NotReadYet {}));
    if let Some(problem) = fleet.source.problem_text.as_ref().filter(|_| !unread) {
        out.push(match &fleet.source.problem {
            // Nobody knows what is newest while nothing can be read: what is known is how old the last look is.
            Some(SourceProblem::Unreadable { .. }) => {
                let wall = When::new(fleet.clock.wall, None);
                let age = fleet.source.answered_at.map_or("it never answered".to_owned(), |at| {
                    format!("it last answered {}", wall.relative(at))
                });
                format!("  {problem}; {age}")
            }
            Some(
                SourceProblem::NotReadYet {}
                | SourceProblem::Rewritten { .. }
                | SourceProblem::Backwards { .. }
                | SourceProblem::Invalid { .. }
                | SourceProblem::Incomplete { .. }
                | SourceProblem::MassRemoval { .. },
            )
            | None => format!("  the newest commit isn't in force: {problem}"),
        });
        out.extend(fleet.source.hint.iter().map(|hint| format!("    help: {hint}")));
    }
    out.extend(fleet.trouble.iter().map(|trouble| format!("  the last pass wasn't carried out: {trouble}")));
    out.extend(fleet.violations.iter().map(|what| format!("  a plan broke a rule and was cut down: {what}")));
    out
}

fn pool_table(pools: &[&Pool], ui: &Ui) -> String {
    if pools.is_empty() {
        return "  no such pool".to_owned();
    }
    let head = ["pool", "cluster", "model", "nodes", "synced", "sync", "health", "moving"];
    let mut table = Columns::new(&head, ui.paint, ui.width.saturating_sub(2));
    for pool in pools {
        let steps: Vec<String> = pool.counts.steps.iter().map(|(step, n)| format!("{n} {step}")).collect();
        let fresh = pool.freshness == "Fresh";
        table.row(vec![
            pool.name.to_string().into(),
            pool.cluster.clone().into(),
            pool.model.clone().into(),
            Item::number(pool.counts.nodes),
            Item::number(pool.counts.sync.get("Synced").copied().unwrap_or(0)),
            Item::word(&pool.sync),
            Item::word(if fresh { &pool.health } else { &pool.freshness }),
            steps.join(", ").into(),
        ]);
    }
    table.finish("  ")
}

/// All pages of nodes.
fn nodes(reader: &Reader, pool: Option<&str>) -> Result<Vec<Value>> {
    let (mut all, mut after) = (Vec::new(), String::new());
    let filter = pool.map_or(String::new(), |pool| format!("&pool={pool}"));
    loop {
        let page: List<Value> = parse(&reader.get(&format!("/nodes?limit=500{filter}{after}"))?)?;
        all.extend(page.items.into_iter().filter(|node| pool.is_none_or(|pool| node["pool"] == pool)));
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(all),
        }
    }
}

fn node_table(nodes: &[Value], ui: &Ui) -> String {
    if nodes.is_empty() {
        return "  no such node".to_owned();
    }
    let head = ["node", "sync", "health", "step", "runs", "wanted"];
    let mut table = Columns::new(&head, ui.paint, ui.width.saturating_sub(2));
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    for node in nodes {
        table.row(vec![
            text(&node["id"]).into(),
            Item::word(&text(&node["sync"])),
            Item::word(&text(&node["health"])),
            text(&node["step"]).into(),
            text(&node["running"]).into(),
            text(&node["wanted"]["release"]).into(),
        ]);
    }
    table.finish("  ")
}
