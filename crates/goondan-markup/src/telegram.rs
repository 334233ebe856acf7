//! Markup of Telegram: a few HTML elements. Elements with code contain no other element.

use super::{BlockKind, MarkupFormat, TextBlock, TextSpan};

/// Telegram's HTML.
pub const TELEGRAM: MarkupFormat = MarkupFormat {
    render,
    // Telegram counts the text without elements, so the messages are a little shorter.
    max_size: 4_096,
    char_size: char::len_utf16,
};

fn render(block: &TextBlock) -> String {
    let text = match &block.kind {
        BlockKind::Code(language) => return code(language, &block.text()),
        BlockKind::Heading(_) => format!("<b>{}</b>", without_bold(block).lines("", "  ", line)),
        BlockKind::Paragraph => block.lines("", "  ", line),
    };
    match block.is_quote {
        true => format!("<blockquote>{text}</blockquote>"),
        false => text,
    }
}

fn code(language: &str, text: &str) -> String {
    let text = escaped(text);
    match language {
        "" => format!("<pre>{text}</pre>"),
        language => format!("<pre><code class=\"language-{language}\">{text}</code></pre>"),
    }
}

/// Returns a heading without the styles that a heading already has, or cannot have.
fn without_bold(block: &TextBlock) -> TextBlock {
    let mut block = block.clone();
    for span in &mut block.spans {
        (span.style.is_bold, span.style.is_code) = (false, false);
    }
    block
}

fn line(spans: &[TextSpan]) -> String {
    spans.iter().map(mark).collect()
}

fn mark(span: &TextSpan) -> String {
    let (before, core, after) = span.trimmed();
    let style = span.style;
    let mut marked = escaped(core);
    if style.is_code && span.link.is_none() && !core.is_empty() {
        return format!("{before}<code>{marked}</code>{after}");
    }
    if let Some(url) = span.link.as_ref().filter(|_| !core.is_empty()) {
        marked = format!("<a href=\"{}\">{marked}</a>", escaped(url));
    }
    for (has_mark, name) in [
        (style.is_struck, "s"),
        (style.is_italic, "i"),
        (style.is_bold, "b"),
    ] {
        if has_mark && !core.is_empty() {
            marked = format!("<{name}>{marked}</{name}>");
        }
    }
    format!("{before}{marked}{after}")
}

/// Returns text that Telegram shows as written.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
