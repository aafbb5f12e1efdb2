//! Facts about GPU hardware.
