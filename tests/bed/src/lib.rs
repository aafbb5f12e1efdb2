//! Grounds for tests: real control planes with hollow nodes, and real nodes.
//!
//! A test asks for the [`Tools`], starts a [`Plane`] (etcd, kube-apiserver, kube-controller-manager, kube-scheduler of
//! its own, on ports and in a folder of its own), and puts nodes on it: [`hollow`] ones, hundreds in one process, whose
//! pods become ready or break as faults say. An [`Operator`] stands in for NVIDIA's. Or [`real`]
//! ones, with a kubelet and real containers.
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! use drydock_bed::{Hollow, HollowOptions, Plane, PlaneOptions, Tools, User, hollow::NodeSpec};
//!
//! let plane = Plane::start(PlaneOptions::new(Tools::find()?)).await?;
//! let hollow = Hollow::start(&plane, HollowOptions::default()).await?;
//! hollow.add_nodes(NodeSpec::many("gpu", 20)).await?;
//! let client = plane.client(User::DrydockA)?;
//! # Ok(())
//! # }
//! ```
//!
//! Everything ends with the value that started it, also when a test panics or is killed.

mod clock;
pub mod hollow;
pub mod mode;
pub mod operator;
pub mod plane;
pub mod process;
pub mod real;
pub mod tools;
pub mod wait;

pub use hollow::{Hollow, HollowOptions};
pub use operator::Operator;
pub use plane::{Authorization, Controllers, Plane, PlaneOptions, User};
pub use real::{RealNodes, RealOptions, RealTools};
pub use tools::{Missing, Tools};
pub use wait::eventually;
