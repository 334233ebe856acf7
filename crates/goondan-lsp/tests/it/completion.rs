//! What is offered.

use serde_json::json;

use crate::client::{Client, cursor, edited, everything, machine};

const AGENT: &str = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n";
const MODEL: &str = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: main}\nspec: {provider: x, model: y}\n---\n";

fn offered(text: &str) -> Vec<String> {
    Client::new(&everything()[1..]).offered(text)
}

fn has(text: &str, label: &str) {
    let offered = offered(text);
    assert!(
        offered.iter().any(|known| known == label),
        "{label} in {offered:?} at:\n{text}"
    );
}

#[test]
fn keys_are_those_of_the_place_that_are_not_there_yet() {
    let keys = offered(&format!(
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
    let at_first = offered(&format!("{AGENT}  |\n"));
    assert!(at_first.contains(&"model".to_owned()), "{at_first:?}");
    has(&format!("{AGENT}  mo|\n"), "modelConfig");
    assert_eq!(
        offered(&format!("{AGENT}  prompt: {{sys|}}\n")),
        ["system", "systemRef", "systemFile", "instructions"]
    );
    assert_eq!(
        offered(&format!("{AGENT}  prompt:\n    |")),
        ["system", "systemRef", "systemFile", "instructions"]
    );
    has(
        &format!("{AGENT}  tools:\n    - ref: Tool/notes\n      |\n"),
        "exports",
    );
    assert_eq!(
        offered("apiVersion: goondan.ai/v1\nkind: Tool\nmetadata:\n  na|\n")[0],
        "name"
    );
    has("apiVersion: goondan.ai/v1\n|\n", "kind");
}

#[test]
fn values_are_words_references_exports_files_and_variables() {
    has("kind: |", "Agent");
    has("apiVersion: |\nkind: Agent\n", "goondan.ai/v1");
    has(
        &format!("{MODEL}{AGENT}  modelConfig:\n    modelRef: |\n"),
        "Model/main",
    );
    has(
        &format!("{AGENT}  tools:\n    - ref: Tool/|\n"),
        "Tool/notes",
    );
    has(&format!("{AGENT}  tools: [{{ref: |}}]\n"), "Tool/bash");
    has(&format!("{AGENT}  tools:\n    |\n"), "- ref: Tool/notes");
    assert_eq!(
        offered(&format!(
            "{AGENT}  tools: [{{ref: Tool/files, exports: [|]}}]\n"
        )),
        ["read", "write"]
    );
    assert_eq!(
        offered(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n      exports:\n        - re|\n"
        )),
        ["read", "write"]
    );
    assert_eq!(
        offered(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n  requiredTools: [|]\n"
        )),
        ["files__read", "files__write"]
    );
    assert_eq!(
        offered(&format!("{AGENT}  permissions:\n    default: |\n")),
        ["allow", "ask", "deny"]
    );
    has(
        "kind: Model\nspec:\n  apiKey:\n    valueFrom:\n      env: |\n",
        "OPENAI_API_KEY",
    );
    has(
        "kind: Swarm\nspec:\n  agents:\n    - ref: |\n---\nkind: Agent\napiVersion: goondan.ai/v1\nmetadata: {name: z}\n",
        "Agent/z",
    );
    has(
        &format!("{AGENT}  prompt: {{systemRef: |}}\n"),
        "./resources/",
    );
    has(
        &format!("{AGENT}  prompt:\n    systemRef: ./resources/|\n"),
        "./resources/rest.yaml",
    );
    has("kind: Tool\nspec:\n  entry: |\n", "builtin:files");
    has(
        "kind: Connection\nspec:\n  connectorRef: Connector/hook\n  ingress:\n    rules:\n      - match:\n          event: |\n",
        "message",
    );
    assert_eq!(
        offered(&format!(
            "{AGENT}  tools:\n    - ref: Tool/files\n      defer: |\n"
        )),
        ["true", "false"]
    );
}

#[test]
fn a_broken_text_completes_all_the_same() {
    has(
        &format!("{AGENT}  prompt: {{system: 'open\n  tools:\n    - ref: Tool/|\n"),
        "Tool/notes",
    );
    has(
        &format!("{AGENT}  oh no\n  modelConfig: [[[\n  permissions:\n    default: |"),
        "ask",
    );
    has(
        &format!("{AGENT}  tools: [{{ref: Tool/|\n  permissions: {{default: ask}}\n"),
        "Tool/notes",
    );
    has("kind: [\n---\nkind: Agent\nspec:\n  |\n", "modelConfig");
}

#[test]
fn nothing_is_offered_in_texts_and_comments() {
    assert!(offered(&format!("{AGENT}  prompt:\n    system: >\n      to|\n")).is_empty());
    assert!(offered(&format!("{AGENT}  # co|\n")).is_empty());
}

#[test]
fn what_is_taken_replaces_the_word() {
    let source = format!("{MODEL}{AGENT}  modelConfig:\n    modelRef: \"Model/o|ld\"  # c\n");
    let mut client = Client::new(&[]);
    let offer = client.offers(&source).remove(0);
    let (text, _) = cursor(&source);
    let new = edited(&text, &json!([offer["textEdit"]]));
    assert_eq!(new, text.replace("Model/old", "Model/main"));
}

#[test]
fn a_new_document_begins_with_a_template() {
    let snippets = json!({ "textDocument": { "completion": { "completionItem": { "snippetSupport": true } } } });
    let mut client = Client::with(machine(&[]), snippets);
    let offers = client.offers("|");
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
    // Without snippets it is a text that can be read.
    let mut plain = Client::with(machine(&[]), json!({}));
    let offers = plain.offers("kind: Model\n---\n|");
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
