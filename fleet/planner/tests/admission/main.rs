//! Admission from outside: the worked examples of the rules, and counts that are made once more straight from the
//! documents.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod agree;
mod budgets;
mod calendar;
mod examples;
mod forget;
mod refused;
mod restart;
mod scene;
mod shared;
mod two;
mod units;
mod unseen;
mod visit;
mod why;
