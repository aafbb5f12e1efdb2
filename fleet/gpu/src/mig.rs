//! MIG: cutting one GPU into isolated instances.
//!
//! A layout is valid when every instance gets an allowed place, no two share a memory unit, no profile exceeds its own
//! limit and, where known, the engines suffice. Adding up slices is not a test: 3g+3g fits seven slices and leaves no
//! room for a 1g. Sources are named in [`tables`].

mod geometry;
mod layout;
mod nearest;
mod place;
mod profile;
mod resources;
pub mod tables;

pub use geometry::{Engine, Engines, MigFamily, MigGeometry, MigProfile, Slots};
pub use layout::{LayoutError, MigLayout};
pub use place::{Placement, place, place_keeping, room_for};
pub use profile::{BadProfileName, ProfileName, ProfileNameFault, Variant};
pub use resources::{GPU_RESOURCE, GpuShape, MigStrategy, ResourceError, node_resources, resource_name};
