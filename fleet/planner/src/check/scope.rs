//! What a scope is about, read anew from the documents: every field that is given must match.

use drydock_spec::{DomainKey, Fleet, PoolName, PoolSpec, Scope};

/// Whether a node that stands there is inside. `pool` is absent where Git has none for it.
pub(super) fn holds<'a>(
    scope: &Scope,
    fleet: &Fleet,
    cluster: &str,
    pool: Option<(&PoolName, &PoolSpec)>,
    domain: impl Fn(DomainKey) -> Option<&'a str>,
) -> bool {
    let Scope { domain: one, .. } = scope;
    if let Some(wanted) = one
        && domain(wanted.key) != Some(wanted.value.as_str())
    {
        return false;
    }
    may_hold(scope, fleet, cluster, pool)
}

/// The same without the domain, which only nodes have.
pub(super) fn may_hold(
    scope: &Scope,
    fleet: &Fleet,
    cluster: &str,
    pool: Option<(&PoolName, &PoolSpec)>,
) -> bool {
    let Scope { region, environment, cluster: named, cluster_labels, pools, tenant, domain: _ } = scope;
    if let Some(named) = named
        && named.as_str() != cluster
    {
        return false;
    }
    if !pools.is_empty() {
        let Some((name, _)) = pool else { return false };
        if !pools.iter().any(|pattern| pattern.matches(name.as_str())) {
            return false;
        }
    }
    if tenant.is_some() && pool.and_then(|(_, spec)| spec.tenant.as_ref()) != tenant.as_ref() {
        return false;
    }
    let found = fleet.clusters.iter().find(|(name, _)| name.as_str() == cluster).map(|(_, c)| &c.spec);
    let Some(place) = found else {
        return region.is_none() && environment.is_none() && cluster_labels.is_empty();
    };
    let same = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
    same(region, &place.region)
        && same(environment, &place.environment)
        && cluster_labels.iter().all(|(key, value)| place.labels.get(key).is_some_and(|v| v == value))
}
