use chrono::Utc;
use serde_json::{Value, json};

use super::*;
use crate::message::{self, MessageData, MessageSource, Role};

fn message(id: &str, text: &str) -> Message {
    let content = vec![message::Part::text(text)];
    let (created_at, metadata) = (chrono::DateTime::<Utc>::UNIX_EPOCH, Default::default());
    Message {
        id: id.to_owned(),
        data: MessageData {
            role: Role::User,
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

/// An extension that keeps what it is told.
#[derive(Default)]
struct Listener {
    told: Option<Told>,
    base: Vec<Value>,
    events: Vec<Value>,
    bytes: usize,
}

impl Listener {
    /// Tells it of a turn, and looks whether it knows what it should.
    fn hear(&mut self, turn: &str, transcript: &Transcript) {
        let (base, events) = news(&mut self.told, turn, transcript, true);
        let values = |messages: &[Arc<Message>]| -> Vec<Value> {
            messages
                .iter()
                .map(|message| serde_json::to_value(message).unwrap())
                .collect()
        };
        self.bytes = serde_json::to_string(&events).unwrap().len();
        match base {
            Base::Known => {}
            Base::Whole(messages) => {
                self.bytes += serde_json::to_string(&messages).unwrap().len();
                (self.base, self.events) = (values(&messages), Vec::new());
            }
            Base::Changed(splice) => {
                self.bytes += serde_json::to_string(&splice).unwrap().len();
                let known = self.now();
                assert_eq!(known.len(), splice.of);
                let whole = splice.parts.iter().flat_map(|part| match part {
                    Part::Known(from, to) => known[*from..*to].to_vec(),
                    Part::New(message) => values(std::slice::from_ref(message)),
                });
                (self.base, self.events) = (whole.collect(), Vec::new());
            }
        }
        self.events.extend(
            events
                .iter()
                .map(|event| serde_json::to_value(event).unwrap()),
        );
        assert_eq!(self.base, values(transcript.base()));
    }

    fn now(&self) -> Vec<Value> {
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

/// What the second turn costs in a conversation of `count` messages, where two messages came after it was last told.
fn second_turn(count: usize) -> usize {
    let mut listener = Listener::default();
    let mut messages = conversation(count);
    let transcript = Transcript::new(messages.clone());
    listener.hear("first", &transcript);
    assert!(listener.bytes > count * 250);
    let said = message("said", "an answer");
    transcript.push(MessageEvent::Append {
        message: said.clone(),
    });
    listener.hear("first", &transcript);
    // What is said after the last layer has ended it does not hear in this turn.
    messages.extend(
        [
            said,
            message("unheard", "good bye"),
            message("input", "hello again"),
        ]
        .map(Arc::new),
    );
    listener.hear("second", &Transcript::new(messages));
    listener.bytes
}

#[test]
fn a_turn_costs_the_same_however_long_the_conversation_is() {
    let (short, long) = (second_turn(10), second_turn(10_000));
    // The numbers of messages have more digits: the one that it knows, and the one up to which it keeps them.
    assert!(short < 600 && long - short == 6, "{short} and {long} bytes");
}

#[test]
fn whatever_happens_to_a_conversation_is_taken_up() {
    let mut listener = Listener::default();
    let mut messages = conversation(100);
    listener.hear("0", &Transcript::new(messages.clone()));
    // The oldest go, as a window has it.
    messages.drain(..10);
    messages.push(Arc::new(message("a", "new")));
    listener.hear("1", &Transcript::new(messages.clone()));
    assert!(listener.bytes < 400, "{}", listener.bytes);
    // One in the middle has another text under the same id.
    messages[40] = Arc::new(message(&messages[40].id.clone(), "another text"));
    listener.hear("2", &Transcript::new(messages.clone()));
    assert!(listener.bytes < 400, "{}", listener.bytes);
    // All kinds of changes within a turn.
    let transcript = Transcript::new(messages.clone());
    for event in [
        json!({"type": "remove", "targetId": messages[3].id}),
        json!({"type": "replace", "targetId": messages[5].id, "message": message("other", "other")}),
        json!({"type": "append", "message": message("b", "b")}),
    ] {
        transcript.push(serde_json::from_value(event).unwrap());
        listener.hear("3", &transcript);
    }
    messages.remove(3);
    messages[4] = Arc::new(message("other", "other"));
    messages.push(Arc::new(message("b", "b")));
    listener.hear("4", &Transcript::new(messages.clone()));
    assert!(listener.bytes < 100, "{}", listener.bytes);
    let truncated = Transcript::new(messages);
    truncated.push(MessageEvent::Truncate);
    listener.hear("5", &truncated);
    listener.hear("6", &Transcript::new(conversation(2)));
}

#[test]
fn who_keeps_nothing_is_told_everything() {
    let mut told = None;
    for turn in ["1", "2"] {
        let (base, _) = news(&mut told, turn, &Transcript::new(conversation(3)), false);
        assert!(matches!(base, Base::Whole(messages) if messages.len() == 3));
    }
}
