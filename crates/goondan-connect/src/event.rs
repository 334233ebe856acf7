//! What a platform has to say, in one shape.

use std::collections::BTreeMap;

use goondan::spec::JsonObject;
use serde_json::{Value, json};

use crate::files::Sent;

/// Of so many properties the metadata of a message has the values.
const MOST_PROPERTIES: usize = 64;
/// A longer value is cut, in characters.
const LONGEST_PROPERTY: usize = 1_024;

/// An event of a platform. Everything in it but `name` may be what a stranger wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    /// What kind of event it is.
    pub name: String,
    /// The platform's own id: the same event delivered again has the same.
    pub id: String,
    /// What the agent reads.
    pub text: String,
    /// The conversation, where no rule says otherwise.
    pub key: String,
    /// Facts that rules look at.
    pub properties: BTreeMap<String, String>,
    /// Who has sent it, where the platform knows.
    pub sender: Option<Sender>,
    /// The channel or chat that it came from.
    pub channel: Option<String>,
    /// The text holds the words of others than the sender. It answers no question.
    pub quotes: bool,
    /// What has come with it.
    pub(crate) files: Vec<Sent>,
    /// Where an answer has to go, in the words of the platform; `None` where there is no way back.
    pub origin: Option<Value>,
}

/// Who has sent an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// The platform's id.
    pub id: String,
    /// How people call the sender.
    pub name: String,
}

/// Other names of properties, which rules may use: those of connectors elsewhere.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("chat_id", "chatId"),
    ("chat_type", "chatType"),
    ("message_id", "messageId"),
    ("from_id", "senderId"),
    ("from_username", "username"),
    ("channel_id", "channelId"),
    ("ts", "messageTs"),
    ("thread_ts", "threadTs"),
    ("user_id", "userId"),
];

impl Event {
    /// A fact, by its name or another name of it.
    pub(crate) fn property(&self, name: &str) -> Option<&String> {
        let other = || OTHER_NAMES.iter().find(|(other, _)| *other == name);
        self.properties
            .get(name)
            .or_else(|| self.properties.get(other()?.1))
    }

    /// What the user message of its turn has as metadata: one key, in which a stranger may write whatever he likes.
    pub(crate) fn metadata(&self, connection: &str, connector: &str) -> JsonObject {
        let cut = |value: &String| value.chars().take(LONGEST_PROPERTY).collect::<String>();
        let properties: JsonObject = self
            .properties
            .iter()
            .take(MOST_PROPERTIES)
            .map(|(name, value)| (cut(name), Value::String(cut(value))))
            .collect();
        let facts = json!({
            "name": connection,
            "connector": connector,
            "event": self.name,
            "sender": self.sender.as_ref().map(|sender| &sender.id),
            "channel": self.channel,
            "properties": properties,
        });
        [("connection".to_owned(), facts)].into_iter().collect()
    }
}

/// An id that no other event has.
pub(crate) fn random_id() -> String {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 16];
    // Without randomness there is no TLS either, so nobody gets here.
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The numbers, texts and truth values of an object, as text.
pub(crate) fn plain_values(object: &JsonObject) -> BTreeMap<String, String> {
    object
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), plain(value)?)))
        .collect()
}

/// A number, a text or a truth value as text.
pub(crate) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}
