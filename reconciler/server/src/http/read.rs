//! Reading the published state. Everything is paged or bounded on this side; there is no "load all".

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State, rejection::PathRejection, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use drydock_plan::{NodeId, PlanReport, RolloutId};
use drydock_spec::Diagnostic;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Api, ApiError};
use crate::clock::wall;
use crate::desired::SourceView;
use crate::metrics;
use crate::store::Event;
use crate::view::{
    ClockView, ClusterView, Facts, FleetView, Health, NodeDetail, NodeRow, PoolView, RolloutDetail,
    RolloutRow, STEP_WORDS, Snapshot, Sync, WhyView,
};

/// Rows of a page unless asked otherwise.
pub const PAGE: usize = 100;
/// Rows of the longest page.
pub const PAGE_MAX: usize = 500;

/// `GET /api/v1/fleet`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetAnswer {
    /// Grows with every published state.
    pub number: u64,
    /// The fleet's clock.
    pub clock: ClockView,
    /// The repository.
    pub source: SourceView,
    /// The fleet; absent until a commit was in force.
    pub fleet: Option<FleetView>,
    /// Findings in the commit in force that aren't errors, the first of them.
    pub warnings: Vec<Diagnostic>,
    /// Why the last pass wasn't carried out.
    pub trouble: Option<String>,
    /// Broken invariants of the last plan.
    pub violations: Vec<String>,
}

/// A list, with the instant it is true for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// The instant of the pass.
    pub at: Timestamp,
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins: pass it as `after` (events: as `before`). Absent on the last page.
    pub next: Option<String>,
}

/// `GET /api/v1/nodes/{cluster}/{node}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    /// The instant of the pass.
    pub at: Timestamp,
    /// The node.
    #[serde(flatten)]
    pub node: NodeDetail,
    /// Why it isn't moving, or what it is doing; absent when the node isn't there.
    pub why: Option<WhyView>,
}

/// `GET /api/v1/plan-report`.
#[derive(Debug, Serialize)]
pub struct ReportAnswer {
    /// The instant of the pass.
    pub at: Timestamp,
    /// Its report.
    pub report: PlanReport,
}

/// Which pools.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolQuery {
    cluster: Option<String>,
}

/// Which nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeQuery {
    pool: Option<String>,
    cluster: Option<String>,
    rollout: Option<String>,
    /// A word of sync, health or step.
    state: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

/// Which events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    before: Option<u64>,
    limit: Option<usize>,
}

fn facts(api: &Api) -> Result<Arc<Facts>, ApiError> {
    let snapshot = api.snapshot();
    snapshot.facts.clone().ok_or_else(|| {
        let problem =
            snapshot.source.problem_text.clone().unwrap_or_else(|| "nothing was read yet".to_owned());
        let hint = snapshot.source.hint.clone().unwrap_or_else(|| "wait a moment".to_owned());
        ApiError::unavailable(format!("no fleet is in force: {problem}"), hint)
    })
}

fn page(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit.unwrap_or(PAGE) {
        0 => Err(ApiError::bad("limit is 0", format!("ask for 1 to {PAGE_MAX}"))),
        limit => Ok(limit.min(PAGE_MAX)),
    }
}

fn list<T>(at: Timestamp, items: Vec<T>) -> Json<List<T>> {
    Json(List { at, items, next: None })
}

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(api): State<Api>) -> Result<&'static str, ApiError> {
    facts(&api).map(|_| "ok\n")
}

pub(super) async fn metrics(State(api): State<Api>) -> Result<Response, ApiError> {
    let snapshot = api.snapshot();
    let text = metrics::render(&snapshot, api.stats(), wall())
        .map_err(|error| ApiError::unavailable(error.to_string(), "report this"))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

pub(super) async fn fleet(State(api): State<Api>) -> Json<FleetAnswer> {
    let snapshot: Arc<Snapshot> = api.snapshot();
    let facts = snapshot.facts.as_deref();
    Json(FleetAnswer {
        number: snapshot.number,
        clock: snapshot.clock,
        source: snapshot.source.clone(),
        fleet: facts.map(|facts| facts.overview().fleet.clone()),
        warnings: facts.map(|facts| facts.warnings.to_vec()).unwrap_or_default(),
        trouble: snapshot.trouble.clone(),
        violations: facts.map(|facts| facts.report.violations.clone()).unwrap_or_default(),
    })
}

pub(super) async fn clusters(State(api): State<Api>) -> Result<Json<List<ClusterView>>, ApiError> {
    let facts = facts(&api)?;
    Ok(list(facts.now, facts.overview().clusters.clone()))
}

pub(super) async fn pools(
    State(api): State<Api>,
    query: Result<Query<PoolQuery>, QueryRejection>,
) -> Result<Json<List<PoolView>>, ApiError> {
    let (facts, Query(query)) = (facts(&api)?, query?);
    let wanted =
        |pool: &&PoolView| query.cluster.as_ref().is_none_or(|cluster| pool.cluster.as_str() == cluster);
    Ok(list(facts.now, facts.overview().pools.iter().filter(wanted).cloned().collect()))
}

pub(super) async fn nodes(
    State(api): State<Api>,
    query: Result<Query<NodeQuery>, QueryRejection>,
) -> Result<Json<List<NodeRow>>, ApiError> {
    let (facts, Query(query)) = (facts(&api)?, query?);
    let limit = page(query.limit)?;
    if let Some(state) = &query.state {
        known_state(state)?;
    }
    let after = query.after.as_deref().map(NodeId::new);
    let wanted = |row: &NodeRow| {
        let NodeQuery { pool, cluster: _, rollout, state, limit: _, after: _ } = &query;
        pool.as_ref().is_none_or(|pool| row.pool.as_ref().is_some_and(|p| p.as_str() == pool))
            && rollout
                .as_ref()
                .is_none_or(|rollout| row.rollout.as_ref().is_some_and(|r| r.as_str() == rollout))
            && state
                .as_ref()
                .is_none_or(|s| [row.sync.word(), row.health.word(), row.step].contains(&s.as_str()))
    };
    let mut rows = facts
        .node_ids()
        .filter(|id| after.as_ref().is_none_or(|after| *id > after))
        .filter(|id| query.cluster.as_ref().is_none_or(|cluster| id.cluster() == cluster))
        .filter_map(|id| facts.node_row(id))
        .filter(wanted);
    let items: Vec<_> = rows.by_ref().take(limit).collect();
    let next = rows.next().and_then(|_| items.last().map(|row| row.id.to_string()));
    Ok(Json(List { at: facts.now, items, next }))
}

/// A word that no node can have is a typing error, not an empty list.
fn known_state(state: &str) -> Result<(), ApiError> {
    let sync = Sync::ALL.map(Sync::word);
    let health = Health::ALL.map(Health::word);
    let mut words = sync.into_iter().chain(health).chain(STEP_WORDS);
    if words.any(|word| word == state) {
        return Ok(());
    }
    let list = |words: &[&str]| words.join(", ");
    let hint = format!("one of {}, {}, {}", list(&sync), list(&health), list(&STEP_WORDS));
    Err(ApiError::bad(format!("`{state}` is no state of a node"), hint))
}

pub(super) async fn node(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<NodeAnswer>, ApiError> {
    let (facts, Path((cluster, node))) = (facts(&api)?, path?);
    let id = NodeId::new(&format!("{cluster}/{node}"));
    let Some(node) = facts.node_detail(&id) else {
        let hint = format!("`GET /api/v1/nodes?cluster={cluster}` lists the nodes of a cluster");
        return Err(ApiError::not_found(format!("there is no node {id}"), hint));
    };
    Ok(Json(NodeAnswer { at: facts.now, node, why: facts.why(&id) }))
}

pub(super) async fn rollouts(State(api): State<Api>) -> Result<Json<List<RolloutRow>>, ApiError> {
    let facts = facts(&api)?;
    let mut rows = facts.rollout_rows();
    // Open ones first: a long history must not push them off the page.
    rows.sort_by_key(|row| row.state_detail.is_final());
    rows.truncate(PAGE_MAX);
    Ok(list(facts.now, rows))
}

pub(super) async fn rollout(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<RolloutDetail>, ApiError> {
    let (facts, Path(id)) = (facts(&api)?, path?);
    let hint = "`GET /api/v1/rollouts` lists them";
    let missing = || ApiError::not_found(format!("there is no rollout {id}"), hint);
    facts.rollout_detail(&RolloutId::new(&id)).map(Json).ok_or_else(missing)
}

pub(super) async fn plan_report(State(api): State<Api>) -> Result<Json<ReportAnswer>, ApiError> {
    let facts = facts(&api)?;
    Ok(Json(ReportAnswer { at: facts.now, report: (*facts.report).clone() }))
}

pub(super) async fn history(
    State(api): State<Api>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<List<Event>>, ApiError> {
    let Query(query) = query?;
    let limit = page(query.limit)?;
    let items = api.store().events_before(query.before.unwrap_or(u64::MAX), limit)?;
    let full = items.len() == limit;
    let next = items.last().filter(|event| full && event.number > 1).map(|event| event.number.to_string());
    Ok(Json(List { at: api.snapshot().clock.at, items, next }))
}

pub(super) async fn nothing_here() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this address", "the API is under /api/v1/")
}
