//! The schemas in `schemas/` are fresh, and say the same as the decoders.

use std::path::PathBuf;

use super::support::{files, found, load_files};
use goondan_spec::schema::schemas;
use goondan_spec::yaml;
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// Run with `UPDATE_SCHEMAS=1` to write them.
#[test]
fn the_committed_schemas_are_fresh() {
    for (name, schema) in schemas() {
        let path = folder().join(&name);
        let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            committed, fresh,
            "{name} is stale: run UPDATE_SCHEMAS=1 cargo test -p goondan-spec --test it schemas"
        );
    }
}

/// A bundle that uses every field that is documented.
const EVERYTHING: &str = include_str!("everything/goondan.yaml");

fn everything() -> goondan_spec::MemoryFiles {
    files(&[
        ("goondan.yaml", EVERYTHING),
        ("prompts/writer.md", "Write."),
        ("tools/libtext_utils.so", ""),
        ("in.js", ""),
    ])
    .file("/p/tools/case.md", "Changes case in ${workspace}.")
    .file("/p/tools/greet/tool.yaml", "name: greet\ndescription: Greets\nentrypoint: greet.sh\n")
    .file("/p/tools/greet/greet.sh", "")
}

fn validator(kind: &str) -> jsonschema::Validator {
    let name = format!("{}.schema.json", kind.to_lowercase());
    let (_, schema) = schemas().into_iter().find(|(file, _)| *file == name).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    yaml::documents_from_str(text).unwrap()
}

#[test]
fn every_documented_field_passes_both() {
    let loaded = load_files(&everything());
    assert!(loaded.bundle.is_some(), "{:#?}", loaded.diagnostics);
    for document in documents(EVERYTHING) {
        let kind = document["kind"].as_str().unwrap();
        let errors: Vec<String> = validator(kind)
            .iter_errors(&document)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{kind}: {errors:?}");
        assert!(validator("goondan").is_valid(&document), "goondan.schema.json refuses a {kind}");
    }
}

/// The decoder names all fields that it asks for when it meets an unknown one, so the two lists can be compared.
#[test]
fn schema_and_decoder_know_the_same_fields() {
    for (name, schema) in schemas() {
        let Some(spec) = schema["properties"]["spec"].as_object() else { continue };
        let mut from_schema: Vec<String> = spec["properties"].as_object().unwrap().keys().cloned().collect();
        let kind = schema["properties"]["kind"]["const"].as_str().unwrap();
        let text =
            format!("apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{qqqqqqqqqqqqqqqq: 1}}\n");
        let loaded = load_files(&files(&[("goondan.yaml", &text)]));
        let unknown = loaded.diagnostics.iter().find(|found| found.field.as_deref() == Some("spec.qqqqqqqqqqqqqqqq"));
        let suggestion = unknown.and_then(|found| found.suggestion.clone()).unwrap();
        let mut from_decoder: Vec<String> = suggestion.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        from_schema.sort();
        from_decoder.sort();
        assert_eq!(from_decoder, from_schema, "{name}");
    }
}

/// Each of these is wrong in one way that the schema can express; the decoder has to see it too.
#[test]
fn what_one_refuses_the_other_refuses() {
    let cases = [
        ("Model", "{provider: '', model: x}"),
        ("Model", "{provider: openai}"),
        ("Model", "{provider: openai, model: x, apiKey: {value: a, valueFrom: {env: B}}}"),
        ("Model", "{provider: openai, model: x, endpoint: localhost}"),
        ("Model", "{provider: openai, model: x, capabilities: {streaming: 'yes'}}"),
        ("Agent", "{modelConfig: {modelRef: Model/m, params: {temperature: 3}}}"),
        ("Agent", "{modelConfig: {modelRef: Model/m}, tools: [Tool/fs]}"),
        ("Agent", "{modelConfig: {modelRef: Model/m}, permissions: {default: maybe}}"),
        ("Agent", "{modelConfig: {modelRef: Model/m}, maxParallelToolCalls: 0}"),
        ("Agent", "{modelConfig: {modelRef: Model/m}, hooks: []}"),
        ("Swarm", "{entryAgent: Agent/a, agents: []}"),
        ("Swarm", "{entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {maxStepsPerTurn: 0}}"),
        ("Tool", "{entry: builtin:fs, exports: [{name: a__b}]}"),
        ("Tool", "{entry: builtin:fs, exports: [{name: read, permissions: [fly]}]}"),
        ("Tool", "{entry: builtin:fs, isolation: maybe}"),
        ("Extension", "{config: {}}"),
        ("Connector", "{entry: in.js, events: []}"),
        ("Connector", "{entry: in.js, events: [{name: a, properties: {b: {type: date}}}]}"),
        ("Connection", "{connectorRef: Connector/c, ingress: {rules: [{match: {}}]}}"),
        ("Package", "{access: secret}"),
    ];
    for (kind, spec) in cases {
        let text = format!("apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n");
        let document = documents(&text).remove(0);
        assert!(!validator(kind).is_valid(&document), "the schema takes {kind} {spec}");
        assert!(!validator("goondan").is_valid(&document), "goondan.schema.json takes {kind} {spec}");
        let loaded = load_files(&files(&[("goondan.yaml", &text), ("in.js", "")]));
        assert!(loaded.bundle.is_none(), "the decoder takes {kind} {spec}: {:?}", found(&loaded));
    }
}
