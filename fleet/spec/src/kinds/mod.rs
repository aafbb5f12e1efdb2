//! The kinds of document, one file each. Field names here are promises; `schemas/` is generated from them.

mod budget;
mod calendar;
mod check_suite;
mod cluster;
mod component;
mod component_version;
mod control;
mod cost;
mod fleet;
mod layout;
mod policy;
mod pool;
mod release;
mod template;
mod wave;

pub use budget::*;
pub use calendar::*;
pub use check_suite::*;
pub use cluster::*;
pub use component::*;
pub use component_version::*;
pub use control::*;
pub use cost::*;
pub(crate) use fleet::default_removal_budget;
pub use fleet::*;
pub use layout::*;
pub use policy::*;
pub use pool::*;
pub use release::*;
pub use template::*;
pub use wave::*;
