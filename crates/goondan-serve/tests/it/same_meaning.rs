//! Cases that mean the same at every door.

use goondan_serve::wire::{InputBody, InputState};
use serde_json::{Value, json};

use crate::bodies::JSON;
use crate::support::{Running, all, input, within};

/// The doors whose inputs have an id.
const DOORS: [&str; 4] = ["http", "a2a", "ag-ui", "openai"];

/// Sends an input with an id through a door. Returns the answer, or the code of the error.
async fn send(running: &Running, door: &str, id: &str, text: &str) -> Result<String, String> {
    let client = &running.client;
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match door {
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
            let response = running
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
async fn a_server_that_stops_finds_earlier_inputs_and_refuses_new_ones() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    for door in DOORS {
        let answer = within(send(&running, door, "1", "hi")).await;
        assert_eq!(answer.as_deref(), Ok("hi one two"), "{door}");
    }
    let conversations = running.swarm.instances().await.len();
    running.service.drain();
    for door in DOORS {
        let again = within(send(&running, door, "1", "hi")).await;
        assert_eq!(again.as_deref(), Ok("hi one two"), "{door}");
        let refused = within(send(&running, door, "2", "hi")).await;
        assert_eq!(refused, Err("SWARM_STOPPING".to_owned()), "{door}");
    }
    assert_eq!(running.swarm.instances().await.len(), conversations);
}
