//! Checks of `docs/models.md` against the code.

use std::path::Path;

use goondan_core::ports::model::ModelFactory;
use goondan_models::scripted::ModelScript;
use goondan_models::{ModelProvider, ModelProviders, ProviderWireFormat, provider, providers};
use goondan_spec::{Environment, yaml};
use serde_json::Value;

use super::common::model_from_spec;

const PAGE: &str = include_str!("../../../../docs/models.md");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");

/// Head of the provider table.
const TABLE_HEAD: &str = "| provider | key variable | address | format |\n|---|---|---|---|\n";

/// Model names for which some providers use different wire formats.
const SAMPLE_MODELS: [&str; 3] = ["m", "gpt-5", "claude-sonnet-4-5"];

/// Returns the YAML blocks of the page.
fn blocks() -> Vec<&'static str> {
    PAGE.split("\n```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

fn format_name(wire: ProviderWireFormat) -> &'static str {
    match wire {
        ProviderWireFormat::Chat => "chat",
        ProviderWireFormat::Responses => "responses",
        ProviderWireFormat::Anthropic => "Anthropic",
        ProviderWireFormat::Gemini => "Gemini",
        ProviderWireFormat::Ollama => "Ollama",
        ProviderWireFormat::Converse => "Converse",
    }
}

fn format_column(provider: &ModelProvider) -> String {
    let mut names = Vec::new();
    for model in SAMPLE_MODELS {
        let name = provider.wire_format(model).map(format_name);
        names.extend(name.filter(|name| !names.contains(name)));
    }
    match provider.name.as_str() {
        "replay" => "[a recording](#replay)".to_owned(),
        "scripted" => "[a script](#scripted)".to_owned(),
        _ => names.join(" or "),
    }
}

fn row(provider: &ModelProvider) -> String {
    let code = |text: &str| format!("`{text}`");
    let key = provider.key_variable.as_deref().map_or("–".into(), code);
    let address = match &provider.address {
        Some(address) => code(address),
        None if provider.is_live() => "requires `endpoint`".to_owned(),
        None => "–".to_owned(),
    };
    let (name, format) = (code(&provider.name), format_column(provider));
    format!("| {name} | {key} | {address} | {format} |\n")
}

/// With `UPDATE_DOCS=1`, writes the table instead.
#[test]
fn the_documentation_lists_all_providers() {
    let (before, rest) = PAGE.split_once(TABLE_HEAD).expect("a table of providers");
    let (table, after) = rest.split_once("\n\n").expect("text after the table");
    let rows: String = providers().iter().map(row).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, format!("{before}{TABLE_HEAD}{rows}\n{after}")).expect("the page");
        return;
    }
    assert_eq!(
        format!("{table}\n"),
        rows,
        "docs/models.md is stale: run UPDATE_DOCS=1 cargo test -p goondan-models --test it documentation"
    );
}

#[test]
fn documented_scripts_are_valid() {
    let scripts: Vec<_> = blocks()
        .into_iter()
        .filter(|block| block.starts_with("# script.yaml"))
        .collect();
    assert_eq!(scripts.len(), 1);
    let script: ModelScript = yaml::from_str(scripts[0]).expect("a script");
    assert_eq!(script.rules.len(), 3);
}

#[test]
fn documented_models_are_valid() {
    let mut count = 0;
    for block in blocks()
        .into_iter()
        .filter(|block| block.starts_with("apiVersion"))
    {
        for document in block.split("\n---\n") {
            let document: Value = yaml::from_str(document).expect("YAML");
            if document["kind"].as_str() != Some("Model") {
                continue;
            }
            let resource = model_from_spec(document["spec"].clone());
            assert!(provider(&resource.spec.provider).is_some(), "{document}");
            let has_file = resource.spec.options.files().next().is_some();
            let environment: Environment = document
                .to_string()
                .split('"')
                .filter(|word| word.ends_with("_KEY") || word.ends_with("_TOKEN"))
                .map(|name| (name.to_owned(), "t".to_owned()))
                .collect();
            if !has_file
                && let Err(error) =
                    ModelProviders::new().client(&resource, Path::new("."), &environment)
            {
                panic!("{document}: {error}");
            }
            count += 1;
        }
    }
    assert!(count > 8, "{count}");
}
