//! Tests on real control planes and real nodes. They start API servers, kubelets and containers, so they run only where
//! `DRYDOCK_BED` asks for it; see [`drydock_bed::mode::Mode`]. `cargo test -p drydock-bed --test bed crash::` plays a part.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of it is test code")]

mod harness;

mod common;
mod ground;

mod crash;
mod deliveries;
mod faults;
mod hollow;
mod ledger;
mod operator;
mod plane;
mod real;
mod rollout;
mod scale;
mod skew;
mod truth;

fn main() -> std::process::ExitCode {
    // The longest first, so that none of them is alone at the end.
    harness::run(&[
        scale::TESTS,
        truth::TESTS,
        crash::TESTS,
        deliveries::TESTS,
        faults::TESTS,
        skew::TESTS,
        rollout::TESTS,
        hollow::TESTS,
        operator::TESTS,
        real::TESTS,
        ledger::TESTS,
        plane::TESTS,
    ])
}
