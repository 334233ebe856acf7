//! Single calls: arguments, results, and all possible failures.

use std::time::Duration;

use goondan_core::ports::tool::LogLevel;
use serde_json::json;

use crate::support::{Bench, Engine, compile_c, count, impatient};

#[tokio::test]
async fn a_rust_library_describes_itself_and_answers() {
    let bench = Bench::new();
    let text_utils = bench.example("text_utils").await;
    let spec = text_utils.spec("uppercase");
    assert_eq!(spec.description, "Convert text to uppercase");
    assert!(spec.read_only && spec.idempotent);
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "Text to convert" } },
            "required": ["text"]
        })
    );
    let engine = Engine::new();
    let output = text_utils
        .call_in(&engine, "uppercase", json!({ "text": "grün" }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "result": "GRÜN" }));
    let lines = engine.heard.lines.lock().expect("not poisoned");
    assert_eq!(
        (lines[0].0, lines[0].1.as_str()),
        (LogLevel::Info, "Converting \"grün\" to uppercase")
    );
}

#[tokio::test]
async fn a_c_library_answers() {
    let bench = Bench::new();
    compile_c("c-reverse/reverse.c", &[], &bench.path("libc_reverse.so"));
    let reverse = bench.open("c-reverse").await.expect("it opens");
    let output = reverse
        .call("reverse", json!({ "text": "añb" }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "result": "bña" }));
    let refused = reverse
        .call("reverse", json!({ "text": "a\"b" }))
        .await
        .expect_err("it fails");
    assert_eq!(refused.message, "only text without escapes can be reversed");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told() {
    let bench = Bench::new();
    let text_utils = bench.example("text_utils").await;
    let error = text_utils
        .call("uppercase", json!({ "text": 5 }))
        .await
        .expect_err("it fails");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
    assert!(
        error.message.contains("expected a string"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn errors_keep_what_they_say() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    let error = hostile.call("fail", json!({})).await.expect_err("it fails");
    assert_eq!(error.message, "no such thing");
    assert_eq!(error.code.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(error.suggestion.as_deref(), Some("ask for another"));
    assert_eq!(error.help_url.as_deref(), Some("https://example.com/help"));
    let error = hostile
        .call("fail_by_question_mark", json!({ "file": "/no/such/file" }))
        .await
        .expect_err("it fails");
    assert_eq!(
        (error.code, error.message.contains("No such file")),
        (None, true)
    );
}

#[tokio::test]
async fn state_lives_as_long_as_the_library() {
    let bench = Bench::new();
    let counter = bench.example("counter").await;
    counter
        .call("increment", json!({ "by": 2 }))
        .await
        .expect("it answers");
    let again = bench.open("subject").await.expect("it opens");
    let output = again
        .call("increment", json!({}))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "count": 3 }));
    assert_eq!(count(&bench.libraries.counters().mapped), 1);
    assert_eq!(count(&bench.libraries.counters().retired), 0);
}

#[tokio::test]
async fn the_first_and_the_last_progress_arrive_before_the_answer() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let engine = Engine::new();
    let output = slow
        .call_in(&engine, "work", json!({ "steps": 3 }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "steps": 3 }));
    let titles = engine.heard.titles.lock().expect("not poisoned");
    assert_eq!(titles.first().map(String::as_str), Some("step 1 of 3"));
    assert_eq!(titles.last().map(String::as_str), Some("step 3 of 3"));
}

#[tokio::test]
async fn a_tool_that_honours_cancellation_ends_by_itself() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    for (export, arguments) in [
        ("wait", json!({})),
        ("work", json!({ "steps": 1_000_000, "step_ms": 1 })),
    ] {
        let engine = Engine::new();
        let cancel = async {
            engine.progress().await;
            engine.context.cancellation.cancel();
        };
        let (result, ()) = tokio::join!(slow.call_in(&engine, export, arguments), cancel);
        let error = result.expect_err("it was cancelled");
        assert_eq!(
            (error.code.as_deref(), error.message.as_str()),
            (Some("E_TOOL_CANCELLED"), "the call was cancelled")
        );
    }
    // Both threads returned, so no call was written off.
    assert_eq!(count(&bench.libraries.counters().ignored), 0);
}

#[tokio::test]
async fn panics_fail_their_call_alone() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    for export in [
        "panic_at_once",
        "panic_in_future",
        "panic_in_payload",
        "panic_in_result",
    ] {
        let engine = Engine::new();
        let error = hostile
            .call_in(&engine, export, json!({}))
            .await
            .expect_err("it panics");
        assert_eq!(
            error.code.as_deref(),
            Some("E_TOOL_PANIC"),
            "{export}: {}",
            error.message
        );
        let lines = engine.heard.lines.lock().expect("not poisoned");
        let place = lines[0].2["at"].as_str().expect("a place");
        assert!(
            lines[0].1.starts_with("panicked: ") && place.contains("lib.rs"),
            "{export}: {lines:?}"
        );
    }
    let error = hostile
        .call("panic_at_once", json!({}))
        .await
        .expect_err("it panics");
    assert_eq!(
        error.message,
        "panic_at_once panicked: at once, with a text of its own"
    );
    let output = hostile
        .call("panic_in_thread", json!({}))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "panicked": true }));
}

#[tokio::test]
async fn the_log_crate_is_forwarded() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    let engine = Engine::new();
    hostile
        .call_in(&engine, "log_line", json!({}))
        .await
        .expect("it answers");
    let lines = engine.heard.lines.lock().expect("not poisoned");
    assert_eq!(
        (lines[0].0, lines[0].1.as_str()),
        (LogLevel::Warn, "by the log crate")
    );
    assert_eq!(lines[0].2["target"], "hostile");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    let error = hostile
        .call("huge", json!({}))
        .await
        .expect_err("it is refused");
    assert_eq!(error.code.as_deref(), Some("E_TOOL"));
    assert!(
        error.message.contains("larger than 8388608 bytes"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn arguments_that_are_too_large_are_an_error() {
    for bench in [Bench::new(), Bench::hosted(impatient())] {
        let text_utils = bench.example("text_utils").await;
        let arguments = json!({ "text": "x".repeat(20 * 1024 * 1024) });
        let error = text_utils
            .call("uppercase", arguments)
            .await
            .expect_err("it is refused");
        assert_eq!(error.code.as_deref(), Some("E_TOOL"), "{}", error.message);
        assert!(
            text_utils
                .call("uppercase", json!({ "text": "x" }))
                .await
                .is_ok()
        );
    }
}

#[tokio::test]
async fn workers_that_never_come_back_make_the_library_unavailable() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    for _ in 0..2 {
        let engine = Engine::new();
        engine.context.cancellation.cancel();
        let error = hostile
            .call_in(&engine, "never", json!({}))
            .await
            .expect_err("it was cancelled");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
    }
    let refused = hostile
        .call("fail", json!({}))
        .await
        .expect_err("it is refused");
    assert_eq!(refused.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
    assert!(
        refused.message.contains("2 cancelled calls did not end"),
        "{}",
        refused.message
    );
    // Opening the same file again results in a working library.
    let again = bench.open("subject").await.expect("it opens");
    assert_eq!(again.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

#[tokio::test]
async fn a_time_out_is_told_as_one() {
    let bench = Bench::new();
    std::fs::copy(
        crate::support::plugin("hostile"),
        bench.path("libsubject.so"),
    )
    .expect("copied");
    let mut tool = crate::support::tool("subject");
    tool.spec.timeout = Duration::ZERO;
    let hostile = bench.open_tool(&tool).await.expect("it opens");
    let engine = Engine::new();
    engine.context.cancellation.cancel();
    let error = hostile
        .call_in(&engine, "never", json!({}))
        .await
        .expect_err("it was cancelled");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_TIMEOUT"));
}

#[tokio::test]
async fn a_worker_that_comes_back_late_is_forgiven() {
    let bench = Bench::new();
    let hostile = bench.example("hostile").await;
    let file = bench.path("go-on");
    for _ in 0..2 {
        let engine = Engine::new();
        engine.context.cancellation.cancel();
        hostile
            .call_in(&engine, "late", json!({ "file": file }))
            .await
            .expect_err("it was cancelled");
    }
    assert_eq!(
        hostile.code("fail").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    std::fs::write(&file, b"").expect("written");
    until(|| count(&bench.libraries.counters().ignored) == 2).await;
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_its_call() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let engine = Engine::new();
    {
        let call = slow.call_in(&engine, "wait", json!({}));
        tokio::select! {
            _ = call => panic!("it waits"),
            () = engine.progress() => {}
        }
    }
    // The thread returns later with an answer that is ignored.
    until(|| count(&bench.libraries.counters().ignored) == 1).await;
}

#[tokio::test]
async fn calls_of_one_library_run_at_the_same_time() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let engines: Vec<Engine> = (0..8).map(|_| Engine::new()).collect();
    let calls = engines
        .iter()
        .map(|engine| slow.call_in(engine, "wait", json!({})));
    // Each call ends only after all calls have begun.
    let cancel = async {
        for engine in &engines {
            engine.progress().await;
        }
        engines
            .iter()
            .for_each(|engine| engine.context.cancellation.cancel());
    };
    let (results, ()) = tokio::join!(futures::future::join_all(calls), cancel);
    assert!(results.iter().all(|result| {
        result
            .as_ref()
            .is_err_and(|error| error.message == "the call was cancelled")
    }));
}

#[tokio::test]
async fn what_a_careless_library_says_is_ignored_or_told() {
    let bench = Bench::new();
    let hostile = bench.c_hostile(&[]).await.expect("it opens");
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("it answers")
            .output,
        "fine"
    );
    assert_eq!(
        hostile
            .call("double", json!({}))
            .await
            .expect("it answers")
            .output,
        1
    );
    assert_eq!(
        hostile
            .call("unknown", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "status": -2 })
    );
    assert_eq!(
        hostile
            .call("flood", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "status": -6 })
    );
    assert_eq!(
        hostile
            .call("bad-request", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "status": -3 })
    );
    for export in ["not-json", "not-utf8", "null", "refuse"] {
        assert_eq!(
            hostile.code(export).await.as_deref(),
            Some("E_TOOL"),
            "{export}"
        );
    }
    assert_eq!(
        hostile.code("panic-status").await.as_deref(),
        Some("E_TOOL_PANIC")
    );
    assert_eq!(count(&bench.libraries.counters().ignored), 2);
}

#[tokio::test]
async fn a_completion_after_the_end_of_the_grace_is_ignored() {
    let bench = Bench::new();
    let hostile = bench.c_hostile(&[]).await.expect("it opens");
    let engine = Engine::new();
    engine.context.cancellation.cancel();
    let error = hostile
        .call_in(&engine, "after-cancel", json!({}))
        .await
        .expect_err("it was cancelled");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
    // One ignored event and one ignored completion.
    until(|| count(&bench.libraries.counters().ignored) == 2).await;
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("it answers")
            .output,
        "fine"
    );
}

#[tokio::test]
async fn a_library_that_blocks_stalls_its_own_lane_alone() {
    let bench = Bench::new();
    let hostile = bench.c_hostile(&[]).await.expect("it opens");
    let other = Bench::new();
    let text_utils = other.example("text_utils").await;
    let engine = Engine::new();
    engine.context.cancellation.cancel();
    assert_eq!(
        hostile
            .call_in(&engine, "block", json!({}))
            .await
            .expect_err("it was cancelled")
            .code
            .as_deref(),
        Some("E_TOOL_CANCELLED")
    );
    assert!(
        text_utils
            .call("uppercase", json!({ "text": "x" }))
            .await
            .is_ok()
    );
    // Calls queued after the blocked call can also be cancelled.
    let engine = Engine::new();
    engine.context.cancellation.cancel();
    assert!(hostile.call_in(&engine, "ok", json!({})).await.is_err());
    assert_eq!(
        hostile.code("ok").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
}

/// Polls for a change on a thread that sends no notification.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
