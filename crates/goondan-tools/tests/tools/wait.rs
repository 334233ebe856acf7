use serde_json::json;

use crate::mock_engine::{MockEngine, with_unknown};

#[tokio::test(start_paused = true)]
async fn wait_lasts_the_requested_seconds() {
    let engine = MockEngine::new();
    let before = tokio::time::Instant::now();
    assert_eq!(
        engine.ok("wait__seconds", json!({"seconds": 299.5})).await,
        json!({"waitedSeconds": 299.5, "waitedMs": 299_500})
    );
    assert_eq!(before.elapsed().as_millis(), 299_500);
    assert_eq!(
        engine.ok("wait__seconds", json!({"seconds": 2})).await,
        json!({"waitedSeconds": 2, "waitedMs": 2000})
    );
    assert_eq!(
        engine.ok("wait__seconds", json!({"seconds": 0})).await,
        json!({"waitedSeconds": 0, "waitedMs": 0})
    );
}

#[tokio::test]
async fn wait_accepts_0_to_300_seconds() {
    let engine = MockEngine::new();
    for args in [
        json!({"seconds": -1}),
        json!({"seconds": 300.5}),
        json!({"seconds": "1"}),
        json!({}),
        with_unknown(json!({"seconds": 1})),
    ] {
        assert_eq!(
            engine.err("wait__seconds", args.clone()).await.0,
            "E_TOOL_INVALID_ARGS",
            "{args}"
        );
    }
}

#[tokio::test]
async fn wait_stops_when_the_call_is_cancelled() {
    let engine = MockEngine::new();
    let call = engine.err("wait__seconds", json!({"seconds": 300}));
    let cancel = async { engine.cancellation.cancel() };
    let ((code, _), ()) = tokio::join!(call, cancel);
    assert_eq!(code, "E_TOOL_CANCELLED");
}
