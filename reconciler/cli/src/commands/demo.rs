//! `drydock demo`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use drydock_server::clock::Speed;
use drydock_server::embedded::{Embedded, EmbeddedError, EmbeddedOptions, SourceOptions};

use super::simulate;
use crate::demo::act::{self, Act, Summary};
use crate::demo::folder::Folder;
use crate::demo::watch::Watch;
use crate::demo::{repository, versions};
use crate::examples::Example;
use crate::exit::{Exit, Failure, Result};
use crate::render::story;
use crate::ui::{Format, Ui};

const EXAMPLES: &str = "Examples:
  drydock demo                              start it, or go on where it was stopped
  drydock demo --size L --speed 10000       3,000 nodes, faster
  drydock demo --once good --format json    play the first rollout to its end, then stop
  drydock demo --once broken                commit a driver that computes wrongly, and watch it go back
  drydock demo --once fixed                 commit its fix
Nothing outside the folder is touched. To start over, remove the folder.";

/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Size {
    /// 2 clusters, 184 nodes.
    #[value(name = "S", alias = "s")]
    S,
    /// 12 clusters, 3,000 nodes.
    #[value(name = "L", alias = "l")]
    L,
}

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the demo.
    #[arg(long, value_name = "DIR", default_value = "drydock-demo")]
    dir: PathBuf,
    /// Size of a new fleet.
    #[arg(long, value_enum, default_value = "S")]
    size: Size,
    /// Seconds of the fleet's clock per second.
    #[arg(long, value_name = "N", default_value_t = 200.0, value_parser = speed)]
    speed: f64,
    /// What goes wrong in a new fleet besides the broken driver: a YAML list of faults.
    #[arg(long, value_name = "FILE")]
    fault: Option<PathBuf>,
    /// Address of API and dashboard; port 0 takes any free one. Default 127.0.0.1:7411 or the next free port.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Play one act to its end, print what came of it, and stop.
    #[arg(long, value_enum, value_name = "ACT")]
    once: Option<Act>,
    /// Seed of a new fleet.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err("a number above 0, such as 60".to_owned()),
    }
}

/// Where the dashboard is looked for first.
const PORT: u16 = 7411;

/// Starts it.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let example = match args.size {
        Size::S => Example::Demo,
        Size::L => Example::Model,
    };
    let faults = args.fault.as_deref().map(simulate::faults).transpose()?.unwrap_or_default();
    let (folder, fresh) = Folder::prepare(&args.dir, example)?;
    log_to(&folder)?;
    let head = repository::head(&folder.fleet());
    let world = match (&head, fresh) {
        (Ok(head), _) => versions::world(&head.fleet, args.seed, faults),
        // The world is in its file already; these options aren't looked at.
        (Err(_), false) => drydock_sim::WorldOptions::default(),
        (Err(_), true) => return head.map(|_| Exit::Internal),
    };
    let mut options =
        EmbeddedOptions::new(folder.path(), SourceOptions::of(folder.fleet().display().to_string()));
    options.listen = Some(args.listen.unwrap_or_else(free_address));
    options.speed = Speed::times(args.speed);
    options.world = world;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let show = Show { speed: args.speed, fresh, once: args.once };
    runtime.block_on(play(options, &folder, show, ui))
}

struct Show {
    speed: f64,
    fresh: bool,
    once: Option<Act>,
}

async fn play(options: EmbeddedOptions, folder: &Folder, show: Show, ui: &Ui) -> Result {
    let embedded = Embedded::start(options).await.map_err(not_started)?;
    let aside = show.once.is_some() && ui.format == Format::Json;
    let mut watch = Watch::new(ui, aside, &embedded);
    if ui.format == Format::Text || aside {
        watch.say(&story::opening(folder, embedded.address(), show.speed, show.fresh, ui));
    }
    folder.write_patches().or_else(|failure| {
        watch.say(&format!("no patches were written: {}", failure.message));
        Ok::<_, Failure>(())
    })?;
    let interrupted = interrupted();
    let played = match show.once {
        Some(act) => tokio::select! {
            played = act::play(&embedded, folder, act, &mut watch) => played.map(Some),
            _ = interrupted => Err(Failure::new(Exit::EndedBadly, "stopped before the act was over").hint("run it again: it goes on")),
        },
        None => {
            if ui.format == Format::Text {
                watch.say(&story::try_next(folder, ui));
            }
            tokio::select! {
                failure = follow(&embedded, folder, &mut watch) => Err(failure),
                _ = interrupted => Ok(None),
            }
        }
    };
    watch.finish();
    let stopped = embedded.stop().await;
    let played = played?;
    stopped.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    match played {
        Some(summary) => finish(&summary, ui),
        None => {
            ui.note(&format!("stopped; `drydock demo --dir {}` goes on from here", folder.path().display()));
            Ok(Exit::Ok)
        }
    }
}

/// Until somebody asks it to end: Ctrl-C, or what a service manager sends.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a way to listen it runs until it is killed, which it survives.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Tells the story until the engine ends, which it doesn't by itself.
async fn follow(embedded: &Embedded, folder: &Folder, watch: &mut Watch) -> Failure {
    let mut seen = embedded.snapshot();
    let mut commit = String::new();
    loop {
        let snapshot = Arc::clone(&seen.borrow_and_update());
        watch.look(embedded, &snapshot, None);
        if watch.is_unread() {
            return Failure::new(Exit::Ok, "");
        }
        if let Some(facts) = snapshot.facts.as_deref().filter(|facts| facts.commit.id != commit) {
            commit.clone_from(&facts.commit.id);
            // Patches lead on from the newest commit, so each of them applies at any time.
            if let Err(failure) = folder.write_patches() {
                watch.say(&format!("the patches weren't written: {}", failure.message));
            }
        }
        if seen.changed().await.is_err() {
            return Failure::new(Exit::Internal, "the engine has stopped")
                .hint("see drydock.log in the demo's folder");
        }
    }
}

fn finish(summary: &Summary, ui: &Ui) -> Result {
    ui.show(summary, || story::summary(summary, ui))?;
    Ok(if summary.as_expected || summary.already { Exit::Ok } else { Exit::EndedBadly })
}

/// The usual port, or the next one that is free.
fn free_address() -> SocketAddr {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let free = (PORT..PORT + 50).find(|port| TcpListener::bind(at(*port)).is_ok());
    at(free.unwrap_or(0))
}

fn not_started(error: EmbeddedError) -> Failure {
    match &error {
        EmbeddedError::Lock(_) => Failure::new(Exit::Unreachable, error.to_string()),
        EmbeddedError::Listen { .. } => {
            Failure::usage(error.to_string()).hint("choose another address with --listen 127.0.0.1:0")
        }
        EmbeddedError::File(_)
        | EmbeddedError::Store(_)
        | EmbeddedError::Source(_)
        | EmbeddedError::Engine(_)
        | EmbeddedError::Task(_) => Failure::new(Exit::Internal, error.to_string()),
    }
}

/// Messages about drydock itself go to a file: they would tear the screen.
fn log_to(folder: &Folder) -> Result<()> {
    let path = folder.log();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    let filter = tracing_subscriber::EnvFilter::try_from_env("DRYDOCK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(file).with_env_filter(filter);
    // A second subscriber is refused, which only a test in the same process could meet.
    let _ = subscriber.try_init();
    Ok(())
}
