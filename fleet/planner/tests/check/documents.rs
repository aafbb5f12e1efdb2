//! The documents of the small fleet.

use std::collections::BTreeMap;

use drydock_plan::ReleaseVector;
use drydock_spec::{
    Access, BudgetSpec, BudgetUnit, CheckOn, CheckRun, ClusterSpec, ComponentClass, ComponentSpec,
    ComponentVersion, Deadlines, Delivery, Disruption, DomainLabels, Drain, DriftPolicy, DriverSource,
    Expect, FailurePolicy, Fleet, FleetSpec, ForeignCordon, Gangs, Gates, GpuSpec, Named, NodeCount,
    ObjectRef, OnFailure, Period, PolicySpec, PoolSelector, PoolSpec, RetryPolicy, Rollback, Scope,
    SuiteSpec, Supersede, Version, Wave,
};

pub(crate) fn named<T>(spec: T) -> Named<T> {
    Named { spec, path: "fleet.yaml".to_owned(), line: 1 }
}
pub(crate) fn version(text: &str) -> ComponentVersion {
    ComponentVersion { version: Version::new(text), digest: None, config: BTreeMap::new() }
}
fn vector(driver: &str, plugin: &str, firmware: &str, host: &str) -> ReleaseVector {
    let pairs = [("driver", driver), ("plugin", plugin), ("firmware", firmware), ("host", host)];
    ReleaseVector(pairs.iter().map(|(name, text)| (name.parse().unwrap(), version(text))).collect())
}
pub(crate) fn old_vector() -> ReleaseVector {
    vector("570", "1", "10", "6.8")
}
pub(crate) fn new_vector() -> ReleaseVector {
    vector("580", "2", "11", "6.8")
}
pub(crate) fn budget() -> BudgetSpec {
    BudgetSpec {
        scope: Scope::default(),
        each: None,
        unit: BudgetUnit::Nodes,
        min_available: None,
        max_in_flight: None,
        at_least_one: false,
        at_least_domain: None,
        broken_allowance: drydock_spec::Amount0::default(),
        reasons: None,
        active: Vec::new(),
    }
}

fn component(class: ComponentClass, disruption: Disruption, reversible: bool) -> ComponentSpec {
    ComponentSpec {
        class,
        delivery: Delivery::DaemonSet(ObjectRef::named("x")),
        disruption,
        reversible,
        after: Vec::new(),
        deadline: Period::from_mins(25),
        expect: Expect::default(),
    }
}

pub(crate) fn pool() -> PoolSpec {
    let label = |text: &str| Some(text.to_owned());
    PoolSpec {
        cluster: "c".parse().unwrap(),
        node_selector: BTreeMap::from([("pool".to_owned(), "p".to_owned())]),
        gpu: GpuSpec { model: "H100-80GB".to_owned(), count: 8 },
        release: "new".parse().unwrap(),
        layout: None,
        domains: DomainLabels {
            nvlink_domain: label("nvl"),
            scalable_unit: label("su"),
            rack: label("rack"),
            rail: label("rail"),
        },
        nodes: NodeCount::default(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        tenant: Some("team".parse().unwrap()),
        rdma_rails: 8,
        driver_source: DriverSource::Managed,
        lease_until: None,
        preemptible: false,
        auto_repair: false,
        floors: BTreeMap::new(),
    }
}

pub(crate) fn cluster() -> ClusterSpec {
    ClusterSpec {
        access: Access::Simulated {},
        environment: None,
        region: Some("eu".to_owned()),
        time_zone: None,
        labels: BTreeMap::new(),
        kubernetes_version: None,
    }
}

pub(crate) fn fleet() -> Fleet {
    let host = ComponentSpec {
        delivery: Delivery::Observe {},
        ..component(ComponentClass::Agent, Disruption::None, true)
    };
    let components = [
        ("driver", component(ComponentClass::GpuDriver, Disruption::Drain, true)),
        ("plugin", component(ComponentClass::DevicePlugin, Disruption::Restart, true)),
        ("firmware", component(ComponentClass::Firmware, Disruption::Reboot, false)),
        ("host", host),
    ];
    Fleet {
        name: "f".parse().unwrap(),
        spec: named(FleetSpec {
            environments: Vec::new(),
            owners: Vec::new(),
            removal_budget: drydock_spec::Amount::Percent(1000),
        }),
        clusters: BTreeMap::from([("c".parse().unwrap(), named(cluster()))]),
        pools: BTreeMap::from([("p".parse().unwrap(), named(pool()))]),
        layouts: BTreeMap::new(),
        components: components.into_iter().map(|(n, c)| (n.parse().unwrap(), named(c))).collect(),
        releases: BTreeMap::new(),
        policies: BTreeMap::new(),
        budgets: BTreeMap::new(),
        calendars: BTreeMap::new(),
        suites: BTreeMap::new(),
        controls: BTreeMap::new(),
        costs: BTreeMap::new(),
    }
}

pub(crate) fn wave(name: &str) -> Wave {
    Wave {
        name: name.parse().unwrap(),
        select: PoolSelector::default(),
        pick: None,
        batch: drydock_spec::Batch::default(),
        soak: drydock_spec::Soak::default(),
        gates: Gates::default(),
        failure: FailurePolicy::default(),
    }
}

pub(crate) fn policy() -> PolicySpec {
    PolicySpec {
        select: PoolSelector::default(),
        waves: vec![wave("main")],
        checks: "suite".parse().unwrap(),
        order: Vec::new(),
        max_clusters: 1,
        atomic: Vec::new(),
        spread: Vec::new(),
        foreign_cordon: ForeignCordon::Wait,
        drain: Drain { gangs: Gangs::Ignore, ..Drain::default() },
        on_failure: OnFailure::default(),
        rollback: Rollback::default(),
        retry: RetryPolicy::default(),
        supersede: Supersede::default(),
        prefetch: true,
        deadline: Deadlines::default(),
        patience: Period::from_hours(2),
        lost_after: Period::from_mins(30),
        drift: DriftPolicy::Hold,
    }
}

pub(crate) fn suite() -> SuiteSpec {
    let check = drydock_spec::Check {
        name: "vector-add".parse().unwrap(),
        class: drydock_spec::CheckClass::Driver,
        on: CheckOn::Node,
        timeout: Period::from_mins(5),
        regress: None,
        unit: None,
        repeats: 1,
        run: CheckRun::default(),
        template: None,
        gpus: None,
    };
    SuiteSpec { preflight: drydock_spec::Preflight::default(), checks: vec![check] }
}
