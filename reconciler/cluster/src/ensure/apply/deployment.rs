//! A Deployment: the cluster is the unit. It counts as there only when all its pods are of the new version, and, for a
//! scheduler, when it has really placed a pod.

use drydock_plan::{Blocker, StepState};
use drydock_spec::{ComponentClass, ObjectRef};

use super::super::{Call, Effort, Outcome, Request, SHARED, View};
use super::{Item, LOOK, asked, workload};
use crate::client::{Kind, Patch};
use crate::objects::Key;
use crate::{delivery, drift};

/// See [`super::applied`].
pub(super) fn applied(view: &View<'_>, effort: &mut Effort, item: Item<'_>, object: &ObjectRef) -> Outcome {
    let Some(version) = item.version else {
        return Outcome::failed(format!(
            "{} is per cluster; a release without it leaves it as it is",
            item.name
        ));
    };
    let namespace = workload::namespace(object, view.settings);
    let wanted = workload::deployment_object(item.name, object, version, view.settings);
    let template = wanted.pointer("/spec/template").cloned().unwrap_or_default();
    let live = view.objects.deployments.get(&Key::new(namespace, &object.name));
    let Some(live) = live.filter(|live| drift::differences(&template, &live.template).is_empty()) else {
        let uri = Kind::DEPLOYMENT.one(Some(namespace), &object.name);
        let key = format!("{SHARED}deployment {namespace}/{}={}", object.name, delivery::slug(version));
        let request = Request::Patch { uri, patch: Patch::Apply { force: true }, body: wanted };
        return asked(view, effort, Call { key, request });
    };
    if let Some(why) = &live.stuck {
        return Outcome::failed(format!("deployment {namespace}/{}: {why}", object.name));
    }
    if !live.rolled_out() {
        let text = format!(
            "{} of {} replicas are of the new version and available",
            live.updated.min(live.available),
            live.replicas
        );
        return Outcome::blocked(0, Blocker::NotReady(text)).again(view.now, LOOK);
    }
    if item.spec.class != ComponentClass::Scheduler {
        return Outcome::done();
    }
    let mut probe = super::super::scheduled_probe(view, effort, &object.name);
    if let StepState::Failed { message } = &mut probe.state {
        let text = format!("the scheduler runs and places nothing: {message}");
        *message = text;
    }
    probe
}
