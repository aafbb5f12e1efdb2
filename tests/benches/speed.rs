//! How fast the core is, at the sizes it is designed for. `README.md` beside this file has the table.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod input;

use std::{cell::LazyCell, hint::black_box, time::Duration};

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use drydock_plan::Inventory;
use drydock_planner::{check::check, plan};
use drydock_sim::Runner;
use drydock_spec::load;

use input::Moment;

/// Whole runs and XL passes take from tenths of a second to seconds; ten of them tell enough.
fn slow(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(10));
}

fn documents(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    slow(&mut group);
    group.bench_function("10000-documents", |b| {
        let files = input::documents(10_000);
        let loaded = load(&files);
        assert!(loaded.fleet.is_some(), "{:?}", loaded.diagnostics.iter().find(|d| d.is_error()));
        assert!(loaded.documents >= 10_000);
        b.iter(|| load(black_box(&files)));
    });
    group.finish();
}

fn passes(c: &mut Criterion) {
    let mut group = c.benchmark_group("pass");
    slow(&mut group);
    for (size, copies) in [("L", 1), ("XL", 10)] {
        group.bench_function(format!("{size}-nothing-to-do"), |b| {
            let still = Moment::still(copies);
            b.iter(|| plan(black_box(&still.input())));
        });
        // Made when the first bench that isn't filtered out asks for it.
        let busy = LazyCell::new(|| Moment::under_way(copies));
        group.bench_function(format!("{size}-under-way"), |b| {
            // Made before the clock runs: it is a simulation of its own.
            let busy = LazyCell::force(&busy);
            b.iter(|| plan(black_box(&busy.input())));
        });
        group.bench_function(format!("{size}-check"), |b| {
            let (planned, after) = busy.planned();
            b.iter(|| check(black_box(&busy.input()), black_box(&planned.plan), black_box(&after)));
        });
        group.bench_function(format!("{size}-assign-pools"), |b| {
            b.iter_batched_ref(
                || busy.inventory().clone(),
                |inventory: &mut Inventory| inventory.assign_pools(busy.fleet()),
                criterion::BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn simulation(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    slow(&mut group);
    group.bench_function("L-whole-rollout", |b| {
        b.iter_batched(
            || input::whole(1),
            |(world, script)| {
                let options = input::forecast(world.now());
                Runner::new(world, script, options).run()
            },
            criterion::BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, documents, passes, simulation);
criterion_main!(benches);
