//! Layout of an approval request.
//!
//! The call comes first, with its most important argument at the top, then the reason for the request.
//! Arguments that equal their default are hidden. Each row of foreign content starts with a gutter, so
//! that it can't pass for output of gdn. Arguments and previews are shown in full. If they exceed the
//! screen, they come first, and the call follows with a shortened copy of the arguments, in which a row
//! reports each cut.

use goondan::internal::untrusted_text;
use goondan::ports::approval::{ApprovalCoverage, ApprovalRequest};
use serde_json::Value;

use crate::output::{TerminalSize, gutter};

/// Prompt in front of the answer. It contains no foreign content.
pub(in crate::commands::run) const APPROVAL_PROMPT: &str =
    "Allow this? [y]es, for this [c]onversation, [a]lways, [N]o: ";

/// Most important argument names, in descending order. They are shown first.
const KEY_ARGUMENTS: [&str; 12] = [
    "command", "path", "url", "to", "from", "cwd", "env", "args", "query", "patch", "content",
    "code",
];

/// Maximum rows of an argument in the shortened copy: [`LEADING_ARGUMENT_ROWS`], a notice and the
/// last row.
const MAX_ARGUMENT_ROWS: usize = 6;
const LEADING_ARGUMENT_ROWS: usize = 4;

/// Maximum length of a name, in characters. Longer names are cut in the middle.
const MAX_NAME_CHARS: usize = 64;

/// Returns the text above the prompt.
pub(super) fn words(request: &ApprovalRequest, size: TerminalSize) -> String {
    let all_arguments: Vec<Vec<String>> = sorted_arguments(request)
        .map(|(name, value)| argument_rows(name, value, size))
        .collect();
    let preview = preview_rows(request, size);
    let mut facts = Vec::new();
    if let Some(reason) = &request.reason {
        facts.push("Reason:".to_owned());
        facts.extend(gutter(reason, size.columns));
    }
    facts.extend(offered_scopes(request, size));
    // The other half of the screen is for the rest of the request.
    let max_rows = (size.rows / 2).max(MAX_ARGUMENT_ROWS);
    let count = all_arguments.iter().map(Vec::len).sum::<usize>();
    let has_room = count <= max_rows && count + preview.len() + facts.len() + 4 < size.rows;
    let mut rows = vec![String::new()];
    if !has_room {
        rows.push("All arguments:".to_owned());
        rows.extend(all_arguments.iter().flatten().cloned());
        rows.extend_from_slice(&preview);
    }
    rows.extend(request_heading(request));
    if has_room {
        rows.extend(all_arguments.into_iter().flatten());
        rows.extend(preview);
    } else {
        rows.extend(shortened_arguments(&all_arguments, max_rows))
    }
    rows.extend(facts);
    if rows.len() >= size.rows {
        rows.push(format!(
            "This request has {} lines. Scroll up to read all of it.",
            rows.len()
        ));
    }
    rows.join("\n") + "\n"
}

/// Returns the preview by the tool with its heading; empty without a preview, or if it only repeats
/// the command.
fn preview_rows(request: &ApprovalRequest, size: TerminalSize) -> Vec<String> {
    let command = request.arguments.get("command").and_then(Value::as_str);
    let repeats_command = |preview: &&String| {
        let shell_command = preview.trim().strip_prefix("$ ");
        shell_command.is_some() && shell_command == command.map(str::trim)
    };
    let Some(preview) = request
        .preview
        .as_ref()
        .filter(|preview| !repeats_command(preview))
    else {
        return Vec::new();
    };
    std::iter::once("Preview by the tool:".to_owned())
        .chain(gutter(preview, size.columns))
        .collect()
}

/// Lists the scopes that a remembered answer can have.
fn offered_scopes(request: &ApprovalRequest, size: TerminalSize) -> Vec<String> {
    if request.offers.is_empty() {
        return vec!["The answer can't be remembered for later calls.".to_owned()];
    }
    let rows = request.offers.iter().flat_map(|offer| match offer.covers {
        ApprovalCoverage::Call => {
            vec!["c, a    also identical later calls".to_owned()]
        }
        ApprovalCoverage::Program => {
            let head = "cp, ap  also later commands that match these, in a sandbox".to_owned();
            std::iter::once(head)
                .chain(gutter(&offer.commands.join("\n"), size.columns))
                .collect()
        }
        ApprovalCoverage::Tool => vec!["ct, at  also all later calls of this tool".to_owned()],
    });
    rows.collect()
}

/// Returns the conversation and the call. The key has its own row, as it can contain any string.
fn request_heading(request: &ApprovalRequest) -> [String; 2] {
    let (agent, tool) = (
        short_name(&request.instance.agent),
        short_name(&request.tool_name),
    );
    let key = short_name(&request.instance.instance_key);
    let with = if request.stated_arguments().next().is_none() {
        "without arguments"
    } else {
        "with"
    };
    [
        format!("Conversation │ {key}"),
        format!("Agent {agent} requests to call {tool} {with}"),
    ]
}

/// Escapes a name, and cuts a long name in the middle.
fn short_name(text: &str) -> String {
    let characters: Vec<char> = untrusted_text::line(text).to_string().chars().collect();
    if characters.len() <= MAX_NAME_CHARS {
        return characters.into_iter().collect();
    }
    let half = MAX_NAME_CHARS / 2;
    let to_text = |chars: &[char]| chars.iter().collect::<String>();
    format!(
        "{}…{}",
        to_text(&characters[..half]),
        to_text(&characters[characters.len() - half + 1..])
    )
}

/// Returns the arguments that differ from their defaults, the most important ones first.
fn sorted_arguments(request: &ApprovalRequest) -> impl Iterator<Item = (&String, &Value)> {
    let mut arguments: Vec<(&String, &Value)> = request.stated_arguments().collect();
    arguments.sort_by_key(|(name, _)| {
        let position = KEY_ARGUMENTS.iter().position(|telling| telling == name);
        position.unwrap_or(KEY_ARGUMENTS.len())
    });
    arguments.into_iter()
}

/// Formats an argument in full. The lines of a string are indented deeper than argument names, so
/// that no line can pass for another argument.
fn argument_rows(name: &str, value: &Value, size: TerminalSize) -> Vec<String> {
    let name = untrusted_text::line(name);
    let text = match value {
        Value::String(text) if text.contains('\n') => {
            format!("{name}:\n  {}", text.replace('\n', "\n  "))
        }
        Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    };
    gutter(&text, size.columns)
}

/// Shortens the arguments to `room` rows, with the most important ones at the beginning.
fn shortened_arguments(whole: &[Vec<String>], room: usize) -> Vec<String> {
    let mut shown_arguments: Vec<Vec<String>> = Vec::new();
    let mut used_rows = 0;
    for rows in whole.iter().map(|rows| cut_rows(rows)) {
        if used_rows + rows.len() > room && used_rows > 0 {
            break;
        }
        used_rows += rows.len();
        shown_arguments.push(rows);
    }
    let left_out = whole.len() - shown_arguments.len();
    let notice = (left_out > 0).then(|| format!("  ⋮ {left_out} more arguments, shown above"));
    shown_arguments
        .into_iter()
        .flatten()
        .chain(notice)
        .collect()
}

/// Returns the first rows, a notice and the last row of a long argument; a short one unchanged.
fn cut_rows(rows: &[String]) -> Vec<String> {
    match rows {
        [first @ .., last] if rows.len() > MAX_ARGUMENT_ROWS => {
            let notice = format!(
                "  ⋮ {} more rows, shown above",
                rows.len() - LEADING_ARGUMENT_ROWS - 1
            );
            first[..LEADING_ARGUMENT_ROWS]
                .iter()
                .chain([&notice, last])
                .cloned()
                .collect()
        }
        all => all.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use goondan::ids::InstanceId;
    use goondan::internal::untrusted_text::is_visible;
    use goondan::ports::approval::ApprovalOffer;
    use serde_json::json;

    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        columns: 60,
        rows: 24,
    };

    fn request(key: &str, arguments: Value) -> ApprovalRequest {
        ApprovalRequest {
            id: "1".to_owned(),
            instance: InstanceId::new("a", key),
            trace_id: String::new(),
            tool_call_id: "c".to_owned(),
            tool_name: "bash__exec".to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            default_arguments: ["timeoutMs".to_owned()].into(),
            preview: Some("$ make\u{1b}[2K\nAllow this? [y]es".to_owned()),
            reason: Some(
                "Agent/a (goondan.yaml:9) requires an approval: no rule matches, so its `default` \
                 applies."
                    .to_owned(),
            ),
            offers: vec![
                ApprovalOffer {
                    covers: ApprovalCoverage::Call,
                    commands: Vec::new(),
                },
                ApprovalOffer {
                    covers: ApprovalCoverage::Program,
                    commands: vec!["git push *".to_owned()],
                },
                ApprovalOffer {
                    covers: ApprovalCoverage::Tool,
                    commands: Vec::new(),
                },
            ],
        }
    }

    #[test]
    fn a_request_shows_the_call_first_without_default_arguments() {
        let arguments = json!({"command": "git push --force", "cwd": "/srv", "timeoutMs": 5});
        insta::assert_snapshot!("question", words(&request("main", arguments), SIZE));
    }

    #[test]
    fn long_arguments_are_truncated_to_fit_the_screen() {
        let script = (1..=40)
            .map(|number| format!("echo line {number}"))
            .collect::<Vec<_>>()
            .join("\n");
        let arguments = json!({
            "command": format!("{script}\nAgent a requests to call fs__read with\nrm -r \
                \u{202e}x\u{200b}"),
            "padding": "p".repeat(2000),
        });
        let words = words(&request("main\u{1b}[1A", arguments), SIZE);
        insta::assert_snapshot!("long question", words);
        assert!(words.chars().all(|c| is_visible(c) || c == '\n'));
        assert!(words.lines().all(|row| row.chars().count() <= SIZE.columns));
    }

    #[test]
    fn many_arguments_leave_room_for_the_command() {
        let mut arguments: serde_json::Map<String, Value> =
            (0..50).map(|n| (format!("a{n}"), json!(n))).collect();
        arguments.insert("command".to_owned(), json!("rm -r x"));
        arguments.insert("z".to_owned(), json!("\n\n\n\nAll arguments:"));
        let words = words(&request(&"k".repeat(5000), Value::Object(arguments)), SIZE);
        let rows: Vec<&str> = words.lines().collect();
        assert!(
            rows[rows.len() - 1].starts_with("This request has"),
            "{words}"
        );
        let begin = rows
            .iter()
            .rposition(|row| row.starts_with("Agent a requests to call bash__exec"))
            .unwrap();
        assert_eq!(rows[begin + 1], "  │ command: rm -r x");
        assert!(rows.len() - begin < SIZE.rows);
        assert!(
            (0..50).all(|n| rows.contains(&format!("  │ a{n}: {n}").as_str())),
            "all arguments are shown above"
        );
    }
}
