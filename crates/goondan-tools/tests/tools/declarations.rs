//! Tests of the tools' declarations.

use std::collections::BTreeSet;

use goondan_core::ports::tool::ToolSource as _;
use goondan_spec::kinds::{Permission, ToolEntry};
use goondan_tools::{BuiltinTools, base_tools, docs};
use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, object, resource_of};

#[test]
fn tool_declarations_match_the_snapshot() {
    insta::assert_json_snapshot!(base_tools());
}

#[test]
fn tool_names_are_sorted_unique_and_short() {
    let tools = base_tools();
    let names: Vec<&String> = tools.iter().map(|tool| &tool.name).collect();
    assert!(names.is_sorted());
    for tool in &tools {
        let exports: BTreeSet<&String> = tool.exports.iter().map(|export| &export.name).collect();
        assert_eq!(exports.len(), tool.exports.len(), "{}", tool.name);
        assert!(
            exports
                .iter()
                .all(|export| tool.name.len() + 2 + export.len() <= 64 && !export.contains("__"))
        );
    }
}

#[test]
fn parameter_schemas_are_simple_closed_and_described() {
    for tool in base_tools() {
        for export in tool.exports.iter() {
            let name = format!("{}__{}", tool.name, export.name);
            assert!(!export.description.is_empty(), "{name}");
            assert_eq!(export.parameters["type"], "object", "{name}");
            assert_eq!(export.parameters["additionalProperties"], false, "{name}");
            for (parameter, schema) in export.parameters["properties"].as_object().unwrap() {
                assert!(
                    schema["description"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty()),
                    "{name}.{parameter}"
                );
            }
            // The schema for models does not contain the formats for policies.
            let text = export.model_parameters().to_string();
            for noise in [
                "$ref",
                "$schema",
                "\"title\":\"",
                "\"format\":\"",
                "\"null\"",
            ] {
                assert!(!text.contains(noise), "{name} has {noise}: {text}");
            }
            jsonschema::validator_for(&export.parameters).unwrap();
        }
    }
}

#[test]
fn declared_defaults_match_their_schema() {
    for export in base_tools()
        .into_iter()
        .flat_map(|tool| Vec::from(tool.exports))
    {
        for (parameter, schema) in export.parameters["properties"].as_object().unwrap() {
            if let Some(default) = schema.get("default") {
                assert!(
                    jsonschema::is_valid(schema, default),
                    "{}.{parameter}: {default}",
                    export.name
                );
                assert!(*default != Value::Null, "{}.{parameter}", export.name);
            }
        }
    }
}

#[test]
fn the_tools_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, docs::markdown()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == docs::markdown(),
        "docs/tools.md is stale: UPDATE_DOCS=1 cargo test -p goondan-tools updates the file"
    );
}

#[tokio::test]
async fn every_tool_opens_with_its_declared_exports() {
    let tools = BuiltinTools::new();
    for declared in base_tools() {
        let entry = ToolEntry::Builtin(declared.name.clone());
        let opened = tools
            .open(&resource_of("mine", entry, object(json!({}))), ".".as_ref())
            .await
            .unwrap();
        let specs: Vec<_> = opened.exports.into_iter().map(|(spec, _)| spec).collect();
        assert_eq!(specs, *declared.exports, "{}", declared.name);
    }
}

#[tokio::test]
async fn a_tool_that_cannot_be_opened_suggests_a_fix() {
    let open = async |entry, config| {
        BuiltinTools::new()
            .open(&resource_of("mine", entry, object(config)), ".".as_ref())
            .await
            .err()
            .unwrap()
    };
    let unknown = open(ToolEntry::Builtin("bsh".to_owned()), json!({})).await;
    assert!(unknown.to_string().contains("`bsh`") && unknown.suggestion.unwrap().contains("wait"));
    let library = open(ToolEntry::Library("./x".to_owned()), json!({})).await;
    assert!(library.to_string().contains("builtin:NAME"));
    for (name, config) in [
        ("wait", json!({"x": 1})),
        ("bash", json!({"env": "PATH"})),
        ("http-fetch", json!({"allowHost": []})),
    ] {
        let wrong = open(ToolEntry::Builtin(name.to_owned()), config).await;
        assert!(
            wrong.to_string().contains(&format!("builtin:{name}")),
            "{wrong}"
        );
        assert!(wrong.suggestion.is_some());
    }
}

/// Tools that write without writing files of the project or the working directory.
const TOOLS_WITHOUT_FILES: [&str; 2] = ["automation__cron", "sessions__send"];

/// Returns calls of tools that build file paths from names.
fn calls_with_named_files() -> Vec<(&'static str, Value)> {
    vec![
        (
            "custom-tools__create",
            json!({"name": "new", "description": "Is new."}),
        ),
        ("custom-tools__delete", json!({"tool_name": "old"})),
        (
            "squad__decide",
            json!({"title": "t", "body": "b", "agentName": "fenster"}),
        ),
        (
            "squad__memory",
            json!({"agentName": "fenster", "learning": "l"}),
        ),
        ("squad__merge", json!({})),
        (
            "squad__skill",
            json!({"action": "write", "skillName": "tea", "content": "c"}),
        ),
    ]
}

/// A new tool that writes files states them in arguments with a path format, or in
/// `ToolOperation::written_files`. Otherwise it could write a protected file without an approval.
#[tokio::test]
async fn every_tool_that_writes_files_declares_their_paths() {
    let calls = calls_with_named_files();
    for tool in base_tools() {
        for export in tool.exports.iter() {
            let name = format!("{}__{}", tool.name, export.name);
            let mut permissions = export.permissions.union(&export.optional_permissions);
            let has_path = export.parameters.to_string().contains("\"format\":\"pat");
            let is_listed = has_path
                || TOOLS_WITHOUT_FILES.contains(&&*name)
                || calls.iter().any(|(listed, _)| *listed == name);
            let writes = permissions.any(|permission| *permission == Permission::Write);
            assert!(
                is_listed || !writes,
                "{name} does not name the files that it writes"
            );
        }
    }
    let engine = MockEngine::new();
    let old = engine.dir.path().join("tools/old");
    std::fs::create_dir_all(old.join("deep")).unwrap();
    for (path, text) in [("tool.yaml", "name: old\n"), ("deep/notes.md", "")] {
        std::fs::write(old.join(path), text).unwrap();
    }
    std::fs::create_dir_all(engine.dir.path().join(".squad/agents/fenster")).unwrap();
    for (name, arguments) in calls {
        let (spec, handler) = engine.open(name).await;
        let written = handler
            .written_files(&engine.context(), &object(arguments))
            .await;
        assert!(!written.is_empty(), "{name}");
        for file in written {
            assert!(file.path.starts_with(engine.dir.path()), "{name}: {file:?}");
            let properties = &spec.parameters["properties"];
            let is_argument = |argument: &str| properties.get(argument).is_some();
            assert!(
                file.argument.as_deref().is_none_or(is_argument),
                "{name}: {file:?}"
            );
        }
    }
}
