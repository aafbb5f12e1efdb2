//! The HTTP API over a loopback connection.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use drydock_plan::{LedgerChange, NodeId, SkipNote, SkipReason, Target};
use drydock_server::embedded::Embedded;
use drydock_server::store::LedgerStore;
use drydock_server::view::Sync;
use serde_json::{Value, json};
use support::{NEW, Place, states, until};

/// Answer of one request.
struct Answer {
    status: u16,
    body: Value,
    text: String,
}

/// A request with these headers, in words of HTTP: nothing is added that isn't asked for.
fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Answer {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    let mut stream = connect(address);
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let status = head(&mut reader);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null), text }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Reads status and headers.
fn head(reader: &mut BufReader<TcpStream>) -> u16 {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    status
}

fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, &[("Host", &address.to_string())], None)
}

fn post(address: SocketAddr, path: &str, token: Option<&str>, body: &Value) -> Answer {
    let host = address.to_string();
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("Host", host.as_str()), ("Content-Type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    send(address, "POST", path, &headers, Some(body))
}

/// A drydock whose fleet has moved once, its address and its token.
async fn moved(place: &Place) -> (Embedded, SocketAddr, String) {
    let drydock = Embedded::start(place.options()).await.unwrap();
    until(&drydock, |facts| facts.overview().fleet.counts.nodes == 6).await;
    place.move_to(NEW);
    drydock.source().wake();
    until(&drydock, |facts| states(facts) == ["Succeeded"] && facts.overview().fleet.sync == Sync::Synced)
        .await;
    let address = drydock.address().unwrap();
    let token = std::fs::read_to_string(drydock.directory().token()).unwrap();
    (drydock, address, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_served_and_errors_say_what_to_do() {
    let place = Place::new();
    let (drydock, address, token) = moved(&place).await;
    assert_eq!(std::fs::read_to_string(drydock.directory().address()).unwrap().trim(), address.to_string());
    let left_out = leave_two_out(&drydock);
    tokio::task::spawn_blocking(move || {
        reading(address);
        guarded(address, &token);
        commands(address, &token, &left_out);
        events(address);
    })
    .await
    .unwrap();
    drydock.stop().await.unwrap();
}

fn reading(address: SocketAddr) {
    for path in ["/healthz", "/readyz"] {
        assert_eq!((get(address, path).status, get(address, path).text.as_str()), (200, "ok\n"));
    }
    let fleet = get(address, "/api/v1/fleet").body;
    assert_eq!((&fleet["fleet"]["name"], &fleet["fleet"]["sync"]), (&json!("test"), &json!("Synced")));
    assert_eq!(
        (&fleet["source"]["problem"], &fleet["trouble"], &fleet["violations"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    let names = |path: &str, key: &str| -> Vec<String> {
        let items = get(address, path).body["items"].as_array().unwrap().clone();
        items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names("/api/v1/clusters", "name"), names("/api/v1/pools", "name")),
        (vec!["c01".to_owned()], vec!["h100".to_owned()])
    );
    assert_eq!(names("/api/v1/pools?cluster=other", "name"), [""; 0]);
    // Pages of two come to the same as one page.
    let all = names("/api/v1/nodes?limit=500", "id");
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(address, &format!("/api/v1/nodes?limit=2{after}")).body;
        paged.extend(
            page["items"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", next.replace('/', "%2F"));
    }
    assert_eq!((paged.len(), &paged), (6, &all));
    assert_eq!(names("/api/v1/nodes?pool=h100&state=Synced", "id"), all);
    assert_eq!(names("/api/v1/nodes?state=OutOfSync", "id"), [""; 0]);
    let node = get(address, &format!("/api/v1/nodes/{}", all[0])).body;
    assert_eq!(
        (&node["id"], &node["step"], &node["why"]["synced"]),
        (&json!(all[0]), &json!("idle"), &json!(true))
    );
    let rollout = names("/api/v1/rollouts", "id").remove(0);
    let detail = get(address, &format!("/api/v1/rollouts/{rollout}")).body;
    assert_eq!((&detail["state"], &detail["record"]["policy"]), (&json!("Succeeded"), &json!("h100")));
    assert!(get(address, "/api/v1/plan-report").body["report"]["rollouts"].is_array());
    let history = get(address, "/api/v1/history?limit=3").body;
    let newest = history["items"][0]["number"].as_u64().unwrap();
    assert_eq!(history["items"][2]["number"].as_u64().unwrap() + 2, newest);
    let older =
        get(address, &format!("/api/v1/history?limit=1&before={}", history["next"].as_str().unwrap())).body;
    assert_eq!(older["items"][0]["number"].as_u64().unwrap() + 3, newest);
    let metrics = get(address, "/metrics").text;
    for line in [
        "drydock_rollouts{state=\"Succeeded\"} 1",
        "drydock_nodes{step=\"idle\"} 6",
        "drydock_nodes_by_sync{sync=\"Synced\"} 6",
        "drydock_violations_total 0",
        "drydock_gpus{state=\"in_service\"} 48",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|there| there == line), "{line} isn't in\n{metrics}");
    }
    for (path, status) in [
        ("/api/v1/nodes/c01/none", 404),
        ("/api/v1/rollouts/none", 404),
        ("/api/v1/nothing", 404),
        ("/nothing", 404),
        ("/api/v1/nodes?limit=0", 400),
        ("/api/v1/nodes?limit=x", 400),
        ("/api/v1/nodes?colour=red", 400),
        ("/api/v1/nodes?state=banana", 400),
        ("/api/v1/commands", 405),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let says = |key: &str| answer.body[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(says("error") && says("hint"), "{path}: {}", answer.text);
    }
}

fn guarded(address: SocketAddr, token: &str) {
    let port = address.port();
    let host = |host: &str| send(address, "GET", "/api/v1/fleet", &[("Host", host)], None).status;
    assert_eq!((host("evil.example"), host(&format!("evil.example:{port}"))), (403, 403));
    assert_eq!(host(&format!("localhost:{port}")), 200);
    let body = json!({"action": "skip", "node": "c01/none", "by": "ada", "reason": "test"});
    for wrong in [None, Some(""), Some("x"), Some(&token[1..])] {
        assert_eq!(post(address, "/api/v1/commands", wrong, &body).status, 401);
    }
    let bearer = format!("Bearer {token}");
    let foreign =
        [("Host", "evil.example"), ("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
    assert_eq!(send(address, "POST", "/api/v1/commands", &foreign, Some(&body)).status, 403);
    assert_eq!(post(address, "/api/v1/source/refresh", Some(token), &json!({})).status, 202);
    assert_eq!(post(address, "/api/v1/source/approve", Some(token), &json!({"commit": "abc"})).status, 400);
}

/// Two nodes that were left out of an older rollout, so that there is something to say about them.
fn leave_two_out(drydock: &Embedded) -> Vec<NodeId> {
    let store = drydock.store();
    loop {
        let ledger = store.ledger();
        let two: Vec<NodeId> = ledger.nodes.keys().take(2).cloned().collect();
        let note = |id: &NodeId| {
            let mut record = ledger.nodes[id].clone();
            let target = Target { release: "r-00000000".parse().unwrap(), layout: None };
            let (reason, at) = (SkipReason::Undrainable, jiff::Timestamp::UNIX_EPOCH);
            record.skipped = Some(SkipNote { target, reason, at, times: 1, by: None });
            LedgerChange::Node(id.clone(), Box::new(record))
        };
        let changes: Vec<_> = two.iter().map(note).collect();
        if LedgerStore::commit(&**store, ledger.revision, &changes, &[]).is_ok() {
            return two;
        }
    }
}

fn commands(address: SocketAddr, token: &str, left_out: &[NodeId]) {
    let rollout = get(address, "/api/v1/rollouts").body["items"][0]["id"].clone();
    for (body, status) in [
        (json!({"action": "pause", "rollout": rollout, "by": "ada", "reason": "r"}), 409),
        (json!({"action": "pause", "rollout": "none", "by": "ada", "reason": "r"}), 404),
        (json!({"action": "retry", "what": "r-00000000", "by": "ada", "reason": "r"}), 404),
        (json!({"action": "retry", "what": "c01/none", "by": "ada", "reason": "r"}), 404),
        (json!({"action": "resume", "rollout": "none", "by": "ada", "reason": "r"}), 404),
        (json!({"action": "retry", "what": "r-00000000", "pool": "h100", "by": "ada", "reason": "r"}), 404),
        (
            json!({"action": "approve", "rollout": rollout, "wave": "all", "team": "sre", "by": "ada", "reason": "r"}),
            409,
        ),
        (json!({"action": "skip", "node": "c01/nowhere", "by": "ada", "reason": "r"}), 404),
        (json!({"action": "skip", "node": left_out[0], "by": "ada", "reason": "r"}), 409),
        (json!({"action": "skip", "node": "none", "by": "ada", "reason": "r"}), 400),
        (json!({"action": "skip", "node": "c01/x", "by": " ", "reason": "r"}), 400),
        (json!({"action": "skip", "node": "c01/x", "by": "ada", "reason": "r".repeat(501)}), 400),
        (json!({"action": "explode", "by": "ada", "reason": "r"}), 422),
        (json!({"action": "skip", "by": "ada", "reason": "r".repeat(20_000)}), 413),
    ] {
        let answer = post(address, "/api/v1/commands", Some(token), &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert!(answer.body["hint"].is_string(), "{body}: {}", answer.text);
    }
    let numbers: Vec<_> = left_out
        .iter()
        .map(|node| {
            let retry = json!({"action": "retry", "what": node, "by": "ada", "reason": "it is mended"});
            let answer = post(address, "/api/v1/commands", Some(token), &retry);
            assert_eq!(answer.status, 202, "{}", answer.text);
            assert!(
                answer.body["note"].as_str().unwrap().contains("given back too often"),
                "{}",
                answer.text
            );
            answer.body["number"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(numbers, [1, 2]);
    let history = get(address, "/api/v1/history");
    let history = history.body["items"].as_array().unwrap_or_else(|| panic!("{}", history.text)).clone();
    let told = history.iter().filter(|event| event["type"] == "command" && event["by"] == "ada").count();
    assert_eq!(told, 2);
}

/// Live events after a number: `(id, name)` of the first `count`.
fn listen(address: SocketAddr, last: Option<u64>, count: usize) -> Vec<(Option<u64>, String)> {
    let mut stream = connect(address);
    let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
    stream
        .write_all(format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{last}\r\n").as_bytes())
        .unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(head(&mut reader), 200);
    let (mut found, mut id, mut name) = (Vec::new(), None, String::new());
    while found.len() < count {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended");
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("id: ") {
            id = Some(text.parse().unwrap());
        } else if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if line.is_empty() && !name.is_empty() {
            found.push((id.take(), std::mem::take(&mut name)));
        }
    }
    found
}

fn events(address: SocketAddr) {
    // Without a number it begins now, with the present state.
    assert_eq!(listen(address, None, 1), [(None, "state".to_owned())]);
    // With one, everything after it, in order, without a gap, and then the present state.
    let newest = get(address, "/api/v1/history?limit=1").body["items"][0]["number"].as_u64().unwrap();
    let resumed = listen(address, Some(newest - 4), 5);
    let ids: Vec<_> = resumed.iter().filter_map(|(id, _)| *id).collect();
    assert_eq!(ids, (newest - 3..=newest).collect::<Vec<_>>());
    assert_eq!(resumed[4], (None, "state".to_owned()));
}
