//! Fetching, movements and the errors of a repository that is not as it should be.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use common::{World, at};
use drydock_source::{
    Access, Cancel, Credentials, ErrorKind, Mirror, Movement, ReadOptions, Reference, Secret, SourceError,
    SourceSpec, init_repository,
};

fn fetch(world: &World, spec: &SourceSpec) -> Result<String, SourceError> {
    let mirror = Mirror::open_or_create(&world.mirror(), spec)?;
    mirror.fetch(&Access::default(), &Cancel::default()).map(|fetched| fetched.commit)
}

fn movement(world: &World, from: &str, to: &str) -> Movement {
    Mirror::open_or_create(&world.mirror(), &world.main()).unwrap().movement(from, to).unwrap()
}

#[test]
fn a_fetch_brings_the_commit_and_its_files() {
    let world = World::new(&[("fleet/a.yaml", "a: 1\r\n"), ("README.md", "x")]);
    let mirror = Mirror::open_or_create(&world.mirror(), &world.main()).unwrap();
    let fetched = mirror.fetch(&Access::default(), &Cancel::default()).unwrap();
    assert_eq!(fetched.commit, world.head());
    assert!(fetched.objects >= 4, "{fetched:?}");

    let snapshot = mirror.read_tree(&fetched.commit, "fleet", &ReadOptions::default()).unwrap();
    assert_eq!(snapshot.files.len(), 1);
    assert_eq!(snapshot.file("fleet/a.yaml").unwrap().bytes, b"a: 1\r\n", "bytes as committed");
    assert_eq!(snapshot.commit.id.len(), 40);
    assert!(snapshot.commit.id.starts_with(&snapshot.commit.short));
    assert_eq!(snapshot.commit.author_name, "Ada Example");
    assert_eq!(snapshot.commit.author_email, "ada@fleet.example");
    assert_eq!(snapshot.commit.time, at(1_000));
    assert_eq!(snapshot.commit.summary, "first");
    assert_eq!(snapshot.commit.message, "first\n\nbody");

    // Nothing new costs no object, and the mirror opens again.
    let mirror = Mirror::open_or_create(&world.mirror(), &world.main()).unwrap();
    let again = mirror.fetch(&Access::default(), &Cancel::default()).unwrap();
    assert_eq!((again.objects, again.bytes, again.commit), (0, 0, fetched.commit));
}

#[test]
fn file_addresses_are_fetched_too() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let url = format!("file://{}", world.remote().display());
    let spec = SourceSpec::new(&url, Reference::default(), "", Duration::from_secs(60)).unwrap();
    assert_eq!(fetch(&world, &spec).unwrap(), world.head());
}

#[test]
fn movements_are_told_apart_by_ancestry() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let first = fetch(&world, &world.main()).unwrap();
    assert_eq!(movement(&world, &first, &first), Movement::Unchanged);

    world.commit("a.yaml", "a: 2");
    world.commit("a.yaml", "a: 3");
    let third = fetch(&world, &world.main()).unwrap();
    assert_eq!(
        movement(&world, &first, &third),
        Movement::FastForward { from: first.clone(), to: third.clone() }
    );

    world.force(&first);
    let back = fetch(&world, &world.main()).unwrap();
    assert_eq!(back, first, "the remote's answer, not the newer head in the mirror");
    assert_eq!(movement(&world, &third, &back), Movement::Backwards { from: third.clone(), to: back });

    world.commit("a.yaml", "a: other");
    let other = fetch(&world, &world.main()).unwrap();
    assert_eq!(movement(&world, &third, &other), Movement::Rewritten { from: third, to: other });
}

#[test]
fn a_commit_that_vanished_is_a_rewrite() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let head = fetch(&world, &world.main()).unwrap();
    let gone = "1234567890123456789012345678901234567890".to_owned();
    assert_eq!(movement(&world, &gone, &head), Movement::Rewritten { from: gone.clone(), to: head.clone() });
    assert!(matches!(movement(&world, "not an id", &head), Movement::Rewritten { .. }));
    let mirror = Mirror::open_or_create(&world.mirror(), &world.main()).unwrap();
    assert_eq!(
        mirror.read_tree(&gone, "", &ReadOptions::default()).unwrap_err().kind(),
        ErrorKind::CommitGone
    );
    assert_eq!(mirror.movement(&head, &gone).unwrap_err().kind(), ErrorKind::CommitGone);
}

#[test]
fn tags_and_pinned_commits_resolve() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let first = world.head();
    let repo = world.repo();
    let who = git2::Signature::new("A", "a@x", &git2::Time::new(0, 0)).unwrap();
    let target = repo.find_object(git2::Oid::from_str(&first).unwrap(), None).unwrap();
    repo.tag("annotated", &target, &who, "words", false).unwrap();
    repo.tag_lightweight("light", &target, false).unwrap();
    let blob = repo.find_object(repo.blob(b"x").unwrap(), None).unwrap();
    repo.tag_lightweight("blob", &blob, false).unwrap();
    world.commit("a.yaml", "a: 2");

    for name in ["annotated", "light"] {
        assert_eq!(fetch(&world, &world.spec(Reference::Tag(name.into()), "")).unwrap(), first, "{name}");
        // A name alone is a branch, or else a tag.
        assert_eq!(fetch(&world, &world.spec(Reference::Branch(name.into()), "")).unwrap(), first, "{name}");
    }
    let error = fetch(&world, &world.spec(Reference::Tag("blob".into()), "")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RefNotFound, "{error}");

    let pinned = world.spec(Reference::Commit(first.clone()), "");
    assert_eq!(fetch(&world, &pinned).unwrap(), first);
    // Once here, a pinned commit needs no remote.
    std::fs::remove_dir_all(world.remote()).unwrap();
    assert_eq!(fetch(&world, &pinned).unwrap(), first);
}

#[test]
fn a_pinned_commit_comes_with_the_branch_that_holds_it() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let pinned = world.spec(Reference::Commit(world.head()), "");
    assert_eq!(fetch(&world, &pinned).unwrap(), world.head());
    let gone = world.spec(Reference::Commit("ab".repeat(20)), "");
    assert_eq!(fetch(&world, &gone).unwrap_err().kind(), ErrorKind::CommitGone);
}

#[test]
fn missing_things_are_told_apart() {
    let world = World::new(&[("fleet/a.yaml", "a: 1"), ("docs/x.md", "x")]);
    let branch = world.spec(Reference::Branch("gone".into()), "");
    let error = fetch(&world, &branch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RefNotFound);
    assert!(error.to_string().ends_with("has no branch gone"), "{error}");

    let head = fetch(&world, &world.main()).unwrap();
    let mirror = Mirror::open_or_create(&world.mirror(), &world.main()).unwrap();
    let read = |path: &str| mirror.read_tree(&head, path, &ReadOptions::default()).unwrap_err().kind();
    assert_eq!(read("nowhere"), ErrorKind::PathNotFound);
    assert_eq!(read("fleet/a.yaml"), ErrorKind::PathNotFound);
    assert_eq!(read("docs"), ErrorKind::EmptyTree);
    assert_eq!(read("../x"), ErrorKind::InvalidSource);

    std::fs::remove_dir_all(world.remote()).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap_err().kind(), ErrorKind::Unreachable);
    std::fs::create_dir_all(world.remote()).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap_err().kind(), ErrorKind::Unreachable);
    git2::Repository::init(world.remote()).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap_err().kind(), ErrorKind::EmptyRepository);
}

#[test]
fn a_branch_that_becomes_a_folder_of_branches_does_not_confuse_the_mirror() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let repo = world.repo();
    let head = repo.head().unwrap().peel_to_commit().unwrap();
    repo.branch("team", &head, false).unwrap();
    assert!(fetch(&world, &world.spec(Reference::Branch("team".into()), "")).is_ok());
    repo.find_branch("team", git2::BranchType::Local).unwrap().delete().unwrap();
    repo.branch("team/gpu", &head, false).unwrap();
    assert_eq!(
        fetch(&world, &world.spec(Reference::Branch("team".into()), "")).unwrap_err().kind(),
        ErrorKind::RefNotFound
    );
    assert!(fetch(&world, &world.spec(Reference::Branch("team/gpu".into()), "")).is_ok());
}

#[test]
fn acceptance_is_compare_and_swap_and_survives_reopening() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    let first = fetch(&world, &world.main()).unwrap();
    world.commit("a.yaml", "a: 2");
    let second = fetch(&world, &world.main()).unwrap();
    let mirror = || Mirror::open_or_create(&world.mirror(), &world.main()).unwrap();
    assert_eq!(mirror().accepted(), None);
    assert!(mirror().accept(None, &first).unwrap());
    assert!(!mirror().accept(None, &second).unwrap(), "someone accepted already");
    assert!(mirror().accept(Some(&first), &second).unwrap());
    assert!(!mirror().accept(Some(&first), &first).unwrap(), "a late look must not turn the clock back");
    assert_eq!(mirror().accepted(), Some(second));
    assert_eq!(mirror().accept(None, &"ab".repeat(20)).unwrap_err().kind(), ErrorKind::CommitGone);
    // Another reference has its own record.
    let tag = Mirror::open_or_create(&world.mirror(), &world.spec(Reference::Tag("v".into()), "")).unwrap();
    assert_eq!(tag.accepted(), None);
}

#[test]
fn a_damaged_mirror_is_made_anew_and_a_foreign_folder_is_left_alone() {
    let world = World::new(&[("a.yaml", "a: 1")]);
    fetch(&world, &world.main()).unwrap();
    std::fs::remove_file(world.mirror().join("HEAD")).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap(), world.head());
    std::fs::remove_file(world.mirror().join("HEAD")).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap(), world.head(), "twice");

    let foreign = world.dir.path().join("foreign");
    common::write(&foreign, "thesis.txt", b"years of work");
    let error = Mirror::open_or_create(&foreign, &world.main()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidSource);
    assert!(foreign.join("thesis.txt").exists());
}

/// Answers every request on a loopback port with one HTTP response.
fn answering(response: &'static str) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or(0);
            if request[..read].starts_with(b"STOP") {
                return;
            }
            let _ = stream.write_all(response.as_bytes());
        }
    });
    (port, server)
}

fn stop(port: u16, server: std::thread::JoinHandle<()>) {
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"STOP").unwrap();
    server.join().unwrap();
}

#[test]
fn http_answers_have_their_meaning_and_no_text_holds_a_secret() {
    let basic = Credentials::Basic { username: "robot".into(), secret: Secret::new("hunter2hunter2") };
    let cases = [
        (
            "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ErrorKind::Auth,
        ),
        ("HTTP/1.1 403 hunter2hunter2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ErrorKind::Auth),
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ErrorKind::Unreachable),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ErrorKind::Unreachable),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: hunter2hunter2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ErrorKind::Unreachable,
        ),
    ];
    for (response, kind) in cases {
        let (port, server) = answering(response);
        for (url, credentials) in [
            (format!("http://127.0.0.1:{port}/x.git"), Credentials::Anonymous),
            (format!("http://127.0.0.1:{port}/x.git"), basic.clone()),
            (
                format!("http://robot:hunter2hunter2@127.0.0.1:{port}/x.git?token=hunter2hunter2"),
                Credentials::Anonymous,
            ),
        ] {
            let world = tempfile::tempdir().unwrap();
            let spec = SourceSpec::new(&url, Reference::default(), "", Duration::from_secs(60)).unwrap();
            let mirror = Mirror::open_or_create(&world.path().join("m"), &spec).unwrap();
            let secretive = credentials != Credentials::Anonymous || url.contains('@');
            let access = Access { credentials, known_hosts: None };
            let error = mirror.fetch(&access, &Cancel::default()).unwrap_err();
            assert_eq!(error.kind(), kind, "{response} {error:?}");
            for text in [error.to_string(), format!("{error:?}"), format!("{spec:?}"), format!("{access:?}")]
            {
                assert!(!(secretive && text.contains("hunter2")), "{text}");
            }
            let config = std::fs::read_to_string(world.path().join("m/config")).unwrap();
            assert!(!config.contains("hunter2"), "credentials on disk: {config}");
        }
        stop(port, server);
    }
}

#[test]
fn a_closed_port_is_unreachable_and_a_cancelled_fetch_times_out() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    for url in [format!("http://127.0.0.1:{port}/x"), format!("ssh://git:hunter2@127.0.0.1:{port}/x")] {
        let spec = SourceSpec::new(&url, Reference::default(), "", Duration::from_secs(60)).unwrap();
        let mirror = Mirror::open_or_create(&dir.path().join("m"), &spec).unwrap();
        let error = mirror.fetch(&Access::default(), &Cancel::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        let cancel = Cancel::default();
        cancel.cancel();
        assert_eq!(mirror.fetch(&Access::default(), &cancel).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}

#[test]
fn the_first_commit_of_an_empty_remote_arrives() {
    let world = World { dir: tempfile::tempdir().unwrap() };
    let dir = world.remote();
    git2::Repository::init_bare(&dir).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap_err().kind(), ErrorKind::EmptyRepository);
    std::fs::remove_dir_all(&dir).unwrap();
    let files = [("a.yaml".to_owned(), b"a: 1".to_vec())];
    let id = init_repository(&dir, &files, &common::author(), "first", at(1)).unwrap();
    assert_eq!(fetch(&world, &world.main()).unwrap(), id);
}
