//! Published diagnostics and the lifecycle of the server.

use serde_json::json;

use crate::client::{Client, full_project, mock_host, uri};

#[test]
fn unsaved_edits_affect_the_diagnostics_of_all_files() {
    let [(main, text), (rest, rest_text)] = full_project();
    let mut client = Client::new(&full_project());
    client.open(main, &text.replace("name: \"writer\"", "name: author"));
    assert_eq!(client.codes(main), ["E_CONFIG_REF_NOT_FOUND"; 2]);
    assert_eq!(client.codes(rest), ["E_CONFIG_REF_NOT_FOUND"]);
    client.open(rest, &rest_text.replace("Agent/writer", "Agent/author"));
    assert_eq!(client.codes(rest), Vec::<String>::new());
    client.replace(main, text);
    assert_eq!((client.codes(main).len(), client.codes(rest).len()), (0, 1));
    client.notify(
        "textDocument/didClose",
        json!({ "textDocument": { "uri": uri(rest) } }),
    );
    client.receive_diagnostics();
    assert_eq!((client.codes(main).len(), client.codes(rest).len()), (0, 0));
}

#[test]
fn a_diagnostic_contains_related_information_link_and_suggestion() {
    let [(main, text), rest] = full_project();
    let text = format!(
        "{text}---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: main}}\nspec: {{provider: é😀, modle: x}}\n"
    );
    let mut client = Client::new(&[(main, &text), rest]);
    client.open(main, &text);
    let found = client.published[&uri(main)].as_array().unwrap().clone();
    let duplicate = found
        .iter()
        .find(|diagnostic| diagnostic["code"] == "E_CONFIG_DUPLICATE_NAME")
        .unwrap();
    assert_eq!(
        duplicate["relatedInformation"][0]["location"]["range"]["start"],
        json!({ "line": 2, "character": 17 })
    );
    assert!(
        duplicate["codeDescription"]["href"]
            .as_str()
            .unwrap()
            .contains("errors.md#")
    );
    assert_eq!(
        (&duplicate["severity"], &duplicate["source"]),
        (&json!(1), &json!("gdn"))
    );
    let unknown = found
        .iter()
        .find(|diagnostic| diagnostic["message"].as_str().unwrap().contains("modle"))
        .unwrap();
    assert!(
        unknown["message"]
            .as_str()
            .unwrap()
            .contains("did you mean `model`?")
    );
    // The emoji before the column counts as two UTF-16 units.
    assert_eq!(unknown["range"]["start"]["character"], 22);
}

#[test]
fn the_client_chooses_the_position_encoding() {
    let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: é😀, model: x, odd: 1}\n";
    for (encodings, start) in [
        (json!(["utf-8", "utf-16"]), 35),
        (json!(["utf-32"]), 31),
        (json!([]), 32),
    ] {
        let capabilities = json!({ "general": { "positionEncodings": encodings } });
        let mut client =
            Client::with_capabilities(mock_host(&[("goondan.yaml", text)]), capabilities);
        client.open("goondan.yaml", text);
        let found = &client.published[&uri("goondan.yaml")];
        assert_eq!(
            found[0]["range"]["start"]["character"], start,
            "{encodings}"
        );
    }
}

#[test]
fn files_outside_a_project_get_no_diagnostics() {
    let mut client = Client::new(&[]);
    let document = json!({ "uri": "file:///other/x.yaml", "version": 1, "text": "kind: Nonsense" });
    client.notify("textDocument/didOpen", json!({ "textDocument": document }));
    client.receive_diagnostics();
    assert_eq!(client.published.values().collect::<Vec<_>>(), [&json!([])]);
    // An unsaved manifest creates a project.
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
fn requests_before_initialize_and_after_shutdown_are_rejected() {
    let server = goondan_lsp::LanguageServer::new(mock_host(&[]));
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
    assert_eq!(client.request("shutdown", json!(null)), json!(null));
    assert_eq!(
        client.answer("textDocument/hover", json!({}))["error"]["code"],
        -32_600
    );
}
