//! Common form of platform events.

use std::collections::BTreeMap;

use goondan::event::AnswerCall;
use goondan::spec::JsonObject;
use serde_json::{Value, json};

/// Maximum number of properties in the metadata of a message.
const MAX_PROPERTIES: usize = 64;
/// Maximum characters of a property value.
const MAX_PROPERTY_CHARS: usize = 1_024;

/// An event of a platform. Everything in it except `name` may come from an unknown sender.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlatformEvent {
    /// Type of the event.
    pub name: String,
    /// Platform's event id; a redelivered event has the same id.
    pub id: String,
    /// Text of the user message.
    pub text: String,
    /// Words of other people that the sender passes on or replies to. The agent reads them after the
    /// text; they never answer an approval request.
    pub quoted: String,
    /// Kind of the content if the connector cannot read it. Such an event starts no turn.
    pub(crate) unsupported: Option<String>,
    /// Default conversation key.
    pub key: String,
    /// Properties for ingress rules.
    pub properties: BTreeMap<String, String>,
    /// Sender, if the platform states one.
    pub sender: Option<EventSender>,
    /// Channel or chat of the event.
    pub channel: Option<String>,
    /// Author of the text if it is not the sender; empty if the author is unknown. `allow.senders`
    /// must also admit the author.
    pub(crate) author: Option<String>,
    /// The sender's words as far as they can answer an approval request; `None` is the text.
    pub(crate) own_text: Option<String>,
    /// The text contains words of other people, so it cannot answer an approval request.
    pub quotes: bool,
    /// Platform's id of the album that the message belongs to.
    pub(crate) album: Option<String>,
    pub(crate) files: Vec<EventFile>,
    /// Destination of an answer in the platform's terms; `None` if the event cannot be answered.
    pub origin: Option<Value>,
}

/// Sender of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EventSender {
    /// Platform's id of the sender.
    pub id: String,
    /// Display name of the sender.
    pub name: String,
}

/// Alternative property names that other connectors use; ingress rules accept them.
const PROPERTY_ALIASES: [(&str, &str); 9] = [
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

/// Built-in connectors with the tool that answers in the channel of an event, and the arguments
/// that name the channel. The event has properties of the same names.
const ANSWER_CALLS: [(&str, &str, &[&str]); 5] = [
    ("telegram", "telegram__send", &["chatId"]),
    ("telegram-polling", "telegram__send", &["chatId"]),
    ("slack", "slack__send", &["channelId"]),
    ("discord", "discord__send", &["channelId"]),
    ("github", "github__comment", &["repository", "number"]),
];

impl PlatformEvent {
    /// Returns the text for the agent: the sender's words, then the words of others.
    pub(crate) fn full_text(&self) -> String {
        lines([self.text.as_str(), &self.quoted])
    }

    /// Returns the key of the message's album.
    pub(crate) fn album_key(&self) -> Option<AlbumKey> {
        let id = self.album.clone()?;
        Some((self.key.clone(), id, self.sender.clone()))
    }

    /// Adds the content of another message of the same album. The album is unsupported only if all
    /// of its messages are.
    pub(crate) fn absorb(&mut self, other: PlatformEvent) {
        self.text = lines([self.text.as_str(), &other.text]);
        // The messages of a reply repeat the quoted words.
        if other.quoted != self.quoted {
            self.quoted = lines([self.quoted.as_str(), &other.quoted]);
        }
        self.author = self.author.take().or(other.author);
        if let Some(own) = &mut self.own_text {
            *own = lines([own.as_str(), other.own_text.as_ref().unwrap_or(&other.text)]);
        }
        self.quotes |= other.quotes;
        self.unsupported = self.unsupported.take().and(other.unsupported);
        self.files.extend(other.files);
    }

    /// Returns a property by its name or alternative name.
    pub(crate) fn property(&self, name: &str) -> Option<&String> {
        let alias = || PROPERTY_ALIASES.iter().find(|(other, _)| *other == name);
        self.properties
            .get(name)
            .or_else(|| self.properties.get(alias()?.1))
    }

    /// Returns the tool call that answers the sender in the channel of the event; `None` if the
    /// built-in connector `connector` has no such tool, or the event does not name its channel.
    pub(crate) fn answer_call(&self, connector: &str) -> Option<AnswerCall> {
        self.origin.as_ref()?;
        let (_, tool, names) = ANSWER_CALLS.iter().find(|(name, ..)| *name == connector)?;
        let argument = |name: &&str| {
            let value = self
                .properties
                .get(*name)
                .filter(|value| !value.is_empty())?;
            Some(((*name).to_owned(), value.clone()))
        };
        let arguments = names.iter().map(argument).collect::<Option<_>>()?;
        Some(AnswerCall {
            tool: (*tool).to_owned(),
            arguments,
        })
    }

    /// Returns the metadata of the user message: a single key, because its content may come from an
    /// unknown sender.
    pub(crate) fn metadata(&self, connection: &str, connector: &str) -> JsonObject {
        let cut_value = |value: &String| value.chars().take(MAX_PROPERTY_CHARS).collect::<String>();
        let properties: JsonObject = self
            .properties
            .iter()
            .take(MAX_PROPERTIES)
            .map(|(name, value)| (cut_value(name), Value::String(cut_value(value))))
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

/// Joins the parts that are not blank, each on its own lines.
pub(crate) fn lines<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

/// Maximum characters of quoted words.
const MAX_QUOTED_CHARS: usize = 4_000;

/// Returns quoted words under a line that names their origin; empty without words.
pub(crate) fn quoted_text(origin: &str, words: &str) -> String {
    match words.trim() {
        "" => String::new(),
        words => {
            let words: String = words.chars().take(MAX_QUOTED_CHARS).collect();
            format!("[{origin}]\n{words}")
        }
    }
}

/// Returns a random hexadecimal id.
pub(crate) fn random_id() -> String {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 16];
    // Without random bytes TLS fails as well, so this cannot be reached.
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the numbers, strings and booleans of an object as strings.
pub(crate) fn plain_values(object: &JsonObject) -> BTreeMap<String, String> {
    object
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), scalar_text(value)?)))
        .collect()
}

/// Returns a number, string or boolean as a string.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// A file of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EventFile {
    /// Location in the platform's own terms.
    pub(crate) place: String,
    /// File name chosen by the sender.
    pub(crate) name: Option<String>,
    /// Media type according to the platform.
    pub(crate) media_type: Option<String>,
    /// Size according to the platform.
    pub(crate) bytes: Option<u64>,
}

impl EventFile {
    /// Returns the line that names the file in the text.
    pub(crate) fn line(&self) -> String {
        format!("[a file: {}]", self.name.as_deref().unwrap_or("unnamed"))
    }
}

/// Conversation, album id and sender.
pub(crate) type AlbumKey = (String, String, Option<EventSender>);

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, quoted: &str, unsupported: Option<&str>) -> PlatformEvent {
        PlatformEvent {
            text: text.to_owned(),
            quoted: quoted.to_owned(),
            unsupported: unsupported.map(str::to_owned),
            ..PlatformEvent::default()
        }
    }

    #[test]
    fn an_album_has_the_quotes_of_all_messages() {
        let mut album = message("", "[a]", Some("hologram"));
        album.absorb(message("b", "[a]", None));
        assert_eq!((album.quotes, album.unsupported.as_deref()), (false, None));
        assert_eq!(album.full_text(), "b\n[a]");
        let mut forwarded = message("", "[c]", Some("hologram"));
        forwarded.quotes = true;
        album.absorb(forwarded);
        assert_eq!((album.quotes, album.unsupported.as_deref()), (true, None));
        assert_eq!(album.full_text(), "b\n[a]\n[c]");
        let mut unsupported = message("", "", Some("first"));
        unsupported.absorb(message("", "", Some("second")));
        assert!(unsupported.unsupported.is_some());
    }
}
