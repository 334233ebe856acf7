//! Single calls: arguments, results, and all possible failures.

use std::time::Duration;

use goondan_core::ports::tool::LogLevel;
use serde_json::json;

use crate::support::{LibraryFixture, MockEngine, compile_c, count, short_limits};

#[tokio::test]
async fn a_rust_library_returns_its_description_and_results() {
    let fixture = LibraryFixture::new();
    let text_utils = fixture.example("text_utils").await;
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
    let engine = MockEngine::new();
    let output = text_utils
        .call_in(&engine, "uppercase", json!({ "text": "grün" }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "result": "GRÜN" }));
    let lines = engine.recorded.lines.lock().expect("not poisoned");
    assert_eq!(
        (lines[0].0, lines[0].1.as_str()),
        (LogLevel::Info, "Converting \"grün\" to uppercase")
    );
}

#[tokio::test]
async fn a_c_library_returns_results_and_errors() {
    let fixture = LibraryFixture::new();
    compile_c("c-reverse/reverse.c", &[], &fixture.path("libc_reverse.so"));
    let reverse = fixture.open("c-reverse").await.expect("the library opens");
    let output = reverse
        .call("reverse", json!({ "text": "añb" }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "result": "bña" }));
    let error = reverse
        .call("reverse", json!({ "text": "a\"b" }))
        .await
        .expect_err("the call fails");
    assert_eq!(error.message, "only text without escapes can be reversed");
}

#[tokio::test]
async fn arguments_of_a_wrong_type_are_reported() {
    let fixture = LibraryFixture::new();
    let text_utils = fixture.example("text_utils").await;
    let error = text_utils
        .call("uppercase", json!({ "text": 5 }))
        .await
        .expect_err("the call fails");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
    assert!(
        error.message.contains("expected a string"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn errors_keep_their_message_code_and_suggestion() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    let error = hostile
        .call("fail", json!({}))
        .await
        .expect_err("the call fails");
    assert_eq!(error.message, "no such thing");
    assert_eq!(error.code.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(error.suggestion.as_deref(), Some("ask for another"));
    assert_eq!(error.help_url.as_deref(), Some("https://example.com/help"));
    let error = hostile
        .call("fail_by_question_mark", json!({ "file": "/no/such/file" }))
        .await
        .expect_err("the call fails");
    assert_eq!(
        (error.code, error.message.contains("No such file")),
        (None, true)
    );
}

#[tokio::test]
async fn library_state_persists_between_calls() {
    let fixture = LibraryFixture::new();
    let counter = fixture.example("counter").await;
    counter
        .call("increment", json!({ "by": 2 }))
        .await
        .expect("the call succeeds");
    let reopened = fixture.open("subject").await.expect("the library opens");
    let output = reopened
        .call("increment", json!({}))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "count": 3 }));
    assert_eq!(count(&fixture.libraries.counters().mapped), 1);
    assert_eq!(count(&fixture.libraries.counters().retired), 0);
}

#[tokio::test]
async fn the_first_and_last_progress_updates_precede_the_result() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let engine = MockEngine::new();
    let output = slow
        .call_in(&engine, "work", json!({ "steps": 3 }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "steps": 3 }));
    let titles = engine.recorded.titles.lock().expect("not poisoned");
    assert_eq!(titles.first().map(String::as_str), Some("step 1 of 3"));
    assert_eq!(titles.last().map(String::as_str), Some("step 3 of 3"));
}

#[tokio::test]
async fn a_tool_that_handles_cancellation_is_not_abandoned() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    for (export, arguments) in [
        ("wait", json!({})),
        ("work", json!({ "steps": 1_000_000, "step_ms": 1 })),
    ] {
        let engine = MockEngine::new();
        let cancel = async {
            engine.wait_for_progress().await;
            engine.context.cancellation.cancel();
        };
        let (result, ()) = tokio::join!(slow.call_in(&engine, export, arguments), cancel);
        let error = result.expect_err("the call is cancelled");
        assert_eq!(
            (error.code.as_deref(), error.message.as_str()),
            (Some("E_TOOL_CANCELLED"), "the call was cancelled")
        );
    }
    // Both threads returned, so no call was abandoned.
    assert_eq!(count(&fixture.libraries.counters().ignored), 0);
}

#[tokio::test]
async fn a_panic_fails_only_its_own_call() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    for export in [
        "panic_at_once",
        "panic_in_future",
        "panic_in_payload",
        "panic_in_result",
    ] {
        let engine = MockEngine::new();
        let error = hostile
            .call_in(&engine, export, json!({}))
            .await
            .expect_err("the call panics");
        assert_eq!(
            error.code.as_deref(),
            Some("E_TOOL_PANIC"),
            "{export}: {}",
            error.message
        );
        let lines = engine.recorded.lines.lock().expect("not poisoned");
        let location = lines[0].2["at"].as_str().expect("a source location");
        assert!(
            lines[0].1.starts_with("panicked: ") && location.contains("lib.rs"),
            "{export}: {lines:?}"
        );
    }
    let error = hostile
        .call("panic_at_once", json!({}))
        .await
        .expect_err("the call panics");
    assert_eq!(
        error.message,
        "panic_at_once panicked: at once, with a text of its own"
    );
    let output = hostile
        .call("panic_in_thread", json!({}))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "panicked": true }));
}

#[tokio::test]
async fn messages_of_the_log_crate_are_forwarded() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    let engine = MockEngine::new();
    hostile
        .call_in(&engine, "log_line", json!({}))
        .await
        .expect("the call succeeds");
    let lines = engine.recorded.lines.lock().expect("not poisoned");
    assert_eq!(
        (lines[0].0, lines[0].1.as_str()),
        (LogLevel::Warn, "by the log crate")
    );
    assert_eq!(lines[0].2["target"], "hostile");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    let error = hostile
        .call("huge", json!({}))
        .await
        .expect_err("the call is rejected");
    assert_eq!(error.code.as_deref(), Some("E_TOOL"));
    assert!(
        error.message.contains("larger than 8388608 bytes"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn arguments_that_are_too_large_are_an_error() {
    for fixture in [
        LibraryFixture::new(),
        LibraryFixture::hosted(short_limits()),
    ] {
        let text_utils = fixture.example("text_utils").await;
        let arguments = json!({ "text": "x".repeat(20 * 1024 * 1024) });
        let error = text_utils
            .call("uppercase", arguments)
            .await
            .expect_err("the call is rejected");
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
async fn workers_that_never_return_make_the_library_unavailable() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    for _ in 0..2 {
        let engine = MockEngine::new();
        engine.context.cancellation.cancel();
        let error = hostile
            .call_in(&engine, "never", json!({}))
            .await
            .expect_err("the call is cancelled");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
    }
    let error = hostile
        .call("fail", json!({}))
        .await
        .expect_err("the call is rejected");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
    assert!(
        error.message.contains("2 cancelled calls did not end"),
        "{}",
        error.message
    );
    // Opening the same file again results in a working library.
    let reopened = fixture.open("subject").await.expect("the library opens");
    assert_eq!(reopened.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

#[tokio::test]
async fn a_call_after_its_timeout_has_the_timeout_code() {
    let fixture = LibraryFixture::new();
    std::fs::copy(
        crate::support::plugin("hostile"),
        fixture.path("libsubject.so"),
    )
    .expect("copied");
    let mut tool = crate::support::tool("subject");
    tool.spec.timeout = Duration::ZERO;
    let hostile = fixture.open_tool(&tool).await.expect("the library opens");
    let engine = MockEngine::new();
    engine.context.cancellation.cancel();
    let error = hostile
        .call_in(&engine, "never", json!({}))
        .await
        .expect_err("the call is cancelled");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_TIMEOUT"));
}

#[tokio::test]
async fn a_library_is_available_again_after_late_workers_return() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.example("hostile").await;
    let file = fixture.path("go-on");
    for _ in 0..2 {
        let engine = MockEngine::new();
        engine.context.cancellation.cancel();
        hostile
            .call_in(&engine, "late", json!({ "file": file }))
            .await
            .expect_err("the call is cancelled");
    }
    assert_eq!(
        hostile.code("fail").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    std::fs::write(&file, b"").expect("written");
    wait_until(|| count(&fixture.libraries.counters().ignored) == 2).await;
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let engine = MockEngine::new();
    {
        let call = slow.call_in(&engine, "wait", json!({}));
        tokio::select! {
            _ = call => panic!("the call did not wait"),
            () = engine.wait_for_progress() => {}
        }
    }
    // The thread returns later, and its result is ignored.
    wait_until(|| count(&fixture.libraries.counters().ignored) == 1).await;
}

#[tokio::test]
async fn calls_of_one_library_run_concurrently() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let engines: Vec<MockEngine> = (0..8).map(|_| MockEngine::new()).collect();
    let calls = engines
        .iter()
        .map(|engine| slow.call_in(engine, "wait", json!({})));
    // The calls are cancelled only after all of them have started.
    let cancel = async {
        for engine in &engines {
            engine.wait_for_progress().await;
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
async fn invalid_messages_of_a_library_are_ignored_or_reported() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.c_hostile(&[]).await.expect("the library opens");
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        "fine"
    );
    assert_eq!(
        hostile
            .call("double", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        1
    );
    assert_eq!(
        hostile
            .call("unknown", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "status": -2 })
    );
    assert_eq!(
        hostile
            .call("flood", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "status": -6 })
    );
    assert_eq!(
        hostile
            .call("bad-request", json!({}))
            .await
            .expect("the call succeeds")
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
    assert_eq!(count(&fixture.libraries.counters().ignored), 2);
}

#[tokio::test]
async fn a_completion_after_the_grace_period_is_ignored() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.c_hostile(&[]).await.expect("the library opens");
    let engine = MockEngine::new();
    engine.context.cancellation.cancel();
    let error = hostile
        .call_in(&engine, "after-cancel", json!({}))
        .await
        .expect_err("the call is cancelled");
    assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
    // One ignored event and one ignored completion.
    wait_until(|| count(&fixture.libraries.counters().ignored) == 2).await;
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        "fine"
    );
}

#[tokio::test]
async fn a_blocking_library_blocks_only_its_own_calls() {
    let fixture = LibraryFixture::new();
    let hostile = fixture.c_hostile(&[]).await.expect("the library opens");
    let other = LibraryFixture::new();
    let text_utils = other.example("text_utils").await;
    let engine = MockEngine::new();
    engine.context.cancellation.cancel();
    assert_eq!(
        hostile
            .call_in(&engine, "block", json!({}))
            .await
            .expect_err("the call is cancelled")
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
    let engine = MockEngine::new();
    engine.context.cancellation.cancel();
    assert!(hostile.call_in(&engine, "ok", json!({})).await.is_err());
    assert_eq!(
        hostile.code("ok").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
}

/// Polls for a state change in another thread that sends no notification.
pub(crate) async fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
