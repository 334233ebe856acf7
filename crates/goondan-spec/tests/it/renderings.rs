//! The renderings for programs and for one line each. The pretty one is held by the broken bundles.

use super::support::{SOUND, load_texts};
use goondan_spec::render::{github, json, short};
use goondan_spec::{Code, Diagnostic};

fn diagnostics() -> Vec<Diagnostic> {
    let text = SOUND
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
fn one_line_each() {
    insta::assert_snapshot!(short(&diagnostics()));
}

#[test]
fn for_programs() {
    insta::assert_snapshot!(json(&diagnostics()));
}

#[test]
fn for_github() {
    insta::assert_snapshot!(github(&diagnostics()));
}
