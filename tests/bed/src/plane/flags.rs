//! The command lines of the parts, and the files they name.

use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

use super::{Authorization, Controllers, Plane, User, access};

/// Requests a second of one client of ours: the default of 20 to 50 would make a thousand pods take a minute.
const QPS: &str = "2000";

/// The light list. Names of 1.36; the pod collector is in it because pods of a deleted node must go as they do in a
/// cluster.
const LIGHT: &str = "daemonset-controller,job-controller,deployment-controller,replicaset-controller,\
                     garbage-collector-controller,pod-garbage-collector-controller,namespace-controller,\
                     disruption-controller,ttl-after-finished-controller";

/// Who asked for what, without bodies. Once a request is answered; a watch once it has begun, too.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// Signs tokens of service accounts.
const SIGNING_KEY: &str = "service-accounts.key";
/// Checks them.
const SIGNING_PUBLIC: &str = "service-accounts.pub";

/// What stands before the point of a public key on P-256 in DER: the algorithm and the curve (RFC 5480).
const P256_PUBLIC: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

impl Plane {
    pub(super) fn write_files(&self) -> anyhow::Result<()> {
        let write = |name: &str, text: &str| {
            let path = self.path(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("tokens.csv", &access::tokens())?;
        write("audit-policy.yaml", AUDIT_POLICY)?;
        let (private, public) = signing_keys()?;
        write(SIGNING_KEY, &private)?;
        write(SIGNING_PUBLIC, &public)?;
        for user in [User::ControllerManager, User::Scheduler] {
            // Without the authority: it is made by the API server's first start, and these two start after it.
            write(&format!("{}.kubeconfig", user.name()), &access::skeleton(&self.url(), user))?;
        }
        Ok(())
    }

    pub(super) fn etcd_command(&self) -> Command {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd.number());
        let peer = format!("http://127.0.0.1:{}", self.ports.peer.number());
        let mut command = Command::new(&self.options.tools.etcd);
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            // What a test writes needn't survive the machine.
            .arg("--unsafe-no-fsync")
            .args(["--log-level=warn", "--name=bed"])
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=bed={peer}"));
        command
    }

    pub(super) fn api_command(&self) -> Command {
        let mut command = Command::new(&self.options.tools.api_server);
        let (private, public) = (self.path(SIGNING_KEY), self.path(SIGNING_PUBLIC));
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd.number()))
            .arg(format!("--secure-port={}", self.ports.api.number()))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            // Nobody asks for the endpoints of the service `kubernetes`.
            .arg("--endpoint-reconciler-type=none")
            .arg(format!("--cert-dir={}", self.path("certificates").display()))
            .arg(format!("--token-auth-file={}", self.path("tokens.csv").display()))
            .arg("--service-cluster-ip-range=10.200.0.0/24")
            .arg("--service-account-issuer=https://bed.drydock.dev")
            .arg(format!("--service-account-signing-key-file={}", private.display()))
            .arg(format!("--service-account-key-file={}", public.display()))
            // Pods need no token, and a node is schedulable when it is there.
            .arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
            .arg("--allow-privileged=true")
            // One test is one tenant: plain limits, high enough for a thousand kubelets.
            .args(["--enable-priority-and-fairness=false", "--profiling=false"])
            .args(["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1500"]);
        command.arg(match self.options.authorization {
            Authorization::AlwaysAllow => "--authorization-mode=AlwaysAllow",
            Authorization::Rbac => "--authorization-mode=RBAC",
        });
        if self.options.audit {
            command
                .arg(format!("--audit-policy-file={}", self.path("audit-policy.yaml").display()))
                .arg(format!("--audit-log-path={}", self.audit_path().display()))
                // One file: a test counts what is in it.
                .arg("--audit-log-maxsize=2000");
        }
        command.args(&self.options.api_flags);
        command
    }

    pub(super) fn controllers_command(&self) -> Command {
        let mut command = Command::new(&self.options.tools.controller_manager);
        let key = self.path(SIGNING_KEY);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig_path(User::ControllerManager).display()))
            .arg(format!("--service-account-private-key-file={}", key.display()))
            .arg(format!("--root-ca-file={}", self.authority_path().display()))
            .args(["--leader-elect=false", "--secure-port=0", "--allocate-node-cidrs=false"])
            .args([format!("--kube-api-qps={QPS}"), format!("--kube-api-burst={QPS}")]);
        match self.options.controllers {
            Controllers::Light => command.arg(format!("--controllers={LIGHT}")),
            Controllers::All => command
                .args(["--controllers=*", "--node-monitor-period=1s"])
                .arg(format!("--node-monitor-grace-period={}s", self.options.node_grace.as_secs().max(2))),
        };
        command
    }

    pub(super) fn scheduler_command(&self) -> Command {
        let mut command = Command::new(&self.options.tools.scheduler);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig_path(User::Scheduler).display()))
            .args(["--leader-elect=false", "--secure-port=0"])
            .args([format!("--kube-api-qps={QPS}"), format!("--kube-api-burst={QPS}")]);
        command
    }

    pub(super) fn kubeconfig_path(&self, user: User) -> std::path::PathBuf {
        self.path(&format!("{}.kubeconfig", user.name()))
    }
}

/// A new key in PEM: the private one (PKCS #8) and the public one (SubjectPublicKeyInfo), which the API server wants
/// in a file of its own.
fn signing_keys() -> anyhow::Result<(String, String)> {
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let random = ring::rand::SystemRandom::new();
    let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
        .map_err(|_| anyhow::anyhow!("no key for service accounts could be made"))?;
    let key = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random)
        .map_err(|error| anyhow::anyhow!("the key for service accounts: {error}"))?;
    let public = [P256_PUBLIC, key.public_key().as_ref()].concat();
    Ok((pem("PRIVATE KEY", private.as_ref()), pem("PUBLIC KEY", &public)))
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}
