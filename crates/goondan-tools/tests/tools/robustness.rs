//! Handlers must not panic on arguments that were not validated.

use std::time::Duration;

use goondan_core::JsonObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::mock_engine::MockEngine;

/// JSON values of every type, including typical edge cases.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop_oneof![
            Just(""),
            Just("."),
            Just("../x"),
            Just("/"),
            Just("\0"),
            Just("http://127.0.0.1:1/")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::hash_map("[a-z=]{0,3}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Values for some of an export's own parameters.
fn arguments(schema: &Value) -> impl Strategy<Value = JsonObject> + use<> {
    let names: Vec<String> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let count = names.len();
    proptest::collection::vec(proptest::option::weighted(0.8, value()), count).prop_map(
        move |values| {
            names
                .iter()
                .cloned()
                .zip(values)
                .filter_map(|(name, value)| Some((name, value?)))
                .collect()
        },
    )
}

#[test]
fn handlers_do_not_panic_on_invalid_arguments() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for tool in goondan_tools::base_tools() {
        for export in tool.exports.iter() {
            // Random arguments must not run programs.
            let runs_programs = ["bash", "custom-tools", "runtime"].contains(&tool.name.as_str());
            if runs_programs {
                continue;
            }
            let name = format!("{}__{}", tool.name, export.name);
            let engine = MockEngine::new();
            let (_, handler) = runtime.block_on(engine.open(&name));
            let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
                cases: 64,
                failure_persistence: None,
                ..ProptestConfig::default()
            });
            let check = |input: JsonObject| {
                let context = engine.context();
                let call = handler.call(&context, input);
                // A call may wait for as long as requested, but a panic would occur immediately.
                let _ = runtime.block_on(async {
                    tokio::time::timeout(Duration::from_millis(20), call).await
                });
                Ok(())
            };
            runner
                .run(&arguments(&export.parameters), check)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

/// JSON strings are Unicode, but paths need not be UTF-8. Results show such paths with replacement
/// characters.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn tools_accept_directories_that_are_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    let engine = MockEngine::new();
    let odd = engine.work().join(OsStr::from_bytes(b"bad\xff"));
    std::fs::create_dir_all(odd.join("custom-tools/mine")).unwrap();
    symlink(&odd, engine.work().join("link")).unwrap();
    std::fs::write(odd.join("run.sh"), "echo ran").unwrap();
    std::fs::create_dir(engine.work().join("memory")).unwrap();
    let note = engine
        .work()
        .join("memory")
        .join(OsStr::from_bytes(b"n\xff.md"));
    std::fs::write(note, "the deadline is Friday").unwrap();
    for (tool, args) in [
        ("bash__exec", json!({"command": "true", "cwd": "link"})),
        ("bash__script", json!({"path": "link/run.sh"})),
        (
            "runtime__exec",
            json!({"command": "true", "workdir": "link"}),
        ),
        (
            "runtime__exec",
            json!({"command": "true", "workdir": "link", "background": true}),
        ),
        ("memory__search", json!({"query": "deadline"})),
    ] {
        let output = engine.ok(tool, args).await;
        assert!(output.to_string().contains('\u{fffd}'), "{tool}: {output}");
    }
}
