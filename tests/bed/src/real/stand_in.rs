//! The program in the containers, built once for each state of its source.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use sha2::{Digest, Sha256};

use super::image::{Image, image};
use crate::tools::{cache, on_path};

const SOURCE: &str = include_str!("../bin/stand-in.rs");

/// Where the program is in an image.
pub const STAND_IN: &str = "/stand-in";

/// The program, linked statically: it runs in an empty image. Built with plain `rustc` where it isn't yet, in two
/// seconds; a test mustn't wait for cargo, whose lock whoever builds holds.
///
/// # Errors
/// There is no `rustc`, or no static C library.
pub fn stand_in() -> anyhow::Result<PathBuf> {
    let key: String = Sha256::digest(SOURCE).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache().context("neither XDG_CACHE_HOME nor HOME is set")?.join("stand-in").join(key);
    let program = folder.join("stand-in");
    if program.is_file() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Tests that build at the same time get in nobody's way: a whole one is put in its place.
    let scratch =
        tempfile::Builder::new().prefix("build-").tempdir_in(&folder).context("a folder to build in")?;
    let source = scratch.path().join("stand-in.rs");
    std::fs::write(&source, SOURCE).context("the source of the stand-in")?;
    let built = scratch.path().join("stand-in");
    let rustc = on_path("rustc").context("rustc isn't on PATH")?;
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-name", "stand_in", "-O", "-C", "strip=symbols"])
        .args(["-C", "target-feature=+crt-static", "-o"])
        .arg(&built)
        .arg(&source)
        .stdin(Stdio::null())
        .output()
        .context("rustc")?;
    anyhow::ensure!(output.status.success(), "rustc: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&built, &program).context("the stand-in")?;
    Ok(program)
}

/// An image with the program in it; pods give its sub-command as `args`.
///
/// # Errors
/// The program can't be built.
pub fn stand_in_image(name: &str, tag: &str) -> anyhow::Result<Image> {
    with_entrypoint(name, tag, &[STAND_IN])
}

/// An image with the program in it that does this, whatever arguments pods leave out: a driver with a defect, say.
///
/// # Errors
/// The program can't be built.
pub fn stand_in_with(name: &str, tag: &str, args: &[&str]) -> anyhow::Result<Image> {
    let entrypoint: Vec<&str> = std::iter::once(STAND_IN).chain(args.iter().copied()).collect();
    with_entrypoint(name, tag, &entrypoint)
}

/// The image of sandboxes: nobody gives them arguments.
pub(super) fn pause_image(name: &str, tag: &str) -> anyhow::Result<Image> {
    with_entrypoint(name, tag, &[STAND_IN, "pause"])
}

fn with_entrypoint(name: &str, tag: &str, entrypoint: &[&str]) -> anyhow::Result<Image> {
    let program = std::fs::read(stand_in()?).context("the stand-in")?;
    Ok(image(name, tag, &[(STAND_IN, &program, 0o755)], entrypoint, &[]))
}
