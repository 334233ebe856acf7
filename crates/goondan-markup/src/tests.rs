use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser};

use super::*;

const FORMATS: [(&str, &MarkupFormat); 3] = [
    ("slack", &SLACK),
    ("telegram", &TELEGRAM),
    ("discord", &DISCORD),
];

fn joined(markdown: &str, format: &MarkupFormat) -> String {
    messages(markdown, format).join("\u{0}")
}

/// Returns the format with a smaller limit.
fn limited(format: &MarkupFormat, max_size: usize) -> MarkupFormat {
    MarkupFormat {
        max_size,
        ..*format
    }
}

const ANSWER: &str = "# A *long* answer\n\nSome **bold** and `code` & <tags>, see [the page](https://example.com/?a=1&b=2).\n\n\
    - one\n  - two\n1. first\n2. second\n\n> quoted\n> twice\n\n```rust\nlet a = 1 < 2;\n```\n\n| a | b |\n|---|---|\n| 1 | **22** |\n";

#[test]
fn answers_have_the_markup_of_each_platform() {
    assert_eq!(
        joined(ANSWER, &SLACK),
        "*A* *_long_* *answer*\n\nSome *bold* and `code` &amp; &lt;tags&gt;, see \
         <https://example.com/?a=1&amp;b=2|the page>.\n• one\n    • two\n1. first\n2. second\n\n> quoted\n> \
         twice\n\n```\nlet a = 1 &lt; 2;\n```\n\n```\na | b\n--|---\n1 | 22\n```"
    );
    assert_eq!(
        joined(ANSWER, &TELEGRAM),
        "<b>A <i>long</i> answer</b>\n\nSome <b>bold</b> and <code>code</code> &amp; &lt;tags&gt;, see <a \
         href=\"https://example.com/?a=1&amp;b=2\">the page</a>.\n• one\n  • two\n1. first\n2. \
         second\n\n<blockquote>quoted\ntwice</blockquote>\n\n<pre><code class=\"language-rust\">let a = 1 &lt; \
         2;</code></pre>\n\n<pre>a | b\n--|---\n1 | 22</pre>"
    );
    assert_eq!(
        joined(ANSWER, &DISCORD),
        "# A *long* answer\n\nSome **bold** and `code` & \\<tags\\>, see [the \
         page](https://example.com/?a=1&b=2).\n- one\n  - two\n1. first\n2. second\n\n> quoted\n> \
         twice\n\n```rust\nlet a = 1 < 2;\n```\n\n```\na | b\n--|---\n1 | 22\n```"
    );
}

#[test]
fn text_is_escaped_against_control_sequences() {
    for (markdown, slack, discord) in [
        (
            "<!channel> <@U1>",
            "&lt;!channel&gt; &lt;@U1&gt;",
            "\\<!channel\\> \\<@U1\\>",
        ),
        (
            "[x](javascript:alert)",
            "x (javascript:alert)",
            "x (javascript:alert)",
        ),
        ("\\*no\\*", "*\u{200b}no*", "\\*no\\*"),
        ("snake_case_name", "snake_case_name", "snake\\_case\\_name"),
        (
            "see https://h/a_b.",
            "see <https://h/a_b>.",
            "see <https://h/a_b>.",
        ),
        (
            "a**b**c",
            "a\u{200b}*b*\u{200b}c",
            "a\u{200b}**b**\u{200b}c",
        ),
        ("[a]: https://b", "[a]: <https://b>", "\\[a\\]: <https://b>"),
    ] {
        assert_eq!(joined(markdown, &SLACK), slack, "{markdown}");
        assert_eq!(joined(markdown, &DISCORD), discord, "{markdown}");
    }
}

#[test]
fn wide_tables_become_lists() {
    let cell = "x".repeat(70);
    let table = format!("| name | text |\n|---|---|\n| a | {cell} |\n| b | {cell} |\n");
    let expected = format!("*name*: a\n*text*: {cell}\n\n*name*: b\n*text*: {cell}");
    assert_eq!(
        joined(&table, &SLACK).replace(ZERO_WIDTH_SPACE, ""),
        expected
    );
}

#[test]
fn long_answers_are_split_at_paragraphs_and_code_blocks_are_opened_again() {
    let code = "    let x = 1;\n".repeat(20);
    let markdown = format!("First words.\n\nSecond words.\n\n```rust\n{code}```\n\nDone.");
    let split = messages(&markdown, &limited(&DISCORD, 120));
    assert_eq!(split[0].lines().next(), Some("First words."));
    assert!(split.last().unwrap().ends_with("Done."), "{split:?}");
    let mut lines = 0;
    for message in &split {
        assert_eq!(message.matches("```").count() % 2, 0, "{message}");
        lines += message.matches("    let x = 1;").count();
    }
    assert_eq!(lines, 20);
    assert_eq!(
        messages("One two.\n\nThree four.", &limited(&SLACK, 14)),
        ["One two.", "Three four."]
    );
}

/// Returns the visible text of a Markdown source, without white space.
fn visible(markdown: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let text = Parser::new_ext(markdown, options).filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
            Some(text)
        }
        _ => None,
    });
    text.flat_map(|text| text.chars().collect::<Vec<_>>())
        .filter(|c| !c.is_whitespace() && *c != ZERO_WIDTH_SPACE)
        .collect()
}

/// Returns true if the characters of `part` occur in `whole` in the same order.
fn contains_in_order(whole: &str, part: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|expected| rest.any(|c| c == expected))
}

/// Returns the characters in alphabetical order.
fn sorted(text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters.into_iter().collect()
}

/// Parses Telegram HTML. Returns the text, or the reason why Telegram refuses the HTML.
fn telegram_text(html: &str) -> Result<String, String> {
    let (mut text, mut open, mut rest) = (String::new(), Vec::new(), html);
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = after.split_once('>').ok_or("an open tag")?;
        rest = after;
        match tag.strip_prefix('/') {
            Some(name) if open.pop() == Some(name) => {}
            Some(name) => return Err(format!("unexpected {name}")),
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
        let is_known = open
            .iter()
            .all(|name| ["b", "i", "s", "a", "code", "pre", "blockquote"].contains(name));
        if !is_known {
            return Err(format!("unknown {tag}"));
        }
    }
    if !open.is_empty() {
        return Err(format!("open {open:?}"));
    }
    Ok(text + rest)
}

fn unescaped_text(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

#[test]
fn backticks_in_a_url_are_percent_encoded() {
    let markdown = "<https://h/a```> [x](https://h/b`c)";
    assert_eq!(joined(markdown, &SLACK).matches('`').count(), 3);
    for (name, format) in FORMATS {
        let message = joined(markdown, format);
        assert!(
            message.contains("https://h/a%60%60%60"),
            "{name}: {message}"
        );
        assert!(message.contains("https://h/b%60c"), "{name}: {message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_markdown_is_valid_markup_and_no_text_is_lost(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "word", "*", "**", "_", "~~", "`", "```", "```rust\n", "\n", "\n\n", "> ", "- ", "1. ", "# ", "| a | b |\n|---|---|\n",
            "| ", "[", "](https://h/x)", "](javascript:x)", "![", "<b>", "<!channel>", "&", "&lt;", "<", ">", "https://h/a_b", " ", "    ",
            "\t", "é🙂", "\\", "\u{200b}", "@U1", "---\n", "- [x] ", "long words that need a place to be split at",
        ]), 0..40),
        max_size in 150..400_usize,
    ) {
        let markdown = parts.concat();
        let expected = visible(&markdown);
        for (name, format) in FORMATS {
            let format = limited(format, max_size);
            let split = messages(&markdown, &format);
            prop_assert_eq!(split.is_empty(), markdown.trim().is_empty(), "{}", name);
            let mut text = String::new();
            for message in &split {
                let size: usize = message.chars().map(format.char_size).sum();
                prop_assert!(size <= max_size && !message.trim().is_empty(), "{}: {}", name, message);
                let shown = match name {
                    "telegram" => telegram_text(message).map_err(|why| TestCaseError::fail(format!("{why}: {message}")))?,
                    "slack" => {
                        let is_safe = !message.contains("<!") && !message.contains("<@");
                        prop_assert!(is_safe, "{}", message);
                        message.clone()
                    }
                    _ => message.clone(),
                };
                if name != "telegram" {
                    prop_assert_eq!(message.matches("```").count() % 2, 0, "{}: {}", name, message);
                }
                text.push_str(&match name {
                    "discord" => shown,
                    _ => unescaped_text(&shown),
                });
            }
            let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != ZERO_WIDTH_SPACE).collect();
            // The list of a wide table repeats the headings, in another order.
            let is_complete = match markdown.contains("|---") {
                true => contains_in_order(&sorted(&text), &sorted(&expected)),
                false => contains_in_order(&text, &expected),
            };
            prop_assert!(is_complete, "{}: {:?} lacks {:?} of {:?}", name, text, expected, markdown);
        }
    }
}

/// Writes the messages of Markdown samples for the parsers in `ci/platform-updates`.
#[test]
#[ignore = "needs GOONDAN_PLATFORM_UPDATES"]
fn published_parsers_read_the_messages() {
    let directory = std::env::var("GOONDAN_PLATFORM_UPDATES").unwrap();
    let directory = std::path::Path::new(&directory);
    let samples = std::fs::read_to_string(directory.join("markdown.json")).unwrap();
    let samples: Vec<String> = serde_json::from_str(&samples).unwrap();
    let rendered = samples.iter().map(|markdown| {
        let formats = FORMATS.map(|(name, format)| (name, messages(markdown, format)));
        serde_json::json!({"markdown": markdown, "messages": std::collections::BTreeMap::from(formats)})
    });
    let rendered: Vec<serde_json::Value> = rendered.collect();
    std::fs::write(
        directory.join("messages.json"),
        serde_json::to_vec(&rendered).unwrap(),
    )
    .unwrap();
}
