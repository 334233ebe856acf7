//! `isolation: process`: the same libraries in host processes.

use std::time::Duration;

use serde_json::json;

use crate::support::{LibraryFixture, MockEngine, compile_c, count, short_limits};

#[tokio::test]
async fn a_library_in_a_host_process_can_be_called() {
    let fixture = LibraryFixture::hosted(short_limits());
    let text_utils = fixture.example("text_utils").await;
    assert_eq!(
        text_utils.spec("uppercase").description,
        "Convert text to uppercase"
    );
    let engine = MockEngine::new();
    let output = text_utils
        .call_in(&engine, "uppercase", json!({ "text": "grün" }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "result": "GRÜN" }));
    assert_eq!(engine.recorded.lines.lock().expect("not poisoned").len(), 1);
}

#[tokio::test]
async fn progress_cancellation_and_agent_calls_work_over_pipes() {
    let fixture = LibraryFixture::hosted(short_limits());
    let slow = fixture.example("slow").await;
    let engine = MockEngine::new();
    let cancel = async {
        engine.wait_for_progress().await;
        engine.context.cancellation.cancel();
    };
    let (result, ()) = tokio::join!(
        slow.call_in(&engine, "work", json!({ "steps": 100_000, "step_ms": 1 })),
        cancel
    );
    assert_eq!(
        result.expect_err("the call is cancelled").code.as_deref(),
        Some("E_TOOL_CANCELLED")
    );

    let agent = fixture.example("ask_agent").await;
    let output = agent
        .call("ask", json!({ "agent": "writer", "question": "why?" }))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "answer": "you asked: why?" }));
    let error = agent
        .call("ask", json!({ "agent": "nobody", "question": "?" }))
        .await
        .expect_err("the call fails");
    assert_eq!(error.code.as_deref(), Some("AGENT_NOT_FOUND"));
}

#[tokio::test]
async fn a_crash_fails_all_running_calls_and_the_next_call_succeeds() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.example("hostile").await;
    let slow = MockEngine::new();
    // A call that runs during the crash also gets a result.
    let (crashed, concurrent) = tokio::join!(
        hostile.call("crash", json!({})),
        hostile.call_in(&slow, "never", json!({}))
    );
    for error in [
        crashed.expect_err("the call crashes"),
        concurrent.expect_err("the concurrent call also fails"),
    ] {
        assert_eq!(error.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
        assert!(error.message.contains("signal: 6"), "{}", error.message);
    }
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(count(&fixture.libraries.counters().crashes), 1);
}

#[tokio::test]
async fn a_repeatedly_crashing_library_restarts_with_a_delay() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.example("hostile").await;
    let mut crashes = 0;
    // The delays grow, so that even a slow machine observes a delay.
    let delayed = loop {
        let error = hostile
            .call("crash", json!({}))
            .await
            .expect_err("the call crashes or is delayed");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
        if error.message.contains("; it restarts in ") {
            break error;
        }
        crashes += 1;
    };
    assert!(crashes >= 6, "{crashes}");
    assert!(
        delayed
            .message
            .contains(&format!("crashed {crashes} times in a row")),
        "{}",
        delayed.message
    );
}

#[tokio::test]
async fn an_endless_loop_ends_with_its_host_process() {
    let fixture = LibraryFixture::hosted(short_limits());
    compile_c("c-hostile/hostile.c", &[], &fixture.path("libspin.so"));
    let spin = fixture.open("spin").await.expect("the library opens");
    for _ in 0..2 {
        let engine = MockEngine::new();
        engine.context.cancellation.cancel();
        assert!(spin.call_in(&engine, "spin", json!({})).await.is_err());
    }
    assert_eq!(
        spin.call("ok", json!({}))
            .await
            .expect("a new host answers")
            .output,
        "fine"
    );
}

#[tokio::test]
async fn a_segmentation_fault_ends_only_the_host_process() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.c_hostile(&[]).await.expect("the library opens");
    let error = hostile
        .call("crash", json!({}))
        .await
        .expect_err("the call crashes");
    assert!(error.message.contains("signal: 11"), "{}", error.message);
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        "fine"
    );
    let error = fixture
        .c_hostile(&["CRASH"])
        .await
        .err()
        .expect("opening fails");
    assert!(
        error.to_string().contains("crashed while it opened"),
        "{error}"
    );
}

#[tokio::test]
async fn the_output_of_a_library_does_not_disturb_the_protocol() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.example("hostile").await;
    assert_eq!(
        hostile
            .call("chatter", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "said": true })
    );
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(count(&fixture.libraries.counters().crashes), 0);
}

#[tokio::test]
async fn invalid_messages_of_a_hosted_library_are_reported() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.c_hostile(&[]).await.expect("the library opens");
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
    assert_eq!(hostile.code("not-json").await.as_deref(), Some("E_TOOL"));
    assert_eq!(
        hostile.code("panic-status").await.as_deref(),
        Some("E_TOOL_PANIC")
    );
}

#[tokio::test]
async fn open_errors_of_a_host_process_are_reported() {
    let fixture = LibraryFixture::hosted(short_limits());
    let error = fixture
        .c_hostile(&["MAJOR=2"])
        .await
        .err()
        .expect("opening fails");
    assert!(
        error.to_string().contains("uses version 2 of the tool ABI"),
        "{error}"
    );
    assert!(
        error
            .suggestion
            .is_some_and(|text| text.contains("goondan-abi 1.x"))
    );
}

#[tokio::test]
async fn a_host_process_ends_with_its_last_handler() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.example("hostile").await;
    hostile
        .call("linger", json!({}))
        .await
        .expect("the call succeeds");
    #[cfg(target_os = "linux")]
    assert_eq!(running_hosts(&fixture), 1);
    drop(hostile);
    // Before the shutdown, which would end the process in any case.
    #[cfg(target_os = "linux")]
    tokio::time::timeout(Duration::from_secs(20), async {
        while running_hosts(&fixture) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the host process ends");
    assert!(
        fixture
            .libraries
            .shutdown(Duration::from_secs(20))
            .await
            .is_empty()
    );
    assert_eq!(count(&fixture.libraries.counters().crashes), 0);
}

/// Returns the number of running host processes of a fixture: their last argument is the path of its
/// library. A process that has ended has no arguments.
#[cfg(target_os = "linux")]
fn running_hosts(fixture: &LibraryFixture) -> usize {
    let folder = fixture.folder.path().display().to_string();
    std::fs::read_dir("/proc")
        .expect("the processes are listed")
        .flatten()
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .filter(|arguments| String::from_utf8_lossy(arguments).contains(&folder))
        .count()
}

#[tokio::test]
async fn a_host_process_is_not_restarted_after_shutdown() {
    let fixture = LibraryFixture::hosted(short_limits());
    let hostile = fixture.example("hostile").await;
    assert!(
        fixture
            .libraries
            .shutdown(Duration::from_secs(20))
            .await
            .is_empty()
    );
    assert_eq!(
        hostile.code("fail").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    assert_eq!(count(&fixture.libraries.counters().crashes), 0);
}
