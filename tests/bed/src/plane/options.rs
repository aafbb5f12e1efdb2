//! What a control plane can be like.

use std::time::Duration;

use crate::Tools;

/// How a control plane is started.
#[derive(Debug, Clone)]
pub struct PlaneOptions {
    /// The binaries.
    pub tools: Tools,
    /// Its name, in the names of folders and contexts: lower case letters, digits and dashes.
    pub name: String,
    /// Which controllers run.
    pub controllers: Controllers,
    /// Who may do what.
    pub authorization: Authorization,
    /// Whether every request is noted for [`Plane::audit`](super::Plane::audit).
    pub audit: bool,
    /// With [`Controllers::All`]: a node without a sign of life for so long is `NotReady`. The default of Kubernetes,
    /// 50 s, is too long for most tests.
    pub node_grace: Duration,
    /// More flags for the API server, for tests of special things.
    pub api_flags: Vec<String>,
}

/// Which controllers of the controller-manager run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Controllers {
    /// Those that make pods of DaemonSets, Jobs and Deployments, that collect garbage and finish namespaces, and that
    /// keep PodDisruptionBudgets. No node lifecycle: hollow nodes stay ready without leases, and whoever plays the
    /// kubelet says when one isn't.
    #[default]
    Light,
    /// All. Nodes without leases become `NotReady` and their pods are evicted.
    All,
}

/// Who may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Everybody may do everything.
    #[default]
    AlwaysAllow,
    /// RBAC. [`User::DrydockA`](super::User), `DrydockB` and `Person` may do nothing but what the test grants them; the
    /// others are of `system:masters`.
    Rbac,
}

impl PlaneOptions {
    /// Light controllers, everybody may do everything, requests are noted.
    #[must_use]
    pub fn new(tools: Tools) -> Self {
        Self {
            tools,
            name: "plane".to_owned(),
            controllers: Controllers::default(),
            authorization: Authorization::default(),
            audit: true,
            node_grace: Duration::from_secs(6),
            api_flags: Vec::new(),
        }
    }
    /// Under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
    /// With other controllers.
    #[must_use]
    pub const fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }
    /// With another authorization.
    #[must_use]
    pub const fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = authorization;
        self
    }
}
