//! Time-slicing and MPS: several pods on one GPU, and what the node advertises for it.
//!
//! Source: `NVIDIA/k8s-device-plugin`, README, `api/config/v1/sharing.go` and `replicas.go`; NVIDIA MPS documentation
//! (client limits).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Architecture, GpuModel};

/// How a GPU is shared. A node has one method for all its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SharingMethod {
    /// Pods take turns. Neither memory nor faults are kept apart.
    TimeSlicing,
    /// Pods run at once through the MPS daemon, each with a share of memory and threads.
    Mps,
}

impl fmt::Display for SharingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SharingMethod::TimeSlicing => "time-slicing",
            SharingMethod::Mps => "MPS",
        })
    }
}

/// A sharing configuration for one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sharing {
    /// How the GPU is shared.
    pub method: SharingMethod,
    /// Pods per device.
    pub replicas: u32,
    /// Advertise `<resource>.shared`, so that nobody gets a share who asked for a GPU.
    #[serde(default)]
    pub rename_by_default: bool,
    /// Refuse pods that ask for more than one share; `None` leaves it to the method.
    #[serde(default)]
    pub fail_requests_greater_than_one: Option<bool>,
}

/// What is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedDevice {
    /// A whole GPU.
    WholeGpu,
    /// A MIG instance.
    MigInstance,
}

/// What a node advertises for shared devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// Name of the resource.
    pub resource: String,
    /// Its count on the node.
    pub count: u32,
    /// Whether a pod that asks for two or more is refused.
    pub one_per_pod: bool,
    /// Share of the threads that a pod gets, in percent; `None` when pods take turns.
    pub thread_percent: Option<u32>,
}

/// Why devices can't be shared this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// Fewer than two shares.
    #[error("{method} needs at least 2 replicas, not {replicas}; leave sharing out to use a device alone")]
    TooFewReplicas {
        /// The method.
        method: SharingMethod,
        /// Shares asked for.
        replicas: u32,
    },
    /// MPS is refused on MIG instances.
    #[error("MPS can't be used on MIG instances")]
    MpsOnMig,
    /// More clients than the MPS daemon serves on a GPU of this generation.
    #[error("MPS serves at most {max} clients on {model}, not {replicas}")]
    TooManyMpsClients {
        /// Catalogue name of the model.
        model: &'static str,
        /// Clients asked for.
        replicas: u32,
        /// Clients possible.
        max: u32,
    },
    /// MPS always refuses more than one share; a document that says otherwise would be ignored.
    #[error(
        "MPS always refuses requests for more than one replica; failRequestsGreaterThanOne can't be false"
    )]
    MpsIsOnePerPod,
    /// The product of devices and replicas is no device count.
    #[error("{devices} devices with {replicas} replicas are more than a node can advertise")]
    TooManyDevices {
        /// Devices.
        devices: u32,
        /// Shares of each.
        replicas: u32,
    },
}

/// Clients an MPS daemon serves per GPU (NVIDIA MPS documentation: 16 before Volta, 48 since).
pub const fn mps_client_limit(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Pascal => 16,
        Architecture::Volta
        | Architecture::Turing
        | Architecture::Ampere
        | Architecture::Ada
        | Architecture::Hopper
        | Architecture::Blackwell => 48,
    }
}

/// Checks a configuration and says what a node with `devices` of `resource` advertises under it.
///
/// # Errors
/// Why the device plugin would refuse the configuration, or silently do something else.
pub fn advertise(
    sharing: &Sharing,
    model: &GpuModel,
    device: SharedDevice,
    resource: &str,
    devices: u32,
) -> Result<Advertised, SharingError> {
    let Sharing { method, replicas, .. } = *sharing;
    if replicas < 2 {
        return Err(SharingError::TooFewReplicas { method, replicas });
    }
    let one_per_pod = match method {
        SharingMethod::TimeSlicing => sharing.fail_requests_greater_than_one.unwrap_or(false),
        SharingMethod::Mps => {
            if device == SharedDevice::MigInstance {
                return Err(SharingError::MpsOnMig);
            }
            let max = mps_client_limit(model.architecture);
            if replicas > max {
                return Err(SharingError::TooManyMpsClients { model: model.name, replicas, max });
            }
            if sharing.fail_requests_greater_than_one == Some(false) {
                return Err(SharingError::MpsIsOnePerPod);
            }
            true
        }
    };
    let count = devices.checked_mul(replicas).ok_or(SharingError::TooManyDevices { devices, replicas })?;
    let suffix = if sharing.rename_by_default { ".shared" } else { "" };
    let thread_percent = match method {
        SharingMethod::TimeSlicing => None,
        SharingMethod::Mps => Some(100 / replicas),
    };
    Ok(Advertised { resource: format!("{resource}{suffix}"), count, one_per_pod, thread_percent })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::mig::GPU_RESOURCE;
    use crate::model::lookup;

    fn sharing(method: SharingMethod, replicas: u32) -> Sharing {
        Sharing { method, replicas, rename_by_default: false, fail_requests_greater_than_one: None }
    }

    fn on(
        model: &str,
        sharing: &Sharing,
        device: SharedDevice,
        devices: u32,
    ) -> Result<Advertised, SharingError> {
        advertise(sharing, lookup(model).unwrap(), device, GPU_RESOURCE, devices)
    }

    #[test]
    fn replicas_multiply_and_the_name_follows() {
        let mut four = sharing(SharingMethod::TimeSlicing, 4);
        let plain = on("A100-40GB", &four, SharedDevice::WholeGpu, 8).unwrap();
        assert_eq!((plain.resource.as_str(), plain.count, plain.one_per_pod), ("nvidia.com/gpu", 32, false));
        assert_eq!(plain.thread_percent, None);
        four.rename_by_default = true;
        four.fail_requests_greater_than_one = Some(true);
        let renamed = on("A100-40GB", &four, SharedDevice::MigInstance, 7).unwrap();
        assert_eq!((renamed.resource.as_str(), renamed.count), ("nvidia.com/gpu.shared", 28));
        assert!(renamed.one_per_pod);
        let mps = on("H100-80GB", &sharing(SharingMethod::Mps, 3), SharedDevice::WholeGpu, 8).unwrap();
        assert_eq!((mps.count, mps.one_per_pod, mps.thread_percent), (24, true, Some(33)));
    }

    #[test]
    fn what_the_plugin_would_refuse_or_ignore_is_an_error() {
        use SharingMethod::{Mps, TimeSlicing};
        let whole = SharedDevice::WholeGpu;
        for (method, replicas, want) in [
            (TimeSlicing, 0, SharingError::TooFewReplicas { method: TimeSlicing, replicas: 0 }),
            (Mps, 1, SharingError::TooFewReplicas { method: Mps, replicas: 1 }),
            (Mps, 49, SharingError::TooManyMpsClients { model: "V100", replicas: 49, max: 48 }),
            (TimeSlicing, u32::MAX, SharingError::TooManyDevices { devices: 8, replicas: u32::MAX }),
        ] {
            assert_eq!(on("V100", &sharing(method, replicas), whole, 8), Err(want));
        }
        assert!(on("V100", &sharing(Mps, 48), whole, 8).is_ok());
        assert!(on("P100", &sharing(Mps, 17), whole, 8).is_err());
        let mig = on("A100-40GB", &sharing(Mps, 2), SharedDevice::MigInstance, 7);
        assert_eq!(mig, Err(SharingError::MpsOnMig));
        let lax = Sharing { fail_requests_greater_than_one: Some(false), ..sharing(Mps, 2) };
        assert_eq!(on("A100-40GB", &lax, whole, 8), Err(SharingError::MpsIsOnePerPod));
    }
}
