//! Completion items.

use serde_json::json;

use crate::client::{Client, cursor, edited, full_project, mock_host};

const AGENT: &str = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n";
const MODEL: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: main}\nspec: {provider: x, model: y}\n---\n";

fn completion_labels(text: &str) -> Vec<String> {
    Client::new(&full_project()[1..]).completion_labels(text)
}

fn assert_completion(text: &str, label: &str) {
    let labels = completion_labels(text);
    assert!(
        labels.iter().any(|known| known == label),
        "{label} in {labels:?} at:\n{text}"
    );
}

#[test]
fn key_completion_offers_the_missing_keys_of_an_element() {
    let keys = completion_labels(&format!(
        "{AGENT}  modelConfig: {{modelRef: Model/main}}\n  |\n  tools: []\n"
    ));
    assert!(
        keys.contains(&"prompt".to_owned()) && keys.contains(&"permissions".to_owned()),
        "{keys:?}"
    );
    assert!(
        !keys.contains(&"tools".to_owned()) && !keys.contains(&"modelConfig".to_owned()),
        "{keys:?}"
    );
    let at_first = completion_labels(&format!("{AGENT}  |\n"));
    assert!(at_first.contains(&"model".to_owned()), "{at_first:?}");
    assert_completion(&format!("{AGENT}  mo|\n"), "modelConfig");
    assert_eq!(
        completion_labels(&format!("{AGENT}  prompt: {{sys|}}\n")),
        ["system", "systemRef", "systemFile", "instructions"]
    );
    assert_eq!(
        completion_labels(&format!("{AGENT}  prompt:\n    |")),
        ["system", "systemRef", "systemFile", "instructions"]
    );
    assert_completion(
        &format!("{AGENT}  tools:\n    - ref: Tool/notes\n      |\n"),
        "exports",
    );
    assert_eq!(
        completion_labels("apiVersion: goondan.ai/v1\nkind: Tool\nmetadata:\n  na|\n")[0],
        "name"
    );
    assert_completion("apiVersion: goondan.ai/v1\n|\n", "kind");
}

#[test]
fn value_completion_offers_enums_references_files_and_variables() {
    assert_completion("kind: |", "Agent");
    assert_completion("apiVersion: |\nkind: Agent\n", "goondan.ai/v1");
    assert_completion(
        &format!("{MODEL}{AGENT}  modelConfig:\n    modelRef: |\n"),
        "Model/main",
    );
    assert_completion(
        &format!("{AGENT}  tools:\n    - ref: Tool/|\n"),
        "Tool/notes",
    );
    assert_completion(&format!("{AGENT}  tools: [{{ref: |}}]\n"), "Tool/bash");
    assert_completion(&format!("{AGENT}  tools:\n    |\n"), "- ref: Tool/notes");
    assert_eq!(
        completion_labels(&format!(
            "{AGENT}  tools: [{{ref: Tool/files, exports: [|]}}]\n"
        )),
        ["read", "write"]
    );
    assert_eq!(
        completion_labels(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n      exports:\n        - re|\n"
        )),
        ["read", "write"]
    );
    assert_eq!(
        completion_labels(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n  requiredTools: [|]\n"
        )),
        ["files__read", "files__write"]
    );
    assert_eq!(
        completion_labels(&format!("{AGENT}  permissions:\n    default: |\n")),
        ["allow", "ask", "deny"]
    );
    assert_completion(
        "kind: Model\nspec:\n  apiKey:\n    valueFrom:\n      env: |\n",
        "OPENAI_API_KEY",
    );
    assert_completion(
        "kind: Swarm\nspec:\n  agents:\n    - ref: |\n---\nkind: Agent\napiVersion: goondan.ai/v1\nmetadata: {name: z}\n",
        "Agent/z",
    );
    assert_completion(
        &format!("{AGENT}  prompt: {{systemRef: |}}\n"),
        "./resources/",
    );
    assert_completion(
        &format!("{AGENT}  prompt:\n    systemRef: ./resources/|\n"),
        "./resources/rest.yaml",
    );
    assert_completion("kind: Tool\nspec:\n  entry: |\n", "builtin:files");
    assert_completion(
        "kind: Connection\nspec:\n  connectorRef: Connector/hook\n  ingress:\n    rules:\n      - match:\n          event: |\n",
        "message",
    );
    assert_eq!(
        completion_labels(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n      defer: |\n"
        )),
        ["true", "false"]
    );
}

#[test]
fn completion_works_in_an_invalid_document() {
    assert_completion(
        &format!("{AGENT}  prompt: {{system: 'open\n  tools:\n    - ref: Tool/|\n"),
        "Tool/notes",
    );
    assert_completion(
        &format!("{AGENT}  oh no\n  modelConfig: [[[\n  permissions:\n    default: |"),
        "ask",
    );
    assert_completion(
        &format!("{AGENT}  tools: [{{ref: Tool/|\n  permissions: {{default: ask}}\n"),
        "Tool/notes",
    );
    assert_completion("kind: [\n---\nkind: Agent\nspec:\n  |\n", "modelConfig");
}

#[test]
fn completion_offers_nothing_in_block_strings_and_comments() {
    assert!(completion_labels(&format!("{AGENT}  prompt:\n    system: >\n      to|\n")).is_empty());
    assert!(completion_labels(&format!("{AGENT}  # co|\n")).is_empty());
}

#[test]
fn an_accepted_completion_replaces_the_word() {
    let source = format!("{MODEL}{AGENT}  modelConfig:\n    modelRef: \"Model/o|ld\"  # c\n");
    let mut client = Client::new(&[]);
    let offer = client.completion_items(&source).remove(0);
    let (text, _) = cursor(&source);
    let new = edited(&text, &json!([offer["textEdit"]]));
    assert_eq!(new, text.replace("Model/old", "Model/main"));
}

#[test]
fn completion_offers_templates_in_a_new_document() {
    let snippets = json!({ "textDocument": { "completion": { "completionItem": { "snippetSupport": true } } } });
    let mut client = Client::with_capabilities(mock_host(&[]), snippets);
    let offers = client.completion_items("|");
    let swarm = offers
        .iter()
        .find(|offer| offer["label"] == "kind: Swarm")
        .unwrap();
    assert_eq!(swarm["insertTextFormat"], 2);
    assert!(
        swarm["textEdit"]["newText"]
            .as_str()
            .unwrap()
            .contains("entryAgent: Agent/${2:my-agent}")
    );
    // Without snippet support, the template contains no placeholders.
    let mut plain = Client::with_capabilities(mock_host(&[]), json!({}));
    let offers = plain.completion_items("kind: Model\n---\n|");
    let swarm = offers
        .iter()
        .find(|offer| offer["label"] == "kind: Swarm")
        .unwrap();
    assert!(
        swarm["textEdit"]["newText"]
            .as_str()
            .unwrap()
            .contains("entryAgent: Agent/my-agent")
    );
}
