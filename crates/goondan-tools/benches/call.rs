//! Measures a minimal call of a built-in tool, from its handler and back. Excludes the engine's own
//! cost per call.
//!
//! `cargo bench -p goondan-tools --bench call`

#![allow(clippy::disallowed_methods, reason = "a bench reads its own files")]
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may panic")]

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/tools/mock_engine.rs"]
mod mock_engine;

use mock_engine::MockEngine;

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let bench = MockEngine::new();
    let (_, handler) = runtime.block_on(bench.open("text-transform__slice"));
    let Value::Object(arguments) = json!({ "text": "x", "start": 0, "end": 0 }) else {
        unreachable!("an object")
    };
    let mut group = criterion.benchmark_group("empty-call");
    group.bench_function("built-in", |bencher| {
        // Calls from a task, like the engine does.
        bencher.iter_custom(|times| {
            let (handler, context, arguments) = (
                std::sync::Arc::clone(&handler),
                bench.context(),
                arguments.clone(),
            );
            let calls = async move {
                let began = std::time::Instant::now();
                for _ in 0..times {
                    handler.call(&context, arguments.clone()).await.unwrap();
                }
                began.elapsed()
            };
            runtime.block_on(runtime.spawn(calls)).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
