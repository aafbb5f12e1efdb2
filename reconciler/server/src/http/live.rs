//! Live events: `GET /api/v1/events`, server-sent.
//!
//! Every stored event carries its number as its id; a client that comes back with `Last-Event-ID` (or `?after=`) gets
//! what it missed. `state` events say that another state was published and carry no id. A client that reads too slowly
//! is told so with `dropped` and let go: it comes back with its last number.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event as Message, KeepAlive};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, broadcast::error::RecvError, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::{Api, ApiError};
use crate::store::Event;

/// Messages that wait for one client's connection.
const QUEUE: usize = 64;

/// Stored events read at once while a client catches up.
const CHUNK: usize = 256;

/// Comment lines keep proxies from closing a quiet connection; most give up after a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A client that takes nothing for so long is let go without a word: it holds one of few places.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where to begin.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveQuery {
    after: Option<u64>,
}

/// `event: dropped`: the client was too slow.
#[derive(Debug, Serialize)]
struct Dropped {
    missed: u64,
    hint: &'static str,
}

/// `event: gap`: events before `oldest` are forgotten.
#[derive(Debug, Serialize)]
struct Gap {
    after: u64,
    oldest: u64,
}

/// `event: state`: another state was published.
#[derive(Debug, Serialize)]
struct Published {
    number: u64,
    at: jiff::Timestamp,
}

type Stream = ReceiverStream<Result<Message, Infallible>>;

pub(super) async fn live(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<LiveQuery>, QueryRejection>,
) -> Result<Sse<axum::response::sse::KeepAliveStream<Stream>>, ApiError> {
    let Query(query) = query?;
    let place = api.place_for_client().ok_or_else(|| {
        ApiError::unavailable("too many clients listen already", "close one, or read /api/v1/history")
    })?;
    let last =
        headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.trim().parse().ok());
    let (out, queue) = mpsc::channel(QUEUE);
    tokio::spawn(feed(api, last.or(query.after), out, place));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(ReceiverStream::new(queue)).keep_alive(keep_alive))
}

/// The client went away, or was let go.
struct Gone;

struct Client(mpsc::Sender<Result<Message, Infallible>>);

impl Client {
    async fn send(&self, message: Result<Message, axum::Error>) -> Result<(), Gone> {
        match message {
            Ok(message) => match tokio::time::timeout(PATIENCE, self.0.send(Ok(message))).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(Gone),
            },
            Err(error) => {
                tracing::error!(%error, "an event can't be written");
                Ok(())
            }
        }
    }
    async fn event(&self, event: &Event) -> Result<(), Gone> {
        let message =
            Message::default().id(event.number.to_string()).event(event.what.word()).json_data(event);
        self.send(message).await
    }
}

async fn feed(
    api: Api,
    after: Option<u64>,
    out: mpsc::Sender<Result<Message, Infallible>>,
    _place: OwnedSemaphorePermit,
) {
    let client = Client(out);
    tokio::select! {
        _ = client.0.closed() => {}
        () = api.stopping() => {}
        _ = tell(&api, after, &client) => {}
    }
}

async fn tell(api: &Api, after: Option<u64>, client: &Client) -> Result<(), Gone> {
    // Listening begins before the past is read, so that nothing falls between; what comes twice is left out by number.
    let mut live = api.store().subscribe();
    let mut published = api.published();
    let mut last = match after {
        Some(after) => catch_up(api, after, client).await?,
        None => 0,
    };
    tell_state(&mut published, client).await?;
    loop {
        tokio::select! {
            event = live.recv() => match event {
                Ok(event) if event.number > last => {
                    last = event.number;
                    client.event(&event).await?;
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    let hint = "connect again with Last-Event-ID";
                    let message = Message::default().event("dropped").json_data(Dropped { missed, hint });
                    return client.send(message).await;
                }
                Err(RecvError::Closed) => return Ok(()),
            },
            changed = published.changed() => match changed {
                Ok(()) => tell_state(&mut published, client).await?,
                Err(_) => return Ok(()),
            },
        }
    }
}

async fn tell_state(
    published: &mut tokio::sync::watch::Receiver<std::sync::Arc<crate::view::Snapshot>>,
    client: &Client,
) -> Result<(), Gone> {
    let state = {
        let snapshot = published.borrow_and_update();
        Published { number: snapshot.number, at: snapshot.clock.at }
    };
    client.send(Message::default().event("state").json_data(state)).await
}

/// Sends what was stored after `after`; the number of the last one comes back.
async fn catch_up(api: &Api, after: u64, client: &Client) -> Result<u64, Gone> {
    let mut last = after;
    loop {
        let store = std::sync::Arc::clone(api.store());
        let read = tokio::task::spawn_blocking(move || store.events_after(last, CHUNK)).await;
        let Ok(Ok(events)) = read else {
            tracing::error!("stored events can't be read");
            return Err(Gone);
        };
        if let Some(first) = events.first().filter(|first| last == after && first.number > after + 1) {
            let gap = Gap { after, oldest: first.number };
            client.send(Message::default().event("gap").json_data(gap)).await?;
        }
        for event in &events {
            client.event(event).await?;
            last = event.number;
        }
        if events.len() < CHUNK {
            return Ok(last);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::Arc;

    use super::*;
    use crate::desired::Desired;
    use crate::embedded::EmbeddedWorld;
    use crate::engine::{Engine, EngineOptions};
    use crate::files::Directory;
    use crate::http::{ApiParts, Hosts};
    use crate::store::{EventKind, NewEvent, Store, WorldStore};

    /// The engine only has to live.
    fn api() -> (Api, impl Sized) {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::in_memory().unwrap());
        let (world, _) =
            EmbeddedWorld::new(WorldStore::in_memory().unwrap(), drydock_sim::WorldOptions::default());
        let desired = Desired::new(None, jiff::Timestamp::UNIX_EPOCH);
        let (_, source) = tokio::sync::watch::channel(drydock_source::SourceState::default());
        let (runs, engine) = Engine::new(store.clone(), world, desired, source, EngineOptions::default());
        let token = crate::token::Token::of(&Directory::create(dir.path()).unwrap()).unwrap();
        let hosts = Hosts::of(([127, 0, 0, 1], 0).into(), &[]);
        (Api::new(ApiParts { engine, store, source: None, token, hosts, pages: None }), (dir, runs))
    }

    fn happen(api: &Api, times: usize) {
        let event = NewEvent { at: jiff::Timestamp::UNIX_EPOCH, what: EventKind::SourceWell {} };
        api.store().record(&vec![event; times]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_told_and_let_go_and_loses_nothing() {
        let (api, _lives) = api();
        let (out, mut queue) = mpsc::channel(1);
        let place = api.place_for_client().unwrap();
        let task = tokio::spawn(feed(api.clone(), None, out, place));
        let text = |message: Option<Result<Message, Infallible>>| format!("{:?}", message.unwrap().unwrap());
        assert!(text(queue.recv().await).contains("state"));
        happen(&api, 5000);
        let (mut told, mut last) = (0, String::new());
        while let Some(message) = queue.recv().await {
            (told, last) = (told + 1, text(Some(message)));
        }
        task.await.unwrap();
        assert!(told < 5000 && last.contains("dropped"), "{told} {last}");
        // It comes back and gets the rest.
        let (out, mut queue) = mpsc::channel(QUEUE);
        tokio::spawn(feed(api.clone(), Some(10), out, api.place_for_client().unwrap()));
        let mut events = 0;
        while !text(queue.recv().await).contains("event: state") {
            events += 1;
        }
        assert_eq!(events, 4990);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_gives_its_place_back() {
        let (api, _lives) = api();
        let (out, mut queue) = mpsc::channel(1);
        let task = tokio::spawn(feed(api.clone(), None, out, api.place_for_client().unwrap()));
        // It listens from here on, and reads no more.
        assert!(queue.recv().await.is_some());
        happen(&api, 3);
        task.await.unwrap();
        drop(queue);
    }
}
