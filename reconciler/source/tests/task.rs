//! The task: what stays in force while a source breaks, moves back and mends. Tests wait for states, never for time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{World, at, write};
use drydock_source::{
    Access, Ask, Clock, ErrorKind, Found, GitLook, Look, Movement, Pace, ReadOptions, Reference,
    RewritePolicy, Snapshot, SourceError, SourceHandle, SourceState, SourceTask, TaskOptions, WorktreeLook,
    read_worktree, watch_repository, watch_worktree,
};
use tokio::sync::{Notify, oneshot, watch};

const HOUR: Duration = Duration::from_secs(3600);

/// No waiting between looks that a test asks for, and no look it did not ask for while the source is well.
fn options() -> TaskOptions {
    let ticks = AtomicI64::new(0);
    let clock: Clock = Arc::new(move || at(ticks.fetch_add(1, Ordering::SeqCst)));
    let mut options = TaskOptions::new(HOUR, 1, clock);
    options.pace = Pace {
        poll: HOUR,
        jitter_percent: 0,
        backoff_first: Duration::from_millis(1),
        backoff_cap: Duration::from_millis(1),
        least_gap: Duration::ZERO,
    };
    options
}

/// A running task, stopped when dropped.
struct Running {
    handle: SourceHandle,
    state: watch::Receiver<SourceState>,
    _stop: oneshot::Sender<()>,
}

impl Running {
    fn start(look: impl Look, options: TaskOptions) -> Self {
        let (task, handle) = SourceTask::new(look, options);
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(task.run(async move {
            let _ = stopped.await;
        }));
        let state = handle.state();
        Self { handle, state, _stop: stop }
    }

    /// The first state that fits.
    async fn until(&mut self, fits: impl FnMut(&SourceState) -> bool) -> SourceState {
        tokio::time::timeout(Duration::from_secs(60), self.state.wait_for(fits))
            .await
            .expect("no such state")
            .unwrap()
            .clone()
    }

    /// Asks for a look and returns the state after one that started later than the asking.
    async fn look(&mut self) -> SourceState {
        let before = self.state.borrow().last_attempt.as_ref().map(|attempt| attempt.at);
        self.handle.wake();
        self.until(|state| state.last_attempt.as_ref().map(|attempt| attempt.at) > before).await
    }
}

fn git(world: &World) -> GitLook {
    GitLook::new(world.mirror(), world.main())
}

fn in_force(state: &SourceState) -> &str {
    state.last_good.as_ref().map_or("nothing", |snapshot| snapshot.commit.id.as_str())
}

fn failure(state: &SourceState) -> Option<ErrorKind> {
    state.last_attempt.as_ref().and_then(|attempt| attempt.result.as_ref().err()).map(|failure| failure.kind)
}

#[tokio::test]
async fn the_last_good_state_survives_every_breakage_and_the_next_good_commit_mends_it() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let mut task = Running::start(git(&world), options());
    let state = task.until(|state| state.last_good.is_some()).await;
    assert_eq!((in_force(&state), state.generation, failure(&state)), (first.as_str(), 1, None));
    let seen = state.last_fetch_ok_at;
    assert!(seen.is_some());

    // Every document removed.
    world.remove("a.yaml");
    let state = task.look().await;
    assert_eq!((in_force(&state), failure(&state)), (first.as_str(), Some(ErrorKind::EmptyTree)));
    assert!(state.last_fetch_ok_at > seen, "the repository did answer");
    assert_eq!(state.failures, 1);

    // The branch deleted.
    let repo = world.repo();
    let broken = repo.head().unwrap().peel_to_commit().unwrap();
    repo.branch("elsewhere", &broken, false).unwrap();
    repo.set_head("refs/heads/elsewhere").unwrap();
    repo.find_branch("main", git2::BranchType::Local).unwrap().delete().unwrap();
    let state = task.look().await;
    assert_eq!((in_force(&state), failure(&state)), (first.as_str(), Some(ErrorKind::RefNotFound)));

    // The repository away; it fails again and again by itself.
    let answered = state.last_fetch_ok_at;
    let away = world.dir.path().join("away");
    std::fs::rename(world.remote(), &away).unwrap();
    let before = state.failures;
    task.look().await;
    let state = task.until(|state| state.failures > before + 2).await;
    assert_eq!((in_force(&state), failure(&state)), (first.as_str(), Some(ErrorKind::Unreachable)));
    assert_eq!(state.last_fetch_ok_at, answered);

    // An empty repository in its place.
    git2::Repository::init(world.remote()).unwrap();
    let state = task.until(|state| failure(state) == Some(ErrorKind::EmptyRepository)).await;
    assert_eq!((in_force(&state), state.generation), (first.as_str(), 1));

    // Back, and mended.
    std::fs::remove_dir_all(world.remote()).unwrap();
    std::fs::rename(&away, world.remote()).unwrap();
    let repo = world.repo();
    repo.branch("main", &repo.head().unwrap().peel_to_commit().unwrap(), false).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    let good = world.commit("a.yaml", "2");
    task.handle.wake();
    let state = task.until(|state| in_force(state) == good).await;
    assert_eq!((state.generation, state.failures, failure(&state)), (2, 0, None));
    assert_eq!(state.last_good.unwrap().file("a.yaml").unwrap().bytes, b"2");

    // A look that finds nothing new changes nothing.
    let state = task.look().await;
    assert_eq!((state.generation, state.last_attempt.unwrap().result), (2, Ok(good)));
}

#[tokio::test]
async fn rewritten_history_is_held_until_that_very_commit_is_approved() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    let mut task = Running::start(git(&world), options());
    task.until(|state| in_force(state) == second).await;

    world.force(&first);
    let other = world.commit("a.yaml", "other");
    let state = task.look().await;
    assert_eq!(in_force(&state), second);
    assert_eq!(state.held, Some(Movement::Rewritten { from: second.clone(), to: other.clone() }));
    assert_eq!(state.last_attempt.unwrap().result, Ok(other.clone()));

    // A yes for something that is gone again does not count for what stands there now.
    world.force(&first);
    let third = world.commit("a.yaml", "third");
    task.handle.approve(&other);
    let state = task.until(|state| state.held.as_ref().and_then(Movement::to) == Some(&third)).await;
    assert_eq!(in_force(&state), second);

    task.handle.approve(&third);
    let state = task.until(|state| in_force(state) == third).await;
    assert_eq!((state.held, state.generation), (None, 2));

    // The yes is used up: an older head with that very commit is held later.
    let fourth = world.commit("a.yaml", "fourth");
    assert_eq!(in_force(&task.look().await), fourth);
    world.force(&third);
    let state = task.look().await;
    assert_eq!(in_force(&state), fourth);
    assert_eq!(state.held, Some(Movement::Backwards { from: fourth.clone(), to: third }));
}

#[tokio::test]
async fn an_older_head_is_never_applied_and_the_hold_ends_when_the_branch_comes_back() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    let mut task = Running::start(git(&world).on_rewrite(RewritePolicy::Follow), options());
    task.until(|state| in_force(state) == second).await;

    world.force(&first);
    let state = task.look().await;
    assert_eq!(in_force(&state), second);
    assert_eq!(state.held, Some(Movement::Backwards { from: second.clone(), to: first }));

    world.force(&second);
    let state = task.look().await;
    assert_eq!((state.held.clone(), in_force(&state), state.generation), (None, second.as_str(), 1));
    let third = world.commit("a.yaml", "3");
    assert_eq!(in_force(&task.look().await), third);
}

#[tokio::test]
async fn rewritten_history_is_followed_where_the_policy_says_so() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    let mut task = Running::start(git(&world).on_rewrite(RewritePolicy::Follow), options());
    task.until(|state| in_force(state) == second).await;
    world.force(&first);
    let other = world.commit("a.yaml", "other");
    let state = task.look().await;
    assert_eq!((in_force(&state), state.held.clone()), (other.as_str(), None));
}

#[tokio::test]
async fn a_restart_restores_what_was_in_force_and_still_notices_a_rewrite() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    let mut task = Running::start(git(&world), options());
    task.until(|state| in_force(state) == second).await;
    drop(task);

    let away = world.dir.path().join("away");
    std::fs::rename(world.remote(), &away).unwrap();
    let mut task = Running::start(git(&world), options());
    let state = task.until(|state| failure(state) == Some(ErrorKind::Unreachable)).await;
    assert_eq!((in_force(&state), state.generation, state.last_fetch_ok_at), (second.as_str(), 1, None));
    drop(task);

    std::fs::rename(&away, world.remote()).unwrap();
    world.force(&first);
    let other = world.commit("a.yaml", "other");
    let mut task = Running::start(git(&world), options());
    let state = task.until(|state| state.held.is_some()).await;
    assert_eq!(in_force(&state), second);
    assert_eq!(state.held, Some(Movement::Rewritten { from: second, to: other }));
}

#[tokio::test]
async fn a_lost_mirror_still_has_the_record_outside_to_compare_with() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    world.force(&first);
    // The older head was never fetched together with the newer one, so the newer one is unknown here.
    let mut recorded = options();
    recorded.baseline = Some(second.clone());
    let fresh = World { dir: tempfile::tempdir().unwrap() };
    git2::build::RepoBuilder::new()
        .clone_local(git2::build::CloneLocal::None)
        .clone(world.remote().to_str().unwrap(), &fresh.remote())
        .unwrap();
    let mut task = Running::start(git(&fresh), recorded.clone());
    let state = task.until(|state| state.held.is_some()).await;
    assert_eq!(
        (in_force(&state), state.held.clone()),
        ("nothing", Some(Movement::Rewritten { from: second, to: first.clone() }))
    );
    drop(task);

    recorded.baseline = Some(first.clone());
    let mut task = Running::start(git(&fresh), recorded);
    task.until(|state| in_force(state) == first).await;
}

#[tokio::test]
async fn a_pinned_commit_goes_where_it_is_told() {
    let world = World::new(&[("a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("a.yaml", "2");
    let mut recorded = options();
    recorded.baseline = Some(second);
    let look = GitLook::new(world.mirror(), world.spec(Reference::Commit(first.clone()), ""));
    let mut task = Running::start(look, recorded);
    let state = task.until(|state| in_force(state) == first).await;
    assert_eq!(state.held, None);
}

#[tokio::test]
async fn credentials_are_asked_for_at_every_look_and_a_refusal_is_not_remembered() {
    let world = World::new(&[("a.yaml", "1")]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let look = git(&world).with_access(move || match counter.fetch_add(1, Ordering::SeqCst) {
        0 => Err(SourceError::Auth { url: "x".into(), text: "the token expired".into() }),
        _ => Ok(Access::default()),
    });
    let mut task = Running::start(look, options());
    task.until(|state| state.last_good.is_some()).await;
    assert!(calls.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn polling_alone_finds_a_commit() {
    let world = World::new(&[("a.yaml", "1")]);
    let mut quick = options();
    quick.pace.poll = Duration::from_millis(1);
    let mut task = Running::start(git(&world), quick);
    task.until(|state| state.last_good.is_some()).await;
    let second = world.commit("a.yaml", "2");
    task.until(|state| in_force(state) == second).await;
}

/// A source scripted by a test.
struct Scripted<F>(F);

impl<F: Fn(&Ask) -> Result<Found, SourceError> + Send + Sync + 'static> Look for Scripted<F> {
    fn restore(&self, _ask: &Ask) -> Result<Option<Snapshot>, SourceError> {
        Ok(None)
    }

    fn look(&self, ask: &Ask) -> Result<Found, SourceError> {
        (self.0)(ask)
    }
}

fn some_snapshot() -> Snapshot {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", b"1");
    read_worktree(dir.path(), "", &ReadOptions::default(), at(0)).unwrap()
}

#[tokio::test]
async fn a_hung_look_is_left_behind_and_the_source_recovers() {
    let snapshot = some_snapshot();
    let hang = Arc::new(AtomicBool::new(false));
    let (release, held) = mpsc::channel::<()>();
    let (hangs, held) = (Arc::clone(&hang), Mutex::new(held));
    let look = Scripted(move |_: &Ask| {
        if hangs.load(Ordering::SeqCst) {
            // Ends when the test lets go of the other side.
            let _ = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
        }
        Ok(Found::New(snapshot.clone()))
    });
    let mut short = options();
    short.deadline = Duration::from_millis(50);
    let mut task = Running::start(look, short);
    task.until(|state| state.last_good.is_some()).await;
    hang.store(true, Ordering::SeqCst);
    task.handle.wake();
    // More failures than looks may hang: the bound is passed and reported as the same kind.
    let state = task.until(|state| state.failures > 5).await;
    assert_eq!((failure(&state), state.generation), (Some(ErrorKind::TimedOut), 1));
    assert!(state.last_good.is_some());
    hang.store(false, Ordering::SeqCst);
    drop(release);
    let state = task.until(|state| state.failures == 0).await;
    assert_eq!((failure(&state), state.generation), (None, 1));
}

#[tokio::test]
async fn a_wake_up_during_a_look_is_not_lost_and_many_become_one() {
    let snapshot = some_snapshot();
    let calls = Arc::new(AtomicUsize::new(0));
    let (entered, mut entries) = tokio::sync::mpsc::unbounded_channel();
    let (go, gate) = mpsc::channel::<()>();
    let (counter, gate) = (Arc::clone(&calls), Mutex::new(gate));
    let look = Scripted(move |_: &Ask| {
        counter.fetch_add(1, Ordering::SeqCst);
        let _ = entered.send(());
        let _ = gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
        Ok(Found::New(snapshot.clone()))
    });
    let mut slow = options();
    slow.deadline = HOUR;
    let mut task = Running::start(look, slow);
    entries.recv().await.unwrap();
    for _ in 0..10 {
        task.handle.wake();
    }
    go.send(()).unwrap();
    entries.recv().await.unwrap();
    go.send(()).unwrap();
    let second = task.until(|state| state.last_attempt.as_ref().is_some_and(|a| a.at >= at(3))).await;
    assert!(second.last_good.is_some());
    // A third look starts only when asked for.
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    task.handle.wake();
    entries.recv().await.unwrap();
    go.send(()).unwrap();
}

#[tokio::test]
async fn shutdown_ends_the_task_and_cancels_a_look_in_progress() {
    let (entered, entry) = oneshot::channel();
    let (ended, end) = oneshot::channel();
    let signals = Mutex::new(Some((entered, ended)));
    let (stop, stopped) = oneshot::channel::<()>();
    let look = Scripted(move |ask: &Ask| {
        let Some((entered, ended)) = signals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
        else {
            return Err(SourceError::TimedOut { after: HOUR });
        };
        let _ = entered.send(());
        while !ask.cancel.is_cancelled() {
            std::thread::yield_now();
        }
        let _ = ended.send(());
        Err(SourceError::TimedOut { after: HOUR })
    });
    let mut slow = options();
    slow.deadline = HOUR;
    let (task, _handle) = SourceTask::new(look, slow);
    let running = tokio::spawn(task.run(async move {
        let _ = stopped.await;
    }));
    entry.await.unwrap();
    stop.send(()).unwrap();
    running.await.unwrap();
    end.await.unwrap();
}

#[tokio::test]
async fn a_work_tree_changes_generation_only_when_its_files_do() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", b"1");
    let mut task = Running::start(
        WorktreeLook::new(dir.path().to_path_buf(), String::new(), ReadOptions::default()),
        options(),
    );
    let state = task.until(|state| state.last_good.is_some()).await;
    assert_eq!((in_force(&state), state.generation), ("worktree", 1));
    assert_eq!(task.look().await.generation, 1);
    write(dir.path(), "a.yaml", b"2");
    let state = task.look().await;
    assert_eq!(state.generation, 2);
    std::fs::remove_file(dir.path().join("a.yaml")).unwrap();
    let state = task.look().await;
    assert_eq!((failure(&state), state.generation), (Some(ErrorKind::EmptyTree), 2));
    assert_eq!(state.last_good.unwrap().file("a.yaml").unwrap().bytes, b"2");
}

async fn woken(wake: &Notify) {
    tokio::time::timeout(Duration::from_secs(60), wake.notified()).await.expect("no wake-up");
}

#[tokio::test]
async fn a_local_commit_and_a_saved_file_wake() {
    let world = World::new(&[("a.yaml", "1")]);
    let wake = Arc::new(Notify::new());
    let watching = watch_repository(&world.remote(), Arc::clone(&wake)).unwrap();
    world.commit("a.yaml", "2");
    woken(&wake).await;
    let repo = world.repo();
    repo.branch("other", &repo.head().unwrap().peel_to_commit().unwrap(), false).unwrap();
    woken(&wake).await;
    drop(watching);

    let wake = Arc::new(Notify::new());
    let _watching = watch_worktree(&world.remote(), Arc::clone(&wake)).unwrap();
    write(&world.remote(), "new/b.yaml", b"1");
    woken(&wake).await;

    let nowhere = world.dir.path().join("gone");
    assert!(matches!(watch_repository(&nowhere, Arc::clone(&wake)), Err(SourceError::Unreachable { .. })));
    assert!(matches!(watch_worktree(&nowhere, wake), Err(SourceError::Io { .. })));
}

#[tokio::test]
async fn a_watched_local_repository_reaches_the_state_without_polling() {
    let world = World::new(&[("a.yaml", "1")]);
    let mut task = Running::start(git(&world), options());
    task.until(|state| state.last_good.is_some()).await;
    let _watching = watch_repository(&world.remote(), task.handle.waker()).unwrap();
    let second = world.commit("a.yaml", "2");
    task.until(|state| in_force(state) == second).await;
}
