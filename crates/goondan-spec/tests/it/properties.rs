//! For any text, loading ends without a panic, and each position is inside its file.

use super::support::{VALID_PROJECT, load_files};
use goondan_spec::render::{github, json, pretty, short};
use goondan_spec::{LoadResult, MemoryFiles};
use proptest::prelude::*;

fn check(loaded: &LoadResult) {
    for found in &loaded.diagnostics {
        let (Some(file), Some(at)) = (&found.file, found.position) else {
            continue;
        };
        let text = loaded.sources.get(file).unwrap_or_default();
        assert!(
            at.start <= at.end && at.end <= text.len(),
            "{found:?} in {text:?}"
        );
        assert!(
            at.line >= 1 && at.line <= text.split('\n').count(),
            "{found:?} in {text:?}"
        );
        let line = text.split('\n').nth(at.line - 1).unwrap_or_default();
        assert!(
            at.column >= 1 && at.column <= line.chars().count() + 1,
            "{found:?} in {text:?}"
        );
    }
    let _ = pretty(&loaded.diagnostics, &loaded.sources, true);
    let _ = (
        short(&loaded.diagnostics),
        json(&loaded.diagnostics),
        github(&loaded.diagnostics),
    );
}

fn load_bytes(bytes: Vec<u8>) -> LoadResult {
    load_files(&MemoryFiles::new().file("/p/goondan.yaml", bytes))
}

/// Generates text from pieces of YAML syntax, which passes more checks than random text.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("apiVersion: goondan.ai/v1\n".to_owned()),
        Just("kind: Agent\n".to_owned()),
        Just("metadata: {name: a}\n".to_owned()),
        Just("spec:\n".to_owned()),
        Just("  modelConfig: {modelRef: Model/m}\n".to_owned()),
        Just("  - ref: Tool/x\n".to_owned()),
        Just("---\n".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("<<: ".to_owned()),
        Just("|\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("é😀: \"".to_owned()),
        "[-{}\\[\\]:,#!%@'\"? \t\n]{1,4}",
        "[a-zA-Z0-9]{1,6}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loading_random_bytes_gives_valid_positions(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&load_bytes(bytes));
    }

    #[test]
    fn loading_random_text_gives_valid_positions(text in ".{0,300}") {
        check(&load_bytes(text.into_bytes()));
    }

    #[test]
    fn loading_yaml_like_text_gives_valid_positions(text in yaml_like()) {
        check(&load_bytes(text.into_bytes()));
    }

    /// Replaces a part of a valid bundle by YAML-like text.
    #[test]
    fn loading_a_damaged_bundle_gives_valid_positions(at in 0..VALID_PROJECT.len(), cut in 0..30usize, put in yaml_like()) {
        let end = (at + cut).min(VALID_PROJECT.len());
        let text = format!("{}{put}{}", &VALID_PROJECT[..at], &VALID_PROJECT[end..]);
        check(&load_bytes(text.into_bytes()));
    }
}
