//! Experiments from before the ABI was frozen. The crate documentation lists the results.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use crate::calls::wait_until;
use crate::support::{LibraryFixture, MockEngine, compile_c, count, plugin};

/// Number of reloads in the first experiment.
const RELOADS: usize = 200;

/// Creates copies of the hostile library that differ in one string, so that each copy is a new
/// library with the same code.
struct LibraryGenerations {
    bytes: Vec<u8>,
    marker_offsets: Vec<usize>,
}

impl LibraryGenerations {
    fn new() -> Self {
        let bytes = std::fs::read(plugin("hostile")).expect("read");
        let marker = b"GENERATION-00000";
        let starts = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == marker[0])
            .map(|(at, _)| at);
        let marker_offsets: Vec<usize> = starts
            .filter(|at| bytes[*at..].starts_with(marker))
            .collect();
        assert!(!marker_offsets.is_empty(), "the marker is in the library");
        LibraryGenerations {
            bytes,
            marker_offsets,
        }
    }

    fn write(&mut self, number: usize, target: &Path) {
        for at in &self.marker_offsets {
            self.bytes[*at..at + 16].copy_from_slice(format!("GENERATION-{number:05}").as_bytes());
        }
        std::fs::write(target, &self.bytes).expect("written");
    }
}

/// Returns the resident memory of this process in bytes, if the system provides it.
fn resident_memory() -> Option<usize> {
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
async fn each_of_200_reloads_runs_new_code() {
    let fixture = LibraryFixture::new();
    let mut generations = LibraryGenerations::new();
    let before = resident_memory();
    let mut outputs = BTreeSet::new();
    for number in 0..RELOADS {
        generations.write(number, &fixture.path("libsubject.so"));
        let subject = fixture.open("subject").await.expect("the library opens");
        let output = subject
            .call("generation", json!({}))
            .await
            .expect("the call succeeds")
            .output;
        assert_eq!(
            output,
            json!({ "marker": format!("GENERATION-{number:05}") })
        );
        outputs.insert(output.to_string());
    }
    assert_eq!(outputs.len(), RELOADS);
    wait_until(|| count(&fixture.libraries.counters().retired) == RELOADS as u64).await;
    if let (Some(before), Some(after)) = (before, resident_memory()) {
        println!(
            "{} KiB a reload",
            (after.saturating_sub(before)) / RELOADS / 1024
        );
    }
}

/// 2. A panic in start (which decodes arguments), in a worker, or in a payload's drop ends only its
/// own call.
#[tokio::test]
async fn a_panic_at_any_stage_ends_only_its_own_call() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    for _ in 0..20 {
        for export in ["panic_at_once", "panic_in_payload", "panic_in_result"] {
            assert_eq!(hostile.code(export).await.as_deref(), Some("E_TOOL_PANIC"));
        }
    }
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

/// 3. A thread that does not stop continues in a closed library. Its calls are rejected without a
/// crash.
#[tokio::test]
async fn a_thread_that_outlives_its_library_is_harmless() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    hostile
        .call("linger", json!({}))
        .await
        .expect("the call succeeds");
    drop(hostile);
    wait_until(|| count(&fixture.libraries.counters().retired) == 1).await;
    let ignored = count(&fixture.libraries.counters().ignored);
    // The calls of the thread first reach a finished call and then a closed library. Only calls to
    // a finished call are counted.
    let reopened = fixture.example("hostile").await;
    reopened
        .call("linger", json!({}))
        .await
        .expect("the call succeeds");
    wait_until(|| count(&fixture.libraries.counters().ignored) > ignored + 3).await;
    assert_eq!(reopened.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

/// 4. Overwriting the opened file does not affect running calls.
#[tokio::test]
async fn overwriting_the_build_output_during_a_call_is_harmless() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let engine = MockEngine::new();
    let overwrite = async {
        engine.wait_for_progress().await;
        // The file is overwritten in place with shorter content and keeps its inode.
        std::fs::write(fixture.path("libsubject.so"), vec![0xCC; 100]).expect("written");
        engine.context.cancellation.cancel();
    };
    let (result, ()) = tokio::join!(slow.call_in(&engine, "wait", json!({})), overwrite);
    assert_eq!(
        result.expect_err("the call is cancelled").message,
        "the call was cancelled"
    );
    let output = slow
        .call("work", json!({ "steps": 2 }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "steps": 2 }));
}

/// 5. The ABI is not limited to Rust.
#[tokio::test]
async fn a_c_library_needs_only_the_header() {
    let fixture = LibraryFixture::new();
    compile_c("c-reverse/reverse.c", &[], &fixture.path("libsubject.so"));
    let subject = fixture.open("subject").await.expect("the library opens");
    let output = subject
        .call("reverse", json!({ "text": "abc" }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "result": "cba" }));
}
