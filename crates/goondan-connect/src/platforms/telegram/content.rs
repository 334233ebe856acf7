//! Content of a Telegram message as text, with the file to fetch.

use serde_json::Value;

use crate::event::{EventFile, lines};

/// Fields of a message with a file: the name of the field, its description and the media type if
/// Telegram states none. An animation also has a document, so it comes first.
const FILE_FIELDS: [(&str, &str, Option<&str>); 8] = [
    ("animation", "an animation", Some("video/mp4")),
    ("voice", "a voice message", Some("audio/ogg")),
    ("video_note", "a video message", Some("video/mp4")),
    ("video", "a video", Some("video/mp4")),
    ("live_photo", "a live photo", Some("video/mp4")),
    ("audio", "an audio file", Some("audio/mpeg")),
    ("sticker", "a sticker", None),
    ("document", "a file", None),
];

/// Fields of service messages, which report changes of a chat.
const SERVICE_FIELDS: &[&str] = &[
    "new_chat_members",
    "new_chat_member",
    "left_chat_member",
    "new_chat_title",
    "new_chat_photo",
    "delete_chat_photo",
    "group_chat_created",
    "supergroup_chat_created",
    "channel_chat_created",
    "message_auto_delete_timer_changed",
    "migrate_to_chat_id",
    "migrate_from_chat_id",
    "pinned_message",
    "invoice",
    "successful_payment",
    "refunded_payment",
    "users_shared",
    "chat_shared",
    "connected_website",
    "write_access_allowed",
    "passport_data",
    "proximity_alert_triggered",
    "boost_added",
    "chat_background_set",
    "checklist_tasks_done",
    "checklist_tasks_added",
    "direct_message_price_changed",
    "forum_topic_created",
    "forum_topic_edited",
    "forum_topic_closed",
    "forum_topic_reopened",
    "general_forum_topic_hidden",
    "general_forum_topic_unhidden",
    "giveaway_created",
    "giveaway",
    "giveaway_winners",
    "giveaway_completed",
    "paid_message_price_changed",
    "video_chat_scheduled",
    "video_chat_started",
    "video_chat_ended",
    "video_chat_participants_invited",
    "gift",
    "unique_gift",
    "gift_upgrade_sent",
    "chat_owner_changed",
    "chat_owner_left",
    "community_chat_added",
    "community_chat_joined",
    "community_chat_removed",
    "managed_bot_created",
    "poll_option_added",
    "poll_option_deleted",
    "suggested_post_approved",
    "suggested_post_approval_failed",
    "suggested_post_declined",
    "suggested_post_paid",
    "suggested_post_refunded",
];

/// Content of a message.
pub(super) struct MessageContent {
    /// Text or caption, and a description of everything else; empty if nothing can be described.
    pub(super) text: String,
    pub(super) media: Option<MessageMedia>,
}

/// File of a message.
pub(super) struct MessageMedia {
    /// Platform's id of the file.
    pub(super) id: Value,
    pub(super) file: Option<EventFile>,
}

/// Returns the content of a message.
pub(super) fn of(message: &Value) -> MessageContent {
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (
            message["caption"].as_str().unwrap_or_default(),
            &message["caption_entities"],
        ),
    };
    let (line, media) = match file(message) {
        Some((line, media)) => (line, Some(media)),
        None => (description(message).unwrap_or_default(), None),
    };
    let text = with_links(text, entities);
    let rich = rich_text(&message["rich_message"]["blocks"]);
    MessageContent {
        text: lines([text.as_str(), rich.trim(), &line]),
        media,
    }
}

/// Formats of text that the sender quotes.
const QUOTING_ENTITIES: [&str; 3] = ["blockquote", "expandable_blockquote", "pre"];

/// Returns whether the message contains a formatted quote, code block or rich text.
pub(super) fn has_quotes(message: &Value) -> bool {
    let lists = [&message["entities"], &message["caption_entities"]].into_iter();
    let mut entities = lists.filter_map(Value::as_array).flatten();
    entities.any(|entity| QUOTING_ENTITIES.iter().any(|kind| entity["type"] == *kind))
        || message.get("rich_message").is_some()
}

/// Adds the URLs of links whose text is not the URL. Offsets count UTF-16 units.
fn with_links(text: &str, entities: &Value) -> String {
    let mut links: Vec<(usize, &str)> = entities
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entity| {
            let number = |name: &str| usize::try_from(entity[name].as_u64()?).ok();
            let url = entity["url"].as_str()?;
            Some((number("offset")?.checked_add(number("length")?)?, url))
        })
        .collect();
    links.sort_unstable();
    let mut linked = String::new();
    let mut units = 0;
    let mut links = links.into_iter().peekable();
    for character in text.chars() {
        while let Some((_, url)) = links.next_if(|(end, _)| *end <= units) {
            linked.push_str(&format!(" ({url})"));
        }
        linked.push(character);
        units += character.len_utf16();
    }
    for (_, url) in links {
        linked.push_str(&format!(" ({url})"));
    }
    linked
}

/// Types of rich blocks that end their line.
const LINE_BLOCKS: [&str; 10] = [
    "paragraph",
    "heading",
    "pre",
    "footer",
    "list",
    "table",
    "details",
    "blockquote",
    "expandable_blockquote",
    "pullquote",
];
/// Types of rich blocks with a file or a place.
const MEDIA_BLOCKS: [&str; 7] = [
    "animation",
    "audio",
    "document",
    "photo",
    "video",
    "voice_note",
    "map",
];
/// Fields of rich blocks and of formatted text that contain text, in the order of reading.
const RICH_TEXT_FIELDS: [&str; 12] = [
    "label",
    "text",
    "summary",
    "expression",
    "alternative_text",
    "items",
    "cells",
    "blocks",
    "button",
    "buttons",
    "caption",
    "credit",
];

/// Returns the text of a rich message: formatted text, or blocks.
fn rich_text(value: &Value) -> String {
    let part = match value {
        Value::String(text) => return text.clone(),
        Value::Array(parts) => return parts.iter().map(rich_text).collect(),
        part => part,
    };
    let kind = part["type"].as_str().unwrap_or_default();
    let mut text = String::new();
    if MEDIA_BLOCKS.contains(&kind) {
        text.push_str(&format!("[{kind}]\n"));
    }
    for name in RICH_TEXT_FIELDS {
        let Some(value) = part.get(name) else {
            continue;
        };
        match name {
            "cells" => text.push_str(&table(value)),
            "label" => text.push_str(&(rich_text(value) + " ")),
            _ => text.push_str(&rich_text(value)),
        }
    }
    if kind == "url" {
        let url = part["url"].as_str().unwrap_or_default();
        text.push_str(&format!(" ({url})"));
    }
    if LINE_BLOCKS.contains(&kind) && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns a table with one line for each row.
fn table(rows: &Value) -> String {
    let rows = rows.as_array().into_iter().flatten();
    let line = |row: &Value| {
        let cells = row.as_array().into_iter().flatten().map(rich_text);
        cells.collect::<Vec<_>>().join(" | ") + "\n"
    };
    rows.map(line).collect()
}

/// Returns the field of a service message.
pub(super) fn service(message: &Value) -> Option<&'static str> {
    SERVICE_FIELDS
        .iter()
        .copied()
        .find(|field| message.get(field).is_some())
}

/// Returns the names of the fields of a message, for the log.
pub(super) fn fields(message: &Value) -> String {
    let envelope = ["message_id", "date", "chat", "from", "sender_chat"];
    let names = message.as_object().into_iter().flatten();
    let names = names.map(|(name, _)| name.as_str());
    names
        .filter(|name| !envelope.contains(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the line for a file, and the file.
fn file(message: &Value) -> Option<(String, MessageMedia)> {
    let media = |file: &Value, media_type: Option<&str>| MessageMedia {
        id: file["file_id"].clone(),
        file: file["file_id"].as_str().map(|id| EventFile {
            place: id.to_owned(),
            name: file["file_name"].as_str().map(str::to_owned),
            media_type: file["mime_type"].as_str().or(media_type).map(str::to_owned),
            bytes: file["file_size"].as_u64(),
        }),
    };
    // The last size is the largest.
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        return Some(("[a photo]".to_owned(), media(photo, Some("image/jpeg"))));
    }
    let (field, name, media_type) = FILE_FIELDS
        .into_iter()
        .find(|(field, ..)| message[*field].is_object())?;
    let file = &message[field];
    let mut line = format!("[{name}");
    match field {
        "document" => {
            let name = file["file_name"].as_str().unwrap_or("unnamed");
            line = format!("{line}: {name}");
        }
        "sticker" => line.extend(file["emoji"].as_str().map(|emoji| format!(": {emoji}"))),
        _ => line.extend(file["file_name"].as_str().map(|name| format!(": {name}"))),
    }
    line.extend(
        file["duration"]
            .as_u64()
            .map(|seconds| format!(", {seconds} s")),
    );
    Some((line + "]", media(file, media_type)))
}

/// Returns the line for content without a file.
fn description(message: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |at: &Value| format!("{}, {}", at["latitude"], at["longitude"]);
    let described = [
        ("venue", "a place"),
        ("location", "a location"),
        ("contact", "a contact"),
        ("poll", "a poll"),
        ("dice", "a dice"),
        ("game", "a game"),
        ("checklist", "a checklist"),
        ("story", "a story"),
        ("paid_media", "paid media"),
        ("web_app_data", "data of a web app"),
    ];
    let (field, kind) = described
        .into_iter()
        .find(|(field, _)| message[*field].is_object())?;
    let value = &message[field];
    let titles = |list: &Value, name: &str| {
        let list = list.as_array().into_iter().flatten();
        let titles = list.filter_map(|item| item[name].as_str());
        titles
            .map(|title| format!("\n- {title}"))
            .collect::<String>()
    };
    let details = match field {
        "venue" => format!(
            "{}, {}: {}",
            text(&value["title"]),
            text(&value["address"]),
            place(&value["location"])
        ),
        "location" => place(value),
        "contact" => {
            let name = super::update::name(value);
            format!("{name}, {}", text(&value["phone_number"]))
        }
        "poll" => text(&value["question"]) + &titles(&value["options"], "text"),
        "dice" => format!("{} {}", text(&value["emoji"]), value["value"]),
        "game" => text(&value["title"]),
        "checklist" => text(&value["title"]) + &titles(&value["tasks"], "text"),
        "web_app_data" => text(&value["data"]),
        _ => String::new(),
    };
    Some(if details.is_empty() {
        format!("[{kind}]")
    } else {
        format!("[{kind}: {details}]")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_message_type_is_described() {
        for (message, expected) in [
            (
                json!({"voice": {"file_id": "f", "duration": 3}}),
                "[a voice message, 3 s]",
            ),
            (
                json!({"video_note": {"file_id": "f", "duration": 3}}),
                "[a video message, 3 s]",
            ),
            (
                json!({"caption": "this?", "video": {"file_id": "f"}}),
                "this?\n[a video]",
            ),
            (
                json!({"audio": {"file_id": "f", "file_name": "a.mp3", "duration": 9}}),
                "[an audio file: a.mp3, 9 s]",
            ),
            (
                json!({"animation": {"file_id": "f"}, "document": {"file_id": "g"}}),
                "[an animation]",
            ),
            (
                json!({"sticker": {"file_id": "f", "emoji": "👍"}}),
                "[a sticker: 👍]",
            ),
            (
                json!({"document": {"file_id": "f", "file_name": "x.pdf"}}),
                "[a file: x.pdf]",
            ),
            (
                json!({"location": {"latitude": 48.4, "longitude": 10.0}}),
                "[a location: 48.4, 10.0]",
            ),
            (
                json!({"venue": {"title": "Inn", "address": "Street 1", "location": {"latitude": 1, "longitude": 2}}, "location": {"latitude": 1, "longitude": 2}}),
                "[a place: Inn, Street 1: 1, 2]",
            ),
            (
                json!({"contact": {"first_name": "Ada", "phone_number": "+49"}}),
                "[a contact: Ada, +49]",
            ),
            (
                json!({"poll": {"question": "Lunch?", "options": [{"text": "yes"}, {"text": "no"}]}}),
                "[a poll: Lunch?\n- yes\n- no]",
            ),
            (
                json!({"dice": {"emoji": "🎲", "value": 4}}),
                "[a dice: 🎲 4]",
            ),
            (json!({"story": {"id": 1}}), "[a story]"),
            (json!({"live_photo": {"file_id": "f"}}), "[a live photo]"),
            (
                json!({"rich_message": {"blocks": [
                    {"type": "heading", "text": "Plan"},
                    {"type": "paragraph", "text": ["see ", {"type": "url", "text": {"type": "bold", "text": "this"}, "url": "https://h"}]},
                    {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "one"}]}]},
                    {"type": "photo", "photo": []},
                    {"type": "table", "cells": [[{"text": "a"}, {"text": "b"}], [{"text": "c"}, {}]]},
                    {"type": "buttons", "buttons": [{"text": "Go"}]},
                ]}}),
                "Plan\nsee this (https://h)\n1. one\n[photo]\na | b\nc | \nGo",
            ),
            (json!({"text": "hi"}), "hi"),
            (
                json!({"text": "😀 our page, ok", "entities": [
                    {"type": "text_link", "offset": 3, "length": 8, "url": "https://h"}, {"type": "bold", "offset": 0, "length": 2},
                ]}),
                "😀 our page (https://h), ok",
            ),
            (json!({"new_chat_title": "t"}), ""),
            (Value::Null, ""),
        ] {
            assert_eq!(of(&message).text, expected, "{message}");
        }
        let voice = json!({"voice": {"file_id": "f", "mime_type": "audio/ogg", "file_size": 9}});
        let file = of(&voice).media.unwrap().file.unwrap();
        assert_eq!((file.place.as_str(), file.bytes), ("f", Some(9)));
    }
}
