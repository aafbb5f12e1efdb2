//! Rules that need to know what things mean, one file for each theme. Each is a pure function from the repository to
//! findings; only this file knows how a finding gets its place.

// Steps into a document. Before the modules, which see it by its place in the text.
macro_rules! path {
    ($($step:expr),* $(,)?) => { &[$($crate::source::tree::Step::from($step)),*] };
}

mod budgets;
mod checks;
mod clusters;
mod components;
mod controls;
mod drivers;
mod layouts;
mod policies;
mod pools;
mod refs;
mod settings;
mod templates;
mod versions;
mod waves;
mod windows;

use std::{collections::BTreeMap, ops::Bound};

use drydock_gpu::model::{self, GpuModel};

use crate::{
    collect::Repository,
    document::Kind,
    fleet::{Fleet, Named},
    kinds::{PoolSelector, PoolSpec, Scope},
    rule::RuleId,
    source::tree::{Place, Problem, Step},
    suggest,
    text::{ClusterName, Glob, PoolName, TenantName},
};

/// Most names compared with a wrong one in one run: a repository full of wrong names still loads in time.
const SUGGESTIONS_MAX: usize = 200;

/// A pool and its name.
pub(crate) type Pool<'r> = (&'r PoolName, &'r Named<PoolSpec>);

/// The repository and what has been found in it.
pub(crate) struct Lint<'r, 'f> {
    repository: &'r Repository<'f>,
    by_cluster: BTreeMap<&'r ClusterName, Vec<Pool<'r>>>,
    by_tenant: BTreeMap<&'r TenantName, Vec<Pool<'r>>>,
    models: BTreeMap<&'r str, Option<&'static GpuModel>>,
    found: Vec<(usize, Problem)>,
    suggestions: usize,
}

/// Checks everything that was read.
pub(crate) fn check(repository: &mut Repository<'_>) {
    let mut lint = Lint::new(repository);
    refs::check(&mut lint);
    clusters::check(&mut lint);
    pools::check(&mut lint);
    layouts::check(&mut lint);
    components::check(&mut lint);
    templates::check(&mut lint);
    versions::check(&mut lint);
    settings::check(&mut lint);
    drivers::check(&mut lint);
    checks::check(&mut lint);
    policies::check(&mut lint);
    waves::check(&mut lint);
    budgets::check(&mut lint);
    windows::check(&mut lint);
    controls::check(&mut lint);
    for (file, problem) in lint.found {
        repository.report(file, problem);
    }
}

impl<'r, 'f> Lint<'r, 'f> {
    fn new(repository: &'r Repository<'f>) -> Self {
        let mut by_cluster: BTreeMap<_, Vec<Pool<'r>>> = BTreeMap::new();
        let mut by_tenant: BTreeMap<_, Vec<Pool<'r>>> = BTreeMap::new();
        let mut models: BTreeMap<&str, Option<&'static GpuModel>> = BTreeMap::new();
        for pool in &repository.fleet.pools {
            let model = pool.1.gpu.model.as_str();
            models.entry(model).or_insert_with(|| model::lookup(model));
            by_cluster.entry(&pool.1.cluster).or_default().push(pool);
            if let Some(tenant) = &pool.1.tenant {
                by_tenant.entry(tenant).or_default().push(pool);
            }
        }
        Self { repository, by_cluster, by_tenant, models, found: Vec::new(), suggestions: 0 }
    }

    /// What was read.
    fn fleet(&self) -> &'r Fleet {
        &self.repository.fleet
    }

    /// The catalogue's row for the model of a pool. Thousands of pools name a handful of models, and a look into the
    /// catalogue compares every alias.
    fn model(&self, name: &str) -> Option<&'static GpuModel> {
        self.models.get(name).copied().flatten()
    }

    /// True when everything was read, so that what isn't there is really missing.
    fn is_complete(&self) -> bool {
        !self.repository.incomplete
    }

    /// Adds a finding at a value.
    fn at(
        &mut self,
        (kind, name): (Kind, &str),
        path: &[Step<'_>],
        rule: RuleId,
        message: String,
        hint: Option<String>,
    ) {
        let place = |origin: &crate::collect::Origin<'f>| origin.place(path);
        self.add(kind, name, place, rule, message, hint);
    }

    /// Adds a finding at a key of the mapping at `path`.
    fn at_key(
        &mut self,
        (kind, name): (Kind, &str),
        (path, key): (&[Step<'_>], &str),
        rule: RuleId,
        message: String,
        hint: Option<String>,
    ) {
        let place = |origin: &crate::collect::Origin<'f>| origin.key_place(path, key);
        self.add(kind, name, place, rule, message, hint);
    }

    fn add(
        &mut self,
        kind: Kind,
        name: &str,
        place: impl Fn(&crate::collect::Origin<'f>) -> Place,
        rule: RuleId,
        message: String,
        hint: Option<String>,
    ) {
        let Some(origin) = self.repository.origins.get(&kind).and_then(|of| of.get(name)) else { return };
        if let Place::At(span) = place(origin) {
            self.found.push((origin.file(), Problem { rule, span, message, hint }));
        }
    }

    /// A hint at the nearest of some names, as long as there haven't been too many.
    fn nearest<'a>(&mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
        self.suggestions += 1;
        if self.suggestions > SUGGESTIONS_MAX {
            return None;
        }
        let known: Vec<&str> = known.into_iter().collect();
        suggest::hint(name, &known)
    }

    /// The value at `path` was wrong, so its absence says nothing.
    fn was_reported(&self, (kind, name): (Kind, &str), path: &[Step<'_>]) -> bool {
        let origin = self.repository.origins.get(&kind).and_then(|of| of.get(name));
        origin.is_some_and(|origin| origin.place(path) == Place::Reported)
    }

    /// A document that is there, and couldn't be read.
    fn is_broken(&self, kind: Kind, name: &str) -> bool {
        self.repository.broken.contains(&(kind, name.to_owned()))
    }

    /// Pools inside a scope. Scopes that name a cluster or whole pool names don't look at the others: a fleet has
    /// many scopes and many pools.
    fn covered(&self, scope: &Scope) -> Vec<Pool<'r>> {
        let fleet = self.fleet();
        let candidates = match scope.tenant.as_ref().filter(|_| scope.pools.is_empty()) {
            Some(tenant) => self.by_tenant.get(tenant).cloned().unwrap_or_default(),
            None => self.candidates(&scope.pools, scope.cluster.iter()),
        };
        candidates.into_iter().filter(|(name, pool)| scope.covers_pool(fleet, name, pool)).collect()
    }

    /// Pools that a selector selects.
    fn selected(&self, selector: &PoolSelector) -> Vec<Pool<'r>> {
        let fleet = self.fleet();
        let candidates = self.candidates(&selector.pools, selector.clusters.iter());
        candidates.into_iter().filter(|(name, pool)| selector.selects(fleet, name, pool)).collect()
    }

    fn candidates<'c>(
        &self,
        globs: &[Glob],
        clusters: impl Iterator<Item = &'c ClusterName>,
    ) -> Vec<Pool<'r>> {
        let pools = &self.fleet().pools;
        if !globs.is_empty() {
            let mut found: BTreeMap<&PoolName, &Named<PoolSpec>> = BTreeMap::new();
            for glob in globs {
                let prefix = glob.prefix();
                let from = pools.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
                found.extend(from.take_while(|(name, _)| name.as_str().starts_with(prefix)));
            }
            return found.into_iter().collect();
        }
        let mut clusters: Vec<&ClusterName> = clusters.collect();
        if clusters.is_empty() {
            return pools.iter().collect();
        }
        clusters.sort_unstable();
        clusters.dedup();
        clusters.into_iter().filter_map(|name| self.by_cluster.get(name)).flatten().copied().collect()
    }
}

/// `a`, `a and b`, `a, b and 3 more`.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= SHOWN => format!("{} and {last}", first.join(", ")),
        many => format!("{} and {} more", many[..SHOWN].join(", "), many.len() - SHOWN),
    }
}
