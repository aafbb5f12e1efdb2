//! One list and one watch for all objects of a kind.

use std::{fmt::Debug, time::Duration};

use futures_util::StreamExt as _;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

/// Pause before the next list after an error: an API server that starts again isn't hammered.
const PAUSE: Duration = Duration::from_millis(100);

/// Length of one watch, in seconds; the API server ends it then and it begins again where it was.
const WATCH_SECS: u32 = 290;

/// What is new.
#[derive(Debug)]
pub(crate) enum Event<K> {
    /// These are all.
    All(Vec<K>),
    /// This one is new or has changed.
    Set(K),
    /// This one is gone.
    Gone(K),
}

/// Tells what is there and what changes, until nobody listens. After an error it begins with everything again.
pub(crate) async fn follow<K>(api: Api<K>, to: Sender<Event<K>>)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    while !to.is_closed() {
        if let Err(error) = once(&api, &to).await {
            tracing::debug!(%error, "the watch begins again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A list and watches from there on, until an error or until nobody listens.
async fn once<K>(api: &Api<K>, to: &Sender<Event<K>>) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let list = api.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    if to.send(Event::All(list.items)).await.is_err() {
        return Ok(());
    }
    let params = WatchParams::default().timeout(WATCH_SECS);
    loop {
        let mut events = api.watch(&params, &version).await?.boxed();
        while let Some(event) = events.next().await {
            let event = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Event::Set(object),
                WatchEvent::Deleted(object) => Event::Gone(object),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            if let Event::Set(object) | Event::Gone(object) = &event
                && let Some(newer) = object.resource_version()
            {
                version = newer;
            }
            if to.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
}
