//! What is read of a tree, what is passed over, and where it ends; for commits and for work trees.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{World, at, author, write};
use drydock_source::{
    ErrorKind, FindingKind, Limits, ReadOptions, Snapshot, SourceError, WORKTREE, commit_all,
    init_repository, merge_base, read_at, read_worktree,
};
use git2::Oid;

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

fn head(world: &World, path: &str) -> Result<Snapshot, SourceError> {
    read_at(&world.remote(), "HEAD", path, &ReadOptions::default())
}

fn paths(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.files.iter().map(|file| file.path.as_str()).collect()
}

fn findings(snapshot: &Snapshot) -> Vec<(&str, FindingKind)> {
    snapshot.findings.iter().map(|finding| (finding.path.as_str(), finding.kind)).collect()
}

#[test]
fn only_documents_and_owners_are_read_in_path_order() {
    let files = [
        ("fleet/z.yaml", "z"),
        ("fleet/a/b.yml", "b"),
        ("fleet/a.yaml", "a"),
        ("fleet/notes.md", "no"),
        ("fleet/.hidden.yaml", "no"),
        ("fleet/.ci/x.yaml", "no"),
        ("other/x.yaml", "no"),
        (".github/workflows/plan.yaml", "no"),
        (".github/CODEOWNERS", "* @gpu"),
        ("docs/CODEOWNERS", "* @docs"),
    ];
    let world = World::new(&files);
    let expected = [".github/CODEOWNERS", "docs/CODEOWNERS", "fleet/a.yaml", "fleet/a/b.yml", "fleet/z.yaml"];
    let committed = head(&world, "fleet").unwrap();
    assert_eq!(paths(&committed), expected);
    assert!(committed.findings.is_empty());
    let on_disk = read_worktree(&world.remote(), "fleet", &ReadOptions::default(), at(7)).unwrap();
    assert_eq!(on_disk.files, committed.files, "the same rules for both");
    assert_eq!((on_disk.commit.id.as_str(), on_disk.commit.time), (WORKTREE, at(7)));
    assert_eq!(committed.file("fleet/a.yaml").unwrap().bytes, b"a");
    assert_eq!(committed.file("fleet/none.yaml"), None);
}

#[test]
fn pointers_links_and_submodules_are_findings() {
    let world = World::new(&[("ok.yaml", "a: 1"), ("folder/x.yaml", "x"), ("big.yaml", POINTER)]);
    let repo = world.repo();
    let link = |target: &str| repo.blob(target.as_bytes()).unwrap();
    let submodule = Oid::from_str(&world.head()).unwrap();
    world.commit_entries(&[
        ("linked.yaml", 0o120_000, link("ok.yaml")),
        ("to-folder", 0o120_000, link("./folder")),
        ("to-readme", 0o120_000, link("README.md")),
        ("outside", 0o120_000, link("../../etc")),
        ("vendor", 0o160_000, submodule),
    ]);
    let snapshot = head(&world, "").unwrap();
    assert_eq!(paths(&snapshot), ["folder/x.yaml", "ok.yaml"]);
    assert_eq!(
        findings(&snapshot),
        [
            ("big.yaml", FindingKind::LfsPointer),
            ("linked.yaml", FindingKind::Symlink),
            ("to-folder", FindingKind::Symlink),
            ("vendor", FindingKind::Submodule),
        ]
    );
    assert!(snapshot.findings[0].to_string().contains("LFS"));
}

#[test]
fn a_tree_of_nothing_but_findings_is_empty_and_says_what_was_there() {
    let world = World::new(&[("big.yaml", POINTER), ("CODEOWNERS", "* @gpu")]);
    match head(&world, "").unwrap_err() {
        SourceError::EmptyTree { findings, .. } => assert_eq!(findings.len(), 1),
        other => panic!("{other}"),
    }
}

#[cfg(unix)]
#[test]
fn a_work_tree_has_the_same_findings() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "ok.yaml", b"a: 1");
    write(root, "big.yaml", POINTER.as_bytes());
    write(root, "folder/x.yaml", b"x");
    write(root, "vendor/.git", b"gitdir: elsewhere");
    write(root, "vendor/v.yaml", b"v");
    write(root, "dir.yaml/inner.yaml", b"x");
    std::os::unix::fs::symlink("ok.yaml", root.join("linked.yaml")).unwrap();
    std::os::unix::fs::symlink("folder", root.join("to-folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("to-nothing")).unwrap();
    let snapshot = read_worktree(root, "", &ReadOptions::default(), at(0)).unwrap();
    assert_eq!(paths(&snapshot), ["folder/x.yaml", "ok.yaml"]);
    assert_eq!(
        findings(&snapshot),
        [
            ("big.yaml", FindingKind::LfsPointer),
            ("dir.yaml", FindingKind::NotAFile),
            ("linked.yaml", FindingKind::Symlink),
            ("to-folder", FindingKind::Symlink),
            ("vendor", FindingKind::Submodule),
        ]
    );
}

#[test]
fn a_work_tree_leaves_out_what_git_ignores() {
    let world = World::new(&[("fleet/a.yaml", "a"), (".gitignore", "build/\nlocal.yaml\n")]);
    write(&world.remote(), "fleet/build/out.yaml", b"no");
    write(&world.remote(), "fleet/local.yaml", b"no");
    write(&world.remote(), "fleet/new.yaml", b"uncommitted");
    let options = ReadOptions::default();
    assert_eq!(
        paths(&read_worktree(&world.remote(), "", &options, at(0)).unwrap()),
        ["fleet/a.yaml", "fleet/new.yaml"]
    );
    // The folder itself may be the root given.
    assert_eq!(
        paths(&read_worktree(&world.remote().join("fleet"), "", &options, at(0)).unwrap()),
        ["a.yaml", "new.yaml"]
    );
}

#[test]
fn work_tree_errors_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let kind = |root: &str, path: &str| {
        read_worktree(&dir.path().join(root), path, &ReadOptions::default(), at(0)).unwrap_err().kind()
    };
    assert_eq!(kind("gone", ""), ErrorKind::Unreachable);
    assert_eq!(kind("", "gone"), ErrorKind::PathNotFound);
    assert_eq!(kind("", ""), ErrorKind::EmptyTree);
    assert_eq!(kind("", "../x"), ErrorKind::InvalidSource);
}

#[test]
fn limits_end_the_reading_of_commits_and_work_trees() {
    // Each holds the mark of documents, which has 12 bytes.
    let world = World::new(&[
        ("a.yaml", "drydock.dev/12345"),
        ("b.yaml", "drydock.dev/123"),
        ("deep/er/c.yaml", "drydock.dev/1"),
    ]);
    let exact = Limits { files: 3, file_bytes: 17, total_bytes: 45, entries: 6, depth: 2 };
    let cases = [
        (exact, None),
        (Limits { files: 2, ..exact }, Some(ErrorKind::TooManyFiles)),
        (Limits { file_bytes: 16, ..exact }, Some(ErrorKind::FileTooLarge)),
        (Limits { total_bytes: 44, ..exact }, Some(ErrorKind::TooLarge)),
        (Limits { entries: 4, ..exact }, Some(ErrorKind::TooManyFiles)),
        (Limits { depth: 1, ..exact }, Some(ErrorKind::TooManyFiles)),
    ];
    for (limits, expected) in cases {
        let options = ReadOptions { limits, ..ReadOptions::default() };
        let committed = read_at(&world.remote(), "HEAD", "", &options).err().map(|error| error.kind());
        assert_eq!(committed, expected, "{limits:?}");
        let on_disk = read_worktree(&world.remote(), "", &options, at(0)).err().map(|error| error.kind());
        assert_eq!(on_disk, expected, "{limits:?}");
    }
}

#[test]
fn limits_are_for_documents_and_other_peoples_files_are_passed_over() {
    let large = "x".repeat(50);
    let world = World::new(&[
        ("crds/large.yaml", large.as_str()),
        ("crds/one.yaml", "a: 1"),
        ("crds/two.yaml", "a: 2"),
        ("doc.yaml", "drydock.dev/1"),
    ]);
    let limits = Limits { files: 1, file_bytes: 20, total_bytes: 20, entries: 10, depth: 2 };
    let options = ReadOptions { limits, ..ReadOptions::default() };
    let committed = read_at(&world.remote(), "HEAD", "", &options).unwrap();
    let on_disk = read_worktree(&world.remote(), "", &options, at(0)).unwrap();
    for snapshot in [committed, on_disk] {
        assert_eq!(snapshot.files.len(), 2, "one document and one other: {:?}", paths(&snapshot));
        assert!(paths(&snapshot).contains(&"doc.yaml"));
        assert_eq!(snapshot.findings.len(), 2, "{:?}", findings(&snapshot));
        assert!(snapshot.findings.iter().all(|finding| finding.kind == FindingKind::TooLarge));
    }
}

#[test]
fn a_document_under_another_name_is_a_finding() {
    const TEXT: &str = "apiVersion: drydock.dev/v1alpha1\nkind: Calendar\n";
    let json = "{\n \"apiVersion\": \"drydock.dev/v1alpha1\"\n}\n";
    let world = World::new(&[
        ("ok.yaml", TEXT),
        ("a.yaml.txt", TEXT),
        ("b.YAML", TEXT),
        ("c.json", json),
        ("d", TEXT),
        (".e.yaml", TEXT),
        ("notes.txt", "write apiVersion: drydock.dev/v1alpha1"),
        ("package.json", "{}"),
        ("README.md", TEXT),
    ]);
    // What is wrapped can't say what it is; its name does.
    let repo = world.repo();
    let packed = repo.blob(&[0x1f, 0x8b, 0x08, 0xff]).unwrap();
    world.commit_entries(&[("f.yaml.gz", 0o100_644, packed)]);
    let expected = ["a.yaml.txt", "b.YAML", "c.json", "d", "f.yaml.gz"];
    let committed = head(&world, "").unwrap();
    let found: Vec<_> = findings(&committed);
    for path in expected {
        assert!(found.contains(&(path, FindingKind::OtherName)), "{path}: {found:?}");
    }
    assert!(found.contains(&(".e.yaml", FindingKind::OtherName)), "{found:?}");
    assert_eq!(found.len(), expected.len() + 1, "{found:?}");
    assert_eq!(paths(&committed), ["ok.yaml"]);
}

#[test]
fn a_tree_that_repeats_itself_ends_at_the_entry_limit() {
    let world = World::new(&[("a.yaml", "a")]);
    let repo = world.repo();
    // Ten levels of ten times the same folder: 10^10 entries in eleven objects.
    let mut id = repo.head().unwrap().peel_to_tree().unwrap().id();
    for _ in 0..10 {
        let mut builder = repo.treebuilder(None).unwrap();
        for n in 0..10 {
            builder.insert(format!("d{n}"), id, 0o040_000).unwrap();
        }
        id = builder.write().unwrap();
    }
    world.commit_entries(&[("bomb", 0o040_000, id)]);
    let limits = Limits { entries: 5_000, ..Limits::default() };
    let error =
        read_at(&world.remote(), "HEAD", "", &ReadOptions { limits, ..ReadOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyFiles, "{error}");
}

#[test]
fn any_revision_of_a_local_repository_can_be_read() {
    let world = World::new(&[("fleet/a.yaml", "1")]);
    let first = world.head();
    let second = world.commit("fleet/a.yaml", "2");
    let read = |rev: &str| {
        read_at(&world.remote(), rev, "", &ReadOptions::default())
            .map(|s| (s.commit.id.clone(), s.files[0].bytes.clone()))
    };
    for (rev, id, text) in [
        ("HEAD", &second, b"2"),
        ("main", &second, b"2"),
        ("HEAD~1", &first, b"1"),
        (first.as_str(), &first, b"1"),
        (&first[..10], &first, b"1"),
    ] {
        assert_eq!(read(rev).unwrap(), (id.clone(), text.to_vec()), "{rev}");
    }
    for rev in
        ["HEAD~9", "nowhere", "ffffffffffffffffffffffffffffffffffffffff", "HEAD:fleet/a.yaml", "..", ""]
    {
        assert_eq!(read(rev).unwrap_err().kind(), ErrorKind::RefNotFound, "{rev}");
    }

    // From a folder inside the work tree, paths are relative to it and reported from the root.
    let inside = read_at(&world.remote().join("fleet"), "HEAD", "", &ReadOptions::default()).unwrap();
    assert_eq!((inside.path.as_str(), paths(&inside)), ("fleet", vec!["fleet/a.yaml"]));
}

#[test]
fn revisions_of_nothing_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let kind = || read_at(dir.path(), "HEAD", "", &ReadOptions::default()).unwrap_err().kind();
    assert_eq!(kind(), ErrorKind::Unreachable);
    git2::Repository::init(dir.path()).unwrap();
    assert_eq!(kind(), ErrorKind::EmptyRepository);
}

#[test]
fn the_common_ancestor_of_branches_is_found() {
    let world = World::new(&[("a.yaml", "1")]);
    let base = world.head();
    let repo = world.repo();
    repo.branch("pr", &repo.head().unwrap().peel_to_commit().unwrap(), false).unwrap();
    world.commit("a.yaml", "main");
    repo.set_head("refs/heads/pr").unwrap();
    repo.checkout_head(Some(git2::build::CheckoutBuilder::new().force())).unwrap();
    world.commit("a.yaml", "pr");
    assert_eq!(merge_base(&world.remote(), "main", "pr").unwrap(), base);
    assert_eq!(merge_base(&world.remote(), "main", "gone").unwrap_err().kind(), ErrorKind::RefNotFound);
}

#[test]
fn writing_a_repository_commits_exactly_what_was_given() {
    let world = World::new(&[("a.yaml", "1"), ("old/b.yaml", "b")]);
    write(&world.remote(), "stray.yaml", b"not mine");
    let id = commit_all(
        &world.remote(),
        &[("new/c.yaml".into(), Some(b"c\r\n".to_vec())), ("old/b.yaml".into(), None)],
        &author(),
        "act two",
        at(5_000),
    )
    .unwrap();
    let snapshot = head(&world, "").unwrap();
    assert_eq!(snapshot.commit.id, id);
    assert_eq!((snapshot.commit.summary.as_str(), snapshot.commit.time), ("act two", at(5_000)));
    assert_eq!(paths(&snapshot), ["a.yaml", "new/c.yaml"]);
    assert_eq!(snapshot.file("new/c.yaml").unwrap().bytes, b"c\r\n");
    assert!(!world.remote().join("old/b.yaml").exists());
    // Same input, same id: nothing of the machine is in a commit.
    let (one, two) = (World::new(&[("a.yaml", "1")]), World::new(&[("a.yaml", "1")]));
    assert_eq!(one.head(), two.head());
    assert_eq!(world.repo().head().unwrap().name().unwrap(), "refs/heads/main");
}

#[test]
fn writing_never_leaves_the_repository() {
    let world = World::new(&[("a.yaml", "1")]);
    for path in ["../evil", "/etc/evil", ".git/hooks/post-commit", "a/../../evil"] {
        let change = [(path.to_owned(), Some(b"x".to_vec()))];
        let error = commit_all(&world.remote(), &change, &author(), "m", at(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSource, "{path}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(world.dir.path(), world.remote().join("out")).unwrap();
        let change = [("out/evil".to_owned(), Some(b"x".to_vec()))];
        let error = commit_all(&world.remote(), &change, &author(), "m", at(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSource);
        assert!(!world.dir.path().join("evil").exists());
    }
    let again = init_repository(&world.remote(), &[], &author(), "m", at(0)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidSource);
}
