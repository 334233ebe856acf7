//! Experiments made before the contract was frozen. The crate documentation lists the results.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::calls::until;
use crate::support::{Bench, Engine, compile_c, count, plugin};

/// Number of reloads in the first experiment.
const RELOADS: usize = 200;

/// Makes copies of the hostile library that differ in one string, so that each is a new library
/// with the same code.
struct Generations {
    bytes: Vec<u8>,
    marker_at: Vec<usize>,
}

impl Generations {
    fn new() -> Self {
        let bytes = std::fs::read(plugin("hostile")).expect("read");
        let marker = b"GENERATION-00000";
        let starts = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == marker[0])
            .map(|(at, _)| at);
        let marker_at: Vec<usize> = starts
            .filter(|at| bytes[*at..].starts_with(marker))
            .collect();
        assert!(!marker_at.is_empty(), "the marker is in the library");
        Generations { bytes, marker_at }
    }

    fn write(&mut self, number: usize, target: &Path) {
        for at in &self.marker_at {
            self.bytes[*at..at + 16].copy_from_slice(format!("GENERATION-{number:05}").as_bytes());
        }
        std::fs::write(target, &self.bytes).expect("written");
    }
}

/// Returns the resident memory of this process in bytes, if the system provides it.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    statm
        .split_whitespace()
        .nth(1)?
        .parse::<usize>()
        .ok()
        .map(|pages| pages * 4096)
}

/// 1. Each reload runs new code, although thread-local destructors of the old code ran on threads
/// of both sides.
#[tokio::test]
async fn two_hundred_reloads_run_new_code_each_time() {
    let bench = Bench::new();
    let mut generations = Generations::new();
    let before = resident();
    let mut seen = BTreeSet::new();
    for number in 0..RELOADS {
        generations.write(number, &bench.path("libsubject.so"));
        let subject = bench.open("subject").await.expect("it opens");
        let output = subject
            .call("generation", json!({}))
            .await
            .expect("it answers")
            .output;
        assert_eq!(
            output,
            json!({ "marker": format!("GENERATION-{number:05}") })
        );
        seen.insert(output.to_string());
    }
    assert_eq!(seen.len(), RELOADS);
    until(|| count(&bench.libraries.counters().retired) == RELOADS as u64).await;
    if let (Some(before), Some(after)) = (before, resident()) {
        println!(
            "{} KiB a reload",
            (after.saturating_sub(before)) / RELOADS / 1024
        );
    }
}

/// 2. A panic in start (which decodes arguments), in a worker, or in a payload's drop ends only its
/// own call.
#[tokio::test]
async fn a_panic_anywhere_ends_its_call_alone() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    for _ in 0..20 {
        for export in ["panic_at_once", "panic_in_payload", "panic_in_result"] {
            assert_eq!(hostile.code(export).await.as_deref(), Some("E_TOOL_PANIC"));
        }
    }
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

/// 3. A thread that does not stop continues in a closed library: its calls are refused, and nothing
/// crashes.
#[tokio::test]
async fn a_thread_that_outlives_its_library_does_no_harm() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    hostile.call("linger", json!({})).await.expect("it answers");
    drop(hostile);
    until(|| count(&bench.libraries.counters().retired) == 1).await;
    let ignored = count(&bench.libraries.counters().ignored);
    // The thread sees a finished call first and then a closed library, which is not counted.
    let again = bench.example("hostile").await;
    again.call("linger", json!({})).await.expect("it answers");
    until(|| count(&bench.libraries.counters().ignored) > ignored + 3).await;
    assert_eq!(again.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

/// 4. Overwriting the opened file does not affect running calls.
#[tokio::test]
async fn overwriting_the_build_output_during_a_call_is_harmless() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let engine = Engine::new();
    let overwrite = async {
        engine.progress().await;
        // In place and shorter, with the same inode.
        std::fs::write(bench.path("libsubject.so"), vec![0xCC; 100]).expect("written");
        engine.context.cancellation.cancel();
    };
    let (result, ()) = tokio::join!(slow.call_in(&engine, "wait", json!({})), overwrite);
    assert_eq!(
        result.expect_err("it was cancelled").message,
        "the call was cancelled"
    );
    let output = slow
        .call("work", json!({ "steps": 2 }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "steps": 2 }));
}

/// 5. The contract is not limited to Rust.
#[tokio::test]
async fn a_library_in_c_needs_the_header_alone() {
    let bench = Bench::new();
    compile_c("c-reverse/reverse.c", &[], &bench.path("libsubject.so"));
    let subject = bench.open("subject").await.expect("it opens");
    let output = subject
        .call("reverse", json!({ "text": "abc" }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "result": "cba" }));
}
