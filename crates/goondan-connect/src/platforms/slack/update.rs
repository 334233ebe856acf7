//! Payloads of Slack: messages of people, presses of buttons, and everything else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::teams::TeamPrefixes;
use super::text::{decode_text, text_of_blocks, with_blocks};
use crate::channel_approvals::{ButtonPress, parse_button};
use crate::event::{EventFile, EventSender, PlatformEvent, lines, quoted_text, scalar_text};
use crate::platforms::IgnoredUpdate;

/// Parses a press of an approval button.
pub(super) fn press(payload: &Value, teams: &TeamPrefixes) -> Option<ButtonPress> {
    let action = payload
        .pointer("/actions/0")
        .filter(|_| payload["type"] == "block_actions")?;
    let (allows, mark) = parse_button(action["value"].as_str()?)?;
    let (user, channel) = (
        &payload["user"],
        payload
            .pointer("/channel/id")
            .or(payload.pointer("/container/channel_id"))?,
    );
    let sender = EventSender {
        id: format!("{}{}", teams.sender, user["id"].as_str()?),
        name: user["username"]
            .as_str()
            .or(user["name"].as_str())
            .unwrap_or_default()
            .to_owned(),
    };
    let thread = payload
        .pointer("/container/thread_ts")
        .or(payload.pointer("/message/thread_ts"));
    let (channel, back) = (
        channel.as_str()?.to_owned(),
        thread.cloned().unwrap_or_default(),
    );
    Some(ButtonPress {
        mark,
        allows,
        sender,
        channel,
        back,
    })
}

/// Subtypes of messages that people write.
const WRITTEN_SUBTYPES: [&str; 4] = [
    "thread_broadcast",
    "file_share",
    "me_message",
    "reply_broadcast",
];

/// Parses a message of a user. Slack sends mentions twice under two event ids, so the id is derived
/// from the message position.
pub(super) fn parse_event(
    payload: &Value,
    teams: &TeamPrefixes,
    wants_mention: bool,
) -> Result<PlatformEvent, IgnoredUpdate> {
    let event = message(payload)?;
    let is_mention = event["type"] == "app_mention";
    let is_direct = event["channel_type"] == "im";
    if wants_mention && !is_mention && !is_direct {
        return Err(IgnoredUpdate::usual(
            "a message that does not mention the app",
        ));
    }
    let [channel, ts, user] =
        ["channel", "ts", "user"].map(|name| event[name].as_str().unwrap_or_default());
    let mut files = files_of(event);
    let quoted = forwarded_text(event);
    let file_lines: Vec<String> = files.iter().map(EventFile::line).collect();
    files.extend(attachments(event).flat_map(files_of));
    let text = lines([own_text(payload).trim(), &file_lines.join("\n")]);
    if channel.is_empty() || ts.is_empty() || (text.is_empty() && quoted.is_empty()) {
        return Err(IgnoredUpdate::new("a message without content"));
    }
    let thread = event["thread_ts"]
        .as_str()
        .filter(|thread| !thread.is_empty())
        // A direct message is part of one conversation, unless someone opens a thread.
        .or((!is_direct).then_some(ts));
    let name = if is_mention {
        "app_mention"
    } else {
        "message_im"
    };
    Ok(PlatformEvent {
        name: name.to_owned(),
        id: format!(
            "{}:{channel}:{ts}",
            payload["team_id"].as_str().unwrap_or_default()
        ),
        text,
        own_text: Some(super::text::own_text(
            event["text"].as_str().unwrap_or_default(),
            &event["blocks"],
        )),
        quoted,
        key: match thread {
            Some(thread) => format!("slack:{}{channel}:{thread}", teams.conversation),
            None => format!("slack:{}{channel}", teams.conversation),
        },
        properties: properties(payload),
        sender: Some(EventSender {
            id: format!("{}{user}", teams.sender),
            name: String::new(),
        }),
        channel: Some(channel.to_owned()),
        files,
        origin: Some(json!({"channel": channel, "thread": thread})),
        ..PlatformEvent::default()
    })
}

/// Returns the properties of a message for ingress rules.
fn properties(payload: &Value) -> BTreeMap<String, String> {
    let event = &payload["event"];
    let facts = [
        ("channelId", &event["channel"]),
        ("channelType", &event["channel_type"]),
        ("messageTs", &event["ts"]),
        ("threadTs", &event["thread_ts"]),
        ("userId", &event["user"]),
        ("teamId", &payload["team_id"]),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), scalar_text(value)?)))
        .collect()
}

/// Returns the message in a payload that a person wrote.
fn message(payload: &Value) -> Result<&Value, IgnoredUpdate> {
    let kind = |value: &Value| value["type"].as_str().unwrap_or("untyped").to_owned();
    let event = &payload["event"];
    if payload["type"] != "event_callback" || !event.is_object() {
        return Err(IgnoredUpdate::new(kind(payload)));
    }
    if event["type"] != "app_mention" && event["type"] != "message" {
        return Err(IgnoredUpdate::new(kind(event)));
    }
    if !event["bot_id"].is_null() || event["subtype"] == "bot_message" {
        return Err(IgnoredUpdate::usual("a message of an app"));
    }
    let subtype = event["subtype"].as_str();
    match subtype.filter(|subtype| !WRITTEN_SUBTYPES.contains(subtype)) {
        // Slack sends this for each change of a streamed answer.
        Some(subtype @ "message_changed") if !event["message"]["bot_id"].is_null() => {
            Err(IgnoredUpdate::usual(subtype))
        }
        Some(subtype) => Err(IgnoredUpdate::new(format!("{}: {subtype}", kind(event)))),
        None if event["user"].as_str().is_none() => {
            Err(IgnoredUpdate::new("a message without a sender"))
        }
        None => Ok(event),
    }
}

/// Returns the words of the sender, without the mention of the app that begins or ends them.
fn own_text(payload: &Value) -> String {
    let event = &payload["event"];
    let written = event["text"].as_str().unwrap_or_default();
    let text =
        mention_of_app(payload).map_or(written, |mention| without_mention(written, &mention));
    with_blocks(&decode_text(text), &event["blocks"])
}

/// Returns the text that mentions the app, such as `<@U1>`. Some payloads do not name the app's user.
/// Then an `app_mention` event must mention exactly one user, and that user is the app.
fn mention_of_app(payload: &Value) -> Option<String> {
    let event = &payload["event"];
    let bot = payload
        .pointer("/authorizations/0")
        .filter(|authorization| authorization["is_bot"] == true);
    if let Some(user) = bot.and_then(|bot| bot["user_id"].as_str()) {
        return Some(format!("<@{user}>"));
    }
    if event["type"] != "app_mention" {
        return None;
    }
    let text = event["text"].as_str()?;
    let mut users = text
        .split("<@")
        .skip(1)
        .filter_map(|rest| rest.split_once('>'));
    let (user, _) = users.next()?;
    users
        .all(|(other, _)| other == user)
        .then(|| format!("<@{user}>"))
}

/// Removes a mention at the beginning and at the end. A text that is only a mention stays.
fn without_mention<'t>(text: &'t str, mention: &str) -> &'t str {
    let rest = text.trim();
    let rest = rest
        .strip_prefix(mention)
        .unwrap_or(rest)
        .trim_start_matches([',', ':']);
    let rest = rest.strip_suffix(mention).unwrap_or(rest).trim();
    if rest.is_empty() { text } else { rest }
}

/// Returns the messages that are passed on, and the previews of links.
fn forwarded_text(event: &Value) -> String {
    let quotes: Vec<String> = attachments(event).map(attachment_text).collect();
    lines(quotes.iter().map(String::as_str))
}

/// Returns the attachments of a message.
fn attachments(event: &Value) -> impl Iterator<Item = &Value> {
    event["attachments"].as_array().into_iter().flatten()
}

/// Returns an attachment as quoted text.
fn attachment_text(attachment: &Value) -> String {
    let field = |name: &str| decode_text(attachment[name].as_str().unwrap_or_default());
    let is_message = ["is_share", "is_msg_unfurl"]
        .iter()
        .any(|name| attachment[*name].as_bool() == Some(true));
    let kind = if is_message {
        "a forwarded message"
    } else {
        "an attachment"
    };
    let author = match field("author_name").as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    };
    let source = match field("from_url").as_str() {
        "" => String::new(),
        url => format!(": {url}"),
    };
    let text = with_blocks(&field("text"), &attachment["blocks"]);
    let mut words = lines([field("pretext").as_str(), &field("title"), &text]);
    if field("text").trim().is_empty() {
        words = lines([
            words.as_str(),
            &text_of_blocks(&attachment["message_blocks"]),
        ]);
    }
    let fields = attachment["fields"].as_array().into_iter().flatten();
    for (title, value) in fields.map(|field| (field["title"].as_str(), field["value"].as_str())) {
        let field = format!(
            "{}: {}",
            title.unwrap_or_default(),
            value.unwrap_or_default()
        );
        words = lines([words.as_str(), &decode_text(&field)]);
    }
    let file_lines: Vec<String> = files_of(attachment).iter().map(EventFile::line).collect();
    words = lines([words.as_str(), &file_lines.join("\n")]);
    if words.is_empty() {
        words = field("fallback");
    }
    quoted_text(&format!("{kind}{author}{source}"), &words)
}

/// Returns the files of a message. Externally hosted files cannot be fetched.
fn files_of(event: &Value) -> Vec<EventFile> {
    let text = |file: &Value, name: &str| {
        file[name]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let to_event_file = |file: &Value| {
        let url = text(file, "url_private_download")
            .or(text(file, "url_private"))
            .unwrap_or_default();
        let bytes = file["size"].as_u64();
        EventFile {
            place: url,
            name: text(file, "name"),
            media_type: text(file, "mimetype"),
            bytes,
        }
    };
    event["files"]
        .as_array()
        .map(|files| files.iter().map(to_event_file).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(payload: &Value, wants_mention: bool) -> Result<PlatformEvent, IgnoredUpdate> {
        super::parse_event(payload, &TeamPrefixes::default(), wants_mention)
    }

    fn message(fields: Value) -> Value {
        let mut event =
            json!({"type": "message", "channel": "C1", "user": "U1", "ts": "1.2", "text": "hi"});
        event
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event})
    }

    #[test]
    fn user_messages_are_events_and_other_payloads_are_ignored() {
        let plain = event(&message(json!({})), false).unwrap();
        let mention = event(&message(json!({"type": "app_mention"})), false).unwrap();
        assert_eq!(plain.id, mention.id, "both payloads are the same message");
        assert_eq!(
            (plain.name.as_str(), mention.name.as_str()),
            ("message_im", "app_mention")
        );
        assert_eq!(plain.key, "slack:C1:1.2");
        let reply = event(&message(json!({"thread_ts": "0.9"})), false).unwrap();
        assert_eq!(
            (reply.key.as_str(), reply.origin.unwrap()["thread"].as_str()),
            ("slack:C1:0.9", Some("0.9"))
        );
        for subtype in WRITTEN_SUBTYPES {
            assert!(event(&message(json!({"subtype": subtype})), false).is_ok());
        }
        for ignored in [
            json!({"bot_id": "B1"}),
            json!({"subtype": "message_changed"}),
            json!({"subtype": "message_deleted"}),
            json!({"user": null}),
            json!({"text": " "}),
            json!({"type": "reaction_added"}),
        ] {
            assert!(
                event(&message(ignored.clone()), false).is_err(),
                "{ignored}"
            );
        }
        assert!(
            event(&message(json!({})), true).is_err(),
            "the message does not mention the app"
        );
        assert!(event(&message(json!({"channel_type": "im"})), true).is_ok());
    }

    #[test]
    fn ids_of_another_workspace_have_its_prefix() {
        let teams = TeamPrefixes {
            conversation: "T2:".to_owned(),
            sender: "T2:".to_owned(),
        };
        let direct = message(json!({"channel_type": "im"}));
        let read = super::parse_event(&direct, &teams, false).unwrap();
        assert_eq!(
            (read.key.as_str(), read.sender.unwrap().id.as_str()),
            ("slack:T2:C1", "T2:U1")
        );
        let button = json!({
            "type": "block_actions", "user": {"id": "U1"}, "channel": {"id": "C1"},
            "actions": [{"value": "gdn:allow:0123456789abcdef"}],
        });
        assert_eq!(press(&button, &teams).unwrap().sender.id, "T2:U1");
    }

    #[test]
    fn a_mention_of_the_app_is_removed() {
        let own = json!([{"user_id": "UBOT", "is_bot": true}]);
        for (kind, text, expected) in [
            (
                "app_mention",
                "<@UBOT> when are you open?",
                "when are you open?",
            ),
            ("message", "<@UBOT>, hello <@UBOT>", "hello"),
            ("message", "ask <@UBOT> about <@U2>", "ask @UBOT about @U2"),
            ("message", "<@U2> hello", "@U2 hello"),
            ("app_mention", "<@UBOT>", "@UBOT"),
        ] {
            let mut payload = message(json!({"type": kind, "text": text}));
            payload["authorizations"] = own.clone();
            assert_eq!(event(&payload, false).unwrap().text, expected, "{text}");
        }
        let unnamed = message(json!({"type": "app_mention", "text": "<@UBOT> hello"}));
        assert_eq!(event(&unnamed, false).unwrap().text, "hello");
    }

    #[test]
    fn direct_messages_are_one_conversation() {
        let direct = event(&message(json!({"channel_type": "im"})), false).unwrap();
        assert_eq!(direct.key, "slack:C1");
        assert!(direct.origin.unwrap()["thread"].is_null());
        let threaded = json!({"channel_type": "im", "thread_ts": "0.9"});
        assert_eq!(
            event(&message(threaded), false).unwrap().key,
            "slack:C1:0.9"
        );
    }

    #[test]
    fn forwarded_messages_are_quoted() {
        let share = json!({
            "is_share": true, "text": "the build is &lt;red&gt;", "author_name": "Eve",
            "from_url": "https://x.slack.com/archives/C1/p1", "files": [{"name": "log.txt"}],
        });
        let read = event(&message(json!({"text": "", "attachments": [share]})), false).unwrap();
        assert_eq!(read.text, "");
        assert_eq!(
            read.quoted,
            "[a forwarded message of Eve: https://x.slack.com/archives/C1/p1]\nthe build is <red>\n[a file: log.txt]"
        );
        assert_eq!(read.files.len(), 1);
        let unfurl = json!({"title": "Page", "fallback": "Page", "fields": [{"title": "state", "value": "open"}]});
        let read = event(
            &message(json!({"attachments": [unfurl, {"fallback": "f"}]})),
            false,
        );
        assert_eq!(
            read.unwrap().full_text(),
            "hi\n[an attachment]\nPage\nstate: open\n[an attachment]\nf"
        );
    }

    #[test]
    fn a_message_without_text_is_read_from_its_blocks() {
        let blocks = json!([{"type": "section", "text": {"type": "mrkdwn", "text": "a &amp; b"}}]);
        let read = event(&message(json!({"text": "", "blocks": blocks})), false).unwrap();
        assert_eq!(read.text, "a & b");
    }

    fn field() -> impl Strategy<Value = (&'static str, Value)> {
        let text = "\\PC{0,8}";
        let strings = [
            "text",
            "subtype",
            "user",
            "bot_id",
            "thread_ts",
            "channel_type",
        ];
        let lists = ["attachments", "blocks", "files"];
        prop_oneof![
            (proptest::sample::select(strings.to_vec()), text).prop_map(|(name, text)| (name, json!(text))),
            (proptest::sample::select(lists.to_vec()), text).prop_map(|(name, text)| {
                (name, json!([{"type": "section", "is_share": true, "text": text, "name": text, "elements": [text]}]))
            }),
            proptest::sample::select(vec!["me_message", "file_share", "message_deleted", "channel_join"])
                .prop_map(|subtype| ("subtype", json!(subtype))),
            proptest::sample::select(vec!["app_mention", "message", "reaction_added", "file_shared"])
                .prop_map(|kind| ("type", json!(kind))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn every_accepted_event_has_text(fields in proptest::collection::vec(field(), 0..5)) {
            let fields: serde_json::Map<String, Value> = fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            if let Ok(event) = event(&message(Value::Object(fields)), false) {
                prop_assert!(!event.full_text().is_empty());
            }
        }
    }
}
