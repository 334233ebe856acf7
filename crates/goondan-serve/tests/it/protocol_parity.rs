//! Behavior that is equal in all protocols.

use goondan_serve::wire::{InputBody, InputState};
use serde_json::{Value, json};

use crate::request_encoding::JSON;
use crate::support::{TestServer, all, input, with_timeout};

/// Protocols whose inputs have an id.
const PROTOCOLS: [&str; 4] = ["http", "a2a", "ag-ui", "openai"];

/// Sends an input with an id over a protocol. Returns the answer or the error code.
async fn send(server: &TestServer, protocol: &str, id: &str, text: &str) -> Result<String, String> {
    let client = &server.client;
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match protocol {
        "http" => {
            let body = InputBody {
                id: Some(format!("http-{id}")),
                instance_key: Some("http".to_owned()),
                ..input(text)
            };
            let answered = client
                .post::<InputState>("/api/inputs?wait=true", &body)
                .await;
            match answered {
                Ok(state) => Ok(state.text.unwrap()),
                Err(goondan_serve::client::ClientError::Refused(error)) => Err(error.code),
                Err(error) => panic!("{error}"),
            }
        }
        "a2a" => {
            let message = json!({
                "messageId": id, "contextId": "c", "role": "ROLE_USER", "parts": [{"text": text}],
            });
            let request = json!({
                "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message},
            });
            let response: Value = client.post("/a2a/a", &request).await.unwrap();
            let answer = &response["result"]["task"]["artifacts"][0]["parts"][0]["text"];
            let code = &response["error"]["data"][0]["metadata"]["code"];
            code.as_str()
                .map_or(Ok(string(answer)), |code| Err(code.to_owned()))
        }
        "ag-ui" => {
            let run = json!({
                "threadId": "t", "runId": id, "messages": [{"id": id, "role": "user", "content": text}],
                "tools": [], "context": [], "state": {}, "forwardedProps": {},
            });
            let events = all(client.follow("/ag-ui/a", &run).await.unwrap()).await;
            let last: Value = serde_json::from_str(&events.last().unwrap().data).unwrap();
            match last["type"] == "RUN_ERROR" {
                true => Err(string(&last["code"])),
                false => Ok(text.to_owned() + " one two"),
            }
        }
        _ => {
            let body = json!({"model": "a", "messages": [{"role": "user", "content": text}]});
            let headers = [JSON, ("Idempotency-Key", id)];
            let line = "POST /v1/chat/completions";
            let response = server
                .request(line, &headers, body.to_string().as_bytes())
                .await;
            let response: Value = serde_json::from_str(&response.body).unwrap();
            let code = &response["error"]["code"];
            let answer = &response["choices"][0]["message"]["content"];
            code.as_str()
                .map_or(Ok(string(answer)), |code| Err(code.to_owned()))
        }
    }
}

#[tokio::test]
async fn a_draining_server_returns_old_results_and_refuses_new_inputs() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    for protocol in PROTOCOLS {
        let answer = with_timeout(send(&server, protocol, "1", "hi")).await;
        assert_eq!(answer.as_deref(), Ok("hi one two"), "{protocol}");
    }
    let conversations = server.swarm.instances().await.len();
    server.service.drain();
    for protocol in PROTOCOLS {
        let again = with_timeout(send(&server, protocol, "1", "hi")).await;
        assert_eq!(again.as_deref(), Ok("hi one two"), "{protocol}");
        let refused = with_timeout(send(&server, protocol, "2", "hi")).await;
        assert_eq!(refused, Err("SWARM_STOPPING".to_owned()), "{protocol}");
    }
    assert_eq!(server.swarm.instances().await.len(), conversations);
}
