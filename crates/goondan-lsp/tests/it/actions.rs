//! Repairs.

use serde_json::{Value, json};

use crate::client::{Client, cursor, edited, uri};

/// The titles of the repairs at `|`, each with what it makes of the text.
fn repairs(text: &str) -> Vec<(String, String)> {
    let (text, at) = cursor(text);
    let mut client = Client::new(&[]);
    client.open("goondan.yaml", &text);
    let range = json!({ "start": at, "end": at });
    let params = json!({ "textDocument": { "uri": uri("goondan.yaml") }, "range": range, "context": { "diagnostics": [] } });
    let actions = client.ask("textDocument/codeAction", params);
    let one = |action: &Value| {
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
    actions.as_array().unwrap().iter().map(one).collect()
}

/// The only repair at `|` makes `new` of the place that reads `old`.
fn repairs_to(text: &str, old: &str, new: &str) {
    let found = repairs(text);
    let expected = text.replacen('|', "", 1).replacen(old, new, 1);
    assert!(
        found.iter().any(|(_, text)| *text == expected),
        "{text}\n{found:#?}"
    );
}

const HEAD: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: main}\n";

#[test]
fn misspelt_words_are_repaired() {
    repairs_to(
        &format!("{HEAD}spec:\n  provider: x\n  mo|dle: y\n"),
        "modle",
        "model",
    );
    repairs_to(
        "apiVersion: goondan.ai/v1\nkind: Mod|l\nmetadata: {name: m}\nspec: {}\n",
        "Modl",
        "Model",
    );
    let agent = format!(
        "{HEAD}spec: {{provider: x, model: y}}\n---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec:\n"
    );
    repairs_to(
        &format!("{agent}  modelConfig: {{modelRef: Model/ma|n}}\n"),
        "Model/man",
        "Model/main",
    );
    repairs_to(
        &format!("{agent}  modelConfig: {{modelRef: mai|m}}\n"),
        "maim",
        "Model/main",
    );
    repairs_to(
        &format!("{agent}  modelConfig: {{modelRef: {{kind: Model, name: mian|}}}}\n"),
        "mian",
        "main",
    );
    repairs_to(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [{{ref: Tool/fi|le}}]\n"
        ),
        "Tool/file",
        "Tool/files",
    );
    repairs_to(
        &format!("{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [Tool/ba|hs]\n"),
        "Tool/bahs",
        "Tool/bash",
    );
    repairs_to(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  permissions: {{default: al|ow}}\n"
        ),
        "alow",
        "allow",
    );
    repairs_to(
        &format!(
            "{agent}  modelConfig: {{modelRef: Model/main}}\n  tools: [{{ref: Tool/files, exports: [reed|]}}]\n"
        ),
        "reed",
        "read",
    );
}

#[test]
fn missing_fields_are_added() {
    repairs_to(
        "|kind: Model\nmetadata: {name: m}\nspec: {provider: x, model: y}\n",
        "kind:",
        "apiVersion: goondan.ai/v1\nkind:",
    );
    repairs_to(
        &format!("{HEAD}spec|:\n  provider: x\n"),
        "  provider",
        "  model:\n  provider",
    );
    repairs_to(
        &format!("{HEAD}spec|: {{provider: x}}\n"),
        "{provider",
        "{model:, provider",
    );
}

#[test]
fn values_of_another_type_are_repaired() {
    repairs_to(
        &format!("{HEAD}spec: {{provider: x, model: 7|}}\n"),
        "model: 7",
        "model: \"7\"",
    );
}

#[test]
fn where_nothing_is_wrong_nothing_is_offered() {
    assert!(repairs(&format!("{HEAD}spec: {{provider: x, mod|el: y}}\n")).is_empty());
}
