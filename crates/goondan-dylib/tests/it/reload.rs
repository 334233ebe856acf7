//! A changed file is loaded as a new library; an unchanged file is shared.

use std::time::Duration;

use serde_json::json;

use crate::calls::until;
use crate::support::{Bench, Engine, compile_c, count, plugin};

#[tokio::test]
async fn an_unchanged_file_is_not_loaded_again() {
    let bench = Bench::new();
    let first = bench.example("counter").await;
    let second = bench.example("counter").await;
    first
        .call("increment", json!({}))
        .await
        .expect("it answers");
    assert_eq!(
        second
            .call("current", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "count": 1 })
    );
    assert_eq!(count(&bench.libraries.counters().mapped), 1);
    assert_eq!(count(&bench.libraries.counters().retired), 0);
    // An approval of a call remains valid for the same code.
    assert_eq!(
        first.handler("current").code(),
        second.handler("current").code()
    );
}

#[tokio::test]
async fn a_changed_file_is_loaded_beside_the_old_one() {
    let bench = Bench::new();
    let old = bench.example("counter").await;
    old.call("increment", json!({})).await.expect("it answers");
    let new = bench.example("hostile").await;
    assert_eq!(new.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert!(
        old.handler("current").code().is_some()
            && old.handler("current").code() != new.handler("fail").code()
    );
    // Existing users of the old library continue to use it.
    assert_eq!(
        old.call("increment", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "count": 2 })
    );
    assert_eq!(count(&bench.libraries.counters().retired), 0);
    drop(old);
    until(|| count(&bench.libraries.counters().retired) == 1).await;
    assert_eq!(count(&bench.libraries.counters().mapped), 2);
}

#[tokio::test]
async fn a_running_call_keeps_its_library() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let engine = Engine::new();
    let swap = async {
        engine.progress().await;
        let new = bench.example("counter").await;
        new.call("increment", json!({})).await.expect("it answers");
        assert_eq!(count(&bench.libraries.counters().retired), 0);
        engine.context.cancellation.cancel();
    };
    let call = async {
        let handler = slow.handler("wait");
        drop(slow);
        let Err(error) = handler.call(&engine.context, serde_json::Map::new()).await else {
            panic!("it waits")
        };
        assert_eq!(error.message, "the call was cancelled");
    };
    tokio::join!(call, swap);
    until(|| count(&bench.libraries.counters().retired) == 2).await;
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_library_serving() {
    let bench = Bench::new();
    let old = bench.example("counter").await;
    std::fs::write(
        bench.path("libsubject.so"),
        b"not a library, and longer than a header",
    )
    .expect("written");
    assert!(bench.open("subject").await.is_err());
    assert!(bench.c_hostile(&["MAJOR=2"]).await.is_err());
    assert_eq!(
        old.call("increment", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "count": 1 })
    );
}

#[tokio::test]
async fn two_tools_with_the_same_entry_share_one_library() {
    let bench = Bench::new();
    std::fs::copy(plugin("counter"), bench.path("libsubject.so")).expect("copied");
    let (first, second) = tokio::join!(bench.open("subject"), bench.open("subject"));
    first
        .expect("it opens")
        .call("increment", json!({}))
        .await
        .expect("it answers");
    let output = second
        .expect("it opens")
        .call("current", json!({}))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "count": 1 }));
}

#[tokio::test]
async fn shutdown_ends_calls_and_joins_what_can_be_joined() {
    let bench = Bench::new();
    let slow = bench.example("slow").await;
    let stuck = {
        let other = bench.path("libstuck.so");
        compile_c("c-hostile/hostile.c", &[], &other);
        bench.open("stuck").await.expect("it opens")
    };
    let (waiting, blocked) = (Engine::new(), Engine::new());
    blocked.context.cancellation.cancel();
    stuck
        .call_in(&blocked, "block", json!({}))
        .await
        .expect_err("it was cancelled");
    let shutdown = async {
        waiting.progress().await;
        bench.libraries.shutdown(Duration::from_millis(300)).await
    };
    let (wait, left) = tokio::join!(slow.call_in(&waiting, "wait", json!({})), shutdown);
    assert_eq!(
        wait.expect_err("it ended").code.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    assert_eq!(left, ["libstuck.so"]);
    assert_eq!(
        slow.code("wait").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
}
