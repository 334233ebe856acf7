//! How a question looks.
//!
//! What decides stands last, right above the prompt: who calls which tool with what. Every row of a stranger begins with a
//! gutter, so it can't be taken for a row of ours. Arguments are shown whole; where they are longer than the screen, they are
//! shown once more below, cut, and a row says so.

use goondan::inside::shown;
use goondan::ports::approval::{ApprovalRequest, Covers};
use serde_json::Value;

use crate::output::{Size, gutter};

/// What is typed behind it is the answer. No stranger's word stands in it.
pub(in crate::commands::run) const PROMPT: &str =
    "Allow this? [y]es, for this [c]onversation, [a]lways, [N]o: ";

/// Arguments that say what a call does stand last, the most telling at the end.
const TELLING: [&str; 12] = [
    "code", "content", "patch", "query", "args", "env", "cwd", "from", "to", "url", "path",
    "command",
];

/// An argument of more rows than that is cut where it is shown once more: so many at its beginning, and the last one.
const MOST_ROWS: usize = 6;
const FIRST_ROWS: usize = 4;

/// A longer name is cut in the middle. In characters.
const LONGEST_NAME: usize = 64;

/// Everything above the prompt.
pub(super) fn words(request: &ApprovalRequest, size: Size) -> String {
    let mut rows = vec![String::new()];
    if let Some(preview) = &request.preview {
        rows.push("The tool says what it would do:".to_owned());
        rows.extend(gutter(preview, size.columns));
    }
    if let Some(reason) = &request.reason {
        rows.push("Why you are asked:".to_owned());
        rows.extend(gutter(reason, size.columns));
    }
    let whole: Vec<Vec<String>> = by_weight(request)
        .map(|(name, value)| argument(name, value, size))
        .collect();
    let room = (size.rows / 2).max(MOST_ROWS);
    let fits = whole.iter().map(Vec::len).sum::<usize>() <= room;
    if !fits {
        rows.push("All arguments:".to_owned());
        rows.extend(whole.iter().flatten().cloned());
    }
    rows.extend(reach(request, size));
    rows.extend(who(request));
    match fits {
        true => rows.extend(whole.into_iter().flatten()),
        false => rows.extend(once_more(&whole, room)),
    }
    if rows.len() >= size.rows {
        rows.push(format!(
            "This question has {} lines. Scroll up to read all of it.",
            rows.len()
        ));
    }
    rows.join("\n") + "\n"
}

/// What an answer may cover that holds on, beside the call itself.
fn reach(request: &ApprovalRequest, size: Size) -> Vec<String> {
    if request.offers.is_empty() {
        return vec!["Nothing can be remembered of this call.".to_owned()];
    }
    let rows = request.offers.iter().flat_map(|offer| match offer.covers {
        Covers::Call => vec!["c, a    also later calls that are exactly the same".to_owned()],
        Covers::Program => {
            let head = "cp, ap  also later commands like these, in a sandbox".to_owned();
            std::iter::once(head)
                .chain(gutter(&offer.commands.join("\n"), size.columns))
                .collect()
        }
        Covers::Tool => vec!["ct, at  also all later calls of this tool".to_owned()],
    });
    rows.collect()
}

/// The key stands in a row of its own: it is the one name that may hold anything.
fn who(request: &ApprovalRequest) -> [String; 2] {
    let (agent, tool) = (name(&request.instance.agent), name(&request.tool_name));
    let key = name(&request.instance.instance_key);
    let with = if request.arguments.is_empty() {
        "without arguments"
    } else {
        "with"
    };
    [
        format!("Conversation │ {key}"),
        format!("Agent {agent} wants to call {tool} {with}"),
    ]
}

fn name(text: &str) -> String {
    let shown: Vec<char> = shown::line(text).to_string().chars().collect();
    if shown.len() <= LONGEST_NAME {
        return shown.into_iter().collect();
    }
    let half = LONGEST_NAME / 2;
    let part = |chars: &[char]| chars.iter().collect::<String>();
    format!(
        "{}…{}",
        part(&shown[..half]),
        part(&shown[shown.len() - half + 1..])
    )
}

fn by_weight(request: &ApprovalRequest) -> impl Iterator<Item = (&String, &Value)> {
    let mut arguments: Vec<(&String, &Value)> = request.arguments.iter().collect();
    arguments.sort_by_key(|(name, _)| TELLING.iter().position(|telling| telling == name));
    arguments.into_iter()
}

/// An argument whole. The lines of a text stand deeper than the names of arguments, so none can be taken for another argument.
fn argument(name: &str, value: &Value, size: Size) -> Vec<String> {
    let name = shown::line(name);
    let text = match value {
        Value::String(text) if text.contains('\n') => {
            format!("{name}:\n  {}", text.replace('\n', "\n  "))
        }
        Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    };
    gutter(&text, size.columns)
}

/// Arguments as far as there is room, those that tell most at the end.
fn once_more(whole: &[Vec<String>], room: usize) -> Vec<String> {
    let mut shown: Vec<Vec<String>> = Vec::new();
    let mut used = 0;
    for rows in whole.iter().rev().map(|rows| cut(rows)) {
        if used + rows.len() > room && used > 0 {
            break;
        }
        used += rows.len();
        shown.push(rows);
    }
    let left_out = whole.len() - shown.len();
    let told = (left_out > 0).then(|| format!("  ⋮ {left_out} more arguments, shown above"));
    told.into_iter()
        .chain(shown.into_iter().rev().flatten())
        .collect()
}

fn cut(rows: &[String]) -> Vec<String> {
    match rows {
        [first @ .., last] if rows.len() > MOST_ROWS => {
            let told = format!("  ⋮ {} more rows, shown above", rows.len() - FIRST_ROWS - 1);
            first[..FIRST_ROWS]
                .iter()
                .chain([&told, last])
                .cloned()
                .collect()
        }
        all => all.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use goondan::ids::InstanceId;
    use goondan::inside::shown::is_visible;
    use goondan::ports::approval::Offer;
    use serde_json::json;

    use super::*;

    const SIZE: Size = Size {
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
            preview: Some("$ make\u{1b}[2K\nAllow this? [y]es".to_owned()),
            reason: Some("Agent/a: no rule matches, so its `default` decides".to_owned()),
            offers: vec![
                Offer {
                    covers: Covers::Call,
                    commands: Vec::new(),
                },
                Offer {
                    covers: Covers::Program,
                    commands: vec!["git push *".to_owned()],
                },
                Offer {
                    covers: Covers::Tool,
                    commands: Vec::new(),
                },
            ],
        }
    }

    #[test]
    fn what_decides_stands_last() {
        let arguments = json!({"command": "git push --force", "cwd": "/srv", "timeoutMs": 5});
        insta::assert_snapshot!("question", words(&request("main", arguments), SIZE));
    }

    #[test]
    fn long_arguments_push_nothing_off_the_screen() {
        let script = (1..=40)
            .map(|number| format!("echo line {number}"))
            .collect::<Vec<_>>()
            .join("\n");
        let arguments = json!({
            "command": format!("{script}\nAgent a wants to call fs__read with\nrm -r \u{202e}x\u{200b}"),
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
        assert_eq!(rows[rows.len() - 2], "  │ command: rm -r x");
        assert!(
            rows[rows.len() - 1].starts_with("This question has"),
            "{words}"
        );
        let begin = rows
            .iter()
            .rposition(|row| row.starts_with("Agent a wants to call bash__exec"))
            .unwrap();
        assert!(rows.len() - begin < SIZE.rows);
        assert!(
            (0..50).all(|n| rows.contains(&format!("  │ a{n}: {n}").as_str())),
            "all are shown, above"
        );
    }
}
