//! What the model of the benchmarks says. It is chosen by the model's name, and looks at as little of a request as it can.

use std::time::Duration;

use memchr::memmem;
use serde_json::{Value, json};

/// An answer, before it is put into the wire format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The turn ends.
    Text(&'static str),
    /// One call.
    Call {
        /// `resource__export`.
        tool: String,
        /// JSON.
        arguments: String,
    },
}

/// How long the model takes for its answer: a name such as `after:50:text` says so in milliseconds.
pub fn delay(model: &str) -> Duration {
    let millis = model
        .strip_prefix("after:")
        .and_then(|rest| rest.split(':').next()?.parse().ok());
    Duration::from_millis(millis.unwrap_or_default())
}

/// The answer to a request. `text` answers with text; `calls:N:TOOL:ARGUMENTS` calls a tool until the turn holds N results.
pub fn reply(body: &[u8]) -> Reply {
    let model = model(body);
    let mut parts = model.splitn(4, ':');
    if parts.next() != Some("calls") {
        return Reply::Text("fine");
    }
    let wanted: usize = parts
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    if results_of_turn(body) >= wanted {
        return Reply::Text("done");
    }
    let tool = parts.next().unwrap_or_default().to_owned();
    Reply::Call {
        tool,
        arguments: parts.next().unwrap_or("{}").to_owned(),
    }
}

/// The name of the model that is asked; empty where there is none.
pub fn model(body: &[u8]) -> String {
    const KEY: &[u8] = b"\"model\":";
    let Some(start) = memmem::find(body, KEY) else {
        return String::new();
    };
    let mut values =
        serde_json::Deserializer::from_slice(&body[start + KEY.len()..]).into_iter::<String>();
    values.next().and_then(Result::ok).unwrap_or_default()
}

/// How many tool results stand behind the last message of a person.
fn results_of_turn(body: &[u8]) -> usize {
    let turn = memmem::rfind(body, b"\"role\":\"user\"").unwrap_or(0);
    memmem::find_iter(&body[turn..], b"\"role\":\"tool\"").count()
}

/// The answer as one JSON object.
pub fn whole(reply: &Reply, number: u64) -> Vec<u8> {
    let (message, reason) = match reply {
        Reply::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Reply::Call { .. } => (
            json!({"role": "assistant", "content": null, "tool_calls": [call(reply, number)]}),
            "tool_calls",
        ),
    };
    let body = json!({
        "id": format!("bench-{number}"), "object": "chat.completion", "created": 0, "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage(),
    });
    body.to_string().into_bytes()
}

/// The answer as a stream of events.
pub fn streamed(reply: &Reply, number: u64) -> Vec<u8> {
    let (delta, reason) = match reply {
        Reply::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Reply::Call { .. } => (
            json!({"role": "assistant", "tool_calls": [call(reply, number)]}),
            "tool_calls",
        ),
    };
    let chunk = |delta: Value, reason: Option<&str>| {
        json!({
            "id": format!("bench-{number}"), "object": "chat.completion.chunk", "created": 0, "model": "bench",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        })
    };
    let last = json!({
        "id": format!("bench-{number}"), "object": "chat.completion.chunk", "created": 0, "model": "bench",
        "choices": [], "usage": usage(),
    });
    let events = [chunk(delta, None), chunk(json!({}), Some(reason)), last];
    let lines: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    format!("{lines}data: [DONE]\n\n").into_bytes()
}

fn call(reply: &Reply, number: u64) -> Value {
    match reply {
        Reply::Text(_) => Value::Null,
        Reply::Call { tool, arguments } => json!({
            "index": 0, "id": format!("call-{number}"), "type": "function",
            "function": {"name": tool, "arguments": arguments},
        }),
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_until_the_turn_holds_enough_results() {
        let request = |results: usize| {
            let results = r#",{"role":"tool","content":"x"}"#.repeat(results);
            format!(
                r#"{{"model":"calls:2:wait__seconds:{{\"seconds\":0}}","messages":[{{"role":"user","content":"hi"}}{results}]}}"#
            )
        };
        let call = Reply::Call {
            tool: "wait__seconds".to_owned(),
            arguments: r#"{"seconds":0}"#.to_owned(),
        };
        assert_eq!(reply(request(1).as_bytes()), call);
        assert_eq!(reply(request(2).as_bytes()), Reply::Text("done"));
    }

    #[test]
    fn results_of_earlier_turns_do_not_count() {
        let body = br#"{"messages":[{"role":"tool"},{"role":"user"}],"model":"calls:1:a__b"}"#;
        assert!(matches!(reply(body), Reply::Call { .. }));
    }
}
