//! Server resources: listing and reading through the export for models.

use goondan_core::JsonObject;
use serde_json::{Value, json};

use crate::stdio_server::{
    HANG_TIMEOUT, MockServer, ReceivedRequest, Script, ServerAction, initialize_result, outcome,
    session, tool,
};

fn arguments(pairs: &[(&str, &str)]) -> JsonObject {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}

/// Answers like a server with two pages of resources, one template, and a tool with the preferred
/// name of the export.
fn library(request: &ReceivedRequest<'_>) -> Option<Vec<ServerAction>> {
    let params = &request.message["params"];
    let result = match request.message["method"].as_str()? {
        "initialize" => {
            let mut initialize_result = initialize_result("2025-11-25");
            initialize_result["capabilities"]["resources"] = json!({});
            initialize_result
        }
        "tools/list" => json!({"tools": [tool("add"), tool("read-resource")]}),
        "resources/list" if params["cursor"] == "2" => {
            json!({"resources": [{"uri": "doc://b", "name": "b"}]})
        }
        "resources/list" => json!({
            "resources": [{"uri": "doc://a", "name": "a\u{202e}", "mimeType": "text/plain", "size": 3}],
            "nextCursor": "2",
        }),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "doc://{id}", "name": "doc"}]})
        }
        "resources/read" => return Some(vec![contents(request, params["uri"].as_str()?)]),
        _ => return None,
    };
    Some(vec![request.answer(result)])
}

fn contents(request: &ReceivedRequest<'_>, uri: &str) -> ServerAction {
    let text = |text: &str| json!({"uri": uri, "text": text});
    let image = json!({"uri": uri, "mimeType": "image/png", "blob": "QQ=="});
    request.answer(match uri {
        "doc://a" => json!({"contents": [text("on\u{202e}e")]}),
        "doc://two" => json!({"contents": [text("one"), image]}),
        "doc://odd" => json!({"contents": [{"uri": 7}, text("readable")]}),
        "doc://none" => json!({"contents": []}),
        _ => return request.refuse(-32002, "Resource not found"),
    })
}

#[tokio::test]
async fn a_server_with_resources_gets_an_export_that_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&MockServer::new(library, 0), folder.path(), HANG_TIMEOUT);
    let catalog = session.catalog().await.unwrap();
    let names: Vec<&str> = catalog
        .tools
        .iter()
        .map(|tool| tool.export.name.as_str())
        .collect();
    assert_eq!(names, ["add", "read-resource", "resources"]);
    let (tool, reader) = (&catalog.tools[0].export, &catalog.tools[2].export);
    assert_eq!(reader.permissions, tool.permissions);
    let read = async |uri| outcome(session.read_resource(arguments(&[("uri", uri)])).await);
    assert_eq!(read("doc://a").await, "on\\u{202e}e");
    assert_eq!(read("doc://odd").await, "readable");
    assert_eq!(read("doc://none").await, "[the resource is empty]");
    assert_eq!(read("doc://zzz").await, "E_MCP_PROTOCOL");
    let two = session
        .read_resource(arguments(&[("uri", "doc://two")]))
        .await;
    let two = two.unwrap();
    assert_eq!(two.output, json!("[doc://two]\none"));
    assert_eq!(two.attachments[0].media_type, "image/png");
    session.end().await;
}

#[tokio::test]
async fn resources_are_listed_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&MockServer::new(library, 0), folder.path(), HANG_TIMEOUT);
    let first = session
        .read_resource(JsonObject::new())
        .await
        .unwrap()
        .output;
    assert_eq!(first["resources"][0]["name"], "a\\u{202e}");
    assert_eq!(first["nextCursor"], "2");
    assert_eq!(first["resourceTemplates"][0]["uriTemplate"], "doc://{id}");
    let second = session.read_resource(arguments(&[("cursor", "2")])).await;
    assert_eq!(
        second.unwrap().output,
        json!({"resources": [{"uri": "doc://b", "name": "b"}]})
    );
    session.end().await;
}

#[tokio::test]
async fn a_page_with_too_many_resources_is_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let many: Script = |request| {
        let all: Vec<Value> = (0..501)
            .map(|n| json!({"uri": format!("doc://{n}"), "name": "n"}))
            .collect();
        request
            .is("resources/list")
            .then(|| vec![request.answer(json!({"resources": all}))])
    };
    let session = session(&MockServer::new(many, 0), folder.path(), HANG_TIMEOUT);
    let listed = session
        .read_resource(JsonObject::new())
        .await
        .unwrap()
        .output;
    assert_eq!(listed["resources"].as_array().map(Vec::len), Some(500));
    assert_eq!(listed["omittedResources"], 1);
    session.end().await;
}
