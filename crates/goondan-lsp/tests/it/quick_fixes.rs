//! Quick fixes.

use serde_json::{Value, json};

use crate::client::{Client, cursor, edited, uri};

/// Returns the titles of the quick fixes at `|`, each with the fixed text.
fn quick_fixes(text: &str) -> Vec<(String, String)> {
    let (text, at) = cursor(text);
    let mut client = Client::new(&[]);
    client.open("goondan.yaml", &text);
    let range = json!({ "start": at, "end": at });
    let params = json!({ "textDocument": { "uri": uri("goondan.yaml") }, "range": range, "context": { "diagnostics": [] } });
    let actions = client.request("textDocument/codeAction", params);
    let title_and_text = |action: &Value| {
        assert_eq!(action["kind"], "quickfix");
        let published = &client.published[&uri("goondan.yaml")];
        assert!(
            published
                .as_array()
                .unwrap()
                .contains(&action["diagnostics"][0]),
            "{action}"
        );
        let edits = &action["edit"]["changes"][uri("goondan.yaml")];
        (
            action["title"].as_str().unwrap().to_owned(),
            edited(&text, edits),
        )
    };
    actions
        .as_array()
        .unwrap()
        .iter()
        .map(title_and_text)
        .collect()
}

/// Checks that a quick fix at `|` replaces `old` with `new`.
fn assert_fix(text: &str, old: &str, new: &str) {
    let found = quick_fixes(text);
    let expected = text.replacen('|', "", 1).replacen(old, new, 1);
    assert!(
        found.iter().any(|(_, text)| *text == expected),
        "{text}\n{found:#?}"
    );
}

const HEAD: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: main}\n";

#[test]
fn misspelled_words_get_a_quick_fix() {
    assert_fix(
        &format!("{HEAD}spec:\n  provider: x\n  mo|dle: y\n"),
        "modle",
        "model",
    );
    assert_fix(
        "apiVersion: goondan.ai/v1\nkind: Mod|l\nmetadata: {name: m}\nspec: {}\n",
        "Modl",
        "Model",
    );
    let agent = format!(
        "{HEAD}spec: {{provider: x, model: y}}\n---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec:\n"
    );
    assert_fix(
        &format!("{agent}  modelConfig: {{modelRef: Model/ma|n}}\n"),
        "Model/man",
        "Model/main",
    );
    assert_fix(
        &format!("{agent}  modelConfig: {{modelRef: mai|m}}\n"),
        "maim",
        "Model/main",
    );
    assert_fix(
        &format!("{agent}  modelConfig: {{modelRef: {{kind: Model, name: mian|}}}}\n"),
        "mian",
        "main",
    );
    assert_fix(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [{{ref: Tool/fi|le}}]\n"
        ),
        "Tool/file",
        "Tool/files",
    );
    assert_fix(
        &format!("{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [Tool/ba|hs]\n"),
        "Tool/bahs",
        "Tool/bash",
    );
    assert_fix(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  permissions: {{default: al|ow}}\n"
        ),
        "alow",
        "allow",
    );
    assert_fix(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [{{ref: Tool/files, exports: [reed|]}}]\n"
        ),
        "reed",
        "read",
    );
}

#[test]
fn missing_fields_get_a_quick_fix() {
    assert_fix(
        "|kind: Model\nmetadata: {name: m}\nspec: {provider: x, model: y}\n",
        "kind:",
        "apiVersion: goondan.ai/v1\nkind:",
    );
    assert_fix(
        &format!("{HEAD}spec|:\n  provider: x\n"),
        "  provider",
        "  model:\n  provider",
    );
    assert_fix(
        &format!("{HEAD}spec|: {{provider: x}}\n"),
        "{provider",
        "{model:, provider",
    );
}

#[test]
fn values_of_the_wrong_type_get_a_quick_fix() {
    assert_fix(
        &format!("{HEAD}spec: {{provider: x, model: 7|}}\n"),
        "model: 7",
        "model: \"7\"",
    );
}

#[test]
fn a_valid_field_gets_no_quick_fix() {
    assert!(quick_fixes(&format!("{HEAD}spec: {{provider: x, mod|el: y}}\n")).is_empty());
}
