//! Hover texts.

use serde_json::Value;

use crate::client::{Client, cursor, full_project};

fn hover_text(text: &str) -> String {
    let (text, position) = cursor(text);
    let mut client = Client::new(&full_project()[1..]);
    client.open("goondan.yaml", &text);
    let hover = client.request_at("textDocument/hover", "goondan.yaml", &position);
    hover["contents"]["value"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn hover_describes_fields() {
    let text = hover_text("kind: Agent\nspec:\n  maxParallel|ToolCalls: 3\n");
    assert!(
        text.contains("The maximum number of tool calls")
            && text.contains("at least 1")
            && text.contains("Default: `8`"),
        "{text}"
    );
    assert!(hover_text("ki|nd: Agent\n").contains("The kind of the resource"));
    assert!(
        hover_text("kind: Agent\nspec:\n  permissions: {default: as|k}\n")
            .contains("`allow`, `ask`, `deny`")
    );
    assert!(
        hover_text("kind: Agent\nspec:\n  prompt:\n    sys|temRef: [broken\n")
            .contains("path of a project file")
    );
}

#[test]
fn hover_describes_errors() {
    let text = hover_text(
        "apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: s}\nspec: {entryAgent: Agent/non|e}\n",
    );
    assert!(
        text.contains("**E_CONFIG_REF_NOT_FOUND**") && text.contains("*Fix:*"),
        "{text}"
    );
}

#[test]
fn hover_on_a_tool_lists_its_exports() {
    let text = hover_text(
        "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  tools: [{ref: Tool/fil|es}]\n",
    );
    assert!(
        text.contains("**Tool files**, built in") && text.contains("- `read`: Does read."),
        "{text}"
    );
}

#[test]
fn hover_on_a_comment_is_empty() {
    let mut client = Client::new(&[]);
    let (text, position) = cursor("# com|ment\n");
    client.open("goondan.yaml", &text);
    assert_eq!(
        client.request_at("textDocument/hover", "goondan.yaml", &position),
        Value::Null
    );
}
