//! The registry with the built-in tools: register, unregister, get, execute, tools, enabled.

use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::tool::ToolSource as _;
use goondan_engine::tooling::registry::{RegisteredTool, ToolLimits, ToolRegistry};
use goondan_spec::kinds::{Permission, ToolEntry};
use serde_json::json;

use crate::mock_engine::{MockEngine, object, resource_of};

async fn registry(engine: &MockEngine) -> ToolRegistry {
    let limits = ToolLimits {
        error_message: 1_000,
        output: 1_000,
        timeout: Duration::from_secs(1),
    };
    let tool = resource_of("fs", ToolEntry::Builtin("fs".to_owned()), object(json!({})));
    let mut registry = ToolRegistry::default();
    for (spec, handler) in engine
        .tools
        .open(&tool, engine.dir.path())
        .await
        .unwrap()
        .exports
    {
        registry.register(Arc::new(RegisteredTool::new("fs", spec, handler, limits)));
    }
    registry
}

#[tokio::test]
async fn the_registry_executes_tools_without_a_turn() {
    let engine = MockEngine::new();
    engine.write("a.txt", "hello\n");
    let registry = registry(&engine).await;
    let output = registry
        .execute("fs__read", &json!({"path": "a.txt"}), &engine.context())
        .await
        .unwrap()
        .output;
    assert!(output.as_str().unwrap().contains("hello"), "{output}");
    let code = async |name: &str, args| {
        registry
            .execute(name, &args, &engine.context())
            .await
            .unwrap_err()
            .code
    };
    assert_eq!(
        code("fs__read", json!({})).await.as_deref(),
        Some("E_TOOL_INVALID_ARGS")
    );
    assert_eq!(
        code("fs__read", json!([])).await.as_deref(),
        Some("E_TOOL_INVALID_ARGS")
    );
    assert_eq!(
        code("fs__nope", json!({})).await.as_deref(),
        Some("E_TOOL_NOT_FOUND")
    );
}

#[tokio::test]
async fn the_registry_filters_tools_by_permission_and_unregisters_them() {
    let mut registry = registry(&MockEngine::new()).await;
    let names = |registry: &ToolRegistry, granted: &[Permission]| {
        let granted = granted.iter().copied().collect();
        registry
            .enabled(&granted)
            .map(|tool| tool.name.export().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&registry, &[Permission::Read]),
        ["read", "grep", "glob", "ls"]
    );
    assert_eq!(registry.tools().count(), 7);
    assert!(registry.get("fs__grep").is_some() && registry.unregister("fs__grep"));
    assert!(registry.get("fs__grep").is_none() && !registry.unregister("fs__grep"));
    assert_eq!(
        names(&registry, &[Permission::Read]),
        ["read", "glob", "ls"]
    );
    assert!(names(&registry, &[]).is_empty());
}
