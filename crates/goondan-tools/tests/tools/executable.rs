#![cfg(unix)]

use goondan_core::ports::tool::ToolSource as _;
use goondan_spec::kinds::{Permission, ToolEntry};
use goondan_tools::ExecutableTools;
use serde_json::json;

use crate::custom_tools::project_file;
use crate::mock_engine::{MockEngine, object, resource_of};

#[tokio::test]
async fn a_directory_with_a_tool_yaml_is_a_tool_with_one_export() {
    let engine = MockEngine::new();
    let yaml = "name: greet\ndescription: Greets.\nentrypoint: run.sh\nparameters: [{name: who, required: true}]\n";
    project_file(&engine, "tools/greet/tool.yaml", yaml);
    project_file(
        &engine,
        "tools/greet/run.sh",
        "#!/bin/sh\necho \"hi $1\"\nexit 2\n",
    );
    let tool = resource_of(
        "greeter",
        ToolEntry::Executable("./tools/greet".to_owned()),
        object(json!({})),
    );
    let set = ExecutableTools::default()
        .open(&tool, engine.dir.path())
        .await
        .unwrap();
    let [(spec, handler)] = set.exports.as_slice() else {
        panic!("expected one export")
    };
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("greet", "Greets.")
    );
    assert!(spec.permissions.contains(&Permission::Execute));
    let output = handler
        .call(&engine.context(), object(json!({"who": "Ann; ls"})))
        .await
        .unwrap()
        .output;
    assert_eq!(
        (&output["stdout"], &output["exitCode"]),
        (&json!("hi --who=Ann; ls\n"), &json!(2))
    );
    let error = handler
        .call(&engine.context(), object(json!({"whom": 1})))
        .await
        .unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_INVALID_ARGS"));
}

#[tokio::test]
async fn opening_an_invalid_executable_tool_reports_the_reason() {
    let engine = MockEngine::new();
    project_file(&engine, "tools/empty/tool.yaml", "");
    project_file(
        &engine,
        "tools/unbuilt/tool.yaml",
        "name: x\ndescription: d\nentrypoint: x\n",
    );
    let cases = [
        (
            ToolEntry::Executable("tools/none".to_owned()),
            json!({}),
            "no such file",
        ),
        (
            ToolEntry::Executable("tools/empty".to_owned()),
            json!({}),
            "tool.yaml",
        ),
        (
            ToolEntry::Executable("tools/unbuilt".to_owned()),
            json!({}),
            "build it first",
        ),
        (
            ToolEntry::Executable("tools/unbuilt".to_owned()),
            json!({"envs": []}),
            "config",
        ),
        (
            ToolEntry::Builtin("bash".to_owned()),
            json!({}),
            "tool.yaml",
        ),
    ];
    for (entry, config, words) in cases {
        let error = ExecutableTools::default()
            .open(&resource_of("x", entry, object(config)), engine.dir.path())
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
}
