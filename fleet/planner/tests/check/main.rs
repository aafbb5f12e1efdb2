//! Every invariant of the checker, with a plan that keeps it and plans that break it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod documents;
mod fixture;

mod admission;
mod apply;
mod budget;
mod calendar;
mod cordon;
mod course;
mod domain;
mod exposure;
mod ledger;
mod random;
mod reservation;
mod shared;
mod size;
mod soak;
mod verify;
