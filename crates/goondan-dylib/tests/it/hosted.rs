//! `isolation: process`: the same libraries in host processes.

use std::time::Duration;

use serde_json::json;

use crate::support::{Bench, Engine, compile_c, count, impatient};

#[tokio::test]
async fn a_hosted_library_is_called_like_any_other() {
    let bench = Bench::hosted(impatient());
    let text_utils = bench.example("text_utils").await;
    assert_eq!(
        text_utils.spec("uppercase").description,
        "Convert text to uppercase"
    );
    let engine = Engine::new();
    let output = text_utils
        .call_in(&engine, "uppercase", json!({ "text": "grün" }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "result": "GRÜN" }));
    assert_eq!(engine.heard.lines.lock().expect("not poisoned").len(), 1);
}

#[tokio::test]
async fn progress_cancellation_and_other_agents_work_over_pipes() {
    let bench = Bench::hosted(impatient());
    let slow = bench.example("slow").await;
    let engine = Engine::new();
    let cancel = async {
        engine.progress().await;
        engine.context.cancellation.cancel();
    };
    let (result, ()) = tokio::join!(
        slow.call_in(&engine, "work", json!({ "steps": 100_000, "step_ms": 1 })),
        cancel
    );
    assert_eq!(
        result.expect_err("it was cancelled").code.as_deref(),
        Some("E_TOOL_CANCELLED")
    );

    let agent = bench.example("ask_agent").await;
    let output = agent
        .call("ask", json!({ "agent": "writer", "question": "why?" }))
        .await
        .expect("it answers");
    assert_eq!(output.output, json!({ "answer": "you asked: why?" }));
    let error = agent
        .call("ask", json!({ "agent": "nobody", "question": "?" }))
        .await
        .expect_err("it fails");
    assert_eq!(error.code.as_deref(), Some("AGENT_NOT_FOUND"));
}

#[tokio::test]
async fn a_crash_is_one_unavailable_result_and_the_next_call_works() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.example("hostile").await;
    let slow = Engine::new();
    // A call that runs during the crash is also answered.
    let (crashed, bystander) = tokio::join!(
        hostile.call("crash", json!({})),
        hostile.call_in(&slow, "never", json!({}))
    );
    for error in [
        crashed.expect_err("it crashed"),
        bystander.expect_err("it went along"),
    ] {
        assert_eq!(error.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
        assert!(error.message.contains("signal: 6"), "{}", error.message);
    }
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(count(&bench.libraries.counters().crashes), 1);
}

#[tokio::test]
async fn a_library_that_keeps_crashing_rests() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.example("hostile").await;
    let mut crashes = 0;
    // The pauses grow, so that even a slow machine reaches one.
    let resting = loop {
        let error = hostile
            .call("crash", json!({}))
            .await
            .expect_err("it crashes or rests");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_UNAVAILABLE"));
        if error.message.contains("; it restarts in ") {
            break error;
        }
        crashes += 1;
    };
    assert!(crashes >= 6, "{crashes}");
    assert!(
        resting
            .message
            .contains(&format!("crashed {crashes} times in a row")),
        "{}",
        resting.message
    );
}

#[tokio::test]
async fn an_endless_loop_is_ended_with_its_host() {
    let bench = Bench::hosted(impatient());
    compile_c("c-hostile/hostile.c", &[], &bench.path("libspin.so"));
    let spin = bench.open("spin").await.expect("it opens");
    for _ in 0..2 {
        let engine = Engine::new();
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
async fn a_segmentation_fault_stays_in_the_host() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.c_hostile(&[]).await.expect("it opens");
    let error = hostile
        .call("crash", json!({}))
        .await
        .expect_err("it crashed");
    assert!(error.message.contains("signal: 11"), "{}", error.message);
    assert_eq!(
        hostile
            .call("ok", json!({}))
            .await
            .expect("it answers")
            .output,
        "fine"
    );
    let error = bench
        .c_hostile(&["CRASH"])
        .await
        .err()
        .expect("it is refused");
    assert!(
        error.to_string().contains("crashed while it opened"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_library_prints_does_not_disturb_the_protocol() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.example("hostile").await;
    assert_eq!(
        hostile
            .call("chatter", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "said": true })
    );
    assert_eq!(hostile.code("fail").await.as_deref(), Some("E_NOT_FOUND"));
    assert_eq!(count(&bench.libraries.counters().crashes), 0);
}

#[tokio::test]
async fn a_careless_library_is_told_by_its_host() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.c_hostile(&[]).await.expect("it opens");
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
    assert_eq!(hostile.code("not-json").await.as_deref(), Some("E_TOOL"));
    assert_eq!(
        hostile.code("panic-status").await.as_deref(),
        Some("E_TOOL_PANIC")
    );
}

#[tokio::test]
async fn what_cannot_be_opened_is_told_as_in_one_process() {
    let bench = Bench::hosted(impatient());
    let error = bench
        .c_hostile(&["MAJOR=2"])
        .await
        .err()
        .expect("it is refused");
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
async fn a_host_ends_with_its_last_handler() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.example("hostile").await;
    hostile.call("linger", json!({})).await.expect("it answers");
    drop(hostile);
    assert!(
        bench
            .libraries
            .shutdown(Duration::from_secs(20))
            .await
            .is_empty()
    );
    assert_eq!(count(&bench.libraries.counters().crashes), 0);
}

#[tokio::test]
async fn a_host_that_was_shut_down_is_not_started_again() {
    let bench = Bench::hosted(impatient());
    let hostile = bench.example("hostile").await;
    assert!(
        bench
            .libraries
            .shutdown(Duration::from_secs(20))
            .await
            .is_empty()
    );
    assert_eq!(
        hostile.code("fail").await.as_deref(),
        Some("E_TOOL_UNAVAILABLE")
    );
    assert_eq!(count(&bench.libraries.counters().crashes), 0);
}
