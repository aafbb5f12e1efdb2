//! Rules that need to know what things mean, one file for each theme.
pub(crate) fn check(_: &mut crate::collect::Repository<'_>) {}
