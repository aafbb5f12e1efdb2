//! An API server in memory, for tests: objects by address, `resourceVersion`, `uid`, compare-and-swap, preconditions, a
//! simplified apply, and faults. No sockets, so it works with paused time. What it can't tell is told by tests against
//! a real one.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{Router, http};
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Refused before anything was done.
    Refused(u16),
    /// Carried out, but the answer says this.
    AnswerLost(u16),
    /// Carried out, but no answer comes.
    AnswerHangs,
    /// Not carried out, and no answer comes.
    Hangs,
    /// Carried out so much later, and no answer comes before.
    Late(Duration),
}

/// A call as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Method.
    pub method: Method,
    /// Path without the query.
    pub path: String,
}

/// The server; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Fake(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    objects: BTreeMap<String, Value>,
    version: u64,
    faults: VecDeque<(Method, String, Fault)>,
    calls: Vec<Call>,
    forbidden: Vec<String>,
    /// Collections that exist; empty means all do.
    missing: Vec<String>,
}

impl Fake {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(Router::new().fallback(answer).with_state(self.clone()), "default")
    }

    /// The next call with this method whose path contains `part` goes wrong. Faults are used up in order.
    pub fn fault(&self, method: Method, part: &str, fault: Fault) {
        self.inside(|inside| inside.faults.push_back((method, part.to_owned(), fault)));
    }
    /// Calls whose path contains `part` answer 403 from now on.
    pub fn forbid(&self, part: &str) {
        self.inside(|inside| inside.forbidden.push(part.to_owned()));
    }
    /// Calls whose path contains `part` answer 404 from now on, as when a definition isn't installed; `None` ends that.
    pub fn uninstall(&self, part: Option<&str>) {
        self.inside(|inside| inside.missing = part.map(ToOwned::to_owned).into_iter().collect());
    }
    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.inside(|inside| inside.calls.clone())
    }
    /// How many calls that change something there were so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.calls().iter().filter(|call| call.method != Method::GET).count()
    }
    /// Everything that is stored, by address: a backup of etcd.
    #[must_use]
    pub fn backup(&self) -> BTreeMap<String, Value> {
        self.inside(|inside| inside.objects.clone())
    }
    /// Puts a backup back.
    pub fn restore(&self, objects: BTreeMap<String, Value>) {
        self.inside(|inside| inside.objects = objects);
    }
    /// One object.
    #[must_use]
    pub fn object(&self, path: &str) -> Option<Value> {
        self.inside(|inside| inside.objects.get(path).cloned())
    }
    /// Changes an object past everybody, or removes it.
    pub fn meddle(&self, path: &str, change: impl FnOnce(Value) -> Option<Value>) {
        self.inside(|inside| {
            if let Some(object) = inside.objects.remove(path).and_then(change) {
                let object = inside.stamped(object);
                inside.objects.insert(path.to_owned(), object);
            }
        });
    }

    fn inside<T>(&self, look: impl FnOnce(&mut Inside) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, method: &Method, path: &str) -> Result<Option<Fault>, Answer> {
        self.inside(|inside| {
            inside.calls.push(Call { method: method.clone(), path: path.to_owned() });
            if inside.forbidden.iter().any(|part| path.contains(part.as_str())) {
                return Err(refusal(StatusCode::FORBIDDEN, "Forbidden", path));
            }
            if inside.missing.iter().any(|part| path.contains(part.as_str())) {
                return Err(refusal(StatusCode::NOT_FOUND, "NotFound", path));
            }
            let due =
                inside.faults.iter().position(|(m, part, _)| m == method && path.contains(part.as_str()));
            Ok(due.and_then(|at| inside.faults.remove(at)).map(|(_, _, fault)| fault))
        })
    }
}

type Answer = (StatusCode, Value);

async fn answer(State(fake): State<Fake>, request: Request) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 8 << 20).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let kind =
        parts.headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let apply = kind.contains("apply-patch");
    let method = parts.method;
    let carry_out =
        |fake: &Fake| fake.inside(|inside| inside.carry_out(&method, &path, &query, &body, apply));
    let (status, value) = match fake.begin(&method, &path) {
        Err(refused) => refused,
        Ok(None) => carry_out(&fake),
        Ok(Some(Fault::Refused(status))) => refusal(code(status), "Fault", &path),
        Ok(Some(Fault::AnswerLost(status))) => {
            carry_out(&fake);
            refusal(code(status), "Fault", &path)
        }
        Ok(Some(Fault::AnswerHangs)) => {
            carry_out(&fake);
            std::future::pending().await
        }
        Ok(Some(Fault::Hangs)) => std::future::pending().await,
        Ok(Some(Fault::Late(after))) => {
            let (fake, method, path) = (fake.clone(), method.clone(), path.clone());
            let (query, body) = (query.clone(), body.clone());
            // A task of its own: the caller's patience ends before.
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                fake.inside(|inside| inside.carry_out(&method, &path, &query, &body, apply));
            });
            std::future::pending().await
        }
    };
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    Ok(response)
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn refusal(status: StatusCode, reason: &str, path: &str) -> Answer {
    (
        status,
        json!({"kind": "Status", "reason": reason, "message": format!("{reason}: {path}"), "code": status.as_u16()}),
    )
}

impl Inside {
    fn stamped(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        object
    }

    fn carry_out(&mut self, method: &Method, path: &str, query: &str, body: &Value, apply: bool) -> Answer {
        match *method {
            Method::GET => self.get(path, query),
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return refusal(StatusCode::CONFLICT, "AlreadyExists", &path);
                }
                self.store(&path, body.clone(), StatusCode::CREATED)
            }
            Method::PUT => {
                let Some(old) = self.objects.get(path) else {
                    return refusal(StatusCode::NOT_FOUND, "NotFound", path);
                };
                let same = |key: &str| {
                    let wanted = &body["metadata"][key];
                    wanted.is_null() || *wanted == old["metadata"][key]
                };
                if !same("resourceVersion") || !same("uid") {
                    return refusal(StatusCode::CONFLICT, "Conflict", path);
                }
                let mut new = body.clone();
                new["metadata"]["uid"] = old["metadata"]["uid"].clone();
                self.store(path, new, StatusCode::OK)
            }
            Method::DELETE => {
                let Some(old) = self.objects.get(path) else {
                    return refusal(StatusCode::NOT_FOUND, "NotFound", path);
                };
                let uid = &body["preconditions"]["uid"];
                if !uid.is_null() && *uid != old["metadata"]["uid"] {
                    return refusal(StatusCode::CONFLICT, "Conflict", path);
                }
                self.objects.remove(path);
                (StatusCode::OK, json!({"kind": "Status", "status": "Success"}))
            }
            Method::PATCH if apply => self.apply(path, body),
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", path),
        }
    }

    fn get(&self, path: &str, query: &str) -> Answer {
        if let Some(object) = self.objects.get(path) {
            return (StatusCode::OK, object.clone());
        }
        let collection =
            path.rsplit('/').next().is_some_and(|last| last.ends_with('s') && !last.contains('-'));
        if !collection {
            return refusal(StatusCode::NOT_FOUND, "NotFound", path);
        }
        let wanted: Option<(String, String)> = query.split('&').find_map(|part| {
            let selector = part.strip_prefix("labelSelector=")?.replace("%3D", "=").replace("%2F", "/");
            selector.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
        });
        let prefix = format!("{path}/");
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(at, _)| at.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/')))
            .map(|(_, object)| object)
            .filter(|object| {
                wanted.as_ref().is_none_or(|(key, value)| object["metadata"]["labels"][key] == json!(value))
            })
            .collect();
        (StatusCode::OK, json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items}))
    }

    /// One manager applies everything, so its fields replace what it had said before; `status` is a side of its own.
    fn apply(&mut self, path: &str, body: &Value) -> Answer {
        let (at, status) = path.strip_suffix("/status").map_or((path, false), |at| (at, true));
        let old = self.objects.get(at).cloned();
        let mut new = match (&old, status) {
            (None, true) => return refusal(StatusCode::NOT_FOUND, "NotFound", path),
            (None, false) => json!({"metadata": {"generation": 1}}),
            (Some(old), _) => old.clone(),
        };
        if status {
            new["status"] = body["status"].clone();
        } else {
            if old.as_ref().is_some_and(|old| old["spec"] != body["spec"]) {
                let generation = new["metadata"]["generation"].as_i64().unwrap_or(0);
                new["metadata"]["generation"] = json!(generation + 1);
            }
            new["spec"] = body["spec"].clone();
            for key in ["apiVersion", "kind"] {
                new[key] = body[key].clone();
            }
            for key in ["name", "namespace", "labels", "annotations"] {
                if !body["metadata"][key].is_null() {
                    new["metadata"][key] = body["metadata"][key].clone();
                }
            }
        }
        if old.as_ref() == Some(&new) {
            return (StatusCode::OK, new);
        }
        let at = at.to_owned();
        self.store(&at, new, StatusCode::OK)
    }

    fn store(&mut self, path: &str, object: Value, status: StatusCode) -> Answer {
        let object = self.stamped(object);
        self.objects.insert(path.to_owned(), object.clone());
        (status, object)
    }
}
