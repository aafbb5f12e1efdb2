//! What `drydock demo` is made of.

pub(crate) mod act;
pub(crate) mod folder;
pub(crate) mod record;
pub(crate) mod repository;
pub(crate) mod versions;
pub(crate) mod watch;
