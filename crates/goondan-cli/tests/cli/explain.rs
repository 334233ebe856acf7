//! `gdn explain`.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn explain_accepts_codes_in_any_case() {
    let sandbox = Sandbox::new();
    let explained = sandbox.gdn(&["explain", "e_config_invalid_ref"]);
    assert_eq!(
        explained.ok(),
        sandbox.gdn(&["explain", "E_CONFIG_INVALID_REF"]).ok()
    );
    sandbox.settings().bind(|| {
        insta::assert_snapshot!("explained code", explained.ok());
        insta::assert_snapshot!(
            "explained code without an example",
            sandbox.gdn(&["explain", "E_STORE"]).ok()
        );
    });
}

#[test]
fn explain_suggests_codes_for_an_unknown_code() {
    let sandbox = Sandbox::new();
    for (name, code) in [
        ("misspelt code", "E_TOOL_DENID"),
        ("part of a code", "escape"),
        ("no code", "E_ACME_FULL"),
    ] {
        let outcome = sandbox.gdn(&["explain", code]);
        assert_eq!(outcome.code, 2);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name, outcome.report()));
    }
}

#[test]
fn explain_lists_each_code_on_one_line() {
    let sandbox = Sandbox::new();
    let listed = sandbox.gdn(&["explain"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("all codes", listed.ok()));
    let json: Vec<Value> = serde_json::from_str(sandbox.gdn(&["explain", "--json"]).ok()).unwrap();
    assert!(json.len() > 100);
    for row in &json {
        let line = format!("  {} ", row["code"].as_str().unwrap());
        assert_eq!(
            listed
                .ok()
                .lines()
                .filter(|listed| listed.starts_with(&line))
                .count(),
            1,
            "{line}"
        );
    }
    let one: Value =
        serde_json::from_str(sandbox.gdn(&["explain", "E_TOOL_DENIED", "--json"]).ok()).unwrap();
    assert!(json.contains(&one));
    assert!(
        one["helpUrl"]
            .as_str()
            .unwrap()
            .ends_with("docs/errors.md#e_tool_denied")
    );
}
