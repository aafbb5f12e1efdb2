//! Random calendars, and instants at which clocks change.

use drydock_sim::Draw;
use drydock_spec::Period;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::documents::{Pool, one_of};

/// First instants of runs: a plain Monday, and days around changes of clocks in Europe, America and Australia.
pub const STARTS: [&str; 6] = [
    "2026-03-02T09:00:00Z",
    "2026-03-07T20:00:00Z",
    "2026-03-28T21:00:00Z",
    "2026-04-04T10:00:00Z",
    "2026-10-24T22:00:00Z",
    "2026-10-31T23:00:00Z",
];

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"];

/// The first instant of a run.
pub fn start(draw: Draw) -> Timestamp {
    let text = one_of(draw.text("start"), &STARTS);
    match text.parse() {
        Ok(at) => at,
        Err(error) => panic!("{text}: {error}"),
    }
}

pub fn window(draw: Draw, scope: Value) -> Value {
    let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let all = draw.text("every day").chance(0.5);
    let days: Vec<&str> =
        days.into_iter().filter(|day| !all && draw.text("day").text(day).chance(0.5)).collect();
    json!({
        "days": days,
        "from": format!("{:02}:{:02}", draw.text("hour").between(0, 23), draw.text("quarter").between(0, 3) * 15),
        "for": format!("{}h", draw.text("length").between(2, 20)),
        "timeZone": one_of(draw.text("zone"), &ZONES),
        "scope": scope,
    })
}

/// What a window or a freeze is about: of every kind there is.
fn calendar_scope(draw: Draw, pools: &[Pool]) -> Value {
    if draw.text("scoped").chance(0.6) { super::documents::scope(draw, pools) } else { json!({}) }
}

fn freeze(draw: Draw, start: Timestamp) -> Value {
    let from = Period::from_mins(draw.text("from").between(0, 600)).after(start);
    let to = Period::from_mins(draw.text("length").between(10, 2000)).after(from);
    let allow: Vec<&str> = ["rollback", "security"]
        .into_iter()
        .filter(|word| draw.text("allow").text(word).chance(0.3))
        .collect();
    json!({"name": "freeze", "from": from.to_string(), "to": to.to_string(), "allow": allow})
}

pub fn calendars(draw: Draw, pools: &[Pool], start: Timestamp) -> Map<String, Value> {
    let mut all = Map::new();
    if draw.text("any").chance(0.35) {
        all.insert("calendar".to_owned(), calendar(draw, pools, start));
    }
    all
}

pub fn calendar(draw: Draw, pools: &[Pool], start: Timestamp) -> Value {
    let windows: Vec<Value> = (0..draw.text("windows").between(0, 2))
        .map(|n| {
            let draw = draw.text("window").number(n);
            window(draw, calendar_scope(draw.text("scope"), pools))
        })
        .collect();
    let freezes: Vec<Value> = (0..draw.text("freezes").between(0, 1))
        .map(|n| {
            let draw = draw.text("freeze").number(n);
            let mut freeze = freeze(draw, start);
            freeze["scope"] = calendar_scope(draw.text("scope"), pools);
            freeze
        })
        .collect();
    json!({
        "windows": windows,
        "freezes": freezes,
        "inFlightAtClose": one_of(draw.text("close"), &["finish", "returnIfNotApplied"]),
        "mustFit": one_of(draw.text("fit"), &["no", "p50", "p90"]),
    })
}
