//! A changed file is loaded as a new library; an unchanged file is shared.

use std::time::Duration;

use serde_json::json;

use crate::calls::wait_until;
use crate::support::{LibraryFixture, MockEngine, compile_c, count, plugin};

#[tokio::test]
async fn an_unchanged_file_is_not_loaded_again() {
    let fixture = LibraryFixture::new();
    let first = fixture.example("counter").await;
    let second = fixture.example("counter").await;
    first
        .call("increment", json!({}))
        .await
        .expect("the call succeeds");
    assert_eq!(
        second
            .call("current", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "count": 1 })
    );
    assert_eq!(count(&fixture.libraries.counters().mapped), 1);
    assert_eq!(count(&fixture.libraries.counters().retired), 0);
    // An approval of a call remains valid for the same code.
    assert_eq!(
        first.handler("current").code(),
        second.handler("current").code()
    );
}

#[tokio::test]
async fn a_changed_file_is_loaded_next_to_the_old_library() {
    let fixture = LibraryFixture::new();
    let old = fixture.example("counter").await;
    old.call("increment", json!({}))
        .await
        .expect("the call succeeds");
    let new = fixture.example("hostile").await;
    assert_eq!(new.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert!(
        old.handler("current").code().is_some()
            && old.handler("current").code() != new.handler("fail").code()
    );
    // Existing users of the old library continue to use it.
    assert_eq!(
        old.call("increment", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "count": 2 })
    );
    assert_eq!(count(&fixture.libraries.counters().retired), 0);
    drop(old);
    wait_until(|| count(&fixture.libraries.counters().retired) == 1).await;
    assert_eq!(count(&fixture.libraries.counters().mapped), 2);
}

#[tokio::test]
async fn a_running_call_keeps_its_library_loaded() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let engine = MockEngine::new();
    let replace_library = async {
        engine.wait_for_progress().await;
        let new = fixture.example("counter").await;
        new.call("increment", json!({}))
            .await
            .expect("the call succeeds");
        assert_eq!(count(&fixture.libraries.counters().retired), 0);
        engine.context.cancellation.cancel();
    };
    let call = async {
        let handler = slow.handler("wait");
        drop(slow);
        let Err(error) = handler.call(&engine.context, serde_json::Map::new()).await else {
            panic!("the call did not wait")
        };
        assert_eq!(error.message, "the call was cancelled");
    };
    tokio::join!(call, replace_library);
    wait_until(|| count(&fixture.libraries.counters().retired) == 2).await;
}

#[tokio::test]
async fn an_invalid_file_leaves_the_old_library_in_use() {
    let fixture = LibraryFixture::new();
    let old = fixture.example("counter").await;
    std::fs::write(
        fixture.path("libsubject.so"),
        b"not a library, and longer than a header",
    )
    .expect("written");
    assert!(fixture.open("subject").await.is_err());
    assert!(fixture.c_hostile(&["MAJOR=2"]).await.is_err());
    assert_eq!(
        old.call("increment", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "count": 1 })
    );
}

#[tokio::test]
async fn two_tools_with_the_same_entry_share_one_library() {
    let fixture = LibraryFixture::new();
    std::fs::copy(plugin("counter"), fixture.path("libsubject.so")).expect("copied");
    let (first, second) = tokio::join!(fixture.open("subject"), fixture.open("subject"));
    first
        .expect("the library opens")
        .call("increment", json!({}))
        .await
        .expect("the call succeeds");
    let output = second
        .expect("the library opens")
        .call("current", json!({}))
        .await
        .expect("the call succeeds");
    assert_eq!(output.output, json!({ "count": 1 }));
}

#[tokio::test]
async fn shutdown_ends_calls_and_reports_blocked_libraries() {
    let fixture = LibraryFixture::new();
    let slow = fixture.example("slow").await;
    let stuck = {
        let other = fixture.path("libstuck.so");
        compile_c("c-hostile/hostile.c", &[], &other);
        fixture.open("stuck").await.expect("the library opens")
    };
    let (waiting, blocked) = (MockEngine::new(), MockEngine::new());
    blocked.context.cancellation.cancel();
    stuck
        .call_in(&blocked, "block", json!({}))
        .await
        .expect_err("the call is cancelled");
    let shutdown = async {
        waiting.wait_for_progress().await;
        fixture.libraries.shutdown(Duration::from_millis(300)).await
    };
    let (wait, not_ended) = tokio::join!(slow.call_in(&waiting, "wait", json!({})), shutdown);
    assert_eq!(
        wait.expect_err("the call ends").code.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    assert_eq!(not_ended, ["libstuck.so"]);
    assert_eq!(
        slow.code("wait").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
}
