use serde_json::json;

use crate::mock_engine::{MockEngine, with_unknown};

#[tokio::test]
async fn agents_list_describes_each_agent_of_the_swarm() {
    assert_eq!(
        MockEngine::new()
            .ok("introspection__agents_list", json!({}))
            .await,
        json!({
            "swarmName": "default",
            "selfAgent": "assistant",
            "instanceKey": "main",
            "count": 2,
            "agents": [
                {"name": "assistant", "self": true, "entry": true, "callable": false, "instances": 0},
                {"name": "worker", "self": false, "entry": false, "callable": true, "instances": 2},
            ],
        })
    );
}

#[tokio::test]
async fn agents_list_rejects_all_arguments() {
    for args in [
        with_unknown(json!({})),
        json!({"agent": "worker"}),
        json!({"includeAll": true}),
    ] {
        assert_eq!(
            MockEngine::new()
                .err("introspection__agents_list", args)
                .await
                .0,
            "E_TOOL_INVALID_ARGS"
        );
    }
}
