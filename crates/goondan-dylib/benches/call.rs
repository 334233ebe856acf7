//! Measures an empty call of a library, from its handler to the library and back: in this process,
//! and in a host process. Excludes the engine's own cost per call.
//!
//! `cargo bench -p goondan-dylib --bench call`

#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a benchmark may panic"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use goondan_core::JsonObject;
use goondan_dylib::LibraryLimits;
use tokio::runtime::Runtime;

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/support.rs"]
mod support;

use support::{LibraryFixture, MockEngine};

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let engine = MockEngine::new();
    let mut group = criterion.benchmark_group("empty-call");
    for (place, fixture) in [
        (
            "library",
            LibraryFixture::with_limits(LibraryLimits::default()),
        ),
        (
            "child-process",
            LibraryFixture::hosted(LibraryLimits::default()),
        ),
    ] {
        let exports = runtime.block_on(fixture.example("counter"));
        let handler = exports.handler("current");
        group.bench_function(place, |bencher| {
            // Calls from a task, like the engine does, and not from a thread outside of the
            // runtime's workers.
            bencher.iter_custom(|times| {
                let (handler, context) = (std::sync::Arc::clone(&handler), engine.context.clone());
                let calls = async move {
                    let began = std::time::Instant::now();
                    for _ in 0..times {
                        handler.call(&context, JsonObject::new()).await.unwrap();
                    }
                    began.elapsed()
                };
                runtime.block_on(runtime.spawn(calls)).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
