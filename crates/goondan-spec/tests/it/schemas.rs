//! The schemas in `schemas/` are up to date, and accept the same documents as the decoders.

use std::path::PathBuf;

use super::support::{files, found, load_files};
use crate::support::examples::{example, project};
use crate::support::fields::fields;
use goondan_spec::schema::schemas;
use goondan_spec::{Kind, yaml};
use serde_json::Value;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// With `UPDATE_SCHEMAS=1`, the test writes the schemas.
#[test]
fn the_committed_schemas_are_up_to_date() {
    for (name, schema) in schemas() {
        let path = directory().join(&name);
        let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(directory()).unwrap();
            std::fs::write(&path, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            committed, fresh,
            "{name} is stale: run UPDATE_SCHEMAS=1 cargo test -p goondan-spec --test it schemas"
        );
    }
}

fn validator(kind: &str) -> jsonschema::Validator {
    let name = format!("{}.schema.json", kind.to_lowercase());
    let (_, schema) = schemas()
        .into_iter()
        .find(|(file, _)| *file == name)
        .unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    yaml::documents_from_str(text).unwrap()
}

#[test]
fn examples_pass_the_schemas_and_the_decoders() {
    let loaded = load_files(&project());
    assert!(loaded.bundle.is_some(), "{:#?}", loaded.diagnostics);
    for document in Kind::ALL
        .map(example)
        .iter()
        .flat_map(|text| documents(text))
    {
        let kind = document["kind"].as_str().unwrap();
        let errors: Vec<String> = validator(kind)
            .iter_errors(&document)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{kind}: {errors:?}");
        assert!(
            validator("goondan").is_valid(&document),
            "goondan.schema.json refuses a {kind}"
        );
    }
}

/// The decoder's suggestion for an unknown field lists all fields, so the lists can be compared.
#[test]
fn schema_and_decoder_have_the_same_fields() {
    for (name, schema) in schemas() {
        let Some(spec) = schema["properties"]["spec"].as_object() else {
            continue;
        };
        let mut from_schema: Vec<String> = spec["properties"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, property)| {
                property["deprecated"] != true && property["x-goondan-same-as"].is_null()
            })
            .map(|(name, _)| name.clone())
            .collect();
        let kind = schema["properties"]["kind"]["const"].as_str().unwrap();
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{qqqqqqqqqqqqqqqq: 1}}\n"
        );
        let loaded = load_files(&files(&[("goondan.yaml", &text)]));
        let unknown = loaded
            .diagnostics
            .iter()
            .find(|found| found.field.as_deref() == Some("spec.qqqqqqqqqqqqqqqq"));
        let suggestion = unknown.and_then(|found| found.suggestion.clone()).unwrap();
        let mut from_decoder: Vec<String> = suggestion
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        from_schema.sort();
        from_decoder.sort();
        assert_eq!(from_decoder, from_schema, "{name}");
    }
}

/// Each spec has one error that the schema can express; the decoder must also report the error.
#[test]
fn schema_and_decoder_refuse_the_same_specs() {
    let cases = [
        ("Model", "{provider: '', model: x}"),
        ("Model", "{provider: openai}"),
        (
            "Model",
            "{provider: openai, model: x, apiKey: {value: a, valueFrom: {env: B}}}",
        ),
        ("Model", "{provider: openai, model: x, endpoint: localhost}"),
        (
            "Model",
            "{provider: openai, model: x, capabilities: {streaming: 'yes'}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, capabilities: {toolCaling: true}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, options: {maxRetry: 1}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, options: {timeoutSeconds: 0}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, options: {headers: {a: [b]}}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, options: {reasoningEffort: huge}}",
        ),
        (
            "Model",
            "{provider: openai, model: x, options: {ignore: [all]}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {temperature: 3}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {temprature: 1}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {topK: 0}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {stop: ''}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {seed: 1.5}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m, params: {presencePenalty: -3}}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m}, tools: [[Tool/fs]]}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m}, permissions: {default: maybe}}",
        ),
        (
            "Agent",
            "{modelConfig: {modelRef: Model/m}, maxParallelToolCalls: 0}",
        ),
        ("Agent", "{modelConfig: {modelRef: Model/m}, hooks: []}"),
        ("Swarm", "{entryAgent: Agent/a, agents: []}"),
        (
            "Swarm",
            "{entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {maxStepsPerTurn: 0}}",
        ),
        ("Tool", "{entry: builtin:fs, exports: [{name: a__b}]}"),
        (
            "Tool",
            "{entry: builtin:fs, exports: [{name: read, permissions: [fly]}]}",
        ),
        ("Tool", "{entry: builtin:fs, isolation: maybe}"),
        ("Extension", "{config: {}}"),
        ("Connector", "{entry: in.js, events: []}"),
        (
            "Connector",
            "{entry: in.js, events: [{name: a, properties: {b: {type: date}}}]}",
        ),
        (
            "Connection",
            "{connectorRef: Connector/c, ingress: {rules: [{match: {}}]}}",
        ),
        ("Package", "{access: secret}"),
    ];
    for (kind, spec) in cases {
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n"
        );
        let document = documents(&text).remove(0);
        assert!(
            !validator(kind).is_valid(&document),
            "the schema accepts {kind} {spec}"
        );
        assert!(
            !validator("goondan").is_valid(&document),
            "goondan.schema.json accepts {kind} {spec}"
        );
        let loaded = load_files(&files(&[
            ("goondan.yaml", &text),
            ("in.js", ""),
            ("x.mjs", ""),
        ]));
        assert!(
            loaded.bundle.is_none(),
            "the decoder accepts {kind} {spec}: {:?}",
            found(&loaded)
        );
    }
}

/// Contains every map that may have a field with a default, but no such field.
const SHORT: &str = "apiVersion: goondan.ai/v1
kind: Package
metadata: {name: p}
spec: {}
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, pricing: {input: 1, output: 2}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/bash}]
  permissions: {sandbox: {}, rules: [{tool: 'bash__*', args: {command: 'git *'}, action: allow, sandbox: {}}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {lifecycle: {}, shutdown: {}, repetition: {}, telemetry: {}}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: t}
spec: {entry: ./tools/t, build: {command: make}}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: x}
spec: {entry: ./x, build: {command: make}}
---
apiVersion: goondan.ai/v1
kind: Connector
metadata: {name: c}
spec: {entry: in.js, build: {command: make}, events: [{name: e, properties: {p: {type: string}}}]}
";

/// Inserts `default` at `path` in each matching map that lacks the field. Returns true if there was
/// such a map.
fn insert_default(value: &mut Value, path: &[&str], default: &Value) -> bool {
    match path {
        [] => false,
        [name] => value
            .as_object_mut()
            .is_some_and(|map| map.insert((*name).to_owned(), default.clone()).is_none()),
        ["<name>", rest @ ..] => value.as_object_mut().is_some_and(|map| {
            map.values_mut()
                .any(|value| insert_default(value, rest, default))
        }),
        [first, rest @ ..] => match first.strip_suffix("[]") {
            Some(list) => value[list].as_array_mut().is_some_and(|items| {
                items
                    .iter_mut()
                    .any(|item| insert_default(item, rest, default))
            }),
            None => value
                .get_mut(first)
                .is_some_and(|value| insert_default(value, rest, default)),
        },
    }
}

#[test]
fn schema_defaults_equal_decoder_defaults() {
    let (short, mut full) = (documents(SHORT), documents(SHORT));
    for kind in Kind::ALL {
        let (_, schema) = schemas()
            .into_iter()
            .find(|(_, schema)| schema["title"] == kind.as_str())
            .unwrap();
        for field in fields(&schema, &schema["properties"]["spec"], "spec") {
            let path: Vec<&str> = field.path.split('.').collect();
            let Some(default) = field.default else {
                continue;
            };
            let document = full
                .iter_mut()
                .find(|document| document["kind"] == kind.as_str())
                .unwrap();
            assert!(
                insert_default(document, &path, &default),
                "{kind} {} is not in the short project",
                field.path
            );
        }
    }
    let load = |documents: &[Value]| {
        // JSON is also YAML.
        let text: Vec<String> = documents.iter().map(Value::to_string).collect();
        let files = files(&[
            ("goondan.yaml", &text.join("\n---\n")),
            ("tools/libt.so", ""),
            ("in.js", ""),
            ("libx.so", ""),
        ]);
        load_files(&files).bundle.unwrap()
    };
    let (short, full) = (load(&short), load(&full));
    assert_eq!(short.package().unwrap().spec, full.package().unwrap().spec);
    assert_eq!(short.models()[0].spec, full.models()[0].spec);
    assert_eq!(short.agents()[0].spec, full.agents()[0].spec);
    assert_eq!(short.swarms()[0].spec, full.swarms()[0].spec);
    assert_eq!(
        short.tools().last().unwrap().1.spec,
        full.tools().last().unwrap().1.spec
    );
    let extension =
        |bundle: &goondan_spec::Bundle| bundle.extensions().last().unwrap().1.spec.clone();
    assert_eq!(extension(&short), extension(&full));
    assert_eq!(short.connectors()[0].spec, full.connectors()[0].spec);
}
