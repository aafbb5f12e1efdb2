//! What is kept of objects: only the fields that are used, read straight from the API server's JSON, so that a cluster
//! with 100,000 pods fits into little memory.

mod meta;
mod node;
mod other;
mod pod;

pub use self::meta::{Key, Meta, Owner, Watched};
pub use self::node::{NodeObject, Taint};
pub use self::other::{DaemonSetObject, DeploymentObject, JobObject, OperatorObject};
pub use self::pod::{ContainerState, PodObject, PodPhase};
