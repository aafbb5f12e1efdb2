//! Who may come in: users with tokens, clients and kubeconfigs for them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::Plane;

/// Who asks. Each has a token of its own, so that the audit log tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// The test itself; may do everything.
    Admin,
    /// A drydock under test. In the group `drydock`; with RBAC it may do nothing until the test grants it.
    DrydockA,
    /// A second one.
    DrydockB,
    /// Hollow and real kubelets; may do everything.
    Hollow,
    /// The stand-in for the GPU Operator; may do everything.
    Operator,
    /// Somebody with kubectl. In the group `people`; with RBAC they may do nothing until the test grants it.
    Person,
    /// kube-controller-manager; may do everything.
    ControllerManager,
    /// kube-scheduler; may do everything.
    Scheduler,
}

impl User {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Admin,
        Self::DrydockA,
        Self::DrydockB,
        Self::Hollow,
        Self::Operator,
        Self::Person,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    /// Name by which the API server and its audit log know them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::DrydockA => "drydock-a",
            Self::DrydockB => "drydock-b",
            Self::Hollow => "hollow",
            Self::Operator => "operator",
            Self::Person => "person",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::DrydockA | Self::DrydockB => "drydock",
            Self::Person => "people",
            Self::Admin | Self::Hollow | Self::Operator | Self::ControllerManager | Self::Scheduler => {
                "system:masters"
            }
        }
    }

    /// Not a secret: the server listens on the loopback address for the length of a test.
    fn token(self) -> String {
        format!("token-of-{}", self.name())
    }
}

/// The token file of the API server: token, user, uid, groups.
pub(super) fn tokens() -> String {
    let line = |user: User| format!("{},{},{},{}\n", user.token(), user.name(), user.name(), user.group());
    User::ALL.map(line).concat()
}

/// A kubeconfig that doesn't know the authority yet: for parts that start with the plane.
pub(super) fn skeleton(url: &str, user: User) -> String {
    let cluster = json!({"server": url, "insecure-skip-tls-verify": true});
    config(&[("plane".to_owned(), cluster)], user)
}

fn config(clusters: &[(String, Value)], user: User) -> String {
    let contexts: Vec<Value> = clusters
        .iter()
        .map(|(name, _)| json!({"name": name, "context": {"cluster": name, "user": user.name()}}))
        .collect();
    let named: Vec<Value> = clusters.iter().map(|(name, c)| json!({"name": name, "cluster": c})).collect();
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": clusters.first().map(|(name, _)| name.as_str()).unwrap_or_default(),
        "clusters": named,
        "contexts": contexts,
        "users": [{"name": user.name(), "user": {"token": user.token()}}],
    });
    // JSON is YAML.
    format!("{config:#}\n")
}

/// Writes a kubeconfig with a context for each plane.
///
/// # Errors
/// The file can't be written, or a plane has never started.
pub fn write_kubeconfig(planes: &[(&Plane, &str)], user: User, path: &Path) -> anyhow::Result<()> {
    let clusters = planes
        .iter()
        .map(|(plane, context)| Ok(((*context).to_owned(), plane.cluster_entry()?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    std::fs::write(path, config(&clusters, user)).with_context(|| path.display().to_string())
}

impl Plane {
    /// A client that comes in as this user. It doesn't retry by itself, so a test sees each answer.
    ///
    /// It belongs to the tokio runtime it was made in.
    ///
    /// # Errors
    /// The plane has never started.
    pub fn client(&self, user: User) -> anyhow::Result<kube::Client> {
        let mut config = kube::Config::new(self.url().parse().context("address of the plane")?);
        config.root_cert = Some(vec![self.authority()?.1]);
        config.auth_info = AuthInfo { token: Some(user.token().into()), ..AuthInfo::default() };
        config.default_retry = false;
        let agent = HeaderValue::try_from(format!("drydock-bed/{}", user.name())).context("user agent")?;
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(kube::Client::try_from(config)?)
    }

    /// A kubeconfig with one context, as text.
    ///
    /// # Errors
    /// The plane has never started.
    pub fn kubeconfig(&self, user: User, context: &str) -> anyhow::Result<String> {
        Ok(config(&[(context.to_owned(), self.cluster_entry()?)], user))
    }

    fn cluster_entry(&self) -> anyhow::Result<Value> {
        let (pem, _) = self.authority()?;
        Ok(json!({"server": self.url(), "certificate-authority-data": STANDARD.encode(pem)}))
    }

    /// The file with the certificates that the API server makes at its first start.
    pub(super) fn authority_path(&self) -> PathBuf {
        self.path("certificates").join("apiserver.crt")
    }

    /// The authority's certificate as PEM and as DER. The file holds the server's own first, then the authority's.
    fn authority(&self) -> anyhow::Result<(String, Vec<u8>)> {
        const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
        const END: &str = "-----END CERTIFICATE-----";
        let path = self.authority_path();
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let body = text
            .rfind(BEGIN)
            .and_then(|at| text.get(at + BEGIN.len()..))
            .and_then(|rest| rest.split_once(END))
            .map(|(body, _)| body)
            .with_context(|| format!("{}: no certificate", path.display()))?;
        let joined: String = body.split_whitespace().collect();
        let der = STANDARD.decode(joined).with_context(|| path.display().to_string())?;
        Ok((format!("{BEGIN}{body}{END}\n"), der))
    }
}
