//! Random faults, of every kind there is.

use drydock_plan::NodeId;
use drydock_sim::{BadNodeHow, Breaks, DomainPlace, Draw, FaultSpec, How, Place};
use drydock_spec::{CheckClass, Glob, Period, Version};
use jiff::Timestamp;

use super::documents::{Documents, Pool, one_of};

/// Faults begin within this time of the start: most of a small rollout falls into it.
const WITHIN_SECS: u64 = 6 * 3600;

/// A node of a small fleet.
pub fn any_node(draw: Draw, pools: &[Pool]) -> NodeId {
    let pool = &pools[draw.text("pool").between(0, pools.len() as u64 - 1) as usize];
    node(pool, draw.text("index").between(0, pool.size - 1))
}

pub fn node(pool: &Pool, index: u64) -> NodeId {
    NodeId::new(&format!("{}/{}-{index:03}", pool.cluster, pool.name))
}

pub fn instant(draw: Draw, start: Timestamp) -> Timestamp {
    Period::from_secs(draw.text("at").between(0, WITHIN_SECS)).after(start)
}

fn check_word(draw: Draw) -> String {
    one_of(draw.text("check"), &["driver", "rdma", "training", "vector-add", "all-reduce"]).to_owned()
}

fn how(draw: Draw) -> How {
    let check = check_word(draw);
    let back = || draw.text("back").chance(0.7).then(|| Period::from_mins(draw.text("after").between(5, 90)));
    match draw.text("how").between(0, 14) {
        8 => How::Wedges,
        9 => How::Bricks,
        10 => How::FailsEarly,
        11 => How::FailsHalfway,
        12 => How::NotFound,
        13 => How::Flaps {
            every: Period::from_mins(draw.text("every").between(4, 40)),
            down: Period::from_mins(draw.text("down").between(1, 12)),
            times: draw.text("times").between(2, 30) as u32,
        },
        14 => How::SlowsDown {
            percent: draw.text("slow").between(10, 60) as u32,
            over: Period::from_hours(draw.text("over").between(1, 30)),
            check,
        },
        0 => How::NotReady,
        1 => How::Hangs,
        2 => How::CrashLoops,
        3 => How::ReadyButBroken { check },
        4 => How::HangsInCheck { check },
        5 => How::Slow { percent: draw.text("slow").between(2, 40) as u32, check },
        6 => How::LosesNode { back_after: back() },
        _ => How::FaultsLater {
            kind: "xid-95".to_owned(),
            after: Period::from_mins(draw.text("later").between(0, 60)),
        },
    }
}

fn place(draw: Draw, pools: &[Pool]) -> Place {
    match draw.text("place").between(0, 4) {
        0 => Place { node: Some(any_node(draw, pools)), ..Place::default() },
        1 => Place { pool: Some(Glob::new(&pools[0].name)), ..Place::default() },
        2 => Place { kernel: Some(Glob::new("*85*")), ..Place::default() },
        3 => Place { layout: "halves".parse().ok(), ..Place::default() },
        _ => Place::default(),
    }
}

/// The driver of the release that is committed first is bad, mostly everywhere, in a way that any suite sees.
pub fn plainly_bad(draw: Draw, documents: &Documents) -> Option<FaultSpec> {
    let release = one_of(draw.text("release"), &["r2", "r2", "r2", "r2", "r3"]);
    let version = documents.value["releases"][release]["spec"]["components"]["gpu-driver"].as_str()?;
    let check = "driver".to_owned();
    let how = match draw.text("how").between(0, 8) {
        0..=2 => How::ReadyButBroken { check },
        3 => How::HangsInCheck { check },
        4 => How::CrashLoops,
        5 => How::Wedges,
        6 => How::Bricks,
        7 => How::LosesNode { back_after: None },
        _ => How::FailsHalfway,
    };
    let place =
        if draw.text("everywhere").chance(0.7) { Place::default() } else { place(draw, &documents.pools) };
    Some(FaultSpec::BadVersion {
        component: "gpu-driver".parse().ok()?,
        version: Version::new(version),
        place,
        how,
    })
}

/// A job on some nodes of one pool.
pub fn gang(draw: Draw, pools: &[Pool], start: Timestamp) -> Option<FaultSpec> {
    let pool = pools.get(draw.text("pool").between(0, pools.len() as u64 - 1) as usize)?;
    let first = draw.text("first").between(0, pool.size - 1);
    let count = draw.text("gang").between(2, 6).min(pool.size - first);
    let checkpoint =
        draw.text("writes").chance(0.8).then(|| Period::from_mins(draw.text("every").between(10, 60)));
    Some(FaultSpec::GangLong {
        nodes: (first..first + count).map(|n| node(pool, n)).collect(),
        // Early, so that it is there when something is committed.
        at: Period::from_mins(draw.text("begins").between(0, 60)).after(start),
        length: Period::from_mins(draw.text("runs").between(30, 2_000)),
        checkpoint,
    })
}

/// A component with a version of one of the releases that come later.
fn bad_version(draw: Draw, documents: &Documents, place: Place) -> Option<FaultSpec> {
    if draw.text("scheduler").chance(0.15) {
        return Some(FaultSpec::BadVersion {
            component: "scheduler".parse().ok()?,
            version: Version::new(one_of(draw.text("which scheduler"), &["7.1", "7.2"])),
            place,
            how: how(draw),
        });
    }
    let release = one_of(draw.text("release"), &["r2", "r2", "r3", "r4", "r1"]);
    let component = one_of(
        draw.text("component"),
        &["gpu-driver", "gpu-driver", "gpu-driver", "toolkit", "plugin", "agent"],
    );
    let version = documents.value["releases"][release]["spec"]["components"][component].as_str()?;
    // What runs at the beginning was good once; only where it is named on purpose it is bad.
    let first = documents.value["releases"]["r1"]["spec"]["components"][component].as_str();
    if release != "r1" && first == Some(version) {
        return None;
    }
    Some(FaultSpec::BadVersion {
        component: component.parse().ok()?,
        version: Version::new(version),
        place,
        how: how(draw),
    })
}

fn bad_node(draw: Draw, node: NodeId, start: Timestamp) -> FaultSpec {
    let how = if draw.text("apply").chance(0.4) { BadNodeHow::ApplyFails } else { BadNodeHow::CheckFails };
    let class = [None, Some(CheckClass::Driver), Some(CheckClass::Rdma), Some(CheckClass::Training)];
    let breaks = match draw.text("breaks").between(0, 2) {
        0 => Breaks::Always,
        1 => Breaks::AtApply,
        _ => Breaks::At(instant(draw, start)),
    };
    FaultSpec::BadNode { node, how, class: class[draw.text("class").between(0, 3) as usize], breaks }
}

/// A random fault; `None` where what was drawn doesn't exist in these documents.
pub fn fault(draw: Draw, documents: &Documents, start: Timestamp) -> Option<FaultSpec> {
    let pools = &documents.pools;
    let node = any_node(draw, pools);
    let at = instant(draw, start);
    let length = Period::from_mins(draw.text("for").between(1, 120));
    let sometimes = || draw.text("ends").chance(0.7).then_some(length);
    let cluster = node.cluster().parse().ok()?;
    let check = one_of(draw.text("name"), &["vector-add", "all-reduce", "steps"]).parse().ok()?;
    let on_one = || draw.text("one").chance(0.6).then(|| node.clone());
    let later = |name: &str, low, high| Period::from_mins(draw.text(name).between(low, high));
    let rack = || DomainPlace { key: drydock_spec::DomainKey::Rack, value: Glob::new("*-rack1") };
    Some(match draw.text("kind").between(0, 50) {
        32 => FaultSpec::PowerCycle { node, at },
        33 => FaultSpec::Flaps {
            node,
            at,
            every: later("every", 5, 40),
            down: later("down", 1, 10),
            times: draw.text("times").between(2, 40) as u32,
        },
        34 => FaultSpec::DomainFails {
            cluster,
            domain: rack(),
            at,
            kind: draw.text("sick").chance(0.4).then(|| "rail-missing".to_owned()),
            length: Some(length),
        },
        35 => FaultSpec::NodeSlows {
            node,
            at,
            percent: draw.text("slow").between(5, 40) as u32,
            over: later("over", 10, 900),
            check: check_word(draw),
        },
        36 => FaultSpec::Outliers { check, probability: 0.05, percent: 20 },
        37 | 38 => {
            FaultSpec::RegistryAway { cluster: draw.text("one").chance(0.5).then_some(cluster), at, length }
        }
        39 => FaultSpec::LayoutLost { component: "gpu-driver".parse().ok()?, place: Place::default() },
        40 => FaultSpec::Rewrites {
            component: "gpu-driver".parse().ok()?,
            version: Version::new("570.1"),
            after: later("after", 1, 20),
            place: Place { node: Some(node), ..Place::default() },
            until: sometimes().map(|p| p.after(at)),
        },
        41 => FaultSpec::UncordonFight {
            node,
            after: later("after", 1, 10),
            until: sometimes().map(|p| p.after(at)),
        },
        42 => FaultSpec::MissingResult { check, node: on_one(), until: Some(length.after(at)) },
        43 => FaultSpec::OldReports { probability: 0.3 },
        44 => FaultSpec::LateCordons { lag: Period::from_secs(draw.text("lag").between(5, 90)) },
        45 => FaultSpec::DoneBeforeReboot { node: on_one() },
        46 => FaultSpec::PartnerTaken { check, times: draw.text("times").between(1, 3) as u32 },
        47 => FaultSpec::GangsHidden { cluster, at, length },
        48 => FaultSpec::FactsAbsent { cluster, at, length },
        49 => {
            FaultSpec::PartialList { cluster, at, length, percent: draw.text("kept").between(0, 80) as u32 }
        }
        50 => FaultSpec::NodeAdded { node: NodeId::new(&format!("{}-late", node.as_str())), at, like: node },
        0..=4 => return bad_version(draw, documents, place(draw, pools)),
        5 => {
            FaultSpec::BadLayout { layout: "halves".parse().ok()?, place: place(draw, pools), how: how(draw) }
        }
        6 | 7 => bad_node(draw, node, start),
        8 => FaultSpec::HungCheck { check, node: on_one() },
        9 => FaultSpec::NeverStartsCheck { check, node: on_one() },
        10 => {
            // Mended in the end: a node whose checks can't run is tried again for ever, and its rollout waits.
            FaultSpec::BrokenRunner { check, node: on_one(), from: Some(at), to: Some(length.after(at)) }
        }
        11 => FaultSpec::RdmaPartnerBroken { node },
        12 | 13 => FaultSpec::NodeLost { node, at, back_after: sometimes() },
        14 => FaultSpec::ClusterUnreachable { cluster, at, length },
        15 => {
            let lag = Period::from_secs(draw.text("lag").between(5, 400));
            let cluster = draw.text("one").chance(0.5).then_some(cluster);
            FaultSpec::StaleReads { cluster, at, length, lag }
        }
        16 => FaultSpec::RefusedWrites { probability: Some(0.2), cluster: None, at: None, length: None },
        17 => FaultSpec::RefusedWrites {
            probability: None,
            cluster: Some(cluster),
            at: Some(at),
            length: Some(length),
        },
        18 => FaultSpec::LostWrites { probability: 0.1 },
        19 => FaultSpec::DoubledWrites { probability: 0.3 },
        20 => FaultSpec::Spontaneous { per_gpu_day: 0.01 },
        21 => FaultSpec::ForeignCordon { node, at, length: sometimes() },
        22 => FaultSpec::ForeignUncordon { node, at },
        23 => FaultSpec::Relabel {
            node,
            at,
            label: one_of(draw.text("label"), &["pool", "example.com/rack", "x"]).to_owned(),
            value: draw
                .text("set")
                .chance(0.5)
                .then(|| one_of(draw.text("to"), &["p1", "p2", "new", "none"]).to_owned()),
        },
        24 => FaultSpec::HandEdit {
            node,
            at,
            component: one_of(draw.text("edited"), &["gpu-driver", "plugin", "agent"]).parse().ok()?,
            version: draw.text("other").chance(0.7).then(|| Version::new("0.0-hand")),
        },
        25 => FaultSpec::PodNeverTerminates { node, until: sometimes().map(|p| p.after(at)) },
        26 => FaultSpec::PdbBlocks { node, until: sometimes().map(|p| p.after(at)) },
        27 => FaultSpec::SlowDrain { node, by: length },
        28 => {
            let pool = pools.iter().find(|p| node.node().starts_with(&p.name))?;
            let nodes =
                (0..draw.text("gang").between(1, 4).min(pool.size)).map(|n| self::node(pool, n)).collect();
            let checkpoint = draw
                .text("writes")
                .chance(0.7)
                .then(|| Period::from_mins(draw.text("every").between(10, 60)));
            FaultSpec::GangLong {
                nodes,
                at,
                length: Period::from_mins(draw.text("runs").between(10, 900)),
                checkpoint,
            }
        }
        29 => FaultSpec::HealthFault { node, at, kind: "xid-48".to_owned(), length: sometimes() },
        30 => FaultSpec::NodeDeleted { node, at },
        _ => FaultSpec::NodeRecreated { node, at },
    })
}

/// The reconciler dies, at a write or now and then.
pub fn crash(draw: Draw) -> FaultSpec {
    match draw.text("one").chance(0.5) {
        true => FaultSpec::Crash { at_write: Some(draw.text("write").between(1, 200)), probability: None },
        false => FaultSpec::Crash { at_write: None, probability: Some(0.05) },
    }
}
