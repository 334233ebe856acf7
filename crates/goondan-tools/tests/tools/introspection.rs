use serde_json::json;

use crate::bench::{Bench, with_unknown};

#[tokio::test]
async fn the_agents_of_the_swarm_are_told_apart() {
    assert_eq!(
        Bench::new()
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
async fn it_takes_no_arguments() {
    for args in [
        with_unknown(json!({})),
        json!({"agent": "worker"}),
        json!({"includeAll": true}),
    ] {
        assert_eq!(
            Bench::new().err("introspection__agents_list", args).await.0,
            "E_TOOL_INVALID_ARGS"
        );
    }
}
