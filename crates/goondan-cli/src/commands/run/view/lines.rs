//! Events in `stream-json` format.

use goondan::event::SwarmEvent;
use goondan::ids::InstanceId;
use serde_json::{Value, json};

/// Returns the `stream-json` line of an event: a runtime event as on disk, or a text delta.
/// The end of a turn has no line, because its follower writes the result.
pub(crate) fn event_line(event: &SwarmEvent) -> Option<Value> {
    match event {
        SwarmEvent::Runtime(event) => Some(
            serde_json::to_value(event)
                .expect("a runtime event holds strings, numbers and JSON values"),
        ),
        SwarmEvent::Text {
            instance,
            turn_id,
            delta,
        } => Some(text_line(
            "text.delta",
            instance,
            turn_id,
            json!({ "delta": delta }),
        )),
        SwarmEvent::Reasoning {
            instance,
            turn_id,
            delta,
        } => Some(text_line(
            "reasoning.delta",
            instance,
            turn_id,
            json!({ "delta": delta }),
        )),
        SwarmEvent::TextReset { instance, turn_id } => {
            Some(text_line("text.reset", instance, turn_id, json!({})))
        }
        SwarmEvent::TurnEnded { .. } => None,
    }
}

/// Returns the line of a text event, with `further_fields`.
fn text_line(kind: &str, instance: &InstanceId, turn_id: &str, further_fields: Value) -> Value {
    let mut line = json!({
        "type": kind,
        "agentName": instance.agent,
        "instanceKey": instance.instance_key,
        "turnId": turn_id,
    });
    if let (Some(line), Value::Object(further_fields)) = (line.as_object_mut(), further_fields) {
        line.extend(further_fields);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_reasoning_events_name_their_agent_and_turn() {
        let instance = InstanceId::new("writer", "main");
        let event = SwarmEvent::Text {
            instance,
            turn_id: "t1".to_owned(),
            delta: "Hi".to_owned(),
        };
        let expected = json!({"type": "text.delta", "agentName": "writer", "instanceKey": "main", "turnId": "t1", "delta": "Hi"});
        assert_eq!(event_line(&event), Some(expected));
        let event = SwarmEvent::Reasoning {
            instance: InstanceId::new("writer", "main"),
            turn_id: "t1".to_owned(),
            delta: "Hm".to_owned(),
        };
        let expected = json!({"type": "reasoning.delta", "agentName": "writer", "instanceKey": "main", "turnId": "t1", "delta": "Hm"});
        assert_eq!(event_line(&event), Some(expected));
    }
}
