//! Commands against a running drydock, over its API; then it is killed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::drydock;

/// Killed at the end, however the test ends.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn people_ask_and_say_things_and_a_killed_one_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_drydock"))
        // The fleet's clock stands nearly still, so that nothing ends while the test looks.
        .args(["demo", "--dir", "d", "--speed", "1", "--listen", "127.0.0.1:0"])
        .current_dir(dir.path())
        .env_clear()
        .env("HOME", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut demo = Demo(child);
    let api = lines.find(|line| line.contains("http://")).unwrap();
    let server = api.split_whitespace().last().unwrap().to_owned();
    assert!(lines.any(|line| line.contains("batch 1 opens for 1 unit")));

    let at = ["--dir", "d"];
    let run = |args: &[&str]| drydock(dir.path(), &[args, &at].concat());
    let status = run(&["status"]);
    assert!(status.code == 0 && status.err.is_empty(), "{}", status.err);
    assert!(status.out.contains("stage-driver-580.95.05   Running"), "{}", status.out);
    let rollout = "stage-driver-580.95.05";
    let paused = run(&["pause", rollout, "--reason", "a look", "--by", "ada"]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    assert!(paused.out.contains("no new nodes start"), "{}", paused.out);
    assert_eq!(run(&["resume", rollout]).code, 0);
    let wave = run(&["approve", rollout, "nope", "--team", "gpu-sre"]);
    assert!(wave.code == 66 && wave.err.contains("its waves are lab, dev"), "{}", wave.err);
    let retry = run(&["retry", "r-00000000", "--reason", "try"]);
    assert!(retry.code == 66 && retry.err.contains("isn't quarantined"), "{}", retry.err);
    let history = run(&["history"]);
    assert!(history.out.contains("ada says pause stage-driver-580.95.05 (a look)"), "{}", history.out);
    let why = run(&["why", "c08-research/h100-research-003", "--zone", "Europe/Berlin"]);
    assert!(why.out.contains("opens Mon 22:00 Europe/Berlin"), "{}", why.out);
    let nodes = run(&["status", "--nodes", "--pool", "h100-stage", "--format", "json"]).json();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 4);
    let denied = drydock(dir.path(), &["pause", rollout, "--server", &server, "--token", "wrong"]);
    assert!(denied.code == 77 && denied.err.contains("DRYDOCK_TOKEN"), "{}", denied.err);
    let second = drydock(dir.path(), &["demo", "--once", "good", "--dir", "d"]);
    assert!(second.code == 75 && second.err.contains("another drydock"), "{}", second.err);

    demo.0.kill().unwrap();
    demo.0.wait().unwrap();
    let after = run(&["status"]);
    assert_eq!(after.code, 0, "{}", after.err);
    assert!(after.err.contains("no drydock runs in d"), "{}", after.err);
    assert!(after.out.contains("standing still"), "{}", after.out);
}
