//! `docs/models.md` says what is so.

use std::path::Path;

use goondan_core::ports::model::ModelFactory;
use goondan_models::scripted::Script;
use goondan_models::{PROVIDERS, Providers, provider};
use goondan_spec::{Environment, yaml};
use serde_json::Value;

use super::common::loaded;

const DOCUMENT: &str = include_str!("../../../../docs/models.md");

/// The YAML blocks of the document.
fn blocks() -> Vec<&'static str> {
    DOCUMENT
        .split("\n```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

#[test]
fn every_provider_is_in_the_table_with_its_variable() {
    for provider in PROVIDERS {
        let row = DOCUMENT
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{}`", provider.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", provider.name));
        if let Some(variable) = provider.key_variable {
            assert!(row.contains(&format!("`{variable}`")), "{row}");
        }
    }
}

#[test]
fn scripts_are_read() {
    let scripts: Vec<_> = blocks()
        .into_iter()
        .filter(|block| block.starts_with("# script.yaml"))
        .collect();
    assert_eq!(scripts.len(), 1);
    let script: Script = yaml::from_str(scripts[0]).expect("a script");
    assert_eq!(script.rules.len(), 3);
}

#[test]
fn models_are_as_they_should_be() {
    let mut seen = 0;
    for block in blocks()
        .into_iter()
        .filter(|block| block.starts_with("apiVersion"))
    {
        for document in block.split("\n---\n") {
            let document: Value = yaml::from_str(document).expect("YAML");
            if document["kind"].as_str() != Some("Model") {
                continue;
            }
            let resource = loaded(document["spec"].clone());
            assert!(provider(&resource.spec.provider).is_some(), "{document}");
            let file = resource.spec.options.files().next().is_some();
            let environment: Environment = document
                .to_string()
                .split('"')
                .filter(|word| word.ends_with("_KEY") || word.ends_with("_TOKEN"))
                .map(|name| (name.to_owned(), "t".to_owned()))
                .collect();
            if !file
                && let Err(error) = Providers::new().client(&resource, Path::new("."), &environment)
            {
                panic!("{document}: {error}");
            }
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen}");
}
