//! Configuration of containerd, CNI and the kubelet of one node. Pure.

use std::path::Path;

use serde_json::json;

/// The image of every pod's sandbox.
pub(super) const PAUSE: (&str, &str) = ("bed.drydock.dev/pause", "1");

/// Where Debian puts the plugins.
pub(super) const CNI_BIN: &str = "/usr/lib/cni";

/// Where one node keeps its things.
pub(super) struct Places<'p> {
    pub(super) folder: &'p Path,
}

impl Places<'_> {
    fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
    pub(super) fn socket(&self) -> String {
        self.at("c.sock")
    }
    /// Mounted over `/var/lib/kubelet`, since the sockets of device plugins have fixed paths.
    pub(super) fn kubelet(&self) -> String {
        self.at("kubelet")
    }
    pub(super) fn folders(&self) -> [String; 4] {
        [self.kubelet(), self.at("net.d"), self.at("certificates"), self.at("logs")]
    }

    pub(super) fn containerd(&self) -> String {
        format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}:{tag}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_BIN}"
conf_dir = "{net}"
"#,
            root = self.at("root"),
            state = self.at("state"),
            socket = self.socket(),
            pause = PAUSE.0,
            tag = PAUSE.1,
            net = self.at("net.d"),
        )
    }

    /// A kubelet without a network plugin stays NotReady; this one gives each pod a pair of interfaces and an address.
    pub(super) fn network(&self, number: usize) -> String {
        let config = json!({
            "cniVersion": "0.4.0", "name": "bed",
            "plugins": [{
                "type": "ptp",
                "ipam": {
                    "type": "host-local", "dataDir": self.at("addresses"),
                    // Each node its own; nothing leaves the machine, since forwarding isn't asked for.
                    "ranges": [[{"subnet": format!("10.244.{}.0/24", number % 256)}]],
                },
            }],
        });
        format!("{config:#}\n")
    }

    pub(super) fn kubelet_config(&self, port: u16, healthz: u16) -> String {
        let never = "0%";
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": port, "readOnlyPort": 0,
            "healthzBindAddress": "127.0.0.1", "healthzPort": healthz,
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": format!("unix://{}", self.socket()),
            "podLogsDir": self.at("logs"),
            "failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false,
            "enforceNodeAllocatable": [], "failSwapOn": false, "localStorageCapacityIsolation": false,
            "makeIPTablesUtilChains": false, "oomScoreAdj": 0,
            // The machine's disk is not the test's business.
            "evictionHard": {
                "memory.available": "1Mi", "nodefs.available": never, "nodefs.inodesFree": never,
                "imagefs.available": never, "imagefs.inodesFree": never,
            },
            "imageGCHighThresholdPercent": 100,
            "kubeAPIQPS": 200, "kubeAPIBurst": 200, "nodeStatusUpdateFrequency": "2s",
        });
        format!("{config:#}\n")
    }
}
