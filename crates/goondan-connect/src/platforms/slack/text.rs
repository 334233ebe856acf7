//! Text of Slack messages. Slack writes mentions and links in angle brackets, and escapes `&`, `<` and
//! `>` everywhere else.

use serde_json::Value;

use crate::event::lines;
use crate::own_words::REMOVED;

/// Returns the text that people see. Each part is decoded once, so no one can type a mention.
pub(super) fn decode_text(text: &str) -> String {
    let mut decoded = String::new();
    let mut remaining = text;
    while let Some((before, token, after)) = next_token(remaining) {
        decoded.push_str(&decode_escapes(before));
        decoded.push_str(&decode_escapes(&visible_token(token)));
        remaining = after;
    }
    decoded + &decode_escapes(remaining)
}

/// Returns the sender's own words: `text` without the labels of links and mentions, and without the
/// lines that `blocks` contain as a quote or as code.
pub(super) fn own_text(text: &str, blocks: &Value) -> String {
    let mut own = String::new();
    let mut remaining = text;
    while let Some((before, token, after)) = next_token(remaining) {
        own.push_str(&decode_escapes(before));
        // A command may mention the app.
        own.push_str(if token.starts_with('@') { "@" } else { REMOVED });
        remaining = after;
    }
    own.push_str(&decode_escapes(remaining));
    let mut quoted = String::new();
    append_quotes(blocks, &mut quoted);
    let is_quoted = |line: &&str| quoted.lines().any(|quote| quote.trim() == line.trim());
    let own = own.lines().filter(|line| !is_quoted(line));
    own.collect::<Vec<_>>().join("\n")
}

/// Appends the text of the quotes and of the code in blocks.
fn append_quotes(block: &Value, text: &mut String) {
    if ["rich_text_quote", "rich_text_preformatted"]
        .iter()
        .any(|kind| block["type"] == *kind)
    {
        append(block, text);
        return end_line(text);
    }
    let children = [block, &block["elements"]].into_iter();
    for child in children.filter_map(Value::as_array).flatten() {
        append_quotes(child, text);
    }
}

/// Returns the text before the next `<…>`, its content, and the text after it.
fn next_token(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('<')?;
    let (token, after) = rest.split_once('>')?;
    Some((before, token, after))
}

/// Decodes the escapes. `&amp;` is the last one, so that `&amp;lt;` stays `&lt;`.
pub(super) fn decode_escapes(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Returns the content of angle brackets as people see it, in one line.
fn visible_token(token: &str) -> String {
    let token = &*token.replace(['\n', '\r'], " ");
    let (target, label) = match token.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (token, None),
    };
    let with_label = |sign: char, id: &str| format!("{sign}{}", label.unwrap_or(id));
    if let Some(user) = target.strip_prefix('@') {
        return with_label('@', user);
    }
    if let Some(channel) = target.strip_prefix('#') {
        return with_label('#', channel);
    }
    if let Some(command) = target.strip_prefix('!') {
        return match (command.split_once('^'), label) {
            // The label of a group contains the sign.
            (Some(("subteam", group)), None) => format!("@{group}"),
            (Some(_), Some(label)) => label.to_owned(),
            _ => with_label('@', command),
        };
    }
    let plain = target
        .trim_start_matches("mailto:")
        .trim_start_matches("tel:");
    match label {
        Some(label) if label != target && label != plain => format!("{label} ({plain})"),
        _ => plain.to_owned(),
    }
}

/// Blocks whose content is not in the text of their message. Slack repeats the other blocks there.
const BLOCKS_MISSING_IN_TEXT: [&str; 2] = ["table", "markdown"];

/// Returns `text` and below it the blocks that Slack leaves out of the text of a message. If `text`
/// is empty, returns the text of all blocks.
pub(super) fn with_blocks(text: &str, blocks: &Value) -> String {
    if text.trim().is_empty() {
        return text_of_blocks(blocks);
    }
    let blocks = blocks.as_array().into_iter().flatten();
    let missing_blocks = blocks
        .filter(|block| {
            BLOCKS_MISSING_IN_TEXT
                .iter()
                .any(|kind| block["type"] == *kind)
        })
        .map(text_of)
        .filter(|block| !text.contains(block.as_str()));
    let missing_blocks: Vec<String> = missing_blocks.collect();
    lines([text, &missing_blocks.join("\n")])
}

/// Returns the text of blocks, one line per block.
pub(super) fn text_of_blocks(blocks: &Value) -> String {
    let mut text = String::new();
    for block in blocks.as_array().into_iter().flatten() {
        append(block, &mut text);
        end_line(&mut text);
    }
    text.trim().to_owned()
}

/// Returns the text of a block.
fn text_of(block: &Value) -> String {
    let mut text = String::new();
    append(block, &mut text);
    text.trim().to_owned()
}

/// Appends the text of a block or of one of its elements.
fn append(element: &Value, text: &mut String) {
    let field = |name: &str| element[name].as_str().unwrap_or_default();
    match field("type") {
        "mrkdwn" => text.push_str(&decode_text(field("text"))),
        "plain_text" | "text" | "markdown" | "raw_text" => text.push_str(field("text")),
        "date" => text.push_str(field("fallback")),
        "color" => text.push_str(field("value")),
        "link" => {
            let url = field("url");
            text.push_str(&match field("text") {
                "" => url.to_owned(),
                label if label == url => url.to_owned(),
                label => format!("{label} ({url})"),
            });
        }
        "user" => text.push_str(&format!("@{}", field("user_id"))),
        "usergroup" => text.push_str(&format!("@{}", field("usergroup_id"))),
        "channel" => text.push_str(&format!("#{}", field("channel_id"))),
        "broadcast" => text.push_str(&format!("@{}", field("range"))),
        "emoji" => text.push_str(&format!(":{}:", field("name"))),
        "image" => text.push_str(&format!("[an image: {}]", field("alt_text"))),
        // Buttons and menus are no content.
        "actions" | "input" => {}
        kind => append_children(kind, element, text),
    }
}

/// Appends the parts of a block: its title, its text, its fields and its elements.
fn append_children(kind: &str, element: &Value, text: &mut String) {
    let has_lines = matches!(kind, "rich_text_list" | "rich_text" | "section");
    for row in element["rows"].as_array().into_iter().flatten() {
        append_row(row, text);
    }
    for name in ["title", "text", "elements", "fields", "blocks", "message"] {
        match &element[name] {
            Value::Array(children) => {
                for child in children {
                    append(child, text);
                    if has_lines || name == "blocks" {
                        end_line(text);
                    }
                }
            }
            Value::Object(_) => {
                append(&element[name], text);
                end_line(text);
            }
            _ => {}
        }
    }
}

/// Appends a row of a table as a line.
fn append_row(row: &Value, text: &mut String) {
    let cells = row.as_array().into_iter().flatten();
    let cells: Vec<String> = cells.map(|cell| text_of(cell).replace('\n', " ")).collect();
    text.push_str(&cells.join(" | "));
    end_line(text);
}

/// Ends the line unless it is empty.
fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::own_words::own_words;
    use goondan_markup::escaped_mrkdwn as escaped;

    #[test]
    fn answers_cannot_mention_a_channel() {
        assert_eq!(escaped("<!channel> a & b"), "&lt;!channel&gt; a &amp; b");
    }

    #[test]
    fn text_is_decoded_once() {
        for (text, expected) in [
            ("a &lt; b &amp;&amp; c", "a < b && c"),
            ("&amp;lt;@U1&amp;gt;", "&lt;@U1&gt;"),
            ("&lt;@U1&gt;", "<@U1>"),
            ("<@U1> and <@U2|ada>", "@U1 and @ada"),
            (
                "in <#C1|general> and <#C2> and <#C3|>",
                "in #general and #C2 and #C3",
            ),
            (
                "<https://h/?x=1&amp;y=2|our page>",
                "our page (https://h/?x=1&y=2)",
            ),
            ("<https://h/?x=1&amp;y=2>", "https://h/?x=1&y=2"),
            ("<https://h|https://h>", "https://h"),
            ("<mailto:a@b.c|a@b.c> <tel:123>", "a@b.c 123"),
            ("<!here> <!subteam^S1|@ops> <!subteam^S1>", "@here @ops @S1"),
            ("<!date^1^{date}|today>", "today"),
            ("a < b", "a < b"),
            ("", ""),
        ] {
            assert_eq!(decode_text(text), expected, "{text}");
        }
    }

    #[test]
    fn labels_quotes_and_code_are_not_own_words() {
        let rich = |kind: &str| {
            let quote = json!({"type": kind, "elements": [{"type": "text", "text": "/approve 1\n/deny 1"}]});
            json!([{"type": "rich_text", "elements": [quote]}])
        };
        let own = |text: &str, blocks: &Value| own_words(&own_text(text, blocks));
        for (text, expected) in [
            ("/approve 1", "/approve 1"),
            ("<@U1> /approve 1", "@ /approve 1"),
            ("&gt; /approve 1\nno", "no"),
            ("&gt;&gt;&gt; mallory wrote\n/approve 1", ""),
            ("hi <!subteam^S1|x\n/approve 1>", "hi \u{fffc}"),
            ("hi <!date^1^{date}|x\n/approve 1>", "hi \u{fffc}"),
            ("hi <@U1|x\n/approve 1>", "hi @"),
            ("```a\n/approve 1```", "\u{fffc}"),
        ] {
            assert_eq!(own(text, &Value::Null), expected, "{text}");
        }
        for kind in ["rich_text_quote", "rich_text_preformatted"] {
            assert_eq!(own("look\n/approve 1\n/deny 1", &rich(kind)), "look");
        }
        let section = rich("rich_text_section");
        assert_eq!(own("look\n/approve 1", &section), "look\n/approve 1");
        assert_eq!(
            decode_text("<!date^1^{date}|x\n/approve 1>"),
            "x /approve 1"
        );
    }

    #[test]
    fn blocks_are_converted_to_lines() {
        let blocks = json!([
            {"type": "header", "text": {"type": "plain_text", "text": "Build & test"}},
            {"type": "rich_text", "elements": [
                {"type": "rich_text_section", "elements": [
                    {"type": "text", "text": "by "}, {"type": "user", "user_id": "U1"},
                    {"type": "text", "text": " "}, {"type": "emoji", "name": "tada"},
                ]},
                {"type": "rich_text_list", "elements": [
                    {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
                    {"type": "rich_text_section", "elements": [{"type": "link", "url": "https://h", "text": "two"}]},
                ]},
            ]},
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "a &lt; b"}]},
            {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Go"}}]},
            "x",
        ]);
        assert_eq!(
            text_of_blocks(&blocks),
            "Build & test\nby @U1 :tada:\none\ntwo (https://h)\na < b"
        );
    }

    #[test]
    fn tables_and_markdown_are_added_to_the_text() {
        let rich = |text: &str| {
            let section =
                json!({"type": "rich_text_section", "elements": [{"type": "text", "text": text}]});
            json!({"type": "rich_text", "elements": [section, section]})
        };
        let raw = |text: &str| json!({"type": "raw_text", "text": text});
        let blocks = json!([
            {"type": "markdown", "text": "**Report** a < b"},
            {"type": "section", "text": {"type": "mrkdwn", "text": "repeated"}},
            {"type": "table", "rows": [[raw("name"), raw("n")], [rich("a"), raw("1")]]},
        ]);
        let table = "name | n\na a | 1";
        assert_eq!(
            with_blocks(" ", &blocks),
            format!("**Report** a < b\nrepeated\n{table}")
        );
        assert_eq!(
            with_blocks("repeated", &blocks),
            format!("repeated\n**Report** a < b\n{table}")
        );
        let whole = format!("**Report** a < b {table}");
        assert_eq!(with_blocks(&whole, &blocks), whole);
        assert_eq!(with_blocks("x", &Value::Null), "x");
    }

    proptest! {
        #[test]
        fn decoding_reverses_escaping(text in "(\\PC|[<>&]){0,60}") {
            prop_assert_eq!(decode_text(&escaped(&text)), text);
        }
    }
}
