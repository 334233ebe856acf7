//! What is told of what is under the cursor.

use serde_json::Value;

use crate::client::{Client, cursor, everything};

fn told(text: &str) -> String {
    let (text, position) = cursor(text);
    let mut client = Client::new(&everything()[1..]);
    client.open("goondan.yaml", &text);
    let hover = client.at("textDocument/hover", "goondan.yaml", &position);
    hover["contents"]["value"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn fields_are_explained() {
    let text = told("kind: Agent\nspec:\n  maxParallel|ToolCalls: 3\n");
    assert!(
        text.contains("The maximum number of tool calls")
            && text.contains("at least 1")
            && text.contains("Default: `8`"),
        "{text}"
    );
    assert!(told("ki|nd: Agent\n").contains("The kind of the resource"));
    assert!(
        told("kind: Agent\nspec:\n  permissions: {default: as|k}\n")
            .contains("`allow`, `ask`, `deny`")
    );
    assert!(
        told("kind: Agent\nspec:\n  prompt:\n    sys|temRef: [broken\n")
            .contains("path of a project file")
    );
}

#[test]
fn mistakes_are_explained() {
    let text = told(
        "apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: s}\nspec: {entryAgent: Agent/non|e}\n",
    );
    assert!(
        text.contains("**E_CONFIG_REF_NOT_FOUND**") && text.contains("*Fix:*"),
        "{text}"
    );
}

#[test]
fn tools_show_their_exports() {
    let text = told(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  tools: [{ref: Tool/fil|es}]\n",
    );
    assert!(
        text.contains("**Tool files**, built in") && text.contains("- `read`: Does read."),
        "{text}"
    );
}

#[test]
fn nothing_is_told_of_nothing() {
    let mut client = Client::new(&[]);
    let (text, position) = cursor("# com|ment\n");
    client.open("goondan.yaml", &text);
    assert_eq!(
        client.at("textDocument/hover", "goondan.yaml", &position),
        Value::Null
    );
}
