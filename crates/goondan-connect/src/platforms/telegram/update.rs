//! Updates of Telegram: messages of people, presses of buttons, and everything else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::content::{self, MessageContent};
use crate::channel_approvals::{ButtonPress, parse_button};
use crate::event::{EventSender, PlatformEvent, quoted_text, scalar_text};
use crate::platforms::IgnoredUpdate;

/// Id of the general topic of a forum. Messages to it must not name a topic.
const GENERAL_TOPIC_ID: i64 = 1;

/// An update.
pub(super) enum TelegramUpdate {
    Message(Box<PlatformEvent>),
    /// A press of an approval button.
    Press(Box<ButtonPress>),
    Ignored(IgnoredUpdate),
}

impl TelegramUpdate {
    /// Parses an update.
    pub(super) fn read(update: &Value) -> TelegramUpdate {
        if let Some(press) = press(update) {
            return TelegramUpdate::Press(Box::new(press));
        }
        match parse_event(update) {
            Ok(event) => TelegramUpdate::Message(Box::new(event)),
            Err(ignored) => TelegramUpdate::Ignored(ignored),
        }
    }
}

/// Returns the album of an update.
pub(super) fn album(update: &Value) -> Option<&Value> {
    update.pointer("/message/media_group_id")
}

/// Merges the messages of each album into its first message.
pub(super) fn merge_albums(
    updates: impl IntoIterator<Item = TelegramUpdate>,
) -> Vec<TelegramUpdate> {
    let mut merged: Vec<TelegramUpdate> = Vec::new();
    for update in updates {
        let TelegramUpdate::Message(event) = update else {
            merged.push(update);
            continue;
        };
        let album_key = event.album_key();
        let first = merged.iter_mut().find_map(|earlier| match earlier {
            TelegramUpdate::Message(first)
                if album_key.is_some() && first.album_key() == album_key =>
            {
                Some(first)
            }
            _ => None,
        });
        match first {
            Some(first) => first.absorb(*event),
            None => merged.push(TelegramUpdate::Message(event)),
        }
    }
    merged
}

/// Parses a press of an approval button.
fn press(update: &Value) -> Option<ButtonPress> {
    let query = update.get("callback_query")?;
    let (allows, mark) = parse_button(query["data"].as_str()?)?;
    let (from, chat) = (&query["from"], query.pointer("/message/chat/id")?.as_i64()?);
    let sender = EventSender {
        id: from["id"].as_i64()?.to_string(),
        name: name(from),
    };
    Some(ButtonPress {
        mark,
        allows,
        sender,
        channel: chat.to_string(),
        back: query["id"].clone(),
    })
}

/// Parses an update with a message of a user.
pub(super) fn parse_event(update: &Value) -> Result<PlatformEvent, IgnoredUpdate> {
    let kind = update.as_object().into_iter().flatten();
    let kind = kind.map(|(name, _)| name).find(|name| *name != "update_id");
    let kind = kind.map_or("an update without content", String::as_str);
    let ignored_update = |reason: &str| IgnoredUpdate::new(format!("{kind}{reason}"));
    let (Some(id), Some(message)) = (update["update_id"].as_i64(), update.get("message")) else {
        return Err(ignored_update(""));
    };
    let chat_id = message["chat"]["id"]
        .as_i64()
        .ok_or_else(|| ignored_update(" without a chat"))?;
    let sender = sender(message).ok_or_else(|| ignored_update(" of a bot"))?;
    let MessageContent { text, media } = content::of(message);
    let (file_id, file) = media.map_or_else(Default::default, |media| (media.id, media.file));
    if text.is_empty()
        && let Some(service) = content::service(message)
    {
        return Err(ignored_update(&format!(": {service}")));
    }
    let thread = topic(message);
    let unsupported = text.is_empty().then(|| {
        format!(
            "its content is not supported ({})",
            content::fields(message)
        )
    });
    Ok(PlatformEvent {
        name: "telegram_message".to_owned(),
        id: id.to_string(),
        text,
        quoted: replied_message(message),
        unsupported,
        key: match thread {
            Some(thread) => format!("telegram:{chat_id}:{thread}"),
            None => format!("telegram:{chat_id}"),
        },
        properties: properties(message, &file_id),
        sender: Some(sender).filter(|sender| !sender.id.is_empty()),
        channel: Some(chat_id.to_string()),
        // The sender did not write a forwarded message, nor the result of an inline bot.
        quotes: ["forward_origin", "forward_date", "via_bot"]
            .iter()
            .any(|forwarded| message.get(forwarded).is_some())
            || content::has_quotes(message),
        album: scalar_text(&message["media_group_id"]),
        files: file.into_iter().collect(),
        origin: Some(json!({"chat": chat_id, "thread": thread})),
        ..PlatformEvent::default()
    })
}

/// Returns the properties of a message for ingress rules.
fn properties(message: &Value, file_id: &Value) -> BTreeMap<String, String> {
    let (from, chat) = (&message["from"], &message["chat"]);
    let facts = [
        ("chatId", &chat["id"]),
        ("chatType", &chat["type"]),
        ("messageId", &message["message_id"]),
        ("threadId", &message["message_thread_id"]),
        ("mediaGroupId", &message["media_group_id"]),
        ("senderId", &from["id"]),
        ("username", &from["username"]),
        ("fileId", file_id),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), scalar_text(value)?)))
        .collect()
}

/// Returns the topic of a message in a forum.
fn topic(message: &Value) -> Option<i64> {
    let thread = message["message_thread_id"].as_i64()?;
    let is_topic = message["is_topic_message"].as_bool() == Some(true);
    (is_topic && thread != GENERAL_TOPIC_ID).then_some(thread)
}

/// Returns the sender; `None` for a bot. Admins who write as their group, and people who write as
/// their channel, appear as a bot with a `sender_chat`.
fn sender(message: &Value) -> Option<EventSender> {
    let (from, chat) = (&message["from"], &message["sender_chat"]);
    let id = |of: &Value| of["id"].as_i64().map(|id| id.to_string());
    if from["is_bot"].as_bool() != Some(true) {
        return Some(EventSender {
            id: id(from).unwrap_or_default(),
            name: name(from),
        });
    }
    let title = chat["title"].as_str().or(chat["username"].as_str());
    Some(EventSender {
        id: id(chat)?,
        name: title.unwrap_or_default().to_owned(),
    })
}

/// Returns the message that is replied to, or the selected part of it.
fn replied_message(message: &Value) -> String {
    let replied = [&message["reply_to_message"], &message["external_reply"]]
        .into_iter()
        .find(|replied| replied.is_object())
        .unwrap_or(&Value::Null);
    let part = message.pointer("/quote/text").and_then(Value::as_str);
    let words = match part {
        Some(part) => part.to_owned(),
        None if message["reply_to_story"].is_object() => "[a story]".to_owned(),
        None => content::of(replied).text,
    };
    let author = name(&replied["from"]);
    let origin = match author.as_str() {
        "" => "in reply to a message".to_owned(),
        author => format!("in reply to a message of {author}"),
    };
    quoted_text(&origin, &words)
}

/// Removes the mention of the bot that begins or ends a text, and the name of the bot in a command
/// such as `/ask@name`. A text that is only a mention stays.
pub(super) fn without_mention(text: &str, name: &str) -> String {
    let mention = format!("@{name}");
    let is_mention = |word: &str| word.eq_ignore_ascii_case(&mention);
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let split = first.len().saturating_sub(mention.len());
    if first.starts_with('/') && first.get(split..).is_some_and(is_mention) {
        return format!("{}{}", &first[..split], &text[first.len()..]);
    }
    let rest = if is_mention(first.trim_end_matches([',', ':'])) {
        rest.trim_start()
    } else {
        text
    };
    let rest = match rest.rsplit_once(char::is_whitespace) {
        Some((before, last)) if is_mention(last) => before.trim_end(),
        _ => rest,
    };
    if rest.is_empty() { text } else { rest }.to_owned()
}

/// Returns the full name of a user.
pub(super) fn name(from: &Value) -> String {
    let parts = ["first_name", "last_name"]
        .iter()
        .filter_map(|part| from[*part].as_str());
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(fields: Value) -> Value {
        let mut message = json!({
            "message_id": 9, "chat": {"id": -100, "type": "supergroup"},
            "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        });
        let given = fields.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(given);
        json!({"update_id": 5, "message": message})
    }

    #[test]
    fn a_mention_of_the_bot_is_removed() {
        for (text, expected) in [
            ("@My_Bot when are you open?", "when are you open?"),
            ("@my_bot, hello", "hello"),
            ("hello @my_bot", "hello"),
            ("/ask@my_bot why", "/ask why"),
            ("ask @my_bot about it", "ask @my_bot about it"),
            ("@my_bot2 hello", "@my_bot2 hello"),
            ("@my_bot", "@my_bot"),
            ("é", "é"),
            ("", ""),
        ] {
            assert_eq!(without_mention(text, "my_bot"), expected, "{text}");
        }
    }

    #[test]
    fn user_messages_become_events() {
        let read = parse_event(&message(json!({
            "caption": "look", "message_thread_id": 3, "is_topic_message": true,
            "photo": [{"file_id": "small"}, {"file_id": "large"}],
        })))
        .unwrap();
        assert_eq!(read.text, "look\n[a photo]");
        assert_eq!(read.key, "telegram:-100:3");
        assert_eq!(read.properties["fileId"], "large");
        assert_eq!(read.origin, Some(json!({"chat": -100, "thread": 3})));
        for ignored in [
            json!({"update_id": 1, "message": {"text": "x", "chat": {"id": 1}, "from": {"id": 2, "is_bot": true}}}),
            json!({"update_id": 1, "edited_message": {"text": "x", "chat": {"id": 1}}}),
            json!({"update_id": 1, "message": {"chat": {"id": 1}, "from": {"id": 2}, "new_chat_title": "t"}}),
            json!({"message": {"text": "x", "chat": {"id": 1}}}),
            json!(null),
        ] {
            assert!(parse_event(&ignored).is_err(), "{ignored}");
        }
        let unknown = parse_event(&message(json!({"hologram": {}}))).unwrap();
        assert!(unknown.unsupported.unwrap().contains("hologram"));
    }

    #[test]
    fn only_topics_have_their_own_conversations() {
        for (fields, key) in [
            (json!({"message_thread_id": 5}), "telegram:-100"),
            (
                json!({"message_thread_id": 1, "is_topic_message": true}),
                "telegram:-100",
            ),
            (
                json!({"message_thread_id": 2, "is_topic_message": true}),
                "telegram:-100:2",
            ),
        ] {
            let mut fields = fields;
            fields["text"] = json!("x");
            assert_eq!(parse_event(&message(fields)).unwrap().key, key);
        }
    }

    #[test]
    fn an_anonymous_group_admin_counts_as_a_user() {
        let bot = json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group"});
        let fields =
            json!({"text": "hi", "from": bot, "sender_chat": {"id": -100, "title": "Ops"}});
        let sender = parse_event(&message(fields)).unwrap().sender.unwrap();
        assert_eq!((sender.id.as_str(), sender.name.as_str()), ("-100", "Ops"));
    }

    #[test]
    fn a_reply_quotes_the_original_message() {
        let by = json!({"id": 8, "first_name": "Eve"});
        let quoted = |fields: Value| {
            let read = parse_event(&message(fields)).unwrap();
            (read.text, read.quoted)
        };
        for (fields, expected) in [
            (
                json!({"reply_to_message": {"text": "/approve 1", "from": by}}),
                "[in reply to a message of Eve]\n/approve 1",
            ),
            (
                json!({"reply_to_message": {"voice": {"file_id": "v", "duration": 3}}}),
                "[in reply to a message]\n[a voice message, 3 s]",
            ),
            (
                json!({"reply_to_message": {"text": "long text"}, "quote": {"text": "text"}}),
                "[in reply to a message]\ntext",
            ),
            (
                json!({"reply_to_message": {"forum_topic_created": {"name": "t"}}}),
                "",
            ),
        ] {
            let mut fields = fields;
            fields["text"] = json!("why?");
            assert_eq!(quoted(fields), ("why?".to_owned(), expected.to_owned()));
        }
    }

    #[test]
    fn an_album_is_one_event() {
        let photo = |id: &str, caption: Option<&str>, album: &str| {
            let photo = json!([{"file_id": id}]);
            let fields = json!({"photo": photo, "media_group_id": album, "caption": caption});
            TelegramUpdate::read(&message(fields))
        };
        let text = TelegramUpdate::read(&message(json!({"text": "other"})));
        let merged = merge_albums([
            photo("1", Some("compare"), "g"),
            text,
            photo("2", None, "g"),
            photo("3", None, "h"),
        ]);
        let texts: Vec<_> = merged
            .iter()
            .map(|update| match update {
                TelegramUpdate::Message(event) => (event.text.as_str(), event.files.len()),
                _ => ("", 0),
            })
            .collect();
        assert_eq!(
            texts,
            [
                ("compare\n[a photo]\n[a photo]", 2),
                ("other", 0),
                ("[a photo]", 1)
            ]
        );
    }

    /// Message fields of the Bot API, and the unknown field `hologram`.
    const FIELDS: [&str; 24] = [
        "text",
        "caption",
        "photo",
        "voice",
        "video",
        "sticker",
        "document",
        "location",
        "venue",
        "contact",
        "poll",
        "dice",
        "game",
        "checklist",
        "rich_message",
        "live_photo",
        "reply_to_message",
        "quote",
        "entities",
        "media_group_id",
        "message_thread_id",
        "is_topic_message",
        "pinned_message",
        "hologram",
    ];

    fn field_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(|number| json!(number)),
            any::<bool>().prop_map(|value| json!(value)),
            "\\PC{0,8}".prop_map(|text| json!(text)),
            Just(json!({"file_id": "f", "duration": 1, "title": "t", "text": "x"})),
            Just(
                json!([{"file_id": "f", "type": "text_link", "offset": 1, "length": 2, "url": "u"}])
            ),
            Just(json!({"blocks": [{"type": "paragraph", "text": "x"}]})),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn every_accepted_message_has_text_or_is_unsupported(fields in proptest::collection::btree_map(proptest::sample::select(&FIELDS[..]), field_value(), 0..5)) {
            match TelegramUpdate::read(&message(json!(fields))) {
                TelegramUpdate::Message(event) => {
                    prop_assert!(event.unsupported.is_some() || !event.text.is_empty());
                }
                TelegramUpdate::Ignored(_) => {}
                TelegramUpdate::Press(_) => prop_assert!(false, "read as a button press"),
            }
        }
    }
}
