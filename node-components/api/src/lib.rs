//! Custom resources, names and protocols shared by the reconciler and by what runs on GPU nodes.

pub mod check;
pub mod crd;
pub mod names;
