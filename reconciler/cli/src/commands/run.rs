//! `drydock run`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use drydock_server::live::{self, LiveError, LiveOptions};
use drydock_server::sourcing::SourceOptions;
use drydock_source::Reference;

use crate::exit::{Exit, Failure, Result};
use crate::ui::{Format, Ui};

const EXAMPLES: &str = "Examples:
  drydock run --repo https://git.example.com/fleet.git
  drydock run --repo . --path fleet --kubeconfig ~/.kube/config --context hub
  drydock run --repo https://git.example.com/fleet.git --format json     log lines as JSON
  drydock schema --crds | kubectl apply -f -                             first of all, in every cluster
The ledger is kept in the home cluster: the kubeconfig's current context, or the cluster that drydock runs in.
Several processes may run; one leads, and another takes over when it stops.";

/// Whether images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pull {
    /// When they aren't on the node.
    IfNotPresent,
    /// Never: they are put on nodes by hand.
    Never,
    /// Every time.
    Always,
}

impl Pull {
    fn as_str(self) -> &'static str {
        match self {
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
            Self::Always => "Always",
        }
    }
}

/// What is typed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The repository with the fleet: an address, or a folder.
    #[arg(long, value_name = "URL", env = "DRYDOCK_REPO")]
    repo: String,
    /// Branch, tag or commit.
    #[arg(long = "ref", value_name = "REF", default_value = "main", env = "DRYDOCK_REF")]
    reference: String,
    /// Folder of the documents inside the repository.
    #[arg(long, value_name = "DIR", default_value = "", env = "DRYDOCK_PATH")]
    path: String,
    /// Seconds between two looks at the repository that nothing else causes.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    poll: u64,
    /// The kubeconfig; the usual places when absent, or the cluster that drydock runs in.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the home cluster, where the ledger is kept; the current one when absent.
    #[arg(long, value_name = "NAME", env = "DRYDOCK_CONTEXT")]
    context: Option<String>,
    /// Namespace of the ledger, the lease and of what no document places elsewhere.
    #[arg(long, value_name = "NAME", default_value = drydock_server::live::NAMESPACE, env = "DRYDOCK_NAMESPACE")]
    namespace: String,
    /// drydock's own folder: the mirror of the repository and the history that screens show.
    #[arg(long, value_name = "DIR", default_value = "drydock-data", env = "DRYDOCK_DIR")]
    dir: PathBuf,
    /// Name of this process among several; the host's name in a cluster.
    #[arg(long, value_name = "NAME", default_value = "drydock", env = "HOSTNAME")]
    identity: String,
    /// Address of API and dashboard; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)))]
    listen: SocketAddr,
    /// More host names under which the API answers.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Image with the checks that come with drydock.
    #[arg(long, value_name = "IMAGE", env = "DRYDOCK_SMOKE_IMAGE")]
    smoke_image: Option<String>,
    /// Whether nodes pull images of checks and of components without a template of their own.
    #[arg(long, value_enum, default_value = "if-not-present")]
    pull: Pull,
    /// Seconds after which another process takes over from one that doesn't answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=300))]
    lease: u64,
    /// Go on from a ledger that is older than one seen before: somebody has restored the home cluster from a backup,
    /// and has made sure that no node is away.
    #[arg(long)]
    accept_restored_ledger: bool,
}

/// Runs until it is told to stop.
pub(crate) fn run(args: Args, ui: &Ui) -> Result {
    let mut source = SourceOptions::of(args.repo);
    source.reference = reference(&args.reference);
    source.path = args.path;
    source.poll = Duration::from_secs(args.poll);
    let mut options = LiveOptions::new(args.dir, source);
    options.kubeconfig = args.kubeconfig;
    options.context = args.context;
    options.identity = args.identity;
    options.listen = Some(args.listen);
    options.hosts = args.hosts;
    options.lease = Duration::from_secs(args.lease);
    options.accept_restored_ledger = args.accept_restored_ledger;
    options.settings.namespace = args.namespace;
    options.settings.pull = args.pull.as_str().to_owned();
    if let Some(image) = args.smoke_image {
        options.settings.smoke_image = image;
    }
    log(ui);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(live::run(options, told_to_stop())).map_err(failed)?;
    Ok(Exit::Ok)
}

/// A full commit id is a commit, `refs/tags/…` and `tags/…` are a tag, everything else is a branch or else a tag.
fn reference(text: &str) -> Reference {
    let short = text.strip_prefix("refs/").unwrap_or(text);
    if let Some(tag) = short.strip_prefix("tags/") {
        return Reference::Tag(tag.to_owned());
    }
    if text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Reference::Commit(text.to_owned());
    }
    Reference::Branch(short.strip_prefix("heads/").unwrap_or(short).to_owned())
}

async fn told_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        else {
            let _ = interrupt.await;
            return;
        };
        tokio::select! {
            _ = interrupt => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupt.await;
    }
}

/// Log lines go to stderr: one a line, for people, or as JSON for whoever gathers them.
fn log(ui: &Ui) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DRYDOCK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,kube_client=off,tower=warn"));
    let builder =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).with_target(false);
    let set = match ui.format {
        Format::Json => builder.json().flatten_event(true).try_init(),
        Format::Text => builder.with_ansi(ui.paint_err.0).try_init(),
    };
    // Only tests set one before; theirs is as good.
    drop(set);
}

fn failed(error: LiveError) -> Failure {
    Failure::new(Exit::Internal, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_followed() {
        assert_eq!(reference("main"), Reference::Branch("main".to_owned()));
        assert_eq!(reference("refs/heads/a/b"), Reference::Branch("a/b".to_owned()));
        assert_eq!(reference("tags/v1"), Reference::Tag("v1".to_owned()));
        assert_eq!(reference("refs/tags/v1"), Reference::Tag("v1".to_owned()));
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(reference(id), Reference::Commit(id.to_owned()));
    }
}
