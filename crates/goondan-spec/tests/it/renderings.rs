//! The short, JSON and GitHub renderings. Snapshots of invalid bundles cover the pretty rendering.

use super::support::{VALID_PROJECT, load_texts};
use goondan_spec::render::{github, json, short};
use goondan_spec::{Code, Diagnostic};

fn diagnostics() -> Vec<Diagnostic> {
    let text = VALID_PROJECT
        .replace("modelRef: Model/m", "modelRef: Model/n")
        .replace("name: default", "name: Default");
    let mut found = load_texts(&[
        ("goondan.yaml", &text),
        ("a,b: 100%/tools.yaml", "kind: [\n"),
    ])
    .diagnostics;
    found.push(Diagnostic::new(
        Code::NO_SWARM,
        "First line.\nSecond line: 100%.",
    ));
    found
}

#[test]
fn short_rendering_has_one_line_per_diagnostic() {
    insta::assert_snapshot!(short(&diagnostics()));
}

#[test]
fn json_rendering_of_diagnostics() {
    insta::assert_snapshot!(json(&diagnostics()));
}

#[test]
fn github_rendering_of_diagnostics() {
    insta::assert_snapshot!(github(&diagnostics()));
}
