//! Which pods of a node have to leave, and what is to be done about each.

use std::sync::Arc;

use drydock_api::names;
use drydock_plan::DrainRules;
use drydock_spec::{Gangs, LocalStorage, Unmanaged};

use crate::ensure::View;
use crate::objects::{PodObject, Watched as _};

/// What is to be done about a pod that has to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It is evicted.
    Evict,
    /// It is being deleted already.
    Leaving,
    /// Its owner has asked that it isn't evicted.
    Protected,
    /// Nobody would make it again, and the rules say wait.
    Unmanaged,
    /// Nobody would make it again, and the rules say that the node is given back.
    Forbidden,
    /// Its data on the node's disk would be lost, and the rules say wait.
    LocalStorage,
    /// Its job spans nodes, and the rules say wait.
    WithItsGang,
}

/// A pod that has to leave.
#[derive(Debug, Clone)]
pub(super) struct Leaver<'a> {
    pub(super) pod: &'a Arc<PodObject>,
    pub(super) part: Part,
    /// The job that spans nodes and that it belongs to.
    pub(super) gang: Option<String>,
}

impl Leaver<'_> {
    /// `namespace/name`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.pod.meta.namespace, self.pod.meta.name)
    }
    /// Pods of one job that spans nodes come first and side by side: it is interrupted once, not in turns. Then the
    /// others with GPUs, which take longest to end. What has no GPU goes last, since what ends may still need it: a
    /// launcher, a cache, a log shipper.
    fn order(&self) -> impl Ord + use<> {
        (self.gang.is_none(), self.gang.clone(), !self.pod.on_gpus(), self.pod.key())
    }
}

/// Made by drydock for the node's visit: its checks run on nodes that are emptied. What it has delivered by Deployment is
/// work like any other, and may be rebooted away as little.
fn is_own(pod: &PodObject) -> bool {
    let made = pod.meta.label(names::MANAGED_BY) == Some(names::MANAGER);
    pod.meta.label(names::CHECK).is_some() || made && pod.meta.label(names::COMPONENT).is_none()
}

/// Every pod on the node that has to leave, in the order of eviction.
///
/// A pod with a GPU leaves whether it uses it or not: an idle one would keep stale driver files open. What has none
/// leaves as well, as with `kubectl drain`: the node may reboot.
pub(super) fn leavers<'a>(view: &View<'a>, rules: &DrainRules) -> Vec<Leaver<'a>> {
    let stays = |pod: &PodObject| pod.of_daemon_set() || pod.mirror || pod.finished() || is_own(pod);
    let mut all: Vec<Leaver<'_>> = view
        .pods()
        .filter(|pod| !stays(pod))
        .map(|pod| {
            let gang = pod.gang().filter(|_| rules.gangs != Gangs::Ignore).filter(|g| spans(view, g));
            Leaver { pod, part: part(pod, gang.as_deref(), rules), gang }
        })
        .collect();
    all.sort_by_cached_key(Leaver::order);
    all
}

fn part(pod: &PodObject, gang: Option<&str>, rules: &DrainRules) -> Part {
    if pod.leaving() {
        return Part::Leaving;
    }
    if pod.meta.label(names::PROTECTED) == Some("true") {
        return Part::Protected;
    }
    if pod.meta.controller().is_none() {
        match rules.unmanaged {
            Unmanaged::Wait => return Part::Unmanaged,
            Unmanaged::Fail => return Part::Forbidden,
            Unmanaged::Evict => {}
        }
    }
    if pod.local_storage && rules.local_storage == LocalStorage::Wait {
        return Part::LocalStorage;
    }
    if gang.is_some() && rules.gangs == Gangs::Avoid { Part::WithItsGang } else { Part::Evict }
}

/// Whether pods of the job sit on other nodes as well. A Job with a single pod carries the same labels and is none.
fn spans(view: &View<'_>, gang: &str) -> bool {
    let mut keys = view.objects.gangs.get(gang).into_iter().flatten();
    keys.any(|key| {
        view.objects.pods.get(key).and_then(|p| p.node.as_deref()).is_some_and(|n| n != view.name())
    })
}
