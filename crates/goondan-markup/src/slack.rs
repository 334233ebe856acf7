//! Markup of Slack: `*bold*`, `_italic_`, `~struck~`, code and `<URL|text>`.

use super::{
    BlockKind, MarkupFormat, TextBlock, TextSpan, ZERO_WIDTH_SPACE, marked_line,
    separated_backticks,
};

/// Slack's mrkdwn.
pub const SLACK: MarkupFormat = MarkupFormat {
    render,
    // Slack recommends this limit.
    max_size: 4_000,
    char_size: |_| 1,
};

fn render(block: &TextBlock) -> String {
    match &block.kind {
        BlockKind::Code(_) => format!("```\n{}\n```", escaped(&separated_backticks(&block.text()))),
        BlockKind::Heading(_) => bold(block).lines("> ", "    ", line),
        BlockKind::Paragraph => block.lines("> ", "    ", line),
    }
}

/// Returns a heading as bold text.
fn bold(block: &TextBlock) -> TextBlock {
    let mut block = block.clone();
    block
        .spans
        .iter_mut()
        .for_each(|span| span.style.is_bold = true);
    block
}

fn line(spans: &[TextSpan]) -> String {
    let line = marked_line(spans, mark);
    match line.starts_with("&gt;") {
        // Slack shows this as a quote.
        true => format!("{ZERO_WIDTH_SPACE}{line}"),
        false => line,
    }
}

/// Renders a span. Slack has no escape for a backtick in code.
fn mark(span: &TextSpan, text: &str) -> String {
    let style = span.style;
    let is_code = style.is_code && !text.contains('`');
    let mut marked = match is_code || span.link.as_deref() == Some(text) {
        true => escaped(text),
        false => with_inactive_markers(&escaped(text)),
    };
    if let Some(url) = &span.link {
        marked = match url == text {
            true => format!("<{marked}>"),
            false => format!("<{}|{marked}>", escaped(url)),
        };
    }
    for (has_mark, mark) in [
        (is_code, '`'),
        (style.is_struck, '~'),
        (style.is_italic, '_'),
        (style.is_bold, '*'),
    ] {
        if has_mark {
            marked = format!("{mark}{marked}{mark}");
        }
    }
    marked
}

/// Escapes control sequences, so that an agent cannot mention a whole channel.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Adds a zero-width space after each marker that could start formatting. Slack has no escape for
/// markers.
fn with_inactive_markers(text: &str) -> String {
    let mut separated = String::with_capacity(text.len());
    for character in text.chars() {
        let is_marker = matches!(character, '*' | '_' | '~' | '`');
        let follows_word = separated
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        separated.push(character);
        if is_marker && !follows_word && text.matches(character).nth(1).is_some() {
            separated.push(ZERO_WIDTH_SPACE);
        }
    }
    separated
}
