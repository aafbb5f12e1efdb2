//! How a cluster is reached, as its document says.

use drydock_spec::Access;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::client::{Caller, ConnectError, Gate, Kind};

/// What drydock was started with.
#[derive(Clone, Default)]
pub struct Reach {
    /// The kubeconfig that `kubeconfigContext` refers to; absent means the usual places.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster in which drydock keeps its ledger, where Secrets with kubeconfigs lie.
    pub home: Option<Caller>,
}

impl Reach {
    /// A caller for a cluster.
    ///
    /// # Errors
    /// When the access can't be used. Whether anybody answers is another matter.
    pub async fn connect(&self, access: &Access, gate: Gate) -> Result<Caller, ConnectError> {
        let config = match access {
            Access::KubeconfigContext(context) => self.context(Some(context)).await?,
            Access::InCluster {} => kube::Config::incluster()
                .map_err(|error| ConnectError::Client(format!("not inside a cluster: {error}")))?,
            Access::Secret(secret) => {
                let text = self.secret(&secret.namespace, &secret.name, &secret.key).await?;
                let whole = Kubeconfig::from_yaml(&text).map_err(|error| broken(&error))?;
                from(whole, None).await?
            }
            Access::Simulated {} => {
                return Err(ConnectError::Client(
                    "it is simulated; `drydock demo` runs simulated clusters".to_owned(),
                ));
            }
        };
        Caller::new(config, gate)
    }

    /// The configuration of a context, or of the current one; inside a cluster without any kubeconfig, that cluster.
    ///
    /// # Errors
    /// When there is none, or it can't be used.
    pub async fn context(&self, context: Option<&str>) -> Result<kube::Config, ConnectError> {
        let whole = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .map_err(|error| ConnectError::Kubeconfig(format!("{}: {error}", path.display())))?,
            None => match Kubeconfig::read() {
                Ok(whole) => whole,
                Err(error) if context.is_none() => {
                    return kube::Config::incluster().map_err(|_| broken(&error));
                }
                Err(error) => return Err(broken(&error)),
            },
        };
        from(whole, context).await
    }

    async fn secret(&self, namespace: &str, name: &str, key: &str) -> Result<String, ConnectError> {
        #[derive(Deserialize)]
        struct Secret {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        use base64::Engine as _;
        let failed = |why: String| ConnectError::Secret {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            why,
        };
        let home = self
            .home
            .as_ref()
            .ok_or_else(|| failed("there is no home cluster to read it from".to_owned()))?;
        let uri = Kind::SECRET.one(Some(namespace), name);
        let secret: Secret = home.get(&uri).await.map_err(|error| failed(error.to_string()))?;
        let text = secret.data.get(key).ok_or_else(|| failed(format!("it has no key {key}")))?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        let bytes = bytes.map_err(|_| failed(format!("its key {key} isn't base64")))?;
        String::from_utf8(bytes).map_err(|_| failed(format!("its key {key} isn't text")))
    }
}

async fn from(whole: Kubeconfig, context: Option<&str>) -> Result<kube::Config, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(whole, &options).await.map_err(|error| broken(&error))
}

fn broken(error: &kube::config::KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig(error.to_string())
}
