use chrono::Utc;
use serde_json::{Value, json};

use super::*;
use crate::message::{self, MessageData, MessageRole, MessageSource};

fn message(id: &str, text: &str) -> Message {
    let content = vec![message::MessagePart::text(text)];
    let (created_at, metadata) = (chrono::DateTime::<Utc>::UNIX_EPOCH, Default::default());
    Message {
        id: id.to_owned(),
        data: MessageData {
            role: MessageRole::User,
            content,
        },
        metadata,
        created_at,
        source: MessageSource::User,
    }
}

fn conversation(count: usize) -> Vec<Arc<Message>> {
    (0..count)
        .map(|number| Arc::new(message(&format!("m{number}"), &"word ".repeat(50))))
        .collect()
}

/// Mock of an extension that keeps messages between turns.
#[derive(Default)]
struct MockExtension {
    sync_state: Option<SyncState>,
    base: Vec<Value>,
    events: Vec<Value>,
    bytes: usize,
}

impl MockExtension {
    /// Receives the changes of a turn and compares the copy of the conversation.
    fn receive(&mut self, turn: &str, transcript: &TurnTranscript) {
        let (base, events) = next_changes(&mut self.sync_state, turn, transcript, true);
        let values = |messages: &[Arc<Message>]| -> Vec<Value> {
            messages
                .iter()
                .map(|message| serde_json::to_value(message).unwrap())
                .collect()
        };
        self.bytes = serde_json::to_string(&events).unwrap().len();
        match base {
            TurnBase::Known => {}
            TurnBase::Whole(messages) => {
                self.bytes += serde_json::to_string(&messages).unwrap().len();
                (self.base, self.events) = (values(&messages), Vec::new());
            }
            TurnBase::Changed(splice) => {
                self.bytes += serde_json::to_string(&splice).unwrap().len();
                let known = self.messages();
                assert_eq!(known.len(), splice.of);
                let spliced = splice.parts.iter().flat_map(|part| match part {
                    SplicePart::Known(from, to) => known[*from..*to].to_vec(),
                    SplicePart::New(message) => values(std::slice::from_ref(message)),
                });
                (self.base, self.events) = (spliced.collect(), Vec::new());
            }
        }
        self.events.extend(
            events
                .iter()
                .map(|event| serde_json::to_value(event).unwrap()),
        );
        assert_eq!(self.base, values(transcript.base()));
    }

    fn messages(&self) -> Vec<Value> {
        let mut known = self.base.clone();
        for event in &self.events {
            let at = known
                .iter()
                .position(|message| message["id"] == event["targetId"]);
            match (event["type"].as_str().unwrap(), at) {
                ("append", _) => known.push(event["message"].clone()),
                ("truncate", _) => known.clear(),
                ("replace", Some(at)) => known[at] = event["message"].clone(),
                ("remove", Some(at)) => drop(known.remove(at)),
                (kind, at) => panic!("{kind} {at:?}"),
            }
        }
        known
    }
}

/// Returns the size of the changes for a second turn with two new messages after `count` messages.
fn second_turn(count: usize) -> usize {
    let mut extension = MockExtension::default();
    let mut messages = conversation(count);
    let transcript = TurnTranscript::new(messages.clone());
    extension.receive("first", &transcript);
    assert!(extension.bytes > count * 250);
    let answer = message("said", "an answer");
    transcript.push(MessageEvent::Append {
        message: answer.clone(),
    });
    extension.receive("first", &transcript);
    // The extension does not receive messages after the end of the last layer in this turn.
    messages.extend(
        [
            answer,
            message("unheard", "good bye"),
            message("input", "hello again"),
        ]
        .map(Arc::new),
    );
    extension.receive("second", &TurnTranscript::new(messages));
    extension.bytes
}

#[test]
fn the_size_of_the_changes_is_independent_of_the_conversation_length() {
    let (short, long) = (second_turn(10), second_turn(10_000));
    // Only the indexes in the diff have more digits: the number of messages, and the end of the
    // range.
    assert!(short < 600 && long - short == 6, "{short} and {long} bytes");
}

#[test]
fn every_kind_of_conversation_change_reaches_the_extension() {
    let mut extension = MockExtension::default();
    let mut messages = conversation(100);
    extension.receive("0", &TurnTranscript::new(messages.clone()));
    // The oldest messages are removed, like by a message window.
    messages.drain(..10);
    messages.push(Arc::new(message("a", "new")));
    extension.receive("1", &TurnTranscript::new(messages.clone()));
    assert!(extension.bytes < 400, "{}", extension.bytes);
    // A message in the middle has another content with the same id.
    messages[40] = Arc::new(message(&messages[40].id.clone(), "another text"));
    extension.receive("2", &TurnTranscript::new(messages.clone()));
    assert!(extension.bytes < 400, "{}", extension.bytes);
    // All kinds of changes within a turn.
    let transcript = TurnTranscript::new(messages.clone());
    for event in [
        json!({"type": "remove", "targetId": messages[3].id}),
        json!({"type": "replace", "targetId": messages[5].id, "message": message("other", "other")}),
        json!({"type": "append", "message": message("b", "b")}),
    ] {
        transcript.push(serde_json::from_value(event).unwrap());
        extension.receive("3", &transcript);
    }
    messages.remove(3);
    messages[4] = Arc::new(message("other", "other"));
    messages.push(Arc::new(message("b", "b")));
    extension.receive("4", &TurnTranscript::new(messages.clone()));
    assert!(extension.bytes < 100, "{}", extension.bytes);
    let truncated = TurnTranscript::new(messages);
    truncated.push(MessageEvent::Truncate);
    extension.receive("5", &truncated);
    extension.receive("6", &TurnTranscript::new(conversation(2)));
}

#[test]
fn an_extension_without_saved_messages_receives_all_messages() {
    let mut sync_state = None;
    for turn in ["1", "2"] {
        let (base, _) = next_changes(
            &mut sync_state,
            turn,
            &TurnTranscript::new(conversation(3)),
            false,
        );
        assert!(matches!(base, TurnBase::Whole(messages) if messages.len() == 3));
    }
}
