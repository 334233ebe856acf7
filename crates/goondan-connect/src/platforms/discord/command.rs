//! Commands of a Discord application: their sub-commands, options and targets.

use serde_json::{Value, json};

use crate::event::{EventFile, lines, quoted_text, scalar_text};

/// Option types.
const OPTION_SUBCOMMAND: u64 = 1;
const OPTION_SUBCOMMAND_GROUP: u64 = 2;
const OPTION_STRING: u64 = 3;
const OPTION_USER: u64 = 6;
const OPTION_CHANNEL: u64 = 7;
const OPTION_ROLE: u64 = 8;
const OPTION_MENTIONABLE: u64 = 9;
const OPTION_ATTACHMENT: u64 = 11;
/// Maximum characters of a choice.
const MAX_CHOICE_CHARS: usize = 100;

/// Content of a command.
#[derive(Default)]
pub(super) struct DiscordCommand {
    pub(super) text: String,
    /// Message or user that the command is applied to.
    pub(super) quoted: String,
    /// Names of the group and the sub-command.
    pub(super) subcommand: Value,
    pub(super) files: Vec<EventFile>,
}

/// Parses a command: the text of a single option, or else the command with its options.
pub(super) fn read(data: &Value) -> Option<DiscordCommand> {
    let (path, options) = selected_command(data);
    let (attached, options): (Vec<&Value>, Vec<&Value>) = options
        .iter()
        .partition(|option| option["type"] == OPTION_ATTACHMENT);
    let name = data["name"].as_str()?;
    let text = match (path.is_empty(), options.as_slice()) {
        (true, [option]) if is_nonempty_text(option) => scalar_text(&option["value"])?,
        _ => {
            let path = path.iter().map(|name| format!(" {name}"));
            let options = options.iter().filter_map(|option| {
                let value = option_text(option, &data["resolved"])?;
                Some(format!(" {}: {value}", option["name"].as_str()?))
            });
            format!("/{name}{}", path.chain(options).collect::<String>())
        }
    };
    let mut files: Vec<EventFile> = attached
        .iter()
        .filter_map(|option| data["resolved"]["attachments"].get(option["value"].as_str()?))
        .map(event_file)
        .collect();
    let file_lines: Vec<String> = files.iter().map(EventFile::line).collect();
    let (quoted, quoted_files) = target(data);
    files.extend(quoted_files);
    Some(DiscordCommand {
        text: lines([text.as_str(), &file_lines.join("\n")]),
        quoted,
        subcommand: if path.is_empty() {
            Value::Null
        } else {
            path.join(" ").into()
        },
        files,
    })
}

/// Returns the names of the group and the sub-command, and the options of the innermost one.
fn selected_command(data: &Value) -> (Vec<&str>, &[Value]) {
    let mut path = Vec::new();
    let mut options = list(&data["options"]);
    while let [option] = options
        && matches!(
            option["type"].as_u64(),
            Some(OPTION_SUBCOMMAND | OPTION_SUBCOMMAND_GROUP)
        )
    {
        path.extend(option["name"].as_str());
        options = list(&option["options"]);
    }
    (path, options)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns true for a string option with a text that is not blank.
fn is_nonempty_text(option: &Value) -> bool {
    let is_string = option["type"]
        .as_u64()
        .is_none_or(|kind| kind == OPTION_STRING);
    is_string
        && option["value"]
            .as_str()
            .is_some_and(|text| !text.trim().is_empty())
}

/// Returns the value of an option; users, channels and roles with their names.
fn option_text(option: &Value, resolved: &Value) -> Option<String> {
    let value = scalar_text(&option["value"])?;
    let shown_option = |kinds: &[&str]| {
        let name = kinds
            .iter()
            .find_map(|kind| display_name(resolved, kind, &value))?;
        Some(format!("{name} ({value})"))
    };
    let name = match option["type"].as_u64() {
        Some(OPTION_USER) => shown_option(&["users"]),
        Some(OPTION_CHANNEL) => shown_option(&["channels"]),
        Some(OPTION_ROLE) => shown_option(&["roles"]),
        Some(OPTION_MENTIONABLE) => shown_option(&["users", "roles"]),
        _ => None,
    };
    Some(name.unwrap_or(value))
}

/// Returns the name of a user, channel or role as Discord displays it: with `#` for a channel, else
/// with `@`. `kind` is `users`, `channels` or `roles`; `resolved` contains the named objects.
fn display_name(resolved: &Value, kind: &str, id: &str) -> Option<String> {
    let object = resolved[kind].get(id)?;
    match kind {
        "users" => {
            let nickname = resolved["members"][id]["nick"].as_str();
            let name = nickname.or(user_name(object))?;
            Some(format!("@{name}"))
        }
        "channels" => Some(format!("#{}", object["name"].as_str()?)),
        _ => Some(format!("@{}", object["name"].as_str()?)),
    }
}

/// Returns the display name of a user.
fn user_name(user: &Value) -> Option<&str> {
    user["global_name"].as_str().or(user["username"].as_str())
}

/// Returns the message or user that a command is applied to, with the files of the message.
fn target(data: &Value) -> (String, Vec<EventFile>) {
    let Some(id) = data["target_id"].as_str() else {
        return Default::default();
    };
    let message = &data["resolved"]["messages"][id];
    if !message.is_object() {
        let user = display_name(&data["resolved"], "users", id);
        let user = user.map(|name| format!("[the user {name} ({id})]"));
        return (user.unwrap_or_default(), Vec::new());
    }
    let author = user_name(&message["author"]).or(message["author"]["id"].as_str());
    let files: Vec<EventFile> = list(&message["attachments"])
        .iter()
        .map(event_file)
        .collect();
    let embeds: Vec<String> = list(&message["embeds"]).iter().map(embed).collect();
    let file_lines: Vec<String> = files.iter().map(EventFile::line).collect();
    let words = lines([
        message["content"].as_str().unwrap_or_default(),
        &embeds.join("\n"),
        &file_lines.join("\n"),
    ]);
    let origin = format!("a message of {}", author.unwrap_or("an unknown user"));
    (quoted_text(&origin, &words), files)
}

/// Returns the words of an embed.
fn embed(embed: &Value) -> String {
    let part = |name: &str| embed[name].as_str().unwrap_or_default();
    lines([part("title"), part("description"), part("url")])
}

fn event_file(file: &Value) -> EventFile {
    let text = |name: &str| file[name].as_str().map(str::to_owned);
    EventFile {
        place: text("url").unwrap_or_default(),
        name: text("filename"),
        media_type: text("content_type"),
        bytes: file["size"].as_u64(),
    }
}

/// Returns the response to an autocomplete request: the typed text, because Discord takes only
/// choices.
pub(super) fn choices(data: &Value) -> Value {
    let focused = selected_command(data)
        .1
        .iter()
        .find(|option| option["focused"].as_bool() == Some(true) && is_nonempty_text(option));
    let typed = focused.and_then(|option| option["value"].as_str());
    let choices: Vec<Value> = typed
        .filter(|typed| typed.chars().count() <= MAX_CHOICE_CHARS)
        .map(|typed| json!({"name": typed, "value": typed}))
        .into_iter()
        .collect();
    json!({"type": 8, "data": {"choices": choices}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(data: &Value) -> String {
        read(data).unwrap().text
    }

    #[test]
    fn options_of_subcommands_are_read() {
        let options = json!([{"name": "q", "type": 3, "value": "why?"}]);
        let mut data =
            json!({"name": "bot", "options": [{"name": "ask", "type": 1, "options": options}]});
        assert_eq!(text(&data), "/bot ask q: why?");
        data["options"] = json!([{"name": "admin", "type": 2, "options": data["options"]}]);
        let read = read(&data).unwrap();
        assert_eq!(read.text, "/bot admin ask q: why?");
        assert_eq!(read.subcommand, "admin ask");
        let bare = json!({"name": "bot", "options": [{"name": "reset", "type": 1}]});
        assert_eq!(text(&bare), "/bot reset");
    }

    #[test]
    fn option_ids_are_replaced_by_names() {
        let data = json!({
            "name": "assign",
            "options": [
                {"name": "to", "type": 6, "value": "7"}, {"name": "in", "type": 7, "value": "5"},
                {"name": "role", "type": 8, "value": "9"}, {"name": "who", "type": 9, "value": "9"},
                {"name": "n", "type": 4, "value": 2}, {"name": "gone", "type": 6, "value": "8"},
            ],
            "resolved": {
                "users": {"7": {"username": "ada", "global_name": "Ada"}}, "members": {"7": {"nick": "Countess"}},
                "channels": {"5": {"name": "general"}}, "roles": {"9": {"name": "ops"}},
            },
        });
        assert_eq!(
            text(&data),
            "/assign to: @Countess (7) in: #general (5) role: @ops (9) who: @ops (9) n: 2 gone: 8"
        );
    }

    #[test]
    fn a_command_quotes_its_target() {
        let message = json!({
            "content": "the build is red", "author": {"id": "8", "username": "eve"},
            "attachments": [{"filename": "log.txt", "url": "u"}], "embeds": [{"title": "CI"}],
        });
        let data = json!({"name": "Summarize", "type": 3, "target_id": "77", "resolved": {"messages": {"77": message}}});
        let command = read(&data).unwrap();
        assert_eq!(command.text, "/Summarize");
        assert_eq!(
            command.quoted,
            "[a message of eve]\nthe build is red\nCI\n[a file: log.txt]"
        );
        assert_eq!(command.files[0].place, "u");
        let user = json!({"name": "Greet", "type": 2, "target_id": "7", "resolved": {"users": {"7": {"username": "ada"}}}});
        assert_eq!(read(&user).unwrap().quoted, "[the user @ada (7)]");
    }

    #[test]
    fn autocomplete_offers_the_typed_text() {
        let data = |value: &str| json!({"name": "bot", "options": [{"name": "ask", "type": 1, "options": [{"name": "q", "type": 3, "value": value, "focused": true}]}]});
        assert_eq!(
            choices(&data("why")),
            json!({"type": 8, "data": {"choices": [{"name": "why", "value": "why"}]}})
        );
        for typed in ["", &"x".repeat(101)] {
            assert_eq!(choices(&data(typed))["data"]["choices"], json!([]));
        }
    }
}
