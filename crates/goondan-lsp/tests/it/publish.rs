//! What is published, and when.

use serde_json::json;

use crate::client::{Client, everything, machine, uri};

#[test]
fn unsaved_edits_count_in_all_files() {
    let [(main, text), (rest, rest_text)] = everything();
    let mut client = Client::new(&everything());
    client.open(main, &text.replace("name: \"writer\"", "name: author"));
    assert_eq!(client.codes(main), ["E_CONFIG_REF_NOT_FOUND"; 2]);
    assert_eq!(client.codes(rest), ["E_CONFIG_REF_NOT_FOUND"]);
    client.open(rest, &rest_text.replace("Agent/writer", "Agent/author"));
    assert_eq!(client.codes(rest), Vec::<String>::new());
    client.replace(main, text);
    assert_eq!((client.codes(main).len(), client.codes(rest).len()), (0, 1));
    client.tell(
        "textDocument/didClose",
        json!({ "textDocument": { "uri": uri(rest) } }),
    );
    client.settle();
    assert_eq!((client.codes(main).len(), client.codes(rest).len()), (0, 0));
}

#[test]
fn a_diagnostic_has_all_that_an_editor_can_show() {
    let [(main, text), rest] = everything();
    let text = format!(
        "{text}---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: main}}\nspec: {{provider: é😀, modle: x}}\n"
    );
    let mut client = Client::new(&[(main, &text), rest]);
    client.open(main, &text);
    let found = client.published[&uri(main)].as_array().unwrap().clone();
    let twice = found
        .iter()
        .find(|one| one["code"] == "E_CONFIG_DUPLICATE_NAME")
        .unwrap();
    assert_eq!(
        twice["relatedInformation"][0]["location"]["range"]["start"],
        json!({ "line": 2, "character": 17 })
    );
    assert!(
        twice["codeDescription"]["href"]
            .as_str()
            .unwrap()
            .contains("errors.md#")
    );
    assert_eq!(
        (&twice["severity"], &twice["source"]),
        (&json!(1), &json!("gdn"))
    );
    let unknown = found
        .iter()
        .find(|one| one["message"].as_str().unwrap().contains("modle"))
        .unwrap();
    assert!(
        unknown["message"]
            .as_str()
            .unwrap()
            .contains("did you mean `model`?")
    );
    // The emoji before it counts as two.
    assert_eq!(unknown["range"]["start"]["character"], 22);
}

#[test]
fn the_client_says_how_characters_are_counted() {
    let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: é😀, model: x, odd: 1}\n";
    for (offered, start) in [
        (json!(["utf-8", "utf-16"]), 35),
        (json!(["utf-32"]), 31),
        (json!([]), 32),
    ] {
        let capabilities = json!({ "general": { "positionEncodings": offered } });
        let mut client = Client::with(machine(&[("goondan.yaml", text)]), capabilities);
        client.open("goondan.yaml", text);
        let found = &client.published[&uri("goondan.yaml")];
        assert_eq!(found[0]["range"]["start"]["character"], start, "{offered}");
    }
}

#[test]
fn files_without_a_project_are_left_alone() {
    let mut client = Client::new(&[]);
    let document = json!({ "uri": "file:///other/x.yaml", "version": 1, "text": "kind: Nonsense" });
    client.tell("textDocument/didOpen", json!({ "textDocument": document }));
    client.settle();
    assert_eq!(client.published.values().collect::<Vec<_>>(), [&json!([])]);
    // An unsaved manifest makes a project.
    client.open("goondan.yaml", "kind: Nonsense");
    assert!(
        client
            .codes("goondan.yaml")
            .contains(&"E_CONFIG_UNKNOWN_KIND".to_owned()),
        "{:?}",
        client.published
    );
}

#[test]
fn the_first_request_must_be_the_first() {
    let server = goondan_lsp::LanguageServer::new(machine(&[]));
    let mut server = server;
    let hover = json!({ "jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": {} })
        .to_string();
    assert_eq!(
        server.receive(hover.as_bytes())[0]["error"]["code"],
        -32_002
    );
    let mut client = Client::new(&[]);
    assert_eq!(
        client.answer("initialize", json!({}))["error"]["code"],
        -32_600
    );
    assert_eq!(
        client.answer("odd/method", json!({}))["error"]["code"],
        -32_601
    );
    assert_eq!(
        client.answer("textDocument/hover", json!({}))["error"]["code"],
        -32_602
    );
    assert_eq!(client.ask("shutdown", json!(null)), json!(null));
    assert_eq!(
        client.answer("textDocument/hover", json!({}))["error"]["code"],
        -32_600
    );
}
