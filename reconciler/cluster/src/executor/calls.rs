//! Calls, carried out.

use serde_json::{Value, json};

use crate::client::{CallError, Caller, Kind, query};
use crate::ensure::Request;

/// Carries one call out. What is so already counts as done: somebody may have been quicker, and that may have been this
/// very process before it was restarted.
///
/// # Errors
/// See [`CallError`].
pub async fn carry_out(caller: &Caller, request: &Request) -> Result<(), CallError> {
    match request {
        Request::Patch { uri, patch, body } => caller.patch::<Value>(uri, *patch, body).await.map(drop),
        Request::Create { uri, body } => {
            let uri = query(uri, &format!("fieldManager={}", drydock_api::names::MANAGER));
            match caller.create::<Value>(&uri, body).await {
                Err(error) if already(&error) => Ok(()),
                other => other.map(drop),
            }
        }
        Request::Evict { pod, uid, grace } => {
            let mut options = json!({ "preconditions": { "uid": uid } });
            if let (Some(seconds), Some(options)) = (grace, options.as_object_mut()) {
                options.insert("gracePeriodSeconds".to_owned(), json!(seconds));
            }
            let body = json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
                "deleteOptions": options,
            });
            let uri = format!("{}/eviction", Kind::POD.one(pod.space(), &pod.name));
            gone_is_well(caller.create::<Value>(&uri, &body).await.map(drop))
        }
        Request::Delete { uri, uid, propagation, grace } => {
            let mut options = json!({
                "preconditions": { "uid": uid },
                "propagationPolicy": propagation,
            });
            if let (Some(seconds), Some(options)) = (grace, options.as_object_mut()) {
                options.insert("gracePeriodSeconds".to_owned(), json!(seconds));
            }
            gone_is_well(caller.delete(uri, &options).await)
        }
    }
}

fn already(error: &CallError) -> bool {
    error.refusal().is_some_and(|refusal| refusal.reason == "AlreadyExists")
}

/// A pod that is gone, or was made anew under the same name, isn't there any more.
fn gone_is_well(result: Result<(), CallError>) -> Result<(), CallError> {
    match result {
        Err(error) if error.is_absent() => Ok(()),
        Err(error) if error.is_conflict() && error.to_string().contains("UID in precondition") => Ok(()),
        other => other,
    }
}
