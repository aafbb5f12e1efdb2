#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
use drydock_sim::*;
use drydock_spec::*;
use std::sync::Arc;
fn files(dir: &std::path::Path, base: &std::path::Path, out: &mut Vec<SourceFile>, repl: &[(&str, &str)]) {
    for e in std::fs::read_dir(dir).unwrap() {
        let p = e.unwrap().path();
        if p.is_dir() { files(&p, base, out, repl) } else if p.extension().is_some_and(|x| x == "yaml") {
            let mut t = std::fs::read_to_string(&p).unwrap();
            for (a, b) in repl { t = t.replace(a, b); }
            out.push(SourceFile { path: p.strip_prefix(base).unwrap().to_str().unwrap().into(), bytes: t.into_bytes() });
        }
    }
}
fn fleet(dir: &str, repl: &[(&str, &str)]) -> Arc<Fleet> {
    let mut out = vec![];
    files(dir.as_ref(), dir.as_ref(), &mut out, repl);
    let l = load(&out);
    for d in &l.diagnostics { if d.severity == Severity::Error { eprintln!("{d}"); } }
    Arc::new(l.fleet.unwrap())
}
fn commit(n: u8, at: jiff::Timestamp, fleet: &Arc<Fleet>) -> Commit {
    Commit { at, fleet: fleet.clone(), commit: drydock_plan::CommitRef { id: format!("{n:040x}"), summary: format!("commit {n}"), author: "a".into(), time: at } }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let dir = &a[1]; let act = &a[2];
    let seed: u64 = a.get(3).map_or(1, |s| s.parse().unwrap());
    let quantum: u64 = a.get(4).map_or(1, |s| s.parse().unwrap());
    let old = fleet(dir, &[("580.95.05", "580.65.06")]);
    let first = fleet(dir, &[]);
    let bad = fleet(dir, &[("580.95.05", "580.126.09")]);
    let good = fleet(dir, &[("580.95.05", "580.105.08")]);
    let fixed = fleet(dir, &[("580.95.05", "580.126.20")]);
    let mut opts = WorldOptions { seed, start: "2026-03-02T17:00:00Z".parse().unwrap(), workload: Some(Workload{gang_nodes:4, ..Default::default()}), ..Default::default() }.running_as(&old);
    let fault = r#"{"badVersion":{"component":"gpu-driver","version":"580.126.09","how":{"readyButBroken":{"check":"driver"}}}}"#;
    match serde_json_like(fault) { Ok(f) => opts.faults.push(f), Err(e) => eprintln!("fault: {e}") }
    if let Some(f) = a.get(5) { let t = std::fs::read_to_string(f).unwrap(); opts.faults.extend(FaultSpec::list(&t).unwrap()); }
    let start = opts.start;
    let world = World::from_fleet(&first, &opts);
    let mut commits = vec![commit(1, start, &first)];
    let d = Period::from_hours(72).after(start);
    match act.as_str() { "good" => {}, "good2" => commits.push(commit(2, d, &good)), "broken" => commits.push(commit(2, d, &bad)), "fixed" => { commits.push(commit(2, d, &bad)); commits.push(commit(3, Period::from_hours(48).after(d), &fixed)); } _ => {} }
    let t = std::time::Instant::now();
    let run = Runner::new(world, Script { commits, commands: vec![] }, RunOptions { quantum: Period::from_secs(quantum), node_lines: std::env::var("NODES").is_ok(), approve_after: Some(Period::from_mins(10)), checked: std::env::var("NOCHECK").is_err(), ..Default::default() }).run();
    let s = &run.summary;
    if std::env::var("TL").is_ok() { for l in &s.timeline { println!("{} {}", l.at, l.text); } }
    let mut s2 = s.clone(); s2.timeline.clear();
    println!("{s2:#?}");
    println!("elapsed {:?}", t.elapsed());
    if std::env::var("REP").is_ok() { println!("{:#?}", run.report); }
}
fn serde_json_like(t: &str) -> Result<FaultSpec, String> { FaultSpec::list(&format!("- {t}\n")).map(|mut v| v.remove(0)).map_err(|e| e.to_string()) }
